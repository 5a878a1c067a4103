"""Keys of advisory locks, as PostgreSQL sees them."""

from datetime import date
from typing import Any, LiteralString

import psycopg
import pytest

from duly.db.advisory import advisory_key

DAY = date(2026, 2, 12)
NAME = ("ingest.day", 7, DAY)
KEYS_WE_HOLD = """
select (classid::bigint << 32) | objid::bigint
from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
"""
KEY_IN_SQL = """
select ('x' || left(encode(sha256(convert_to(
    's13:duly.advisory' || 's10:ingest.day' || 'i1:7' || 'd10:2026-02-12', 'UTF8')), 'hex'), 16))::bit(64)::bigint
"""


def get_value(connection: psycopg.Connection, statement: LiteralString, *parameters: object) -> Any:
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]


def try_lock(connection: psycopg.Connection, key: int) -> bool:
    """Take the lock until the end of the transaction, if it is free."""
    return get_value(connection, "select pg_try_advisory_xact_lock(%s)", key)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_key_of_either_sign_fits_the_bigint(database: str, sign: int) -> None:
    keys = [key for key in (advisory_key("sign", number) for number in range(64)) if key * sign > 0]
    assert keys
    with psycopg.connect(database) as connection:
        for key in keys:
            connection.execute("select pg_advisory_xact_lock(%s)", [key])
        assert {key for (key,) in connection.execute(KEYS_WE_HOLD)} == set(keys)


def test_equal_names_exclude_each_other_until_the_transaction_ends(database: str) -> None:
    with psycopg.connect(database) as holder, psycopg.connect(database) as other:
        assert try_lock(holder, advisory_key(*NAME))
        assert not try_lock(other, advisory_key(*NAME))
        holder.commit()
        assert try_lock(other, advisory_key(*NAME))


@pytest.mark.parametrize("name", [("ingest.day", 7, date(2026, 2, 13)), ("ingest.day", 8, DAY), ("other", 7, DAY)])
def test_different_names_do_not_block_each_other(database: str, name: tuple[str, int, date]) -> None:
    with psycopg.connect(database) as holder, psycopg.connect(database) as other:
        assert try_lock(holder, advisory_key(*NAME))
        assert try_lock(other, advisory_key(*name))


def test_sql_can_compute_the_same_key(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert get_value(connection, KEY_IN_SQL) == advisory_key(*NAME)
