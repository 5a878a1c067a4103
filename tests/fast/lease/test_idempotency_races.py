"""The same request from many sides at once: one creates, the others read back."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from duly.canonical_json import digest
from duly.db.idempotency import create_once
from duly.db.pool import Pool, open_pool
from duly.db.rows import Row, find_row
from duly.errors import KeyReused, Unavailable
from duly.outcomes import Created, Creation, Existing

INSERT = sql.SQL(
    "insert into request (key, digest) values (%(key)s, %(digest)s) on conflict (key) do nothing returning *"
)
FIND = sql.SQL("select * from request where key = %(key)s")


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool, None]:
    """A table of requests, and eight connections to it."""
    with psycopg.connect(database) as admin:
        admin.execute("create table request (key text primary key, digest bytea not null)")
    async with open_pool(database, size=8) as pool:
        yield pool


async def request_creation(pool: Pool, key: str, body: dict[str, Any]) -> Creation[Row]:
    """One request, in a transaction of its own."""
    async with pool.transaction() as connection:
        return await create_once(
            insert=lambda: find_row(connection, INSERT, key=key, digest=digest(body)),
            find=lambda: find_row(connection, FIND, key=key),
            is_same=lambda row: bytes(row["digest"]) == digest(body),
            refusal=f"the key {key} was used for another request",
        )


async def test_one_of_many_concurrent_requests_creates_and_the_others_read(pool: Pool) -> None:
    answers = await asyncio.gather(*(request_creation(pool, "k", {"a": 1, "b": 2.0}) for _ in range(20)))
    assert sum(isinstance(answer, Created) for answer in answers) == 1
    assert len({bytes(answer.row["digest"]) for answer in answers}) == 1


async def test_same_key_with_another_request_is_refused_and_changes_nothing(pool: Pool) -> None:
    await request_creation(pool, "k", {"a": 1})
    with pytest.raises(KeyReused, match="the key k was used"):
        await request_creation(pool, "k", {"a": 2})
    assert isinstance(await request_creation(pool, "k", {"a": 1}), Existing)


async def test_row_deleted_between_insert_and_read_is_created_again() -> None:
    inserts = iter([None, "made"])

    async def insert() -> str | None:
        return next(inserts)

    async def find() -> str | None:
        return None

    assert await create_once(insert, find, lambda _: True, "") == Created("made")


async def test_row_deleted_before_every_read_raises_unavailable() -> None:
    calls: list[str] = []

    async def lose() -> None:
        calls.append("insert")

    async def miss() -> None:
        calls.append("find")

    with pytest.raises(Unavailable, match="nothing was created, retry"):
        await create_once(insert=lose, find=miss, is_same=lambda _: True, refusal="")
    assert calls == ["insert", "find"] * 3
