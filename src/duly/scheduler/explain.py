"""Why has nobody been reminded of this run, or answered it? One true sentence.

Everything that could be the reason is looked at once, in one statement (`explain.sql`); the first cause that holds is
told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from uuid import UUID

from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_row
from duly.errors import NotFound
from duly.kernel.causes import ALIVE_SECONDS, Cause, Explanation, explained, in_zone
from duly.kernel.words import span, when
from duly.scheduler.model import RunStatus
from duly.scheduler.store import Owner

__all__ = ["CAUSES", "Reason", "Situation", "explain"]

SQL = load_queries(__file__, "explain.sql")
NOT_CONFIGURED = "CHANNEL_NOT_CONFIGURED"  # what the sender writes on a message whose channel lacks a setting
NOT_CONFIGURED_WAITS = timedelta(days=7)


class Reason(StrEnum):
    """Why a run is where it is; each is one sentence."""

    ANSWERED = "answered"
    CLOSED = "closed"
    WAITS_FOR_ANSWER = "waits_for_answer"
    MESSAGE_FAILED = "message_failed"
    MESSAGE_UNCERTAIN = "message_uncertain"
    BEING_SENT = "being_sent"
    NO_SENDER = "no_sender"
    NOT_CONFIGURED = "not_configured"
    QUIET = "quiet"
    TRIED_AGAIN = "tried_again"
    IN_LINE = "in_line"
    TO_BE_SENT = "to_be_sent"
    WAITS = "waits"
    NOT_REMINDED = "not_reminded"
    NO_WORKER = "no_worker"
    DUE = "due"


@dataclass(frozen=True, slots=True)
class Situation:
    """A run, and what stands around it."""

    id: int
    status: RunStatus
    scheduled_at: datetime
    remind_at: datetime | None
    sent_at: datetime | None
    reason: str | None
    job_id: int
    schedule_status: str
    channel: str
    message_status: str | None
    message_due_at: datetime | None
    message_error: str | None
    message_id: UUID | None
    message_starts: int | None
    message_is_in_line: bool | None
    answer: str | None
    answered_at: datetime | None
    looked_at: datetime
    schedulers: int  # workers alive that plan and remind
    senders: int  # workers alive that send

    @property
    def is_closed(self) -> bool:
        """Has it come to its end?"""
        return not self.status.is_open

    @property
    def is_written(self) -> bool:
        """Does its message wait to be sent?"""
        return self.remind_at is None and self.message_status == "pending"


async def explain(pool: Pool, user_id: Owner, run_id: int, *, zone: tzinfo | None = UTC) -> Explanation[Reason]:
    """Why this run is where it is; NotFound when it is not this person's."""
    async with pool.transaction() as connection:
        situation = await find_situation(connection, user_id, run_id, zone)
    if situation is None:
        raise NotFound(f"there is no run {run_id}")
    return explained(CAUSES, run_id, situation.status, situation)


async def find_situation(connection: Connection, user_id: Owner, run_id: int, zone: tzinfo | None) -> Situation | None:
    """A run and what stands around it, with times in the zone."""
    row = await find_row(connection, SQL.find_situation, user_id=user_id, run_id=run_id, alive_seconds=ALIVE_SECONDS)
    if row is None:
        return None
    told = in_zone(row, zone)
    return replace(Situation(**told), status=RunStatus(told["status"]))


# The causes, and how each is told -------------------------------------------------------------------------------------


def tell_failed(run: Situation) -> str:
    """Its message will not be sent."""
    return (
        f"Its message failed: {run.message_error}; when that is mended, send it again: "
        f"duly notifications resend {run.message_id}."
    )


def tell_uncertain(run: Situation) -> str:
    """Nobody knows."""
    return (
        f"Whether its message arrived nobody knows: {run.message_error}; send it again: duly notifications resend "
        f"{run.message_id}, or say what you know: duly notifications resolve {run.message_id} --sent."
    )


def tell_no_sender(run: Situation) -> str:
    """Nobody sends."""
    return (
        f"Its message waits in the outbox for {run.channel}, and no worker is alive that sends; "
        "start one: duly worker --only outbox."
    )


def tell_not_configured(run: Situation) -> str:
    """A setting is missing."""
    assert run.message_error, "the sender wrote why"
    assert run.message_due_at, "what waits has a time"
    why = run.message_error.removeprefix(f"{NOT_CONFIGURED}: ")
    return (
        f"Its message waits for {run.channel}: {why}; it is sent when that is set, and fails at "
        f"{when(run.message_due_at + NOT_CONFIGURED_WAITS)} otherwise. Or choose another channel: "
        f"duly schedule edit {run.job_id} --channel console."
    )


def tell_tried_again(run: Situation) -> str:
    """It was tried."""
    return (
        f"Its message was tried {run.message_starts} times, the last time: {run.message_error}; "
        f"it is tried again at {when(run.message_due_at)}."
    )


def tell_waits(run: Situation) -> str:
    """Its time has not come."""
    assert run.remind_at, "what waits has a time"
    snoozed = "It was snoozed: the" if run.status is RunStatus.SNOOZED else "The"
    left = span((run.remind_at - run.looked_at).total_seconds())
    return f"{snoozed} person is reminded at {when(run.remind_at)}, in {left}."


def tell_not_reminded(run: Situation) -> str:
    """There is no time to remind at."""
    if run.schedule_status == "archived":
        return "Its schedule is archived: no reminder is sent."
    return "No reminder is sent: its remind_at was set to null."


def tell_no_worker(run: Situation) -> str:
    """Nobody reminds."""
    return (
        f"Its reminder is due since {when(run.remind_at)}, and no worker is alive that writes reminders; "
        "start one: duly worker --only scheduler,outbox."
    )


CAUSES: Sequence[Cause[Reason, Situation]] = (
    # It has come to its end.
    Cause(
        Reason.ANSWERED,
        lambda run: run.is_closed and run.answer is not None,
        lambda run: f"It was answered with {run.answer} at {when(run.answered_at)}, and is {run.status}.",
    ),
    Cause(
        Reason.CLOSED,
        lambda run: run.is_closed,
        lambda run: f"It is {run.status} without an answer: {run.reason or 'somebody wrote so'}.",
    ),
    # The person was told.
    Cause(
        Reason.WAITS_FOR_ANSWER,
        lambda run: run.status is RunStatus.SENT,
        lambda run: f"The person was told at {when(run.sent_at)} and has not answered.",
    ),
    # Its message is written.
    Cause(Reason.MESSAGE_FAILED, lambda run: not run.remind_at and run.message_status == "failed", tell_failed),
    Cause(
        Reason.MESSAGE_UNCERTAIN, lambda run: not run.remind_at and run.message_status == "uncertain", tell_uncertain
    ),
    Cause(
        Reason.BEING_SENT,
        lambda run: not run.remind_at and run.message_status == "sending",
        lambda _: "Its message is being sent this moment.",
    ),
    Cause(Reason.NO_SENDER, lambda run: run.is_written and not run.senders, tell_no_sender),
    Cause(
        Reason.NOT_CONFIGURED,
        lambda run: run.is_written and (run.message_error or "").startswith(f"{NOT_CONFIGURED}: "),
        tell_not_configured,
    ),
    Cause(Reason.TRIED_AGAIN, lambda run: run.is_written and bool(run.message_starts), tell_tried_again),
    Cause(
        Reason.IN_LINE,
        lambda run: run.is_written and bool(run.message_is_in_line),
        lambda _: "Its message waits behind an earlier one to the same person, which could not be sent yet.",
    ),
    Cause(
        Reason.QUIET,
        lambda run: run.is_written and run.message_due_at is not None and run.message_due_at > run.looked_at,
        lambda run: f"It fell into the person's quiet hours, and is sent at {when(run.message_due_at)}.",
    ),
    Cause(Reason.TO_BE_SENT, lambda run: run.is_written, lambda _: "Its message is sent any moment."),
    # It waits: for its time, for somebody to come.
    Cause(Reason.WAITS, lambda run: run.remind_at is not None and run.remind_at > run.looked_at, tell_waits),
    Cause(
        Reason.NOT_REMINDED,
        lambda run: run.remind_at is None,
        tell_not_reminded,
    ),
    Cause(Reason.NO_WORKER, lambda run: not run.schedulers, tell_no_worker),
    # For nothing.
    Cause(
        Reason.DUE,
        lambda _: True,
        lambda run: f"Its reminder is due since {when(run.remind_at)}; a worker writes it any moment.",
    ),
)
