"""A local HTTP server that records webhooks and responds as a test configures it."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Posted(NamedTuple):
    """A received request."""

    id: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The `data` field of the body."""
        return json.loads(self.body)["data"]


class Answer(NamedTuple):
    """A configured response."""

    status: int = 204
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Receiver:
    """The server, in its own threads."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.answer: Callable[[Posted], Answer | None] = lambda _: Answer()  # None: disconnect
        self.gate = threading.Event()  # requests are answered while it is set
        self.gate.set()
        self.delay_seconds = 0.0  # before each response
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_POST(self) -> None:
                """Record the request, wait for the gate, respond."""
                length = int(self.headers.get("content-length", "0"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                posted = Posted(headers.get("webhook-id", ""), headers, self.rfile.read(length))
                outer.posted.append(posted)
                outer.gate.wait(60)
                if outer.delay_seconds:
                    threading.Event().wait(outer.delay_seconds)
                answer = outer.answer(posted)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing."""

        class Quiet(ThreadingHTTPServer):
            """A server that ignores clients that disconnect."""

            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Log nothing."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def ids(self) -> list[str]:
        """Return the received ids, in order."""
        return [each.id for each in self.posted]

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
