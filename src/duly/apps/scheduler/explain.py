"""Why has nobody been reminded of this run, or answered it? One true sentence.

Everything that could be the reason is looked at once, in one statement (`explain.sql`); the first cause that holds is
told. What is due, reminders and this read from one view, `scheduler.due_runs`; which message goes next,
`duly.find_next_message` says as senders claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from uuid import UUID

from duly.apps.scheduler.model import RunStatus
from duly.apps.scheduler.repository import Owner
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, find_row
from duly.errors import NotFound
from duly.explain import (
    ALIVE_SECONDS,
    LOCKED,
    MAX_COUNTED,
    Cause,
    Explanation,
    explained,
    go_first,
    holder_gone,
    in_zone,
    live_workers,
    no_worker,
)
from duly.formatting import counted, span, when
from duly.lease.owner import worker_of

__all__ = ["CAUSES", "Reason", "Situation", "explain"]

SQL = load_queries(__file__, "explain.sql")
NOT_CONFIGURED = "CHANNEL_NOT_CONFIGURED"  # what the sender writes on a message whose channel lacks a setting
NOT_CONFIGURED_WAITS = timedelta(days=7)
EIGHT_DAYS = timedelta(days=8)
REMINDED_AT_ONCE = 500  # runs, of which a worker writes the reminders in one transaction
SENDS = " that sends"
REMINDS = " that writes reminders"
START_SENDER = "start one: duly worker --only outbox"
START_SCHEDULER = "start one: duly worker --only scheduler,outbox"


class Reason(StrEnum):
    """Why a run is where it is; each is one sentence."""

    ANSWERED = "answered"
    CLOSED = "closed"
    WAITS_FOR_ANSWER = "waits_for_answer"
    MESSAGE_FAILED = "message_failed"
    MESSAGE_UNCERTAIN = "message_uncertain"
    SENDER_EXPIRED = "sender_lapsed"
    SENDER_GONE = "sender_gone"
    BEING_SENT = "being_sent"
    NO_SENDER = "no_sender"
    NOT_CONFIGURED = "not_configured"
    TRIED_AGAIN = "tried_again"
    IN_LINE = "in_line"
    CLOCK_SET_BACK = "clock_set_back"
    QUIET = "quiet"
    SLOTS_TAKEN = "slots_taken"
    MESSAGE_LOCKED = "message_locked"
    BEHIND_MESSAGES = "behind_messages"
    TO_BE_SENT = "to_be_sent"
    WAITS = "waits"
    NOT_REMINDED = "not_reminded"
    NO_WORKER = "no_worker"
    CLOSING = "closing"
    TOO_EARLY = "too_early"
    BEING_PLANNED = "being_planned"
    LOCKED = "locked"
    BEHIND_OTHERS = "behind_others"
    TO_BE_SKIPPED = "to_be_skipped"
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
    message_created_at: datetime | None
    message_called_at: datetime | None
    message_owner: str | None
    message_held_until: datetime | None
    sender_gone_at: datetime | None  # when the holder of the message was last seen, if that is no worker that is there
    message_is_behind: bool | None  # an earlier one to the same person
    messages_ahead: int  # that are due
    message_is_locked: bool  # waiting or expired, and somebody has the row locked
    message_is_next: bool  # would a sender with one free slot take it?
    answer: str | None  # the last
    answered_at: datetime | None
    undone_at: datetime | None  # when what was booked was taken back
    told_at: datetime | None  # the last time
    is_due: bool  # is its reminder written next?
    will_be_skipped: str | None  # then, and why
    is_closing: bool | None  # is its schedule archived, and cancelled bit by bit?
    ahead: int  # due runs that go first
    is_locked: bool  # due, and somebody has the row locked
    looked_at: datetime
    schedulers: int  # workers alive that plan and remind
    senders: int  # workers alive that send
    slots: int  # of these
    held: int  # messages, by these
    has_free_slot: bool  # one of these
    stopping: Sequence[str]  # the names of workers who take nothing new

    @property
    def is_closed(self) -> bool:
        """Has it come to its end?"""
        return not self.status.is_open

    @property
    def is_being_sent(self) -> bool:
        """Does somebody have its message, if only by the book?"""
        return self.remind_at is None and self.message_status == "sending"

    @property
    def is_sender_expired(self) -> bool:
        """Is its message held by the book only?"""
        return self.is_being_sent and self.message_held_until is not None and self.message_held_until < self.looked_at

    @property
    def is_message_early(self) -> bool:
        """Does its message wait for its time?"""
        return self.is_written and self.message_due_at is not None and self.message_due_at > self.looked_at

    @property
    def sender(self) -> str:
        """The worker that has its message, or had it until its lease ended."""
        return worker_of(self.message_owner or "nobody")

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
    found = explained(CAUSES, run_id, situation.status, situation)
    if situation.reason and found.reason is not Reason.CLOSED:  # which tells it already
        return replace(found, sentence=f"{found.sentence} Note: {situation.reason}.")
    return found


async def find_situation(connection: Connection, user_id: Owner, run_id: int, zone: tzinfo | None) -> Situation | None:
    """A run and what stands around it, with times in the zone."""
    row = await find_row(
        connection,
        SQL.find_situation,
        user_id=user_id,
        run_id=run_id,
        alive_seconds=ALIVE_SECONDS,
        most_counted=MAX_COUNTED + 1,
    )
    if row is None:
        return None
    told = in_zone(row, zone)
    return replace(Situation(**told), status=RunStatus(told["status"]))


# The causes, and how each is told -------------------------------------------------------------------------------------


def tell_answered(run: Situation) -> str:
    """The person answered, and may have taken back what that booked."""
    undone = f"; what was booked was taken back at {when(run.undone_at)}" if run.undone_at else ""
    return f"It was answered with {run.answer} at {when(run.answered_at)}, and is {run.status}{undone}."


def tell_closed(run: Situation) -> str:
    """It ended by itself."""
    snoozed = f" since it was snoozed at {when(run.answered_at)}" if run.answer else ""
    return f"It is {run.status} without an answer{snoozed}: {run.reason or 'somebody wrote so'}."


def tell_waits_for_answer(run: Situation) -> str:
    """The person was told, perhaps not for the first time."""
    told_at = when(run.told_at or run.sent_at)
    if run.answer:
        before = f"after {run.answer} at {when(run.answered_at)}"
        return f"The person was told again at {told_at}, {before}, and has not answered since."
    return f"The person was told at {told_at} and has not answered."


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


def tell_sender_expired(run: Situation) -> str:
    """Whoever was sending it is gone."""
    gone = f"{run.sender} was sending its message, and its lease ended at {when(run.message_held_until)} without a word"
    if not run.senders:
        return f"{gone}; {no_worker(run.stopping, SENDS)}; {START_SENDER}."
    if run.message_is_locked:
        return f"{gone}: {LOCKED}."
    called = "it is uncertain whether it arrived, for its transport had been called"
    then = called if run.message_called_at else "it waits again, unless it was started too often"
    return f"{gone}: at the next sweep, one every DULY_SWEEP_SECONDS, {then}."


def tell_sender_gone(run: Situation) -> str:
    """Whoever has its message is not there."""
    then = "the next sweep takes it back" if run.senders else f"{no_worker(run.stopping, SENDS)}; {START_SENDER}"
    return f"Its message: {holder_gone(run.sender, run.message_held_until, run.sender_gone_at)} {then}."


def tell_no_sender(run: Situation) -> str:
    """Nobody sends."""
    return f"Its message waits in the outbox for {run.channel}, and {no_worker(run.stopping, SENDS)}; {START_SENDER}."


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
    tried = counted(run.message_starts or 0, "time", "times")
    return (
        f"Its message was tried {tried}, the last time: {run.message_error}; it is tried again at "
        f"{when(run.message_due_at)}."
    )


def tell_in_line(run: Situation) -> str:
    """The person gets messages in order."""
    if run.message_is_behind:
        return "Its message waits behind an earlier one to the same person, which is not sent yet."
    waited = "Its message waited behind an earlier one to the same person, which is out of the way"
    return f"{waited}: it is sent at {when(run.message_due_at)}."


def tell_clock_set_back(run: Situation) -> str:
    """It was to be sent at once."""
    return (
        f"Its message was written at {when(run.message_created_at)}, to be sent at once: the clock of the database was "
        f"set back, and senders take it at {when(run.message_due_at)}."
    )


def tell_slots_taken(run: Situation) -> str:
    """All hands are full."""
    return (
        f"Its message waits: the {run.slots} slots of {live_workers(run.senders)} are taken, "
        f"{counted(run.held, 'message is', 'messages are')} being sent."
    )


def tell_waits(run: Situation) -> str:
    """Its time has not come."""
    assert run.remind_at, "what waits has a time"
    snoozed = "It was snoozed: the" if run.status is RunStatus.SNOOZED else "The"
    left = span((run.remind_at - run.looked_at).total_seconds())
    nobody = "" if run.schedulers else f"; so far {no_worker(run.stopping, REMINDS)}; {START_SCHEDULER}"
    return f"{snoozed} person is reminded at {when(run.remind_at)}, in {left}{nobody}."


def tell_not_reminded(run: Situation) -> str:
    """There is no time to remind at."""
    if run.schedule_status == "archived":
        return "Its schedule is archived: no reminder is sent."
    return "No reminder is sent: its remind_at was set to null."


def is_due(run: Situation) -> str:
    """Since when."""
    return f"Its reminder is due since {when(run.remind_at)}"


def tell_no_worker(run: Situation) -> str:
    """Nobody reminds."""
    return f"{is_due(run)}, and {no_worker(run.stopping, REMINDS)}; {START_SCHEDULER}."


def tell_too_early(run: Situation) -> str:
    """It is not of these days."""
    return f"{is_due(run)}, but it is of {when(run.scheduled_at)}, and nobody is reminded more than 8 days before."


CAUSES: Sequence[Cause[Reason, Situation]] = (
    # It has come to its end.
    Cause(Reason.ANSWERED, lambda run: run.is_closed and run.answer not in (None, "snooze"), tell_answered),
    Cause(Reason.CLOSED, lambda run: run.is_closed, tell_closed),
    # The person was told.
    Cause(Reason.WAITS_FOR_ANSWER, lambda run: run.status is RunStatus.SENT, tell_waits_for_answer),
    # Its message is written.
    Cause(Reason.MESSAGE_FAILED, lambda run: not run.remind_at and run.message_status == "failed", tell_failed),
    Cause(
        Reason.MESSAGE_UNCERTAIN, lambda run: not run.remind_at and run.message_status == "uncertain", tell_uncertain
    ),
    Cause(Reason.SENDER_EXPIRED, lambda run: run.is_sender_expired, tell_sender_expired),
    Cause(Reason.SENDER_GONE, lambda run: run.is_being_sent and run.sender_gone_at is not None, tell_sender_gone),
    Cause(
        Reason.BEING_SENT,
        lambda run: run.is_being_sent,
        lambda run: f"{run.sender} is sending its message this moment.",
    ),
    Cause(Reason.NO_SENDER, lambda run: run.is_written and not run.senders, tell_no_sender),
    Cause(
        Reason.NOT_CONFIGURED,
        lambda run: run.is_written and (run.message_error or "").startswith(f"{NOT_CONFIGURED}: "),
        tell_not_configured,
    ),
    Cause(Reason.TRIED_AGAIN, lambda run: run.is_message_early and bool(run.message_starts), tell_tried_again),
    Cause(
        Reason.IN_LINE,
        lambda run: run.is_written and bool(run.message_is_behind or (run.message_is_in_line and run.is_message_early)),
        tell_in_line,
    ),
    Cause(
        Reason.CLOCK_SET_BACK,
        lambda run: (
            run.is_message_early
            and run.message_due_at is not None
            and run.message_created_at is not None
            and run.message_due_at <= run.message_created_at
        ),
        tell_clock_set_back,
    ),
    Cause(
        Reason.QUIET,
        lambda run: run.is_message_early,
        lambda run: f"It fell into the person's quiet hours, and is sent at {when(run.message_due_at)}.",
    ),
    Cause(Reason.SLOTS_TAKEN, lambda run: run.is_written and not run.has_free_slot, tell_slots_taken),
    Cause(
        Reason.MESSAGE_LOCKED,
        lambda run: run.is_written and (run.message_is_locked or (not run.message_is_next and not run.messages_ahead)),
        lambda _: f"Its message is due, and {LOCKED}.",
    ),
    Cause(
        Reason.BEHIND_MESSAGES,
        lambda run: run.is_written and not run.message_is_next,
        lambda run: f"Its message is due, and {go_first(run.messages_ahead, 'due message', 'due messages')}.",
    ),
    Cause(Reason.TO_BE_SENT, lambda run: run.is_written, lambda _: "Its message is sent any moment."),
    # It waits: for its time, for somebody to come.
    Cause(Reason.WAITS, lambda run: run.remind_at is not None and run.remind_at > run.looked_at, tell_waits),
    Cause(Reason.NOT_REMINDED, lambda run: run.remind_at is None, tell_not_reminded),
    Cause(Reason.NO_WORKER, lambda run: not run.schedulers, tell_no_worker),
    # For its schedule.
    Cause(
        Reason.CLOSING,
        lambda run: bool(run.is_closing),
        lambda _: "Its schedule is archived: a worker is about to cancel it, and no reminder is sent.",
    ),
    Cause(
        Reason.TOO_EARLY, lambda run: not run.is_due and run.scheduled_at >= run.looked_at + EIGHT_DAYS, tell_too_early
    ),
    Cause(
        Reason.BEING_PLANNED,
        lambda run: not run.is_due,
        lambda run: (
            f"{is_due(run)}, and waits until its schedule is planned up to now: only then it is known whether a later "
            "run has come."
        ),
    ),
    # For others.
    Cause(Reason.LOCKED, lambda run: run.is_locked, lambda run: f"{is_due(run)}, and {LOCKED}."),
    Cause(
        Reason.BEHIND_OTHERS,
        lambda run: run.ahead >= REMINDED_AT_ONCE,
        lambda run: f"{is_due(run)}, and {go_first(run.ahead, 'due run', 'due runs')}, {REMINDED_AT_ONCE} at a time.",
    ),
    # For nothing.
    Cause(
        Reason.TO_BE_SKIPPED,
        lambda run: run.will_be_skipped is not None,
        lambda run: f"{is_due(run)}; a worker skips it any moment: {run.will_be_skipped}.",
    ),
    Cause(Reason.DUE, lambda _: True, lambda run: f"{is_due(run)}; a worker writes it any moment."),
)
