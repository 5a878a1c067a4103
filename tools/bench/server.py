"""The private, durable server that a benchmark runs on, thrown away afterwards."""

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
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
from tools.bench.processes import ServerCpu, read_server_cpu

SQL = load_queries(__file__, "server.sql")
# Durability is PostgreSQL's own default, set explicitly; the rest is what a careful owner of this machine would set.
DURABLE_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "max_connections": "100",
}
NO_SETTINGS: Mapping[str, str] = {}
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
    def temporary_database(self, name: str, build: Callable[[str], None]) -> Generator[str, None, None]:
        """Clone a database, dropped afterwards, from a template that `build` makes once for every name."""
        if name not in self.templates:
            self.templates[name] = TestDatabases(self.dsn, f"bench_{name}")
            self.templates[name].build_template(build)
        with self.templates[name].clone("round") as dsn:
            yield dsn

    def create_probe_table(self) -> None:
        """Create the table that commits are probed with."""
        self.prober.execute(SQL.create_probe_table)

    def probe_milliseconds(self) -> float:
        """Measure what one small durable commit costs now."""
        began = time.monotonic()
        for _ in range(PROBES):
            self.prober.execute(SQL.probe_milliseconds)
        return (time.monotonic() - began) / PROBES * 1000

    def checkpoint(self) -> None:
        """Write what earlier measurements left in memory, so that the next one does not pay for it."""
        self.admin.execute(SQL.checkpoint)

    def read_cpu(self) -> ServerCpu:
        """Read the CPU time of every process of the server."""
        return read_server_cpu(self.admin.info.backend_pid)

    def cpu_seconds_since(self, earlier: ServerCpu) -> float:
        """Return the CPU time that the server used since an earlier reading."""
        return self.read_cpu().seconds_since(earlier)

    def version(self) -> str:
        """Return the version of PostgreSQL."""
        return self.admin.info.parameter_status("server_version") or "?"

    def describe(self) -> str:
        """Format version and settings as one line."""
        settings = ", ".join(f"{name}={value}" for name, value in DURABLE_SETTINGS.items())
        return f"PostgreSQL {self.version()}, {settings}"


AnyServer = TypeVar("AnyServer", bound=Server)


@contextmanager
def start_server(kind: type[AnyServer], settings: Mapping[str, str] = NO_SETTINGS) -> Generator[AnyServer, None, None]:
    """Start a server with durable settings; a benchmark's own subclass of Server describes it."""
    home = Path(tempfile.mkdtemp(prefix="duly-bench-", dir="/tmp"))  # short enough for a socket
    home.chmod(0o755)
    try:
        with EmbeddedServer.start(home / "duly", settings={**DURABLE_SETTINGS, **settings}) as embedded:
            probes = create_database(embedded.dsn(), "bench_probe")
            with (
                psycopg.connect(embedded.dsn(), autocommit=True) as admin,
                psycopg.connect(probes, autocommit=True) as prober,
            ):
                server = kind(embedded.dsn(), home, admin, prober)
                server.create_probe_table()
                yield server
            embedded.close()
            embedded.wait_stopped(60)
    finally:
        shutil.rmtree(home, ignore_errors=True)
