"""Jobs and their events, as values."""

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
    "DAY_SECONDS",
    "DEFAULT_ORG",
    "MAX_RETAIN_SECONDS",
    "MAX_SNOOZES",
    "TERMINAL",
    "TOO_MANY_SNOOZES",
    "BackoffPolicy",
    "DeadLetters",
    "Floor",
    "Job",
    "JobEvent",
    "Kind",
    "Limit",
    "Options",
    "Request",
    "Status",
    "floors_after",
    "refuse_naive",
]

DEFAULT_ORG = UUID(int=1)  # where there are no tenants
ANY = "*"  # in pauses: whichever queue, whichever type
CRASHED = "CRASHED"  # the code of a lease that lapsed
TOO_MANY_SNOOZES = "TOO_MANY_SNOOZES"  # and of a handler that said "later" for ever
MAX_SNOOZES = 1000
DAY_SECONDS = 86_400.0
MAX_RETAIN_SECONDS = 3660 * DAY_SECONDS


class Status(StrEnum):
    """The contract's `job_status`."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"


TERMINAL = frozenset({Status.SUCCEEDED, Status.CANCELED, Status.DEAD_LETTER})


class Kind(NamedTuple):
    """What a worker can do: jobs of this type from this queue."""

    queue: str
    type: str


class Floor(NamedTuple):
    """How far a claimer has come with one kind: nothing of this priority that comes earlier is left for it."""

    priority: int
    run_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class Options:
    """How hard to try; not part of what a key stands for."""

    priority: int = 0
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    timeout_seconds: float | None = None
    retain_seconds: float = 30 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done, for whom and when: what a key stands for. Due at a time, after a delay, or now."""

    org: UUID
    type: str
    payload: Mapping[str, Json] = field(default_factory=dict[str, Json])
    queue: str = "default"
    key: str | None = None
    run_at: datetime | None = None
    delay_seconds: float | None = None
    requested_by: str | None = None  # on whose behalf, by their word
    actor: str | None = None  # who asked, as we know it
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if self.run_at is not None:
            refuse_naive(self.run_at)


def refuse_naive(run_at: datetime) -> None:
    """Refuse a time without a zone: the database would read it in whatever zone the session has."""
    if run_at.utcoffset() is None:
        raise InvalidArgument(
            f"run_at={run_at} has no time zone; say which is meant, for example run_at.replace(tzinfo=datetime.UTC)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it may be shown; a list leaves out what may be large."""

    id: UUID
    org_id: UUID
    type: str
    queue: str
    status: Status
    attempt: int
    max_attempts: int
    backoff_policy: BackoffPolicy
    backoff_base_seconds: float
    backoff_cap_seconds: float
    priority: int
    idempotency_key: str | None
    requested_by: str | None
    payload: Mapping[str, Json] | None = None  # None in a list
    result: Json = None  # None in a list, too
    run_at: datetime
    timeout_seconds: float | None
    starts: int
    snoozes: int
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
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "backoff_policy", BackoffPolicy(self.backoff_policy))

    @property
    def is_finished(self) -> bool:
        """Has it come to an end? A dead letter has, though it can be redriven."""
        return self.status in TERMINAL


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One line of a job's log."""

    id: UUID
    job_id: UUID
    seq: int
    ts: datetime
    prev_status: str | None
    next_status: str
    detail_json: Mapping[str, Json] | None

    @property
    def actor(self) -> Json:
        """Who moved it, where that is known."""
        return (self.detail_json or {}).get("actor")


@dataclass(frozen=True, slots=True)
class Limit:
    """A queue or a type that rests, or of which only so many jobs may run at once."""

    queue: str
    type: str
    limit: int | None
    paused_at: datetime | None
    paused_by: str | None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Which dead letters of an org: all that match."""

    org: UUID
    type: str | None = None
    queue: str | None = None
    code: str | None = None
    finished_from: datetime | None = None
    finished_before: datetime | None = None


def floors_after(rows: Iterable[Mapping[str, Any]]) -> dict[Kind, Floor]:
    """Where the next claim may begin with each kind, after a claim that got these rows.

    A kind whose jobs came from several priorities gets no floor. A floor hides what is put in below it, such as a job
    whose transaction committed late: whoever uses floors must also claim without them, once a second and whenever a
    claim brought less than was asked for.
    """
    floors: dict[Kind, Floor] = {}
    mixed: set[Kind] = set()
    for row in rows:
        kind, here = Kind(row["queue"], row["type"]), Floor(row["priority"], row["run_at"], row["id"])
        known = floors.setdefault(kind, here)
        if known.priority != here.priority:
            mixed.add(kind)
        floors[kind] = max(known, here)
    return {kind: floor for kind, floor in floors.items() if kind not in mixed}
