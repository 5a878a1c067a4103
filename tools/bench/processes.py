"""Processes of a run, and the CPU time and memory of each, as the kernel counts them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from duly.launcher import ROOT

TICKS = os.sysconf("SC_CLK_TCK")
USER, SYSTEM, ENDED_USER, ENDED_SYSTEM, PARENT = 11, 12, 13, 14, 1  # places in /proc/<pid>/stat, after the name
STOP_SECONDS = 15.0
WAIT_SECONDS = 600.0
FOREIGN = ("DULY_", "PG", "DATABASE_", "POSTGRES_", "TEST_DATABASE_", "WORKER_", "R2_", "S3_", "AWS_")


@dataclass(frozen=True)
class Process:
    """A process that was started."""

    process: subprocess.Popen[bytes]

    def cpu_seconds(self) -> float:
        """Read the CPU time that it has used so far."""
        fields = read_stat(self.process.pid)
        return (int(fields[USER]) + int(fields[SYSTEM])) / TICKS

    def peak_bytes(self) -> int:
        """Read the most memory it ever held."""
        return read_peak_bytes(self.process.pid)


def launch(
    module: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
    python: str = sys.executable,
    output: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a module as a program, without addresses of other databases in its environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    with output.open("wb") if output else nullcontext() as file:
        return subprocess.Popen(
            [python, "-m", module, *words],
            cwd=ROOT,
            env={**kept, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=file or sys.stderr,  # stdout is for the figures
            stderr=file,
            pass_fds=descriptors,
        )


@contextmanager
def running(
    module: str, *words: str, environment: Mapping[str, str] | None = None, descriptors: Sequence[int] = ()
) -> Generator[Process, None, None]:
    """Run a module as a program; terminated afterwards, and killed if it does not end."""
    process = launch(module, *words, environment=environment, descriptors=descriptors)
    try:
        yield Process(process)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(
    is_so: Callable[[], bool], processes: Sequence[Process], what: str, pause_seconds: float = 0.001
) -> None:
    """Poll until something is so; raise when a process ended, or after ten minutes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if any(each.process.poll() is not None for each in processes):
            raise RuntimeError(f"a process ended while we waited for: {what}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not happen in {WAIT_SECONDS:.0f} s: {what}")
        time.sleep(pause_seconds)


@dataclass(frozen=True)
class ServerCpu:
    """The CPU time of a server's processes at one moment: of each that is alive, and of all that have ended."""

    alive: Mapping[int, float]
    ended: float

    def seconds_since(self, earlier: Self) -> float:
        """Return what the server used since an earlier moment.

        A process that ended meanwhile moved its whole CPU time, also that of long before, to those that ended: what it
        had used at the earlier moment is subtracted, or the client that enqueued would be charged to the workers.
        """
        used = sum(seconds - earlier.alive.get(pid, 0.0) for pid, seconds in self.alive.items())
        before = sum(seconds for pid, seconds in earlier.alive.items() if pid not in self.alive)
        return used + max(0.0, self.ended - earlier.ended - before)


def read_server_cpu(backend: int) -> ServerCpu:
    """Read the CPU time of every process of a server, which is known by one of its backends."""
    postmaster = int(read_stat(backend)[PARENT])
    alive: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            pid = int(entry.name)
            try:
                if pid == postmaster or int(read_stat(pid)[PARENT]) == postmaster:
                    alive[pid] = read_cpu_seconds(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    fields = read_stat(postmaster)
    return ServerCpu(alive, (int(fields[ENDED_USER]) + int(fields[ENDED_SYSTEM])) / TICKS)


def read_cpu_seconds(pid: int) -> float:
    """Read what a process of one thread has used, to the nanosecond where this kernel counts so."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        fields = read_stat(pid)
        return (int(fields[USER]) + int(fields[SYSTEM])) / TICKS


def read_peak_bytes(pid: int | Literal["self"]) -> int:
    """Read the most memory that a process ever held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError("this kernel does not tell a process's peak memory")


def read_stat(pid: int) -> list[str]:
    """Read what the kernel says about a process, from its state on; the name before it may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
