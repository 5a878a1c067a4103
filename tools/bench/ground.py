"""The server that measurements stand on: private, durable, thrown away afterwards; and what is asked of it besides."""

import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.queries import load_queries
from duly.testing import TestDatabases
from tools.bench.processes import cpu_seconds_of_server

SQL = load_queries(__file__, "ground.sql")
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
class Server:
    """The server of a run, and a directory on the same disk."""

    dsn: str
    home: Path
    admin: Connection[Any]
    prober: Connection[Any]
    templates: dict[str, TestDatabases] = field(default_factory=dict[str, TestDatabases])

    @contextmanager
    def fresh(self, name: str, build: Callable[[str], None]) -> Generator[str, None, None]:
        """The address of a database as `build` leaves an empty one, once for every name; gone afterwards."""
        if name not in self.templates:
            self.templates[name] = TestDatabases(self.dsn, f"bench_{name}")
            self.templates[name].build_template(build)
        with self.templates[name].clone("round") as dsn:
            yield dsn

    def make_probe(self) -> None:
        """The table that commits are probed with."""
        self.prober.execute(SQL.make_probe)

    def probe_milliseconds(self) -> float:
        """What one small durable commit costs now."""
        began = time.monotonic()
        for _ in range(PROBES):
            self.prober.execute(SQL.probe_milliseconds)
        return (time.monotonic() - began) / PROBES * 1000

    def checkpoint(self) -> None:
        """Write down what is left of whoever came before."""
        self.admin.execute(SQL.checkpoint)

    def cpu_seconds(self) -> float:
        """What the whole server has used so far."""
        return cpu_seconds_of_server(self.admin.info.backend_pid)

    def version(self) -> str:
        """Of PostgreSQL."""
        return self.admin.info.parameter_status("server_version") or "?"

    def describe(self) -> str:
        """What and how it is, in a line."""
        settings = ", ".join(f"{name}={value}" for name, value in DURABLE_SETTINGS.items())
        return f"PostgreSQL {self.version()}, {settings}"


AnyServer = TypeVar("AnyServer", bound=Server)


@contextmanager
def open_server(kind: type[AnyServer]) -> Generator[AnyServer, None, None]:
    """A server with durable settings, for as long as this, as the kind that a benchmark made of it."""
    home = Path(tempfile.mkdtemp(prefix="duly-bench-", dir="/tmp"))  # short enough for a socket
    home.chmod(0o755)
    try:
        with EmbeddedServer.start(home / "duly", settings=DURABLE_SETTINGS) as server:
            probes = create_database(server.dsn(), "bench_probe")
            with (
                psycopg.connect(server.dsn(), autocommit=True) as admin,
                psycopg.connect(probes, autocommit=True) as prober,
            ):
                ground = kind(server.dsn(), home, admin, prober)
                ground.make_probe()
                yield ground
            server.close()
            server.wait_stopped(60)
    finally:
        shutil.rmtree(home, ignore_errors=True)
