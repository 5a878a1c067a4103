"""The embedded server: started by its first user, stopped after its last."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from duly.db.embedded.locks import hold_shared, is_held
from duly.db.embedded.plan import Plan, make_plan
from duly.db.embedded.supervisor import ALREADY_SUPERVISED
from duly.errors import Misconfigured, Unavailable

POLL_SECONDS = 0.02
TAIL_LINES = 12


class EmbeddedServer:
    """A PostgreSQL server that runs while any process has this object open.

    Many processes may use one home: the first starts the server, and it stops after the last was closed, ended or
    killed. A forked child counts too.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lock: int | None = None  # the descriptor of our shared lock

    @classmethod
    def start(
        cls,
        home: Path,
        *,
        pgbin: Path | None = None,
        pguser: str | None = None,
        settings: Mapping[str, str] | None = None,
        linger_seconds: float = 1.0,
    ) -> Self:
        """Use the server of this home, starting it if necessary; return when it accepts connections."""
        if sys.platform == "win32":
            raise Misconfigured("the embedded PostgreSQL needs Linux or macOS; on Windows use WSL, or set DATABASE_URL")
        server = cls(make_plan(home, pgbin=pgbin, pguser=pguser, settings=settings, linger_seconds=linger_seconds))
        server.ensure()
        return server

    def ensure(self, timeout_seconds: float = 60.0) -> None:
        """Wait until the server accepts connections; call it again after a broken connection."""
        if self.lock is None:
            self.lock = hold_shared(self.plan.users_lock)
        deadline = time.monotonic() + timeout_seconds
        has_launched = False
        while not self.is_ready():
            if not self.is_supervised():
                if has_launched:
                    raise Unavailable(f"PostgreSQL did not start:\n{self.tail_logs()}")
                has_launched = self.launch_supervisor()
            if time.monotonic() > deadline:
                raise Unavailable(f"PostgreSQL did not start in {timeout_seconds:.0f} s:\n{self.tail_logs()}")
            time.sleep(POLL_SECONDS)

    def is_ready(self) -> bool:
        """Return whether the server accepts connections."""
        command = [self.plan.binaries.program("pg_isready"), "-q", "-h", self.plan.sockets, "-p", "5432"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return subprocess.run([*command, "-U", "postgres"], env=environment, capture_output=True).returncode == 0

    def is_supervised(self) -> bool:
        """Return whether there is a supervisor; cheap enough for twice a second."""
        return is_held(self.plan.supervisor_lock)

    def launch_supervisor(self) -> bool:
        """Start a supervisor in the background; False when there was one already."""
        command = [sys.executable, "-P", "-m", "duly.db.embedded.supervisor", self.plan.to_json()]
        started = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if started.returncode not in (0, ALREADY_SUPERVISED):
            raise Unavailable(f"the supervisor of PostgreSQL did not start:\n{started.stderr.strip()}")
        return started.returncode == 0

    def tail_logs(self) -> str:
        """Return the end of both logs, for the error message."""
        lines: list[str] = []
        for log in (self.plan.supervisor_log, self.plan.log):
            lines.append(f"{log}:")
            if log.exists():
                lines += [f"  {line}" for line in log.read_text(errors="replace").splitlines()[-TAIL_LINES:]]
        return "\n".join(lines)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """Build a complete libpq address, so that variables such as PGHOST and PGOPTIONS have no effect."""
        from psycopg.conninfo import make_conninfo

        return make_conninfo("", host=str(self.plan.sockets), port=5432, user=user, dbname=database, options="")

    def close(self) -> None:
        """Stop using the server; it stops shortly after its last user."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def wait_stopped(self, timeout_seconds: float) -> bool:
        """Wait after `close` until the server has stopped; False when another process still uses it."""
        deadline = time.monotonic() + timeout_seconds
        while self.is_supervised():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
