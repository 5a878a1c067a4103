"""The HTTP server we run: uvicorn, with limits for those who have not said yet what they want.

the head of a request comes within HEADER_SECONDS, or the connection is closed (408)
a process has a limited number of connections; at the limit the one that has waited longest for its head gives way
a head with both Content-Length and Transfer-Encoding, or with lines that end in LF alone, is refused (400), and the
connection closed: a proxy in front of us might see another request there than we do
"""

import asyncio
import re
import resource
import time
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from duly.logging import get_log

__all__ = ["HEADER_SECONDS", "MAX_CONNECTIONS", "GuardedProtocol", "max_connections", "server_config"]

HEADER_SECONDS = 10.0
MAX_CONNECTIONS = 1000
RESERVED_DESCRIPTORS = 128  # for the database, files and child processes
MAX_HEAD_BYTES = 64 * 1024
LOG_SECONDS = 60.0
GRACE_SECONDS = 2
END_OF_HEAD = re.compile(rb"\n\r?\n")
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

log = get_log("duly.http")


def server_config(app: Any, **options: Any) -> uvicorn.Config:
    """How we serve an application."""
    given: dict[str, Any] = {
        "http": GuardedProtocol,
        "ws": "none",
        "log_config": None,
        "log_level": "warning",
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "server_header": False,
        "proxy_headers": False,  # who asks is the one at the other end; a header can say anything
        "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
    }
    return uvicorn.Config(app, **(given | options))


def max_connections() -> int:
    """How many connections this process takes: fewer where it may not open that many files."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, descriptors - RESERVED_DESCRIPTORS))


class Complaints:
    """Log lines about connections: one a minute, with how many there were."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.told_at: dict[str, float] = {}

    def add(self, event: str, **fields: object) -> None:
        """Count one, and log it unless that was done lately."""
        self.counts[event] = self.counts.get(event, 0) + 1
        now = time.monotonic()
        if now - self.told_at.get(event, -LOG_SECONDS) >= LOG_SECONDS:
            log.warning(event, times=self.counts.pop(event), **fields)
            self.told_at[event] = now


COMPLAINTS = Complaints()


class StrictConnection(h11.Connection):
    """h11, which refuses what two readers might read in two ways."""

    def next_event(self) -> Any:
        """The next event, or RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            refuse_bare_line_feeds(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event


def refuse_bare_line_feeds(received: bytes) -> None:
    """RemoteProtocolError when a line of the head ends without CR."""
    end = END_OF_HEAD.search(received)
    if BARE_LINE_FEED.search(received, 0, end.end() if end else len(received)):
        raise h11.RemoteProtocolError("a line of the head ends in LF alone")


class GuardedProtocol(H11Protocol):
    """One connection, with a time limit for the head of each request."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = StrictConnection(h11.SERVER, MAX_HEAD_BYTES)
        self.waiting_since: float | None = None  # for the head of a request
        self.head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; at the limit another gives way, or else this one."""
        super().connection_made(transport)
        self.wait_for_head()
        limit = max_connections()
        if len(self.connections) > limit:
            COMPLAINTS.add("too many connections: one was closed", limit=limit, client=str(self.client))
            self.oldest_waiting().abort()

    def oldest_waiting(self) -> "GuardedProtocol":
        """Of the connections that wait for a head the one that has waited longest: this one, if no other."""
        oldest = self
        for each in cast("set[object]", self.connections):
            if isinstance(each, GuardedProtocol) and each.is_waiting and each.since < oldest.since:
                oldest = each
        return oldest

    @property
    def since(self) -> float:
        """Since when it waits."""
        return self.waiting_since if self.waiting_since is not None else float("inf")

    @property
    def is_waiting(self) -> bool:
        """Is the head of a request still to come?"""
        return self.waiting_since is not None

    def data_received(self, data: bytes) -> None:
        """Read on; the clock runs from the first byte of a head to its last."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self.stop_waiting()
        elif not self.is_waiting:
            self.wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self.stop_waiting()
        super().connection_lost(exc)

    def wait_for_head(self) -> None:
        """Start the clock."""
        self.waiting_since = self.loop.time()
        self.head_timer = self.loop.call_later(HEADER_SECONDS, self.give_up)

    def stop_waiting(self) -> None:
        """The head is there, or nobody waits for it any more."""
        self.waiting_since = None
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def give_up(self) -> None:
        """Close a connection whose head did not come in time."""
        COMPLAINTS.add(
            "request header timeout: a connection was closed", seconds=HEADER_SECONDS, client=str(self.client)
        )
        self.stop_waiting()
        self.transport.write(TOO_SLOW)
        self.transport.close()

    def abort(self) -> None:
        """Close it at once."""
        self.stop_waiting()
        self.connections.discard(self)
        self.transport.abort()
