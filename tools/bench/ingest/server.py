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
from tools.bench.ingest import store
from tools.bench.ingest.content import DAYS, known_days, known_user
from tools.bench.server import Server, start_server

WORKER = "duly_worker"


@dataclass
class IngestServer(Server):
    """The server of a run."""

    def database(self, stored: int) -> AbstractContextManager[str]:
        """The address of a database that knows so many days; gone afterwards."""
        return self.temporary_database(str(stored), partial(build, stored=stored))


@contextmanager
def open_server() -> Generator[IngestServer, None, None]:
    """A server with durable settings, for as long as this."""
    with start_server(IngestServer) as server:
        yield server


def build(dsn: str, *, stored: int) -> None:
    """Our tables, and so many days that were seen long ago."""
    migrate(dsn, Names())
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(WORKER)))
        fill(admin, stored)


def fill(admin: Connection[Any], stored: int) -> None:
    """Days that were seen long ago; from now on this connection writes without guards."""
    store.disable_triggers(admin)
    days = known_days(stored)
    for begin in range(0, stored, DAYS):
        store.add_known(admin, known_user(begin), days[: min(DAYS, stored - begin)])
    store.vacuum(admin)
