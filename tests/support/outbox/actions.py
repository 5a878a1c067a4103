"""What tests of messages do: create some, let a sender work, read what became of them."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from psycopg.types.json import Jsonb

from duly.backoff import Backoff
from duly.lease.operations import Lease
from duly.lease.work import Tuning
from duly.outbox import repository
from duly.outbox.channel import Channel, OutboundMessage, UncertainPolicy
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX, MessageTable
from tests.support.actions import Actions, Admin, Connection

__all__ = ["LEASE", "SECRET", "SOON", "TUNING", "Admin", "Connection", "MessageActions", "ScriptedChannel", "send_work"]

LEASE = 30.0
TUNING = Tuning(lease_seconds=LEASE, heartbeat_seconds=0.2, poll_seconds=0.05, sweep_seconds=0.1, slots=20)
SOON = Backoff(base_seconds=0.01, cap_seconds=0.02)
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class MessageActions(Actions):
    """Actions on the messages of the outbox, as administrator and as sender."""

    schemas = ()
    table = "duly.outbox"
    order = "seq"
    machine = "outbox"
    summary = ("status", "starts", "last_error", "payload ->> 'word'")

    def add_webhook(self, uid: str, url: str) -> None:
        """Give a user, who is made, a webhook."""
        user = self.add_user(uid)
        self.admin.execute(
            "insert into duly.webhooks (person_id, url, secret) values (%s, %s, %s)", [user, url, SECRET]
        )

    def create(self, *words: str, to: str = "anna", channel: str = "test", due: str = "duly.clock()") -> list[str]:
        """Create a message of each word, in their order; return their ids."""
        insert = (
            "insert into duly.outbox (channel, recipient, kind, payload, due_at)"
            f" values (%s, %s, 'test.word', %s, {due}) returning id::text"
        )
        return [self.one(insert, channel, to, Jsonb({"word": word, "text": word})) for word in words]

    async def claim(self, *channels: str, limit: int = 100) -> list[Lease]:
        """Claim messages of these channels, as a sender does that ends at once."""
        return await repository.claim_messages(self.worker, OUTBOX, "dead", channels, lease_seconds=LEASE, limit=limit)


class ScriptedChannel:
    """A channel that does with each message what a test says, and records what it was given."""

    def __init__(self, name: str = "test", uncertain_policy: UncertainPolicy = UncertainPolicy.RESEND) -> None:
        self.name = name
        self.uncertain_policy = uncertain_policy
        self.sent: list[OutboundMessage] = []
        self.tries: list[str] = []
        self.act: Callable[[OutboundMessage], object] = lambda _: None

    async def send(self, message: OutboundMessage) -> str | None:
        """Do what the test says; an exception that it returns is raised."""
        self.tries.append(str(message.payload.get("word", message.id)))
        result = self.act(message)
        if asyncio.iscoroutine(result):
            result = await result
        if isinstance(result, BaseException):
            raise result
        self.sent.append(message)
        return f"receipt {len(self.sent)}"

    async def close(self) -> None:
        """There is nothing to close."""

    def words(self) -> list[str]:
        """Return the words that were sent, in their order."""
        return [str(each.payload["word"]) for each in self.sent]


def send_work(*channels: Channel, table: MessageTable = OUTBOX, tuning: Tuning = TUNING, **more: Any) -> SendWork:
    """Return the work of a sender over these channels, which tries again soon."""
    named: Mapping[str, Channel] = {each.name: each for each in channels}
    given: dict[str, Any] = {"backoff": SOON, **more}
    return SendWork("outbox", table, named, tuning, **given)
