"""`duly partitions`: list, create, archive and drop months; keys outlive their runs."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from duly.errors import Conflict, InvalidArgument, Misconfigured, NotFound
from duly.verify import check
from duly.verify.invariants import select_invariants
from tests.support.command_line import CommandLine
from tests.support.scheduler.actions import ScheduleActions


@pytest.fixture
def cli(schedules: ScheduleActions, tmp_path: Path) -> CommandLine:
    """The command line on a database where it is March 2030, with partitions for the two months before."""
    schedules.set_clock("2030-03-15T12:00+00:00")
    schedules.admin.execute("select scheduler.ensure_partitions(3)")
    schedules.admin.execute(
        "select scheduler.drop_month(p.first_at::date) from scheduler.list_partitions() as p"
        " where isfinite(p.first_at) and p.end_at <= '2030-01-01Z'"
    )
    schedules.admin.execute("delete from scheduler.dropped_months")
    schedules.add_user("anna")
    schedules.admin.execute(
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select user_id, 'Rent', 'cron: 0 10 * * *', '2030-01-01Z' from duly.person"
    )
    return CommandLine(schedules.admin.info.dsn, tmp_path)


def add_run(schedules: ScheduleActions, day: str, action: str | None = "complete") -> int:
    """Insert a run, answered or not; return its id."""
    run = schedules.one(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select user_id, %s, %s::timestamptz from scheduler.jobs returning id",
        day,
        f"{day} 10:00Z",
    )
    if action:
        schedules.admin.execute("select scheduler.answer(null, %s, %s, 'tap', null)", [run, action])
    return run


def parts(cli: CommandLine) -> dict[str, Any]:
    """Return the partitions by name."""
    return {each["name"]: each for each in cli.json("partitions", "list")}


def test_months_are_listed_with_their_runs(schedules: ScheduleActions, cli: CommandLine) -> None:
    add_run(schedules, "2030-01-05")
    add_run(schedules, "2030-01-06", "skip")
    add_run(schedules, "2030-02-05", None)
    add_run(schedules, "2029-12-05", "skip")
    found = parts(cli)
    assert found["job_runs_2030_01"] == {
        "name": "job_runs_2030_01",
        "first_at": "2030-01-01T00:00:00+00:00",
        "end_at": "2030-02-01T00:00:00+00:00",
        "runs": 2,
        "is_estimate": False,
        "open_runs": 0,
    }
    assert (found["job_runs_2030_02"]["runs"], found["job_runs_2030_02"]["open_runs"]) == (1, 1)
    past, *_, future = found.values()
    assert (past["name"], past["runs"], past["first_at"]) == ("job_runs_past", 1, None)
    assert (future["name"], future["runs"], future["end_at"]) == ("job_runs_future", 0, None)
    head, *rows = cli.output("partitions", "list").splitlines()
    assert head.split() == ["partition", "from", "to", "runs", "open"]
    assert ["job_runs_2030_01", "2030-01-01", "2030-02-01", "2", "0"] in [row.split() for row in rows]
    assert rows[0].split() == ["job_runs_past", "-", "2030-01-01", "1", "0"]
    assert rows[-1].split() == ["job_runs_future", "2030-07-01", "-", "0", "0"]


def test_archive_writes_more_runs_than_one_page(schedules: ScheduleActions, cli: CommandLine, tmp_path: Path) -> None:
    for first, last in ((1, 1250), (1251, 2500)):  # a schedule has at most 2,000 that are pending
        schedules.admin.execute(
            "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
            " select j.id, 'p' || n, '2030-01-05Z'::timestamptz + (n %% 7) * interval '1 hour'"
            " from scheduler.jobs as j, generate_series(%s::int, %s::int) as n",
            [first, last],
        )
        schedules.admin.execute(
            "update scheduler.job_runs set status = 'skipped', reason = 'test' where status = 'pending'"
        )
    assert cli.json("partitions", "archive", "2030-01", "--out", tmp_path / "runs")["runs"] == 2500
    lines = [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]
    sort_keys = [(line["scheduled_at"], line["id"]) for line in lines]
    assert sort_keys == sorted(sort_keys)
    assert len(set(sort_keys)) == 2500


def test_months_are_dropped_from_the_first_one_on(schedules: ScheduleActions, cli: CommandLine) -> None:
    add_run(schedules, "2030-01-05")
    error = cli.error("partitions", "drop", "2030-02", "--yes")
    assert isinstance(error, Conflict)
    assert str(error) == "2030-02 is not the first month: drop 2030-01 before it"
    for month in ("2030-01", "2030-02"):
        cli.output("partitions", "drop", month, "--yes")
    assert list(parts(cli))[:2] == ["job_runs_past", "job_runs_2030_03"]


def test_dropped_month_never_gets_a_run_again(schedules: ScheduleActions, cli: CommandLine) -> None:
    run = add_run(schedules, "2030-01-05")
    add_run(schedules, "2030-02-05", "skip")
    assert "then add --yes" in str(cli.error("partitions", "drop", "2030-01"))
    assert cli.json("partitions", "drop", "2030-01", "--yes") == {"month": "2030-01", "runs": 1}
    assert "job_runs_2030_01" not in parts(cli)
    assert schedules.one("select to_regclass('scheduler.job_runs_2030_01') is null") is True
    assert schedules.one("select count(*) from scheduler.job_runs") == 1
    assert schedules.one("select count(*) from scheduler.confirmations") == 2
    with pytest.raises(UniqueViolation, match="uq_job_runs__job_period"):
        add_run(schedules, "2030-01-05", None)
    assert check(schedules.admin, ("duly", "scheduler", "expense"), select_invariants(["scheduler"])) == []
    assert schedules.one("select job_run_id from scheduler.job_run_keys where period_key = '2030-01-05'") == run
    assert isinstance(cli.error("partitions", "drop", "2030-01", "--yes"), NotFound)
    again = cli.error("partitions", "create", "2030-01")
    assert isinstance(again, Conflict)
    assert "2030-01 was dropped" in str(again)
    assert check(schedules.admin, ("duly", "scheduler", "expense"), select_invariants(["scheduler"])) == []


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("arguments", [["list"], ["drop", "2030-01", "--yes"]])
def test_a_partition_of_another_owner_is_reported_with_the_fix(
    arguments: list[str], schedules: ScheduleActions, cli: CommandLine
) -> None:
    schedules.admin.execute("alter table scheduler.job_runs_2030_01 owner to current_user")
    error = cli.error("partitions", *arguments)
    assert isinstance(error, Misconfigured)
    assert "alter table scheduler.job_runs_2030_01 owner to duly_owner" in str(error)


def test_api_role_cannot_drop_a_partition_but_the_owner_can(schedules: ScheduleActions, cli: CommandLine) -> None:
    add_run(schedules, "2030-01-05")
    schedules.admin.execute("set role duly_api")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        schedules.admin.execute("drop table scheduler.job_runs_2030_01")
    schedules.admin.execute("reset role")
    assert cli.output("partitions", "drop", "2030-01", "--yes") == "dropped   2030-01 with 1 run; the keys stay\n"


def test_months_are_created_ahead_or_one_by_one_with_their_runs(schedules: ScheduleActions, cli: CommandLine) -> None:
    assert cli.json("partitions", "create") == {"created": 0}
    assert cli.output("partitions", "create", "--ahead", 5) == "created   2 partitions\n"
    add_run(schedules, "2031-05-05", None)
    assert cli.json("partitions", "create", "2031-05") == {"created": 9}, "from 2030-09 on: the months have no gap"
    assert cli.json("partitions", "create", "2031-05") == {"created": 0}
    assert schedules.one("select tableoid::regclass::text from scheduler.job_runs") == "scheduler.job_runs_2031_05"
    assert isinstance(cli.error("partitions", "create", "2031-05", "--ahead", 2), InvalidArgument)
    for month in ("2031-13", "2031-5", "1999-01", "../x", "2031-05\n"):
        assert isinstance(cli.error("partitions", "create", month), InvalidArgument)
    assert cli.run("partitions", "create", "--ahead", 121).exit_code == 2


def test_a_month_is_archived_to_a_file_in_order(schedules: ScheduleActions, cli: CommandLine, tmp_path: Path) -> None:
    late, early = add_run(schedules, "2030-01-20"), add_run(schedules, "2030-01-05", "skip")
    add_run(schedules, "2030-02-01")
    file, again = tmp_path / "runs.jsonl", tmp_path / "again.jsonl"
    assert cli.output("partitions", "archive", "2030-01", "--out", file) == f"archived  2 runs of 2030-01 to {file}\n"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == [early, late]
    assert [line["status"] for line in lines] == ["skipped", "confirmed"]
    assert lines[0]["scheduled_at"] == "2030-01-05T10:00:00+00:00"
    assert lines[0].keys() >= {"job_id", "period_key", "sent_at", "created_at", "updated_at", "revision", "reason"}
    schedules.admin.execute(f"alter database {schedules.admin.info.dbname} set timezone = 'Asia/Shanghai'".encode())
    assert cli.json("partitions", "archive", "2030-01", "--out", again) == {
        "month": "2030-01",
        "runs": 2,
        "file": str(again),
    }
    assert again.read_bytes() == file.read_bytes()
    error = cli.error("partitions", "archive", "2030-01", "--out", file)
    assert "exists, and is not overwritten" in str(error)
    assert "cannot be written" in str(cli.error("partitions", "archive", "2030-01", "--out", tmp_path / "no" / "file"))
    assert {path.name for path in tmp_path.iterdir()} == {"runs.jsonl", "again.jsonl"}
    assert parts(cli)["job_runs_2030_01"]["runs"] == 2


@pytest.mark.parametrize("verb", ["archive", "drop"])
def test_a_month_that_is_not_over_or_has_open_runs_cannot_be_dropped(
    verb: str, schedules: ScheduleActions, cli: CommandLine, tmp_path: Path
) -> None:
    add_run(schedules, "2030-02-05", None)
    add_run(schedules, "2030-02-06", None)
    arguments = ["--out", tmp_path / "runs"] if verb == "archive" else ["--yes"]
    open_error = cli.error("partitions", verb, "2030-02", *arguments)
    assert isinstance(open_error, Conflict)
    assert "2030-02 cannot be" in str(open_error)
    assert "2 of its runs are open" in str(open_error)
    current_error = cli.error("partitions", verb, "2030-03", *arguments)
    assert isinstance(current_error, Conflict)
    assert "2030-03 is not over" in str(current_error)
    assert "2030-04-01T00:00Z" in str(current_error)
    assert isinstance(cli.error("partitions", verb, "2029-11", *arguments), NotFound)
    assert isinstance(cli.error("partitions", verb, "default", *arguments), InvalidArgument)
    assert list(tmp_path.iterdir()) == []
    assert parts(cli)["job_runs_2030_02"]["runs"] == 2
