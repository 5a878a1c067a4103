"""The same request from many sides at once: one creates, the others read back."""

import asyncio

import psycopg
import pytest

from duly.canonical_json import digest
from duly.db.pool import Pool
from duly.db.rows import Row
from duly.outcomes import Created, Creation, Existing
from tests.fast.lease.test_idempotency_races import pool, request_creation
from tests.support.locks import wait_until_blocked

__all__ = ["pool"]


async def test_an_equal_body_in_another_json_form_is_the_same_request(pool: Pool) -> None:
    await request_creation(pool, "k", {"a": 1, "b": [1.0, "å"]})
    assert isinstance(await request_creation(pool, "k", {"b": [1, "\u00e5"], "a": 1.0}), Existing)


@pytest.mark.parametrize(("end", "answer"), [("commit", Existing), ("rollback", Created)])
async def test_an_insert_blocked_by_an_equal_key_returns_the_outcome_of_the_other(
    end: str, answer: type[Creation[Row]], pool: Pool, database: str
) -> None:
    with psycopg.connect(database) as first:
        first.execute("insert into request values ('k', %s)", [digest({"a": 1})])
        waiting = asyncio.create_task(request_creation(pool, "k", {"a": 1}))
        await asyncio.to_thread(wait_until_blocked, database)
        getattr(first, end)()
    assert isinstance(await waiting, answer)
