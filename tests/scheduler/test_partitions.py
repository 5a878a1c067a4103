"""Months: made ahead, filled from the default partition, pruned by the contract's query, and watched like the whole."""

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.scheduler import store
from tests.scheduler.hands import Admin, Hands

DUE = """
explain (analyze, format json)
select id, job_id, scheduled_at
from scheduler.job_runs
where status = 'pending' and scheduled_at <= now()
order by scheduled_at
limit 100
"""


def months(admin: Admin) -> list[str]:
    """The partitions there are."""
    asked = "select relid::text from pg_partition_tree('scheduler.job_runs') where isleaf order by 1"
    return [name.removeprefix("scheduler.job_runs_") for (name,) in admin.execute(asked).fetchall()]


async def test_months_are_made_three_ahead_and_roll_over_a_year(hands: Hands) -> None:
    hands.set_clock("2026-11-16T09:00:00+00:00")
    before = set(months(hands.admin))
    assert {"2026_11", "2026_12", "2027_01", "2027_02", "default"} <= before
    await hands.add(rule="cron: 0 12 * * *")
    for _ in range(53):
        hands.admin.execute("select 1")
        hands.pass_time(days=7)
        async with hands.worker.transaction():
            await store.ensure_partitions(hands.worker)
        await hands.turn()
    made = set(months(hands.admin)) - before
    assert {f"2027_{month:02}" for month in range(3, 13)} | {"2028_01", "2028_02"} <= made
    assert hands.one("select count(*) from scheduler.job_runs_default") == 0
    assert hands.one("select count(*) from scheduler.job_runs") == hands.one(
        "select count(distinct period_key) from scheduler.job_runs"
    )


async def test_rows_that_came_before_their_month_move_into_it(hands: Hands) -> None:
    await hands.add()
    hands.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)"
        " select id, 'far', '2031-05-05 10:00Z', '2031-05-05 10:00Z' from scheduler.jobs"
    )
    assert hands.one("select count(*) from scheduler.job_runs_default") == 1
    assert hands.one("select scheduler.make_partition('2031-05-17')") is True
    assert hands.one("select scheduler.make_partition('2031-05-01')") is False
    assert hands.one("select count(*) from scheduler.job_runs_default") == 0
    assert hands.one("select tableoid::regclass::text from scheduler.job_runs") == "scheduler.job_runs_2031_05"
    hands.admin.execute("update scheduler.job_runs set status = 'cancelled'")
    assert hands.path(hands.run()) == ["pending", "cancelled"]


@pytest.mark.lawless
async def test_what_is_written_into_a_partition_directly_is_judged_and_logged_too(hands: Hands) -> None:
    hands.set_clock("2026-11-16T09:00:00+00:00")
    await hands.add()
    hands.admin.execute(
        "insert into scheduler.job_runs_2026_12 (id, job_id, period_key, scheduled_at)"
        " select 77, id, '2026-12', '2026-12-05 10:00Z' from scheduler.jobs"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        hands.admin.execute(
            "insert into scheduler.job_runs_2026_11 (id, job_id, period_key, scheduled_at)"
            " select 78, id, '2026-12', '2026-11-20 10:00Z' from scheduler.jobs"
        )
    with pytest.raises(psycopg.DatabaseError, match="cannot go from pending to snoozed"):
        hands.admin.execute("update scheduler.job_runs_2026_12 set status = 'snoozed'")
    hands.admin.execute("update scheduler.job_runs_2026_12 set status = 'skipped'")
    assert hands.path(77) == ["pending", "skipped"]


def test_bounds_are_utc_whatever_zone_the_session_has(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set timezone = 'Asia/Shanghai'")
        connection.execute("select scheduler.make_partition('2032-05-01')")
        connection.execute("set timezone = 'UTC'")
        bound = connection.execute(
            "select pg_get_expr(relpartbound, oid) from pg_class where relname = 'job_runs_2032_05'"
        ).fetchone()
    assert bound == ("FOR VALUES FROM ('2032-05-01 00:00:00+00') TO ('2032-06-01 00:00:00+00')",)


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of a plan."""
    return [plan, *(node for part in plan.get("Plans", []) for node in nodes(part))]


@pytest.mark.lawless
async def test_the_contracts_due_query_probes_an_empty_index_for_each_past_month(hands: Hands) -> None:
    await hands.add()
    # Two years of a busy installation, in real time: what was due is done, what comes is pending.
    hands.admin.execute(
        "select scheduler.make_partition((date_trunc('month', now()) - make_interval(months => m))::date)"
        " from generate_series(1, 20) as m"
    )
    hands.admin.execute("alter table scheduler.job_runs disable trigger user")
    hands.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at, status, revision)"
        " select j.id, 'p' || n, date_trunc('month', now()) - interval '20 months' + n * interval '4 minutes',"
        " case when date_trunc('month', now()) - interval '20 months' + n * interval '4 minutes' < now()"
        " then 'confirmed' else 'pending' end, 1"
        " from scheduler.jobs as j, generate_series(1, 240000) as n"
    )
    hands.admin.execute("alter table scheduler.job_runs enable trigger user")
    hands.admin.execute(
        "insert into scheduler.job_runs (job_id, period_key, scheduled_at) select id, 'due', now() from scheduler.jobs"
    )
    hands.admin.execute("analyze scheduler.job_runs")
    with psycopg.connect(make_conninfo(hands.admin.info.dsn, user=Names().worker), autocommit=True) as worker:
        row = worker.execute(DUE.encode()).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    scans = [node for node in nodes(plan) if "Relation Name" in node]
    assert scans
    assert all(node["Node Type"] in ("Index Scan", "Index Only Scan") for node in scans), [
        (node["Node Type"], node["Relation Name"]) for node in scans
    ]
    this_month = hands.one("select 'job_runs_' || to_char(now() at time zone 'UTC', 'YYYY_MM')")
    ran = [node for node in scans if node["Actual Loops"]]
    assert all(node["Relation Name"] <= this_month or node["Relation Name"].endswith("default") for node in ran)
    assert sum(node["Actual Rows"] for node in ran) == 1
