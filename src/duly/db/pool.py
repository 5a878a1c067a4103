"""Connections: a pool that notices a dead server soon, comes back with jitter, and knows a pooler when it meets one.

Every transaction opened here is READ COMMITTED, stated explicitly: uniqueness decides races, never isolation levels.
Where one login serves several components, a transaction opens with `SET LOCAL ROLE`, which is the form that a pooler in
transaction mode cannot leak to somebody else.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection, IsolationLevel, OperationalError, errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from duly.errors import Misconfigured, NotMigrated, Unavailable

__all__ = ["KEEPALIVE", "SET_ROLE", "Pool", "connect", "is_behind_pooler", "open_pool", "take_role", "with_keepalive"]

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


@dataclass(frozen=True)
class Pool:
    """Connections to one database, for one component."""

    connections: AsyncConnectionPool[AsyncConnection[Any]]
    role: str | None
    dsn: str

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any], None]:
        """One short transaction as the component's role; Unavailable when no connection can be had."""
        try:
            async with self.connections.connection() as connection, connection.transaction():
                await take_role(connection, self.role)
                yield connection
        except PoolTimeout:
            raise Unavailable(f"no connection to the database within {WAIT_SECONDS:.0f} s") from None

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()


@asynccontextmanager
async def open_pool(
    dsn: str, *, size: int = 10, idle: int = 2, role: str | None = None, name: str = "duly", check: bool = True
) -> AsyncGenerator[Pool, None]:
    """A pool of at most `size` connections, of which `idle` stay open; it opens at once, connecting in the background.

    `check` asks each connection, before it is lent, whether it lives; who repeats a failed transaction can go without.
    """
    connections = AsyncConnectionPool(
        with_keepalive(dsn, name),
        connection_class=AsyncConnection[Any],
        min_size=min(idle, size),
        max_size=size,
        configure=prepare_connection,
        check=AsyncConnectionPool.check_connection if check else None,
        timeout=WAIT_SECONDS,
        max_idle=IDLE_SECONDS,
        reconnect_timeout=RECONNECT_SECONDS,
        open=False,
    )
    await connections.open(wait=False)
    try:
        yield Pool(connections, role, dsn)
    finally:
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


async def take_role(connection: AsyncConnection[Any], role: str | None) -> None:
    """Act as a role for the rest of this transaction; without one, stay who we are."""
    if not role:
        return
    try:
        await connection.execute(SET_ROLE.format(sql.Identifier(role)))
    except errors.InvalidParameterValue:
        raise NotMigrated(f"the role {role} is not there yet; make it, and the tables, with: duly migrate") from None
    except errors.InsufficientPrivilege:
        login = connection.info.user
        raise Misconfigured(f"{login} may not act as {role}; run: grant {role} to {login}") from None


def with_keepalive(dsn: str, name: str) -> str:
    """The address with our name and our patience in it; what the user wrote there stays."""
    return make_conninfo(dsn, **({"application_name": name} | KEEPALIVE | conninfo_to_dict(dsn)))


async def prepare_connection(connection: AsyncConnection[Any]) -> None:
    """State the isolation level, read JSON quickly, and prepare no statements where a pooler would mix them up."""
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    set_json_loads(orjson.loads, connection)
    if await is_behind_pooler(connection):
        connection.prepare_threshold = None


async def is_behind_pooler(connection: AsyncConnection[Any]) -> bool:
    """Is this a pooler? It gives the client a process number of its own invention, not the server's."""
    autocommit = connection.autocommit
    await connection.set_autocommit(True)
    cursor = await connection.execute("select pg_backend_pid()", prepare=False)
    answer = await cursor.fetchone()
    await connection.set_autocommit(autocommit)
    return answer != (connection.info.backend_pid,)
