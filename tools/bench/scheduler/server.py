"""The server of a run, with databases of few or many schedules and past runs."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.migrate import migrate
from duly.db.migrations import Names
from tools.bench.scheduler import store
from tools.bench.server import Server, start_server

WORKER = "duly_worker"
SCHEDULES_EACH = 100


@dataclass
class SchedulerServer(Server):
    """The server of a run."""

    def database(self, schedules: int, runs: int = 0) -> AbstractContextManager[str]:
        """Clone a database with this many schedules and runs."""
        return self.temporary_database(f"{schedules}_{runs}", partial(build, schedules=schedules, runs=runs))


@contextmanager
def open_server() -> Generator[SchedulerServer, None, None]:
    """Start a server with durable settings."""
    with start_server(SchedulerServer) as server:
        yield server


def worker_dsn(dsn: str) -> str:
    """Return the same address with a worker's login."""
    return make_conninfo(dsn, user=WORKER)


def build(dsn: str, *, schedules: int, runs: int) -> None:
    """Create our tables with waiting schedules and past runs."""
    migrate(dsn, Names())
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(WORKER)))
        store.create_partitions(admin)
        store.disable_triggers(admin)
        people = max(1, schedules // SCHEDULES_EACH)
        store.add_people(admin, people)
        store.add_schedules(admin, schedules, people)
        if runs:
            store.add_runs(admin, runs)
        store.enable_triggers(admin)
        store.vacuum(admin)
