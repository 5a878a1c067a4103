"""Run a statement on the caller's own connection, cursor or session, whichever driver that is.

| given | rows by |
|---|---|
| psycopg 3, sync and async: connection, cursor | a cursor of its own |
| psycopg2: connection, cursor | a cursor of its own |
| asyncpg: connection, connection of a pool | `fetch` |
| SQLAlchemy over these, sync and async: connection, session, scoped session | `exec_driver_sql` |
| Django: `connection`, `connections[...]` | Django's cursor, which reports to `CaptureQueriesContext` |

A driver is found by the class of what was given, by name: a caller that passes one has imported its library already,
and we import none of them. All parameters are sent as text, which every driver sends alike.
"""

import re
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import psycopg
from psycopg.rows import tuple_row

from duly.db.error_table import translate_errors
from duly.errors import InvalidArgument

if TYPE_CHECKING:  # in typing itself from Python 3.13 on
    from typing_extensions import TypeIs

Rows: TypeAlias = Sequence[Sequence[Any]]
SUPPORTED = (
    "needs a transaction of psycopg 3, psycopg2, asyncpg, SQLAlchemy over one of these (a connection or a session), or "
    "Django's connection"
)
BY_SQL = "with another driver, call the SQL function: select id, outcome from ledger.enqueue(org => ..., type => ...)"
PLACEHOLDER = re.compile(r"%\((\w+)\)s")


# Types ----------------------------------------------------------------------------------------------------------------
# Structural, so that a type checker needs only the libraries that the caller has.


class SyncAlchemy(Protocol):
    """An SQLAlchemy connection."""

    def exec_driver_sql(self, statement: str, /) -> "FetchesAll": ...


class FetchesAll(Protocol):
    """A result of a sync library."""

    def fetchall(self) -> Any: ...


class SyncSession(Protocol):
    """An SQLAlchemy session, also a scoped one."""

    def connection(self) -> SyncAlchemy: ...
    def get_bind(self) -> Any: ...  # an async connection has a `connection` too, of any type


class Psycopg2Connection(Protocol):
    """A connection of psycopg2."""

    def get_backend_pid(self) -> int: ...


class Psycopg2Cursor(Protocol):
    """A cursor of psycopg2."""

    def mogrify(self, query: str, /) -> bytes: ...


class DjangoConnection(Protocol):
    """One of Django's connections."""

    def validate_no_atomic_block(self) -> Any: ...


class DjangoProxy(Protocol):
    """`django.db.connection`."""

    def __contains__(self, key: Any, /) -> Any: ...
    def __getattr__(self, item: str, /) -> Any: ...


class AsyncAlchemy(Protocol):
    """An async connection of SQLAlchemy."""

    def exec_driver_sql(self, statement: str, /) -> Coroutine[Any, Any, Any]: ...


class AsyncAlchemySession(Protocol):
    """An async session of SQLAlchemy, also a scoped one."""

    def connection(self) -> Coroutine[Any, Any, AsyncAlchemy]: ...


class AsyncpgConnection(Protocol):
    """A connection of asyncpg."""

    def get_server_pid(self) -> Any: ...


class AsyncpgPoolConnection(Protocol):
    """A connection of a pool of asyncpg."""

    def _detach(self) -> Any: ...


SyncTransaction: TypeAlias = (
    psycopg.Connection[Any]
    | psycopg.Cursor[Any]
    | SyncAlchemy
    | SyncSession
    | Psycopg2Connection
    | Psycopg2Cursor
    | DjangoConnection
    | DjangoProxy
)
AsyncTransaction: TypeAlias = (
    psycopg.AsyncConnection[Any]
    | psycopg.AsyncCursor[Any]
    | AsyncAlchemy
    | AsyncAlchemySession
    | AsyncpgConnection
    | AsyncpgPoolConnection
)
AnyTransaction: TypeAlias = SyncTransaction | AsyncTransaction


# Statements -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """One statement in the forms that drivers take; its parameters are text, in the order of their names."""

    names: tuple[str, ...]
    text: str  # with %s
    encoded: bytes  # the same; psycopg 3 prepares what it is given often
    numbered: str  # with $1

    @classmethod
    def from_text(cls, text: str) -> "DriverStatement":
        """Read a statement with placeholders `%(name)s`."""
        names = tuple(PLACEHOLDER.findall(text))
        plain = PLACEHOLDER.sub("%s", text)
        numbers = iter(range(1, len(names) + 1))
        numbered = PLACEHOLDER.sub(lambda _: f"${next(numbers)}", text).replace("%%", "%")
        return cls(names, plain, plain.encode(), numbered)

    def arrange(self, parameters: Mapping[str, str | None]) -> tuple[str | None, ...]:
        """Put parameters in order."""
        return tuple([parameters[name] for name in self.names])


# Sync -----------------------------------------------------------------------------------------------------------------

Parameters: TypeAlias = tuple[str | None, ...]


def fetch_psycopg(connection: psycopg.Connection[Any], statement: DriverStatement, parameters: Parameters) -> Rows:
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(statement.encoded, parameters).fetchall()


def fetch_psycopg2(connection: Any, statement: DriverStatement, parameters: Parameters) -> Rows:
    with connection.cursor(cursor_factory=sys.modules["psycopg2.extensions"].cursor) as cursor:
        cursor.execute(statement.text, parameters)
        return cursor.fetchall()


def fetch_django(connection: Any, statement: DriverStatement, parameters: Parameters) -> Rows:
    if connection.vendor != "postgresql":
        raise InvalidArgument(f"enqueue {SUPPORTED} to PostgreSQL; this is Django's connection to {connection.vendor}")
    with connection.cursor() as cursor:
        cursor.execute(statement.text, parameters)
        return cursor.fetchall()


def fetch_alchemy(connection: Any, statement: DriverStatement, parameters: Parameters) -> Rows:
    return connection.exec_driver_sql(alchemy_text(connection, statement), parameters).fetchall()


def alchemy_text(connection: Any, statement: DriverStatement) -> str:
    """Return the statement as the driver below SQLAlchemy takes it; InvalidArgument for one that we do not know."""
    match connection.dialect.driver:
        case "psycopg" | "psycopg_async" | "psycopg2":
            return statement.text
        case "asyncpg":
            return statement.numbered
        case other:
            raise InvalidArgument(
                f"enqueue {SUPPORTED}; this is SQLAlchemy over {other}: use an address with postgresql+psycopg://, "
                f"postgresql+asyncpg:// or postgresql+psycopg2://, or, {BY_SQL}"
            )


# Async ----------------------------------------------------------------------------------------------------------------


async def fetch_psycopg_async(
    connection: psycopg.AsyncConnection[Any], statement: DriverStatement, parameters: Parameters
) -> Rows:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(statement.encoded, parameters)
        return await cursor.fetchall()


async def fetch_asyncpg(connection: Any, statement: DriverStatement, parameters: Parameters) -> Rows:
    return await connection.fetch(statement.numbered, *parameters)


async def fetch_alchemy_async(connection: Any, statement: DriverStatement, parameters: Parameters) -> Rows:
    return (await connection.exec_driver_sql(alchemy_text(connection, statement), parameters)).fetchall()


async def fetch_session_async(session: Any, statement: DriverStatement, parameters: Parameters) -> Rows:
    return await fetch_alchemy_async(await session.connection(), statement, parameters)


# Finding one ----------------------------------------------------------------------------------------------------------


class Driver(NamedTuple):
    """How statements run on one kind of connection."""

    is_async: bool
    run: Callable[[Any, DriverStatement, Parameters], Any]
    find_connection: Callable[[Any], Any] | None = None  # for what is not a connection itself


FROM_CURSOR, FROM_SESSION = attrgetter("connection"), methodcaller("connection")
DRIVERS: Mapping[tuple[str, str], Driver] = {  # by package and class
    ("psycopg", "Connection"): Driver(False, fetch_psycopg),
    ("psycopg", "Cursor"): Driver(False, fetch_psycopg, FROM_CURSOR),
    ("psycopg", "AsyncConnection"): Driver(True, fetch_psycopg_async),
    ("psycopg", "AsyncCursor"): Driver(True, fetch_psycopg_async, FROM_CURSOR),
    ("psycopg2", "connection"): Driver(False, fetch_psycopg2),
    ("psycopg2", "cursor"): Driver(False, fetch_psycopg2, FROM_CURSOR),
    ("asyncpg", "Connection"): Driver(True, fetch_asyncpg),
    ("asyncpg", "PoolConnectionProxy"): Driver(True, fetch_asyncpg),
    ("sqlalchemy", "Connection"): Driver(False, fetch_alchemy),
    ("sqlalchemy", "Session"): Driver(False, fetch_alchemy, FROM_SESSION),
    ("sqlalchemy", "scoped_session"): Driver(False, fetch_alchemy, FROM_SESSION),
    ("sqlalchemy", "AsyncConnection"): Driver(True, fetch_alchemy_async),
    ("sqlalchemy", "AsyncSession"): Driver(True, fetch_session_async),
    ("sqlalchemy", "async_scoped_session"): Driver(True, fetch_session_async),
    ("django", "BaseDatabaseWrapper"): Driver(False, fetch_django),
    ("django", "ConnectionProxy"): Driver(False, fetch_django),
}


@lru_cache(maxsize=100)
def driver_for_class(given: type) -> Driver | None:
    """Find the driver of a class or of what it inherits from."""
    names = [(each.__module__.partition(".")[0], each.__name__) for each in given.__mro__]
    return next((DRIVERS[name] for name in names if name in DRIVERS), None)


def driver_for(transaction: object) -> Driver:
    """Find the driver of a connection, cursor or session; InvalidArgument says what to pass instead."""
    driver = driver_for_class(type(transaction))
    if driver is None:
        raise InvalidArgument(f"enqueue {SUPPORTED}; not {describe_unsupported(transaction)}")
    return driver


def is_async(transaction: AnyTransaction) -> "TypeIs[AsyncTransaction]":
    """Return whether calls on this connection are awaited."""
    return driver_for(transaction).is_async


def describe_unsupported(given: object) -> str:
    """Describe an unsupported value, and what to pass instead."""
    module = type(given).__module__
    name = type(given).__qualname__ if module == "builtins" else f"{module}.{type(given).__qualname__}"
    if given is None:
        return "None"
    if isinstance(given, str):
        return "a string; connect first, and pass the connection"
    if module.startswith("django."):
        return f"Django's {name}; pass django.db.connection"
    if name.endswith("Engine"):
        return f"an engine ({name}); pass the connection of `with engine.begin() as tx`"
    if name.endswith(("Pool", "sessionmaker")):
        return f"{name}; pass a connection or session of it"
    return f"{name}; {BY_SQL}"


# Running --------------------------------------------------------------------------------------------------------------


def fetch(transaction: SyncTransaction, statement: DriverStatement, parameters: Mapping[str, str | None]) -> Rows:
    """Run a statement on a sync connection; errors of the database are translated into ours."""
    _, run, find_connection = driver_for(transaction)
    with translate_errors():
        connection = find_connection(transaction) if find_connection else transaction
        return run(connection, statement, statement.arrange(parameters))


async def fetch_async(
    transaction: AsyncTransaction, statement: DriverStatement, parameters: Mapping[str, str | None]
) -> Rows:
    """Run a statement on an async connection; errors of the database are translated into ours."""
    _, run, find_connection = driver_for(transaction)
    with translate_errors():
        connection = find_connection(transaction) if find_connection else transaction
        return await run(connection, statement, statement.arrange(parameters))
