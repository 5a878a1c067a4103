"""Jobs as JSON: what may be asked, within which bounds, and what is shown.

Every bound of the table stands here too, so that a caller hears the rule and not the name of a constraint. Columns keep
their names.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, model_validator

from duly.backoff import MAX_SECONDS, Backoff, BackoffPolicy
from duly.canonical_json import MAX_BYTES, checked_json
from duly.errors import InvalidArgument
from duly.http.types import Asked, Instant, PageQuery, Shown
from duly.jobs.model import DAY_SECONDS, MAX_RETAIN_SECONDS, Options, Request, Status

__all__ = ["Cancel", "EventPage", "JobPage", "JobQuery", "JobRequest", "ShownEvent", "ShownJob"]

DEFAULTS = Options()
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
WRITTEN_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*", re.ASCII)


# Kinds of values ------------------------------------------------------------------------------------------------------


def written_time(value: object) -> object:
    """A time is written out with its zone: a bare number, or a time that depends on who reads it, is none."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not WRITTEN_TIME.fullmatch(value):
        raise ValueError("must be a time with its zone, such as 2030-01-31T12:00:00Z")
    if re.search(r" \d{2}:\d{2}$", value[11:]):
        raise ValueError("must be a time with its zone; in an address write + as %2B, or use Z")
    return value


def within_our_years(at: datetime) -> datetime:
    """The table holds times of two centuries; everything else is a mistake."""
    if not EARLIEST <= at < LATEST:
        raise ValueError("must lie in the years 2000 to 2199")
    return at


def storable(payload: object) -> object:
    """A payload as it will be stored, or the rule that it breaks and where."""
    try:
        return checked_json(payload)
    except InvalidArgument as error:
        raise ValueError(str(error)) from None


Name = Annotated[str, Field(strict=True, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=255, pattern=r"^[^\x00]+$")]
Seconds = Annotated[float, Field(strict=True, ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Time = Annotated[AwareDatetime, BeforeValidator(written_time)]
DueTime = Annotated[Time, AfterValidator(within_our_years)]
Payload = Annotated[
    dict[str, Any],
    BeforeValidator(storable),
    Field(description=f"What is to be done: an object of at most {MAX_BYTES} bytes and 64 levels, without NUL."),
]


# Asking ---------------------------------------------------------------------------------------------------------------


class BackoffRequest(Asked):
    """How long to wait before trying again."""

    policy: BackoffPolicy = Field(
        default=DEFAULTS.backoff.policy,
        description="`none`: at once; `fixed`: the base; `exp`: doubled, a fifth more or less.",
    )
    base_seconds: Seconds = DEFAULTS.backoff.base_seconds
    cap_seconds: Seconds = Field(default=DEFAULTS.backoff.cap_seconds, description="Doubling ends here.")

    @model_validator(mode="after")
    def base_is_below_cap(self) -> "BackoffRequest":
        """The wait begins at the base and ends at the cap."""
        if self.base_seconds > self.cap_seconds:
            raise ValueError(f"base_seconds {self.base_seconds:g} is more than cap_seconds {self.cap_seconds:g}")
        return self


class JobRequest(Asked):
    """A job that is asked for. What a key stands for: type, queue, payload, run_at and delay_seconds."""

    type: Name = Field(description="Which handler performs it.", examples=["thumbnail"])
    payload: Payload = Field(default_factory=dict[str, Any], examples=[{"image_id": "a1"}])
    queue: Name = "default"
    key: Text | None = Field(
        default=None, description="The same request under the same key makes one job; another is refused."
    )
    run_at: DueTime | None = Field(default=None, description="Not before this time.")
    delay_seconds: Seconds | None = Field(default=None, description="Not before so many seconds from now.")
    priority: int = Field(default=DEFAULTS.priority, strict=True, ge=-100, le=100, description="Higher first.")
    max_attempts: int = Field(
        default=DEFAULTS.max_attempts, strict=True, ge=1, le=1000, description="So many starts, then dead_letter."
    )
    backoff: BackoffRequest = Field(default_factory=BackoffRequest)
    timeout_seconds: Annotated[Seconds, Field(gt=0)] | None = Field(
        default=None, description="A start that takes longer has failed."
    )
    retain_seconds: float = Field(
        default=DEFAULTS.retain_seconds,
        strict=True,
        ge=DAY_SECONDS,
        le=MAX_RETAIN_SECONDS,
        allow_inf_nan=False,
        description="How long it is kept after its end, and its key with it.",
    )
    requested_by: Text | None = Field(
        default=None, description="On whose behalf; without it, the key's prefix. Its first event tells both."
    )

    @model_validator(mode="after")
    def due_is_said_once(self) -> "JobRequest":
        """Two ways to say when, of which one is used."""
        if self.run_at is not None and self.delay_seconds is not None:
            raise ValueError("a job runs at a time or after a delay: give run_at or delay_seconds, not both")
        return self

    def request_of(self, org: UUID, actor: str) -> Request:
        """The same in the ledger's words."""
        backoff = Backoff(self.backoff.policy, self.backoff.base_seconds, self.backoff.cap_seconds)
        return Request(
            org=org,
            type=self.type,
            payload=self.payload,
            queue=self.queue,
            key=self.key,
            run_at=self.run_at,
            delay_seconds=self.delay_seconds,
            requested_by=self.requested_by or actor,
            actor=actor,
            options=Options(self.priority, self.max_attempts, backoff, self.timeout_seconds, self.retain_seconds),
        )


class Cancel(Asked):
    """How a job is to be cancelled."""

    now: bool = Field(
        default=False, strict=True, description="Do not wait until a running job has stopped: its holder is cut off."
    )
    release_key: bool = Field(
        default=False,
        strict=True,
        description="Free the job's key for another request; a job that is canceled already takes this too.",
    )


class JobQuery(PageQuery):
    """Which jobs, and which page of them."""

    type: Name | None = None
    queue: Name | None = None
    status: Status | None = None
    finished_from: Time | None = Field(default=None, description="Ended at this time or later.")
    finished_before: Time | None = Field(default=None, description="Ended before this time.")


# Showing --------------------------------------------------------------------------------------------------------------


class ListedJob(Shown):
    """A job as a list shows it: without payload and result, of which either may be a mebibyte."""

    id: UUID
    org_id: UUID
    type: str
    queue: str
    status: Status
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
    snoozes: int = Field(description='How often its handler said "later".')
    lease_owner: str | None = Field(description="Who holds it.")
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
    retain_until: Instant | None = Field(description="When it may be removed, and its key is free again.")
    revision: int = Field(description="How many events it has.")


class ShownJob(ListedJob):
    """A job, whole."""

    payload: dict[str, Any]
    result: Any = Field(description="What its handler returned.")


class ShownEvent(Shown):
    """One line of a job's log."""

    id: UUID
    job_id: UUID
    seq: int = Field(description="1, 2, 3, without a gap.")
    ts: Instant
    prev_status: str | None
    next_status: str
    detail_json: dict[str, Any] | None = Field(description="Who, why, which error, how far.")


class JobPage(Shown):
    """Some jobs, the newest first."""

    items: list[ListedJob]
    next: str | None = Field(description="Ask with `?next=` for what follows; null when that was all.")


class EventPage(Shown):
    """Some lines of a job's log, in order."""

    items: list[ShownEvent]
    next: str | None = Field(description="Ask with `?next=` for what follows; null when that was all.")
