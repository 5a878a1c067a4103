"""Claiming: the right jobs, in the right order, never too many, and without reading what is in the way."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.ledger import store
from duly.ledger.model import Floor, Kind, floors_after
from tests.ledger.hands import KIND, LEASE, ORG, Admin, Connection, Hands

IN_THE_WAY = 100_000


async def test_a_claim_holds_the_job_and_counts_as_a_start(hands: Hands) -> None:
    (key,) = hands.put(payload={"n": 1})
    (lease,) = await hands.hold()
    assert (lease.key, lease.row["payload"], lease.row["attempt"], lease.row["starts"]) == (key, {"n": 1}, 0, 1)
    assert hands.look("status", "attempt", "starts", "lease_owner") == [("running", 0, 1, lease.owner)]
    assert hands.log(key)[1:] == [("queued", "running", {"actor": lease.owner, "start": 1})]
    assert await hands.hold() == []
    hands.verify()


async def test_unknown_work_is_left_alone(hands: Hands) -> None:
    hands.put("unknown")
    hands.put(queue="elsewhere")
    assert await hands.hold() == []
    assert len(await hands.hold(Kind("elsewhere", "work"), Kind("default", "unknown"), most=9)) == 2


async def test_higher_priority_comes_first_and_then_what_has_waited_longest(hands: Hands) -> None:
    low_old, low_new = hands.put(priority=-5, rows=2)
    (other_type,) = hands.put("other", priority=-5)
    (high,) = hands.put("other", priority=100)
    (plain,) = hands.put()
    order = [lease.key for _ in range(5) for lease in await hands.hold(KIND, Kind("default", "other"))]
    assert order == [high, plain, low_old, low_new, other_type]


async def test_at_equal_priority_the_kind_whose_head_waited_longest_comes_first(hands: Hands) -> None:
    (one,) = hands.put("one")
    (two,) = hands.put("two")
    (three,) = hands.put("one")
    kinds = [Kind("default", "two"), Kind("default", "one")]
    order = [lease.key for _ in range(3) for lease in await hands.hold(*kinds)]
    assert order == [one, two, three]


async def test_one_claim_takes_from_as_many_kinds_and_priorities_as_it_needs(hands: Hands) -> None:
    for priority in (1, 0, -1):
        hands.put("one", rows=2, priority=priority)
        hands.put("two", rows=2, priority=priority)
    leases = await hands.hold(Kind("default", "one"), Kind("default", "two"), most=7)
    assert sorted(lease.row["priority"] for lease in leases) == [0, 0, 0, 1, 1, 1, 1]
    assert len({lease.owner for lease in leases}) == 1


async def test_nothing_is_claimed_before_its_time(hands: Hands) -> None:
    hands.put(delay_seconds=60.0)
    assert await hands.hold() == []
    hands.pass_time(61)
    assert len(await hands.hold()) == 1


@pytest.mark.parametrize("what", [{"queue": "default"}, {"type": "work"}, {"queue": "default", "type": "work"}])
async def test_what_is_paused_rests_until_it_is_resumed(what: dict[str, str], hands: Hands, worker: Connection) -> None:
    hands.put()
    hands.put("other", queue="elsewhere")
    since = await store.pause(worker, "anna", **what)
    assert await store.pause(worker, "bert", **what) == since
    assert [(each.paused_by, each.paused_at) for each in await store.list_limits(worker)] == [("anna", since)]
    kinds = (KIND, Kind("elsewhere", "other"))
    assert [lease.row["type"] for lease in await hands.hold(*kinds, most=9)] == ["other"]
    assert await store.resume(worker, **what)
    assert not await store.resume(worker, **what)
    assert await store.list_limits(worker) == []
    assert [lease.row["type"] for lease in await hands.hold(*kinds, most=9)] == ["work"]


async def test_a_limit_counts_what_runs_in_every_queue_and_binds_no_other_type(
    hands: Hands, worker: Connection
) -> None:
    assert await store.set_limit(worker, "work", 3)
    assert not await store.set_limit(worker, "work", 3)
    hands.put(rows=4, priority=2)
    hands.put(rows=4, queue="slow")
    hands.put("other", rows=4)
    kinds = (KIND, Kind("slow", "work"), Kind("default", "other"))
    first = await hands.hold(*kinds, most=2)
    second = await hands.hold(*kinds, most=9)
    assert [lease.row["type"] for lease in first] == ["work", "work"]
    assert sorted(lease.row["type"] for lease in second) == ["other"] * 4 + ["work"]
    await store.done(worker, first, [None, None])
    assert len(await hands.hold(*kinds, most=9)) == 2
    await store.set_limit(worker, "work", None)
    assert len(await hands.hold(*kinds, most=9)) == 3


async def test_a_limit_is_never_exceeded_though_eight_claimers_race(hands: Hands, admin: Admin) -> None:
    await store.set_limit(hands.worker, "work", 5)
    hands.put(rows=200)
    most_at_once = 0

    async def drain() -> None:
        nonlocal most_at_once
        async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
            while hands.look("status").count("queued"):
                leases = await store.claim(connection, "worker-1", [KIND], lease_seconds=LEASE, most=3)
                most_at_once = max(most_at_once, hands.look("status").count("running"))
                if leases:
                    await store.done(connection, leases, [None] * len(leases))

    await asyncio.gather(*(drain() for _ in range(8)))
    assert 1 <= most_at_once <= 5
    assert most_at_once_by_log(admin) <= 5
    hands.verify()


def most_at_once_by_log(admin: Admin) -> int:
    """How many jobs ran at once at most, as the log tells it."""
    asked = (
        "select max(running) from (select sum(case next_status when 'running' then 1 else -1 end)"
        " over (order by ts, next_status) as running from ledger.job_event where seq > 1) as told"
    )
    (most,) = admin.execute(asked).fetchone() or (None,)
    assert isinstance(most, int)
    return most


async def test_a_claimer_that_hangs_with_the_limit_keeps_nobody_from_other_types(
    hands: Hands, other: Connection
) -> None:
    await store.set_limit(hands.worker, "work", 5)
    hands.put(rows=2)
    hands.put("other")
    async with other.transaction():
        assert len(await store.claim(other, "worker-2", [KIND], lease_seconds=LEASE, most=1)) == 1
        async with asyncio.timeout(10):
            leases = await hands.hold(KIND, Kind("default", "other"), most=9)
        assert [lease.row["type"] for lease in leases] == ["other"]
    assert len(await hands.hold(most=9)) == 1


async def test_no_job_ever_has_two_holders_though_eight_claimers_race(hands: Hands, admin: Admin) -> None:
    hands.put(rows=300)

    async def drain() -> list[Any]:
        async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
            held: list[Any] = []
            while leases := await store.claim(connection, "worker-1", [KIND], lease_seconds=LEASE, most=7):
                held += [lease.key for lease in leases]
            return held

    claimed = [key for keys in await asyncio.gather(*(drain() for _ in range(8))) for key in keys]
    assert len(claimed) == len(set(claimed)) == 300
    assert hands.look("starts") == [1] * 300


async def test_a_floor_passes_over_what_lies_below_it_and_over_nothing_else(hands: Hands, worker: Connection) -> None:
    first, second = hands.put(rows=2)
    (low,) = hands.put(priority=-1)
    (high,) = hands.put(priority=1)
    (row,) = hands.admin.execute("select run_at from ledger.job where id = %s", [second]).fetchall()
    floors = {KIND: Floor(0, row[0], second)}
    leases = await store.claim(worker, "worker-1", [KIND], lease_seconds=LEASE, most=9, floors=floors)
    assert {lease.key for lease in leases} == {high, second, low}
    assert [lease.key for lease in await hands.hold()] == [first]


def test_a_floor_is_the_newest_of_one_priority() -> None:
    rows: list[dict[str, Any]] = [
        {"queue": "q", "type": "one", "priority": 0, "run_at": 5, "id": 9},
        {"queue": "q", "type": "one", "priority": 0, "run_at": 7, "id": 2},
        {"queue": "q", "type": "one", "priority": 0, "run_at": 7, "id": 1},
        {"queue": "q", "type": "two", "priority": 0, "run_at": 7, "id": 3},
        {"queue": "q", "type": "two", "priority": 1, "run_at": 7, "id": 4},
    ]
    assert floors_after(rows) == {Kind("q", "one"): (0, 7, 2)}


def put_in_the_way(admin: Admin, rows: int) -> None:
    """Jobs of our kind that are due later, half of them more urgent, and due jobs of other kinds."""
    admin.execute(
        "insert into ledger.job (org_id, type, queue, priority, run_at)"
        " select %(org)s, case n %% 3 when 0 then 'work' else 'foreign' end,"
        " case n %% 3 when 1 then 'aside' else 'default' end,"
        " n %% 2, case n %% 3 when 0 then duly.clock() + interval '1 day' else duly.clock() - interval '1 day' end"
        " from generate_series(1, %(rows)s) as n",
        {"org": ORG, "rows": rows},
    )
    admin.execute("analyze ledger.job")


async def buffers_of_a_claim(hands: Hands, admin: Admin) -> int:
    """How many pages a claim of ten jobs touches, once the planner has made up its mind."""
    hands.put(rows=70)
    asked = "explain (analyze, buffers, format json) select id from ledger.claim('{default}', '{work}', 'me/1', 60, 10)"
    plans: list[Any] = []
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as worker:
        for _ in range(7):
            plans += worker.execute(asked).fetchone() or ()
    plan = plans[-1][0]["Plan"]
    assert plan["Actual Rows"] == 10
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


async def test_jobs_in_the_way_are_not_read(hands: Hands, admin: Admin) -> None:
    alone = await buffers_of_a_claim(hands, admin)
    put_in_the_way(admin, IN_THE_WAY)
    crowded = await buffers_of_a_claim(hands, admin)
    assert crowded < 2 * alone + 200, f"{alone} pages without, {crowded} pages with {IN_THE_WAY} jobs in the way"


async def test_an_empty_claim_reads_next_to_nothing_whatever_is_in_the_way(hands: Hands, admin: Admin) -> None:
    put_in_the_way(admin, 30_000)
    asked = "explain (analyze, buffers, format json) select id from ledger.claim('{default}', '{work}', 'me/1', 60, 10)"
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as worker:
        plans = [worker.execute(asked).fetchone() for _ in range(3)]
    (documents,) = plans[-1] or ([],)
    plan: dict[str, Any] = documents[0]["Plan"]
    assert plan["Actual Rows"] == 0
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60
