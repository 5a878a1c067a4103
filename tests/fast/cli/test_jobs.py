"""`duly jobs`: enqueue, list, explain, steer."""

import json
import re
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from duly.cli.jobs_common import actor
from duly.cli.progress import count_progress, job_progress
from duly.db.migrations import Names
from duly.errors import IllegalTransition, InvalidArgument, KeyReused, NotFound, NotMigrated
from duly.jobs import repository
from duly.jobs.model import DEFAULT_ORG, TypeInQueue
from tests.support.command_line import CommandLine
from tests.support.fixtures import admin, database, worker
from tests.support.jobs.actions import Admin, JobActions
from tests.support.jobs.fixtures import jobs

__all__ = ["admin", "database", "jobs", "worker"]


@pytest.fixture
def cli(database: str, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)


async def make_dead_letters(
    jobs: JobActions, cli: CommandLine, rows: int = 1, code: str = "OOPS", job_type: str = "work"
) -> None:
    """Enqueue jobs and fail each of them for good."""
    for _ in range(rows):
        cli.output("jobs", "enqueue", job_type, "--max-attempts", 1)
    job_types = [TypeInQueue("default", job_type)]
    await jobs.fail(*await jobs.claim(*job_types, limit=rows), code=code)


async def test_watch_exits_1_if_the_job_did_not_succeed_or_time_is_up(jobs: JobActions, cli: CommandLine) -> None:
    await make_dead_letters(jobs, cli)
    (key,) = jobs.columns("id")
    watched = cli.run("jobs", "show", key, "--watch")
    assert watched.exit_code == 1
    assert watched.stdout.splitlines()[-1].startswith(f"ended     {key}  work  dead_letter  OOPS: because")
    waited = cli.run("jobs", "enqueue", "work", "--watch", "--watch-for", "100ms")
    assert waited.exit_code == 1
    assert "the job has not ended; why: duly jobs explain" in waited.stderr
    await repository.settle_done(jobs.worker, await jobs.claim(), [None])
    _, done = jobs.columns("id")
    assert cli.run("jobs", "show", done, "--watch").exit_code == 0


# Asking ---------------------------------------------------------------------------------------------------------------


def test_enqueue_stores_every_option_in_the_job(cli: CommandLine, jobs: JobActions) -> None:
    options = ["--queue", "images", "--key", "k", "--at", "2030-01-31T08:00+01:00", "--priority", -5]
    harder = ["--max-attempts", 3, "--backoff", "fixed", "--timeout", "2m"]
    created = cli.json("jobs", "enqueue", "work", *options, *harder)
    assert {name: created[name] for name in ("queue", "idempotency_key", "run_at", "priority", "max_attempts")} == {
        "queue": "images",
        "idempotency_key": "k",
        "run_at": "2030-01-31T07:00:00+00:00",
        "priority": -5,
        "max_attempts": 3,
    }
    assert (created["backoff_policy"], created["timeout_seconds"], created["requested_by"]) == ("fixed", 120.0, actor())
    assert actor().startswith("cli:")
    assert jobs.events(created["id"])[0] == (None, "queued", {"actor": actor()})
    again = cli.json("jobs", "enqueue", "work", *options)
    assert (again["outcome"], again["id"]) == ("existing", created["id"])
    assert isinstance(cli.error("jobs", "enqueue", "other", *options), KeyReused)
    delayed = cli.output("jobs", "enqueue", "work", "--delay", "1h")
    assert delayed.startswith("created   ")
    assert "  queued  due 2" in delayed


def test_payload_is_read_from_an_argument_a_file_or_stdin(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"from": "file"}')
    assert cli.json("jobs", "enqueue", "work", "--payload", f"@{file}")["payload"] == {"from": "file"}
    assert cli.json("jobs", "enqueue", "work", "--payload", "-", stdin='{"from": "input"}')["payload"] == {
        "from": "input"
    }
    assert cli.json("jobs", "enqueue", "work")["payload"] == {}


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        (["--payload", '{"a": 1,}'], r"--payload: not JSON at line 1, column 9"),
        (["--payload", '{"a": [1, NaN]}'], r"--payload: \$\.a\[1\]: is not a finite number"),
        (["--payload", "[]"], r"--payload: \$: must be an object"),
        (["--payload", "[" * 100_000], r"--payload: "),
        (["--payload", "@/nowhere/at/all"], r"--payload @/nowhere/at/all: .*No such file"),
        (["--payload", json.dumps({"a": "x" * 1024 * 1024})], r"--payload: \$\.a: here the value exceeds its limit"),
        (["--delay", "soon"], r"--delay: duration 'soon'"),
        (["--timeout", "-1s"], r"--timeout: duration '-1s'"),
        (["--at", "tomorrow"], r"--at 'tomorrow': must be a time such as"),
        (["--at", "2030-01-31", "--delay", "1s"], r"--at 2030-01-31 and --delay 1s: "),
        (["--org", "unknown"], r"there is no org 'unknown'; create it with"),
    ],
)
def test_invalid_enqueue_option_is_refused_and_named(arguments: list[str], pattern: str, cli: CommandLine) -> None:
    refusal = cli.error("jobs", "enqueue", "work", *arguments)
    assert isinstance(refusal, InvalidArgument | NotFound)
    assert refusal.exit_status == 2
    assert re.match(pattern, str(refusal)), str(refusal)


@pytest.mark.parametrize("arguments", [["--priority", "101"], ["--backoff", "never"], ["--max-attempts", "0"]])
def test_out_of_range_enqueue_option_is_a_usage_error(arguments: list[str], cli: CommandLine) -> None:
    refused = cli.run("jobs", "enqueue", "work", *arguments)
    assert refused.exit_code == 2
    assert arguments[0] in refused.stderr


# Looking --------------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_in_pages_and_filtered(cli: CommandLine, jobs: JobActions) -> None:
    keys = [str(key) for key in jobs.enqueue(org=DEFAULT_ORG, rows=3)]
    first = cli.json("jobs", "list", "--limit", 2)
    assert [job["id"] for job in first["items"]] == [keys[2], keys[1]]
    rest = cli.json("jobs", "list", "--limit", 2, "--cursor", first["next"])
    assert ([job["id"] for job in rest["items"]], rest["next"]) == ([keys[0]], None)
    cli.output("jobs", "cancel", keys[0])
    (only,) = cli.json("jobs", "list", "--status", "canceled", "--type", "work", "--queue", "default")["items"]
    assert only["id"] == keys[0]
    assert cli.json("jobs", "list", "--finished-from", only["finished_at"])["items"] == [only]
    assert cli.json("jobs", "list", "--finished-before", only["finished_at"])["items"] == []
    for nothing in (["--type", "other"], ["--queue", "other"], ["--status", "running"]):
        assert cli.json("jobs", "list", *nothing) == {"items": [], "next": None}
    head, newest, more = cli.output("jobs", "list", "--limit", 1).splitlines()
    assert head.split()[:5] == ["id", "type", "queue", "status", "starts"]
    assert newest.split()[:5] == [keys[2], "work", "default", "queued", "0/5"]
    assert more.startswith("more      --cursor ")
    assert isinstance(cli.error("jobs", "list", "--cursor", "nonsense"), InvalidArgument)


async def test_a_job_is_shown_with_the_traceback_of_its_last_failure(cli: CommandLine, jobs: JobActions) -> None:
    key = cli.json("jobs", "enqueue", "work", "--max-attempts", 2, "--backoff", "none")["id"]
    trace = 'Traceback (most recent call last):\n  File "shop.py", line 7, in price\n    \x1b[31mboom()\nKeyError: 1'
    for tracebacks in ((trace,), ()):
        leases = await jobs.claim()
        async with jobs.worker.transaction():
            await repository.settle_failed(jobs.worker, leases, ["KEY_ERROR"], ["KeyError: 1"], tracebacks)
        shown = cli.output("jobs", "show", key)
        assert cli.json("jobs", "show", key)["traceback"] == (trace if tracebacks else None)
        assert ('File "shop.py", line 7, in price' in shown) is bool(tracebacks)
        assert "\x1b" not in shown
        assert "shop.py" not in cli.output("jobs", "timeline", key)
    assert cli.json("jobs", "timeline", key)[2]["detail_json"]["traceback"] == trace


async def test_job_is_printed_with_its_timeline(cli: CommandLine, jobs: JobActions) -> None:
    created = cli.json("jobs", "enqueue", "work", "--payload", '{"n": 1}')
    found = cli.json("jobs", "show", created["id"])
    assert found == {name: created[name] for name in created if name != "outcome"} | {"traceback": None}
    assert created["created_at"].endswith("+00:00")
    shown = dict(line.split(maxsplit=1) for line in cli.output("jobs", "show", created["id"]).splitlines())
    assert (shown["status"], shown["org_id"], shown["payload"]) == ("queued", "default", '{"n": 1}')
    await repository.settle_done(jobs.worker, await jobs.claim(), [None])
    events = cli.json("jobs", "timeline", created["id"])
    assert [(event["seq"], event["next_status"]) for event in events] == [
        (1, "queued"),
        (2, "running"),
        (3, "succeeded"),
    ]
    head, first, *_ = cli.output("jobs", "timeline", created["id"]).splitlines()
    assert head.split() == ["seq", "at", "from", "to", "by", "details"]
    assert first.split()[4:6] == ["-", "queued"]


def test_explain_prints_one_sentence_or_a_reason_code_as_json(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG, delay_seconds=3600)
    assert re.fullmatch(r"It waits until .*, as requested when it was enqueued\.\n", cli.output("jobs", "explain", key))
    printed = cli.json("jobs", "explain", key)
    assert (printed["reason"], printed["status"], printed["id"]) == ("delayed", "queued", str(key))
    assert re.search(r"\d UTC, for another", printed["sentence"])


def test_org_option_accepts_a_name_or_id_and_limits_commands_to_its_jobs(cli: CommandLine, admin: Admin) -> None:
    ((org,),) = admin.execute("insert into duly.orgs (name) values ('acme') returning id").fetchall()
    created = cli.json("jobs", "enqueue", "work", "--org", "acme")
    assert created["org_id"] == str(org)
    for arguments in (["show"], ["timeline"], ["explain"], ["cancel"], ["cancel", "--now"], ["redrive"]):
        assert isinstance(cli.error("jobs", arguments[0], created["id"], *arguments[1:]), NotFound)
    assert cli.json("jobs", "list")["items"] == []
    assert cli.json("jobs", "show", created["id"], "--org", org)["id"] == created["id"]
    assert cli.json("jobs", "redrive-many", "--org", "acme")["matched"] == 0
    assert cli.json("jobs", "enqueue", "work", "--org", DEFAULT_ORG)["org_id"] == str(DEFAULT_ORG)


# Steering: every edge that a person can cause -------------------------------------------------------------------------


def test_cancel_ends_a_queued_job(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    assert cli.output("jobs", "cancel", key).startswith(f"canceled  {key}")
    assert jobs.events(key)[-1] == ("queued", "canceled", {"actor": actor(), "reason": "cancel_requested"})
    refusal = cli.error("jobs", "cancel", key)
    assert isinstance(refusal, IllegalTransition)
    assert "is canceled and cannot be cancelled" in str(refusal)


async def test_cancel_requests_a_running_job_to_stop(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    await jobs.claim()
    printed_text = cli.output("jobs", "cancel", key)
    assert printed_text.startswith(f"stopping  {key}")
    assert "--now" in printed_text
    assert jobs.events(key)[-1] == ("running", "running", {"actor": actor(), "reason": "cancel_requested"})
    assert cli.json("jobs", "explain", key)["reason"] == "cancel_requested"


async def test_cancel_now_ends_a_running_job(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    leases = await jobs.claim()
    assert cli.json("jobs", "cancel", key, "--now")["status"] == "canceled"
    assert jobs.events(key)[-1] == ("running", "canceled", {"actor": actor(), "reason": "cancel_requested"})
    assert await repository.settle_done(jobs.worker, leases, [None]) == frozenset()


def test_cancel_with_release_key_releases_the_key(cli: CommandLine, jobs: JobActions) -> None:
    first = cli.json("jobs", "enqueue", "work", "--key", "order:42")["id"]
    cli.output("jobs", "cancel", first)
    refusal = cli.error("jobs", "enqueue", "work", "--key", "order:42", "--queue", "images")
    assert f"job {first} (canceled), asked for with queue default, not images" in str(refusal)
    assert f"duly jobs cancel {first} --release-key" in str(refusal)
    assert cli.json("jobs", "cancel", first, "--release-key")["idempotency_key"] is None
    printed = {"actor": actor(), "reason": "key_released", "released_key": "order:42"}
    assert jobs.events(first)[-1] == ("canceled", "canceled", printed)
    assert cli.json("jobs", "enqueue", "work", "--key", "order:42", "--queue", "images")["outcome"] == "created"


def test_erase_asks_for_confirmation(cli: CommandLine, jobs: JobActions) -> None:
    (first, second, waits) = jobs.enqueue(org=DEFAULT_ORG, rows=3)
    for key in (first, second):
        cli.output("jobs", "cancel", key)
    refused = cli.run("jobs", "erase", first, stdin="n\n")
    assert refused.exit_code == 1
    assert f"Erase job {first} (work, canceled) and its 2 events for good? [y/N]" in refused.stderr
    assert cli.output("jobs", "erase", first, "--reason", "asked for", stdin="y\n").endswith(f"erased    {first}\n")
    assert cli.json("jobs", "erase", second) == {"id": str(second), "erased": True}
    assert isinstance(cli.error("jobs", "erase", waits, "--yes"), IllegalTransition)
    assert isinstance(cli.error("jobs", "erase", first, "--yes"), NotFound)
    assert isinstance(cli.error("jobs", "erase", waits, "--yes", "--reason", "x" * 501), InvalidArgument)
    asked = "select key, actor, detail_json ->> 'reason' from duly.transition where machine = 'job_erasure' order by ts"
    assert jobs.admin.execute(asked).fetchall() == [
        (str(first), actor(), "asked for"),
        (str(second), actor(), None),
    ]
    assert jobs.columns("id") == [waits]


async def test_redrive_puts_a_dead_letter_back_in_the_queue(cli: CommandLine, jobs: JobActions) -> None:
    await make_dead_letters(jobs, cli)
    (key,) = jobs.columns("id")
    assert cli.output("jobs", "redrive", key).startswith(f"redriven  {key}  work  queued")
    assert jobs.events(key)[-1] == ("dead_letter", "queued", {"actor": actor(), "reason": "redriven"})
    assert isinstance(cli.error("jobs", "redrive", key), IllegalTransition)


async def test_redrive_many_counts_dead_letters_before_it_redrives_them(cli: CommandLine, jobs: JobActions) -> None:
    await make_dead_letters(jobs, cli, 2, "OOPS")
    await make_dead_letters(jobs, cli, 1, "TIMEOUT", "other")
    assert cli.json("jobs", "redrive-many", "--dry-run") == {"matched": 3, "redriven": 0}
    assert cli.json("jobs", "redrive-many", "--dry-run", "--code", "OOPS", "--queue", "default") == {
        "matched": 2,
        "redriven": 0,
    }
    latest = max(jobs.columns("finished_at"))
    assert cli.json("jobs", "redrive-many", "--dry-run", "--finished-from", latest.isoformat())["matched"] == 1
    assert cli.json("jobs", "redrive-many", "--dry-run", "--finished-before", latest.isoformat())["matched"] == 2
    refused = cli.run("jobs", "redrive-many", "--type", "work", stdin="n\n")
    assert refused.exit_code == 1
    assert set(jobs.columns("status")) == {"dead_letter"}
    agreed = cli.run("jobs", "redrive-many", "--type", "work", stdin="y\n")
    matched, *_, redriven = agreed.stdout.splitlines()
    assert (matched, redriven) == ("matched   2 dead letters", "redriven  2")
    assert jobs.columns("status") == ["queued", "queued", "dead_letter"]
    assert cli.output("jobs", "redrive-many", "--yes").splitlines() == ["matched   1 dead letter", "redriven  1"]
    assert cli.json("jobs", "redrive-many") == {"matched": 0, "redriven": 0}
    jobs.verify()


# Whose rights ---------------------------------------------------------------------------------------------------------


def test_api_role_may_run_every_jobs_command_but_explain(cli: CommandLine, jobs: JobActions, database: str) -> None:
    cli.environment["DATABASE_URL"] = make_conninfo(database, user=Names().api)
    created = cli.json("jobs", "enqueue", "work")
    assert cli.json("jobs", "cancel", created["id"])["status"] == "canceled"
    assert f"grant {Names().worker} to {Names().api}" in str(cli.error("jobs", "explain", created["id"]))


def test_database_without_tables_is_reported_with_duly_migrate(cli: CommandLine, server: str) -> None:
    cli.environment["DATABASE_URL"] = make_conninfo(server, dbname="template1")
    for arguments in (["list"], ["enqueue", "work"], ["explain", uuid4()], ["pause", "--queue", "q"]):
        assert isinstance(cli.error("jobs", *arguments), NotMigrated)


# On a terminal --------------------------------------------------------------------------------------------------------


def take_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on standard error is a terminal."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


async def test_watch_shows_a_progress_bar_on_a_terminal(
    jobs: JobActions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    (lease,) = await jobs.claim()
    await repository.record_progress(jobs.worker, lease, "reading", 40)
    job = await repository.find_job(jobs.worker, DEFAULT_ORG, key)
    assert job
    take_for_a_terminal(monkeypatch)
    with job_progress(job, as_json=False) as report_change:
        report_change(replace(job, stage="writing", progress=80))
    seen = capsys.readouterr()
    assert "running writing" in seen.err
    assert "80%" in seen.err
    assert seen.out == ""


def test_redrive_many_shows_a_progress_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_for_a_terminal(monkeypatch)
    with count_progress("redriving", 20) as report_progress:
        report_progress(10)
    seen = capsys.readouterr()
    assert "redriving" in seen.err
    assert "10/20" in seen.err
    assert seen.out == ""


async def test_control_characters_in_stored_text_are_replaced(cli: CommandLine, jobs: JobActions) -> None:
    red = "two\nlines \x1b[31m"
    shown = "two lines \N{REPLACEMENT CHARACTER}[31m"
    (key,) = jobs.enqueue(org=DEFAULT_ORG, requested_by=red, max_attempts=1)
    (lease,) = await jobs.claim()
    await repository.record_progress(jobs.worker, lease, red, 40)
    assert f"in stage '{shown}'" in cli.output("jobs", "explain", key)
    await jobs.fail(lease, code="OOPS", message=red)
    assert f"with OOPS ({shown});" in cli.output("jobs", "explain", key)
    printed = cli.output("jobs", "show", key).splitlines()
    for name in ("requested_by", "stage", "last_error_message"):
        assert [line.split(maxsplit=1) for line in printed if line.startswith(f"{name} ")] == [[name, shown]]
    for verb, ends in (("redrive", "queued"), ("cancel", "canceled")):
        assert cli.output("jobs", verb, key).endswith(f"{key}  work  {ends}  OOPS: {shown}\n")
    assert "\x1b" not in cli.output("jobs", "timeline", key)


async def test_paused_queue_is_not_claimed_until_it_is_resumed(cli: CommandLine, jobs: JobActions) -> None:
    jobs.enqueue()
    assert cli.output("jobs", "pause", "--queue", "default").startswith("paused    queue default, since ")
    assert await jobs.claim() == []
    assert jobs.admin.execute("select queue, type, paused_by from ledger.job_limit").fetchall() == [
        ("default", "*", actor())
    ]
    assert cli.json("jobs", "pause", "--queue", "default", "--type", "work")["type"] == "work"
    assert [(each["queue"], each["type"]) for each in cli.json("jobs", "limits")] == [
        ("default", "*"),
        ("default", "work"),
    ]
    assert cli.output("jobs", "limits").splitlines()[0].split() == [
        "queue",
        "type",
        "concurrency",
        "paused_at",
        "paused_by",
    ]
    resumed = cli.output("jobs", "resume", "--queue", "default", "--type", "work")
    assert resumed == "resumed   queue default and type work\n"
    assert await jobs.claim() == []
    assert cli.json("jobs", "resume", "--queue", "default")["resumed"] is True
    assert cli.output("jobs", "resume", "--queue", "default") == "unchanged queue default was not paused; nothing is\n"
    assert len(await jobs.claim()) == 1
    for verb in ("pause", "resume"):
        assert isinstance(cli.error("jobs", verb), InvalidArgument)
