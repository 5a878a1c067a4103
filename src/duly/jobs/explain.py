"""Why is this job not running? One true sentence.

Everything that could be the reason is looked at once, in one statement (`explain.sql`). Then the causes are gone
through in their order, and the first that holds is told: what has ended is not waiting, what waits for its time needs
no worker yet, and a pause is a reason even where nobody works. That a job may be taken any moment is said only when the
claim itself would take it: `ledger.find_next` claims, and rolls back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import partial
from uuid import UUID

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
    names,
    no_worker,
)
from duly.formatting import counted, span, when
from duly.jobs.model import ANY, DEFAULT_ORG, Limit, Status
from duly.jobs.service import tenant
from duly.lease.owner import worker_of

__all__ = ["CAUSES", "Reason", "Situation", "explain"]

MAX_MESSAGE_LENGTH = 200

SQL = load_queries(__file__, "explain.sql")


class Reason(StrEnum):
    """Why a job is where it is; each is one sentence."""

    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"
    HALF_FAILED = "half_failed"
    EXPIRED_NO_WORKER = "lapsed_no_worker"
    EXPIRED = "expired"
    HOLDER_GONE = "holder_gone"
    ASKED_TO_STOP = "asked_to_stop"
    RUNNING = "running"
    CLOCK_SET_BACK = "clock_set_back"
    BACKING_OFF = "backing_off"
    SNOOZED = "snoozed"
    DELAYED = "delayed"
    QUEUE_AND_TYPE_PAUSED = "queue_and_type_paused"
    QUEUE_PAUSED = "queue_paused"
    TYPE_PAUSED = "type_paused"
    TYPE_IN_QUEUE_PAUSED = "type_in_queue_paused"
    NO_WORKER = "no_worker"
    NOT_HANDLED = "not_handled"
    LIMIT_REACHED = "limit_reached"
    SLOTS_TAKEN = "slots_taken"
    LOCKED = "locked"
    BEHIND_OTHERS = "behind_others"
    DUE = "due"


async def explain(pool: Pool, org: UUID, key: UUID, *, zone: tzinfo | None = UTC) -> Explanation[Reason]:
    """Why this job of this org does not run, or NotFound; the sentence tells times in the zone, None is the machine's.

    Limits, slots and the order of jobs know no orgs, and only the worker's role sees all that is counted for them. With
    the API's, this org's jobs are counted and those of others are not.
    """
    async with tenant(pool, org) as connection:
        situation = await find_situation(connection, org, key, zone)
    if situation is None:
        raise NotFound(f"there is no job {key}")
    return explained(CAUSES, key, situation.status, situation)


# What there is to see -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Situation:
    """A job, and what stands around it."""

    id: UUID
    org_id: UUID
    status: Status
    queue: str
    type: str
    priority: int
    starts: int
    max_attempts: int
    snoozes: int
    run_at: datetime
    lease_owner: str | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    stage: str | None
    progress: int | None
    finished_at: datetime | None
    last_error_code: str | None
    last_error_message: str | None
    looked_at: datetime
    last_reason: str | None  # what its last event says
    last_at: datetime | None  # and when that was
    claimed_at: datetime | None
    asked_by: str | None  # who wanted it cancelled
    holder_gone_at: datetime | None  # when its holder was last seen, if that is no worker that is there
    pauses: Sequence[Limit]  # that it falls under
    limit: int | None  # of its type at once
    running: int  # of its type
    expired: int  # of these, whose lease ended
    workers: int  # alive
    stopping: Sequence[str]  # the names of those who take nothing new
    sweepers: int  # of these, who perform jobs at all
    handlers: Sequence[str]  # the names of those who perform jobs of its kind, who has a free slot first
    slots: int  # of the handlers
    busy: int  # jobs that run under their names
    free_handlers: int  # who have a free slot
    ahead: int  # due jobs that the handlers take first
    is_locked: bool  # waiting or expired, and somebody has the row locked
    is_next: bool | None  # would a claim with one free slot take it? None: only a worker may ask

    @property
    def holder(self) -> str:
        """The worker that has it, or had it until its lease ended."""
        return worker_of(self.lease_owner or "nobody")

    @property
    def is_expired(self) -> bool:
        """Does it run by the book only: did its lease end?"""
        return (
            self.status is Status.RUNNING
            and self.lease_expires_at is not None
            and self.lease_expires_at < self.looked_at
        )

    @property
    def is_next_seen(self) -> bool:
        """Is it its turn: by the claim, or as far as this role sees, by what goes first?"""
        return self.ahead == 0 if self.is_next is None else self.is_next

    @property
    def is_early(self) -> bool:
        """Does it wait for its time?"""
        return self.status is Status.QUEUED and self.run_at > self.looked_at

    def is_paused(self, *, queue: bool, type: bool) -> bool:  # noqa: A002
        """Is there a pause of just this: any type of its queue, its type in any queue, or its type in its queue?"""
        return any((pause.queue != ANY, pause.type != ANY) == (queue, type) for pause in self.pauses)


async def find_situation(connection: Connection, org: UUID, key: UUID, zone: tzinfo | None) -> Situation | None:
    """A job of this org and what stands around it, with times in the zone."""
    row = await find_row(
        connection, SQL.find_situation, org=org, key=key, alive_seconds=ALIVE_SECONDS, most_counted=MAX_COUNTED + 1
    )
    if row is None:
        return None
    told = in_zone(row, zone)
    paused = zip(*(told.pop(f"paused_{part}s") for part in ("queue", "type", "at", "by")), strict=True)
    told["pauses"] = [Limit(queue, of_type, None, at.astimezone(zone), by) for queue, of_type, at, by in paused]
    told["status"] = Status(told["status"])
    return Situation(**told)


# The causes, and how each is told -------------------------------------------------------------------------------------


def has(status: Status) -> Callable[[Situation], bool]:
    """Its status is this."""
    return lambda job: job.status is status


def paused(*, queue: bool, type: bool) -> Callable[[Situation], bool]:  # noqa: A002
    """There is a pause of just this."""
    return lambda job: job.is_paused(queue=queue, type=type)


def tell_succeeded(job: Situation) -> str:
    """It is done."""
    return f"It succeeded at {when(job.finished_at)}, at start {job.starts} of at most {job.max_attempts}."


def tell_canceled(job: Situation) -> str:
    """Somebody did not want it any more."""
    return f"It was cancelled at {when(job.finished_at)}, as {job.asked_by or 'somebody'} had asked."


def tell_dead(job: Situation) -> str:
    """It failed for good: with what, and how to begin anew."""
    end = "was given up" if job.last_reason == "gave_up" else "failed, and was the last"
    return (
        f"It is a dead letter since {when(job.finished_at)}: start {job.starts} of {job.max_attempts} {end}, with "
        f"{error_of(job)}; to let it wait again: {command('retry', job)}."
    )


def tell_half_failed(job: Situation) -> str:
    """The second half of a failure is missing."""
    return (
        f"It failed with {error_of(job)} and nobody decided what follows: duly writes both down at once, so another "
        f"hand than duly's moved it under the name of {job.holder}; see: duly verify."
    )


def tell_expired(job: Situation, end: str) -> str:
    """Its holder is gone."""
    return f"The lease of {job.holder} ended at {when(job.lease_expires_at)} without a word, and {end}."


def next_sweep(job: Situation) -> str:
    """What becomes of it when it is taken back."""
    if job.cancel_requested_at:
        then = "it is cancelled, as was asked"
    elif job.starts >= job.max_attempts:
        then = f"it is a dead letter, after {job.starts} of {job.max_attempts} starts"
    else:
        then = f"it waits for start {job.starts + 1} of {job.max_attempts}"
    return f"takes it back: then {then}"


def tell_swept(job: Situation) -> str:
    """Its holder is gone, and somebody will notice, as soon as they can."""
    if job.is_locked:
        return tell_expired(job, LOCKED)
    return tell_expired(job, f"the next sweep, one every DULY_SWEEP_SECONDS, {next_sweep(job)}")


def tell_not_swept(job: Situation) -> str:
    """Its holder is gone, and nobody is there to notice."""
    return tell_expired(job, "no live worker performs jobs and would take it back; start one: duly worker")


def tell_holder_gone(job: Situation) -> str:
    """Whoever holds it is not there, as far as the list of workers tells."""
    then = f"the next sweep {next_sweep(job)}" if job.sweepers else "no live worker would take it back: duly worker"
    return f"{holder_gone(job.holder, job.lease_expires_at, job.holder_gone_at)} {then}."


def tell_asked_to_stop(job: Situation) -> str:
    """It runs, and should not much longer."""
    return (
        f"It runs, and {job.asked_by or 'somebody'} asked it to stop at {when(job.cancel_requested_at)}: {job.holder}, "
        f"which holds it until {when(job.lease_expires_at)}, hears of it when it renews; to stop it at once: "
        f"{command('cancel', job)} --now."
    )


def tell_running(job: Situation) -> str:
    """It runs: who, since when, how far."""
    progress = f"{job.progress} %" if job.progress is not None else "no word of progress"
    where = f"{progress}, in stage '{job.stage}'" if job.stage else progress
    since = f" since {when(job.claimed_at)}" if job.claimed_at else ""
    return (
        f"It runs: {job.holder} holds it{since}, until {when(job.lease_expires_at)} unless it renews; start "
        f"{job.starts} of {job.max_attempts}, {where}."
    )


def tell_backing_off(job: Situation) -> str:
    """It failed, and waits before it is tried again."""
    return f"Start {job.starts} of {job.max_attempts} failed with {error_of(job)}, and it {waits(job)}{besides(job)}."


def tell_snoozed(job: Situation) -> str:
    """Its handler did not want to yet."""
    return f"Its handler said 'later', {times(job.snoozes)} so far, and it {waits(job)}{besides(job)}."


def tell_delayed(job: Situation) -> str:
    """Whoever asked for it wanted it later."""
    return f"It {waits(job)}, as it was asked to{besides(job)}."


def tell_clock_set_back(job: Situation) -> str:
    """Nobody asked it to wait."""
    assert job.last_at, "its last event is what tells"
    back = span((job.last_at - job.looked_at).total_seconds())
    return (
        f"It was due at once, and it {waits(job)}: the clock of the database was set back, for its last event is of "
        f"{when(job.last_at)}, {back} from now{besides(job)}."
    )


def besides(job: Situation) -> str:
    """What will hold it back when its time has come, after a semicolon."""
    return f"; besides, {pauses_of(job)}" if job.pauses else ""


def tell_paused(job: Situation) -> str:
    """Somebody lets its queue, its type or both rest."""
    return f"{pauses_of(job)}.".replace("t", "T", 1)


def pauses_of(job: Situation) -> str:
    """What rests: by whom, since when, how to end it."""
    rests = [
        f"the {pause_of(pause)} is paused since {when(pause.paused_at)} by {pause.paused_by or 'somebody'}"
        for pause in job.pauses
    ]
    ends = [f"duly jobs resume {options_of(pause)}" for pause in job.pauses]
    return f"{' and '.join(rests)}; to go on: {' and '.join(ends)}"


def tell_limit(job: Situation) -> str:
    """As many of its type run as may, or ran until their leases ended."""
    limit = f"Of the type {job.type} at most {job.limit} may run at once"
    if not job.expired:
        return f"{limit}, and {job.running} do."
    return (
        f"{limit}: {job.running - job.expired} do, and {counted(job.expired, 'job counts', 'jobs count')} whose lease "
        "ended without a word, until the next sweep, one every DULY_SWEEP_SECONDS, takes it back."
    )


def tell_no_worker(job: Situation) -> str:
    """Nobody works."""
    return f"It {is_due(job)}, and {no_worker(job.stopping)}; start one: duly worker."


def tell_not_handled(job: Situation) -> str:
    """Nobody who works can do this."""
    return (
        f"It {is_due(job)}, and of {live_workers(job.workers)} none performs jobs of the type {job.type} in the queue "
        f"{job.queue}; start one whose app declares it: duly worker --app module:app."
    )


def tell_slots_taken(job: Situation) -> str:
    """Whoever can do this has enough to do."""
    return (
        f"It {is_due(job)}, and the {job.slots} slots of {names(job.handlers)}, which could perform it, are taken: "
        f"{job.busy} jobs run there{f', and {others(job)}' if job.ahead else ''}."
    )


def tell_locked(job: Situation) -> str:
    """Somebody has their hand on it, or on the limit of its type."""
    if job.is_locked:
        return f"It {is_due(job)}, and {LOCKED}."
    return (
        f"It {is_due(job)}, and no claim takes it this instant: another transaction has the limit of its type locked, "
        "or somebody is about to take it; open transactions are named by: duly doctor."
    )


def tell_behind(job: Situation) -> str:
    """It is not its turn yet."""
    free = max(job.slots - job.busy, 0)
    return (
        f"It {is_due(job)}, and {others(job)}, by priority or because their kind has waited longer: "
        f"{counted(free, 'slot', 'slots')} of {names(job.handlers)} {'is' if free == 1 else 'are'} free."
    )


def tell_due(job: Situation) -> str:
    """Its turn has come."""
    takers = names(job.handlers[: job.free_handlers])  # who has a free slot comes first
    return f"It {is_due(job)}, nothing that can be seen holds it back, and {takers} may take it any moment."


CAUSES: Sequence[Cause[Reason, Situation]] = (
    # It has come to its end.
    Cause(Reason.SUCCEEDED, has(Status.SUCCEEDED), tell_succeeded),
    Cause(Reason.CANCELED, has(Status.CANCELED), tell_canceled),
    Cause(Reason.DEAD_LETTER, has(Status.DEAD_LETTER), tell_dead),
    Cause(Reason.HALF_FAILED, has(Status.FAILED), tell_half_failed),
    # Somebody has it.
    Cause(Reason.EXPIRED_NO_WORKER, lambda job: job.is_expired and not job.sweepers, tell_not_swept),
    Cause(Reason.EXPIRED, lambda job: job.is_expired, tell_swept),
    Cause(
        Reason.HOLDER_GONE,
        lambda job: job.status is Status.RUNNING and job.holder_gone_at is not None,
        tell_holder_gone,
    ),
    Cause(
        Reason.ASKED_TO_STOP,
        lambda job: job.status is Status.RUNNING and job.cancel_requested_at is not None,
        tell_asked_to_stop,
    ),
    Cause(Reason.RUNNING, has(Status.RUNNING), tell_running),
    # It waits: for its time.
    Cause(
        Reason.CLOCK_SET_BACK,
        lambda job: job.is_early and job.last_at is not None and job.last_at >= job.run_at,
        tell_clock_set_back,
    ),
    Cause(Reason.BACKING_OFF, lambda job: job.is_early and job.last_reason == "retry", tell_backing_off),
    Cause(Reason.SNOOZED, lambda job: job.is_early and job.last_reason == "later", tell_snoozed),
    Cause(Reason.DELAYED, lambda job: job.is_early, tell_delayed),
    # For a person.
    Cause(Reason.QUEUE_AND_TYPE_PAUSED, lambda job: len(job.pauses) > 1, tell_paused),
    Cause(Reason.QUEUE_PAUSED, paused(queue=True, type=False), tell_paused),
    Cause(Reason.TYPE_PAUSED, paused(queue=False, type=True), tell_paused),
    Cause(Reason.TYPE_IN_QUEUE_PAUSED, paused(queue=True, type=True), tell_paused),
    # For somebody to come, or for others to finish.
    Cause(Reason.NO_WORKER, lambda job: not job.workers, tell_no_worker),
    Cause(Reason.NOT_HANDLED, lambda job: not job.handlers, tell_not_handled),
    Cause(Reason.LIMIT_REACHED, lambda job: job.limit is not None and job.running >= job.limit, tell_limit),
    Cause(Reason.SLOTS_TAKEN, lambda job: not job.free_handlers, tell_slots_taken),
    Cause(Reason.LOCKED, lambda job: job.is_locked or (not job.is_next_seen and not job.ahead), tell_locked),
    Cause(Reason.BEHIND_OTHERS, lambda job: not job.is_next_seen, tell_behind),
    # For nothing.
    Cause(Reason.DUE, lambda _: True, tell_due),
)


# Words ----------------------------------------------------------------------------------------------------------------


def waits(job: Situation) -> str:
    """Until when, and how long that is."""
    return f"waits until {when(job.run_at)}, for another {span((job.run_at - job.looked_at).total_seconds())}"


def is_due(job: Situation) -> str:
    """Since when, and how long that is."""
    return f"is due since {when(job.run_at)} ({span((job.looked_at - job.run_at).total_seconds())})"


def error_of(job: Situation) -> str:
    """The last error: its code, and not too many of its words, in one line."""
    words = " ".join((job.last_error_message or "").split())
    shown = words if len(words) <= MAX_MESSAGE_LENGTH else f"{words[:MAX_MESSAGE_LENGTH]}..."
    return f"{job.last_error_code} ({shown})" if shown else str(job.last_error_code)


def command(verb: str, job: Situation) -> str:
    """What to type."""
    return f"duly jobs {verb} {job.id}" + ("" if job.org_id == DEFAULT_ORG else f" --org {job.org_id}")


def pause_of(pause: Limit) -> str:
    """What rests."""
    if pause.queue == ANY:
        return f"type {pause.type}"
    return f"queue {pause.queue}" if pause.type == ANY else f"type {pause.type} in the queue {pause.queue}"


def options_of(pause: Limit) -> str:
    """The same as it is typed."""
    return " ".join(f"--{word} {name}" for word, name in (("queue", pause.queue), ("type", pause.type)) if name != ANY)


times = partial(counted, one="time", many="times")


def others(job: Situation) -> str:
    """How many jobs go first."""
    return go_first(job.ahead, "due job", "due jobs")
