"""The same request from many sides at once: one creates, the others read back."""

import asyncio

import psycopg
import pytest

from duly.canonical_json import digest
from duly.db.pool import Pool
from duly.db.rows import Row
from duly.outcomes import Created, Creation, Existing
from tests.fast.lease.test_idempotency_races import ask, pool
from tests.support.locks import wait_until_blocked

__all__ = ["pool"]


async def test_the_same_body_written_otherwise_is_the_same_request(pool: Pool) -> None:
    await ask(pool, "k", {"a": 1, "b": [1.0, "å"]})
    assert isinstance(await ask(pool, "k", {"b": [1, "\u00e5"], "a": 1.0}), Existing)


@pytest.mark.parametrize(("end", "answer"), [("commit", Existing), ("rollback", Created)])
async def test_an_insert_that_waits_for_another_returns_what_became_of_it(
    end: str, answer: type[Creation[Row]], pool: Pool, database: str
) -> None:
    with psycopg.connect(database) as first:
        first.execute("insert into request values ('k', %s)", [digest({"a": 1})])
        waiting = asyncio.create_task(ask(pool, "k", {"a": 1}))
        await asyncio.to_thread(wait_until_blocked, database)
        getattr(first, end)()
    assert isinstance(await waiting, answer)
