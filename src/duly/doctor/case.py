"""A case: the database and the settings that are looked at, how they are asked, and how a look becomes a check."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Final

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from duly.db.rows import Row, Statement
from duly.doctor.connection import GRACE_SECONDS, Connection, act_as, cut_after, get_login, limit_transaction
from duly.doctor.finding import Finding, Note, Verdict, conclude
from duly.doctor.words import quoted, reason_of
from duly.errors import Unavailable
from duly.settings import OUR_SCHEMAS, Settings
from duly.verify.backend import is_backends, is_migrated

__all__ = ["STANDARD", "Case", "Check", "Limits", "Look", "named"]


@dataclass(frozen=True)
class Limits:
    """Where well ends: every figure a verdict rests on."""

    question_seconds: float = 3
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


STANDARD: Final = Limits()


@dataclass(frozen=True)
class Case:
    """What is looked at: the database as the components reach it, and the settings they were given."""

    connection: Connection
    settings: Settings
    limits: Limits = STANDARD

    @property
    def is_embedded(self) -> bool:
        """On the embedded server we are its administrator, and components log in as their roles by themselves."""
        return self.settings.database_url is None

    @property
    def schemas(self) -> list[str]:
        """Where our tables are."""
        return [*OUR_SCHEMAS, self.settings.db_schema]

    @property
    def components(self) -> list[str]:
        """The roles that the running parts take."""
        return [self.settings.worker_role, self.settings.api_role, self.settings.readonly_role]

    @property
    def is_backends(self) -> bool:
        """Are the ingest tables a backend's?"""
        with self.quietly() as connection:
            return is_backends(connection, self.settings.db_schema)

    @property
    def is_only_backends(self) -> bool:
        """Is that all there is: a backend's tables, on which a worker works, and nothing of duly's beside them?"""
        with self.quietly() as connection:
            return is_backends(connection, self.settings.db_schema) and not is_migrated(connection)

    @property
    def login(self) -> str:
        """Who we are to the server."""
        with self.quietly() as connection:
            return get_login(connection)

    @property
    def address(self) -> str:
        """The way this connection came, for another one."""
        return make_conninfo(self.connection.info.dsn, password=self.connection.info.password or None)

    @contextmanager
    def quietly(self) -> Generator[Connection, None, None]:
        """A short transaction that nobody waits for, and that does not wait for ever."""
        seconds = self.limits.question_seconds
        with cut_after(self.connection, seconds + GRACE_SECONDS), self.connection.transaction():
            limit_transaction(self.connection, seconds)
            yield self.connection

    def ask(self, statement: Statement, role: str | None = None, **parameters: object) -> Sequence[Row]:
        """Every row of the answer; asked as a role when the login may take it."""
        with self.quietly() as connection, connection.cursor(row_factory=dict_row) as cursor:
            if role:
                act_as(connection, role)
            return cursor.execute(statement, parameters).fetchall()

    def get(self, statement: Statement) -> Row:
        """The one row there must be."""
        (row,) = self.ask(statement)
        return row


Look = Callable[[Case], Sequence[Note]]
Check = Callable[[Case], Finding]


def named(name: str, look: Look) -> Check:
    """Make a check of a look: what it noticed becomes one finding, and what stopped it too."""

    @wraps(look)
    def check(case: Case) -> Finding:
        try:
            return conclude(name, look(case))
        except (psycopg.Error, Unavailable, TimeoutError) as error:
            found = f"could not be checked: {reason_of(error)}"
            return Finding(name, Verdict.WARN, found, remedy(case, error))

    return check


def remedy(case: Case, error: Exception) -> str:
    """What lets a check be made that could not be."""
    if isinstance(error, errors.InsufficientPrivilege):
        return f"grant {quoted(case.settings.readonly_role)} to {quoted(case.login)}"
    if isinstance(error, errors.UndefinedTable | errors.UndefinedFunction | errors.InvalidSchemaName):
        return "duly migrate"
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return "see who is in the way under transactions and locks, then run duly doctor again"
    return "run duly doctor again, and report it with this line if it stays"
