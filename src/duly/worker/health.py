"""A worker's small window: /healthz, /readyz and /metrics over HTTP.

It has a thread of its own and needs no event loop, so it answers while both loops of the worker are blocked; that is
when somebody wants to know. Everything is bounded: sixteen connections, of which the oldest makes room for one more,
five seconds for each, one request per connection, wsgiref's limits on lines and headers.
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

__all__ = ["Health", "open_port"]

MAX_CONNECTIONS = 16
CONNECTION_SECONDS = 5.0
LOOK_SECONDS = 0.2  # how often the server looks for late connections, and whether it should stop
ROOM_SECONDS = 0.2  # how long a newcomer waits for a connection that was ended in its favour
GOODBYE_SECONDS = 0.3
JSON = "application/json"

log = get_log("duly.worker.health")


class Health(Protocol):
    """What can be asked about a worker, from any thread and without waiting."""

    def alive(self) -> bool:
        """Does it go round? If not, only a restart helps."""
        ...

    def ready(self) -> bool:
        """Can it do work now?"""
        ...

    def obstacle(self) -> str | None:
        """Why it cannot; None when it can."""
        ...

    def about(self) -> Mapping[str, object]:
        """What else there is to say."""
        ...


Answer = tuple[HTTPStatus, str, bytes]
Page = Callable[[], Answer]


@contextmanager
def open_port(host: str, port: int, health: Health, metrics: Metrics) -> Generator[str, None, None]:
    """Answer at this address, which is given, while the body runs; port 0 takes any free one."""
    pages: dict[str, Page] = {
        "/healthz": lambda: state_of(health, health.alive),
        "/readyz": lambda: state_of(health, health.ready),
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, metrics.render()),
    }
    server = open_server(host, port)
    server.set_app(application(pages))
    thread = threading.Thread(target=server.serve_forever, args=(LOOK_SECONDS,), name="duly-port", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.say_goodbye()


def open_server(host: str, port: int) -> "Server":
    """A listening server, or PortTaken."""
    try:
        return Server(host, port)
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port or DULY_WORKER_PORT, "
            "0 for any free one"
        ) from None


def state_of(health: Health, is_well: Callable[[], bool]) -> Answer:
    """Well or not, with what else there is to say."""
    ours: dict[str, object] = {"status": "ok"}
    code = HTTPStatus.OK
    if not is_well():
        code = HTTPStatus.SERVICE_UNAVAILABLE
        ours["status"] = "failing"
        if reason := health.obstacle():
            ours["reason"] = reason
    said = ours | dict(health.about()) | ours  # ours come first, and nobody else's
    return code, JSON, orjson.dumps(said, default=repr) + b"\n"


def answer_of(page: Page) -> Answer:
    """What the page says; one that fails, says so, for a check that cannot be made has not been passed."""
    try:
        return page()
    except Exception:
        log.exception("a page of the worker's port failed")
        return HTTPStatus.SERVICE_UNAVAILABLE, JSON, b'{"status":"failing","reason":"the check itself failed"}\n'


def application(pages: Mapping[str, Page]) -> Callable[..., Iterable[bytes]]:
    """These pages as a WSGI application, for GET alone."""

    def answer(environ: Mapping[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        page = pages.get(environ["PATH_INFO"])
        if page is None:
            code, kind, body = HTTPStatus.NOT_FOUND, "text/plain", b"there is /healthz, /readyz and /metrics\n"
        elif environ["REQUEST_METHOD"] != "GET":
            code, kind, body = HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b""
        else:
            code, kind, body = answer_of(page)
        allowed = [("Allow", "GET")] if code is HTTPStatus.METHOD_NOT_ALLOWED else []
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Server", "duly"), *allowed]
        start_response(f"{code.value} {code.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return answer


class Handler(WSGIRequestHandler):
    """One connection, one request, not a word on stderr."""

    timeout = CONNECTION_SECONDS  # of each read and write; the server sees to all of them together

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class has this name)
        """Say nothing."""

    def get_stderr(self) -> io.StringIO:
        """Where wsgiref would complain."""
        return io.StringIO()


class Server(WSGIServer):
    """Every connection in a thread of its own, and not too many of them."""

    allow_reuse_port = False
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self.room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.guard = threading.Lock()
        self.connections: dict[socket, tuple[float, threading.Thread]] = {}  # when it is late; the oldest first
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking the name service who we are, as the base class would."""
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    @property
    def address(self) -> str:
        """The address a person can open."""
        host, port = self.server_address[:2]
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; when there are too many, the oldest connection ends, for it is the slowest."""
        if not self.room.acquire(blocking=False):
            self.hang_up(limit=1)
            if not self.room.acquire(timeout=ROOM_SECONDS):
                self.shutdown_request(request)
                return
        thread = threading.Thread(target=self.answer, args=(request, client_address), name="duly-port", daemon=True)
        with self.guard:
            self.connections[request] = (time.monotonic() + CONNECTION_SECONDS, thread)
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had
            self.forget(request)
            raise

    def answer(self, request: socket, client_address: Any) -> None:
        """In its own thread: read one request, answer it, close."""
        try:
            self.finish_request(request, client_address)
        except Exception:  # the client went away or said nonsense, or we hung up on it
            self.handle_error(request, client_address)
        finally:
            self.forget(request)
            self.shutdown_request(request)

    def forget(self, request: socket) -> None:
        """Make room for another connection."""
        with self.guard:
            del self.connections[request]
        self.room.release()

    def service_actions(self) -> None:
        """Now and then: end the connections that are late, however busily they send."""
        now = time.monotonic()
        with self.guard:
            late = sum(late_at <= now for late_at, _ in self.connections.values())
        self.hang_up(late)

    def hang_up(self, limit: int) -> None:
        """End the oldest connections: whoever reads or writes there stops at once."""
        with self.guard:
            for request in list(self.connections)[:limit]:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)

    def say_goodbye(self) -> None:
        """End all connections and wait for their threads, as long as is decent."""
        threads = [thread for _, thread in self.connections.values()]
        self.hang_up(limit=MAX_CONNECTIONS)
        until = time.monotonic() + GOODBYE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (as the base class has it)
        """A connection that could not be answered."""
        log.debug("a connection failed", exc_info=True)
