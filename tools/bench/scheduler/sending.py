"""What it costs to hold messages and settle them: our sender with a transport that does nothing, and a bare program."""

import asyncio
import time

import psycopg
import uvloop

from duly.db.pool import open_pool
from duly.lease.work import Finished, StopSignal, Tuning
from duly.outbox.channel import OutboundMessage, UncertainPolicy
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX
from tools.bench.report import Figures
from tools.bench.scheduler import store
from tools.bench.scheduler.server import SchedulerServer, worker_dsn

BATCH = 500


class Nowhere:
    """A transport that takes everything at once."""

    name = "bench"
    uncertain_policy = UncertainPolicy.RESEND

    async def send(self, message: OutboundMessage) -> str | None:  # noqa: ARG002
        """Take it."""
        return "ok"

    async def close(self) -> None:
        """There is nothing to let go of."""


def measure_sending(server: SchedulerServer, messages: int, *, is_bare: bool) -> Figures:
    """How many messages are held and settled in a second."""
    with server.database(100) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        store.add_messages(admin, messages)
        store.vacuum(admin)
        server.checkpoint()
        seconds = bare(worker_dsn(dsn)) if is_bare else uvloop.run(ours(worker_dsn(dsn)))
        row = admin.execute("select count(*) from duly.outbox where status = 'sent'").fetchone()
    assert row == (messages,)
    return {"per_second": messages / seconds}


def bare(dsn: str) -> float:
    """What anybody would write, in batches."""
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
    """Our sender: hold, note that the transport is called, send, settle."""
    work = SendWork("outbox", OUTBOX, {"bench": Nowhere()}, Tuning())
    async with open_pool(dsn, size=2) as pool:
        work.use_handler_pool(pool)
        began = time.monotonic()
        while True:
            async with pool.transaction() as connection:
                leases = await work.claim(connection, "bench", BATCH)
            if not leases:
                return time.monotonic() - began
            calls = [work.call(lease, StopSignal()) for lease in leases]
            outcomes = await asyncio.gather(*(call.function(*call.arguments) for call in calls))
            finished = [Finished(lease, outcome) for lease, outcome in zip(leases, outcomes, strict=True)]
            async with pool.transaction() as connection:
                await work.settle(connection, finished)
