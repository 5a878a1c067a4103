"""Explain in one sentence why a job is not running.

`situation.py` fetches everything that could be the reason. Then the causes are checked in order, and the first that
applies is described: a finished job does not wait, a job whose time has not come needs no worker yet, and a pause is a
reason even without workers. "May claim it at any moment" is printed only when a claim would return the job now:
`ledger.find_next` claims, and rolls back.

Sentences count attempts from 1, as `starts` does; the contract's column `attempt` counts from 0.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from enum import StrEnum
from uuid import UUID

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
    format_names,
)
from duly.formatting import format_duration, format_time, pluralize
from duly.jobs.model import ANY, DEFAULT_ORG, JobLimit, JobStatus
from duly.jobs.service import org_transaction
from duly.jobs.situation import JobSituation, find_situation

MAX_MESSAGE_LENGTH = 200
UNNAMED = "an unnamed caller"


class JobReason(StrEnum):
    """Why a job has its status; each has one sentence."""

    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"
    HALF_FAILED = "half_failed"
    EXPIRED_NO_WORKER = "expired_no_worker"
    EXPIRED = "expired"
    HOLDER_GONE = "holder_gone"
    CANCEL_REQUESTED = "cancel_requested"
    RUNNING = "running"
    CLOCK_SET_BACK = "clock_set_back"
    BACKING_OFF = "backing_off"
    SNOOZED = "snoozed"
    DELAYED = "delayed"
    SEVERAL_PAUSES = "several_pauses"
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


async def explain(pool: Pool, org: UUID, job_id: UUID, *, zone: tzinfo | None = UTC) -> Explanation[JobReason]:
    """Explain why this job of this org does not run, or raise NotFound; times are in the zone, None is the machine's.

    Limits, slots and the order of jobs are common to all orgs, and only the worker's role sees the jobs of all. With
    the API's role only the jobs of this org are counted.
    """
    async with org_transaction(pool, org) as connection:
        situation = await find_situation(connection, org, job_id, zone)
    if situation is None:
        raise NotFound(f"there is no job {job_id}")
    return find_explanation(CAUSES, job_id, situation.status, situation)


# Causes and their sentences -------------------------------------------------------------------------------------------


def has_status(status: JobStatus) -> Callable[[JobSituation], bool]:
    """Build the condition that a job has this status."""
    return lambda job: job.status is status


def has_pause(*, queue: bool, type: bool) -> Callable[[JobSituation], bool]:  # noqa: A002
    """Build the condition that there is a pause of exactly this."""
    return lambda job: job.is_paused(queue=queue, type=type)


def describe_succeeded(job: JobSituation) -> str:
    """Describe a succeeded job."""
    return f"It succeeded at {format_time(job.finished_at)}, at attempt {job.starts} of {job.max_attempts}."


def describe_canceled(job: JobSituation) -> str:
    """Describe a canceled job."""
    return f"It was cancelled at {format_time(job.finished_at)}, as requested by {job.cancel_requested_by or UNNAMED}."


def describe_dead(job: JobSituation) -> str:
    """Describe a dead letter: its error, and how to redrive it."""
    end = "was given up" if job.last_event_reason == "gave_up" else "failed and was the last"
    return (
        f"It is a dead letter since {format_time(job.finished_at)}: attempt {job.starts} of {job.max_attempts} {end}, "
        f"with {format_error(job)}; to put it back in the queue: {format_command('redrive', job)}."
    )


def describe_half_failed(job: JobSituation) -> str:
    """Describe a failed job without its second transition."""
    return (
        f"It failed with {format_error(job)} and was neither put back in the queue nor made a dead letter: duly does "
        f"both in one transaction, so another program changed it in the name of {job.holder}; see: duly verify."
    )


def describe_expired(job: JobSituation, end: str) -> str:
    """Describe a job with an expired lease."""
    at = format_time(job.lease_expires_at)
    return f"Its lease expired at {at}: {job.holder} stopped renewing it, and {end}."


def describe_next_sweep(job: JobSituation) -> str:
    """Describe what the next sweep will do with the job."""
    if job.cancel_requested_at:
        then = "it is cancelled, as requested"
    elif job.starts >= job.max_attempts:
        then = f"it becomes a dead letter, after {job.starts} of {job.max_attempts} attempts"
    else:
        then = f"it waits for attempt {job.starts + 1} of {job.max_attempts}"
    return f"ends the lease: then {then}"


def describe_swept(job: JobSituation) -> str:
    """Describe an expired lease that the next sweep ends."""
    if job.is_locked:
        return describe_expired(job, LOCKED)
    return describe_expired(job, f"the next sweep, one every DULY_SWEEP_SECONDS, {describe_next_sweep(job)}")


def describe_not_swept(job: JobSituation) -> str:
    """Describe an expired lease that no worker sweeps."""
    return describe_expired(job, "no live worker that performs jobs would end it; start one: duly worker")


def describe_holder_gone(job: JobSituation) -> str:
    """Describe a lease whose owner is gone and that has not expired yet."""
    then = (
        f"the next sweep {describe_next_sweep(job)}"
        if job.sweepers
        else "no live worker would end the lease; start one: duly worker"
    )
    return f"{describe_missing_holder(job.holder, job.lease_expires_at, job.holder_last_seen_at)} {then}."


def describe_cancel_requested(job: JobSituation) -> str:
    """Describe a running job with a cancel request."""
    requested_by = job.cancel_requested_by or UNNAMED
    return (
        f"It runs, and {requested_by} requested its cancellation at {format_time(job.cancel_requested_at)}: "
        f"{job.holder}, which has the lease until {format_time(job.lease_expires_at)}, stops it when it renews the "
        f"lease; to cancel it at once: {format_command('cancel', job)} --now."
    )


def describe_running(job: JobSituation) -> str:
    """Describe a running job: its worker, since when, and its progress."""
    progress = f"{job.progress} %" if job.progress is not None else "no progress reported"
    stage = f", in stage '{job.stage}'" if job.stage else ""
    since = f" since {format_time(job.claimed_at)}" if job.claimed_at else ""
    return (
        f"It runs: {job.holder} holds the lease{since}, until {format_time(job.lease_expires_at)} unless renewed; "
        f"attempt {job.starts} of {job.max_attempts}, {progress}{stage}."
    )


def describe_backing_off(job: JobSituation) -> str:
    """Describe a job that waits for its retry."""
    attempt = f"Attempt {job.starts} of {job.max_attempts}"
    return f"{attempt} failed with {format_error(job)}, and it {format_wait(job)}{also_paused(job)}."


def describe_snoozed(job: JobSituation) -> str:
    """Describe a job whose handler returned Later."""
    times = pluralize(job.snoozes, "time", "times")
    return f"Its handler returned Later, {times} so far, and it {format_wait(job)}{also_paused(job)}."


def describe_delayed(job: JobSituation) -> str:
    """Describe a job that was enqueued for later."""
    return f"It {format_wait(job)}, as requested when it was enqueued{also_paused(job)}."


def describe_clock_set_back(job: JobSituation) -> str:
    """Describe a job that waits because the clock was set back."""
    assert job.last_event_at, "the cause applies only with a last event"
    back = format_duration((job.last_event_at - job.observed_at).total_seconds())
    return (
        f"It was due at once, and it {format_wait(job)}: the clock of the database was set back; its last event is of "
        f"{format_time(job.last_event_at)}, {back} from now{also_paused(job)}."
    )


def also_paused(job: JobSituation) -> str:
    """Format the pauses that will delay it once it is due, after a semicolon."""
    return f"; also, {describe_pauses(job)}" if job.pauses else ""


def describe_paused(job: JobSituation) -> str:
    """Describe a job whose queue, type or both are paused."""
    return f"{describe_pauses(job)}.".replace("t", "T", 1)


def describe_pauses(job: JobSituation) -> str:
    """Describe pauses: by whom, since when, how to resume."""
    pauses = [
        f"the {format_pause(pause)} is paused since {format_time(pause.paused_at)} by {pause.paused_by or UNNAMED}"
        for pause in job.pauses
    ]
    commands = [f"duly jobs resume {format_options(pause)}" for pause in job.pauses]
    return f"{' and '.join(pauses)}; to resume: {' and '.join(commands)}"


def describe_limit(job: JobSituation) -> str:
    """Describe a job whose type has reached its limit."""
    limit = f"Of the type {job.type} at most {job.concurrency} may run at once"
    if not job.expired_leases:
        return f"{limit}, and {job.running_jobs} do."
    expired = pluralize(job.expired_leases, "job counts", "jobs count")
    return (
        f"{limit}: {job.running_jobs - job.expired_leases} do, and {expired} whose lease expired, "
        "until the next sweep, one every DULY_SWEEP_SECONDS, ends the lease."
    )


def describe_no_live_worker(job: JobSituation) -> str:
    """Describe a due job without any live worker."""
    return f"It {format_due(job)}, and {describe_no_worker(job.stopping_workers)}; start one: duly worker."


def describe_not_handled(job: JobSituation) -> str:
    """Describe a due job that no live worker has a handler for."""
    workers = format_live_workers(job.live_workers)
    return (
        f"It {format_due(job)}, and of {workers} none performs jobs of the type {job.type} in the queue {job.queue}; "
        f"start one whose app declares it: duly worker --app module:app."
    )


def describe_slots_taken(job: JobSituation) -> str:
    """Describe a due job whose handlers are busy."""
    workers = format_names(job.capable_workers)
    return (
        f"It {format_due(job)}, and the {job.slots} slots of {workers}, which could perform it, are taken: "
        f"{job.busy_slots} jobs run there{f', and {format_jobs_ahead(job)}' if job.jobs_ahead else ''}."
    )


def describe_locked(job: JobSituation) -> str:
    """Describe a due job whose row, or the limit of its type, is locked."""
    if job.is_locked:
        return f"It {format_due(job)}, and {LOCKED}."
    return (
        f"It {format_due(job)}, and no claim would return it now: another transaction has the limit of its type "
        "locked, or a worker is just claiming it; to list open transactions: duly doctor."
    )


def describe_behind(job: JobSituation) -> str:
    """Describe a due job behind others."""
    free = max(job.slots - job.busy_slots, 0)
    return (
        f"It {format_due(job)}, and {format_jobs_ahead(job)}, by priority or because their type has waited longer: "
        f"{pluralize(free, 'slot', 'slots')} of {format_names(job.capable_workers)} "
        f"{'is' if free == 1 else 'are'} free."
    )


def describe_due(job: JobSituation) -> str:
    """Describe a due job that the next claim returns."""
    claimers = format_names(job.capable_workers[: job.free_capable_workers])  # those with a free slot come first
    return f"It {format_due(job)}, nothing delays it, and {claimers} may claim it at any moment."


CAUSES: Sequence[Cause[JobReason, JobSituation]] = (
    # It is finished.
    Cause(JobReason.SUCCEEDED, has_status(JobStatus.SUCCEEDED), describe_succeeded),
    Cause(JobReason.CANCELED, has_status(JobStatus.CANCELED), describe_canceled),
    Cause(JobReason.DEAD_LETTER, has_status(JobStatus.DEAD_LETTER), describe_dead),
    Cause(JobReason.HALF_FAILED, has_status(JobStatus.FAILED), describe_half_failed),
    # It is leased.
    Cause(JobReason.EXPIRED_NO_WORKER, lambda job: job.is_expired and not job.sweepers, describe_not_swept),
    Cause(JobReason.EXPIRED, lambda job: job.is_expired, describe_swept),
    Cause(
        JobReason.HOLDER_GONE,
        lambda job: job.status is JobStatus.RUNNING and job.holder_last_seen_at is not None,
        describe_holder_gone,
    ),
    Cause(
        JobReason.CANCEL_REQUESTED,
        lambda job: job.status is JobStatus.RUNNING and job.cancel_requested_at is not None,
        describe_cancel_requested,
    ),
    Cause(JobReason.RUNNING, has_status(JobStatus.RUNNING), describe_running),
    # It waits for its time.
    Cause(
        JobReason.CLOCK_SET_BACK,
        lambda job: job.is_early and job.last_event_at is not None and job.last_event_at >= job.run_at,
        describe_clock_set_back,
    ),
    Cause(JobReason.BACKING_OFF, lambda job: job.is_early and job.last_event_reason == "retry", describe_backing_off),
    Cause(JobReason.SNOOZED, lambda job: job.is_early and job.last_event_reason == "later", describe_snoozed),
    Cause(JobReason.DELAYED, lambda job: job.is_early, describe_delayed),
    # It waits for a person to resume it.
    Cause(JobReason.SEVERAL_PAUSES, lambda job: len(job.pauses) > 1, describe_paused),
    Cause(JobReason.QUEUE_PAUSED, has_pause(queue=True, type=False), describe_paused),
    Cause(JobReason.TYPE_PAUSED, has_pause(queue=False, type=True), describe_paused),
    Cause(JobReason.TYPE_IN_QUEUE_PAUSED, has_pause(queue=True, type=True), describe_paused),
    # It waits for a worker, or for other jobs to finish.
    Cause(JobReason.NO_WORKER, lambda job: not job.live_workers, describe_no_live_worker),
    Cause(JobReason.NOT_HANDLED, lambda job: not job.capable_workers, describe_not_handled),
    Cause(
        JobReason.LIMIT_REACHED,
        lambda job: job.concurrency is not None and job.running_jobs >= job.concurrency,
        describe_limit,
    ),
    Cause(JobReason.SLOTS_TAKEN, lambda job: not job.free_capable_workers, describe_slots_taken),
    Cause(JobReason.LOCKED, lambda job: job.is_locked or (not job.is_next and not job.jobs_ahead), describe_locked),
    Cause(JobReason.BEHIND_OTHERS, lambda job: not job.is_next, describe_behind),
    # It waits for nothing.
    Cause(JobReason.DUE, lambda _: True, describe_due),
)


# Phrases --------------------------------------------------------------------------------------------------------------


def format_wait(job: JobSituation) -> str:
    """Format until when it waits, and for how long."""
    left = format_duration((job.run_at - job.observed_at).total_seconds())
    return f"waits until {format_time(job.run_at)}, for another {left}"


def format_due(job: JobSituation) -> str:
    """Format since when it is due, and for how long."""
    return f"is due since {format_time(job.run_at)} ({format_duration((job.observed_at - job.run_at).total_seconds())})"


def format_error(job: JobSituation) -> str:
    """Format code and message of the last error, in one line of bounded length."""
    text = " ".join((job.last_error_message or "").split())
    message = text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}..."
    return f"{job.last_error_code} ({message})" if message else str(job.last_error_code)


def format_command(verb: str, job: JobSituation) -> str:
    """Format the command for this job."""
    return f"duly jobs {verb} {job.id}" + ("" if job.org_id == DEFAULT_ORG else f" --org {job.org_id}")


def format_pause(pause: JobLimit) -> str:
    """Format what is paused."""
    if pause.queue == ANY:
        return f"type {pause.type}"
    return f"queue {pause.queue}" if pause.type == ANY else f"type {pause.type} in the queue {pause.queue}"


def format_options(pause: JobLimit) -> str:
    """Format what is paused as options of a command."""
    return " ".join(
        f"--{option} {name}" for option, name in (("queue", pause.queue), ("type", pause.type)) if name != ANY
    )


def format_jobs_ahead(job: JobSituation) -> str:
    """Format how many due jobs go first."""
    return format_ahead(job.jobs_ahead, "due job", "due jobs")
