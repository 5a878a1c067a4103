"""A warm parent: it has imported what our programs import, and forks one whenever it is asked, in milliseconds.

    python -m tests.support.warm MODULE…        asked by a socket on standard input

A program that was forked is a process like any other: a session, an environment and streams of its own, and an exit
status. What it does not show is that it can be imported from nothing; tests of commands start those the usual way.
"""

import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import IO

from duly.kernel.crashpoint import VARIABLE, arm
from tests.support.processes import PYTHON, Program, plain_environment

__all__ = ["WarmProgram"]

LAWS = ("duly.worker.runtime", "tests.laws.tables", "tests.support.law_work")
LARGEST = 65536
STREAMS = 3
ENDED_BY_US = 1


# In the parent --------------------------------------------------------------------------------------------------------


def be_a_parent(door: socket.socket) -> None:
    """Fork whatever is asked for, and tell of every end, until nobody can ask any more."""
    ended, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.set_wakeup_fd(noted)
    signal.signal(signal.SIGCHLD, hear)
    tell_to: dict[int, int] = {}  # where the end of each child is told
    while True:
        ready, _, _ = select.select([door, ended], [], [])
        if ended in ready:
            os.read(ended, LARGEST)
            tell_of_ends(tell_to)
        if door in ready:
            asked, descriptors, _, _ = socket.recv_fds(door, LARGEST, STREAMS + 1)
            if not asked:
                return
            *streams, status = descriptors
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (door.detach(), ended, noted, status, *tell_to.values()):
                    os.close(descriptor)
                be_a_program(streams, **json.loads(asked))
            for stream in streams:
                os.close(stream)
            tell_to[pid] = status
            os.write(status, f"{pid}\n".encode())


def hear(_number: int, _frame: FrameType | None) -> None:
    """A child ended: the loop is woken, and looks."""


def tell_of_ends(tell_to: dict[int, int]) -> None:
    """The exit status of every child that ended, to whoever started it."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            descriptor = tell_to.pop(pid)
            with suppress(BrokenPipeError):  # its test is over
                os.write(descriptor, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(descriptor)


def be_a_program(streams: Sequence[int], module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """What `python -m module arguments` does, from here on."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    if point := environment.get(VARIABLE):
        arm(point)
    sys.argv = [module, *arguments]
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = ENDED_BY_US
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


# In a test ------------------------------------------------------------------------------------------------------------


@cache
def parent_of(_process: int, imports: tuple[str, ...]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The parent of this process that has imported these, started when it is first needed; it goes with us."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))  # noqa: PTH109
    environment = plain_environment(PYTHONPATH=path)
    parent = subprocess.Popen([*PYTHON, "-m", "tests.support.warm", *imports], stdin=its.fileno(), env=environment)
    its.close()
    return ours, parent


class Forked:
    """A program that somebody else forked for us, with what `Popen` has of it that we use."""

    def __init__(
        self, imports: tuple[str, ...], module: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        streams = [os.pipe() for _ in range(STREAMS)]
        (its_input, our_input), (our_output, its_output), (our_errors, its_errors) = streams
        self.status, its_status = os.pipe()
        asked = json.dumps({"module": module, "arguments": arguments, "environment": environment})
        given = [its_input, its_output, its_errors, its_status]
        socket.send_fds(parent_of(os.getpid(), imports)[0], [asked.encode()], given)
        for descriptor in given:
            os.close(descriptor)
        self.stdin: IO[str] | None = os.fdopen(our_input, "w")
        self.stdout: IO[str] | None = os.fdopen(our_output)
        self.stderr: IO[str] | None = os.fdopen(our_errors)
        self.told = ""
        self.returncode: int | None = None
        while "\n" not in self.told:
            self.told += os.read(self.status, LARGEST).decode()
        first, self.told = self.told.split("\n", 1)
        self.pid = int(first)

    def poll(self) -> int | None:
        """Its exit status, if it ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended."""
        while self.returncode is None:
            if "\n" in self.told:
                self.returncode = int(self.told)
                os.close(self.status)
                break
            if not select.select([self.status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            said = os.read(self.status, LARGEST).decode()
            assert said, "the warm parent ended"
            self.told += said
        return self.returncode

    def send_signal(self, number: int) -> None:
        """A signal, unless it is gone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


class WarmProgram(Program):
    """A module of ours that is run as a program, by a parent that has imported all it needs."""

    imports = LAWS

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        more = {"PYTHONPATH": os.getcwd(), **environment}  # noqa: PTH109
        super().__init__([module, *arguments], environment=plain_environment(**more))

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], directory: object
    ) -> subprocess.Popen[str] | Forked:
        """Have it forked."""
        assert directory is None, "where we are is where it is"
        return Forked(self.imports, command[0], command[1:], environment)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        importlib.import_module(each)
    be_a_parent(socket.socket(fileno=os.dup(0)))
