"""The HTTP server: uvicorn, with limits for connections that have not sent a complete request head.

- The head of a request must arrive within HEADER_SECONDS, or the connection is closed (408).
- A process has a limited number of connections; at the limit the one that has waited longest for a head is closed.
- A head with both Content-Length and Transfer-Encoding, or with lines that end in LF alone, is rejected (400), and the
  connection closed: a proxy in front of the server might parse another request from it (request smuggling).
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

HEADER_SECONDS = 10.0
MAX_CONNECTIONS = 1000
RESERVED_DESCRIPTORS = 128  # for the database, files and child processes
MAX_HEAD_BYTES = 64 * 1024
LOG_SECONDS = 60.0
GRACE_SECONDS = 2
END_OF_HEAD = re.compile(rb"\n\r?\n")
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
TIMEOUT_RESPONSE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

log = get_log("duly.http")


def server_config(app: Any, **options: Any) -> uvicorn.Config:
    """Return the configuration of the server for an application."""
    defaults: dict[str, Any] = {
        "http": GuardedProtocol,
        "ws": "none",
        "log_config": None,
        "log_level": "warning",
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "server_header": False,
        "proxy_headers": False,  # the client is the peer of the connection; a header can claim anything
        "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
    }
    return uvicorn.Config(app, **(defaults | options))


def max_connections() -> int:
    """Return the limit of connections, which is lower where the process may open fewer files."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, descriptors - RESERVED_DESCRIPTORS))


class ConnectionLog:
    """Logs events of connections at most once per LOG_SECONDS each, with their number."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.logged_at: dict[str, float] = {}

    def add(self, event: str, **fields: object) -> None:
        """Count an event, and log it unless it was logged recently."""
        self.counts[event] = self.counts.get(event, 0) + 1
        now = time.monotonic()
        if now - self.logged_at.get(event, -LOG_SECONDS) >= LOG_SECONDS:
            log.warning(event, count=self.counts.pop(event), **fields)
            self.logged_at[event] = now


CONNECTION_LOG = ConnectionLog()


class StrictConnection(h11.Connection):
    """An h11 connection that rejects heads which two parsers might parse differently."""

    def next_event(self) -> Any:
        """Return the next event; raises RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            reject_bare_line_feeds(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event


def reject_bare_line_feeds(received: bytes) -> None:
    """Raise RemoteProtocolError when a line of the head ends without CR."""
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
        """Accept a connection; at the limit close the one that has waited longest for a head."""
        super().connection_made(transport)
        self.wait_for_head()
        limit = max_connections()
        if len(self.connections) > limit:
            CONNECTION_LOG.add("http.connection_limit", limit=limit, client=str(self.client))
            self.oldest_waiting().abort()

    def oldest_waiting(self) -> "GuardedProtocol":
        """Return the connection that has waited longest for a head, which may be this one."""
        connections = cast("set[GuardedProtocol]", self.connections)
        waiting = {each: each.waiting_since for each in connections if each.waiting_since is not None}
        return min(waiting, key=waiting.__getitem__, default=self)

    def data_received(self, data: bytes) -> None:
        """Parse data; the time limit applies from the first byte of a head to its last."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self.stop_waiting()
        elif self.waiting_since is None:
            self.wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self.stop_waiting()
        super().connection_lost(exc)

    def wait_for_head(self) -> None:
        """Start the timer for a head."""
        self.waiting_since = self.loop.time()
        self.head_timer = self.loop.call_later(HEADER_SECONDS, self.time_out)

    def stop_waiting(self) -> None:
        """Cancel the timer for a head."""
        self.waiting_since = None
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def time_out(self) -> None:
        """Close a connection whose head did not arrive in time."""
        CONNECTION_LOG.add("http.header_timeout", seconds=HEADER_SECONDS, client=str(self.client))
        self.stop_waiting()
        self.transport.write(TIMEOUT_RESPONSE)
        self.transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.stop_waiting()
        self.connections.discard(self)
        self.transport.abort()
