"""Processes of a run, and what each of them costs, as the kernel counts it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
        """What it has used so far."""
        fields = stat_of(self.process.pid)
        return (int(fields[USER]) + int(fields[SYSTEM])) / TICKS

    def peak_bytes(self) -> int:
        """The most memory it ever held."""
        return peak_bytes_of(self.process.pid)


def launch(
    module: str, *words: str, environment: Mapping[str, str] | None = None, descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """A module as a program, in an environment that says nothing about databases but what is said here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env={**kept, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # ours is for what was measured
        pass_fds=descriptors,
    )


@contextmanager
def running(
    module: str, *words: str, environment: Mapping[str, str] | None = None, descriptors: Sequence[int] = ()
) -> Generator[Process, None, None]:
    """A module as a program for as long as this; stopped politely afterwards, and killed if it does not go."""
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
    """Look again and again; a process that has gone, or a long time, ends it with an error."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if any(each.process.poll() is not None for each in processes):
            raise RuntimeError(f"a process ended while we waited for: {what}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not happen in {WAIT_SECONDS:.0f} s: {what}")
        time.sleep(pause_seconds)


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


def peak_bytes_of(pid: int | Literal["self"]) -> int:
    """The most memory a process ever held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError("this kernel does not tell a process's peak memory")


def stat_of(pid: int) -> list[str]:
    """What the kernel says about a process, from its state on; the name before it may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
