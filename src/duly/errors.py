"""Every failure duly reports, as one tree.

    DulyError
      Refused                 the caller can fix it                               4xx, exit 2
        InvalidArgument         INVALID_ARGUMENT   the request breaks a stated rule 422
          InvalidResult           INVALID_RESULT   what a handler returned cannot be stored
        Unauthorized            UNAUTHORIZED       nobody we know asks: send a key 401
        Forbidden               FORBIDDEN          we know who asks, and they may not 403
        NotFound                NOT_FOUND          there is no such thing, or not for you 404
        MethodNotAllowed        METHOD_NOT_ALLOWED the address is right, the verb is not 405
        TooLarge                TOO_LARGE          more than we read from anybody 413
        Conflict                CONFLICT           it contradicts what is there   409
          KeyReused               KEY_REUSED       same key, different request
          AlreadyPosted           ALREADY_POSTED   the author's day has its post
          RequestIdReused         REQUEST_ID_REUSED   same request id, different request
          AlreadyAnswered         ALREADY_ANSWERED   the run has its answer, told with it
          RunClosed               RUN_CLOSED       the run ended without an answer
          NothingToUndo           NOTHING_TO_UNDO  nothing was booked, or it is too late
          IllegalMove             ILLEGAL_MOVE     the state machine has no such edge
          LimitReached            LIMIT_REACHED    a documented limit of rows is reached
        RateLimited             RATE_LIMITED       more than we do for one person at a time 429
        AlreadyRunning          ALREADY_RUNNING    a second `up` in one directory 409
      LeaseLost               somebody else holds it: stop, log, write nothing: LEASE_LOST   409
      Misconfigured           settings or the machine contradict us: MISCONFIGURED     exit 78
        NoBinaries              NO_BINARIES        no PostgreSQL server programs found
        HomeUnusable            HOME_UNUSABLE      the data directory cannot be written or reached
        OtherMajor              OTHER_MAJOR        the data was written by another PostgreSQL major version
        NoAccount               NO_ACCOUNT         no account the server could run under
        NotATestDatabase        NOT_A_TEST_DATABASE   the tests were pointed at something else
        NoDatabase              NO_DATABASE        no DATABASE_URL, and no embedded database in DULY_HOME
        NotMigrated             NOT_MIGRATED       the database lacks our tables: duly migrate
        PortTaken               PORT_TAKEN         somebody else listens there
        MissingExtra            MISSING_EXTRA      an optional part is not installed
      Unavailable             the database did not answer: UNAVAILABLE      503, exit 69
      Unexpected              a mistake of ours, told without its insides: UNEXPECTED   500

Each class has a `code` (the same word in an HTTP body, on the command line and in a row), the HTTP `status` and the
`exit_status` of a command. A message names the thing, its value and the fix.
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
    "IllegalMove",
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
    "NothingToUndo",
    "OtherMajor",
    "PortTaken",
    "RateLimited",
    "Refused",
    "RequestIdReused",
    "RunClosed",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unexpected",
]


class DulyError(Exception):
    """Anything duly reports on purpose; the message is written for the person who must act."""

    code: ClassVar[str] = "ERROR"
    status: ClassVar[int] = 500
    exit_status: ClassVar[int] = 1


class Refused(DulyError):
    """The caller asked for something we will not do, and can ask differently."""

    code = "REFUSED"
    status = 400
    exit_status = 2


class InvalidArgument(Refused):
    """The request breaks a rule; the message states the rule."""

    code = "INVALID_ARGUMENT"
    status = 422


class InvalidResult(InvalidArgument):
    """What a handler returned is not JSON, or too large to be stored; doing the work again would not change that."""

    code = "INVALID_RESULT"


class Unauthorized(Refused):
    """Nobody we know asks: there is no key, or it opens nothing."""

    code = "UNAUTHORIZED"
    status = 401


class Forbidden(Refused):
    """We know who asks, and what they ask for is not theirs to do."""

    code = "FORBIDDEN"
    status = 403


class NotFound(Refused):
    """There is no such thing, or it belongs to somebody else, which is told the same way."""

    code = "NOT_FOUND"
    status = 404


class MethodNotAllowed(Refused):
    """The address is right, and the verb is none that it knows."""

    code = "METHOD_NOT_ALLOWED"
    status = 405


class TooLarge(Refused):
    """The request brings more than we read from anybody."""

    code = "TOO_LARGE"
    status = 413


class Conflict(Refused):
    """The request contradicts what is there; nothing was changed."""

    code = "CONFLICT"
    status = 409


class KeyReused(Conflict):
    """The idempotency key was used before, for a different request."""

    code = "KEY_REUSED"


class AlreadyPosted(Conflict):
    """The author has posted on this UTC day already."""

    code = "ALREADY_POSTED"

    def __init__(self, message: str, post_id: UUID | None = None) -> None:
        super().__init__(message)
        self.post_id = post_id


class RequestIdReused(Conflict):
    """The request id was used before, for a different request."""

    code = "REQUEST_ID_REUSED"


class AlreadyAnswered(Conflict):
    """The run was answered before, under another key; the first receipt comes with it."""

    code = "ALREADY_ANSWERED"

    def __init__(self, message: str, receipt: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.receipt = receipt


class RunClosed(Conflict):
    """The run ended without an answer: it was missed, or its schedule is archived."""

    code = "RUN_CLOSED"


class NothingToUndo(Conflict):
    """Nothing was booked for the run, or the time for taking it back is over."""

    code = "NOTHING_TO_UNDO"


class IllegalMove(Conflict):
    """The state machine has no edge from where the row is to where it was told to go."""

    code = "ILLEGAL_MOVE"


class LimitReached(Conflict):
    """A documented limit is reached, such as the number of schedules of one person."""

    code = "LIMIT_REACHED"


class RateLimited(Refused):
    """More was asked for than we do for one person in so short a time."""

    code = "RATE_LIMITED"
    status = 429


class LeaseLost(DulyError):
    """Somebody else holds the row now: stop, log, write nothing."""

    code = "LEASE_LOST"
    status = 409


class AlreadyRunning(Refused):
    """`duly up` runs in this directory already."""

    code = "ALREADY_RUNNING"
    status = 409


class Misconfigured(DulyError):
    """A setting, or the machine we run on, makes the work impossible."""

    code = "MISCONFIGURED"
    exit_status = 78


class NoBinaries(Misconfigured):
    """No usable PostgreSQL server programs were found."""

    code = "NO_BINARIES"


class HomeUnusable(Misconfigured):
    """The directory for data, sockets and logs cannot be written or reached."""

    code = "HOME_UNUSABLE"


class OtherMajor(Misconfigured):
    """The data directory was written by a PostgreSQL of another major version."""

    code = "OTHER_MAJOR"


class NoAccount(Misconfigured):
    """There is no operating-system account the server could run under."""

    code = "NO_ACCOUNT"


class NotATestDatabase(Misconfigured):
    """Tests were pointed at a database that does not say it is one for tests."""

    code = "NOT_A_TEST_DATABASE"


class NoDatabase(Misconfigured):
    """No DATABASE_URL is set, and DULY_HOME has no embedded database."""

    code = "NO_DATABASE"


class NotMigrated(Misconfigured):
    """The database does not have the tables this version of duly works on."""

    code = "NOT_MIGRATED"


class PortTaken(Misconfigured):
    """Another program listens on the port we were told to use."""

    code = "PORT_TAKEN"


class MissingExtra(Misconfigured):
    """An optional part of duly is needed and not installed."""

    code = "MISSING_EXTRA"


class Unavailable(DulyError):
    """This cannot be done now: something did not answer in time, or has no room left.

    `public` is what a client is told instead of the message, where that names a place on our side.
    """

    code = "UNAVAILABLE"
    status = 503
    exit_status = 69

    def __init__(self, message: str = "", public: str | None = None) -> None:
        super().__init__(message)
        self.public = public


class Unexpected(DulyError):
    """Something broke that should not have; the server's log says what."""

    code = "UNEXPECTED"
