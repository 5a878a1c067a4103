"""The pool against a real server, and against one that goes away."""

import asyncio

import psycopg
import pytest
from psycopg import sql

from duly.db.pool import Pool, connect, open_pool
from duly.errors import Unavailable


async def test_transactions_are_read_committed_whatever_the_server_default(database: str) -> None:
    dsn = f"{database} options='-c default_transaction_isolation=serializable'"
    async with open_pool(dsn) as pool, pool.transaction() as connection:
        cursor = await connection.execute("show transaction_isolation")
        assert await cursor.fetchone() == ("read committed",)


async def test_failed_transaction_is_rolled_back(database: str) -> None:
    async with open_pool(database) as pool:
        async with pool.transaction() as connection:
            await connection.execute("create table thing (n int)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await insert_and_fail(pool)
        async with pool.transaction() as connection:
            cursor = await connection.execute("select count(*) from thing")
            assert await cursor.fetchone() == (0,)


async def insert_and_fail(pool: Pool) -> None:
    async with pool.transaction() as connection:
        await connection.execute("insert into thing values (1)")
        await connection.execute("select 1 / 0")


async def test_single_statement_runs_in_autocommit(database: str) -> None:
    async with open_pool(database, size=1) as pool:
        async with pool.transaction() as connection:
            await connection.execute("create table thing (n int)")
        async with pool.statement() as connection:
            await connection.execute("insert into thing values (1)")
            assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        with pytest.raises(psycopg.errors.DivisionByZero):
            await divide_alone(pool)
        async with pool.transaction() as connection:
            assert connection.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
            cursor = await connection.execute("select count(*) from thing")
            assert await cursor.fetchone() == (1,)


async def divide_alone(pool: Pool) -> None:
    async with pool.statement() as connection:
        await connection.execute("select 1 / 0")


async def test_single_statement_is_read_committed_whatever_the_server_default(database: str) -> None:
    dsn = f"{database} options='-c default_transaction_isolation=serializable'"
    async with open_pool(dsn) as pool:
        for _ in range(2):
            async with pool.statement() as connection:
                cursor = await connection.execute("show transaction_isolation")
                assert await cursor.fetchone() == ("read committed",)


async def test_role_is_set_for_exactly_one_transaction(database: str, worker_id: str) -> None:
    role = f"duly_test_{worker_id}"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(role)))
        admin.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
        try:
            async with open_pool(database, size=1, role=role) as pool:
                async with pool.transaction() as connection:
                    cursor = await connection.execute("select current_user")
                    assert await cursor.fetchone() == (role,)
                async with pool.connections.connection() as connection:
                    cursor = await connection.execute("select current_user")
                    assert await cursor.fetchone() != (role,)
        finally:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


async def test_pool_replaces_cut_connections(database: str) -> None:
    async with open_pool(database, size=3) as pool:
        async with pool.transaction() as connection:
            await connection.execute("select 1")
        cut_all(database)
        async with pool.transaction() as connection:
            cursor = await connection.execute("select 1")
            assert await cursor.fetchone() == (1,)


async def test_transaction_starts_on_a_live_connection_after_all_were_cut(database: str) -> None:
    async with open_pool(database, size=3, idle=3, check=False) as pool:
        await asyncio.gather(*(hold_until_all_are_acquired(pool, barrier) for barrier in [asyncio.Barrier(3)] * 3))
        cut_all(database)
        for _ in range(3):
            async with pool.transaction() as connection:
                cursor = await connection.execute("select 1")
                assert await cursor.fetchone() == (1,)


async def hold_until_all_are_acquired(pool: Pool, barrier: asyncio.Barrier) -> None:
    async with pool.transaction():
        await barrier.wait()


def cut_all(database: str) -> None:
    """End every other session of a database, and wait until each is gone."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )


async def test_statements_are_prepared_on_a_direct_connection(database: str) -> None:
    connection = await connect(database)
    async with connection:
        assert connection.prepare_threshold is not None


async def test_unreachable_server_raises_unavailable() -> None:
    with pytest.raises(Unavailable):
        await connect("host=127.0.0.1 port=1 dbname=nowhere")


async def test_eight_concurrent_tasks_share_a_pool_of_two(database: str) -> None:
    async with open_pool(database, size=2) as pool:

        async def echo(number: int) -> int:
            async with pool.transaction() as connection:
                cursor = await connection.execute("select %s::int", [number])
                row = await cursor.fetchone()
                assert row
                return row[0]

        assert await asyncio.gather(*(echo(number) for number in range(8))) == list(range(8))
