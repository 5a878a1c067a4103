"""A real HTTP server that speaks OpenAI's API as far as a test tells it to, and otherwise lies, stalls or hangs up."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["CALM", "Asked", "ModelServer", "completion"]

CALM = {"mood": "calm", "music": "piano, 60 bpm, major", "reasoning": "Stilla vatten, 安静 åäö."}


def completion(content: object, **message: object) -> bytes:
    """An answer as the API writes it, with this content; what is no text is written as JSON."""
    text = content if isinstance(content, str | None) else json.dumps(content)
    said = {"role": "assistant", "content": text, "refusal": None, **message}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "said-otherwise",
            "choices": [{"index": 0, "finish_reason": "stop", "message": said}],
        }
    ).encode()


class Asked:
    """A question that came."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body: dict[str, Any] = json.loads(body)

    def parts(self) -> list[dict[str, Any]]:
        """What the person's part of the question consists of."""
        return self.body["messages"][1]["content"]


class Handler(BaseHTTPRequestHandler):
    """One question."""

    protocol_version = "HTTP/1.1"
    outer: "ModelServer"
    asked: Asked

    def do_POST(self) -> None:
        """Remember it, and answer as told."""
        length = int(self.headers.get("content-length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked = Asked(self.path, headers, self.rfile.read(length))
        self.outer.asked.append(self.asked)
        self.outer.came.set()
        self.outer.act(self)

    def say(self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """Answer."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


class Quiet(ThreadingHTTPServer):
    """A server that does not mind callers who hang up."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


class ModelServer:
    """The server, in threads of its own."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.came = threading.Event()  # a question did
        self.gate = threading.Event()  # what waits, waits for it
        self.act: Callable[[Handler], None] = lambda it: it.say(completion(CALM))
        bound = type("Bound", (Handler,), {"outer": self})
        self.server = Quiet(("127.0.0.1", 0), bound)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def say(self, content: object, **message: object) -> None:
        """From now on answer this."""
        self.act = lambda it: it.say(completion(content, **message))

    def refuse(self, status: int, **headers: str) -> None:
        """From now on answer with an error."""
        self.act = lambda it: it.say(b'{"error": {"message": "secret words"}}', status, **headers)

    def stall(self, _: Handler) -> None:
        """Answer nothing, for a long time."""
        self.gate.wait(60)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
