"""The situation of a run: its row, its message and all that could delay it, from one statement (`explain.sql`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from uuid import UUID

from duly.apps.scheduler.model import RunStatus
from duly.apps.scheduler.repository import UserScope
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_row
from duly.explain import ALIVE_SECONDS, MAX_AHEAD, convert_times
from duly.lease.owner import worker_from_owner

SQL = load_queries(__file__, "explain.sql")


@dataclass(frozen=True, slots=True)
class RunSituation:
    """A run, its schedule and message, and the workers."""

    id: int
    status: RunStatus
    scheduled_at: datetime
    remind_at: datetime | None
    sent_at: datetime | None
    reason: str | None
    schedule_id: int
    schedule_status: str
    channel: str
    message_status: str | None
    message_due_at: datetime | None
    message_error: str | None
    message_id: UUID | None
    message_starts: int | None
    message_is_in_line: bool | None
    message_created_at: datetime | None
    message_called_at: datetime | None
    message_owner: str | None
    message_lease_expires_at: datetime | None
    sender_gone_at: datetime | None  # when the lease owner was last seen, if it is not alive
    message_is_behind: bool | None  # behind an earlier one to the same recipient
    messages_ahead: int  # due messages that go first
    message_is_locked: bool  # waiting or expired, and another transaction has the row locked
    message_is_next: bool  # would a sender with one free slot claim it?
    answer: str | None  # the latest one
    answered_at: datetime | None
    reversed_at: datetime | None  # when the expense was reversed
    reminded_at: datetime | None  # the latest time
    is_due: bool  # is it in the view scheduler.due_runs?
    missed_reason: str | None  # if due: why it will be closed as missed, and not reminded of
    is_closing: bool | None  # is its schedule archived, with open runs to cancel?
    ahead: int  # due runs that go first
    is_locked: bool  # due, and another transaction has the row locked
    observed_at: datetime
    schedulers: int  # live workers that plan and remind
    senders: int  # live workers that send
    slots: int  # of the senders
    messages_sending: int  # by the senders
    has_free_slot: bool  # has one of the senders
    stopping: Sequence[str]  # names of workers that claim no more

    @property
    def is_closed(self) -> bool:
        """Whether its status is final."""
        return not self.status.is_open

    @property
    def is_being_sent(self) -> bool:
        """Whether a sender has the lease on its message, expired or not."""
        return self.remind_at is None and self.message_status == "sending"

    @property
    def is_sender_expired(self) -> bool:
        """Whether the lease on its message has expired."""
        return (
            self.is_being_sent
            and self.message_lease_expires_at is not None
            and self.message_lease_expires_at < self.observed_at
        )

    @property
    def is_message_early(self) -> bool:
        """Whether its message is not due yet."""
        return self.has_pending_message and self.message_due_at is not None and self.message_due_at > self.observed_at

    @property
    def sender(self) -> str:
        """The worker that has, or had, the lease on its message."""
        return worker_from_owner(self.message_owner or "unknown")

    @property
    def has_pending_message(self) -> bool:
        """Whether its message waits to be sent."""
        return self.remind_at is None and self.message_status == "pending"


async def find_situation(
    connection: Connection, user_id: UserScope, run_id: int, zone: tzinfo | None
) -> RunSituation | None:
    """Return a run with everything that could be the reason, with times in the zone."""
    row = await find_row(
        connection,
        SQL.find_situation,
        user_id=user_id,
        run_id=run_id,
        alive_seconds=ALIVE_SECONDS,
        ahead_limit=MAX_AHEAD + 1,
    )
    if row is None:
        return None
    fields = convert_times(row, zone)
    return replace(RunSituation(**fields), status=RunStatus(fields["status"]))
