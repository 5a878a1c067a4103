"""The server of a run, with databases that store few days or many."""

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
        """Clone a database with this many stored days."""
        return self.temporary_database(str(stored), partial(build, stored=stored))


@contextmanager
def open_server() -> Generator[IngestServer, None, None]:
    """Start a server with durable settings."""
    with start_server(IngestServer) as server:
        yield server


def build(dsn: str, *, stored: int) -> None:
    """Create our tables with this many stored days."""
    migrate(dsn, Names())
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(WORKER)))
        fill(admin, stored)


def fill(admin: Connection[Any], stored: int) -> None:
    """Store days; this connection writes without guards from now on."""
    store.disable_triggers(admin)
    days = known_days(stored)
    for begin in range(0, stored, DAYS):
        store.add_known(admin, known_user(begin), days[: min(DAYS, stored - begin)])
    store.vacuum(admin)
