"""A real HTTP server on this machine that takes webhooks, remembers them, and answers as a test tells it."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

__all__ = ["Answer", "Posted", "Receiver"]


class Posted(NamedTuple):
    """A request that came."""

    id: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """What it is about."""
        return json.loads(self.body)["data"]


class Answer(NamedTuple):
    """What the server says."""

    status: int = 204
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Receiver:
    """The server, in threads of its own."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.answer: Callable[[Posted], Answer | None] = lambda _: Answer()  # None: it hangs up without a word
        self.gate = threading.Event()  # requests are answered when it is open
        self.gate.set()
        self.slowly = 0.0  # so many seconds pass before each answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_POST(self) -> None:
                """Remember it, wait for the gate, answer."""
                length = int(self.headers.get("content-length", "0"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                posted = Posted(headers.get("webhook-id", ""), headers, self.rfile.read(length))
                outer.posted.append(posted)
                outer.gate.wait(60)
                if outer.slowly:
                    threading.Event().wait(outer.slowly)
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
                """Say nothing."""

        class Quiet(ThreadingHTTPServer):
            """A server that does not mind callers who hang up."""

            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Say nothing."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def ids(self) -> list[str]:
        """The ids that came, in their order."""
        return [each.id for each in self.posted]

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
