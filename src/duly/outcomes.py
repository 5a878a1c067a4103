"""Outcomes of services and of handlers.

A service returns `Created(row)` for a new request and `Existing(row)` for a repeated one. A handler does not touch
rows; it returns or raises one of

    Done(result)             succeeded, with a result to store
    Later(seconds)           try again later; does not count as a start
    GiveUp(code, message)    failed permanently: no retry
    Failed(code, message)    failed this time: retried by policy
    Stopped()                stopped on request, before it was finished

The worker adds the others: `Cancelled` when the job was cancelled and its handler stopped, `Released` when the worker
shuts down, `Settled` when the handler settled the row in a transaction of its own. `Stopped` becomes `Cancelled` or
`Released`, by the reason of the stop request.

The content of an outcome is checked when it is created, so that recording a failure cannot itself fail.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from duly.backoff import MAX_SECONDS
from duly.canonical_json import MAX_BYTES, Json, checked_json
from duly.errors import DulyError, InvalidArgument, InvalidResult
from duly.tracebacks import UNSTORABLE, format_traceback

MAX_TEXT_LENGTH = 2048
MAX_CODE_LENGTH = 64
CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # HTTPStatusError is HTTP, Status, Error
INVALID_IN_CODE = re.compile(r"[^A-Z0-9]+")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def clean_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Make a text storable in PostgreSQL: truncate it, and replace every NUL and lone surrogate by U+FFFD."""
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text[:max_length])


@dataclass(frozen=True, slots=True)
class Created(Generic[T_co]):
    """The request was new; `row` is the row it created."""

    row: T_co

    @property
    def job_id(self: "Created[UUID]") -> UUID:
        """The job's id, of a request for a job."""
        return require_job_id(self.row)


@dataclass(frozen=True, slots=True)
class Existing(Generic[T_co]):
    """The same request was made before; `row` is the row it created then."""

    row: T_co

    @property
    def job_id(self: "Existing[UUID]") -> UUID:
        """The job's id, of a request for a job."""
        return require_job_id(self.row)


def require_job_id(row: Any) -> UUID:
    """Return the id that enqueuing a job created; AttributeError for rows of other requests."""
    if isinstance(row, UUID):
        return row
    raise AttributeError(f"job_id: the request created a {type(row).__name__}, not a job; use .row")


Creation: TypeAlias = Created[T] | Existing[T]


def checked_result(result: object) -> Json:
    """Return a plain copy of a handler's result; InvalidResult names the path in it and the fix."""
    try:
        return checked_json(result, object_only=False)
    except InvalidArgument as error:
        raise invalid_result(str(error)) from None


def invalid_result(reason: str) -> InvalidResult:
    """Build the error for a result that cannot be stored."""
    return InvalidResult(
        f"the handler's result cannot be stored: {reason}. A result is JSON of at most {MAX_BYTES} bytes; "
        "store larger data elsewhere and return a reference"
    )


@dataclass(unsafe_hash=True)
class Done(Exception):
    """The work succeeded; the result, any JSON value, is stored with the row."""

    result: Json = None

    def __post_init__(self) -> None:
        if self.result is not None:
            self.result = checked_result(self.result)

    def __reduce__(self) -> tuple[type["Done"], tuple[Json]]:
        return type(self), (self.result,)


@dataclass(unsafe_hash=True)
class Later(Exception):
    """Try again after this many seconds, without counting a start."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= MAX_SECONDS:  # false for NaN too
            raise InvalidArgument(f"Later({self.seconds}): seconds must be between 0 and {MAX_SECONDS:.0f}")

    def __reduce__(self) -> tuple[type["Later"], tuple[float]]:
        return type(self), (self.seconds,)


@dataclass(unsafe_hash=True)
class Stopped(Exception):
    """The handler stopped on request, unfinished; the worker records the reason of the request."""


@dataclass(unsafe_hash=True)
class _ErrorOutcome(Exception):
    """A code for programs and a message for people, both of a length that their columns accept.

    The traceback is that of the original exception, or of where this one was raised. `error`, the exception itself, is
    available only in the process in which it was raised.
    """

    code: str
    message: str
    traceback: str | None = field(default=None, compare=False, repr=False, kw_only=True)
    is_unexpected: bool = field(default=False, compare=False, repr=False, kw_only=True)  # not an outcome
    error: BaseException | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not CODE.fullmatch(self.code):
            raise InvalidArgument(
                f"error code {clean_text(self.code, 80)!a}: must be a capital letter, "
                "then at most 63 capital letters, digits or underscores"
            )
        self.message = clean_text(self.message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[type["_ErrorOutcome"], tuple[str, str], dict[str, object]]:
        state: dict[str, object] = {"traceback": self.traceback, "is_unexpected": self.is_unexpected}
        return type(self), (self.code, self.message), state


@dataclass(unsafe_hash=True)
class GiveUp(_ErrorOutcome):
    """The work failed permanently; a retry would fail the same way."""


@dataclass(unsafe_hash=True)
class Failed(_ErrorOutcome):
    """The work failed this time; the row's retry policy decides whether and when to try again."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job was cancelled, and its handler stopped."""


@dataclass(frozen=True, slots=True)
class Released:
    """The worker gave the row up unfinished; its start is not counted."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The handler settled the row in its own fenced transaction; nothing is left to write."""


RAISABLE = (Done, Later, GiveUp, Failed, Stopped)
Outcome: TypeAlias = Done | Later | GiveUp | Failed | Stopped | Cancelled | Released | Settled


def outcome_from_exception(error: BaseException) -> Outcome:
    """Return the outcome that was raised, or a failure for any other exception."""
    if not isinstance(error, RAISABLE):
        return failure_from_exception(error)
    if isinstance(error, _ErrorOutcome) and error.traceback is None:
        error.traceback = format_traceback(error)
    return error


def failure_from_exception(error: BaseException) -> Failed:
    """Convert any exception to a failure, even one whose `__str__` raises."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be formatted)"
    trace = format_traceback(error)
    if isinstance(error, DulyError):
        return Failed(error.code, message or name, traceback=trace, error=error)
    text = f"{name}: {message}" if message else name
    return Failed(error_code_for(type(error)), text, traceback=trace, error=error, is_unexpected=True)


def error_code_for(exception: type[BaseException]) -> str:
    """Derive an error code from an exception class: ConnectionError is CONNECTION_ERROR."""
    words = INVALID_IN_CODE.sub("_", WORD_START.sub("_", exception.__name__).upper()).strip("_")
    code = words[:MAX_CODE_LENGTH].rstrip("_")
    return code if CODE.fullmatch(code) else f"ERROR_{code}"[:MAX_CODE_LENGTH].rstrip("_")
