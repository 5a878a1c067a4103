"""Programs forked from a warm parent: it has imported what they need, so a fresh one costs milliseconds.

    a test process                      the parent                      a child
    --------------                      ----------                      -------
    ForkedProgram, WorkerPool  ------>  imports once, then forks  --->  its own session, environment and streams;
      ForkedProcess            <------  a child per request             then `main()` of its module, with sys.argv
                         pid, exit status

A test process has one parent per set of imports. A parent ends with its test process, a child with its parent. Modules
may define `warm_up()`: the parent calls it once, before it forks. What a fork does not show is that a program can be
imported from nothing; tests of commands start those as `Program`.
"""

import importlib
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import TextIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, TextIO, cast

from duly.crashpoint import VARIABLE, arm
from duly.executors.child import exit_when_orphaned
from tests.support.processes import PYTHON, SECONDS, Program, plain_environment

ROOT = str(Path(__file__).parents[2])
CONFORMANCE = ("tests.support.conformance.worker", "tests.support.conformance.claim_all")
ONLY_AT_EXEC = ("LD_", "FAKETIME", "TZ")  # variables that the loader and the C library read once: a fork is too late
MAX_REQUEST_BYTES = 128 * 1024
STREAMS = 3
REPORT = struct.Struct("?i")  # on the status channel: (False, process id) at the start, (True, exit status) at the end


# In a child, before its program runs ----------------------------------------------------------------------------------


class PrefixedStream(TextIOBase):
    """A stream that several processes share: every line begins with our process id.

    A line is one write of at most PIPE_BUF bytes, which a pipe takes whole: lines of several workers never mix, and
    kill -9 leaves no half of one. A longer line goes on in the next, after the process id again.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.prefix = f"{os.getpid()} ".encode()
        self.max_bytes = select.PIPE_BUF - len(self.prefix) - 1

    def fileno(self) -> int:
        return self.descriptor

    def write(self, text: str, /) -> int:
        for line in text.encode(errors="replace").splitlines():
            for start in range(0, len(line), self.max_bytes):
                os.write(self.descriptor, self.prefix + line[start : start + self.max_bytes] + b"\n")
        return len(text)


class Request(NamedTuple):
    """What a child is to run; sent as JSON."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    has_shared_streams: bool


def run_child(request: Request, streams: Sequence[int], status: int, parent: int, unwanted: Sequence[int]) -> NoReturn:
    """Become the program of a request, and end as it ends."""
    exit_status = 1
    try:
        for descriptor in unwanted:
            os.close(descriptor)
        detach_from(parent, streams, status)
        set_up(request)
        entry_point(request.module)()
        exit_status = 0
    except SystemExit as end:
        exit_status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):  # the reader is gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_status)


def detach_from(parent: int, streams: Sequence[int], status: int) -> None:
    """Take a session and streams of our own, then report our process id: from now on the group can be killed."""
    os.setsid()
    exit_when_orphaned(parent)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.write(status, REPORT.pack(False, os.getpid()))
    os.close(status)


def set_up(request: Request) -> None:
    """Replace what a fork inherits: the environment, the arguments, the random numbers, the streams of a pool."""
    os.environ.clear()
    os.environ.update(request.environment)
    random.seed()
    sys.argv = [request.module, *request.arguments]
    if point := request.environment.get(VARIABLE):
        arm(point)
    if request.has_shared_streams:
        sys.stdout, sys.stderr = (cast("TextIO", PrefixedStream(descriptor)) for descriptor in (1, 2))


def entry_point(module: str) -> Callable[[], None]:
    """Find `main()` of a module; of a package, as `python -m` does, that of its `__main__`."""
    found = importlib.import_module(module)
    return (importlib.import_module(f"{module}.__main__") if hasattr(found, "__path__") else found).main


# In the parent --------------------------------------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Fork a child for every request and report how each ended, until the test process is gone."""
    children: dict[int, tuple[int, int]] = {}  # by its pidfd: the process id of a child, and its status channel
    while True:
        ready, _, _ = select.select([control, *children], [], [])
        for pidfd in children.keys() & set(ready):
            report_exit(*children.pop(pidfd))
            os.close(pidfd)
        if control not in ready:
            continue
        received, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, STREAMS + 1)
        if not received:
            return
        *streams, status = descriptors
        request, parent = Request(*json.loads(received)), os.getpid()
        if (pid := os.fork()) == 0:
            unwanted = [control.detach(), *children, *(other for _, other in children.values())]
            run_child(request, streams, status, parent, unwanted)
        for stream in streams:
            os.close(stream)
        children[os.pidfd_open(pid)] = pid, status


def report_exit(pid: int, status: int) -> None:
    """Report the exit status of a child that ended, negative for a signal; its test may be over."""
    _, wait_status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(status, REPORT.pack(True, os.waitstatus_to_exitcode(wait_status)))
    os.close(status)


def main(modules: Sequence[str]) -> None:
    """Be a parent that has imported these modules; requests come by the socket on standard input."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # children inherit it, whatever the test process had blocked
    for module in map(importlib.import_module, modules):
        getattr(module, "warm_up", lambda: None)()
    serve(socket.socket(fileno=os.dup(0)))


# In a test: one process -----------------------------------------------------------------------------------------------


class Parent(NamedTuple):
    """A forking parent, as its test process knows it."""

    process: subprocess.Popen[bytes]
    control: socket.socket


@cache
def parent_for(_test_process: int, imports: tuple[str, ...], at_exec: tuple[tuple[str, str], ...]) -> Parent:
    """Start the parent of this test process for these imports, when it is first needed; it ends with us."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [*PYTHON, "-m", "tests.support.forking", *imports],
        env=plain_environment(PYTHONPATH=path, **dict(at_exec)),
        cwd=ROOT,
        stdin=theirs.fileno(),
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the test process alone
    )
    theirs.close()
    return Parent(process, ours)


class ForkedProcess:
    """A child of a forking parent, with what `Popen` has of it that tests use."""

    stdin: IO[str] | None = None
    stdout: IO[str] | None = None
    stderr: IO[str] | None = None

    def __init__(self, imports: tuple[str, ...], request: Request, streams: Sequence[int]) -> None:
        at_exec = {name: value for name, value in request.environment.items() if name.startswith(ONLY_AT_EXEC)}
        self.parent = parent_for(os.getpid(), imports, tuple(sorted(at_exec.items())))
        self.returncode: int | None = None
        self.status, status = os.pipe()
        try:
            message = json.dumps(request).encode()
            assert len(message) <= MAX_REQUEST_BYTES, f"a request of {len(message)} bytes; too many"
            socket.send_fds(self.parent.control, [message], [*streams, status])
        finally:
            os.close(status)
        has_ended, self.pid = self._receive_report(SECONDS)
        assert not has_ended, f"the child ended with status {self.pid} before it ran {request.module}"

    def _receive_report(self, seconds: float | None) -> tuple[bool, int]:
        """Wait for the next report of the parent."""
        if not select.select([self.status], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired("a forked process", seconds or 0)
        received = os.read(self.status, REPORT.size)
        if not received:
            raise ChildProcessError(f"the forking parent ended with status {self.parent.process.wait(SECONDS)}")
        return REPORT.unpack(received)

    def poll(self) -> int | None:
        """The exit status, if it ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ended; the exit status, negative for a signal."""
        if self.returncode is None:
            _, self.returncode = self._receive_report(timeout)
            os.close(self.status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


class ForkedProgram(Program):
    """A program with streams of its own, as `Program`, but forked: `main()` of a module runs with these arguments."""

    imports = CONFORMANCE

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        variables = plain_environment(**{"PYTHONPATH": ROOT, **environment})
        super().__init__([module, *arguments], environment=variables)

    def start(self, command: Sequence[str], environment: Mapping[str, str], directory: Path | None) -> Any:
        """Have it forked."""
        assert directory is None, "a forked program runs where its parent does"
        module, *arguments = command
        (stdin, our_stdin), (our_stdout, stdout), (our_stderr, stderr) = (os.pipe() for _ in range(STREAMS))
        request = Request(module, arguments, environment, has_shared_streams=False)
        try:
            process = ForkedProcess(self.imports, request, [stdin, stdout, stderr])
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
        process.stdin = os.fdopen(our_stdin, "w")
        process.stdout, process.stderr = os.fdopen(our_stdout), os.fdopen(our_stderr)
        return process


if __name__ == "__main__":
    main(sys.argv[1:])
