"""Limits for clients without a key: connections that never send a head, and ambiguous requests."""

import socket
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import urlsplit

import pytest

from duly.http import server
from tests.support.api import SECONDS, client_for, served_on

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class Log:
    """Records log events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **_: object) -> None:
        """Record an event."""
        self.events.append(event)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Return the log events about connections."""
    log = Log()
    monkeypatch.setattr(server, "log", log)
    monkeypatch.setattr(server, "CONNECTION_LOG", server.ConnectionLog())
    return log


@pytest.fixture
def address(database: str) -> Generator[str, None, None]:
    """Return the address of a server."""
    with served_on(database) as found:
        yield found


@contextmanager
def connected(address: str) -> Generator[socket.socket, None, None]:
    """Connect to the server."""
    url = urlsplit(address)
    with socket.create_connection((url.hostname or "", url.port or 80), timeout=SECONDS) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Read until the connection is closed; returns nothing when it is reset."""
    received = b""
    with closing(connection.makefile("rb")) as stream:
        try:
            received = stream.read()
        except ConnectionResetError:
            return b""
    return received


@pytest.mark.parametrize("begun", [b"", b"GET /hea", HEALTH + b"X: "])
def test_a_request_without_complete_headers_times_out(
    begun: bytes, address: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    with connected(address) as slow:
        slow.sendall(begun)
        assert read_all(slow).startswith(b"HTTP/1.1 408 ")
    assert log.events == ["http.header_timeout"]


def test_a_request_that_sends_headers_slowly_times_out(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with connected(address) as slow:
        slow.settimeout(0.05)
        slow.sendall(HEALTH)
        received = b""
        for _ in range(600):
            try:
                slow.sendall(b"X: y\r\n")
                received = slow.recv(1000)
                break
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                received = b"HTTP/1.1 408 "
                break
        assert received.startswith(b"HTTP/1.1 408 ")


def test_the_second_request_of_a_connection_has_its_time_limit_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    with connected(address) as slow:
        slow.sendall(HEALTH + b"\r\n")
        first = b""
        while b"}" not in first:
            first += slow.recv(1000)
        assert first.startswith(b"HTTP/1.1 200 ")
        slow.sendall(b"GET /")
        assert read_all(slow).startswith(b"HTTP/1.1 408 ")


def test_waiting_connections_are_closed_to_serve_requests_at_the_connection_limit(
    address: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    with ExitStack() as stack:
        for _ in range(60):
            slow = stack.enter_context(connected(address))
            slow.sendall(HEALTH + b"X: ")
        for _ in range(5):
            with client_for(address) as client:
                assert client.get("/healthz").status_code == 200
    assert log.events == ["http.connection_limit"]


def test_the_connection_limit_follows_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(_: int) -> tuple[int, int]:
        return 256, 4096

    monkeypatch.setattr(server.resource, "getrlimit", few)
    assert server.max_connections() == 128


@pytest.mark.parametrize(
    "head",
    {
        "two lengths": HEALTH + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "the other way round": HEALTH + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "lines that end in LF": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
        "one line that ends in LF": HEALTH + b"X: y\nZ: z\r\n\r\n",
    }.values(),
)
def test_an_ambiguous_request_is_refused_and_its_connection_closed(head: bytes, address: str) -> None:
    with connected(address) as sender:
        sender.sendall(head + HEALTH + b"\r\n")
        answer = read_all(sender)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer.lower()


def test_pipelined_requests_are_served(address: str) -> None:
    with connected(address) as sender:
        sender.sendall((HEALTH + b"\r\n") * 2 + HEALTH + b"Connection: close\r\n\r\n")
        assert read_all(sender).count(b"HTTP/1.1 200 ") == 3
