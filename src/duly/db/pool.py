"""Connection pool: detects a dead server early, reconnects with jitter, and recognises a pooler.

Every transaction opened here is explicitly READ COMMITTED: unique constraints decide races, never isolation levels.
Where one login serves several components, a transaction begins with `SET LOCAL ROLE`, which a pooler in transaction
mode cannot leak to another client. Of several hosts the pool uses the one that accepts writes; a read-only connection
is closed, so that its replacement searches for that host again.
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

KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "connect_timeout": 5,
}
WAIT_SECONDS = 10.0
RECONNECT_SECONDS = 8.0  # then the pool reconnects on demand; delays between attempts double, with jitter
IDLE_SECONDS = 300.0
NO_CONNECTION = "no connection to the database within"  # the beginning of an error that gives no cause
READ_ONLY = "the server accepts no writes: it is a standby, or default_transaction_read_only is on"
SYNC_WAIT_SECONDS = 30.0  # how long a thread waits for a connection
CHECK_SECONDS = 1.0  # a connection that was checked this recently is not checked again


class SyncConnections:
    """A bounded set of connections for sync handlers in threads, opened on demand; further callers wait."""

    def __init__(self, dsn: str, role: str | None, size: int, setting: str) -> None:
        self.dsn = dsn
        self.role = role
        self.size = size
        self.setting = setting
        self.slots = threading.BoundedSemaphore(size)
        self.idle: deque[Connection[Any]] = deque()
        self.is_closed = False

    @contextmanager
    def transaction(self) -> Generator[Connection[Any], None, None]:
        """Open a transaction as the component's role; Unavailable when no connection is free in time."""
        if not self.slots.acquire(timeout=SYNC_WAIT_SECONDS):
            raise Unavailable(
                f"no connection for ctx.transaction() within {SYNC_WAIT_SECONDS:.0f} s: all {self.size} that "
                f"{self.setting} leaves to sync handlers are in use; raise it, or keep transactions short"
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
                self.put_back(connection)
        finally:
            self.slots.release()

    def put_back(self, connection: Connection[Any]) -> None:
        """Put a connection back for the next transaction."""
        if self.is_closed:
            connection.close()
        else:
            self.idle.append(connection)

    def find_idle(self) -> Connection[Any] | None:
        """Return an idle connection that works; close those that do not."""
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
        """Open a new connection."""
        connection = psycopg.connect(self.dsn)
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        connection.prepare_threshold = None
        return connection

    def close(self) -> None:
        """Close all connections; those in use when their transaction ends."""
        self.is_closed = True
        while self.idle:
            self.idle.pop().close()


@dataclass(frozen=True)
class Pool:
    """The connections of one component to one database."""

    connections: AsyncConnectionPool[AsyncConnection[Any]]
    role: str | None
    dsn: str
    sync_connections: SyncConnections
    setting: str  # which setting limits the number of connections
    advice: str | None = None  # how to fix a login that may not set the role; None is to grant it
    reads_committed: asyncio.Event = field(default_factory=asyncio.Event)  # set when that is the server's default

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """Open a short transaction as the component's role; Unavailable when no connection is free in time."""
        async with AsyncExitStack() as stack:
            yield await self.begin(stack)

    async def begin(self, stack: AsyncExitStack) -> AsyncConnection[Any]:
        """Begin a transaction on a working connection; the stack ends it.

        No earlier check can prove that a connection still works when it is used. One on which the transaction cannot
        even begin was cut: nothing was done on it, so the next is tried, until all that were idle are replaced.
        """
        for tries_left in range(self.connections.max_size, -1, -1):
            connection: AsyncConnection[Any] | None = None
            try:
                async with AsyncExitStack() as attempt:
                    connection = await attempt.enter_async_context(self.connections.connection())
                    await attempt.enter_async_context(close_when_read_only(connection))
                    await attempt.enter_async_context(connection.transaction())
                    await set_role(connection, self.role, self.advice)
                    await stack.enter_async_context(attempt.pop_all())
                    return connection
            except PoolTimeout:
                break
            except OperationalError:
                if not (connection and connection.closed and tries_left):
                    raise
        raise Unavailable(self.describe_timeout())

    def describe_timeout(self) -> str:
        """Describe why no connection was free in time: all are in use, or the server accepts none."""
        stats = self.connections.get_stats()
        message = f"{NO_CONNECTION} {WAIT_SECONDS:.0f} s"
        if stats.get("pool_size", 0) < self.connections.max_size or stats.get("pool_available", 0):
            return message
        return f"{message}: all {self.connections.max_size} that {self.setting} leaves here are in use; raise it"

    @asynccontextmanager
    async def statement(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """Open a connection in autocommit for one statement, which saves the round trips of begin and commit.

        Where a role must be set first, or a lone statement would not be READ COMMITTED, it opens a transaction.
        """
        if self.role or not self.reads_committed.is_set():
            async with self.transaction() as connection:
                yield connection
            return
        try:
            async with self.connections.connection() as connection, close_when_read_only(connection):
                await connection.set_autocommit(True)
                try:
                    yield connection
                finally:
                    await restore_transactions(connection)
        except PoolTimeout:
            raise Unavailable(self.describe_timeout()) from None

    async def close(self) -> None:
        """Close all connections."""
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
    sync_size: int | None = None,
    setting: str | None = None,
    on_connect: Callable[[], None] | None = None,
) -> AsyncGenerator[Pool, None]:
    """Open a pool of at most `size` connections, of which `idle` stay open; it connects in the background.

    Sync handlers get `sync_size` more; `setting` is what errors name as the way to raise either. `check` tests each
    connection before use; a caller that retries failed transactions can do without. `on_connect` is called for each
    new connection.
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
        check=build_idle_check() if check else None,
        timeout=WAIT_SECONDS,
        max_idle=IDLE_SECONDS,
        reconnect_timeout=RECONNECT_SECONDS,
        open=False,
    )
    setting = setting or f"DULY_POOL_SIZE={size}"
    sync_connections = SyncConnections(with_keepalive(dsn, name), role, sync_size or size, setting)
    await connections.open(wait=False)
    try:
        yield Pool(connections, role, dsn, sync_connections, setting, advice, reads_committed)
    finally:
        sync_connections.close()
        await connections.close()


async def connect(dsn: str, *, name: str = "duly") -> AsyncConnection[Any]:
    """Open a connection outside of the pool, in autocommit: for LISTEN, the heartbeat and migrations."""
    try:
        connection = await AsyncConnection.connect(with_keepalive(dsn, name), autocommit=True)
    except OperationalError as error:
        raise Unavailable(str(error)) from None
    try:
        await prepare_connection(connection)
    except BaseException:  # a cancellation too: nothing else would close this connection
        await connection.close()
        raise
    return connection


SET_ROLE = sql.SQL("set local role {}")
SERVER_INFO = "select pg_backend_pid(), current_setting('default_transaction_isolation')"


async def set_role(connection: AsyncConnection[Any], role: str | None, advice: str | None = None) -> None:
    """Set a role for the rest of this transaction; None keeps the login."""
    if not role:
        return
    try:
        await connection.execute(SET_ROLE.format(sql.Identifier(role)))
    except errors.InvalidParameterValue:
        raise NotMigrated(f"the role {role} does not exist; create it, and the tables, with: duly migrate") from None
    except errors.InsufficientPrivilege:
        login = connection.info.user
        fix = advice or f"; run: grant {role} to {login}"
        raise Misconfigured(f"{login} may not act as {role}{fix}") from None


def with_keepalive(dsn: str, name: str = "duly") -> str:
    """Add application name and keepalive parameters to an address; parameters that the user set stay.

    Of several hosts the one that accepts writes is used: the first that answers may be a standby.
    """
    given = conninfo_to_dict(dsn)
    defaults: dict[str, Any] = {"application_name": name} | KEEPALIVE
    if has_several_hosts(given) and "PGTARGETSESSIONATTRS" not in os.environ:
        defaults["target_session_attrs"] = "read-write"
    return make_conninfo(dsn, **(defaults | given))


def has_several_hosts(given: Mapping[str, Any]) -> bool:
    """Return whether the address, or where it names none libpq's variables, list several hosts."""
    hosts = given.get("host") or os.environ.get("PGHOST", "")
    addresses = given.get("hostaddr") or os.environ.get("PGHOSTADDR", "")
    return "," in f"{hosts}{addresses}"


@asynccontextmanager
async def close_when_read_only(connection: AsyncConnection[Any]) -> AsyncGenerator[None, None]:
    """Close a connection on which nothing may be written: it passes every check, and would be used again and again."""
    try:
        yield
    except errors.ReadOnlySqlTransaction:
        await connection.close()
        raise Unavailable(READ_ONLY) from None


def build_idle_check() -> Callable[[AsyncConnection[Any]], Awaitable[None]]:
    """Build a check of connections before use, which skips those checked a moment ago without input since.

    A check takes a round trip. A server that shuts down sends a message, and an idle connection receives nothing else.
    """
    checked_at: WeakKeyDictionary[AsyncConnection[Any], float] = WeakKeyDictionary()

    async def check(connection: AsyncConnection[Any]) -> None:
        now = time.monotonic()
        if now - checked_at.get(connection, 0.0) >= CHECK_SECONDS or connection.closed or has_pending_input(connection):
            await AsyncConnectionPool.check_connection(connection)
            checked_at[connection] = now

    return check


def has_pending_input(connection: AsyncConnection[Any]) -> bool:
    """Return whether an idle connection has input from the server."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def restore_transactions(connection: AsyncConnection[Any]) -> None:
    """Turn autocommit off again; close the connection when that fails."""
    try:
        await connection.set_autocommit(False)
    except PsycopgError:
        await connection.close()


async def prepare_connection(connection: AsyncConnection[Any]) -> bool:
    """Set the isolation level and the JSON parser, and disable prepared statements behind a pooler.

    Returns whether a statement without a transaction is READ COMMITTED too. A pooler is recognised by the backend pid
    in its handshake, which differs from the server's.
    """
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    set_json_loads(orjson.loads, connection)
    pid, isolation = await fetch_server_info(connection)
    if pid != connection.info.backend_pid:
        connection.prepare_threshold = None
    return isolation == "read committed"


async def is_behind_pooler(connection: AsyncConnection[Any]) -> bool:
    """Return whether the connection goes through a pooler."""
    pid, _ = await fetch_server_info(connection)
    return pid != connection.info.backend_pid


async def reads_committed(connection: AsyncConnection[Any]) -> bool:
    """Return whether a statement without a transaction is READ COMMITTED."""
    _, isolation = await fetch_server_info(connection)
    return isolation == "read committed"


async def fetch_server_info(connection: AsyncConnection[Any]) -> tuple[int, str]:
    """Fetch the server's backend pid and its default isolation level."""
    autocommit = connection.autocommit
    await connection.set_autocommit(True)
    cursor = await connection.execute(SERVER_INFO, prepare=False)
    row = await cursor.fetchone()
    await connection.set_autocommit(autocommit)
    assert row, "the query always returns a row"
    return row[0], row[1]
