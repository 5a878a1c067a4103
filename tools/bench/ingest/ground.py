"""The server of a run, with databases that know few days or many."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, sql

from duly.db.migrate import migrate
from duly.db.migrations import Names
from tools.bench.ground import Server, open_server
from tools.bench.ingest import store
from tools.bench.ingest.content import DAYS, known_days, known_user

WORKER = "duly_worker"


@dataclass
class Ground(Server):
    """The server of a run."""

    def database(self, stored: int) -> AbstractContextManager[str]:
        """The address of a database that knows so many days; gone afterwards."""
        return self.fresh(str(stored), partial(build, stored=stored))


@contextmanager
def open_ground() -> Generator[Ground, None, None]:
    """A server with durable settings, for as long as this."""
    with open_server(Ground) as ground:
        yield ground


def build(dsn: str, *, stored: int) -> None:
    """Our tables, and so many days that were seen long ago."""
    migrate(dsn, Names())
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(WORKER)))
        fill(admin, stored)


def fill(admin: Connection[Any], stored: int) -> None:
    """Days that were seen long ago; from now on this connection writes without guards."""
    store.silence_triggers(admin)
    days = known_days(stored)
    for begin in range(0, stored, DAYS):
        store.add_known(admin, known_user(begin), days[: min(DAYS, stored - begin)])
    store.vacuum(admin)
