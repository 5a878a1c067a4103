"""The server of a run, with databases that store few posts or many."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, sql

from duly.db.migrate import migrate
from duly.db.migrations import Names
from tools.bench.posts import store
from tools.bench.posts.content import sample_reading
from tools.bench.server import Server, start_server

API, WORKER = "duly_api", "duly_worker"
CHUNK = 100_000  # stored posts in one statement
DAYS = 50  # on each of which every author of stored posts had one


@dataclass
class PostsServer(Server):
    """The server of a run."""

    def database(self, stored: int = 0) -> AbstractContextManager[str]:
        """Clone a database with this many released posts."""
        return self.temporary_database(str(stored), partial(build, stored=stored))


@contextmanager
def open_server() -> Generator[PostsServer, None, None]:
    """Start a server with durable settings."""
    with start_server(PostsServer) as server:
        yield server


def build(dsn: str, *, stored: int) -> None:
    """Create our tables with posts that were released long ago."""
    migrate(dsn, Names())
    with psycopg.connect(dsn, autocommit=True) as admin:
        for role in (WORKER, API):
            admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(role)))
        if stored:
            fill(admin, stored)


def fill(admin: Connection[Any], stored: int) -> None:
    """Store released posts; this connection writes without guards from now on."""
    authors = -(-stored // DAYS)
    store.add_people(admin, "old-", authors)
    store.disable_triggers(admin)
    for begin in range(0, stored, CHUNK):
        store.add_stored(admin, "old-", authors, range(begin, min(stored, begin + CHUNK)), sample_reading())
    store.vacuum(admin)
