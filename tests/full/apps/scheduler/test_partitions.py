"""Monthly partitions: created ahead while others work, and pruned by the contract's query."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import AdminShutdown, LockNotAvailable

from duly.apps.scheduler import repository
from duly.db.migrations import Names
from tests.support.scheduler.actions import Admin, ScheduleActions

DUE = """
explain (analyze, format json)
select id, job_id, scheduled_at
from scheduler.job_runs
where status = 'pending' and scheduled_at <= now()
order by scheduled_at
limit 100
"""


def months(admin: Admin) -> list[str]:
    """Return the months that have a partition."""
    query = "select relid::text from pg_partition_tree('scheduler.job_runs') where isleaf order by 1"
    return [name.removeprefix("scheduler.job_runs_") for (name,) in admin.execute(query).fetchall()]


async def test_partitions_are_created_three_months_ahead(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T09:00:00+00:00")
    before = set(months(schedules.admin))
    assert {"2026_11", "2026_12", "2027_01", "2027_02", "past", "future"} <= before
    await schedules.create(rule="cron: 0 12 * * *")
    for _ in range(53):
        schedules.admin.execute("select 1")
        schedules.advance_clock(days=7)
        async with schedules.worker.transaction():
            await repository.ensure_partitions(schedules.worker)
        await schedules.run_cycle()
    made = set(months(schedules.admin)) - before
    assert {f"2027_{month:02}" for month in range(3, 13)} | {"2028_01", "2028_02"} <= made
    assert schedules.one("select count(*) from scheduler.job_runs_future") == 0
    assert schedules.one("select count(*) from scheduler.job_runs") == schedules.one(
        "select count(distinct period_key) from scheduler.job_runs"
    )


def plant_runs(dsn: str, schedule: int, months: int) -> int:
    """Insert one run after the other, spread over the coming months; return how many."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for nth in range(150):
            connection.execute(
                "insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
                " values (%s, %s, duly.now() + make_interval(days => %s))",
                [schedule, f"p{nth}", nth * 30 * months // 150],
            )
    return 150


def make_ahead(dsn: str, months: int) -> int:
    """Create the coming months, one at a time; return how many this caller created."""
    with psycopg.connect(make_conninfo(dsn, user=Names().worker), autocommit=True) as connection:
        return sum(
            connection.execute("select scheduler.ensure_partitions(%s)", [ahead]).fetchone()[0]  # type: ignore[index]
            for ahead in range(4, months + 1)
        )


async def test_two_workers_make_months_while_runs_are_written_into_the_edge(schedules: ScheduleActions) -> None:
    schedule = (await schedules.create()).id
    dsn = schedules.admin.info.dsn
    with ThreadPoolExecutor(3) as threads:
        planted = threads.submit(plant_runs, dsn, schedule, 16)
        made = [threads.submit(make_ahead, dsn, 16) for _ in range(2)]
        assert planted.result(60) == 150
        assert sum(each.result(60) for each in made) == 13  # each month once
    assert schedules.one("select count(*) from scheduler.job_runs") == 150
    assert schedules.one("select count(*) from scheduler.job_run_keys") == 150
    assert schedules.one("select count(*) from scheduler.job_runs_future") == 0


async def test_a_worker_that_dies_while_it_makes_a_month_changes_nothing(schedules: ScheduleActions) -> None:
    await schedules.create()
    before = schedules.admin.execute("select p::text from scheduler.list_partitions() as p").fetchall()
    with psycopg.connect(schedules.admin.info.dsn) as worker:
        worker.execute("select scheduler.ensure_partitions(5)")
        schedules.admin.execute("select pg_terminate_backend(%s, 10000)", [worker.info.backend_pid])
        with pytest.raises(AdminShutdown):
            worker.execute("select 1")
    assert schedules.admin.execute("select p::text from scheduler.list_partitions() as p").fetchall() == before
    assert schedules.one("select scheduler.ensure_partitions(5)") == 2


INSERT_LATER_RUN = """
insert into scheduler.job_runs (job_id, period_key, scheduled_at)
values (%s, gen_random_uuid()::text, duly.now() + interval '5 months')
"""


async def test_making_a_month_waits_for_a_reader_in_short_tries_that_let_others_pass(
    schedules: ScheduleActions,
) -> None:
    schedule = (await schedules.create()).id
    dsn = schedules.admin.info.dsn
    with psycopg.connect(dsn) as dump, ThreadPoolExecutor(1) as threads:
        dump.execute("select count(*) from scheduler.job_runs")
        made = threads.submit(make_ahead, dsn, 4)
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("set statement_timeout = '1s'")  # far below the seconds of all tries
            other.execute(INSERT_LATER_RUN, [schedule])
            while not made.done():
                with other.transaction(force_rollback=True):  # or a fast machine reaches the limit of pending runs
                    other.execute(INSERT_LATER_RUN, [schedule])
        with pytest.raises(LockNotAvailable):
            made.result()
        async with schedules.worker.transaction():
            assert await schedules.work.maintain(schedules.worker) == 0  # no error of the worker: it tries again later
    assert schedules.one("select count(*) from scheduler.job_runs_future") > 0
    assert make_ahead(dsn, 5) == 2
    assert schedules.one("select count(*) from scheduler.job_runs_future") == 0


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every node of a query plan."""
    return [plan, *(node for part in plan.get("Plans", []) for node in nodes(part))]


@pytest.mark.breaks_invariants
async def test_the_contracts_due_query_probes_an_empty_index_for_each_past_month(schedules: ScheduleActions) -> None:
    for _ in range(15):  # of which each has fewer pending runs than is allowed
        await schedules.create()
    # Two years of a busy installation, in real time: what was due is done, what comes is pending.
    schedules.admin.execute("select scheduler.create_months((date_trunc('month', now()) - interval '20 months')::date)")
    schedules.admin.execute("alter table scheduler.job_runs disable trigger user")
    schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, status, revision)"
        " select j.id, 'p' || n, date_trunc('month', now()) - interval '20 months' + n * interval '4 minutes',"
        " case when date_trunc('month', now()) - interval '20 months' + n * interval '4 minutes'"
        "     < now() + interval '10 minutes'"  # so that none falls due before the query runs
        " then 'confirmed' else 'pending' end, 1"
        " from generate_series(1, 240000) as n"
        " join (select id, row_number() over (order by id) as nth from scheduler.jobs) as j on j.nth = n % 15 + 1"
    )
    schedules.admin.execute("alter table scheduler.job_runs enable trigger user")
    schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at) "
        " select min(id), 'due', now() from scheduler.jobs"
    )
    schedules.admin.execute("analyze scheduler.job_runs")
    with psycopg.connect(make_conninfo(schedules.admin.info.dsn, user=Names().worker), autocommit=True) as worker:
        row = worker.execute(DUE.encode()).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    scans = [node for node in nodes(plan) if "Relation Name" in node]
    assert scans
    assert all(node["Node Type"] in ("Index Scan", "Index Only Scan") for node in scans), [
        (node["Node Type"], node["Relation Name"]) for node in scans
    ]
    this_month = schedules.one("select 'job_runs_' || to_char(now() at time zone 'UTC', 'YYYY_MM')")
    ran = [node for node in scans if node["Actual Loops"]]
    assert all(node["Relation Name"] <= this_month or node["Relation Name"].endswith("past") for node in ran)
    assert sum(node["Actual Rows"] for node in ran) == 1
