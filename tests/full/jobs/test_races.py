"""Asking for jobs from many sides at once, and claiming past what is in the way.

`test_enqueue.py` shows a hundred equal requests make one job; `test_claim.py` that a limit
holds with eight claimers, and that 300,000 jobs in the way are not read. Here: two requests under one key, batches that
overlap, and what an old snapshot does to a claim.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from duly.canonical_json import Json
from duly.db.error_table import KEY_REUSED
from duly.db.migrations import Names
from duly.jobs.model import Floor, JobRequest
from tests.fast.jobs.test_races import at_once, drain
from tests.support.jobs.actions import ORG, Admin, JobActions
from tests.support.jobs.fixtures import admin, jobs, other, worker
from tests.support.jobs.insert_jobs import insert_jobs

__all__ = ["admin", "jobs", "other", "worker"]

ASKERS = 100
DRAINED = 6_000


def test_racing_requests_with_one_key_and_two_bodies_create_one_job_and_refuse_the_other_body(
    jobs: JobActions, admin: Admin
) -> None:
    answers: list[tuple[int, str, UUID | None]] = []

    def send_requests(nth: int, connection: Admin) -> None:
        body = nth % 2
        try:
            query = "select id, outcome from ledger.enqueue(%s, 'work', %s, 'once')"
            for key, outcome in connection.execute(query, [ORG, Jsonb({"n": body})]):
                answers.append((body, outcome, key))
        except psycopg.DatabaseError as refusal:
            answers.append((body, refusal.sqlstate or "", None))

    at_once(ASKERS, send_requests, make_conninfo(admin.info.dsn, user=Names().api))
    ((winner,),) = admin.execute("select (payload ->> 'n')::int from ledger.job").fetchall()
    summary = Counter((body, outcome) for body, outcome, _ in answers)
    half = ASKERS // 2
    assert summary == {(winner, "created"): 1, (winner, "existing"): half - 1, (1 - winner, KEY_REUSED): half}
    assert len({key for _, _, key in answers if key}) == 1
    jobs.verify()


def test_overlapping_batches_of_keys_never_deadlock_and_create_each_job_once(jobs: JobActions, admin: Admin) -> None:
    """Sixteen callers with the same 200 keys in different orders: they wait, but always in the same order."""
    number, rounds = 200, 3
    outcomes: list[str] = []

    def send_requests(nth: int, connection: Admin) -> None:
        for each in range(rounds):
            keys = [f"key-{each}-{n:03}" for n in range(number)]
            turned = keys[nth * 13 :] + keys[: nth * 13]
            given = turned if nth % 2 else turned[::-1]
            payloads = [Jsonb({"key": key}) for key in given]
            query = "select outcome from ledger.enqueue_many(%s, 'work', %s::jsonb[], %s) order by nth"
            outcomes.extend(outcome for (outcome,) in connection.execute(query, [ORG, payloads, given]))

    at_once(16, send_requests, make_conninfo(admin.info.dsn, user=Names().api))
    assert Counter(outcomes) == {"created": number * rounds, "existing": number * rounds * 15}
    assert len(jobs.columns("id")) == number * rounds
    jobs.verify()


def count_claim_blocks(worker: Admin, floor: Floor | None) -> int:
    """Return how many blocks a claim of one job touches; it is rolled back."""
    query = sql.SQL(
        "explain (analyze, buffers, format json)"
        " select id from ledger.claim('{{default}}', '{{work}}', 'me/1', 60, 1, {}, {}, {})"
    ).format(*([each] for each in floor or (None, None, None)))
    with worker.transaction(force_rollback=True):
        ((document,),) = worker.execute(query).fetchall()
    plan = document[0]["Plan"]
    assert plan["Actual Rows"] == 1
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def count_blocks_of_claims(address: str, floors: Sequence[Floor | None]) -> list[int]:
    """The same for each floor, once the plan is cached."""
    with psycopg.connect(address, autocommit=True) as worker:
        for _ in range(7):
            count_claim_blocks(worker, floors[0])
        return [count_claim_blocks(worker, floor) for floor in floors]


@pytest.mark.parametrize("calls", [1, 6])
async def test_a_claim_floor_skips_dead_index_entries_while_an_old_snapshot_is_held(
    jobs: JobActions, admin: Admin, calls: int
) -> None:
    """An old snapshot keeps dead index entries; a floor makes the claim begin after them."""
    for _ in range(calls):  # what one call makes is due at one instant: there the ids part it
        await insert_jobs(jobs.worker, JobRequest(ORG, "work"), numbered(DRAINED // calls))
    fresh, above, without = await blocks_while_draining(jobs, admin, DRAINED)
    summary = f"{fresh} blocks at first, {above} with a floor, {without} without"
    assert above < 2 * fresh + 50, summary
    assert without > 3 * above, f"the dead are not in the way, so this shows nothing: {summary}"
    jobs.verify()


def numbered(rows: int) -> list[dict[str, Json]]:
    """Payloads."""
    return [{"n": n} for n in range(rows)]


async def blocks_while_draining(jobs: JobActions, admin: Admin, rows: int) -> tuple[int, int, int]:
    """Return what a claim reads at first, and after draining jobs under an old snapshot, with a floor and without."""
    address = make_conninfo(admin.info.dsn, user=Names().worker)
    jobs.enqueue(rows=20)  # which are left in the end
    with psycopg.connect(admin.info.dsn) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from ledger.job")  # from here on nothing that dies may be cleared away
        (fresh,) = count_blocks_of_claims(address, [None])
        floor = await drain(jobs.worker, limit=rows)
        above, without = count_blocks_of_claims(address, [floor, None])
    return fresh, above, without
