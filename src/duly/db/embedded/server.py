"""The embedded server as the rest of duly sees it: start it by using it, let go of it when done."""

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
from duly.db.embedded.supervisor import POST_IS_TAKEN
from duly.errors import Misconfigured, Unavailable

__all__ = ["EmbeddedServer"]

POLL_SECONDS = 0.02
TAIL_LINES = 12


class EmbeddedServer:
    """A running PostgreSQL that stays up while this object, in any process, is held.

    Many processes may hold one home: the first starts the server, the last to go (closed, ended or killed) stops it. A
    forked child holds it too.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.hold: int | None = None

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
        """Use the server of this home, starting it first if need be; returns when it answers."""
        if sys.platform == "win32":
            raise Misconfigured("the embedded PostgreSQL needs Linux or macOS; on Windows use WSL, or set DATABASE_URL")
        server = cls(make_plan(home, pgbin=pgbin, pguser=pguser, settings=settings, linger_seconds=linger_seconds))
        server.ensure()
        return server

    def ensure(self, timeout_seconds: float = 60.0) -> None:
        """Return when the server answers; call it again after a broken connection."""
        if self.hold is None:
            self.hold = hold_shared(self.plan.users_lock)
        deadline = time.monotonic() + timeout_seconds
        ours_was_started = False
        while not self.answers():
            if not self.is_supervised():
                if ours_was_started:
                    raise Unavailable(f"PostgreSQL did not start:\n{self.last_words()}")
                ours_was_started = self.launch_supervisor()
            if time.monotonic() > deadline:
                raise Unavailable(f"PostgreSQL did not start in {timeout_seconds:.0f} s:\n{self.last_words()}")
            time.sleep(POLL_SECONDS)

    def answers(self) -> bool:
        """Does the server accept connections now?"""
        command = [self.plan.binaries.program("pg_isready"), "-q", "-h", self.plan.sockets, "-p", "5432"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return subprocess.run([*command, "-U", "postgres"], env=environment, capture_output=True).returncode == 0

    def is_supervised(self) -> bool:
        """Is there a supervisor? Cheap enough to ask twice a second."""
        return is_held(self.plan.supervisor_lock)

    def launch_supervisor(self) -> bool:
        """Start a supervisor, which goes into the background at once; False when there was one already."""
        command = [sys.executable, "-P", "-m", "duly.db.embedded.supervisor", self.plan.to_json()]
        started = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if started.returncode not in (0, POST_IS_TAKEN):
            raise Unavailable(f"the supervisor of PostgreSQL did not start:\n{started.stderr.strip()}")
        return started.returncode == 0

    def last_words(self) -> str:
        """The end of both logs, for the error message."""
        lines: list[str] = []
        for log in (self.plan.supervisor_log, self.plan.log):
            lines.append(f"{log}:")
            if log.exists():
                lines += [f"  {line}" for line in log.read_text(errors="replace").splitlines()[-TAIL_LINES:]]
        return "\n".join(lines)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """A connection address for libpq, complete, so that its variables (PGHOST, PGOPTIONS, ...) have no say."""
        from psycopg.conninfo import make_conninfo

        return make_conninfo("", host=str(self.plan.sockets), port=5432, user=user, dbname=database, options="")

    def close(self) -> None:
        """Let go of the server; it stops a moment after the last one did."""
        if self.hold is not None:
            os.close(self.hold)
            self.hold = None

    def wait_stopped(self, timeout_seconds: float) -> bool:
        """After `close`: wait until the server is gone; False when somebody else still uses it."""
        deadline = time.monotonic() + timeout_seconds
        while self.is_supervised():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
