"""A worker's port: it answers whatever the worker does, and nobody can hold it for long."""

import asyncio
import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from duly.errors import PortTaken
from duly.worker.health import MAX_CONNECTIONS, open_port
from duly.worker.metrics import Metrics

HOST = "127.0.0.1"
SECONDS = 30.0


class Worker:
    """A worker as its port sees it."""

    def __init__(self) -> None:
        self.is_alive: Callable[[], bool] = lambda: True
        self.is_ready: Callable[[], bool] = lambda: True
        self.reason: str | None = None
        self.words: Mapping[str, object] = {"worker": "w1", "kinds": {"mail": {"busy": 3}}}

    def alive(self) -> bool:
        return self.is_alive()

    def ready(self) -> bool:
        return self.is_ready()

    def obstacle(self) -> str | None:
        return None if self.is_ready() else self.reason

    def about(self) -> Mapping[str, object]:
        return self.words


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def address(worker: Worker, metrics: Metrics) -> Generator[str, None, None]:
    with open_port(HOST, 0, worker, metrics) as address:
        yield address


def ask(address: str, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
    """One request: the status, the headers and the body of its answer."""
    connection = http.client.HTTPConnection(*place_of(address), timeout=SECONDS)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def place_of(address: str) -> tuple[str, int]:
    """The host and the port of an address."""
    parts = urlsplit(address)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def connect(address: str) -> socket.socket:
    """A connection on which nothing has been said."""
    return socket.create_connection(place_of(address), timeout=SECONDS)


def is_over(connection: socket.socket, seconds: float = 0.0) -> bool:
    """Did the server end this connection, or does it within so many seconds?"""
    readable, _, _ = select.select([connection], [], [], seconds)
    try:
        return bool(readable) and connection.recv(1) == b""
    except ConnectionResetError:
        return True


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return once it is so."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never was"


def threads_of_ports() -> int:
    return sum(thread.name == "duly-port" for thread in threading.enumerate())


@contextmanager
def taking_less_than(seconds: float) -> Generator[None, None, None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_worker_that_is_not_ready_says_why(worker: Worker, address: str) -> None:
    worker.is_ready = lambda: False
    worker.reason = "the database has not answered for 5 s: connection refused"
    status, _, body = ask(address, "/readyz")
    assert status == 503
    assert list(json.loads(body).items())[:2] == [("status", "failing"), ("reason", worker.reason)]
    worker.is_ready = lambda: True
    assert "reason" not in json.loads(ask(address, "/readyz")[2])


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_worker_that_is_well_says_so(path: str, address: str) -> None:
    status, headers, body = ask(address, path)
    assert (status, headers["Content-Type"], headers["Server"]) == (200, "application/json", "duly")
    assert list(json.loads(body).items()) == [("status", "ok"), ("worker", "w1"), ("kinds", {"mail": {"busy": 3}})]


def test_a_worker_that_is_not_ready_may_be_alive(worker: Worker, address: str) -> None:
    worker.is_ready = lambda: False
    assert ask(address, "/healthz")[0] == 200
    status, _, body = ask(address, "/readyz")
    assert (status, json.loads(body)["status"]) == (503, "failing")


def test_a_worker_that_is_stuck_is_failing(worker: Worker, address: str) -> None:
    worker.is_alive = lambda: False
    status, _, body = ask(address, "/healthz")
    assert status == 503
    assert json.loads(body) == {"status": "failing", "worker": "w1", "kinds": {"mail": {"busy": 3}}}


def test_what_a_worker_says_of_itself_may_be_anything_but_the_status(worker: Worker, address: str) -> None:
    worker.words = {"status": "splendid", "odd": {1, 2}, "key": object()}
    status, _, body = ask(address, "/healthz")
    assert status == 200
    assert json.loads(body)["status"] == "ok"
    assert json.loads(body)["odd"] == "{1, 2}"


def test_a_check_that_fails_is_not_passed(worker: Worker, address: str) -> None:
    def fail() -> bool:
        raise RuntimeError("no")

    worker.is_alive = fail
    status, _, body = ask(address, "/healthz")
    assert (status, json.loads(body)["status"]) == (503, "failing")
    assert ask(address, "/readyz")[0] == 200


def test_the_figures_are_those_of_the_worker(metrics: Metrics, address: str) -> None:
    metrics.claimed("mail", 3)
    status, headers, body = ask(address, "/metrics?name[]=x")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body == metrics.render()
    assert b'duly_claimed_total{kind="mail"} 3.0' in body


@pytest.mark.parametrize("path", ["/", "/healthz/", "/metricsx", "/%00", "/healthz%2f"])
def test_there_are_no_other_pages(path: str, address: str) -> None:
    assert ask(address, path)[0] == 404
    assert ask(address, path, "POST")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_there_is_nothing_to_do_but_look(path: str, method: str, address: str) -> None:
    status, headers, body = ask(address, path, method, b"x" if method == "POST" else None)
    assert (status, headers["Allow"], body) == (405, "GET", b"")


def test_nobody_may_talk_at_length(address: str) -> None:
    assert ask(address, "/" + "x" * 70_000)[0] == 414
    connection = http.client.HTTPConnection(*place_of(address), timeout=SECONDS)
    connection.request("GET", "/healthz", headers={f"x-{number}": "x" for number in range(200)})
    assert connection.getresponse().status == 431
    connection.close()


def test_nothing_is_said_on_the_terminal(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    for path in ("/healthz", "/nowhere", "/" + "x" * 70_000):
        ask(address, path)
    for nonsense in (b"", b"\0\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n"):
        with connect(address) as connection:
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            wait_until(lambda connection=connection: is_over(connection, SECONDS))
    with connect(address) as rude:  # asks, and is gone before the answer
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        rude.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert ask(address, "/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


async def test_it_answers_while_every_loop_is_blocked(worker: Worker, metrics: Metrics) -> None:
    blocked, over = threading.Event(), threading.Event()

    async def block() -> None:
        blocked.set()
        over.wait()

    other = threading.Thread(target=lambda: asyncio.run(block()))
    other.start()
    try:
        assert blocked.wait(SECONDS)
        with open_port(HOST, 0, worker, metrics) as address:
            assert ask(address, "/healthz")[0] == 200  # and we block the loop of this test while we ask
    finally:
        over.set()
        other.join()


def test_when_there_are_too_many_the_oldest_makes_room(address: str) -> None:
    idle = threads_of_ports()
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect(address)) for _ in range(MAX_CONNECTIONS)]
        wait_until(lambda: threads_of_ports() == idle + MAX_CONNECTIONS)
        with taking_less_than(2):
            assert ask(address, "/healthz")[0] == 200
        assert threads_of_ports() <= idle + MAX_CONNECTIONS
        assert is_over(crowd[0], SECONDS)
        assert not any(is_over(connection) for connection in crowd[1:])


def test_a_taken_port_is_told_with_the_setting_to_change(worker: Worker, metrics: Metrics, address: str) -> None:
    host, port = place_of(address)
    with pytest.raises(PortTaken, match=rf"{port} .*in use.*DULY_WORKER_PORT"), open_port(host, port, worker, metrics):
        pytest.fail("it opened")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_it_listens_on_any_loopback_address(host: str, worker: Worker, metrics: Metrics) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with open_port(host, 0, worker, metrics) as address:
        assert ask(address, "/healthz")[0] == 200


def test_nothing_is_opened_before_it_is_entered(worker: Worker, metrics: Metrics, address: str) -> None:
    before = threads_of_ports()
    open_port(*place_of(address), worker, metrics)
    assert threads_of_ports() == before


def test_it_ends_within_a_second_and_its_port_is_free_again(worker: Worker, metrics: Metrics) -> None:
    with ExitStack() as opened, ExitStack() as stack:
        address = opened.enter_context(open_port(HOST, 0, worker, metrics))
        crowd = [stack.enter_context(connect(address)) for _ in range(5)]
        assert ask(address, "/healthz")[0] == 200
        with taking_less_than(1):
            opened.close()
        assert all(is_over(connection, SECONDS) for connection in crowd)
        again = stack.enter_context(open_port(*place_of(address), worker, metrics))
        assert again == address
        assert ask(again, "/healthz")[0] == 200


def test_it_ends_within_a_second_even_when_a_check_hangs(worker: Worker, metrics: Metrics) -> None:
    hangs, over = threading.Event(), threading.Event()

    def hang() -> bool:
        hangs.set()
        return over.wait(SECONDS)

    worker.is_alive = hang
    idle = threads_of_ports()
    with ExitStack() as opened:
        address = opened.enter_context(open_port(HOST, 0, worker, metrics))
        with connect(address) as waiting:
            waiting.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert hangs.wait(SECONDS)
            assert ask(address, "/readyz")[0] == 200
            with taking_less_than(1):
                opened.close()
    over.set()
    wait_until(lambda: threads_of_ports() == idle)
