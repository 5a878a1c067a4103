"""Code of many authors, kept on a leash while it sends: it connects to public addresses only, and touches nothing else.

An address that a person gave decides which of some 180 plugins runs, where it connects and what it reads. Checking the
address beforehand would not do: a name leads elsewhere a moment later, and some plugins read files that the address
names. So the interpreter itself is asked, by its audit events (PEP 578): whatever a plugin does in the context that
holds a leash, in whichever thread, is seen before it happens. Code that holds none is not looked at.
"""

import contextlib
import ipaddress
import os
import socket
import sys
import sysconfig
import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, cast

__all__ = ["A_FILE", "HELD", "Leash", "is_address", "leashed"]

READABLE = tuple(
    os.path.realpath(place) + os.sep
    for place in {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
)
PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty")
CONNECTIONS = ("socket.connect", "socket.sendto", "socket.sendmsg")
A_FILE = "it names a file of this machine"
WATCHED = frozenset({*CONNECTIONS, *PROGRAMS, "open"})


class Leash:
    """What one send may reach, what it was kept from, and its connections, which can be cut."""

    def __init__(self, may_reach: Callable[[str], bool]) -> None:
        self.may_reach = may_reach
        self.refused: str | None = None  # why it cannot work
        self.file: str | None = None  # likewise, if it did not: some look for a file that they do not need
        self.was_out = False  # something left this machine, or may have
        self.was_heard = False  # somebody at the other end took the connection
        self.is_cut = False
        self.connections: list[socket.socket] = []
        self.turn = threading.Lock()

    def connect(self, its: socket.socket, address: Any) -> None:
        """Let a connection through to where it may go, and keep a handle of our own to it."""
        if address is None:  # connected before, and seen then
            return
        host = str(cast("tuple[object, ...]", address)[0]) if isinstance(address, tuple) and address else ""
        with self.turn:
            if self.is_cut:
                raise PermissionError("its time is over")
            if not is_address(host) or not self.may_reach(host):
                self.refused = f"it leads to {host or 'a socket of this machine'}, which is not a public address"
                raise PermissionError(self.refused)
            self.was_out = True
            self.connections.append(its.dup())

    def open(self, path: Any) -> None:
        """Let files of Python's own be read: modules, certificates. Nothing else is a plugin's business."""
        if isinstance(path, int):
            return
        whole = os.path.realpath(os.fsdecode(path))
        if not whole.startswith(READABLE):
            self.file = A_FILE
            raise PermissionError(self.file)

    def run(self, event: str) -> None:
        """No program is started."""
        self.refused = "it would start a program on this machine"
        raise PermissionError(f"{self.refused} ({event})")

    def cut(self) -> None:
        """End all of its connections, and let it make no more: a thread that waits for an answer goes on, and ends."""
        with self.turn:
            self.is_cut = True
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of our handles; a connection that was taken still knows by whom."""
        with self.turn:
            while self.connections:
                with self.connections.pop() as connection, contextlib.suppress(OSError):
                    self.was_heard = bool(connection.getpeername()) or self.was_heard


HELD: ContextVar[Leash | None] = ContextVar("leash", default=None)


@contextlib.contextmanager
def leashed(leash: Leash) -> Generator[Leash, None, None]:
    """Hold what happens in here, and in contexts that are copied from here."""
    watch()
    before = HELD.set(leash)
    try:
        yield leash
    finally:
        HELD.reset(before)


def see(
    event: str,
    arguments: tuple[Any, ...],
    watched: frozenset[str] = WATCHED,  # bound here: an interpreter that ends still calls us when our names are gone
    held: ContextVar[Leash | None] = HELD,
) -> None:
    """Called by the interpreter before each thing that it announces; raising keeps it from happening."""
    if event not in watched or (leash := held.get()) is None:
        return
    if event in CONNECTIONS:
        leash.connect(arguments[0], arguments[1])
    elif event == "open":
        leash.open(arguments[0])
    else:
        leash.run(event)


def is_address(host: str) -> bool:
    """Is this a number, as everything is that is connected to once its name was looked up?"""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host.partition("%")[0]))
    return False


once = threading.Lock()
watching = threading.Event()


def watch() -> None:
    """Have the interpreter ask us, from the first time on; it cannot be told to stop."""
    with once:
        if not watching.is_set():
            sys.addaudithook(see)
            watching.set()
