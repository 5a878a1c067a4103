"""The server that all systems share, with a database for each measurement."""

import json
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import IsolationLevel

from duly.db.admin import create_database
from duly.db.queries import load_queries
from tools.bench.ledger.system import DULY, System, load_system
from tools.bench.report import Figures
from tools.bench.server import Server, start_server
from tools.bulk_data import BACKLOG, FINISHED, build_jobs

SQL = load_queries(__file__)
SLOW_MS = 100  # about 0.03 ms per job of a batch is usual
SLOW_SETTINGS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": f"{SLOW_MS}ms",
    "auto_explain.log_nested_statements": "on",  # ours are inside functions
}
# For the scenarios that count WAL, buffers and statements; nothing is tracked in any other database.
COUNTING_SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "none"}
SLOW_PLAN = re.compile(r"duration: (?P<ms>[\d.]+) ms  plan:\n(?P<plan>(?:\t.*\n)+)")
MAX_PLANS, MAX_PLAN_LENGTH = 3, 1500
CONTENTS = {"waiting": BACKLOG, "finished": FINISHED}


@dataclass
class LedgerServer(Server):
    """The server of a run, with large databases that are built once."""

    large_databases: dict[str, str] = field(default_factory=dict[str, str])
    log_position: int = 0
    step_figures: dict[str, Figures] = field(default_factory=dict[str, Figures])  # of one round, see footprint.py

    def empty_database(self, system: System) -> AbstractContextManager[str]:
        """Clone a system's empty tables; dropped afterwards."""
        return self.temporary_database(system.name, system.build)

    def large_database(self, content: str, rows: int) -> str:
        """Return the address of a database of ours with this many jobs, built the first time, vacuumed every time."""
        name = f"{content}_{rows}"
        if name not in self.large_databases:
            dsn = create_database(self.dsn, f"bench_{name}")
            load_system(DULY).build(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                build_jobs(connection, rows, CONTENTS[content], handled=("noop",))
            self.large_databases[name] = dsn
        with psycopg.connect(self.large_databases[name], autocommit=True) as connection:
            connection.execute(SQL.vacuum)
        return self.large_databases[name]

    @contextmanager
    def old_snapshot(self, dsn: str) -> Generator[None, None, None]:
        """Hold a transaction that saw the database as it is now: nothing that dies later can be vacuumed."""
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.execute(SQL.hold_snapshot)
            yield

    def read_slow_plans(self) -> list[str]:
        """Read the plans of slow statements that the server logged since the last call, the slowest first."""
        with (self.home / "duly" / "postgres.log").open(errors="replace") as log:
            log.seek(self.log_position)
            text = log.read()
            self.log_position = log.tell()
        found = sorted(SLOW_PLAN.finditer(text), key=lambda plan: -float(plan["ms"]))
        return [f"{plan['ms']} ms: {plan['plan'][:MAX_PLAN_LENGTH]}" for plan in found[:MAX_PLANS]]

    @contextmanager
    def counted_database(self, system: System) -> Generator[str, None, None]:
        """Clone a system's empty tables, where the server counts statements, buffers and WAL of every connection."""
        with self.empty_database(system) as dsn:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(SQL.create_statement_counters)
                connection.execute(SQL.count_statements)
            yield dsn


@contextmanager
def open_server() -> Generator[LedgerServer, None, None]:
    """Start a server with durable settings, which logs the plans of slow statements."""
    with start_server(LedgerServer, {**SLOW_SETTINGS, **COUNTING_SETTINGS}) as server:
        yield server


@contextmanager
def open_unfinished_check(dsn: str, system: System) -> Generator[Callable[[], bool], None, None]:
    """Open a connection that answers whether any job of this system is unfinished."""
    statement = getattr(SQL, system.unfinished)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield lambda: connection.execute(statement).fetchone() == (True,)


def read_counters(connection: psycopg.Connection[Any]) -> Mapping[str, float]:
    """Read what was counted since the last reading, and begin anew."""
    row = connection.execute(SQL.read_counters).fetchone()
    assert row
    connection.execute(SQL.reset_counters)
    return json.loads(row[0])


def read_sizes(connection: psycopg.Connection[Any]) -> Mapping[str, float]:
    """Read the bytes of heaps and indexes of all tables of the ledger, vacuumed and not rewritten."""
    connection.execute(SQL.vacuum)
    row = connection.execute(SQL.read_sizes).fetchone()
    assert row
    return json.loads(row[0])
