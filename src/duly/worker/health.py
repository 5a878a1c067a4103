"""Serves /healthz, /readyz and /metrics of a worker over HTTP.

The server has threads of its own and needs no event loop, so it answers while both loops of the worker are blocked,
which is when it matters. Everything is bounded: sixteen connections, of which the oldest is closed for a new one, five
seconds for each, one request per connection, the limits of `http.server` on lines and headers.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from socketserver import ThreadingTCPServer
from typing import Any, Protocol, cast

import orjson
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from duly.errors import PortTaken
from duly.logging import get_log
from duly.worker.metrics import Metrics

MAX_CONNECTIONS = 16
CONNECTION_SECONDS = 5.0
POLL_SECONDS = 0.2  # how often the server checks for late connections, and whether it should stop
SLOT_SECONDS = 0.2  # how long a new connection waits for the slot of a closed one
CLOSE_SECONDS = 0.3
MAX_LINE_LENGTH = 65_536
JSON, TEXT = "application/json", "text/plain"
THREAD_NAME = "duly-port"
CHECK_FAILED = b'{"status":"failing","reason":"the health check itself failed; see the worker log"}\n'

log = get_log("duly.worker.health")


class Health(Protocol):
    """The state of a worker, readable from any thread and without waiting."""

    def not_alive_reason(self) -> str | None:
        """Return why only a restart helps; None when it is alive."""
        ...

    def not_ready_reason(self) -> str | None:
        """Return why it cannot do work now; None when it can."""
        ...

    def describe(self) -> Mapping[str, object]:
        """Return further fields for the response."""
        ...


Response = tuple[HTTPStatus, str, bytes]
Endpoint = Callable[[], Response]


@contextmanager
def serve_health(host: str, port: int, health: Health, metrics: Metrics) -> Generator[str, None, None]:
    """Serve the health endpoints while the body runs; yields their address. Port 0 means any free port."""
    endpoints: dict[str, Endpoint] = {
        "/healthz": lambda: health_response(health, health.not_alive_reason()),
        "/readyz": lambda: health_response(health, health.not_ready_reason()),
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, metrics.render()),
    }
    server = open_server(host, port, endpoints)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), name=THREAD_NAME, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.close_connections()


def open_server(host: str, port: int, endpoints: Mapping[str, Endpoint]) -> "HealthServer":
    """Open a listening server; raises PortTaken."""
    try:
        return HealthServer(host, port, endpoints)
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port or DULY_WORKER_PORT, "
            "0 for any free one"
        ) from None


def health_response(health: Health, failing: str | None) -> Response:
    """Return a response that names the reason when a check is failing, with a description of the worker."""
    status: dict[str, object] = {"status": "ok"}
    code = HTTPStatus.OK
    if failing:
        code = HTTPStatus.SERVICE_UNAVAILABLE
        status = {"status": "failing", "reason": failing}
    body = status | dict(health.describe()) | status  # first in the order, and not overwritten
    return code, JSON, orjson.dumps(body, default=repr) + b"\n"


class RequestHandler(BaseHTTPRequestHandler):
    """Handles one request per connection and prints nothing."""

    timeout = CONNECTION_SECONDS  # of each read and write; the server limits all of them together

    def handle(self) -> None:
        """Read one request, whatever its method, and respond."""
        self.raw_requestline = self.rfile.readline(MAX_LINE_LENGTH + 1)
        if len(self.raw_requestline) > MAX_LINE_LENGTH:
            self.command = self.requestline = self.request_version = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            self.respond(*self.call_endpoint())

    def call_endpoint(self) -> Response:
        """Return the response of the endpoint that the path names."""
        endpoint = cast("HealthServer", self.server).endpoints.get(self.path.partition("?")[0])
        if endpoint is None:
            return HTTPStatus.NOT_FOUND, TEXT, b"endpoints: /healthz, /readyz, /metrics\n"
        if self.command != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b""
        try:
            return endpoint()
        except Exception:  # a check that raises has not passed
            log.exception("health.check_failed")
            return HTTPStatus.SERVICE_UNAVAILABLE, JSON, CHECK_FAILED

    def respond(self, code: HTTPStatus, media_type: str, body: bytes) -> None:
        """Send a response."""
        self.send_response(code)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        if code is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Return the header Server."""
        return "duly"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class has this name)
        """Log nothing."""


class HealthServer(ThreadingTCPServer):
    """Handles each connection in a thread of its own, up to a limit."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, endpoints: Mapping[str, Endpoint]) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self.endpoints = endpoints
        self.deadlines: dict[socket, float] = {}  # of the open connections, oldest first
        self.changed = threading.Condition()
        super().__init__((host, port), RequestHandler)

    @property
    def address(self) -> str:
        """The URL of the server."""
        host, port = self.server_address[:2]
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; above the limit the oldest one is closed, because it is the slowest."""
        with self.changed:
            if not self.has_free_slot():
                self.shut_down_oldest(1)
            if not self.changed.wait_for(self.has_free_slot, SLOT_SECONDS):
                self.shutdown_request(request)
                return
            self.deadlines[request] = time.monotonic() + CONNECTION_SECONDS
        super().process_request(request, client_address)

    def has_free_slot(self) -> bool:
        """Return whether another connection may be opened."""
        return len(self.deadlines) < MAX_CONNECTIONS

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection, in its own thread."""
        threading.current_thread().name = THREAD_NAME
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and free its slot; called when it was handled, and when that failed."""
        with self.changed:
            self.deadlines.pop(request, None)
            self.changed.notify_all()
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections past their deadline, even if they still send; called every POLL_SECONDS."""
        now = time.monotonic()
        with self.changed:
            self.shut_down_oldest(sum(deadline <= now for deadline in self.deadlines.values()))

    def close_connections(self) -> None:
        """Close all connections and wait a moment for their threads."""
        with self.changed:
            self.shut_down_oldest(MAX_CONNECTIONS)
            self.changed.wait_for(lambda: not self.deadlines, CLOSE_SECONDS)

    def shut_down_oldest(self, count: int) -> None:
        """Shut the oldest connections down: their threads stop reading and writing at once."""
        for request in list(self.deadlines)[:count]:
            with suppress(OSError):
                request.shutdown(SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (as the base class has it)
        """Log a connection that could not be answered."""
        log.debug("health.connection_failed", exc_info=True)
