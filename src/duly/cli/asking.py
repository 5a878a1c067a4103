"""One question to the database, from a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import OperationalError, errors

from duly.db.location import open_database
from duly.db.pool import Pool, open_pool
from duly.errors import NotMigrated, Unavailable
from duly.settings import Settings, load_settings

__all__ = ["ask"]

Answer = TypeVar("Answer")
NOT_THERE = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName)


def ask(question: Callable[[Pool], Awaitable[Answer]], role: Callable[[Settings], str]) -> Answer:
    """Ask on the database of the settings, acting as one of their roles in every transaction."""
    settings = load_settings()

    async def run(dsn: str) -> Answer:
        async with open_pool(dsn, size=1, role=role(settings), name="duly-cli") as pool:
            return await question(pool)

    with open_database(settings) as database:
        try:
            return asyncio.run(run(database.dsn))
        except NOT_THERE:
            raise NotMigrated("this database lacks tables of duly; make them with: duly migrate") from None
        except OperationalError as error:
            raise Unavailable(f"the database went away, and whether all was done is not known: {error}") from None
