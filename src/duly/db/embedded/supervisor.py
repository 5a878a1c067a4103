"""The process that owns the server: starts it, restarts it when it is killed, stops it when it has no users.

    python -m duly.db.embedded.supervisor '<plan as JSON>'

Acquires the supervisor's lock or exits when another process has it, goes into the background with the lock, and ends
with the server. Standard library only; a few milliseconds of CPU per minute.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from duly.db.embedded.locks import hold_exclusive
from duly.db.embedded.plan import Plan, own_directory

ALREADY_SUPERVISED = 75  # exit status: there is a supervisor already
POLL_SECONDS = 0.1
RESTART_SECONDS = 0.2
FIRST_START_SECONDS = 5.0
STOP_SECONDS = 60.0
RECOVERY_SECONDS = 120.0
MAX_LOG_BYTES = 8 * 1024 * 1024  # a larger log is rotated; one old generation is kept


def main() -> None:
    """Supervise the plan's server, unless another process does."""
    plan = Plan.from_json(sys.argv[1])
    if not acquire_supervision(plan.supervisor_lock):
        sys.exit(ALREADY_SUPERVISED)
    go_into_background(plan.supervisor_log)
    try:
        initialise(plan)
        stop_stray_server(plan)
        Supervision(plan).run()
    except Exception as error:
        write_log(f"gave up: {error}")
        sys.exit(1)


def acquire_supervision(lock: Path) -> bool:
    """Acquire the supervisor's lock; tried a few times, because users test it for an instant."""
    for _ in range(5):
        if hold_exclusive(lock) is not None:
            return True
        time.sleep(0.02)
    return False


def go_into_background(log: Path) -> None:
    """Fork into a session of its own, with output to the log; the child inherits the lock."""
    rotate(log)
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def initialise(plan: Plan) -> None:
    """Create the cluster under a temporary name and rename it when complete."""
    if plan.data.exists():
        return
    for abandoned in plan.home.glob("data.new-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    draft = plan.home / f"data.new-{os.getpid()}"
    own_directory(draft, plan.account)
    locale = (
        ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if plan.binaries.major >= 17
        else ["--locale=C.UTF-8"]
    )
    command = [plan.binaries.program("initdb"), "-D", draft, "-U", "postgres", "-E", "UTF8", *locale]
    command += ["--data-checksums", "--auth-local=trust", "--auth-host=reject", "--no-instructions"]
    result = subprocess.run(
        command,
        env=environment(),
        cwd="/",
        capture_output=True,
        text=True,
        preexec_fn=end_with_parent(signal.SIGKILL),
        **plan.account.subprocess_identity(),
    )
    if result.returncode:
        raise RuntimeError(f"initdb failed: {result.stderr.strip() or result.stdout.strip()}")
    draft.rename(plan.data)
    sync_directory(plan.home)
    write_log(f"created a PostgreSQL {plan.binaries.version} cluster in {plan.data}")


def sync_directory(path: Path) -> None:
    """Make a rename in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def stop_stray_server(plan: Plan) -> None:
    """Stop a server whose supervisor was killed; remove the pid file of one that is not running."""
    pid_file = plan.data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().splitlines()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return
    if str(plan.data) not in command_line(pid):
        pid_file.unlink(missing_ok=True)
        return
    write_log(f"stopping the orphaned server {pid}")
    for number in (signal.SIGINT, signal.SIGQUIT):
        deadline = time.monotonic() + STOP_SECONDS
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while time.monotonic() < deadline:
            if str(plan.data) not in command_line(pid):
                return
            time.sleep(POLL_SECONDS)


def command_line(pid: int) -> str:
    """Return the command line of a process; empty when it has ended."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout


class Supervision:
    """Keeps one server running until it has no users or SIGTERM comes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.is_stopping = False
        self.unused_since: float | None = None
        signal.signal(signal.SIGTERM, self.stop_soon)

    def stop_soon(self, *_: object) -> None:
        """Handle SIGTERM: stop at the next poll."""
        self.is_stopping = True

    def run(self) -> None:
        """Watch the server and its users; return when the server has stopped."""
        server = start_server(self.plan)
        running_at = time.monotonic()
        start_seconds = FIRST_START_SECONDS
        while not self.is_stopping and not self.is_unused():
            time.sleep(POLL_SECONDS)
            rotate(self.plan.log)
            if server.poll() is None:
                if time.monotonic() - running_at > 2:
                    running_at, start_seconds = time.monotonic(), RECOVERY_SECONDS
            elif time.monotonic() - running_at > start_seconds:
                raise RuntimeError(f"the server does not start; see {self.plan.log}")
            else:  # killed, or its predecessor's shared memory is still in use: a restart does crash recovery
                write_log(f"the server ended with status {server.returncode}; restarting it")
                time.sleep(RESTART_SECONDS)
                server = start_server(self.plan)
        server.send_signal(signal.SIGINT)
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            server.wait()
        write_log("stopped")

    def is_unused(self) -> bool:
        """Return whether the server was unused for the linger time; once it is, new users must wait."""
        descriptor = hold_exclusive(self.plan.users_lock)
        if descriptor is None:
            self.unused_since = None
            return False
        now = time.monotonic()
        self.unused_since = self.unused_since or now
        if now - self.unused_since >= self.plan.linger_seconds:
            return True  # keeps the lock to the end: new users wait, then start a supervisor of their own
        os.close(descriptor)
        return False


def start_server(plan: Plan) -> subprocess.Popen[bytes]:
    """Start postgres as a child process, so that it ends with the supervisor."""
    rotate(plan.log)
    preset = {"log_error_verbosity": "terse"}  # details contain keys and receipts
    fixed = {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700", "cluster_name": "duly"}
    options = [f"{name}={value}" for name, value in {**preset, **plan.settings, **fixed}.items()]
    command = [plan.binaries.program("postgres"), "-D", plan.data, "-k", plan.sockets]
    with open_private(plan.log) as log:
        return subprocess.Popen(
            [*command, *(argument for option in options for argument in ("-c", option))],
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent(signal.SIGINT),
            **plan.account.subprocess_identity(),
        )


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Build the hook that makes Linux signal the child when its parent dies; SIGINT is a fast shutdown of postgres."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    set_parent_death_signal = 1

    def request_signal() -> None:
        prctl(set_parent_death_signal, int(number))

    return request_signal


def environment() -> dict[str, str]:
    """Return the environment without variables that affect the server: libpq's and the locale."""
    removed = ("PG", "LC_", "LANG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def open_private(path: Path) -> IO[bytes]:
    """Open a file for appending that only its owner can read."""
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
    os.fchmod(file.fileno(), 0o600)
    return file


def rotate(log: Path) -> None:
    """Rotate a log that is too large: its end becomes the old generation.

    It is truncated in place, because the server keeps appending to the same file.
    """
    try:
        if log.stat().st_size <= MAX_LOG_BYTES:
            return
    except FileNotFoundError:
        return
    draft = log.with_suffix(".log.new")
    draft.unlink(missing_ok=True)
    with log.open("rb") as full, open_private(draft) as old:
        full.seek(-MAX_LOG_BYTES, os.SEEK_END)
        shutil.copyfileobj(full, old)
    draft.replace(log.with_suffix(".log.1"))
    os.truncate(log, 0)


def write_log(message: str) -> None:
    """Write one line to the supervisor's log."""
    print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {message}", flush=True)


if __name__ == "__main__":
    main()
