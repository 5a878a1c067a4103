"""The context of the checks: database, settings and limits; and how a function becomes a check."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Final

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from duly.configuration.engine import OUR_SCHEMAS
from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.db.rows import Row, Statement
from duly.doctor.connection import GRACE_SECONDS, Connection, act_as, disconnect_after, get_login, limit_transaction
from duly.doctor.finding import Finding, Note, Verdict, summarize
from duly.doctor.formatting import error_reason
from duly.errors import Unavailable
from duly.settings import Settings
from duly.verify.access import quote_identifier
from duly.verify.backend import is_migrated, is_owned_by_backend


@dataclass(frozen=True)
class Limits:
    """The thresholds of all verdicts."""

    query_seconds: float = 3
    oldest_major: int = 15
    newest_major: int = 18
    connections_share: float = 0.8
    jit_above_cost: float = 100_000
    skew_warn_seconds: float = 1
    skew_bad_seconds: float = 30
    listen_seconds: float = 2
    transaction_warn_seconds: float = 300
    transaction_bad_seconds: float = 3600
    idle_warn_seconds: float = 60
    lock_warn_seconds: float = 5
    lock_bad_seconds: float = 60
    snapshot_warn_age: int = 10_000_000
    snapshot_bad_age: int = 200_000_000
    dead_rows: int = 10_000
    dead_share: float = 0.2
    large_rows: int = 100_000
    database_warn_age: int = 1_000_000_000
    database_bad_age: int = 1_800_000_000
    worker_seconds: float = 60
    worker_forgotten_seconds: float = 86_400
    months_warn: int = 2
    months_bad: int = 1


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class CheckContext:
    """What is checked: the database as the components connect to it, and their settings."""

    connection: Connection
    settings: Settings
    limits: Limits = DEFAULT_LIMITS

    @property
    def is_embedded(self) -> bool:
        """Whether it is the embedded server, where this login is a superuser and each component logs in as its role."""
        return self.settings.database_url is None

    @property
    def schemas(self) -> list[str]:
        """The schemas of duly's tables."""
        return [*OUR_SCHEMAS, self.settings.db_schema]

    @property
    def components(self) -> list[str]:
        """The roles of the running components."""
        return [self.settings.worker_role, self.settings.api_role, self.settings.readonly_role]

    @property
    def is_owned_by_backend(self) -> bool:
        """Whether a backend owns the ingest tables."""
        with self.short_transaction() as connection:
            return is_owned_by_backend(connection, self.settings.db_schema)

    @property
    def is_backend_only(self) -> bool:
        """Whether a backend owns the ingest tables while duly's own tables do not exist."""
        with self.short_transaction() as connection:
            return is_owned_by_backend(connection, self.settings.db_schema) and not is_migrated(connection)

    @property
    def login(self) -> str:
        """The session user on the server."""
        with self.short_transaction() as connection:
            return get_login(connection)

    @property
    def address(self) -> str:
        """The connection string of this connection, for another one."""
        return make_conninfo(self.connection.info.dsn, password=self.connection.info.password or None)

    @contextmanager
    def short_transaction(self) -> Generator[Connection, None, None]:
        """Open a transaction with a timeout, which holds no locks that others wait for."""
        seconds = self.limits.query_seconds
        with disconnect_after(self.connection, seconds + GRACE_SECONDS), self.connection.transaction():
            limit_transaction(self.connection, seconds)
            yield self.connection

    def query(self, statement: Statement, role: str | None = None, **parameters: object) -> Sequence[Row]:
        """Return all rows of a query, executed with a role if the login may act as it."""
        with self.short_transaction() as connection, connection.cursor(row_factory=dict_row) as cursor:
            if role:
                act_as(connection, role)
            return cursor.execute(statement, parameters).fetchall()

    def query_one(self, statement: Statement) -> Row:
        """Return the only row of a query."""
        (row,) = self.query(statement)
        return row


CheckFunction = Callable[[CheckContext], Sequence[Note]]
Check = Callable[[CheckContext], Finding]


def make_check(name: str, function: CheckFunction) -> Check:
    """Wrap a function as a check: its notes, or the error that stopped it, become one finding."""

    @wraps(function)
    def check(context: CheckContext) -> Finding:
        try:
            return summarize(name, function(context))
        except (psycopg.Error, Unavailable, TimeoutError) as error:
            found = f"could not be checked: {error_reason(error)}"
            return Finding(name, Verdict.WARN, found, suggest_fix(context, error))

    return check


def suggest_fix(context: CheckContext, error: Exception) -> str:
    """Return the fix for a check that failed."""
    if isinstance(error, errors.InsufficientPrivilege):
        return f"grant {quote_identifier(context.settings.readonly_role)} to {quote_identifier(context.login)}"
    if isinstance(error, MISSING_OBJECT_ERRORS):
        return "duly migrate"
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return "see the blocking session under transactions and locks, then run duly doctor again"
    return "run duly doctor again, and report it with this line if it persists"
