"""A pool of workers of one name, forked from a warm parent, which a test starts, waits for, stops and kills."""

import os
import re
import select
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from duly.lease.work import Tuning, Work
from duly.logging import configure_logs
from duly.settings import load_settings
from duly.worker.runner import run_worker
from tests.support.forking import ROOT, ForkedProcess, Request
from tests.support.processes import SECONDS, plain_environment, print_line

READ_BYTES = 1024 * 1024  # more than a pipe holds: one read takes all that was written before
SHOWN_LINES = 200  # of each stream, where a test fails
LEASE_LOST = '"event":"lease.lost"'

WorkerSettings = dict[str, str]


# In a worker ----------------------------------------------------------------------------------------------------------


def run(works: Callable[[WorkerSettings], Sequence[Work]]) -> None:
    """Run a worker as this process, with the arguments `<dsn> [setting=value ...]`, until it is stopped.

    Logs go to standard error; `ready`, what handlers print and `end` go to standard output.
    """
    dsn, *given = sys.argv[1:]
    worker_settings = dict(each.split("=", 1) for each in given)
    settings = load_settings()
    configure_logs(settings, sys.stderr)
    chosen = works(worker_settings)
    assert not worker_settings, f"unknown settings of a worker: {', '.join(worker_settings)}"
    print_line("ready")
    run_worker(chosen, settings, dsn=dsn)
    print_line("end")


def with_tuning(tuning: Tuning, settings: WorkerSettings) -> Tuning:
    """Take what belongs to a pace out of the settings, and change the pace accordingly."""
    changes = {name: settings.pop(name) for name in list(settings) if hasattr(tuning, name)}
    return replace(tuning, **{name: type(getattr(tuning, name))(value) for name, value in changes.items()})


# In a test: many workers ----------------------------------------------------------------------------------------------


class SharedPipe:
    """A pipe that all workers of a pool write to, line by line."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.is_at_end = False
        self.partial = b""

    def read_lines(self) -> list[str]:
        """Everything that was written since, as far as its lines are complete."""
        with suppress(BlockingIOError):
            received = os.read(self.read_end, READ_BYTES)
            self.is_at_end = not received
            *lines, self.partial = (self.partial + received).split(b"\n")
            return [line.decode(errors="replace") for line in lines]
        return []


class Output:
    """What the workers of a pool write and how each ended; a thread reads it, so that no worker waits for a test."""

    def __init__(self) -> None:
        self.stdout, self.stderr = SharedPipe(), SharedPipe()
        self.workers: dict[int, ForkedProcess] = {}
        self.lines: list[tuple[int, str]] = []  # on standard output, until a test took them: the process id, the text
        self.errors: list[str] = []
        self.failure: BaseException | None = None  # of the thread
        self.changed = threading.Condition()
        self.epoll = select.epoll()
        for pipe in (self.stdout, self.stderr):
            self.epoll.register(pipe.read_end, select.EPOLLIN)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def add(self, worker: ForkedProcess) -> None:
        """Watch for the end of a worker, too; the kernel allows it while the thread waits."""
        with self.changed:
            self.workers[worker.pid] = worker
        self.epoll.register(worker.status, select.EPOLLIN)

    @property
    def running(self) -> list[int]:
        """The workers that have not ended."""
        return [pid for pid, worker in list(self.workers.items()) if worker.returncode is None]

    def _read(self) -> None:
        """Read until we hold the only ends of standard output, and closed ours."""
        try:
            while not self.stdout.is_at_end:
                self._read_once({descriptor for descriptor, _ in self.epoll.poll()})
        except BaseException as error:
            self.failure = error
        with self.changed:
            self.changed.notify_all()

    def _read_once(self, ready: set[int]) -> None:
        """Read what is there, and only then who ended: all they wrote was there before."""
        lines, errors = self.stdout.read_lines(), self.stderr.read_lines()
        with self.changed:
            self.lines += [(int(pid), text) for pid, _, text in (line.partition(" ") for line in lines)]
            self.errors += errors
            for pid in self.running:
                if self.workers[pid].status in ready:
                    self.epoll.unregister(self.workers[pid].status)
                    self.workers[pid].wait()
            self.changed.notify_all()

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait for something that a worker writes or does, for a minute at most; the lock must be held."""
        self.changed.wait_for(lambda: is_true() or self.failure, SECONDS)
        if self.failure:
            raise self.failure

    def explain(self, problem: str) -> str:
        """A problem, and what a person wants to know then."""
        lines = "\n".join(f"{pid} {text}" for pid, text in self.lines[-SHOWN_LINES:])
        errors = "\n".join(self.errors[-SHOWN_LINES:])
        return f"{problem}; {len(self.running)} workers run\nunread lines:\n{lines}\nstandard error:\n{errors}"

    def close(self) -> None:
        """Let the thread end, and give everything back; what was read stays."""
        for pipe in (self.stdout, self.stderr):
            os.close(pipe.write_end)
        self.thread.join(SECONDS)
        self.epoll.close()
        for pipe in (self.stdout, self.stderr):
            os.close(pipe.read_end)


class WorkerPool:
    """Workers of one name, started and ended as a test likes; each line they write begins with their process id.

    A wait ends after a minute at the latest, and at once when no process is left that could end it; it then
    fails with the processes' standard error.
    """

    module: str  # whose `main()` a worker runs

    def __init__(self, dsn: str, *settings: str, **environment: str) -> None:
        self.arguments = (dsn, *settings)
        self.environment = plain_environment(**{"PYTHONPATH": ROOT, "WORKER_ID": "worker-1", **environment})
        self.output = Output()

    def start(self, *settings: str, **environment: str) -> int:
        """Start a worker, with settings and variables of its own beside the pool's; its process id."""
        variables = {**self.environment, **environment}
        request = Request(self.module, [*self.arguments, *settings], variables, has_shared_streams=True)
        with open(os.devnull) as nothing:  # noqa: PTH123
            streams = [nothing.fileno(), self.output.stdout.write_end, self.output.stderr.write_end]
            worker = ForkedProcess((self.module,), request, streams)
        self.output.add(worker)
        return worker.pid

    @property
    def running(self) -> list[int]:
        """The workers that have not ended."""
        return self.output.running

    @property
    def unread(self) -> list[tuple[int, str]]:
        """The lines that no test has waited for yet."""
        return list(self.output.lines)

    def wait_for(self, matches: Callable[[int, str], bool], pids: Sequence[int] | None = None) -> tuple[int, str]:
        """Wait for a line that matches, of any worker or of these alone, and take it; the others stay."""
        output = self.output

        def find() -> int | None:
            return next((nth for nth, line in enumerate(output.lines) if matches(*line)), None)

        def can_come() -> bool:
            return any(pids is None or pid in pids for pid in output.running)

        with output.changed:
            output.wait_until(lambda: find() is not None or not can_come())
            nth = find()
            assert nth is not None, output.explain("the line did not come")
            return output.lines.pop(nth)

    def wait_for_line(self, pid: int, beginning: str = "") -> str:
        """Wait for a line of this worker that begins so, and take it."""
        return self.wait_for(lambda by, text: by == pid and text.startswith(beginning), [pid])[1]

    def exit_status(self, pid: int) -> int:
        """Wait until a worker has ended, however; its exit status, negative for a signal."""
        with self.output.changed:
            self.output.wait_until(lambda: pid not in self.running)
            status = self.output.workers[pid].returncode
            assert status is not None, self.output.explain(f"worker {pid} did not end")
        return status

    def kill(self, pid: int) -> None:
        """kill -9, and wait until it is gone."""
        self._signal(pid, signal.SIGKILL)
        self.exit_status(pid)

    def stop(self, pid: int) -> None:
        """SIGTERM, and wait until it has stopped in peace."""
        self._signal(pid, signal.SIGTERM)
        self.wait_for_line(pid, "end")
        assert self.exit_status(pid) == 0

    def _signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal, unless the worker ended."""
        if pid in self.running:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def logged(self, text: str) -> list[tuple[int, str]]:
        """Every line of the workers' logs that contains a text: the process id, the line."""
        found = [re.match(r"(\d+) (.*)", line) for line in list(self.output.errors) if text in line]
        return [(int(line[1]), line[2]) for line in found if line]

    def lost_leases(self) -> Counter[int]:
        """How many leases each worker found lost, by its own log."""
        return Counter(pid for pid, _ in self.logged(LEASE_LOST))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = self.running
        for pid in left:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        try:
            for pid in left:
                self.exit_status(pid)
        finally:
            self.output.close()
