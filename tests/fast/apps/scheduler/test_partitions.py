"""Monthly partitions between two open-ended ones: split off these, dropped, guarded, without a gap."""

import psycopg
import pytest
from psycopg.errors import InvalidParameterValue

from duly.verify import check
from duly.verify.invariants import select_invariants
from tests.support.scheduler.actions import ScheduleActions

INSERT = "insert into scheduler.job_runs (job_id, period_key, scheduled_at) select id, %s, %s from scheduler.jobs"
PLACES = "select period_key, tableoid::regclass::text from scheduler.job_runs order by scheduled_at"


def places(schedules: ScheduleActions) -> dict[str, str]:
    """Return the partition of each run, by period."""
    return {period: name.removeprefix("scheduler.job_runs_") for period, name in schedules.admin.execute(PLACES)}


def broken(schedules: ScheduleActions) -> list[str]:
    """Return what the invariants of the scheduler say."""
    return [str(each) for each in check(schedules.admin, ("scheduler",), select_invariants(["scheduler"]))]


async def test_a_run_of_any_time_has_a_partition(schedules: ScheduleActions) -> None:
    await schedules.create()
    now = schedules.now()
    for period, at in (("old", "0001-01-01Z"), ("now", now), ("far", "2199-12-31Z"), ("end", "infinity")):
        schedules.admin.execute(INSERT, [period, at])
    assert places(schedules) == {"old": "past", "now": f"{now:%Y_%m}", "far": "future", "end": "future"}
    assert broken(schedules) == []


async def test_runs_move_from_an_edge_into_their_month_when_it_is_made(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    await schedules.create()
    for at in ("2025-12-31T23:59Z", "2026-01-01T00:00Z", "2027-09-30T23:59Z", "2027-10-01T00:00Z"):
        schedules.admin.execute(INSERT, [at, at])
    events = schedules.one("select count(*) from duly.transition")
    first = schedules.one("select min(end_at) from scheduler.list_partitions()")
    assert schedules.one("select scheduler.create_months('2026-01-17')") == (first.year - 2026) * 12 + first.month - 1
    assert schedules.one("select scheduler.create_months('2026-03-01')") == 0
    assert schedules.one("select scheduler.create_months('2027-09-01')") > 0
    assert list(places(schedules).values()) == ["past", "2026_01", "2027_09", "future"]
    assert schedules.one("select count(*) from scheduler.job_run_keys") == 4
    assert schedules.one("select count(*) from duly.transition") == events
    assert broken(schedules) == []
    schedules.admin.execute("update scheduler.job_runs set status = 'cancelled' where period_key < '2026-02'")
    moved = schedules.one("select id from scheduler.job_runs_2026_01")
    assert schedules.path(moved) == ["pending", "cancelled"]


async def test_a_dropped_month_goes_back_to_the_past_edge_and_is_not_made_again(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    await schedules.create()
    schedules.admin.execute("select scheduler.create_months('2025-06-01')")
    schedules.admin.execute(INSERT, ["kept", "2025-05-01Z"])
    schedules.admin.execute(INSERT, ["gone", "2025-06-01Z"])
    with pytest.raises(InvalidParameterValue, match="2025-07 is not the first month"):
        schedules.admin.execute("select scheduler.drop_month('2025-07-01')")
    assert schedules.one("select scheduler.drop_month('2025-06-01')") == 1
    with pytest.raises(InvalidParameterValue, match="2025-06 was dropped"):
        schedules.admin.execute("select scheduler.create_months('2025-05-01')")
    schedules.admin.execute(INSERT, ["new", "2025-06-02Z"])
    assert places(schedules) == {"kept": "past", "new": "past"}
    assert schedules.one("select count(*) from scheduler.job_run_keys") == 3
    assert schedules.one("select runs from scheduler.dropped_months where month = '2025-06-01'") == 1


@pytest.mark.breaks_invariants
async def test_a_gap_is_reported_and_filled(schedules: ScheduleActions) -> None:
    name = schedules.one("select name from scheduler.list_partitions() where isfinite(first_at) offset 1 limit 1")
    schedules.admin.execute(f"drop table scheduler.{name}".encode())
    (found,) = broken(schedules)
    assert "leaves a gap before it" in found
    assert schedules.one("select scheduler.ensure_partitions()") == 1
    assert broken(schedules) == []


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("drop table scheduler.job_runs_future", "is not the future partition"),
        ("drop table scheduler.job_runs_past", "is not the past partition"),
        ("create table scheduler.other partition of scheduler.job_runs default", "is no range of time"),
        ("drop trigger job_runs_limits on scheduler.job_runs_future", "lacks a trigger"),
    ],
)
def test_partitions_that_do_not_cover_all_time_are_reported(
    damage: str, message: str, schedules: ScheduleActions
) -> None:
    schedules.admin.execute(damage.encode())
    assert any(message in each for each in broken(schedules))


@pytest.mark.breaks_invariants
async def test_writes_into_a_partition_are_guarded_and_logged_too(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    await schedules.create()
    schedules.admin.execute(
        "insert into scheduler.job_runs_2026_12 (id, job_id, period_key, scheduled_at)"
        " select 77, id, '2026-12', '2026-12-05 10:00Z' from scheduler.jobs"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        schedules.admin.execute(
            "insert into scheduler.job_runs_2026_11 (id, job_id, period_key, scheduled_at)"
            " select 78, id, '2026-12', '2026-11-20 10:00Z' from scheduler.jobs"
        )
    with pytest.raises(psycopg.DatabaseError, match="cannot go from pending to snoozed"):
        schedules.admin.execute("update scheduler.job_runs_2026_12 set status = 'snoozed'")
    schedules.admin.execute("update scheduler.job_runs_2026_12 set status = 'skipped'")
    assert schedules.path(77) == ["pending", "skipped"]


def test_partition_bounds_are_utc_in_every_session_time_zone(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set timezone = 'Asia/Shanghai'")
        connection.execute("set datestyle = 'German, DMY'")
        connection.execute("select scheduler.create_months('2030-05-01')")
        last = connection.execute(
            "select name, first_at at time zone 'UTC', end_at at time zone 'UTC' from scheduler.list_partitions()"
            " where end_at < 'infinity' order by end_at desc limit 1"
        ).fetchone()
    assert last is not None
    assert [str(each) for each in last] == ["job_runs_2030_05", "2030-05-01 00:00:00", "2030-06-01 00:00:00"]
