"""A model of the ledger in plain Python: jobs in a list, and each operation a few assignments.

Time advances in ticks, of which every delay, lease and retention is a multiple: operations take far less than a tick,
so what is due or expired is known without reading the database's clock. Operations at one tick are ordered by step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from duly.backoff import BackoffPolicy
from duly.jobs.model import ANY, TERMINAL, JobStatus, TypeInQueue

TICK_SECONDS = 600.0
DAY = 144  # ticks


@dataclass
class ExpectedJob:
    """A job as the model expects it."""

    id: UUID
    job_type: TypeInQueue
    content: object  # which request its key identifies
    key: str | None
    priority: int
    max_attempts: int
    retain_ticks: int
    due: tuple[int, int]
    path: list[JobStatus] = field(default_factory=lambda: [JobStatus.QUEUED])
    starts: int = 0
    snoozes: int = 0
    owner: str | None = None
    expires_tick: int = 0  # the tick at which its lease expires
    settled_by: str | None = None
    is_to_stop: bool = False
    finished: int | None = None

    @property
    def status(self) -> JobStatus:
        """The current status."""
        return self.path[-1]

    @property
    def policy(self) -> BackoffPolicy:
        """The backoff policy, which its type names."""
        return BackoffPolicy(self.job_type.type)

    def row(self) -> tuple[object, ...]:
        """Return the expected columns of its row."""
        attempt, revision, is_finished = max(self.starts - 1, 0), len(self.path), self.finished is not None
        counts = (self.starts, attempt, self.snoozes, revision)
        return (self.status.value, *counts, is_finished, self.owner, self.settled_by, self.is_to_stop)

    def events(self) -> list[tuple[int, str | None, str]]:
        """Return the expected events."""
        before = [None, *self.path]
        return [(seq, before[seq - 1], after.value) for seq, after in enumerate(self.path, start=1)]


class ExpectedJobs:
    """All jobs of an org, and the pauses."""

    def __init__(self) -> None:
        self.jobs: list[ExpectedJob] = []  # in the order of creation
        self.paused: set[tuple[str, str]] = set()
        self.tick = 0
        self.step = 0

    # Read -------------------------------------------------------------------------------------------------------------

    def find_key(self, key: str | None) -> ExpectedJob | None:
        """Find the job with this key."""
        return next((job for job in self.jobs if key is not None and job.key == key), None)

    def get(self, key: UUID) -> ExpectedJob:
        """Return the job with this id."""
        return next(job for job in self.jobs if job.id == key)

    def holds(self, key: UUID, owner: str) -> bool:
        """Check whether this owner holds the job's lease."""
        return any(job.id == key and job.owner == owner for job in self.jobs)

    def has_settled(self, key: UUID, owner: str) -> bool:
        """Check whether this owner was the last to settle the job."""
        return any(job.id == key and job.settled_by == owner for job in self.jobs)

    def is_paused(self, job_type: TypeInQueue) -> bool:
        """Check whether this queue, this type, or both are paused."""
        return any(queue in (job_type.queue, ANY) and type_ in (job_type.type, ANY) for queue, type_ in self.paused)

    def list_due(self, job_type: TypeInQueue) -> list[ExpectedJob]:
        """List the jobs of a type that can be claimed, in claim order."""
        waiting = (job for job in self.jobs if job.status is JobStatus.QUEUED and job.job_type == job_type)
        due = [job for job in waiting if job.due[0] <= self.tick]
        return [] if self.is_paused(job_type) else sorted(due, key=self.claim_order)

    def claim_order(self, job: ExpectedJob) -> tuple[int, int, int]:
        """Return the sort key of claims: priority, then due time, which is unknown after a random delay."""
        return (-job.priority, 0, 0) if job.policy is BackoffPolicy.EXP else (-job.priority, *job.due)

    def list_next(self, job_type: TypeInQueue, limit: int) -> list[ExpectedJob]:
        """List the next jobs of a type up to a limit, and those that tie with the last of them."""
        due = self.list_due(job_type)
        claimed = due[:limit]
        return [*claimed, *(job for job in due[limit:] if self.claim_order(job) == self.claim_order(claimed[-1]))]

    def expired(self) -> list[ExpectedJob]:
        """List the jobs whose leases have expired."""
        return [job for job in self.jobs if job.owner is not None and job.expires_tick <= self.tick]

    def dead(self) -> list[ExpectedJob]:
        """List the dead letters, oldest first."""
        return [job for job in self.jobs if job.status is JobStatus.DEAD_LETTER]

    # Change -----------------------------------------------------------------------------------------------------------

    def after_ticks(self, ticks: int = 0) -> tuple[int, int]:
        """Return the due time after some ticks."""
        return (self.tick + ticks, self.step)

    def move(self, job: ExpectedJob, *to: JobStatus) -> None:
        """Make transitions, one event each."""
        job.path += to
        job.finished = self.tick if job.status in TERMINAL else None

    def claim(self, jobs: Iterable[ExpectedJob], owner: str, ticks: int) -> None:
        """Claim jobs; each counts a start."""
        for job in jobs:
            self.move(job, JobStatus.RUNNING)
            job.owner, job.expires_tick, job.starts = owner, self.tick + ticks, job.starts + 1

    def settle(self, job: ExpectedJob, *to: JobStatus) -> None:
        """Settle a job by its owner."""
        job.settled_by, job.owner = job.owner, None
        self.move(job, *to)

    def done(self, job: ExpectedJob) -> None:
        """Settle a succeeded job; a cancel request was too late."""
        self.settle(job, JobStatus.SUCCEEDED)

    def cancelled(self, job: ExpectedJob) -> None:
        """Settle a job that stopped after a cancel request."""
        self.settle(job, JobStatus.CANCELED)

    def release(self, job: ExpectedJob) -> None:
        """Release a job without counting a start, due as before; with a cancel request it is canceled."""
        if job.is_to_stop:
            return self.settle(job, JobStatus.CANCELED)
        job.starts -= 1
        return self.settle(job, JobStatus.QUEUED)

    def later(self, job: ExpectedJob, ticks: int) -> None:
        """Requeue a job for later without counting a start."""
        job.snoozes += 1
        self.release(job)
        if job.status is JobStatus.QUEUED:
            job.due = self.after_ticks(ticks)

    def failed(self, job: ExpectedJob, *, give_up: bool = False) -> None:
        """Settle a failed job: retry, or dead letter."""
        job.settled_by = job.owner
        self.fail(job, give_up=give_up)

    def expire(self, job: ExpectedJob) -> None:
        """Fail a job whose lease expired; `settled_by` stays."""
        self.fail(job, give_up=False)

    def fail(self, job: ExpectedJob, *, give_up: bool) -> None:
        """Make both transitions of a failure, or cancel after a cancel request."""
        job.owner = None
        if job.is_to_stop:
            self.move(job, JobStatus.CANCELED)
        elif give_up or job.starts >= job.max_attempts:
            self.move(job, JobStatus.FAILED, JobStatus.DEAD_LETTER)
        else:
            self.move(job, JobStatus.FAILED, JobStatus.QUEUED)
            job.due = self.after_ticks(0 if job.policy is BackoffPolicy.NONE else 1)

    def cancel(self, job: ExpectedJob, *, now: bool) -> JobStatus | None:
        """Cancel at once when queued or with `now`, else request it."""
        if job.status not in (JobStatus.QUEUED, JobStatus.RUNNING):
            return None
        was_to_stop, job.is_to_stop = job.is_to_stop, True
        if job.status is JobStatus.QUEUED or now:
            job.owner = None
            self.move(job, JobStatus.CANCELED)
        elif not was_to_stop:
            self.move(job, JobStatus.RUNNING)
        return job.status

    def redrive(self, jobs: Sequence[ExpectedJob]) -> None:
        """Put dead letters back in the queue with all their attempts."""
        for job in jobs:
            self.move(job, JobStatus.QUEUED)
            job.starts, job.snoozes, job.is_to_stop, job.due = 0, 0, False, self.after_ticks()

    def purge(self) -> list[ExpectedJob]:
        """Delete the jobs whose retention is over."""
        over = [p for p in self.jobs if p.finished is not None and p.finished + p.retain_ticks <= self.tick]
        self.jobs = [job for job in self.jobs if job not in over]
        return over
