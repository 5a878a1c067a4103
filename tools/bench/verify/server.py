"""The server of a run, with a database that has a long history in order."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from duly.db.admin import create_database
from duly.db.migrate import migrate
from duly.db.migrations import Names
from tools.bench.server import Server, start_server
from tools.bulk_data import build_history, count_events


@dataclass(frozen=True)
class Filled:
    """A database, and how many events it really has."""

    dsn: str
    events: int


@dataclass
class VerifyServer(Server):
    """The server of a run."""

    filled_databases: dict[int, Filled] = field(default_factory=dict[int, Filled])

    def filled(self, events: int) -> Filled:
        """Return the database with about this many events; verifying changes nothing, so every round uses the same."""
        if events not in self.filled_databases:
            dsn = create_database(self.dsn, f"bench_{events}")
            migrate(dsn, Names())
            with psycopg.connect(dsn, autocommit=True) as admin:
                build_history(admin, events)
                self.filled_databases[events] = Filled(dsn, count_events(admin))
            self.checkpoint()
        return self.filled_databases[events]

    def log(self, text: str) -> None:
        """Print what is worth knowing beside the figures."""
        print(text, file=sys.stderr, flush=True)


@contextmanager
def open_server() -> Generator[VerifyServer, None, None]:
    """Start a server with durable settings."""
    with start_server(VerifyServer) as server:
        yield server
