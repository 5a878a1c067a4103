"""Two hosts, of which the first accepts no writes: clients find the second, and name the problem without one."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.db.admin import create_database, works_as_login
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import migrate, newest_revisions
from duly.db.migrations import Names
from duly.db.pool import Pool, connect, open_pool
from duly.errors import Unavailable
from duly.testing import FAST_SETTINGS

READ_ONLY = "default_transaction_read_only"


@pytest.fixture(scope="module")
def reader(run_home: Path, worker_id: str) -> Generator[EmbeddedServer, None, None]:
    """A server that is read-only by default."""
    with EmbeddedServer.start(run_home / f"reader_{worker_id}", settings=FAST_SETTINGS) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"alter system set {READ_ONLY} = on".encode())
            admin.execute("select pg_reload_conf()")
        while not takes_no_writes(server.dsn()):
            pass
        yield server


def takes_no_writes(dsn: str) -> bool:
    """Whether a new connection may write nothing."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(f"show {READ_ONLY}".encode()).fetchone() == ("on",)


@pytest.fixture
def standby(reader: EmbeddedServer, database: str) -> str:
    """The address of a database of the same name on the server that accepts no writes."""
    writable = make_conninfo(reader.dsn(), options=f"-c {READ_ONLY}=off")
    name = str(conninfo_to_dict(database)["dbname"])
    create_database(writable, name)
    return reader.dsn(name)


@pytest.fixture
def hosts(standby: str, database: str) -> str:
    """One address for both, the one that accepts no writes first."""
    first, second = conninfo_to_dict(standby), conninfo_to_dict(database)
    both: dict[str, Any] = {name: f"{first[name]},{second.get(name, '')}" for name in ("host", "port")}
    return make_conninfo(database, **both)


def test_plain_libpq_connects_to_the_first_reachable_host(hosts: str) -> None:
    assert takes_no_writes(hosts)


async def test_pool_and_listener_connect_to_the_writable_host(hosts: str) -> None:
    async with open_pool(hosts, size=2) as pool, pool.transaction() as connection:
        await connection.execute("insert into duly.orgs (name) values ('acme')")
    async with await connect(hosts, name="duly listener") as connection:
        cursor = await connection.execute("select name from duly.orgs")
        assert await cursor.fetchall() == [("acme",)]


def test_migrations_and_commands_connect_to_the_writable_host(hosts: str) -> None:
    assert migrate(hosts, Names()) == newest_revisions()
    assert not works_as_login(hosts, Names().worker, "schedule_ingest")


async def test_without_a_writable_host_connect_raises_unavailable(standby: str) -> None:
    parts = conninfo_to_dict(standby)
    twice = make_conninfo(standby, host=f"{parts['host']},{parts['host']}")
    with pytest.raises(Unavailable, match="read-only"):
        await connect(twice)


async def test_pool_discards_a_read_only_connection_after_a_transaction(database: str) -> None:
    async with open_pool(database, size=1) as pool:
        async with pool.transaction() as connection:
            await connection.execute(f"set {READ_ONLY} = on".encode())
        with pytest.raises(Unavailable, match="accepts no writes"):
            await make_org(pool)
        await make_org(pool)


async def make_org(pool: Pool) -> None:
    async with pool.transaction() as connection:
        await connection.execute("insert into duly.orgs (name) values ('acme')")


async def test_pool_discards_a_read_only_connection_after_a_single_statement(database: str) -> None:
    async with open_pool(database, size=1) as pool:
        async with pool.transaction() as connection:
            await connection.execute(f"set {READ_ONLY} = on".encode())
        with pytest.raises(Unavailable, match="accepts no writes"):
            await make_org_alone(pool)
        await make_org_alone(pool)


async def make_org_alone(pool: Pool) -> None:
    async with pool.statement() as connection:
        await connection.execute("insert into duly.orgs (name) values ('acme')")


def test_migration_on_a_read_only_server_raises_unavailable(database: str) -> None:
    with pytest.raises(Unavailable, match="nothing was changed: the server accepts no writes"):
        migrate(make_conninfo(database, options=f"-c {READ_ONLY}=on"), Names(), to="engine@base")
