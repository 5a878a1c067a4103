"""Monthly partitions: created ahead, filled from the default partition, pruned by the contract's query, and guarded."""

import psycopg
import pytest

from tests.support.scheduler.actions import ScheduleActions


async def test_rows_inserted_before_their_partition_existed_are_moved_into_it(schedules: ScheduleActions) -> None:
    await schedules.create()
    schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)"
        " select id, 'far', '2031-05-05 10:00Z', '2031-05-05 10:00Z' from scheduler.jobs"
    )
    assert schedules.one("select count(*) from scheduler.job_runs_default") == 1
    assert schedules.one("select scheduler.make_partition('2031-05-17')") is True
    assert schedules.one("select scheduler.make_partition('2031-05-01')") is False
    assert schedules.one("select count(*) from scheduler.job_runs_default") == 0
    assert schedules.one("select tableoid::regclass::text from scheduler.job_runs") == "scheduler.job_runs_2031_05"
    schedules.admin.execute("update scheduler.job_runs set status = 'cancelled'")
    assert schedules.path(schedules.run_id()) == ["pending", "cancelled"]


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
        connection.execute("select scheduler.make_partition('2032-05-01')")
        connection.execute("set timezone = 'UTC'")
        bound = connection.execute(
            "select pg_get_expr(relpartbound, oid) from pg_class where relname = 'job_runs_2032_05'"
        ).fetchone()
    assert bound == ("FOR VALUES FROM ('2032-05-01 00:00:00+00') TO ('2032-06-01 00:00:00+00')",)
