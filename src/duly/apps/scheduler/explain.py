"""Explain in one sentence why a run has not been reminded of, or not answered.

Everything that could be the reason is read in one statement (situation.py); the first cause that applies is described.
Workers and this module read due runs from the same view, `scheduler.due_runs`; `duly.find_next_message` returns the
message that senders claim next.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, timedelta, tzinfo
from enum import StrEnum

from duly.apps.scheduler.limits import REMINDER_BATCH_SIZE
from duly.apps.scheduler.model import RunStatus
from duly.apps.scheduler.reasons import describe_reason
from duly.apps.scheduler.repository import UserScope
from duly.apps.scheduler.situation import RunSituation, find_situation
from duly.db.pool import Pool
from duly.errors import NotFound
from duly.explain import (
    LOCKED,
    Cause,
    Explanation,
    describe_missing_holder,
    describe_no_worker,
    find_explanation,
    format_ahead,
    format_live_workers,
)
from duly.formatting import format_duration, format_time, pluralize
from duly.outbox.channel import NOT_CONFIGURED, UNCONFIGURED_WAIT_DAYS

MAX_REMINDER_LEAD = timedelta(days=8)  # as in the view scheduler.due_runs
SENDS = " that sends"
REMINDS = " that writes reminders"
START_SENDER = "start one: duly worker --only outbox"
START_SCHEDULER = "start one: duly worker --only scheduler,outbox"


class RunReason(StrEnum):
    """Why a run is in its state; each reason has one sentence."""

    ANSWERED = "answered"
    CLOSED = "closed"
    WAITS_FOR_ANSWER = "waits_for_answer"
    MESSAGE_FAILED = "message_failed"
    MESSAGE_UNCERTAIN = "message_uncertain"
    SENDER_EXPIRED = "sender_expired"
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


async def explain(pool: Pool, user_id: UserScope, run_id: int, *, zone: tzinfo | None = UTC) -> Explanation[RunReason]:
    """Explain why a run is in its state; NotFound when it is not this user's."""
    async with pool.transaction() as connection:
        situation = await find_situation(connection, user_id, run_id, zone)
    if situation is None:
        raise NotFound(f"there is no run {run_id}")
    found = find_explanation(CAUSES, run_id, situation.status, situation)
    if situation.reason and found.reason is not RunReason.CLOSED:  # which includes it already
        return replace(found, sentence=f"{found.sentence} Note: {describe_reason(situation.reason)}.")
    return found


# Sentences ------------------------------------------------------------------------------------------------------------


def describe_answered(run: RunSituation) -> str:
    """Describe an answered run, and whether its expense was reversed."""
    undone = f"; its expense was reversed at {format_time(run.reversed_at)}" if run.reversed_at else ""
    return f"It was answered with {run.answer} at {format_time(run.answered_at)}, and is {run.status}{undone}."


def describe_closed(run: RunSituation) -> str:
    """Describe a run that was closed without an answer."""
    snoozed = f" since it was snoozed at {format_time(run.answered_at)}" if run.answer else ""
    reason = describe_reason(run.reason) if run.reason else "it was closed by hand"
    return f"It is {run.status} without an answer{snoozed}: {reason}."


def describe_waits_for_answer(run: RunSituation) -> str:
    """Describe a run whose reminder was sent."""
    reminded_at = format_time(run.reminded_at or run.sent_at)
    if run.answer:
        before = f"after {run.answer} at {format_time(run.answered_at)}"
        return f"The person was reminded again at {reminded_at}, {before}, and has not answered since."
    return f"The person was reminded at {reminded_at} and has not answered."


def describe_failed(run: RunSituation) -> str:
    """Describe a run whose message failed."""
    return (
        f"Its message failed: {run.message_error}; when that is fixed, send it again: "
        f"duly notifications resend {run.message_id}."
    )


def describe_uncertain(run: RunSituation) -> str:
    """Describe a run whose message may have arrived."""
    return (
        f"Its message may have arrived: {run.message_error}; send it again: duly notifications resend "
        f"{run.message_id}, or record that it arrived: duly notifications resolve {run.message_id} --sent."
    )


def describe_sender_expired(run: RunSituation) -> str:
    """Describe a run whose message has an expired lease."""
    expired_at = format_time(run.message_lease_expires_at)
    gone = f"{run.sender} was sending its message, and its lease expired at {expired_at} without renewal"
    if not run.senders:
        return f"{gone}; {describe_no_worker(run.stopping, SENDS)}; {START_SENDER}."
    if run.message_is_locked:
        return f"{gone}: {LOCKED}."
    uncertain = "it becomes uncertain whether it arrived, because its transport had been called"
    then = uncertain if run.message_called_at else "it waits again, unless it was started too often"
    return f"{gone}: at the next sweep, one every DULY_SWEEP_SECONDS, {then}."


def describe_sender_gone(run: RunSituation) -> str:
    """Describe a run whose message is leased by a worker that is gone."""
    then = (
        "the next sweep returns it to the queue"
        if run.senders
        else f"{describe_no_worker(run.stopping, SENDS)}; {START_SENDER}"
    )
    return (
        f"Its message: {describe_missing_holder(run.sender, run.message_lease_expires_at, run.sender_gone_at)} {then}."
    )


def describe_no_sender(run: RunSituation) -> str:
    """Describe a run whose message has no live sender."""
    no_sender = describe_no_worker(run.stopping, SENDS)
    return f"Its message waits in the outbox for {run.channel}, and {no_sender}; {START_SENDER}."


def describe_not_configured(run: RunSituation) -> str:
    """Describe a run whose channel lacks a setting."""
    assert run.message_error, "the sender wrote the reason"
    assert run.message_due_at, "what waits has a time"
    why = run.message_error.removeprefix(f"{NOT_CONFIGURED}: ")
    fails_at = run.message_due_at + timedelta(days=UNCONFIGURED_WAIT_DAYS)
    return (
        f"Its message waits for {run.channel}: {why}; it is sent when that is set, and fails at "
        f"{format_time(fails_at)} otherwise. Or choose another channel: "
        f"duly schedule edit {run.schedule_id} --channel console."
    )


def describe_tried_again(run: RunSituation) -> str:
    """Describe a run whose message will be retried."""
    tried = pluralize(run.message_starts or 0, "time", "times")
    return (
        f"Its message was tried {tried}, the last time: {run.message_error}; it is tried again at "
        f"{format_time(run.message_due_at)}."
    )


def describe_in_line(run: RunSituation) -> str:
    """Describe a run whose message waits for an earlier one to the same recipient."""
    if run.message_is_behind:
        return "Its message waits behind an earlier one to the same person, which is not sent yet."
    waited = "Its message waited behind an earlier one to the same person, which is done"
    return f"{waited}: it is sent at {format_time(run.message_due_at)}."


def describe_clock_set_back(run: RunSituation) -> str:
    """Describe a run whose message is early because the database's clock was set back."""
    return (
        f"Its message was created at {format_time(run.message_created_at)}, to be sent at once: the clock of the "
        f"database was set back, and senders claim it at {format_time(run.message_due_at)}."
    )


def describe_slots_taken(run: RunSituation) -> str:
    """Describe a run whose message waits for a free slot."""
    return (
        f"Its message waits: the {run.slots} slots of {format_live_workers(run.senders)} are in use, "
        f"{pluralize(run.messages_sending, 'message is', 'messages are')} being sent."
    )


def describe_waits(run: RunSituation) -> str:
    """Describe a run whose reminder is not due yet."""
    assert run.remind_at, "what waits has a time"
    snoozed = "It was snoozed: the" if run.status is RunStatus.SNOOZED else "The"
    left = format_duration((run.remind_at - run.observed_at).total_seconds())
    no_worker = "" if run.schedulers else f"; so far {describe_no_worker(run.stopping, REMINDS)}; {START_SCHEDULER}"
    return f"{snoozed} person is reminded at {format_time(run.remind_at)}, in {left}{no_worker}."


def describe_not_reminded(run: RunSituation) -> str:
    """Describe a run that sends no reminder."""
    if run.schedule_status == "archived":
        return "Its schedule is archived: no reminder is sent."
    return "No reminder is sent: its remind_at was set to null."


def describe_due(run: RunSituation) -> str:
    """Begin the sentence about a due reminder."""
    return f"Its reminder is due since {format_time(run.remind_at)}"


def describe_no_scheduler(run: RunSituation) -> str:
    """Describe a due run for which no worker is alive."""
    return f"{describe_due(run)}, and {describe_no_worker(run.stopping, REMINDS)}; {START_SCHEDULER}."


def describe_too_early(run: RunSituation) -> str:
    """Describe a run too far in the future."""
    at = format_time(run.scheduled_at)
    return f"{describe_due(run)}, but it is of {at}, and no reminder is sent more than 8 days ahead."


CAUSES: Sequence[Cause[RunReason, RunSituation]] = (
    # The run is closed.
    Cause(RunReason.ANSWERED, lambda run: run.is_closed and run.answer not in (None, "snooze"), describe_answered),
    Cause(RunReason.CLOSED, lambda run: run.is_closed, describe_closed),
    # The reminder was sent.
    Cause(RunReason.WAITS_FOR_ANSWER, lambda run: run.status is RunStatus.SENT, describe_waits_for_answer),
    # Its message is in the outbox.
    Cause(RunReason.MESSAGE_FAILED, lambda run: not run.remind_at and run.message_status == "failed", describe_failed),
    Cause(
        RunReason.MESSAGE_UNCERTAIN,
        lambda run: not run.remind_at and run.message_status == "uncertain",
        describe_uncertain,
    ),
    Cause(RunReason.SENDER_EXPIRED, lambda run: run.is_sender_expired, describe_sender_expired),
    Cause(
        RunReason.SENDER_GONE, lambda run: run.is_being_sent and run.sender_gone_at is not None, describe_sender_gone
    ),
    Cause(
        RunReason.BEING_SENT,
        lambda run: run.is_being_sent,
        lambda run: f"{run.sender} is sending its message now.",
    ),
    Cause(RunReason.NO_SENDER, lambda run: run.has_pending_message and not run.senders, describe_no_sender),
    Cause(
        RunReason.NOT_CONFIGURED,
        lambda run: run.has_pending_message and (run.message_error or "").startswith(f"{NOT_CONFIGURED}: "),
        describe_not_configured,
    ),
    Cause(RunReason.TRIED_AGAIN, lambda run: run.is_message_early and bool(run.message_starts), describe_tried_again),
    Cause(
        RunReason.IN_LINE,
        lambda run: (
            run.has_pending_message and bool(run.message_is_behind or (run.message_is_in_line and run.is_message_early))
        ),
        describe_in_line,
    ),
    Cause(
        RunReason.CLOCK_SET_BACK,
        lambda run: (
            run.is_message_early
            and run.message_due_at is not None
            and run.message_created_at is not None
            and run.message_due_at <= run.message_created_at
        ),
        describe_clock_set_back,
    ),
    Cause(
        RunReason.QUIET,
        lambda run: run.is_message_early,
        lambda run: f"It fell into the person's quiet hours, and is sent at {format_time(run.message_due_at)}.",
    ),
    Cause(RunReason.SLOTS_TAKEN, lambda run: run.has_pending_message and not run.has_free_slot, describe_slots_taken),
    Cause(
        RunReason.MESSAGE_LOCKED,
        lambda run: (
            run.has_pending_message and (run.message_is_locked or (not run.message_is_next and not run.messages_ahead))
        ),
        lambda _: f"Its message is due, and {LOCKED}.",
    ),
    Cause(
        RunReason.BEHIND_MESSAGES,
        lambda run: run.has_pending_message and not run.message_is_next,
        lambda run: f"Its message is due, and {format_ahead(run.messages_ahead, 'due message', 'due messages')}.",
    ),
    Cause(RunReason.TO_BE_SENT, lambda run: run.has_pending_message, lambda _: "Its message will be sent now."),
    # It waits for its time, or for a worker.
    Cause(RunReason.WAITS, lambda run: run.remind_at is not None and run.remind_at > run.observed_at, describe_waits),
    Cause(RunReason.NOT_REMINDED, lambda run: run.remind_at is None, describe_not_reminded),
    Cause(RunReason.NO_WORKER, lambda run: not run.schedulers, describe_no_scheduler),
    # It waits for its schedule.
    Cause(
        RunReason.CLOSING,
        lambda run: bool(run.is_closing),
        lambda _: "Its schedule is archived: a worker is about to cancel it, and no reminder is sent.",
    ),
    Cause(
        RunReason.TOO_EARLY,
        lambda run: not run.is_due and run.scheduled_at >= run.observed_at + MAX_REMINDER_LEAD,
        describe_too_early,
    ),
    Cause(
        RunReason.BEING_PLANNED,
        lambda run: not run.is_due,
        lambda run: (
            f"{describe_due(run)}, and waits until its schedule is planned up to now: only then it is known whether a "
            "later run is due."
        ),
    ),
    # It waits for other rows.
    Cause(RunReason.LOCKED, lambda run: run.is_locked, lambda run: f"{describe_due(run)}, and {LOCKED}."),
    Cause(
        RunReason.BEHIND_OTHERS,
        lambda run: run.ahead >= REMINDER_BATCH_SIZE,
        lambda run: (
            f"{describe_due(run)}, and {format_ahead(run.ahead, 'due run', 'due runs')}, "
            f"{REMINDER_BATCH_SIZE} at a time."
        ),
    ),
    # It waits for nothing.
    Cause(
        RunReason.TO_BE_SKIPPED,
        lambda run: run.missed_reason is not None,
        lambda run: f"{describe_due(run)}; a worker is about to skip it: {describe_reason(run.missed_reason)}.",
    ),
    Cause(RunReason.DUE, lambda _: True, lambda run: f"{describe_due(run)}; a worker is about to write it."),
)
