"""The server of a run, with databases that know few days or many."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, sql

from bench.ground import Server, open_server
from bench.ingest import store
from bench.ingest.content import DAYS, known_days, known_user
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.testing import TestDatabases

__all__ = ["WORKER", "Ground", "fill", "open_ground"]

WORKER = "duly_worker"


@dataclass
class Ground(Server):
    """The server of a run."""

    templates: dict[int, TestDatabases] = field(default_factory=dict[int, TestDatabases])

    @contextmanager
    def database(self, stored: int) -> Generator[str, None, None]:
        """The address of a database that knows so many days, as fresh as its template; gone afterwards."""
        if stored not in self.templates:
            self.templates[stored] = TestDatabases(self.dsn, f"bench_{stored}")
            self.templates[stored].build_template(partial(build, stored=stored))
        with self.templates[stored].clone("round") as dsn:
            yield dsn


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
