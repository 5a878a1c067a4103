"""A local HTTP server with OpenAI's API that responds, stalls or disconnects as a test configures it."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

CALM = {"mood": "calm", "music": "piano, 60 bpm, major", "reasoning": "Stilla vatten, 安静 åäö."}


def completion(content: object, **message: object) -> bytes:
    """Return a response of the API with this content; anything but text is encoded as JSON."""
    text = content if isinstance(content, str | None) else json.dumps(content)
    reply = {"role": "assistant", "content": text, "refusal": None, **message}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "another-model",
            "choices": [{"index": 0, "finish_reason": "stop", "message": reply}],
        }
    ).encode()


class ReceivedRequest:
    """A received request."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body: dict[str, Any] = json.loads(body)

    def parts(self) -> list[dict[str, Any]]:
        """Return the content of the user's message."""
        return self.body["messages"][1]["content"]


class Handler(BaseHTTPRequestHandler):
    """Handles one request."""

    protocol_version = "HTTP/1.1"
    outer: "ModelServer"
    asked: ReceivedRequest

    def do_POST(self) -> None:
        """Record the request and respond as configured."""
        length = int(self.headers.get("content-length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked = ReceivedRequest(self.path, headers, self.rfile.read(length))
        self.outer.asked.append(self.asked)
        self.outer.came.set()
        self.outer.act(self)

    def say(self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """Send a response."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


class Quiet(ThreadingHTTPServer):
    """A server that ignores clients that disconnect."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing."""


class ModelServer:
    """The server, in its own threads."""

    def __init__(self) -> None:
        self.asked: list[ReceivedRequest] = []
        self.came = threading.Event()  # set at the first request
        self.gate = threading.Event()  # `stall` waits for it
        self.act: Callable[[Handler], None] = lambda it: it.say(completion(CALM))
        bound = type("Bound", (Handler,), {"outer": self})
        self.server = Quiet(("127.0.0.1", 0), bound)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def say(self, content: object, **message: object) -> None:
        """Respond with this content from now on."""
        self.act = lambda it: it.say(completion(content, **message))

    def refuse(self, status: int, **headers: str) -> None:
        """Respond with an error from now on."""
        self.act = lambda it: it.say(b'{"error": {"message": "secret words"}}', status, **headers)

    def stall(self, _: Handler) -> None:
        """Send no response for a long time."""
        self.gate.wait(60)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
