"""Every failure duly reports, as one tree.

    DulyError
      Refused                 the caller can fix it                               4xx, exit 2
        AlreadyRunning          ALREADY_RUNNING    a second `up` in one directory 409
      Misconfigured           settings or the machine contradict us: MISCONFIGURED     exit 78
        NoBinaries              NO_BINARIES        no PostgreSQL server programs found
        HomeUnusable            HOME_UNUSABLE      the data directory cannot be written or reached
        OtherMajor              OTHER_MAJOR        the data was written by another PostgreSQL major version
        NoAccount               NO_ACCOUNT         no account the server could run under
        NotATestDatabase        NOT_A_TEST_DATABASE   the tests were pointed at something else
        PortTaken               PORT_TAKEN         somebody else listens there
        MissingExtra            MISSING_EXTRA      an optional part is not installed
      Unavailable             the database did not answer: UNAVAILABLE      503, exit 69

Each class has a `code` (the same word in an HTTP body, on the command line and in a row), the HTTP `status` and the
`exit_status` of a command. A message names the thing, its value and the fix.
"""

from typing import ClassVar

__all__ = [
    "AlreadyRunning",
    "DulyError",
    "HomeUnusable",
    "Misconfigured",
    "MissingExtra",
    "NoAccount",
    "NoBinaries",
    "NotATestDatabase",
    "OtherMajor",
    "PortTaken",
    "Refused",
    "Unavailable",
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


class PortTaken(Misconfigured):
    """Another program listens on the port we were told to use."""

    code = "PORT_TAKEN"


class MissingExtra(Misconfigured):
    """An optional part of duly is needed and not installed."""

    code = "MISSING_EXTRA"


class Unavailable(DulyError):
    """The database did not answer in time."""

    code = "UNAVAILABLE"
    status = 503
    exit_status = 69
