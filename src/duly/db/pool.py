"""Connections: a pool that notices a dead server soon, comes back with jitter, and knows a pooler when it meets one.

Every transaction opened here is READ COMMITTED, stated explicitly: uniqueness decides races, never isolation levels.
Where one login serves several components, a transaction opens with `SET LOCAL ROLE`, which is the form that a pooler in
transaction mode cannot leak to somebody else. Of several hosts we want the one that takes writes; a connection on which
nothing may be written is let go of, so that the next one looks for it anew.
"""

import asyncio
import os
import select
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import orjson
import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel, OperationalError, errors, sql
from psycopg import Error as PsycopgError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from duly.errors import Misconfigured, NotMigrated, Unavailable

__all__ = [
    "KEEPALIVE",
    "READ_ONLY",
    "SET_ROLE",
    "PlainConnections",
    "Pool",
    "connect",
    "is_behind_pooler",
    "open_pool",
    "reads_committed",
    "take_role",
    "with_keepalive",
]

KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "connect_timeout": 5,
}
WAIT_SECONDS = 10.0
RECONNECT_SECONDS = 8.0  # then the pool tries again on demand; delays between tries double, with jitter
IDLE_SECONDS = 300.0
READ_ONLY = "the server takes no writes now: it is a standby, or default_transaction_read_only is on"
PLAIN_WAIT_SECONDS = 30.0  # a thread waits so long for a connection
CHECK_SECONDS = 1.0  # a connection that lived so lately is not asked again whether it does


class PlainConnections:
    """Connections for plain functions in threads: so many, opened when they are needed; the next one waits."""

    def __init__(self, dsn: str, role: str | None, size: int, setting: str) -> None:
        self.dsn = dsn
        self.role = role
        self.size = size
        self.setting = setting
        self.room = threading.BoundedSemaphore(size)
        self.idle: deque[Connection[Any]] = deque()
        self.is_closed = False

    @contextmanager
    def transaction(self) -> Generator[Connection[Any], None, None]:
        """A transaction as the component's role; Unavailable when there is no room for it in time."""
        if not self.room.acquire(timeout=PLAIN_WAIT_SECONDS):
            raise Unavailable(
                f"no connection for ctx.transaction() within {PLAIN_WAIT_SECONDS:.0f} s: all {self.size} that "
                f"{self.setting} leaves to plain functions are in use; raise it, or keep transactions short"
            )
        try:
            connection = self.find_idle() or self.open()
            try:
                with connection.transaction():
                    if self.role:
                        connection.execute(SET_ROLE.format(sql.Identifier(self.role)))
                    yield connection
            except errors.ReadOnlySqlTransaction:
                connection.close()
                raise Unavailable(READ_ONLY) from None
            finally:
                self.keep(connection)
        finally:
            self.room.release()

    def keep(self, connection: Connection[Any]) -> None:
        """Keep a connection for the next transaction."""
        if self.is_closed:
            connection.close()
        else:
            self.idle.append(connection)

    def find_idle(self) -> Connection[Any] | None:
        """A connection that lives; the others are closed."""
        while True:
            try:
                connection = self.idle.pop()
            except IndexError:
                return None
            try:
                connection.execute("")
                connection.rollback()
            except PsycopgError:
                connection.close()
            else:
                return connection

    def open(self) -> Connection[Any]:
        """A new connection."""
        connection = psycopg.connect(self.dsn)
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        connection.prepare_threshold = None
        return connection

    def close(self) -> None:
        """Close every connection; those in use, when their transaction ends."""
        self.is_closed = True
        while self.idle:
            self.idle.pop().close()


@dataclass(frozen=True)
class Pool:
    """Connections to one database, for one component."""

    connections: AsyncConnectionPool[AsyncConnection[Any]]
    role: str | None
    dsn: str
    plain: PlainConnections
    setting: str  # what says how many there may be
    advice: str | None = None  # what helps a login that may not act as the role; None is to grant it
    reads_committed: asyncio.Event = field(default_factory=asyncio.Event)  # is that what the server does unasked?

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """One short transaction as the component's role; Unavailable when no connection can be had."""
        async with AsyncExitStack() as stack:
            yield await self.begin(stack)

    async def begin(self, stack: AsyncExitStack) -> AsyncConnection[Any]:
        """Begin a transaction on a connection that lives; the stack ends it.

        No check before can prove that a connection still lives when it is used. One on which the transaction cannot
        even begin was cut: nothing was done on it, so the next one is tried, until all that were idle are replaced.
        """
        for tries_left in range(self.connections.max_size, -1, -1):
            connection: AsyncConnection[Any] | None = None
            try:
                async with AsyncExitStack() as attempt:
                    connection = await attempt.enter_async_context(self.connections.connection())
                    await attempt.enter_async_context(left_when_read_only(connection))
                    await attempt.enter_async_context(connection.transaction())
                    await take_role(connection, self.role, self.advice)
                    await stack.enter_async_context(attempt.pop_all())
                    return connection
            except PoolTimeout:
                break
            except OperationalError:
                if not (connection and connection.closed and tries_left):
                    raise
        raise Unavailable(self.why_none())

    def why_none(self) -> str:
        """Why no connection could be had in time: all are in use, or the server gives none."""
        stats = self.connections.get_stats()
        none = f"no connection to the database within {WAIT_SECONDS:.0f} s"
        if stats.get("pool_size", 0) < self.connections.max_size or stats.get("pool_available", 0):
            return none
        return f"{none}: all {self.connections.max_size} that {self.setting} leaves here are in use; raise it"

    @asynccontextmanager
    async def statement(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """A connection for one statement, which is a transaction by itself: nobody is asked to begin and to end one.

        Where a role must be taken first, or a lone statement would not be READ COMMITTED, it is a whole transaction.
        """
        if self.role or not self.reads_committed.is_set():
            async with self.transaction() as connection:
                yield connection
            return
        try:
            async with self.connections.connection() as connection, left_when_read_only(connection):
                await connection.set_autocommit(True)
                try:
                    yield connection
                finally:
                    await back_to_transactions(connection)
        except PoolTimeout:
            raise Unavailable(self.why_none()) from None

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    size: int = 10,
    idle: int = 2,
    role: str | None = None,
    advice: str | None = None,
    name: str = "duly",
    check: bool = True,
    plain_size: int | None = None,
    setting: str | None = None,
    on_connect: Callable[[], None] | None = None,
) -> AsyncGenerator[Pool, None]:
    """A pool of at most `size` connections, of which `idle` stay open; it opens at once, connecting in the background.

    Plain functions get `plain_size` besides; `setting` is what errors name as the way to have more of either.
    `check` asks each connection, before it is lent, whether it lives; who repeats a failed transaction can go without.
    `on_connect` is called whenever a connection was made.
    """
    reads_committed = asyncio.Event()

    async def configure(connection: AsyncConnection[Any]) -> None:
        if await prepare_connection(connection):
            reads_committed.set()
        if on_connect:
            on_connect()

    connections = AsyncConnectionPool(
        with_keepalive(dsn, name),
        connection_class=AsyncConnection[Any],
        min_size=min(idle, size),
        max_size=size,
        configure=configure,
        check=check_now_and_then() if check else None,
        timeout=WAIT_SECONDS,
        max_idle=IDLE_SECONDS,
        reconnect_timeout=RECONNECT_SECONDS,
        open=False,
    )
    words = setting or f"DULY_POOL_SIZE={size}"
    plain = PlainConnections(with_keepalive(dsn, name), role, plain_size or size, words)
    await connections.open(wait=False)
    try:
        yield Pool(connections, role, dsn, plain, words, advice, reads_committed)
    finally:
        plain.close()
        await connections.close()


async def connect(dsn: str, *, name: str = "duly") -> AsyncConnection[Any]:
    """One connection of its own, in autocommit: for LISTEN, the keeper and migrations."""
    try:
        connection = await AsyncConnection.connect(with_keepalive(dsn, name), autocommit=True)
    except OperationalError as error:
        raise Unavailable(str(error)) from None
    try:
        await prepare_connection(connection)
    except BaseException:  # a cancel too: nobody else knows of this connection
        await connection.close()
        raise
    return connection


SET_ROLE = sql.SQL("set local role {}")
WHO_ARE_YOU = "select pg_backend_pid(), current_setting('default_transaction_isolation')"


async def take_role(connection: AsyncConnection[Any], role: str | None, advice: str | None = None) -> None:
    """Act as a role for the rest of this transaction; without one, stay who we are."""
    if not role:
        return
    try:
        await connection.execute(SET_ROLE.format(sql.Identifier(role)))
    except errors.InvalidParameterValue:
        raise NotMigrated(f"the role {role} is not there yet; make it, and the tables, with: duly migrate") from None
    except errors.InsufficientPrivilege:
        login = connection.info.user
        fix = advice or f"; run: grant {role} to {login}"
        raise Misconfigured(f"{login} may not act as {role}{fix}") from None


def with_keepalive(dsn: str, name: str = "duly") -> str:
    """The address with our name and our patience in it, for every connection we make; what the user wrote there stays.

    Several hosts are asked for the one that takes writes: the first that answers may be a standby.
    """
    given = conninfo_to_dict(dsn)
    ours: dict[str, Any] = {"application_name": name} | KEEPALIVE
    if has_several_hosts(given) and "PGTARGETSESSIONATTRS" not in os.environ:
        ours["target_session_attrs"] = "read-write"
    return make_conninfo(dsn, **(ours | given))


def has_several_hosts(given: Mapping[str, Any]) -> bool:
    """Are there hosts to choose from, in the address or, where it names none, in libpq's variables?"""
    hosts = given.get("host") or os.environ.get("PGHOST", "")
    addresses = given.get("hostaddr") or os.environ.get("PGHOSTADDR", "")
    return "," in f"{hosts}{addresses}"


@asynccontextmanager
async def left_when_read_only(connection: AsyncConnection[Any]) -> AsyncGenerator[None, None]:
    """Close a connection on which nothing may be written: it is well, and of no use, and would be lent for ever."""
    try:
        yield
    except errors.ReadOnlySqlTransaction:
        await connection.close()
        raise Unavailable(READ_ONLY) from None


def check_now_and_then() -> Callable[[AsyncConnection[Any]], Awaitable[None]]:
    """Ask a connection that is lent whether it lives, unless it said so a moment ago and has been quiet since.

    Asking takes a round trip; a server that goes says so, and who is idle hears nothing else.
    """
    lived_at: WeakKeyDictionary[AsyncConnection[Any], float] = WeakKeyDictionary()

    async def check(connection: AsyncConnection[Any]) -> None:
        now = time.monotonic()
        if now - lived_at.get(connection, 0.0) >= CHECK_SECONDS or connection.closed or has_news(connection):
            await AsyncConnectionPool.check_connection(connection)
            lived_at[connection] = now

    return check


def has_news(connection: AsyncConnection[Any]) -> bool:
    """Did the server say anything on a connection where nobody asked?"""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def back_to_transactions(connection: AsyncConnection[Any]) -> None:
    """The connection as it was lent; one that cannot be is of no use to anybody."""
    try:
        await connection.set_autocommit(False)
    except PsycopgError:
        await connection.close()


async def prepare_connection(connection: AsyncConnection[Any]) -> bool:
    """State the isolation level, read JSON quickly, and prepare no statements where a pooler would mix them up.

    Returns whether a statement without a transaction is READ COMMITTED too. A pooler is known by the process number
    that it gives to the client, which is its own invention and not the server's.
    """
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    set_json_loads(orjson.loads, connection)
    pid, isolation = await ask_server(connection)
    if pid != connection.info.backend_pid:
        connection.prepare_threshold = None
    return isolation == "read committed"


async def is_behind_pooler(connection: AsyncConnection[Any]) -> bool:
    """Is this a pooler?"""
    pid, _ = await ask_server(connection)
    return pid != connection.info.backend_pid


async def reads_committed(connection: AsyncConnection[Any]) -> bool:
    """Is a statement without a transaction READ COMMITTED here?"""
    _, isolation = await ask_server(connection)
    return isolation == "read committed"


async def ask_server(connection: AsyncConnection[Any]) -> tuple[int, str]:
    """The server's process number, and the isolation level that it has unasked."""
    autocommit = connection.autocommit
    await connection.set_autocommit(True)
    cursor = await connection.execute(WHO_ARE_YOU, prepare=False)
    answer = await cursor.fetchone()
    await connection.set_autocommit(autocommit)
    assert answer, "a server always says who it is"
    return answer[0], answer[1]
