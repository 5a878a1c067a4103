"""The server all sides stand on: private, durable, thrown away afterwards; and what is asked of it beside them."""

import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, IsolationLevel

from bench.ledger.processes import cpu_seconds_of_server
from bench.ledger.side import OURS, Side, side_of
from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.queries import load_queries
from duly.testing import TestDatabases

__all__ = ["DURABLE_SETTINGS", "Ground", "asking_what_is_left", "open_ground"]

SQL = load_queries(__file__)
# What a careful owner of this machine would set. Everything about durability is PostgreSQL's own default, said aloud.
DURABLE_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "max_connections": "100",
}
PROBES = 100


@dataclass
class Ground:
    """The server of a run."""

    dsn: str
    admin: Connection[Any]
    prober: Connection[Any]
    templates: dict[str, TestDatabases] = field(default_factory=dict[str, TestDatabases])
    standing: dict[str, str] = field(default_factory=dict[str, str])

    @contextmanager
    def fresh_database(self, side: Side) -> Generator[str, None, None]:
        """The address of a database with a side's empty tables, gone afterwards."""
        if side.name not in self.templates:
            self.templates[side.name] = TestDatabases(self.dsn, f"bench_{side.name}")
            self.templates[side.name].build_template(side.build)
        with self.templates[side.name].clone("round") as dsn:
            yield dsn

    def standing_database(self, content: str, rows: int) -> str:
        """The address of a database of ours with many rows in it, made the first time it is asked for."""
        if content not in self.standing:
            dsn = create_database(self.dsn, f"bench_standing_{content}")
            side_of(OURS).build(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(SQL.silence_triggers)
                connection.execute(SQL.add_backlog if content == "backlog" else SQL.add_finished, {"jobs": rows})
                connection.execute(SQL.add_events)
            self.standing[content] = dsn
        with psycopg.connect(self.standing[content], autocommit=True) as connection:
            connection.execute(SQL.vacuum)
        return self.standing[content]

    @contextmanager
    def old_snapshot(self, dsn: str) -> Generator[None, None, None]:
        """Somebody's transaction that has seen the database as it is now, and goes on for as long as this."""
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.execute(SQL.hold_snapshot)
            yield

    def checkpoint(self) -> None:
        """Write down what is left of whoever came before."""
        self.admin.execute(SQL.checkpoint)

    def probe_milliseconds(self) -> float:
        """What one small durable commit costs now."""
        began = time.monotonic()
        for _ in range(PROBES):
            self.prober.execute(SQL.probe_once)
        return (time.monotonic() - began) / PROBES * 1000

    def cpu_seconds(self) -> float:
        """What the whole server has used so far."""
        return cpu_seconds_of_server(self.admin.info.backend_pid)

    def version(self) -> str:
        """Of PostgreSQL."""
        return self.admin.info.parameter_status("server_version") or "?"


@contextmanager
def open_ground() -> Generator[Ground, None, None]:
    """A server with durable settings, for as long as this."""
    home = Path(tempfile.mkdtemp(prefix="duly-bench-", dir="/tmp"))  # short enough for a socket
    home.chmod(0o755)
    try:
        with EmbeddedServer.start(home / "duly", settings=DURABLE_SETTINGS) as server:
            probes = create_database(server.dsn(), "bench_probe")
            with (
                psycopg.connect(server.dsn(), autocommit=True) as admin,
                psycopg.connect(probes, autocommit=True) as prober,
            ):
                prober.execute(SQL.make_probe)
                yield Ground(server.dsn(), admin, prober)
            server.close()
            server.wait_stopped(60)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def asking_what_is_left(dsn: str, side: Side) -> Generator[Callable[[], bool], None, None]:
    """A question: is anything of this side unfinished?"""
    statement = getattr(SQL, side.unfinished)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield lambda: connection.execute(statement).fetchone() == (True,)
