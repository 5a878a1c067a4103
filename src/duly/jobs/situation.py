"""The situation of a job: its row, and everything that could delay it, from one statement (`explain.sql`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from uuid import UUID

from duly.db.queries import load_queries
from duly.db.rows import Connection, find_row
from duly.explain import ALIVE_SECONDS, MAX_AHEAD, convert_times
from duly.jobs.model import ANY, JobLimit, JobStatus
from duly.lease.owner import worker_from_owner

SQL = load_queries(__file__, "explain.sql")


@dataclass(frozen=True, slots=True)
class JobSituation:
    """A job, and everything that could delay it."""

    id: UUID
    org_id: UUID
    status: JobStatus
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
    observed_at: datetime
    last_event_reason: str | None  # of its last event
    last_event_at: datetime | None  # the time of its last event
    claimed_at: datetime | None
    cancel_requested_by: str | None
    holder_last_seen_at: datetime | None  # when its lease owner was last seen, if that worker is gone
    pauses: Sequence[JobLimit]  # that apply to it
    concurrency: int | None  # at most so many jobs of its type run at once
    running_jobs: int  # of its type
    expired_leases: int  # of these
    live_workers: int
    stopping_workers: Sequence[str]  # names of workers that claim nothing new
    sweepers: int  # live workers that perform jobs, of whatever types: each of them sweeps
    capable_workers: Sequence[str]  # names of workers that can perform its type, those with a free slot first
    slots: int  # of the capable workers
    busy_slots: int  # of these
    free_capable_workers: int  # those with a free slot
    jobs_ahead: int  # due jobs that the capable workers would claim first
    is_locked: bool  # queued or expired, and another transaction has the row locked
    would_be_claimed: bool | None  # whether a claim with one free slot would return it; None without the worker's role

    @property
    def holder(self) -> str:
        """The worker that owns the lease, or owned it until it expired."""
        return worker_from_owner(self.lease_owner or "unknown")

    @property
    def is_expired(self) -> bool:
        """Return whether it is running with an expired lease."""
        return (
            self.status is JobStatus.RUNNING
            and self.lease_expires_at is not None
            and self.lease_expires_at < self.observed_at
        )

    @property
    def is_next(self) -> bool:
        """Return whether it is next: by the claim or, without the worker's role, by the visible jobs ahead."""
        return self.jobs_ahead == 0 if self.would_be_claimed is None else self.would_be_claimed

    @property
    def is_early(self) -> bool:
        """Return whether it is queued and not yet due."""
        return self.status is JobStatus.QUEUED and self.run_at > self.observed_at

    def is_paused(self, *, queue: bool, type: bool) -> bool:  # noqa: A002
        """Check for a pause of exactly its queue, its type, or its type in its queue."""
        return any((pause.queue != ANY, pause.type != ANY) == (queue, type) for pause in self.pauses)


async def find_situation(connection: Connection, org: UUID, job_id: UUID, zone: tzinfo | None) -> JobSituation | None:
    """Fetch a job of this org and everything that could delay it, with times in the zone."""
    row = await find_row(
        connection, SQL.find_situation, org=org, job_id=job_id, alive_seconds=ALIVE_SECONDS, ahead_limit=MAX_AHEAD + 1
    )
    if row is None:
        return None
    fields = convert_times(row, zone)
    paused = zip(*(fields.pop(f"paused_{part}s") for part in ("queue", "type", "at", "by")), strict=True)
    fields["pauses"] = [JobLimit(queue, job_type, None, at.astimezone(zone), by) for queue, job_type, at, by in paused]
    fields["status"] = JobStatus(fields["status"])
    return JobSituation(**fields)
