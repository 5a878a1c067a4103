"""`duly partitions`: months are looked at, made, written to files and dropped; keys outlive them."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from duly.errors import Conflict, InvalidArgument, NotFound, Unavailable
from duly.testing import move_clock
from duly.verify import check
from duly.verify.invariants import invariants_of
from tests.support.door import Door

Admin = psycopg.Connection[Any]


@pytest.fixture
def door(admin: Admin, tmp_path: Path) -> Door:
    """The door to a database where it is March 2030, with two months before."""
    now = one(admin, "select extract(epoch from timestamptz '2030-03-15 12:00Z' - duly.clock())::float8")
    move_clock(admin, now)
    for month in ("2030-01-01", "2030-02-01", "2030-03-01"):
        admin.execute("select scheduler.make_partition(%s)", [month])
    admin.execute("select scheduler.ensure_partitions(3)")
    admin.execute("insert into \"user\".users (uid) values ('anna')")
    admin.execute(
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select id, 'Rent', 'cron: 0 10 * * *', '2030-01-01Z' from \"user\".users"
    )
    return Door(admin.info.dsn, tmp_path, "partitions")


def one(admin: Admin, asked: str, *values: object) -> Any:
    """The one value there is."""
    row = admin.execute(asked.encode(), list(values)).fetchone()
    assert row is not None
    return row[0]


def add_run(admin: Admin, day: str, action: str | None = "complete") -> int:
    """A run, answered or not."""
    run = one(
        admin,
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select id, %s, %s::timestamptz from scheduler.jobs returning id",
        day,
        f"{day} 10:00Z",
    )
    if action:
        admin.execute("select scheduler.answer(null, %s, %s, 'tap', null)", [run, action])
    return run


def parts(door: Door) -> dict[str, Any]:
    """What there is, by name."""
    return {part["part"]: part for part in door.tell("list")}


def test_months_are_listed_with_what_lies_in_them(admin: Admin, door: Door) -> None:
    add_run(admin, "2030-01-05")
    add_run(admin, "2030-01-06", "skip")
    add_run(admin, "2030-02-05", None)
    add_run(admin, "2029-12-05", "skip")
    found = parts(door)
    assert found["job_runs_2030_01"] == {
        "part": "job_runs_2030_01",
        "first_at": "2030-01-01T00:00:00+00:00",
        "end_at": "2030-02-01T00:00:00+00:00",
        "runs": 2,
        "is_estimate": False,
        "open_runs": 0,
    }
    assert (found["job_runs_2030_02"]["runs"], found["job_runs_2030_02"]["open_runs"]) == (1, 1)
    assert (found["job_runs_default"]["runs"], found["job_runs_default"]["first_at"]) == (1, None)
    assert list(found) == sorted(found)
    head, *rows = door.say("list").splitlines()
    assert head.split() == ["partition", "from", "to", "runs", "open"]
    assert ["job_runs_2030_01", "2030-01-01", "2030-02-01", "2", "0"] in [row.split() for row in rows]
    assert rows[-1].split() == ["job_runs_default", "-", "-", "1", "0"]


def test_months_are_made_ahead_or_one_by_one_and_fetch_their_runs(admin: Admin, door: Door) -> None:
    assert door.tell("create") == {"created": 0}
    assert door.say("create", "--ahead", 5) == "created   2 partitions\n"
    add_run(admin, "2031-05-05", None)
    assert door.tell("create", "2031-05") == {"created": 1}
    assert door.tell("create", "2031-05") == {"created": 0}
    assert one(admin, "select tableoid::regclass::text from scheduler.job_runs") == "scheduler.job_runs_2031_05"
    assert isinstance(door.refuse("create", "2031-05", "--ahead", 2), InvalidArgument)
    for month in ("2031-13", "2031-5", "1999-01", "../x", "2031-05\n"):
        assert isinstance(door.refuse("create", month), InvalidArgument)
    assert door.run("partitions", "create", "--ahead", 121).exit_code == 2


def test_a_month_is_written_to_a_file_in_order(admin: Admin, door: Door, tmp_path: Path) -> None:
    late, early = add_run(admin, "2030-01-20"), add_run(admin, "2030-01-05", "skip")
    add_run(admin, "2030-02-01")
    file, again = tmp_path / "runs.jsonl", tmp_path / "again.jsonl"
    assert door.say("archive", "2030-01", "--out", file) == f"archived  2 runs of 2030-01 to {file}\n"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == [early, late]
    assert [line["status"] for line in lines] == ["skipped", "confirmed"]
    assert lines[0]["scheduled_at"] == "2030-01-05T10:00:00+00:00"
    assert lines[0].keys() >= {"job_id", "period_key", "sent_at", "created_at", "updated_at", "revision", "reason"}
    admin.execute("alter database {} set timezone = 'Asia/Shanghai'".format(admin.info.dbname).encode())  # noqa: UP032
    assert door.tell("archive", "2030-01", "--out", again) == {"month": "2030-01", "runs": 2, "file": str(again)}
    assert again.read_bytes() == file.read_bytes()
    refusal = door.refuse("archive", "2030-01", "--out", file)
    assert "is there already" in str(refusal)
    assert "cannot be written" in str(door.refuse("archive", "2030-01", "--out", tmp_path / "no" / "file"))
    assert {path.name for path in tmp_path.iterdir()} == {"runs.jsonl", "again.jsonl"}
    assert parts(door)["job_runs_2030_01"]["runs"] == 2


def test_more_runs_than_a_page_are_all_written(admin: Admin, door: Door, tmp_path: Path) -> None:
    admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select j.id, 'p' || n, '2030-01-05Z'::timestamptz + (n %% 7) * interval '1 hour'"
        " from scheduler.jobs as j, generate_series(1, 2500) as n",
        [],
    )
    admin.execute("update scheduler.job_runs set status = 'skipped', reason = 'test'")
    assert door.tell("archive", "2030-01", "--out", tmp_path / "runs")["runs"] == 2500
    lines = [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]
    places = [(line["scheduled_at"], line["id"]) for line in lines]
    assert places == sorted(places)
    assert len(set(places)) == 2500


@pytest.mark.parametrize("verb", ["archive", "drop"])
def test_a_month_that_is_not_done_stays(verb: str, admin: Admin, door: Door, tmp_path: Path) -> None:
    add_run(admin, "2030-02-05", None)
    add_run(admin, "2030-02-06", None)
    words = ["--out", tmp_path / "runs"] if verb == "archive" else ["--yes"]
    open_ones = door.refuse(verb, "2030-02", *words)
    assert isinstance(open_ones, Conflict)
    assert "2030-02 cannot be" in str(open_ones)
    assert "of its runs 2 are open" in str(open_ones)
    running = door.refuse(verb, "2030-03", *words)
    assert isinstance(running, Conflict)
    assert "2030-03 is not over" in str(running)
    assert "2030-04-01T00:00Z" in str(running)
    assert isinstance(door.refuse(verb, "2029-11", *words), NotFound)
    assert isinstance(door.refuse(verb, "default", *words), InvalidArgument)
    assert list(tmp_path.iterdir()) == []
    assert parts(door)["job_runs_2030_02"]["runs"] == 2


def test_a_month_that_was_dropped_is_gone_and_its_periods_never_come_again(admin: Admin, door: Door) -> None:
    run = add_run(admin, "2030-01-05")
    add_run(admin, "2030-02-05", "skip")
    assert "then say --yes" in str(door.refuse("drop", "2030-01"))
    assert door.tell("drop", "2030-01", "--yes") == {"month": "2030-01", "runs": 1}
    assert "job_runs_2030_01" not in parts(door)
    assert one(admin, "select to_regclass('scheduler.job_runs_2030_01') is null") is True
    assert one(admin, "select count(*) from scheduler.job_runs") == 1
    assert one(admin, "select count(*) from scheduler.confirmations") == 2
    with pytest.raises(UniqueViolation, match="uq_job_runs__job_period"):
        add_run(admin, "2030-01-05", None)
    assert check(admin, ("duly", "scheduler", "expense"), invariants_of(["scheduler"])) == []
    assert one(admin, "select job_run_id from scheduler.job_run_keys where period_key = '2030-01-05'") == run
    assert isinstance(door.refuse("drop", "2030-01", "--yes"), NotFound)
    again = door.refuse("create", "2030-01")
    assert isinstance(again, Conflict)
    assert "2030-01 was dropped" in str(again)
    assert check(admin, ("duly", "scheduler", "expense"), invariants_of(["scheduler"])) == []


def test_who_holds_the_table_is_not_waited_for(admin: Admin, door: Door) -> None:
    add_run(admin, "2030-01-05")
    with psycopg.connect(admin.info.dsn) as other:
        other.execute("select count(*) from scheduler.job_runs")  # a dump, say
        refusal = door.refuse("drop", "2030-01", "--yes")
        assert isinstance(refusal, Unavailable)
        assert "did not let go within 3 s, a dump perhaps; nothing was changed" in str(refusal)
        other.execute("lock table scheduler.job_runs in access exclusive mode")
        with door.start("partitions", "create", "2033-01", "--json") as program:
            assert json.loads(program.line())["error"]["code"] == "UNAVAILABLE"
            assert program.process.wait(60) == Unavailable.exit_status
    assert door.tell("drop", "2030-01", "--yes")["runs"] == 1


def test_who_changes_a_schedule_meanwhile_is_not_harmed(admin: Admin, door: Door) -> None:
    add_run(admin, "2030-01-05")
    with psycopg.connect(admin.info.dsn) as other:
        other.execute("update scheduler.jobs set description = 'changed'")
        assert isinstance(door.refuse("drop", "2030-01", "--yes"), Unavailable)
        other.execute("update scheduler.jobs set advance_minutes = 5")  # which looks at the runs
        other.commit()
    assert door.tell("drop", "2030-01", "--yes")["runs"] == 1


def test_an_api_role_cannot_drop_what_the_owner_can(admin: Admin, door: Door) -> None:
    add_run(admin, "2030-01-05")
    admin.execute("set role duly_api")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        admin.execute("drop table scheduler.job_runs_2030_01")
    admin.execute("reset role")
    assert door.say("drop", "2030-01", "--yes") == "dropped   2030-01 with 1 run; the keys stay\n"
