"""Audit-hook sandbox for Apprise plugins: they connect to public addresses only and touch nothing else.

A user's address decides which of some 180 plugins runs, where it connects and which files it reads. Validating the
address beforehand is not enough: DNS may change a moment later, and some plugins read files that the address names. So
an audit hook (PEP 578) checks every event of a context that has a sandbox, in any thread, before it happens. Contexts
without a sandbox are not restricted.
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

READABLE_PREFIXES = tuple(
    os.path.realpath(directory) + os.sep
    for directory in {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
)
PROCESS_EVENTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty")
CONNECT_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOCAL_FILE_REFUSED = "it names a local file"
AUDITED_EVENTS = frozenset({*CONNECT_EVENTS, *PROCESS_EVENTS, "open"})


class PluginSandbox:
    """The limits of one send: the hosts it may reach, what was refused, and its connections, which can be aborted."""

    def __init__(self, is_reachable: Callable[[str], bool]) -> None:
        self.is_reachable = is_reachable
        self.refusal: str | None = None  # why the send cannot work
        self.file_refusal: str | None = None  # only matters if the send failed: some plugins try files they do not need
        self.has_connected = False  # a connection was allowed, so data may have left this machine
        self.peer_connected = False  # the peer accepted a connection
        self.is_aborted = False
        self.connections: list[socket.socket] = []
        self.lock = threading.Lock()

    def connect(self, connection: socket.socket, address: Any) -> None:
        """Allow a connection to a reachable host and keep a duplicate of it; raises PermissionError otherwise."""
        if address is None:  # connected before, and checked then
            return
        host = str(cast("tuple[object, ...]", address)[0]) if isinstance(address, tuple) and address else ""
        with self.lock:
            if self.is_aborted:
                raise PermissionError("the send has timed out")
            if not is_ip_address(host) or not self.is_reachable(host):
                self.refusal = f"it resolves to {host or 'a local socket'}, which is not a public address"
                raise PermissionError(self.refusal)
            self.has_connected = True
            self.connections.append(connection.dup())

    def open(self, path: Any) -> None:
        """Allow files of the Python installation only: modules and certificates."""
        if isinstance(path, int):
            return
        real_path = os.path.realpath(os.fsdecode(path))
        if not real_path.startswith(READABLE_PREFIXES):
            self.file_refusal = LOCAL_FILE_REFUSED
            raise PermissionError(self.file_refusal)

    def run(self, event: str) -> None:
        """Refuse to start a program."""
        self.refusal = "it would start a program on this machine"
        raise PermissionError(f"{self.refusal} ({event})")

    def abort(self) -> None:
        """Shut down all connections and refuse new ones, so that a thread that waits for a response ends."""
        with self.lock:
            self.is_aborted = True
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close our duplicates, and record whether a peer had accepted one of the connections."""
        with self.lock:
            while self.connections:
                with self.connections.pop() as connection, contextlib.suppress(OSError):
                    self.peer_connected = bool(connection.getpeername()) or self.peer_connected


ACTIVE_SANDBOX: ContextVar[PluginSandbox | None] = ContextVar("sandbox", default=None)


@contextlib.contextmanager
def sandboxed(sandbox: PluginSandbox) -> Generator[PluginSandbox, None, None]:
    """Restrict this context, and contexts copied from it, to a sandbox."""
    install_audit_hook()
    token = ACTIVE_SANDBOX.set(sandbox)
    try:
        yield sandbox
    finally:
        ACTIVE_SANDBOX.reset(token)


def audit_hook(
    event: str,
    arguments: tuple[Any, ...],
    audited: frozenset[str] = AUDITED_EVENTS,  # bound as defaults: at interpreter exit the module's globals are gone
    active: ContextVar[PluginSandbox | None] = ACTIVE_SANDBOX,
) -> None:
    """Check an audit event against the sandbox of the context; raising prevents the operation."""
    if event not in audited or (sandbox := active.get()) is None:
        return
    if event in CONNECT_EVENTS:
        sandbox.connect(arguments[0], arguments[1])
    elif event == "open":
        sandbox.open(arguments[0])
    else:
        sandbox.run(event)


def is_ip_address(host: str) -> bool:
    """Return whether this is an IP address and not a host name."""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host.partition("%")[0]))
    return False


install_lock = threading.Lock()
hook_installed = threading.Event()


def install_audit_hook() -> None:
    """Install the audit hook once per process; Python cannot remove it again."""
    with install_lock:
        if not hook_installed.is_set():
            sys.addaudithook(audit_hook)
            hook_installed.set()
