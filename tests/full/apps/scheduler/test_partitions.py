"""Monthly partitions: created ahead, filled from the default partition, pruned by the contract's query, and guarded."""

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

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
    assert {"2026_11", "2026_12", "2027_01", "2027_02", "default"} <= before
    await schedules.create(rule="cron: 0 12 * * *")
    for _ in range(53):
        schedules.admin.execute("select 1")
        schedules.advance_clock(days=7)
        async with schedules.worker.transaction():
            await repository.ensure_partitions(schedules.worker)
        await schedules.run_cycle()
    made = set(months(schedules.admin)) - before
    assert {f"2027_{month:02}" for month in range(3, 13)} | {"2028_01", "2028_02"} <= made
    assert schedules.one("select count(*) from scheduler.job_runs_default") == 0
    assert schedules.one("select count(*) from scheduler.job_runs") == schedules.one(
        "select count(distinct period_key) from scheduler.job_runs"
    )


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every node of a query plan."""
    return [plan, *(node for part in plan.get("Plans", []) for node in nodes(part))]


@pytest.mark.breaks_invariants
async def test_the_contracts_due_query_probes_an_empty_index_for_each_past_month(schedules: ScheduleActions) -> None:
    for _ in range(15):  # of which each has fewer pending runs than is allowed
        await schedules.create()
    # Two years of a busy installation, in real time: what was due is done, what comes is pending.
    schedules.admin.execute(
        "select scheduler.make_partition((date_trunc('month', now()) - make_interval(months => m))::date)"
        " from generate_series(1, 20) as m"
    )
    schedules.admin.execute("alter table scheduler.job_runs disable trigger user")
    schedules.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, status, revision)"
        " select j.id, 'p' || n, date_trunc('month', now()) - interval '20 months' + n * interval '4 minutes',"
        " case when date_trunc('month', now()) - interval '20 months' + n * interval '4 minutes' < now()"
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
    assert all(node["Relation Name"] <= this_month or node["Relation Name"].endswith("default") for node in ran)
    assert sum(node["Actual Rows"] for node in ran) == 1
