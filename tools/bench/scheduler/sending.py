"""The cost of claiming and settling messages: our sender with a channel that does nothing, and a minimal program."""

import asyncio
import time

import psycopg
import uvloop

from duly.db.pool import open_pool
from duly.lease.work import LeaseOutcome, StopSignal, Tuning
from duly.outbox.channel import OutboundMessage, UncertainPolicy
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX
from tools.bench.report import Figures
from tools.bench.scheduler import store
from tools.bench.scheduler.server import SchedulerServer, worker_dsn

BATCH = 500


class Nowhere:
    """A channel that accepts everything at once."""

    name = "bench"
    uncertain_policy = UncertainPolicy.RESEND

    async def send(self, message: OutboundMessage) -> str | None:  # noqa: ARG002
        """Accept a message."""
        return "ok"

    async def close(self) -> None:
        """Close nothing."""


def measure_sending(server: SchedulerServer, messages: int, *, is_bare: bool) -> Figures:
    """Measure how many messages a second are claimed and settled."""
    with server.database(100) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        store.add_messages(admin, messages)
        store.vacuum(admin)
        server.checkpoint()
        seconds = bare(worker_dsn(dsn)) if is_bare else uvloop.run(ours(worker_dsn(dsn)))
        row = admin.execute("select count(*) from duly.outbox where status = 'sent'").fetchone()
    assert row == (messages,)
    return {"per_second": messages / seconds}


def bare(dsn: str) -> float:
    """Claim and settle in batches, without what a sender promises."""
    with psycopg.connect(dsn) as connection:
        began = time.monotonic()
        while True:
            keys = store.bare_claim(connection, BATCH)
            connection.commit()
            if not keys:
                return time.monotonic() - began
            store.bare_settle(connection, keys)
            connection.commit()


async def ours(dsn: str) -> float:
    """Run our sender: claim, note the call of the channel, send, settle."""
    work = SendWork("outbox", OUTBOX, {"bench": Nowhere()}, Tuning())
    async with open_pool(dsn, size=2) as pool:
        work.use_handler_pool(pool)
        began = time.monotonic()
        while True:
            async with pool.transaction() as connection:
                leases = await work.claim(connection, "bench", BATCH)
            if not leases:
                return time.monotonic() - began
            calls = [work.build_call(lease, StopSignal()) for lease in leases]
            outcomes = await asyncio.gather(*(call.function(*call.arguments) for call in calls))
            finished = [LeaseOutcome(lease, outcome) for lease, outcome in zip(leases, outcomes, strict=True)]
            async with pool.transaction() as connection:
                await work.settle(connection, finished)
