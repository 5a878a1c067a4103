"""What came of it: the answers of services and of handlers.

A service that is asked twice says so: `Created(row)` the first time, `Existing(row)` afterwards. A handler does not
touch rows; it says what happened:

    Done(result)             settled, with something to remember
    Later(seconds)           not now; does not burn a start
    GiveUp(code, message)    it will never work: no retry
    Failed(code, message)    it did not work this time: retried by policy
    Stopped()                it was asked to stop, and did before it was finished

returned or raised, which is the same. The worker says the rest: `Cancelled` when somebody asked and the handler
stopped, `HandedBack` when the worker itself must go, `Settled` when the handler finished the row in a transaction of
its own. `Stopped` becomes one of them, by the reason for which the handler was asked to stop.

Whatever is in an outcome can be stored: checked when it is made, so that recording a failure cannot itself fail.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from duly.backoff import MAX_SECONDS
from duly.canonical_json import MAX_BYTES, Json, checked_json
from duly.errors import DulyError, InvalidArgument, InvalidResult
from duly.tracebacks import traceback_text

__all__ = [
    "MAX_TEXT_LENGTH",
    "RAISABLE",
    "UNSTORABLE",
    "Cancelled",
    "Created",
    "Creation",
    "Done",
    "Existing",
    "Failed",
    "GiveUp",
    "HandedBack",
    "Later",
    "Outcome",
    "Settled",
    "Stopped",
    "checked_result",
    "clean_text",
    "code_of_class",
    "failure_of",
    "invalid_result",
    "outcome_of_exception",
]

MAX_TEXT_LENGTH = 2048
MAX_CODE_LENGTH = 64
CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # what no text in PostgreSQL holds
WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # in HTTPStatusError: HTTP, Status, Error
NOT_IN_A_CODE = re.compile(r"[^A-Z0-9]+")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def clean_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """The text as PostgreSQL can store it: cut to length, with U+FFFD for every NUL and lone surrogate."""
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text[:max_length])


@dataclass(frozen=True, slots=True)
class Created(Generic[T_co]):
    """The request was new, and this is the row it made."""

    row: T_co

    @property
    def job_id(self: "Created[UUID]") -> UUID:
        """The job's id, of a request for a job."""
        return job_id_of(self.row)


@dataclass(frozen=True, slots=True)
class Existing(Generic[T_co]):
    """The same request came before, and this is the row it made then."""

    row: T_co

    @property
    def job_id(self: "Existing[UUID]") -> UUID:
        """The job's id, of a request for a job."""
        return job_id_of(self.row)


def job_id_of(row: Any) -> UUID:
    """The row of a request for a job is its id."""
    if isinstance(row, UUID):
        return row
    raise AttributeError(f"this is the answer to a request for a {type(row).__name__}, not for a job; see .row")


Creation: TypeAlias = Created[T] | Existing[T]


def checked_result(result: object) -> Json:
    """A plain copy of what a handler returned, or InvalidResult with the place and the fix."""
    try:
        return checked_json(result, object_only=False)
    except InvalidArgument as error:
        raise invalid_result(str(error)) from None


def invalid_result(reason: str) -> InvalidResult:
    """The refusal of a result."""
    return InvalidResult(
        f"the handler's result cannot be stored: {reason}. A result is JSON of at most {MAX_BYTES} bytes; "
        "store more elsewhere and return its name"
    )


@dataclass(unsafe_hash=True)
class Done(Exception):
    """The work is done; the result, any JSON value, is kept with the row."""

    result: Json = None

    def __post_init__(self) -> None:
        if self.result is not None:
            self.result = checked_result(self.result)

    def __reduce__(self) -> tuple[type["Done"], tuple[Json]]:
        return type(self), (self.result,)


@dataclass(unsafe_hash=True)
class Later(Exception):
    """Not now: try again after so many seconds, and do not count this as a start."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= MAX_SECONDS:  # false for NaN too
            raise InvalidArgument(f"Later({self.seconds}): seconds must be between 0 and {MAX_SECONDS:.0f}")

    def __reduce__(self) -> tuple[type["Later"], tuple[float]]:
        return type(self), (self.seconds,)


@dataclass(unsafe_hash=True)
class Stopped(Exception):
    """It was asked to stop and did, unfinished: the worker knows why it asked, and records that."""


@dataclass(unsafe_hash=True)
class _Problem(Exception):
    """A code for programs and a message for people, both fit for their columns.

    The traceback is that of the exception it was made of, or of where it was raised. The exception itself is there in
    the process in which it was raised, and in no other.
    """

    code: str
    message: str
    traceback: str | None = field(default=None, compare=False, repr=False, kw_only=True)
    is_unexpected: bool = field(default=False, compare=False, repr=False, kw_only=True)  # by no word of the handler's
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

    def __reduce__(self) -> tuple[type["_Problem"], tuple[str, str], dict[str, object]]:
        known: dict[str, object] = {"traceback": self.traceback, "is_unexpected": self.is_unexpected}
        return type(self), (self.code, self.message), known


@dataclass(unsafe_hash=True)
class GiveUp(_Problem):
    """It will never work; trying again would only repeat this."""


@dataclass(unsafe_hash=True)
class Failed(_Problem):
    """It did not work this time; the row's policy decides whether and when to try again."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody asked for it to stop, and it did."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Not finished and not to blame: the worker had to let go."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The handler settled the row itself, in its own fenced transaction; there is nothing left to write."""


RAISABLE = (Done, Later, GiveUp, Failed, Stopped)
Outcome: TypeAlias = Done | Later | GiveUp | Failed | Stopped | Cancelled | HandedBack | Settled


def outcome_of_exception(error: BaseException) -> Outcome:
    """What came of work that ended by an exception: the outcome that was raised, or else a failure."""
    if not isinstance(error, RAISABLE):
        return failure_of(error)
    if isinstance(error, _Problem) and error.traceback is None:
        error.traceback = traceback_text(error)
    return error


def failure_of(error: BaseException) -> Failed:
    """Any exception as an outcome; even one that cannot say what it is."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    trace = traceback_text(error)
    if isinstance(error, DulyError):
        return Failed(error.code, message or name, traceback=trace, error=error)
    words = f"{name}: {message}" if message else name
    return Failed(code_of_class(type(error)), words, traceback=trace, error=error, is_unexpected=True)


def code_of_class(kind: type[BaseException]) -> str:
    """The name of an exception as a code: ConnectionError is CONNECTION_ERROR."""
    words = NOT_IN_A_CODE.sub("_", WORD_BEGINS.sub("_", kind.__name__).upper()).strip("_")
    code = words[:MAX_CODE_LENGTH].rstrip("_")
    return code if CODE.fullmatch(code) else f"ERROR_{code}"[:MAX_CODE_LENGTH].rstrip("_")
