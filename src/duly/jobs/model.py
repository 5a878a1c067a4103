"""Value types of jobs, their events and limits.

The contract's column `attempt` counts retries: 0 is the first attempt. Ours, `starts`, counts attempts from 1; one
that was released or snoozed is not counted. `attempt` is `starts - 1`; texts say "attempt {starts} of {max_attempts}".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from duly.backoff import Backoff, BackoffPolicy
from duly.canonical_json import Json
from duly.errors import InvalidArgument

__all__ = [
    "ANY",
    "CRASHED",
    "DEFAULT_ORG",
    "TERMINAL",
    "TOO_MANY_SNOOZES",
    "BackoffPolicy",
    "DeadLetterFilter",
    "Floor",
    "Job",
    "JobEvent",
    "JobLimit",
    "JobOptions",
    "JobRequest",
    "JobStatus",
    "TypeInQueue",
    "check_time_zone",
    "floors_after",
]

DEFAULT_ORG = UUID(int=1)  # for installations without tenants
ANY = "*"  # in pauses: any queue, any type
CRASHED = "CRASHED"  # error code of an expired lease
TOO_MANY_SNOOZES = "TOO_MANY_SNOOZES"  # error code of a handler that always returns `Later`


class JobStatus(StrEnum):
    """Status of a job: the contract's `job_status`."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"  # the contract's spelling; names of ours have cancelled
    DEAD_LETTER = "dead_letter"


TERMINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.CANCELED, JobStatus.DEAD_LETTER})


class TypeInQueue(NamedTuple):
    """A job type in one queue: what a handler serves."""

    queue: str
    type: str


class Floor(NamedTuple):
    """The position in the claim order up to which this worker has claimed jobs of a type in a queue."""

    priority: int
    run_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Retry and retention options; a repeated request with the same idempotency key may differ in them."""

    priority: int = 0
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    timeout_seconds: float | None = None
    retain_seconds: float = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request to enqueue a job: due at `run_at`, after `delay_seconds`, or now. Its idempotency key identifies it."""

    org: UUID
    type: str
    payload: Mapping[str, Json] = field(default_factory=dict[str, Json])
    queue: str = "default"
    idempotency_key: str | None = None
    run_at: datetime | None = None
    delay_seconds: float | None = None
    requested_by: str | None = None  # on behalf of whom, as the caller states
    actor: str | None = None  # the authenticated caller
    options: JobOptions = field(default_factory=JobOptions)

    def __post_init__(self) -> None:
        if self.run_at is not None:
            check_time_zone(self.run_at)


def check_time_zone(run_at: datetime) -> None:
    """Raise InvalidArgument for a time without a zone: the database would read it in the session's zone."""
    if run_at.utcoffset() is None:
        raise InvalidArgument(
            f"run_at={run_at} has no time zone; set one, for example run_at.replace(tzinfo=datetime.UTC)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job; lists leave out its payload and result, which may be large."""

    id: UUID
    org_id: UUID
    type: str
    queue: str
    status: JobStatus
    attempt: int  # retries so far
    max_attempts: int
    backoff_policy: BackoffPolicy
    backoff_base_seconds: float
    backoff_cap_seconds: float
    priority: int
    idempotency_key: str | None
    requested_by: str | None
    payload: Mapping[str, Json] | None = None  # None in a list
    result: Json = None  # None in a list too
    run_at: datetime
    timeout_seconds: float | None
    starts: int  # attempts so far
    snoozes: int  # how often its handler returned `Later`
    lease_owner: str | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    stage: str | None
    progress: int | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    last_error_code: str | None
    last_error_message: str | None
    retain_until: datetime | None
    revision: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", JobStatus(self.status))
        object.__setattr__(self, "backoff_policy", BackoffPolicy(self.backoff_policy))

    @property
    def is_finished(self) -> bool:
        """Return whether the job is terminal; a dead letter is, although it can be redriven."""
        return self.status in TERMINAL


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One transition in a job's log."""

    id: UUID
    job_id: UUID
    seq: int
    ts: datetime
    prev_status: str | None
    next_status: str
    detail_json: Mapping[str, Json] | None

    @property
    def actor(self) -> Json:
        """Who caused the transition, where that is known."""
        return (self.detail_json or {}).get("actor")


@dataclass(frozen=True, slots=True)
class JobLimit:
    """A pause of a queue or type, or a limit on the running jobs of a type."""

    queue: str
    type: str
    concurrency: int | None  # at most so many jobs of the type run at once, over all workers
    paused_at: datetime | None
    paused_by: str | None


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects the dead letters of an org that match all given fields."""

    org: UUID
    type: str | None = None
    queue: str | None = None
    code: str | None = None
    finished_from: datetime | None = None
    finished_before: datetime | None = None


def floors_after(rows: Iterable[Mapping[str, Any]]) -> dict[TypeInQueue, Floor]:
    """Compute where the next claim of each type in a queue may begin, after a claim that returned these rows.

    A type whose rows had several priorities gets no floor. A floor hides jobs that are inserted below it, such as
    one whose transaction committed late, so a caller must also claim without floors: once a second, and whenever a
    claim returned fewer rows than its limit.
    """
    floors: dict[TypeInQueue, Floor] = {}
    mixed: set[TypeInQueue] = set()
    for row in rows:
        type_in_queue = TypeInQueue(row["queue"], row["type"])
        floor = Floor(row["priority"], row["run_at"], row["id"])
        known = floors.setdefault(type_in_queue, floor)
        if known.priority != floor.priority:
            mixed.add(type_in_queue)
        floors[type_in_queue] = max(known, floor)
    return {type_in_queue: floor for type_in_queue, floor in floors.items() if type_in_queue not in mixed}
