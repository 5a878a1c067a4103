"""The process that owns the server: starts it, restarts it when it is killed, stops it when nobody uses it.

    python -m duly.db.embedded.supervisor '<plan as JSON>'

Takes the supervisor's lock or leaves it to whoever has it, goes into the background still holding it, and ends with the
server. Standard library only; a few milliseconds of CPU per minute.
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

__all__ = ["MAX_LOG_BYTES", "POST_IS_TAKEN", "main"]

POST_IS_TAKEN = 75  # exit status: there is a supervisor already
POLL_SECONDS = 0.1
RESTART_SECONDS = 0.2
FIRST_START_SECONDS = 5.0
STOP_SECONDS = 60.0
RECOVERY_SECONDS = 120.0
MAX_LOG_BYTES = 8 * 1024 * 1024  # then it becomes the old one, of which there is one


def main() -> None:
    """Become the supervisor of the plan's server, unless there is one."""
    plan = Plan.from_json(sys.argv[1])
    if not take_the_post(plan.supervisor_lock):
        sys.exit(POST_IS_TAKEN)
    go_into_background(plan.supervisor_log)
    try:
        initialise(plan)
        stop_stray_server(plan)
        Supervision(plan).run()
    except Exception as error:
        note(f"gave up: {error}")
        sys.exit(1)


def take_the_post(lock: Path) -> bool:
    """Hold the supervisor's lock for good; tried a few times, for users look at it for an instant."""
    for _ in range(5):
        if hold_exclusive(lock) is not None:
            return True
        time.sleep(0.02)
    return False


def go_into_background(log: Path) -> None:
    """Return in a child of its own session, with its words going to the log; the lock goes along."""
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
    """Create the cluster under another name and rename it when complete: half of one is never found."""
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
    made = subprocess.run(
        command,
        env=environment(),
        cwd="/",
        capture_output=True,
        text=True,
        preexec_fn=end_with_parent(signal.SIGKILL),
        **plan.account.identity(),
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.strip() or made.stdout.strip()}")
    draft.rename(plan.data)
    sync_directory(plan.home)
    note(f"created a PostgreSQL {plan.binaries.version} cluster in {plan.data}")


def sync_directory(path: Path) -> None:
    """Make a rename in this directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def stop_stray_server(plan: Plan) -> None:
    """End a server whose supervisor was killed; forget the note of one that is not running."""
    pid_file = plan.data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().splitlines()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return
    if str(plan.data) not in command_line(pid):
        pid_file.unlink(missing_ok=True)
        return
    note(f"stopping the server {pid} that was left behind")
    for number in (signal.SIGINT, signal.SIGQUIT):
        deadline = time.monotonic() + STOP_SECONDS
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while time.monotonic() < deadline:
            if str(plan.data) not in command_line(pid):
                return
            time.sleep(POLL_SECONDS)


def command_line(pid: int) -> str:
    """What a process was started with; empty when it is gone."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout


class Supervision:
    """One server kept running until nobody uses it or we are told to stop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.told_to_stop = False
        self.unused_since: float | None = None
        signal.signal(signal.SIGTERM, self.stop_soon)

    def stop_soon(self, *_: object) -> None:
        """SIGTERM: stop at the next look."""
        self.told_to_stop = True

    def run(self) -> None:
        """Watch the server and its users; ends with the server stopped."""
        server = start_server(self.plan)
        last_well = time.monotonic()
        patience = FIRST_START_SECONDS
        while not self.told_to_stop and not self.nobody_is_left():
            time.sleep(POLL_SECONDS)
            rotate(self.plan.log)
            if server.poll() is None:
                if time.monotonic() - last_well > 2:
                    last_well, patience = time.monotonic(), RECOVERY_SECONDS
            elif time.monotonic() - last_well > patience:
                raise RuntimeError(f"the server does not start; see {self.plan.log}")
            else:  # killed, or its predecessor's memory is still in use: starting again is crash recovery
                note(f"the server ended with status {server.returncode}; starting it again")
                time.sleep(RESTART_SECONDS)
                server = start_server(self.plan)
        server.send_signal(signal.SIGINT)
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            server.wait()
        note("stopped")

    def nobody_is_left(self) -> bool:
        """True once the server was unused for the linger time; from then on no user can come in between."""
        descriptor = hold_exclusive(self.plan.users_lock)
        if descriptor is None:
            self.unused_since = None
            return False
        now = time.monotonic()
        self.unused_since = self.unused_since or now
        if now - self.unused_since >= self.plan.linger_seconds:
            return True  # keeps the lock to the end: newcomers wait, then start a supervisor of their own
        os.close(descriptor)
        return False


def start_server(plan: Plan) -> subprocess.Popen[bytes]:
    """Start postgres as our child, so that it ends when we do."""
    rotate(plan.log)
    preset = {"log_error_verbosity": "terse"}  # details hold keys and receipts
    fixed = {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700", "cluster_name": "duly"}
    options = [f"{name}={value}" for name, value in {**preset, **plan.settings, **fixed}.items()]
    command = [plan.binaries.program("postgres"), "-D", plan.data, "-k", plan.sockets]
    with open_private(plan.log) as log:
        return subprocess.Popen(
            [*command, *(word for option in options for word in ("-c", option))],
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent(signal.SIGINT),
            **plan.account.identity(),
        )


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """On Linux: have the kernel send the child this signal when we die; to postgres SIGINT means a fast shutdown."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    set_parent_death_signal = 1

    def ask_kernel() -> None:
        prctl(set_parent_death_signal, int(number))

    return ask_kernel


def environment() -> dict[str, str]:
    """The environment without what would bend the server: libpq's variables and the locale."""
    bending = ("PG", "LC_", "LANG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(bending)}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def open_private(path: Path) -> IO[bytes]:
    """Open a file for appending, which nobody else can read."""
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
    os.fchmod(file.fileno(), 0o600)
    return file


def rotate(log: Path) -> None:
    """Keep a log from growing for ever: the end of it becomes the one old generation.

    It is emptied where it stands, because the server goes on writing into the same file, at its end.
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


def note(message: str) -> None:
    """One line for the supervisor's log."""
    print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {message}", flush=True)


if __name__ == "__main__":
    main()
