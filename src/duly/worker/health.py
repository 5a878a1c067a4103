"""Serves /healthz, /readyz and /metrics of a worker over HTTP.

The server has threads of its own and needs no event loop, so it answers while both loops of the worker are blocked,
which is when it matters. Everything is bounded: sixteen connections, of which the oldest is closed for a new one, five
seconds for each, one request per connection, wsgiref's limits on lines and headers.
"""

import io
import socketserver
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

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
JSON = "application/json"
CHECK_FAILED = b'{"status":"failing","reason":"the health check itself failed; see the worker log"}\n'

log = get_log("duly.worker.health")


class Health(Protocol):
    """The state of a worker, readable from any thread and without waiting."""

    def is_alive(self) -> bool:
        """Tell whether its loops turn; if not, only a restart helps."""
        ...

    def is_ready(self) -> bool:
        """Tell whether it can do work now."""
        ...

    def not_ready_reason(self) -> str | None:
        """Explain why it cannot; None when it can."""
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
        "/healthz": lambda: health_response(health, health.is_alive),
        "/readyz": lambda: health_response(health, health.is_ready),
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, metrics.render()),
    }
    server = open_server(host, port)
    server.set_app(application(endpoints))
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), name="duly-port", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.close_connections()


def open_server(host: str, port: int) -> "Server":
    """Open a listening server; raises PortTaken."""
    try:
        return Server(host, port)
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port or DULY_WORKER_PORT, "
            "0 for any free one"
        ) from None


def health_response(health: Health, check: Callable[[], bool]) -> Response:
    """Return whether a check passes, with a description of the worker."""
    status: dict[str, object] = {"status": "ok"}
    code = HTTPStatus.OK
    if not check():
        code = HTTPStatus.SERVICE_UNAVAILABLE
        status["status"] = "failing"
        if reason := health.not_ready_reason():
            status["reason"] = reason
    body = status | dict(health.describe()) | status  # first in the order, and not overwritten
    return code, JSON, orjson.dumps(body, default=repr) + b"\n"


def call_endpoint(endpoint: Endpoint) -> Response:
    """Return the response of an endpoint; a check that raises has not passed."""
    try:
        return endpoint()
    except Exception:
        log.exception("health.check_failed")
        return HTTPStatus.SERVICE_UNAVAILABLE, JSON, CHECK_FAILED


def application(endpoints: Mapping[str, Endpoint]) -> Callable[..., Iterable[bytes]]:
    """Return a WSGI application that answers GET requests to these endpoints."""

    def respond(environ: Mapping[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        endpoint = endpoints.get(environ["PATH_INFO"])
        if endpoint is None:
            code, media_type, body = HTTPStatus.NOT_FOUND, "text/plain", b"endpoints: /healthz, /readyz, /metrics\n"
        elif environ["REQUEST_METHOD"] != "GET":
            code, media_type, body = HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b""
        else:
            code, media_type, body = call_endpoint(endpoint)
        allowed = [("Allow", "GET")] if code is HTTPStatus.METHOD_NOT_ALLOWED else []
        headers = [("Content-Type", media_type), ("Content-Length", str(len(body))), ("Server", "duly"), *allowed]
        start_response(f"{code.value} {code.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return respond


class RequestHandler(WSGIRequestHandler):
    """Handles one request per connection and writes nothing to stderr."""

    timeout = CONNECTION_SECONDS  # of each read and write; the server limits all of them together

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class has this name)
        """Log nothing."""

    def get_stderr(self) -> io.StringIO:
        """Discard what wsgiref writes to stderr."""
        return io.StringIO()


class Server(WSGIServer):
    """Handles each connection in a thread of its own, up to a limit."""

    allow_reuse_port = False
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self.slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.lock = threading.Lock()
        self.connections: dict[socket, tuple[float, threading.Thread]] = {}  # deadline, thread; oldest first
        super().__init__((host, port), RequestHandler)

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the base class."""
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    @property
    def address(self) -> str:
        """The URL of the server."""
        host, port = self.server_address[:2]
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; above the limit the oldest one is closed, because it is the slowest."""
        if not self.slots.acquire(blocking=False):
            self.close_oldest(limit=1)
            if not self.slots.acquire(timeout=SLOT_SECONDS):
                self.shutdown_request(request)
                return
        thread = threading.Thread(
            target=self.handle_connection, args=(request, client_address), name="duly-port", daemon=True
        )
        with self.lock:
            self.connections[request] = (time.monotonic() + CONNECTION_SECONDS, thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self.remove(request)
            raise

    def handle_connection(self, request: socket, client_address: Any) -> None:
        """Read one request, answer it and close, in the connection's own thread."""
        try:
            self.finish_request(request, client_address)
        except Exception:  # the client went away or sent garbage, or we closed the connection
            self.handle_error(request, client_address)
        finally:
            self.remove(request)
            self.shutdown_request(request)

    def remove(self, request: socket) -> None:
        """Free the slot of a connection."""
        with self.lock:
            del self.connections[request]
        self.slots.release()

    def service_actions(self) -> None:
        """Close connections past their deadline, even if they still send; called every POLL_SECONDS."""
        now = time.monotonic()
        with self.lock:
            late = sum(deadline <= now for deadline, _ in self.connections.values())
        self.close_oldest(late)

    def close_oldest(self, limit: int) -> None:
        """Shut the oldest connections down: their threads stop reading and writing at once."""
        with self.lock:
            for request in list(self.connections)[:limit]:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)

    def close_connections(self) -> None:
        """Close all connections and wait a moment for their threads."""
        threads = [thread for _, thread in self.connections.values()]
        self.close_oldest(limit=MAX_CONNECTIONS)
        until = time.monotonic() + CLOSE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (as the base class has it)
        """Log a connection that could not be answered."""
        log.debug("health.connection_failed", exc_info=True)
