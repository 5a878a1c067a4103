"""Output of commands: tables that fit the terminal, times, amounts; and ids given by a prefix."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from rich.cells import cell_len

from duly.cli import output
from duly.cli.progress import describe_stage, job_progress
from duly.db.id_prefix import parse_id_prefix
from duly.errors import InvalidArgument, NotFound
from duly.jobs import repository
from duly.jobs.model import DEFAULT_ORG, JobStatus
from tests.support.command_line import CommandLine
from tests.support.fixtures import admin, database, worker
from tests.support.jobs.actions import Admin, JobActions
from tests.support.jobs.fixtures import jobs

__all__ = ["admin", "database", "jobs", "worker"]

IDS = [UUID(f"019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e{nth:02x}") for nth in range(3)]
SOON = datetime(2026, 11, 18, 2, 10, 33, 45_678, UTC)


@pytest.fixture
def cli(database: str, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)


# Tables ---------------------------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a table."""
    output.print_table(columns, rows)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_printed_table_is_not_wider_than_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: width)
    rows = [[uuid4(), "work", SOON, SOON, "任务失败" * 30], [uuid4(), "other", None, SOON, "x" * 200]]
    lines = table(("id", "type", "created_at", "finished_at", "last_error"), rows, capsys)
    assert max(map(cell_len, lines)) <= width
    assert all("…" in line for line in lines[1:])


def test_cells_that_fit_are_not_shortened(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    head, first = table(("id", "arguments"), [[IDS[0], "x" * 42]], capsys)
    assert first == f"{IDS[0]}  {'x' * 42}"
    assert head.split() == ["id", "arguments"]


def test_ids_are_shortened_last_and_stay_unique(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda: 50)
    random = [UUID(f"{nth}19a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77") for nth in range(3)]
    _, *rows = table(("id", "arguments"), [[key, "x" * 100] for key in random], capsys)
    assert [row.split()[0] for row in rows] == [str(key)[: len(rows[0].split()[0])] for key in random]
    _, *alike = table(("id", "arguments"), [[key, "x" * 100] for key in IDS], capsys)
    assert [row.split()[0] for row in alike] == [str(key) for key in IDS]


def test_without_a_terminal_no_cell_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    _, row = table(("id", "arguments"), [[IDS[0], "x" * 500]], capsys)
    assert row == f"{IDS[0]}  {'x' * 500}"


def test_a_list_of_jobs_fits_a_terminal_of_80_columns(
    cli: CommandLine, jobs: JobActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.enqueue(org=DEFAULT_ORG, rows=3)
    monkeypatch.setattr(output, "terminal_width", lambda: 80)
    lines = cli.output("jobs", "list").splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert len({line.split()[0] for line in lines}) == 4
    assert "queued" in lines[1]


# Times and amounts ----------------------------------------------------------------------------------------------------


def test_timeline_prints_times_with_zone_and_milliseconds(cli: CommandLine) -> None:
    key = cli.json("jobs", "enqueue", "work")["id"]
    (line,) = cli.output("jobs", "timeline", key).splitlines()[1:]
    _, day, clock, zone, *_ = line.split()
    assert datetime.fromisoformat(f"{day}T{clock}").microsecond % 1000 == 0
    assert len(clock) == len("02:10:33.045")
    assert zone == f"{datetime.now().astimezone():%Z}"
    assert output.format_instant(SOON.astimezone()).split()[1].endswith(":33.045")


@pytest.mark.parametrize(
    ("amount", "text"),
    [("9500.000000", "9500.00"), ("0.5", "0.50"), ("1.2345", "1.2345"), ("-3", "-3.00"), ("1E+3", "1000.00")],
)
def test_amount_is_printed_with_at_least_two_decimals(amount: str, text: str) -> None:
    assert output.format_value(Decimal(amount)) == text


# Jobs -----------------------------------------------------------------------------------------------------------------


async def test_show_prints_the_starts_of_a_job_on_one_line(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    await jobs.claim()
    lines = cli.output("jobs", "show", key).splitlines()
    assert [line for line in lines if line.startswith(("starts", "attempt", "max_attempts"))] == [
        "starts               1 of 5 (attempt 0, counted from 0)"
    ]
    printed = cli.json("jobs", "show", key)
    assert (printed["starts"], printed["attempt"], printed["max_attempts"]) == (1, 0, 5)


async def test_watch_without_a_terminal_prints_errors_and_progress_in_columns(
    cli: CommandLine, jobs: JobActions, capsys: pytest.CaptureFixture[str]
) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    job = await repository.find_job(jobs.worker, DEFAULT_ORG, key)
    await jobs.fail(*await jobs.claim())
    failed = await repository.find_job(jobs.worker, DEFAULT_ORG, key)
    assert job
    assert failed
    assert describe_stage(failed) == "start 1 of 5 failed: OOPS: because"
    with job_progress(job, as_json=False) as print_change:
        print_change(failed)
        print_change(replace(failed, status=JobStatus.DEAD_LETTER))
        print_change(replace(failed, status=JobStatus.RUNNING, stage="half", progress=50))
    columns = [line.split(str(key)) for line in capsys.readouterr().out.splitlines()]
    assert {len(before) for before, _ in columns} == {12}
    assert columns[2][1].split() == ["50", "%", "half"]


async def test_watch_prints_the_result_of_a_finished_job(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    await repository.settle_done(jobs.worker, await jobs.claim(), [{"hello": "Anna"}])
    assert cli.output("jobs", "show", key, "--watch").splitlines()[-1] == 'result    {"hello": "Anna"}'


def test_resume_of_an_unpaused_queue_prints_unchanged_and_the_paused_ones(cli: CommandLine) -> None:
    assert cli.output("jobs", "resume", "--queue", "images") == ("unchanged queue images was not paused; nothing is\n")
    first = cli.output("jobs", "pause", "--queue", "images")
    assert cli.output("jobs", "pause", "--queue", "images") == first  # and since when it has been
    assert cli.output("jobs", "resume", "--queue", "imagse") == (
        "unchanged queue imagse was not paused; paused: queue images\n"
    )
    assert cli.output("jobs", "resume", "--queue", "images") == "resumed   queue images\n"
    assert cli.json("jobs", "resume", "--queue", "images")["resumed"] is False


# Ids ------------------------------------------------------------------------------------------------------------------


def insert_jobs(admin: Admin, *keys: UUID) -> None:
    """Jobs with these ids."""
    for key in keys:
        admin.execute("insert into ledger.job (id, org_id, type) values (%s, %s, 'work')", (key, DEFAULT_ORG))


def test_job_is_found_by_its_id_prefix(cli: CommandLine, admin: Admin) -> None:
    key, other = UUID("a19a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77"), UUID("b19a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77")
    insert_jobs(admin, key, other)
    for shortened in ("a19a", "A19A8B8E", "a19a8b8e-5f", str(key), key.hex):
        assert cli.json("jobs", "show", shortened)["id"] == str(key)
    assert cli.output("jobs", "timeline", "a19a") == cli.output("jobs", "timeline", key)
    assert "no worker is alive" in cli.output("jobs", "explain", "a19a")
    assert cli.json("jobs", "cancel", "a19a")["id"] == str(key)
    assert f"job {key} is canceled" in str(cli.error("jobs", "redrive", "a19a"))


def test_ambiguous_id_prefix_lists_the_candidates(cli: CommandLine, admin: Admin) -> None:
    insert_jobs(admin, *IDS)
    refusal = cli.error("jobs", "cancel", "019a8b8e")
    assert isinstance(refusal, InvalidArgument)
    first, *candidates = str(refusal).splitlines()
    assert first == "several job ids begin with 019a8b8e; use a longer prefix:"
    assert candidates == [f"  {key}  work  queued" for key in IDS]
    assert cli.json("jobs", "list", "--status", "canceled")["items"] == []


def test_unknown_or_too_short_id_prefix_is_refused(cli: CommandLine) -> None:
    for kind, arguments in (("job", "jobs show"), ("post", "posts show"), ("session", "ingest show")):
        refusal = cli.error(*arguments.split(), "019a")
        assert isinstance(refusal, NotFound)
        assert str(refusal) == f"there is no {kind} whose id begins with 019a"
        for wrong in ("019", "nothing-like-it", "", "0" * 33):
            assert cli.run(*arguments.split(), wrong).exit_code == 2
    message = cli.error("notifications", "show", "019a")
    assert str(message) == "there is no message whose id begins with 019a"
    with pytest.raises(InvalidArgument, match="at least its first 4 characters"):
        parse_id_prefix("019")


def test_job_of_another_org_is_not_found_by_its_id_prefix(cli: CommandLine, admin: Admin) -> None:
    insert_jobs(admin, IDS[0])
    cli.output("orgs", "create", "acme")
    assert isinstance(cli.error("jobs", "show", "019a8b8e", "--org", "acme"), NotFound)


def test_post_session_and_message_commands_accept_an_id_prefix(cli: CommandLine, admin: Admin) -> None:
    cli.output("people", "create", "anna", "--telegram-id", 42)
    row = admin.execute(
        "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'alert', '{}')"
        " returning id"
    ).fetchone()
    assert row
    message = str(row[0])
    assert cli.json("notifications", "show", message[:13])["id"] == message
    fixture = Path(__file__).parents[3] / "fixtures" / "sample_schedule.json"
    session = cli.json("ingest", "capture", "--fixture", fixture, "--user", 42, "--wait", 0)["id"]
    for verb in ("show", "timeline"):
        assert cli.output("ingest", verb, session[:13]) == cli.output("ingest", verb, session)
    assert "no worker is alive" in cli.output("ingest", "explain", session[:13])
