"""What tests of messages do all the time: write some, let a sender work, let time pass, look."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from duly.delivery.channel import Channel, Message, WhenUncertain
from duly.delivery.machine import OUTBOX
from duly.delivery.work import SendWork
from duly.kernel.backoff import Backoff
from duly.kernel.lease import LeaseTable
from duly.kernel.work import Pace, Work
from duly.settings import Settings
from duly.worker.runtime import Worker

__all__ = ["PACE", "SECRET", "SOON", "Admin", "Told", "know", "look", "put", "send_work", "until", "working"]

Admin = psycopg.Connection[Any]
PACE = Pace(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.05, sweep_seconds=0.1, slots=20)
SOON = Backoff(base_seconds=0.01, cap_seconds=0.02)
SECONDS = 40.0
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Told:
    """A channel that does to each message what a test says, and remembers what it was given."""

    def __init__(self, name: str = "test", when_uncertain: WhenUncertain = WhenUncertain.RESEND) -> None:
        self.name = name
        self.when_uncertain = when_uncertain
        self.sent: list[Message] = []
        self.tries: list[str] = []
        self.act: Callable[[Message], object] = lambda _: None

    async def send(self, message: Message) -> str | None:
        """Do what the test says; an exception that it returns is raised."""
        self.tries.append(str(message.payload.get("word", message.id)))
        told = self.act(message)
        if asyncio.iscoroutine(told):
            told = await told
        if isinstance(told, BaseException):
            raise told
        self.sent.append(message)
        return f"receipt {len(self.sent)}"

    async def close(self) -> None:
        """There is nothing to let go of."""

    def words(self) -> list[str]:
        """What was sent, in its order."""
        return [str(each.payload["word"]) for each in self.sent]


def know(admin: Admin, uid: str = "anna", url: str | None = None) -> None:
    """A person, perhaps with a webhook."""
    admin.execute('insert into "user".users (uid) values (%s) on conflict do nothing', [uid])
    if url:
        admin.execute(
            'insert into "user".webhooks (user_id, url, secret) select id, %s, %s from "user".users where uid = %s',
            [url, SECRET, uid],
        )


def put(admin: Admin, *words: str, to: str = "anna", channel: str = "test", due: str = "duly.clock()") -> list[str]:
    """Messages of these words, in their order; their ids."""
    asked = (
        "insert into duly.outbox (channel, recipient, kind, payload, due_at)"
        f" values (%s, %s, 'test.word', %s, {due}) returning id::text"
    )
    found: list[str] = []
    for word in words:
        row = admin.execute(asked.encode(), [channel, to, Jsonb({"word": word, "text": word})]).fetchone()
        assert row
        found.append(row[0])
    return found


def look(admin: Admin, columns: str = "status") -> list[Any]:
    """Every message, in the order they were written; of one column, its values."""
    rows = admin.execute(f"select {columns} from duly.outbox order by seq".encode()).fetchall()
    return [row[0] if len(row) == 1 else row for row in rows]


def send_work(*channels: Channel, of: LeaseTable = OUTBOX, pace: Pace = PACE, **more: Any) -> SendWork:
    """A sender over these channels, which tries again soon."""
    named: Mapping[str, Channel] = {each.name: each for each in channels}
    given: dict[str, Any] = {"backoff": SOON, **more}
    return SendWork("outbox", of, named, pace, **given)


@asynccontextmanager
async def working(dsn: str, *works: Work, stop_seconds: float = 5) -> AsyncGenerator[Worker, None]:
    """A worker in this process, stopped politely at the end."""
    worker = Worker(works, Settings(DULY_STOP_SECONDS=stop_seconds), dsn=dsn)  # type: ignore[call-arg]
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.ask_to_stop()
        await running


async def until(admin: Admin, condition: Callable[[], bool]) -> None:
    """Wait for something in the database while the worker in this process goes on."""

    def wait() -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, look(admin, "status, starts, last_error, payload ->> 'word'")
            admin.execute("select pg_sleep(0.02)")

    await asyncio.to_thread(wait)
