"""One question to the database, from a command."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import OperationalError, errors

from duly.cli.opening import open_existing
from duly.db.pool import Pool, open_pool
from duly.errors import NotMigrated, Unavailable
from duly.settings import Settings, load_settings

__all__ = ["as_api", "as_owner", "as_reader", "as_worker"]

Answer = TypeVar("Answer")
# An application's login must not become the owner: that would lift every policy and guard off it.
USE_ANOTHER_LOGIN = ", the owner of duly's tables; run this command with the login that migrated (DATABASE_URL)"
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # our own error says it, in one line
NOT_THERE = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName)


def as_api(question: Callable[[Pool], Awaitable[Answer]]) -> Answer:
    """Ask with the rights of the API: what people may do by HTTP."""
    settings = load_settings()
    return ask(question, settings, settings.api_role)


def as_worker(question: Callable[[Pool], Awaitable[Answer]]) -> Answer:
    """Ask with the rights of a worker, which sees every org."""
    settings = load_settings()
    return ask(question, settings, settings.worker_role)


def as_owner(question: Callable[[Pool], Awaitable[Answer]]) -> Answer:
    """Ask as the owner of the tables: the administrator's door."""
    settings = load_settings()
    return ask(question, settings, settings.owner_role, USE_ANOTHER_LOGIN)


def as_reader(question: Callable[[Pool], Awaitable[Answer]]) -> Answer:
    """Ask as one who only looks."""
    settings = load_settings()
    return ask(question, settings, settings.readonly_role)


def ask(
    question: Callable[[Pool], Awaitable[Answer]], settings: Settings, role: str, advice: str | None = None
) -> Answer:
    """Ask on the database of the settings, acting as this role in every transaction."""

    async def run(dsn: str) -> Answer:
        async with open_pool(dsn, size=1, role=role, advice=advice, name="duly-cli") as pool:
            return await question(pool)

    with open_existing(settings) as database:
        try:
            return asyncio.run(run(database.dsn))
        except NOT_THERE:
            raise NotMigrated("this database lacks tables of duly; make them with: duly migrate") from None
        except OperationalError as error:
            raise Unavailable(f"the database went away, and whether all was done is not known: {error}") from None
