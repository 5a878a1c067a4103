"""Calls from a command to the database of the settings, each with the rights of one role."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import OperationalError

from duly.cli.existing_database import open_existing
from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.db.pool import Pool, open_pool
from duly.errors import NotMigrated, Unavailable
from duly.settings import load_settings

Result = TypeVar("Result")
# An application's login must not become the owner: that would lift every policy and guard off it.
USE_ANOTHER_LOGIN = ", the owner of duly's tables; run this command with the login that migrated (DATABASE_URL)"
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # our own error reports it in one line


def call_as_api(function: Callable[[Pool], Awaitable[Result]]) -> Result:
    """Call a function with the rights of the HTTP API."""
    return call(function, load_settings().api_role)


def call_as_worker(function: Callable[[Pool], Awaitable[Result]]) -> Result:
    """Call a function with the rights of a worker, which sees every org."""
    return call(function, load_settings().worker_role)


def call_as_owner(function: Callable[[Pool], Awaitable[Result]]) -> Result:
    """Call a function as the owner of the tables, for administration."""
    return call(function, load_settings().owner_role, USE_ANOTHER_LOGIN)


def call_as_reader(function: Callable[[Pool], Awaitable[Result]]) -> Result:
    """Call a function that only reads."""
    return call(function, load_settings().readonly_role)


def call(function: Callable[[Pool], Awaitable[Result]], role: str, advice: str | None = None) -> Result:
    """Call a function with a pool whose transactions all act as this role."""

    async def run(dsn: str) -> Result:
        async with open_pool(dsn, size=1, role=role, advice=advice, name="duly-cli") as pool:
            return await function(pool)

    with open_existing(load_settings()) as database:
        try:
            return asyncio.run(run(database.dsn))
        except MISSING_OBJECT_ERRORS:
            raise NotMigrated from None
        except OperationalError as error:
            raise Unavailable(
                f"the connection to the database was lost; the command may or may not have taken effect: {error}"
            ) from None
