"""Request and response models of jobs.

Every constraint of the table is repeated here, so that a client reads the rule and not the name of the constraint.
Fields have the names of their columns.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, model_validator

from duly.backoff import MAX_SECONDS, Backoff, BackoffPolicy
from duly.bounds import (
    MAX_ACTOR_LENGTH,
    MAX_ATTEMPTS,
    MAX_KEY_LENGTH,
    MAX_NAME_LENGTH,
    MAX_PRIORITY,
    MAX_RETAIN_DAYS,
    MIN_PRIORITY,
    MIN_RETAIN_DAYS,
)
from duly.canonical_json import MAX_BYTES, MAX_DEPTH, checked_json
from duly.errors import InvalidArgument
from duly.http.types import Instant, NextCursor, PageQuery, RequestModel, ResponseModel
from duly.jobs.model import JobOptions, JobRequest, JobStatus

DAY = 86_400.0  # seconds
DEFAULTS = JobOptions()
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
TIME_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*", re.ASCII)


# Value types ----------------------------------------------------------------------------------------------------------


def check_written_time(value: object) -> object:
    """Check that a time is an ISO 8601 string with its zone, not a number."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not TIME_PATTERN.fullmatch(value):
        raise ValueError("must be a time with its zone, such as 2030-01-31T12:00:00Z")
    if re.search(r" \d{2}:\d{2}$", value[11:]):
        raise ValueError("must be a time with its zone; in a URL write + as %2B, or use Z")
    return value


def check_year(at: datetime) -> datetime:
    """Check that a time is within the range of the table."""
    if not EARLIEST <= at < LATEST:
        raise ValueError("must lie in the years 2000 to 2199")
    return at


def check_payload(payload: object) -> object:
    """Return a payload as it will be stored; raises ValueError with the rule that it breaks."""
    try:
        return checked_json(payload)
    except InvalidArgument as error:
        raise ValueError(str(error)) from None


Name = Annotated[str, Field(strict=True, max_length=MAX_NAME_LENGTH, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
Text = Annotated[str, Field(strict=True, min_length=1, pattern=r"^[^\x00]+$")]
Seconds = Annotated[float, Field(strict=True, ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Time = Annotated[AwareDatetime, BeforeValidator(check_written_time)]
DueTime = Annotated[Time, AfterValidator(check_year)]
Payload = Annotated[
    dict[str, Any],
    BeforeValidator(check_payload),
    Field(
        description=f"Arguments of the handler: an object of at most {MAX_BYTES} bytes and {MAX_DEPTH} levels, "
        "without NUL."
    ),
]


# Requests -------------------------------------------------------------------------------------------------------------


class BackoffRequest(RequestModel):
    """How long to wait before a retry."""

    policy: BackoffPolicy = Field(
        default=DEFAULTS.backoff.policy,
        description="`none`: at once; `fixed`: the base; `exp`: doubled each time, with 20 % jitter.",
    )
    base_seconds: Seconds = DEFAULTS.backoff.base_seconds
    cap_seconds: Seconds = Field(default=DEFAULTS.backoff.cap_seconds, description="Upper limit of the wait.")

    @model_validator(mode="after")
    def check_base_below_cap(self) -> "BackoffRequest":
        """Check that the base is not above the cap."""
        if self.base_seconds > self.cap_seconds:
            raise ValueError(f"base_seconds {self.base_seconds:g} is more than cap_seconds {self.cap_seconds:g}")
        return self


class EnqueueRequest(RequestModel):
    """A job to enqueue. Under one key, type, queue, payload, run_at and delay_seconds must be the same."""

    type: Name = Field(description="The job type, which selects the handler.", examples=["thumbnail"])
    payload: Payload = Field(default_factory=dict[str, Any], examples=[{"image_id": "a1"}])
    queue: Name = "default"
    key: Annotated[Text, Field(max_length=MAX_KEY_LENGTH)] | None = Field(
        default=None,
        description="The idempotency key, where the header `Idempotency-Key` cannot be sent.",
    )
    run_at: DueTime | None = Field(default=None, description="The earliest time to run it.")
    delay_seconds: Seconds | None = Field(default=None, description="Seconds from now before it may run.")
    priority: int = Field(
        default=DEFAULTS.priority, strict=True, ge=MIN_PRIORITY, le=MAX_PRIORITY, description="Higher runs first."
    )
    max_attempts: int = Field(
        default=DEFAULTS.max_attempts,
        strict=True,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Attempts before the job becomes a dead letter.",
    )
    backoff: BackoffRequest = Field(default_factory=BackoffRequest)
    timeout_seconds: Annotated[Seconds, Field(gt=0)] | None = Field(
        default=None, description="An attempt that takes longer fails."
    )
    retain_seconds: float = Field(
        default=DEFAULTS.retain_seconds,
        strict=True,
        ge=MIN_RETAIN_DAYS * DAY,
        le=MAX_RETAIN_DAYS * DAY,
        allow_inf_nan=False,
        description="How long the job and its key are kept after it finished.",
    )
    requested_by: Annotated[Text, Field(max_length=MAX_ACTOR_LENGTH)] | None = Field(
        default=None, description="On whose behalf; by default the prefix of the API key. The first event records both."
    )

    @model_validator(mode="after")
    def check_one_due_time(self) -> "EnqueueRequest":
        """Check that at most one of run_at and delay_seconds is given."""
        if self.run_at is not None and self.delay_seconds is not None:
            raise ValueError("run_at and delay_seconds exclude each other: give one of them")
        return self

    def to_job_request(self, org: UUID, actor: str) -> JobRequest:
        """Convert to the request of the jobs service."""
        backoff = Backoff(self.backoff.policy, self.backoff.base_seconds, self.backoff.cap_seconds)
        return JobRequest(
            org=org,
            type=self.type,
            payload=self.payload,
            queue=self.queue,
            idempotency_key=self.key,
            run_at=self.run_at,
            delay_seconds=self.delay_seconds,
            requested_by=self.requested_by or actor,
            actor=actor,
            options=JobOptions(self.priority, self.max_attempts, backoff, self.timeout_seconds, self.retain_seconds),
        )


class CancelRequest(RequestModel):
    """How to cancel a job."""

    now: bool = Field(
        default=False, strict=True, description="Do not wait until a running job has stopped: revoke its lease."
    )
    release_key: bool = Field(
        default=False,
        strict=True,
        description="Free the idempotency key for another request, also of a job that is canceled already.",
    )


class JobQuery(PageQuery):
    """Filters and page of a list of jobs."""

    type: Name | None = None
    queue: Name | None = None
    status: JobStatus | None = None
    finished_from: Time | None = Field(default=None, description="Finished at this time or later.")
    finished_before: Time | None = Field(default=None, description="Finished before this time.")


# Responses ------------------------------------------------------------------------------------------------------------


class JobSummary(ResponseModel):
    """A job in a list: without payload and result, either of which may be large."""

    id: UUID
    org_id: UUID
    type: str
    queue: str
    status: JobStatus
    attempt: int = Field(description="Retries so far: 0 is the first attempt.")
    max_attempts: int
    backoff_policy: BackoffPolicy
    backoff_base_seconds: float
    backoff_cap_seconds: float
    priority: int
    idempotency_key: str | None
    requested_by: str | None
    run_at: Instant
    timeout_seconds: float | None
    starts: int
    snoozes: int = Field(description="How often its handler returned `Later`.")
    lease_owner: str | None = Field(description="The worker that has leased it.")
    lease_expires_at: Instant | None
    cancel_requested_at: Instant | None
    stage: str | None
    progress: int | None = Field(description="0 to 100.")
    created_at: Instant
    updated_at: Instant
    started_at: Instant | None = Field(description="When it was first started.")
    finished_at: Instant | None
    last_error_code: str | None
    last_error_message: str | None
    retain_until: Instant | None = Field(description="When it may be deleted, which frees its key.")
    revision: int = Field(description="Number of its events.")


class JobResponse(JobSummary):
    """A job with payload and result."""

    payload: dict[str, Any]
    result: Any = Field(description="What its handler returned.")


class JobEventResponse(ResponseModel):
    """One event of a job."""

    id: UUID
    job_id: UUID
    seq: int = Field(description="1, 2, 3, without gaps.")
    ts: Instant
    prev_status: str | None
    next_status: str
    detail_json: dict[str, Any] | None = Field(description="Actor, reason, error, progress.")


class JobPage(ResponseModel):
    """A page of jobs, the newest first."""

    items: list[JobSummary]
    next: NextCursor


class JobEventPage(ResponseModel):
    """A page of events, in order."""

    items: list[JobEventResponse]
    next: NextCursor
