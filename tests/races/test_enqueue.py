"""Asking for jobs from many sides at once, and claiming past what is in the way.

`tests/ledger/test_enqueue.py` shows a hundred equal requests make one job; `tests/ledger/test_claim.py` that a limit
holds with eight claimers, and that 300,000 jobs in the way are not read. Here: two requests under one key, batches that
overlap, and what an old snapshot does to a claim.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.kernel.canonical import Json
from duly.ledger import store
from duly.ledger.model import Floor, Kind, Request, floors_after
from tests.ledger.conftest import admin, hands, other, worker
from tests.ledger.hands import KIND, LEASE, ORG, OTHER_ORG, Admin, Connection, Hands
from tests.support.locks import wait_until_blocked

__all__ = ["admin", "hands", "other", "worker"]

ASKERS = 100
SECONDS = 60.0
DRAINED = 6_000
BATCH = 100


def at_once(number: int, act: Callable[[int, Admin], None], address: str) -> None:
    """Do this from so many connections, all of which begin together; what any of them raises, this raises."""
    start, failures = threading.Barrier(number), list[BaseException]()

    def run(nth: int) -> None:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                start.wait(SECONDS)
                act(nth, connection)
        except BaseException as failure:  # handed on below
            failures.append(failure)
            start.abort()

    threads = [threading.Thread(target=run, args=[nth]) for nth in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def test_of_two_requests_under_one_key_one_wins_and_every_other_of_its_kind_is_told(hands: Hands, admin: Admin) -> None:
    answers: list[tuple[int, str, UUID | None]] = []

    def ask(nth: int, connection: Admin) -> None:
        body = nth % 2
        try:
            asked = "select id, outcome from ledger.enqueue(%s, 'work', %s, 'once')"
            for key, outcome in connection.execute(asked, [ORG, Jsonb({"n": body})]):
                answers.append((body, outcome, key))
        except psycopg.DatabaseError as refusal:
            answers.append((body, refusal.sqlstate or "", None))

    at_once(ASKERS, ask, make_conninfo(admin.info.dsn, user=Names().api))
    ((winner,),) = admin.execute("select (payload ->> 'n')::int from ledger.job").fetchall()
    told = Counter((body, outcome) for body, outcome, _ in answers)
    half = ASKERS // 2
    assert told == {(winner, "created"): 1, (winner, "existing"): half - 1, (1 - winner, store.KEY_REUSED): half}
    assert len({key for _, _, key in answers if key}) == 1
    hands.verify()


@pytest.mark.parametrize(("end", "outcome"), [("commit", "existing"), ("rollback", "created")])
async def test_who_waits_for_another_request_takes_what_became_of_it(
    end: str, outcome: str, hands: Hands, admin: Admin
) -> None:
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api)) as first:
        first.execute("select ledger.enqueue(%s, 'work', '{}', 'once')", [ORG])
        waiting = asyncio.create_task(store.enqueue(hands.worker, Request(ORG, "work", key="once")))
        await asyncio.to_thread(wait_until_blocked, admin.info.dsn)
        getattr(first, end)()
    assert (await waiting)["outcome"] == outcome
    assert len(hands.look("id")) == 1
    hands.verify()


def test_the_same_key_of_many_orgs_at_once_is_a_job_for_each(hands: Hands, admin: Admin) -> None:
    orgs = [ORG, OTHER_ORG]

    def ask(nth: int, connection: Admin) -> None:
        connection.execute("select ledger.enqueue(%s, 'work', '{}', 'once')", [orgs[nth % 2]])

    at_once(20, ask, make_conninfo(admin.info.dsn, user=Names().api))
    assert sorted(hands.look("org_id")) == orgs


def test_batches_that_overlap_in_any_order_never_deadlock_and_make_each_job_once(hands: Hands, admin: Admin) -> None:
    """Sixteen callers, the same 200 keys, forwards, backwards and turned: they wait, but always in the same order."""
    number, rounds = 200, 3
    outcomes: list[str] = []

    def ask(nth: int, connection: Admin) -> None:
        for each in range(rounds):
            keys = [f"key-{each}-{n:03}" for n in range(number)]
            turned = keys[nth * 13 :] + keys[: nth * 13]
            given = turned if nth % 2 else turned[::-1]
            payloads = [Jsonb({"key": key}) for key in given]
            asked = "select outcome from ledger.enqueue_many(%s, 'work', %s::jsonb[], %s) order by nth"
            outcomes.extend(outcome for (outcome,) in connection.execute(asked, [ORG, payloads, given]))

    at_once(16, ask, make_conninfo(admin.info.dsn, user=Names().api))
    assert Counter(outcomes) == {"created": number * rounds, "existing": number * rounds * 15}
    assert len(hands.look("id")) == number * rounds
    hands.verify()


async def test_two_overlapping_batches_of_open_transactions_wait_and_do_not_die(
    hands: Hands, other: Connection, admin: Admin
) -> None:
    """The first holds every key that the second wants, in the opposite order, until it commits."""
    keys = [f"key-{n}" for n in range(50)]
    payloads = [{"key": key} for key in keys]
    async with other.transaction():
        first = await store.enqueue_many(other, Request(ORG, "work"), payloads, keys)
        asked = store.enqueue_many(hands.worker, Request(ORG, "work"), payloads[::-1], keys[::-1])
        waiting = asyncio.create_task(asked)
        await asyncio.to_thread(wait_until_blocked, admin.info.dsn)
    second = await waiting
    assert [row["id"] for row in second] == [row["id"] for row in first][::-1]
    assert {row["outcome"] for row in second} == {"existing"}


def test_singles_and_batches_of_the_same_keys_make_each_job_once(hands: Hands, admin: Admin) -> None:
    keys = [f"key-{n:02}" for n in range(40)]
    outcomes: list[str] = []

    def ask(nth: int, connection: Admin) -> None:
        if nth % 2:
            asked = "select outcome from ledger.enqueue_many(%s, 'work', array_fill('{}'::jsonb, array[40]), %s)"
            outcomes.extend(
                outcome for (outcome,) in connection.execute(asked, [ORG, keys[:: -1 if nth % 4 == 1 else 1]])
            )
        else:
            for key in keys[nth:] + keys[:nth]:
                asked = "select outcome from ledger.enqueue(%s, 'work', '{}', %s)"
                outcomes.extend(outcome for (outcome,) in connection.execute(asked, [ORG, key]))

    at_once(12, ask, make_conninfo(admin.info.dsn, user=Names().api))
    assert Counter(outcomes) == {"created": 40, "existing": 40 * 11}
    hands.verify()


# A claim where the dead cannot be cleared -----------------------------------------------------------------------------


async def drain(connection: Connection, *, most: int) -> Floor:
    """Claim and finish so many jobs, batch by batch, each from the floor that the one before left; the last floor."""
    floors: dict[Kind, Floor] = {}
    for _ in range(most // BATCH):
        leases = await store.claim(connection, "worker-1", [KIND], lease_seconds=LEASE, most=BATCH, floors=floors)
        assert len(leases) == BATCH
        floors = floors_after([lease.row for lease in leases])
        await store.done(connection, leases, [None] * BATCH)
    return floors[KIND]


def blocks_of_a_claim(worker: Admin, floor: Floor | None) -> int:
    """How many blocks a claim of one job touches, which is then undone."""
    asked = sql.SQL(
        "explain (analyze, buffers, format json)"
        " select id from ledger.claim('{{default}}', '{{work}}', 'me/1', 60, 1, {}, {}, {})"
    ).format(*([each] for each in floor or (None, None, None)))
    with worker.transaction(force_rollback=True):
        ((document,),) = worker.execute(asked).fetchall()
    plan = document[0]["Plan"]
    assert plan["Actual Rows"] == 1
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def blocks_of_claims(address: str, floors: Sequence[Floor | None]) -> list[int]:
    """The same for each floor, once the planner has made up its mind."""
    with psycopg.connect(address, autocommit=True) as worker:
        for _ in range(7):
            blocks_of_a_claim(worker, floors[0])
        return [blocks_of_a_claim(worker, floor) for floor in floors]


@pytest.mark.parametrize("calls", [1, 6])
async def test_with_an_old_snapshot_held_a_floor_keeps_a_claim_from_reading_the_dead(
    hands: Hands, admin: Admin, calls: int
) -> None:
    """Whoever holds a snapshot keeps every dead entry of the index in the way; a floor begins behind them."""
    for _ in range(calls):  # what one call makes is due at one instant: there the ids part it
        await store.enqueue_many(hands.worker, Request(ORG, "work"), numbered(DRAINED // calls))
    fresh, above, without = await blocks_while_draining(hands, admin, DRAINED)
    told = f"{fresh} blocks at first, {above} with a floor, {without} without"
    assert above < 2 * fresh + 50, told
    assert without > 3 * above, f"the dead are not in the way, so this shows nothing: {told}"
    hands.verify()


def numbered(rows: int) -> list[dict[str, Json]]:
    """Payloads."""
    return [{"n": n} for n in range(rows)]


async def blocks_while_draining(hands: Hands, admin: Admin, rows: int) -> tuple[int, int, int]:
    """What a claim reads at first, and when so many were drained under an old snapshot: with a floor, and without."""
    address = make_conninfo(admin.info.dsn, user=Names().worker)
    hands.put(rows=20)  # which are left in the end
    with psycopg.connect(admin.info.dsn) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from ledger.job")  # from here on nothing that dies may be cleared away
        (fresh,) = blocks_of_claims(address, [None])
        floor = await drain(hands.worker, most=rows)
        above, without = blocks_of_claims(address, [floor, None])
    return fresh, above, without


async def test_draining_with_floors_takes_every_job_once(hands: Hands, admin: Admin) -> None:
    await store.enqueue_many(hands.worker, Request(ORG, "work"), [{"n": n} for n in range(1_000)])
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as connection:
        await drain(connection, most=1_000)
    assert hands.look("status", "starts") == [("succeeded", 1)] * 1_000
    hands.verify()
