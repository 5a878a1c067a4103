"""Worker processes, and what every process of a run costs, as the kernel counts it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.ledger.board import Board
from duly.launcher import ROOT

__all__ = ["WorkerProcess", "cpu_seconds_of", "cpu_seconds_of_server", "start_workers", "wait_until"]

TICKS = os.sysconf("SC_CLK_TCK")
USER, SYSTEM, ENDED_USER, ENDED_SYSTEM, PARENT = 11, 12, 13, 14, 1  # places in /proc/<pid>/stat, after the name
STOP_SECONDS = 15.0
WAIT_SECONDS = 600.0
FOREIGN = ("DULY_", "PG", "DATABASE_", "POSTGRES_", "TEST_DATABASE_", "WORKER_")


@dataclass(frozen=True)
class WorkerProcess:
    """A worker that was started, and its board."""

    process: subprocess.Popen[bytes]
    board: Board

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        return cpu_seconds_of(self.process.pid)

    def peak_bytes(self) -> int:
        """The most memory it ever held."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise LookupError("this kernel does not tell a process's peak memory")


@contextmanager
def start_workers(side: str, dsn: str, processes: int, numbers: int) -> Generator[Sequence[WorkerProcess], None, None]:
    """So many worker processes of a side; stopped politely afterwards, and killed if they do not go."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as directory, ExitStack() as stack:
        workers: list[WorkerProcess] = []
        for nth in range(processes):
            path = Path(directory) / f"board-{nth}"
            board = Board.make(path, numbers)
            workers.append(WorkerProcess(start(side, dsn, path, numbers), board))
            stack.callback(stop, workers[-1].process)
        yield workers


def start(side: str, dsn: str, path: Path, numbers: int) -> subprocess.Popen[bytes]:
    """One worker process, in an environment that says nothing about databases."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    command = [sys.executable, "-m", "bench.ledger.worker", side, dsn, str(path), str(numbers)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a worker."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(
    is_so: Callable[[], bool], workers: Sequence[WorkerProcess], what: str, pause_seconds: float = 0.001
) -> None:
    """Look again and again; a worker that has gone, or a long time, ends it with an error."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if any(worker.process.poll() is not None for worker in workers):
            raise RuntimeError(f"a worker ended while we waited for: {what}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not happen in {WAIT_SECONDS:.0f} s: {what}")
        time.sleep(pause_seconds)


def cpu_seconds_of(pid: int) -> float:
    """User and system time of one process."""
    fields = stat_of(pid)
    return (int(fields[USER]) + int(fields[SYSTEM])) / TICKS


def cpu_seconds_of_server(backend: int) -> float:
    """The time of every process of a server, those that have ended included; known by one of its backends."""
    postmaster = int(stat_of(backend)[PARENT])
    fields = stat_of(postmaster)
    ticks = sum(int(fields[place]) for place in (USER, SYSTEM, ENDED_USER, ENDED_SYSTEM))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = stat_of(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            if int(fields[PARENT]) == postmaster:
                ticks += int(fields[USER]) + int(fields[SYSTEM])
    return ticks / TICKS


def stat_of(pid: int) -> list[str]:
    """What the kernel says about a process, from its state on; the name before it may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
