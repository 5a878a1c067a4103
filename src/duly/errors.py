"""Every failure duly reports, as one tree.

    DulyError
      Refused                 the caller can fix it: REFUSED                        4xx, exit 2
        InvalidArgument         INVALID_ARGUMENT   the request breaks a stated rule 422
          InvalidResult           INVALID_RESULT   a handler's result cannot be stored
        Unauthorized            UNAUTHORIZED       API key missing or invalid     401
        Forbidden               FORBIDDEN          the API key does not permit it 403
        NotFound                NOT_FOUND          no such row, or not the caller's 404
        MethodNotAllowed        METHOD_NOT_ALLOWED the path does not take this method 405
        TooLarge                TOO_LARGE          the request body is too large or too slow 413
        Conflict                CONFLICT           it contradicts the stored state 409
          KeyReused               KEY_REUSED       same idempotency key, different request
          AlreadyPosted           ALREADY_POSTED   the author already posted on this day
          RequestIdReused         REQUEST_ID_REUSED   same request id, different request
          AlreadyAnswered         ALREADY_ANSWERED   the run has an answer; carries its receipt
          RunClosed               RUN_CLOSED       the run ended without an answer
          ReminderNotSent         REMINDER_NOT_SENT  a run was snoozed before its reminder was sent
          NothingToReverse        NOTHING_TO_REVERSE nothing was booked, or the time for reversing it is over
          IllegalTransition       ILLEGAL_TRANSITION the state machine has no such transition
          LimitReached            LIMIT_REACHED    a documented limit of rows is reached
        RateLimited             RATE_LIMITED       too many requests from one caller 429
        AlreadyRunning          ALREADY_RUNNING    a second `up` in one directory 409
      LeaseLost               another worker has the lease; stop, write nothing: LEASE_LOST     409
      Misconfigured           a setting or the machine prevents the work: MISCONFIGURED     exit 78
        NoBinaries              NO_BINARIES        no PostgreSQL server programs found
        HomeUnusable            HOME_UNUSABLE      the data directory cannot be written or reached
        OtherMajor              OTHER_MAJOR        the data was written by another PostgreSQL major version
        NoAccount               NO_ACCOUNT         no account the server could run under
        NotATestDatabase        NOT_A_TEST_DATABASE   the test database is not named as one
        NoDatabase              NO_DATABASE        no DATABASE_URL, and no embedded database in DULY_HOME
        NotMigrated             NOT_MIGRATED       the database lacks duly's tables: duly migrate
        PortTaken               PORT_TAKEN         another program listens on the port
        MissingExtra            MISSING_EXTRA      an optional extra is not installed
      Unavailable             a dependency did not answer, or is at capacity: UNAVAILABLE      503, exit 69
      Unexpected              a bug in duly; details only in the log: UNEXPECTED   500

Each class has a `code` (the same in an HTTP body, on the command line and in a row), a `title` for API clients, the
HTTP `status` and the `exit_status` of a command. A message names the subject, its value and the fix.
"""

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

__all__ = [
    "AlreadyAnswered",
    "AlreadyPosted",
    "AlreadyRunning",
    "Conflict",
    "DulyError",
    "Forbidden",
    "HomeUnusable",
    "IllegalTransition",
    "InvalidArgument",
    "InvalidResult",
    "KeyReused",
    "LeaseLost",
    "LimitReached",
    "MethodNotAllowed",
    "Misconfigured",
    "MissingExtra",
    "NoAccount",
    "NoBinaries",
    "NoDatabase",
    "NotATestDatabase",
    "NotFound",
    "NotMigrated",
    "NothingToReverse",
    "OtherMajor",
    "PortTaken",
    "RateLimited",
    "Refused",
    "ReminderNotSent",
    "RequestIdReused",
    "RunClosed",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unexpected",
]


class DulyError(Exception):
    """Base of every failure duly reports on purpose; the message is written for the person who must act."""

    code: ClassVar[str] = "ERROR"
    title: ClassVar[str] = "The request failed"
    status: ClassVar[int] = 500
    exit_status: ClassVar[int] = 1


class Refused(DulyError):
    """Raised when the caller can fix the request and send it again."""

    code = "REFUSED"
    title = "The request was refused"
    status = 400
    exit_status = 2


class InvalidArgument(Refused):
    """Raised when a request breaks a rule; the message states the rule."""

    code = "INVALID_ARGUMENT"
    title = "The request breaks a rule"
    status = 422


class InvalidResult(InvalidArgument):
    """Raised when a handler's result is not JSON or too large to store; a retry would not change that."""

    code = "INVALID_RESULT"
    title = "The handler's result cannot be stored"


class Unauthorized(Refused):
    """Raised when the API key is missing, unknown, revoked or expired."""

    code = "UNAUTHORIZED"
    title = "API key missing, unknown, revoked or expired"
    status = 401


class Forbidden(Refused):
    """Raised when the API key is valid but does not permit the request."""

    code = "FORBIDDEN"
    title = "The API key does not permit this"
    status = 403


class NotFound(Refused):
    """Raised when a row does not exist or belongs to another owner; the two cases are indistinguishable."""

    code = "NOT_FOUND"
    title = "Not found, or not visible to this API key"
    status = 404


class MethodNotAllowed(Refused):
    """Raised when a path exists but does not take the method."""

    code = "METHOD_NOT_ALLOWED"
    title = "Method not allowed for this path"
    status = 405


class TooLarge(Refused):
    """Raised when a request body is larger, or arrives more slowly, than the server accepts."""

    code = "TOO_LARGE"
    title = "The request body is too large or too slow"
    status = 413


class Conflict(Refused):
    """Raised when a request contradicts the stored state; nothing was changed."""

    code = "CONFLICT"
    title = "The request conflicts with the stored state; nothing was changed"
    status = 409


class KeyReused(Conflict):
    """Raised when an idempotency key was used before, for a different request."""

    code = "KEY_REUSED"
    title = "The idempotency key was used before, for a different request"


class AlreadyPosted(Conflict):
    """Raised when the author already has a post on this UTC day."""

    code = "ALREADY_POSTED"
    title = "The author has already posted on this UTC day"

    def __init__(self, message: str, post_id: UUID | None = None) -> None:
        super().__init__(message)
        self.post_id = post_id


class RequestIdReused(Conflict):
    """Raised when a request id was used before, for a different request."""

    code = "REQUEST_ID_REUSED"
    title = "The request id was used before, for a different request"


class AlreadyAnswered(Conflict):
    """Raised when a run was answered before, under another key; carries the receipt of that answer."""

    code = "ALREADY_ANSWERED"
    title = "The run was answered before; its receipt is included"

    def __init__(self, message: str, receipt: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.receipt = receipt


class RunClosed(Conflict):
    """Raised when a run ended without an answer: it was missed, or its schedule is archived; carries the reason."""

    code = "RUN_CLOSED"
    title = "The run ended without an answer: it was missed, or its schedule is archived"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class ReminderNotSent(Conflict):
    """Raised when a run is snoozed whose reminder was not sent yet, or is not known to be."""

    code = "REMINDER_NOT_SENT"
    title = "Only a run whose reminder was sent can be snoozed"


class NothingToReverse(Conflict):
    """Raised when nothing was booked for the run, or the time for reversing it is over."""

    code = "NOTHING_TO_REVERSE"
    title = "Nothing was booked for the run, or the time for reversing it is over"


class IllegalTransition(Conflict):
    """Raised when the state machine has no transition from the row's state to the requested one."""

    code = "ILLEGAL_TRANSITION"
    title = "The current state does not allow this transition"


class LimitReached(Conflict):
    """Raised when a documented limit is reached, such as the number of schedules of one person."""

    code = "LIMIT_REACHED"
    title = "A documented limit is reached"


class RateLimited(Refused):
    """Raised when one caller sends too many requests in a short time."""

    code = "RATE_LIMITED"
    title = "Too many requests"
    status = 429


class LeaseLost(DulyError):
    """Raised when another worker has claimed the row: stop, log, write nothing."""

    code = "LEASE_LOST"
    title = "The lease was lost: another worker has claimed the row"
    status = 409


class AlreadyRunning(Refused):
    """Raised when `duly up` already runs in this directory."""

    code = "ALREADY_RUNNING"
    title = "`duly up` is already running in this directory"
    status = 409


class Misconfigured(DulyError):
    """Raised when a setting, or the machine, makes the work impossible."""

    code = "MISCONFIGURED"
    title = "The server is misconfigured"
    exit_status = 78


class NoBinaries(Misconfigured):
    """Raised when no usable PostgreSQL server programs were found."""

    code = "NO_BINARIES"
    title = "No PostgreSQL server programs found"


class HomeUnusable(Misconfigured):
    """Raised when the directory for data, sockets and logs cannot be written or reached."""

    code = "HOME_UNUSABLE"
    title = "The data directory cannot be written or reached"


class OtherMajor(Misconfigured):
    """Raised when the data directory was written by another major version of PostgreSQL."""

    code = "OTHER_MAJOR"
    title = "The data directory belongs to another PostgreSQL major version"


class NoAccount(Misconfigured):
    """Raised when there is no operating-system account the server could run under."""

    code = "NO_ACCOUNT"
    title = "No operating-system account to run PostgreSQL under"


class NotATestDatabase(Misconfigured):
    """Raised when tests are pointed at a database whose name does not mark it as one for tests."""

    code = "NOT_A_TEST_DATABASE"
    title = "The database is not marked as a test database"


class NoDatabase(Misconfigured):
    """Raised when DATABASE_URL is not set and DULY_HOME has no embedded database."""

    code = "NO_DATABASE"
    title = "No database is configured"


class NotMigrated(Misconfigured):
    """Raised when the database does not have the tables of this version of duly."""

    code = "NOT_MIGRATED"
    title = "The database is not migrated"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this database lacks duly's tables; create them with: duly migrate, "
            "or those of an application with: duly migrate --apps NAME"
        )


class PortTaken(Misconfigured):
    """Raised when another program listens on the configured port."""

    code = "PORT_TAKEN"
    title = "The port is in use"


class MissingExtra(Misconfigured):
    """Raised when an optional extra of duly is needed and not installed."""

    code = "MISSING_EXTRA"
    title = "An optional extra is not installed"


class Unavailable(DulyError):
    """Raised when a dependency did not answer in time, or a resource is at capacity.

    `public` replaces the message for API clients where that names an internal address.
    """

    code = "UNAVAILABLE"
    title = "Temporarily unavailable"
    status = 503
    exit_status = 69

    def __init__(self, message: str = "", public: str | None = None) -> None:
        super().__init__(message)
        self.public = public


class Unexpected(DulyError):
    """Stands for a bug in duly; only the server's log has the details."""

    code = "UNEXPECTED"
    title = "Unexpected error; the server's log has the details"
