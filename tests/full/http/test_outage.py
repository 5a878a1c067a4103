"""An outage of the database is logged once, and so is its end."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from duly.db.pool import Pool, open_pool
from duly.errors import Unavailable
from duly.http.database_outage import log_database_outages
from tests.support.outbox.log_capture import capture_log_lines


async def test_a_database_outage_of_any_length_is_two_log_lines(database: str) -> None:
    name = conninfo_to_dict(database)["dbname"]
    allow = sql.SQL("alter database {} allow_connections {}")
    with psycopg.connect(database, dbname="postgres", autocommit=True) as outside, capture_log_lines("info") as lines:

        def set_allowed(value: str) -> None:
            outside.execute(allow.format(sql.Identifier(str(name)), sql.SQL(value)))  # type: ignore[arg-type]

        async with log_database_outages() as note, open_pool(database, size=4, idle=4, on_connect=note) as pool:
            await pool.connections.wait()  # a pending connection attempt would end the outage
            set_allowed("false")
            outside.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            await query_until(pool, time.monotonic() + 5)  # in which the pool tries again and again
            set_allowed("true")
            await query_until(pool, time.monotonic() + 60, lambda: "database.available" in lines.getvalue())
    events = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(line["level"], line["event"]) for line in events if line["logger"] != "duly.tests"] == [
        ("warning", "database.unavailable"),
        ("info", "database.available"),
    ]
    assert events[-2]["error"]["message"]
    assert events[-1]["outage_seconds"] > 3


async def query_until(pool: Pool, end: float, condition: Callable[[], bool] = lambda: False) -> None:
    """Open transactions, like requests do, until the condition holds or the deadline has passed."""
    while time.monotonic() < end and not condition():
        with suppress(Unavailable, psycopg.OperationalError, TimeoutError):
            async with asyncio.timeout(1), pool.transaction() as connection:
                await connection.execute("select pg_sleep(0.1)")
