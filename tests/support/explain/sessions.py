"""Random states of capture sessions."""

from random import Random
from uuid import uuid4

from duly.apps.ingest.explain import SessionReason, explain
from duly.apps.ingest.repository import SessionTables
from duly.apps.ingest.states import capture_lease_table
from duly.db.pool import Pool
from duly.lease.operations import claim_rows
from tests.support.explain.registered_workers import (
    NAMES,
    delete_all_rows,
    lock_some_rows,
    register_workers,
    workers_with_free_slot,
)
from tests.support.ingest.actions import ANNA, LEASE, CaptureActions

IDLE_SECONDS = 25.0
SESSIONS = capture_lease_table(lease_seconds=300)
RUNNING = (
    "select locked_by from schedule_ingest.capture_session where state = 'processing'"
    " and locked_at + make_interval(secs => lease_seconds) >= duly.clock()"
)


async def check_sessions(seed: int, captures: CaptureActions, pool: Pool) -> set[SessionReason]:
    """Compare the explanation of every session with what a claim returns; return the reasons."""
    random = Random(seed)  # noqa: S311 (no secret)
    delete_all_rows(captures.admin)
    captures.set_clock("2026-11-16T10:00:00+00:00")
    for _ in range(random.randint(1, 4)):
        for _ in range(random.randint(1, 2)):
            await make_session(random, captures)
        captures.advance_clock(random.choice([0, 1, 30]))
        if random.random() < 0.5:
            lease = random.choice([LEASE, 10_000.0])
            leases = await claim_rows(captures.worker, SESSIONS, random.choice(NAMES), lease_seconds=lease)
            if random.random() < 0.3:
                await captures.finish(leases)
        captures.advance_clock(random.choice([0, 0, LEASE + 1]))
    registered = register_workers(random, captures.admin, "ingest")
    if random.random() < 0.1:
        captures.advance_clock(-20)
    with lock_some_rows(random, captures.admin, captures.table) as locked:
        claimed: set[object] = set()
        for each in workers_with_free_slot(registered, captures.values(RUNNING)):
            async with captures.worker.transaction(force_rollback=True):
                leases = await claim_rows(captures.worker, SESSIONS, each.name, lease_seconds=LEASE)
            claimed |= {lease.key for lease in leases}
        closed = await closed_as_idle(captures)
        found = {key: await explain(pool, None, key) for key in captures.columns("id")}
    for key, each in found.items():
        about = f"seed {seed}: {each.sentence}"
        assert (each.reason is SessionReason.DUE) == (key in claimed), about
        assert (each.reason is SessionReason.IDLE and key not in locked) == (key in closed), about
        assert each.reason is not SessionReason.LOCKED or key in locked, about
    return {each.reason for each in found.values()}


async def make_session(random: Random, captures: CaptureActions) -> None:
    """Create a session with a payload or with images, closed or not."""
    if random.random() < 0.5:
        await captures.create({"schedule_date": "2026-02-10", "entries": []})
        return
    key = await captures.open()
    for _ in range(random.randint(0, 2)):
        async with captures.api.transaction():
            await SessionTables().lock_open_session(captures.api, ANNA, key)
            await SessionTables().add_image(captures.api, key, f"k/{uuid4()}")
    if random.random() < 0.4:
        await SessionTables().close_session(captures.api, ANNA, key)


async def closed_as_idle(captures: CaptureActions) -> set[object]:
    """Return the sessions that the next poll of a worker closes; it is rolled back."""
    before = set(captures.values("select id from schedule_ingest.capture_session where closed_at is not null"))
    async with captures.worker.transaction(force_rollback=True):
        await SessionTables().close_idle(captures.worker, idle_seconds=IDLE_SECONDS, limit=100)
        rows = await captures.worker.execute(
            "select id from schedule_ingest.capture_session where closed_at is not null"
        )
        return {key for (key,) in await rows.fetchall()} - before
