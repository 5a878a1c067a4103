"""The server of a run, with databases that have few schedules or many, few runs of the past or many."""

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
        """The address of a database with so many schedules and runs; gone afterwards."""
        return self.temporary_database(f"{schedules}_{runs}", partial(build, schedules=schedules, runs=runs))


@contextmanager
def open_server() -> Generator[SchedulerServer, None, None]:
    """A server with durable settings, for as long as this."""
    with start_server(SchedulerServer) as server:
        yield server


def worker_dsn(dsn: str) -> str:
    """The same database, as a worker."""
    return make_conninfo(dsn, user=WORKER)


def build(dsn: str, *, schedules: int, runs: int) -> None:
    """Our tables, with schedules that wait for their time and runs that are long over."""
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
