"""The sender: holds messages, calls the transport outside of any transaction, and settles what came of it.

        claim ---> note that the transport is called ---> send ---> settle
                        |                                   |
                        +-- dead here: it waits again       +-- dead here: nobody knows, uncertain

One recipient's messages go out in the order they were written: those that are held together are sent one after the
other, and when one must be tried again those behind it are handed back unblamed.

Messages of a channel that is not configured, such as Telegram without a bot token, stay pending: the sender writes on
them which setting is missing, and after seven days they fail.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from duly.accounts.signed_links import list_link_keys
from duly.backoff import Backoff
from duly.crashpoint import crashpoint
from duly.db.clock import get_now
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.executors.call import Call
from duly.lease.operations import Lease, LeaseTable, settle_many
from duly.lease.work import Finished, StopSign, Tuning, Work
from duly.logging import get_log
from duly.outbox import repository
from duly.outbox.answer_links import Links
from duly.outbox.channel import AnswerLink, Channel, Message, NotSent, Person, Unknown, WhenUncertain, WillNeverWork
from duly.outcomes import Done, Failed, GiveUp, HandedBack, clean_text

__all__ = ["MAX_STARTS", "NOT_CONFIGURED", "WAITS_DAYS", "SendWork"]

MAX_STARTS = 12
NOT_CONFIGURED = "CHANNEL_NOT_CONFIGURED"
WAITS_DAYS = 7  # for a setting that is missing
BACKOFF = Backoff(base_seconds=10.0, cap_seconds=3600.0)
SWEPT_AT_ONCE = 100

log = get_log("duly.outbox")


@dataclass(frozen=True, slots=True)
class Uncertain:
    """It went out, and whether it arrived nobody knows."""

    message: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """It was not sent, and the other side said how long to wait."""

    message: str
    seconds: float


@dataclass(slots=True)
class Line:
    """The messages of one recipient that are in our hands."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    members: int = 0
    is_stopped: bool = False  # one of them must be tried again: those behind it wait


class SendWork(Work):
    """Messages of one table as a kind of work: those that are due, of the channels that are switched on."""

    def __init__(
        self,
        name: str,
        table: LeaseTable,
        channels: Mapping[str, Channel],
        tuning: Tuning,
        *,
        max_starts: int = MAX_STARTS,
        backoff: Backoff = BACKOFF,
        wakes: str | None = None,
        seconds: float = 30.0,
        retain_days: int | None = None,
        missing: Mapping[str, str] | None = None,
        console_instead: Mapping[str, str] | None = None,
        links: Links | None = None,
    ) -> None:
        self.name = name
        self.table = table
        self.channels = channels
        self.tuning = tuning
        self.wakes = wakes
        self.max_starts = max_starts
        self.backoff = backoff
        self.seconds = seconds
        self.retain_days = retain_days  # of the outbox; None: everything is kept
        self.missing = missing or {}  # channels that are not configured, and why: their messages wait
        self.console_instead = console_instead or {}  # the same, but the console sends them
        self.links = links  # without, messages have none
        self.lines: dict[tuple[str, str], Line] = {}
        self.pool: Pool | None = None
        self.called: list[tuple[Lease, asyncio.Future[bool]]] = []
        self.is_here = True

    @property
    def resendable(self) -> list[str]:
        """The channels on which what is uncertain is sent again."""
        return [name for name in self.served if self.channel_for(name).when_uncertain is WhenUncertain.RESEND]

    @property
    def served(self) -> list[str]:
        """The channels whose messages we send."""
        return [*self.channels, *self.console_instead]

    def channel_for(self, name: str) -> Channel:
        """What sends the messages of a channel."""
        return self.channels["console" if name in self.console_instead else name]

    # With the worker --------------------------------------------------------------------------------------------------

    async def prepare(self, connection: Connection) -> None:
        """A table that somebody else made is somebody else's to deliver."""
        self.is_here = self.table.qualified_name[0] == "duly" or await repository.is_here(connection, self.table)

    def lend(self, pool: Pool) -> None:
        """Connections for the note that comes before each call."""
        self.pool = pool

    async def close(self) -> None:
        """Let every channel go of what it holds."""
        for channel in set(self.channels.values()):
            await channel.close()

    async def find_due(self, connection: Connection, limit: int, besides: Sequence[Any] = ()) -> list[Any]:  # noqa: ARG002
        """None: whose turn it is in a line, only the claim itself can tell."""
        return []

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Hold due messages, with whom they are for."""
        assert keys is None, "messages are not claimed by their keys"
        if not self.is_here or not self.channels:
            return []
        held = await repository.claim_messages(
            connection, self.table, worker_id, self.served, lease_seconds=self.tuning.lease_seconds, limit=limit
        )
        people = await self.find_people(connection, sorted({lease.row["recipient"] for lease in held}))
        keys = await list_link_keys(connection) if held and self.links else []
        return [
            replace(
                lease,
                row={**lease.row, "person": people.get(lease.row["recipient"]), "links": self.links_of(lease, keys)},
            )
            for lease in held
        ]

    def links_of(self, lease: Lease, keys: Sequence[bytes]) -> tuple[AnswerLink, ...]:
        """What answers a message where there are no buttons."""
        if not self.links or not keys or "payload" not in lease.row:
            return ()
        return tuple(self.links.create(keys, lease.row["recipient"], lease.row["payload"], lease.row["created_at"]))

    async def find_people(self, connection: Connection, recipients: Sequence[str]) -> Mapping[str, Person]:
        """Who these are: in the outbox a recipient is a uid, in messages about days a Telegram id."""
        if not recipients:
            return {}
        if self.table.qualified_name[0] == "duly":
            return await repository.find_people(connection, recipients)
        return await repository.find_people_of_days(connection, [int(each) for each in recipients])

    async def find_expired(self, connection: Connection, limit: int = 100, besides: Sequence[Any] = ()) -> list[Any]:
        """The keys of what nobody holds any more, but for these."""
        return await super().find_expired(connection, limit, besides) if self.is_here else []

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """What dead senders held waits again, is set aside, or is uncertain; and that is sent again where it may be."""
        if not self.is_here:
            return 0
        swept = await repository.sweep_messages(connection, self.table, max_starts=self.max_starts, keys=keys)
        if keys is None:
            swept += await repository.resend_uncertain(
                connection, self.table, self.resendable, max_starts=self.max_starts
            )
            swept += await self.fail_unconfigured(connection)
        return swept

    async def fail_unconfigured(self, connection: Connection) -> int:
        """Messages of channels that are not configured say why they wait, and fail after some days; how many failed."""
        if not self.missing:
            return 0
        reasons = {channel: f"{NOT_CONFIGURED}: {why}" for channel, why in self.missing.items()}
        failed = await repository.fail_unconfigured(connection, self.table, reasons, WAITS_DAYS)
        await repository.note_unconfigured(connection, self.table, reasons)
        return failed

    async def tidy(self, connection: Connection) -> int:
        """Let messages leave that ended long ago."""
        return 0 if self.retain_days is None else await repository.retain(connection, self.retain_days)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        """Hand messages back: what was not called for waits again at once."""
        await repository.release_messages(connection, self.table, leases)

    # Sending ----------------------------------------------------------------------------------------------------------

    def call(self, lease: Lease, sign: StopSign) -> Call:  # noqa: ARG002
        """Send it, after those before it in its line."""
        line = self.lines.setdefault(line_of(lease), Line())
        line.members += 1
        return Call(self.send_in_line, (lease, line), timeout_seconds=self.seconds)

    async def send_in_line(self, lease: Lease, line: Line) -> object:
        """Send it when its turn has come; when one before it must be tried again, it waits for that."""
        try:
            async with line.turn:
                if line.is_stopped:
                    return HandedBack()
                outcome = await self.send(lease)
                line.is_stopped = isinstance(outcome, Failed | NotYet | HandedBack)
                return outcome
        except BaseException:
            line.is_stopped = True
            raise
        finally:
            line.members -= 1
            if not line.members:
                self.lines.pop(line_of(lease), None)

    async def send(self, lease: Lease) -> object:
        """Call the transport, and say what came of it."""
        channel = self.channel_for(lease.row["channel"])
        if not await self.may_call(lease):
            return HandedBack()  # it is not ours any more; handing it back does nothing
        crashpoint("before_send")
        try:
            receipt = await channel.send(message_of(lease))
        except NotSent as problem:
            why = clean_text(str(problem))
            return Failed("NOT_SENT", why) if problem.retry_after is None else NotYet(why, problem.retry_after)
        except WillNeverWork as problem:
            return GiveUp("WILL_NEVER_WORK", str(problem))
        except Unknown as problem:
            return Uncertain(clean_text(str(problem)))
        crashpoint("after_send")
        if why := self.console_instead.get(lease.row["channel"]):
            receipt = f"on the console instead of {lease.row['channel']}: {why}"
        return Done(receipt)

    async def may_call(self, lease: Lease) -> bool:
        """Note, for all that are about to be sent at this moment together, that their transport is called."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.called.append((lease, answer))
        if len(self.called) == 1:
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.note_called()))
        return await answer

    async def note_called(self) -> None:
        """One statement for everything that asked."""
        several, self.called = self.called, []
        assert self.pool, "a worker lends connections before it begins"
        try:
            async with self.pool.statement() as connection:
                ours = await repository.note_called(connection, self.table, [lease for lease, _ in several])
        except BaseException as error:
            for _, answer in several:
                if not answer.done():
                    answer.set_exception(error)
            return
        for lease, answer in several:
            if not answer.done():
                answer.set_result(lease.claim in ours)

    # Settling ---------------------------------------------------------------------------------------------------------

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[Any]:
        """Write down what came of each: sent, tried again later, failed, or uncertain."""
        ends: dict[str, list[Finished]] = {"sent": [], "uncertain": [], "failed": [], "pending": []}
        for each in finished:
            ends[self.end_of(each)].append(each)
        sent, unknown, failed, again = ends.values()
        ours = frozenset[Any]()
        if sent:
            receipts = [each.outcome.result for each in sent if isinstance(each.outcome, Done)]
            columns: dict[str, tuple[str, list[Any]]] = {
                "receipt": ("text", receipts),
                "last_error": ("text", [None for _ in sent]),
            }
            if self.console_instead:
                named = [each.lease.row["channel"] for each in sent]
                columns["channel"] = ("text", ["console" if name in self.console_instead else name for name in named])
            ours |= await settle_many(connection, leases_of(sent), "sent", columns)
        if unknown:
            ours |= await settle_many(connection, leases_of(unknown), "uncertain", reasons_of(unknown))
        if failed:
            ours |= await settle_many(connection, leases_of(failed), "failed", reasons_of(failed))
            for each in failed:
                log.warning("a message failed", key=str(each.lease.key), why=reason_of(each.outcome))
        if again:
            ours |= await self.try_again(connection, again)
        return ours

    def end_of(self, finished: Finished) -> str:
        """What becomes of a message by its outcome."""
        lease, outcome = finished
        if isinstance(outcome, Done):
            return "sent"
        if isinstance(outcome, Uncertain) or (
            isinstance(outcome, Failed) and outcome.code == "TIMEOUT" and self.must_ask(lease)
        ):
            return "uncertain"
        return "failed" if isinstance(outcome, GiveUp) or lease.row["starts"] >= self.max_starts else "pending"

    def must_ask(self, lease: Lease) -> bool:
        """Can the other side not tell a message that comes twice?"""
        return self.channel_for(lease.row["channel"]).when_uncertain is WhenUncertain.ASK

    async def try_again(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[Any]:
        """Let them wait: as long as the other side said, or longer every time."""
        now = await get_now(connection)
        due = [now + timedelta(seconds=self.delay_of(each)) for each in finished]
        columns = {
            **reasons_of(finished),
            "due_at": ("timestamptz", due),
            "called_at": ("timestamptz", [None for _ in finished]),
        }
        return await settle_many(connection, leases_of(finished), "pending", columns)

    def delay_of(self, finished: Finished) -> float:
        """How long one waits before it is tried again."""
        if isinstance(finished.outcome, NotYet):
            return finished.outcome.seconds
        return self.backoff.delay_seconds(finished.lease.row["starts"] - 1)


def message_of(lease: Lease) -> Message:
    """The message of a row, of either table."""
    row = lease.row
    payload = row.get("payload") or {
        "text": row["message"],
        "schedule_date": str(row["schedule_date"]),
        "event_ids": row["event_ids"],
    }
    return Message(
        id=str(lease.key),
        channel=row["channel"],
        recipient=row["recipient"],
        kind=row["kind"],
        payload=payload,
        created_at=row["created_at"].isoformat(),
        person=row["person"],
        links=row["links"],
    )


def line_of(lease: Lease) -> tuple[str, str]:
    """Whose line a message stands in."""
    return lease.row["channel"], lease.row["recipient"]


def leases_of(finished: Sequence[Finished]) -> list[Lease]:
    """Their leases."""
    return [each.lease for each in finished]


def reasons_of(finished: Sequence[Finished]) -> dict[str, tuple[str, list[object]]]:
    """The column that says why."""
    return {"last_error": ("text", [reason_of(each.outcome) for each in finished])}


def reason_of(outcome: object) -> str:
    """Why a message was not sent."""
    return str(getattr(outcome, "message", "")) or type(outcome).__name__
