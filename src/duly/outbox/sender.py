"""The sender: claims messages, calls the transport outside of any transaction, and settles the outcome.

        claim ---> mark as called ---> send ---> settle
                        |                 |
                        |                 +-- crash here: outcome unknown, uncertain
                        +-- crash here: pending again

Messages to one recipient are sent in the order they were written: those claimed together are sent one after the other,
and when one must be retried, those behind it are released without counting a start.

Messages of a channel that is not configured, such as Telegram without a bot token, stay pending: the sender writes the
missing setting into `last_error`, and after seven days they fail.

What follows from a sent message is the application's: the scheduler's trigger outbox_note_sent on `duly.outbox` writes
`scheduler.reminders` and makes the run `sent`, in the transaction that settles the message here.
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
from duly.lease.operations import Lease, release_rows, settle_rows
from duly.lease.work import LeaseOutcome, StopSignal, Tuning, Work
from duly.logging import get_log
from duly.outbox import repository
from duly.outbox.answer_links import AnswerLinks
from duly.outbox.channel import (
    NOT_CONFIGURED,
    UNCONFIGURED_WAIT_DAYS,
    AnswerLink,
    Channel,
    NotSent,
    OutboundMessage,
    OutcomeUnknown,
    UncertainPolicy,
    Undeliverable,
)
from duly.outbox.states import MessageTable
from duly.outcomes import Done, Failed, GiveUp, Released, clean_text

MAX_STARTS = 12
BACKOFF = Backoff(base_seconds=10.0, cap_seconds=3600.0)

log = get_log("duly.outbox")


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The message was handed to the transport and it is unknown whether it arrived."""

    message: str


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """The message was not sent, and the transport states how long to wait."""

    message: str
    seconds: float


@dataclass(slots=True)
class RecipientQueue:
    """The claimed messages of one recipient on one channel, sent one at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    members: int = 0
    is_blocked: bool = False  # one of them must be retried: those behind it are released


class SendWork(Work):
    """Due messages of one table, of the channels that are enabled, as work for a worker."""

    def __init__(
        self,
        name: str,
        table: MessageTable,
        channels: Mapping[str, Channel],
        tuning: Tuning,
        *,
        max_starts: int = MAX_STARTS,
        backoff: Backoff = BACKOFF,
        notify_channel: str | None = None,
        timeout_seconds: float = 30.0,
        retain_days: int | None = None,
        unconfigured: Mapping[str, str] | None = None,
        console_fallback: Mapping[str, str] | None = None,
        links: AnswerLinks | None = None,
    ) -> None:
        self.name = name
        self.table = self.messages = table  # `table` is for the worker, which knows lease tables only
        self.channels = channels
        self.tuning = tuning
        self.notify_channel = notify_channel
        self.max_starts = max_starts
        self.backoff = backoff
        self.timeout_seconds = timeout_seconds
        self.retain_days = retain_days  # outbox only; None keeps everything
        self.unconfigured = unconfigured or {}  # channel -> missing setting: their messages stay pending
        self.console_fallback = console_fallback or {}  # channel -> missing setting: the console prints them instead
        self.links = links  # None: messages get no links
        self.queues: dict[tuple[str, str], RecipientQueue] = {}
        self.pool: Pool | None = None
        self.pending_calls: list[tuple[Lease, asyncio.Future[bool]]] = []
        self.is_managed = True

    @property
    def resendable_channels(self) -> list[str]:
        """The channels on which uncertain messages are sent again."""
        return [
            name for name in self.served_channels if self.channel_for(name).uncertain_policy is UncertainPolicy.RESEND
        ]

    @property
    def served_channels(self) -> list[str]:
        """The channels whose messages this sender claims."""
        return [*self.channels, *self.console_fallback]

    def channel_for(self, name: str) -> Channel:
        """Return the channel that sends messages addressed to `name`."""
        return self.channels["console" if name in self.console_fallback else name]

    # For the worker --------------------------------------------------------------------------------------------------

    async def prepare(self, connection: Connection) -> None:
        """Find out whether duly delivers this table; a backend that owns its notifications delivers them itself."""
        self.is_managed = self.messages.is_outbox or await repository.is_managed(connection, self.messages)

    def use_handler_pool(self, pool: Pool) -> None:
        """Keep the pool whose connections mark messages as called."""
        self.pool = pool

    async def close(self) -> None:
        """Close every channel."""
        for channel in set(self.channels.values()):
            await channel.close()

    async def find_due(self, connection: Connection, limit: int, excluded_keys: Sequence[Any] = ()) -> list[Any]:  # noqa: ARG002
        """Return nothing: only the claim itself can decide which message of a recipient is next."""
        return []

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Claim due messages and add the contact and the answer links to each row."""
        assert keys is None, "messages are not claimed by key"
        if not self.is_managed or not self.channels:
            return []
        leases = await repository.claim_messages(
            connection,
            self.messages,
            worker_id,
            self.served_channels,
            lease_seconds=self.tuning.lease_seconds,
            limit=limit,
        )
        if not leases:
            return []
        recipients = sorted({lease.row["recipient"] for lease in leases})  # uids, or Telegram ids of notifications
        if self.messages.is_outbox:
            contacts = await repository.find_contacts(connection, recipients)
        else:
            contacts = await repository.find_contacts_by_telegram_id(connection, [int(each) for each in recipients])
        link_keys = await list_link_keys(connection) if self.links else []
        return [
            replace(
                lease,
                row={
                    **lease.row,
                    "contact": contacts.get(lease.row["recipient"]),
                    "links": self.create_links(lease, link_keys),
                },
            )
            for lease in leases
        ]

    def create_links(self, lease: Lease, keys: Sequence[bytes]) -> tuple[AnswerLink, ...]:
        """Return the links that replace the buttons of a message."""
        if not self.links or not keys or "payload" not in lease.row:
            return ()
        return tuple(self.links.create(keys, lease.row["recipient"], lease.row["payload"], lease.row["created_at"]))

    async def find_expired(
        self, connection: Connection, limit: int = 100, excluded_keys: Sequence[Any] = ()
    ) -> list[Any]:
        """Return the keys of messages with expired leases, except these."""
        return await super().find_expired(connection, limit, excluded_keys) if self.is_managed else []

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Settle expired leases, resend uncertain messages where receivers deduplicate; return how many changed."""
        if not self.is_managed:
            return 0
        swept = len(await repository.sweep_messages(connection, self.messages, max_starts=self.max_starts, keys=keys))
        if keys is None:
            swept += await repository.resend_uncertain(
                connection, self.messages, self.resendable_channels, max_starts=self.max_starts
            )
            swept += await self.handle_unconfigured(connection)
        return swept

    async def handle_unconfigured(self, connection: Connection) -> int:
        """Write the missing setting on messages of unconfigured channels; fail and count those that waited too long."""
        if not self.unconfigured:
            return 0
        reasons = {channel: f"{NOT_CONFIGURED}: {reason}" for channel, reason in self.unconfigured.items()}
        failed = await repository.fail_unconfigured(connection, self.messages, reasons, UNCONFIGURED_WAIT_DAYS)
        await repository.note_unconfigured(connection, self.messages, reasons)
        return failed

    async def maintain(self, connection: Connection) -> int:
        """Delete messages whose retention is over."""
        return 0 if self.retain_days is None else await repository.purge(connection, self.retain_days)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
        """Release leases; messages whose transport was not called become pending at once."""
        return await release_rows(connection, leases)

    # Sending ----------------------------------------------------------------------------------------------------------

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:  # noqa: ARG002
        """Return the call that sends a message after the earlier ones to its recipient."""
        queue = self.queues.setdefault(queue_key(lease), RecipientQueue())
        queue.members += 1
        return Call(self.send_in_order, (lease, queue), timeout_seconds=self.timeout_seconds)

    async def send_in_order(self, lease: Lease, queue: RecipientQueue) -> object:
        """Send a message in its turn; release it when an earlier one must be retried."""
        try:
            async with queue.lock:
                if queue.is_blocked:
                    return Released()
                outcome = await self.call_transport(lease)
                queue.is_blocked = isinstance(outcome, Failed | RetryAfter | Released)
                return outcome
        except BaseException:
            queue.is_blocked = True
            raise
        finally:
            queue.members -= 1
            if not queue.members:
                self.queues.pop(queue_key(lease), None)

    async def call_transport(self, lease: Lease) -> object:
        """Call the transport and return the outcome."""
        channel = self.channel_for(lease.row["channel"])
        if not await self.confirm_call(lease):
            return Released()  # the lease is lost; releasing it changes nothing
        crashpoint("before_send")
        try:
            receipt = await channel.send(message_from_lease(lease))
        except NotSent as problem:
            text = clean_text(str(problem))
            return Failed("NOT_SENT", text) if problem.retry_after is None else RetryAfter(text, problem.retry_after)
        except Undeliverable as problem:
            return GiveUp("UNDELIVERABLE", str(problem))
        except OutcomeUnknown as problem:
            return Uncertain(clean_text(str(problem)))
        crashpoint("after_send")
        if reason := self.console_fallback.get(lease.row["channel"]):
            receipt = f"on the console instead of {lease.row['channel']}: {reason}"
        return Done(receipt)

    async def confirm_call(self, lease: Lease) -> bool:
        """Mark a message as called, together with others about to be sent; return False when its lease is lost."""
        is_ours: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.pending_calls.append((lease, is_ours))
        if len(self.pending_calls) == 1:
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.mark_pending_calls()))
        return await is_ours

    async def mark_pending_calls(self) -> None:
        """Mark all pending calls in one statement and resolve their futures."""
        calls, self.pending_calls = self.pending_calls, []
        assert self.pool, "the worker must set the pool before it claims"
        try:
            async with self.pool.statement() as connection:
                ours = await repository.mark_called(connection, self.messages, [lease for lease, _ in calls])
        except BaseException as error:
            for _, is_ours in calls:
                if not is_ours.done():
                    is_ours.set_exception(error)
            return
        for lease, is_ours in calls:
            if not is_ours.done():
                is_ours.set_result(lease.claim in ours)

    # Settling ---------------------------------------------------------------------------------------------------------

    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[Any]:
        """Write the outcomes: sent, pending again, failed or uncertain; return the claims that were still ours."""
        by_status: dict[str, list[LeaseOutcome]] = {"sent": [], "uncertain": [], "failed": [], "pending": []}
        for each in finished:
            by_status[self.status_for(each)].append(each)
        sent, uncertain, failed, retried = by_status.values()
        ours, statements = frozenset[Any](), self.messages.statements
        if sent:
            receipts = [each.outcome.result for each in sent if isinstance(each.outcome, Done)]
            channels = ["console" if each.lease.row["channel"] in self.console_fallback else None for each in sent]
            ours |= await settle_rows(
                connection, to_leases(sent), statements.settle_sent, receipt=receipts, channel=channels
            )
        if unsent := [*uncertain, *failed]:
            outcomes = ["uncertain"] * len(uncertain) + ["failed"] * len(failed)
            ours |= await settle_rows(
                connection,
                to_leases(unsent),
                statements.settle_unsent,
                outcome=outcomes,
                last_error=error_texts(unsent),
            )
        for each in failed:
            log.warning("message.failed", message=str(each.lease.key), reason=error_text(each.outcome))
        if retried:
            ours |= await self.retry_later(connection, retried)
        return ours

    def status_for(self, finished: LeaseOutcome) -> str:
        """Return the status that follows from an outcome."""
        lease, outcome = finished
        if isinstance(outcome, Done):
            return "sent"
        if isinstance(outcome, Uncertain) or (
            isinstance(outcome, Failed) and outcome.code == "TIMEOUT" and self.needs_manual_resolution(lease)
        ):
            return "uncertain"
        return "failed" if isinstance(outcome, GiveUp) or lease.row["starts"] >= self.max_starts else "pending"

    def needs_manual_resolution(self, lease: Lease) -> bool:
        """Return whether an operator decides about an uncertain message, because the receiver does not deduplicate."""
        return self.channel_for(lease.row["channel"]).uncertain_policy is UncertainPolicy.MANUAL

    async def retry_later(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[Any]:
        """Make messages pending again, after the transport's delay or with exponential backoff."""
        now = await get_now(connection)
        due = [now + timedelta(seconds=self.retry_delay_seconds(each)) for each in finished]
        statement = self.messages.statements.settle_pending
        errors = error_texts(finished)
        return await settle_rows(connection, to_leases(finished), statement, last_error=errors, due_at=due)

    def retry_delay_seconds(self, finished: LeaseOutcome) -> float:
        """Return the seconds until the next attempt."""
        if isinstance(finished.outcome, RetryAfter):
            return finished.outcome.seconds
        return self.backoff.delay_seconds(finished.lease.row["starts"] - 1)


def message_from_lease(lease: Lease) -> OutboundMessage:
    """Build the message to send from a claimed row of either table."""
    row = lease.row
    payload = row.get("payload") or {
        "text": row["message"],
        "schedule_date": str(row["schedule_date"]),
        "event_ids": row["event_ids"],
    }
    return OutboundMessage(
        id=str(lease.key),
        channel=row["channel"],
        recipient=row["recipient"],
        kind=row["kind"],
        payload=payload,
        created_at=row["created_at"].isoformat(),
        contact=row["contact"],
        links=row["links"],
    )


def queue_key(lease: Lease) -> tuple[str, str]:
    """Return the channel and recipient, within which messages are sent in order."""
    return lease.row["channel"], lease.row["recipient"]


def to_leases(finished: Sequence[LeaseOutcome]) -> list[Lease]:
    """Return the leases of finished work."""
    return [each.lease for each in finished]


def error_texts(finished: Sequence[LeaseOutcome]) -> list[str]:
    """Return why messages were not sent."""
    return [error_text(each.outcome) for each in finished]


def error_text(outcome: object) -> str:
    """Return why a message was not sent."""
    return str(getattr(outcome, "message", "")) or type(outcome).__name__
