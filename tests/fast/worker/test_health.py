"""The health server: it answers whatever the worker does, and no client can occupy it for long."""

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
from duly.worker.health import MAX_CONNECTIONS, serve_health
from duly.worker.metrics import Metrics

HOST = "127.0.0.1"
SECONDS = 30.0


class Worker:
    """A worker as the health server sees it."""

    def __init__(self) -> None:
        self.why_not_alive: Callable[[], str | None] = lambda: None
        self.why_not_ready: str | None = None
        self.fields: Mapping[str, object] = {"worker": "w1", "work_types": {"mail": {"running": 3}}}

    def not_alive_reason(self) -> str | None:
        return self.why_not_alive()

    def not_ready_reason(self) -> str | None:
        return self.why_not_ready

    def describe(self) -> Mapping[str, object]:
        return self.fields


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def address(worker: Worker, metrics: Metrics) -> Generator[str, None, None]:
    with serve_health(HOST, 0, worker, metrics) as address:
        yield address


def get(address: str, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
    """Send one request; returns status, headers and body of its response."""
    connection = http.client.HTTPConnection(*host_and_port(address), timeout=SECONDS)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address into host and port."""
    parts = urlsplit(address)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def connect(address: str) -> socket.socket:
    """Open a connection and send nothing."""
    return socket.create_connection(host_and_port(address), timeout=SECONDS)


def is_over(connection: socket.socket, seconds: float = 0.0) -> bool:
    """Tell whether the server closes this connection within so many seconds."""
    readable, _, _ = select.select([connection], [], [], seconds)
    try:
        return bool(readable) and connection.recv(1) == b""
    except ConnectionResetError:
        return True


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never was"


def server_threads() -> int:
    return sum(thread.name == "duly-port" for thread in threading.enumerate())


@contextmanager
def taking_less_than(seconds: float) -> Generator[None, None, None]:
    started_at = time.monotonic()
    yield
    assert time.monotonic() - started_at < seconds


def test_readyz_reports_why_the_worker_is_not_ready(worker: Worker, address: str) -> None:
    worker.why_not_ready = "the database has not answered for 5 s: connection refused"
    status, _, body = get(address, "/readyz")
    assert status == 503
    assert list(json.loads(body).items())[:2] == [("status", "failing"), ("reason", worker.why_not_ready)]
    worker.why_not_ready = None
    assert "reason" not in json.loads(get(address, "/readyz")[2])


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_healthz_and_readyz_report_ok_for_a_working_worker(path: str, address: str) -> None:
    status, headers, body = get(address, path)
    assert (status, headers["Content-Type"], headers["Server"]) == (200, "application/json", "duly")
    assert list(json.loads(body).items()) == [
        ("status", "ok"),
        ("worker", "w1"),
        ("work_types", {"mail": {"running": 3}}),
    ]


def test_worker_that_is_not_ready_may_still_be_alive(worker: Worker, address: str) -> None:
    worker.why_not_ready = "the worker is stopping"
    assert get(address, "/healthz")[0] == 200
    status, _, body = get(address, "/readyz")
    assert (status, json.loads(body)["status"]) == (503, "failing")


def test_healthz_reports_why_the_worker_is_not_alive_even_if_it_is_not_ready_for_another_reason(
    worker: Worker, address: str
) -> None:
    worker.why_not_alive = lambda: "the control loop does not respond"
    worker.why_not_ready = "the worker is stopping"
    status, _, body = get(address, "/healthz")
    assert status == 503
    assert list(json.loads(body).items()) == [
        ("status", "failing"),
        ("reason", "the control loop does not respond"),
        ("worker", "w1"),
        ("work_types", {"mail": {"running": 3}}),
    ]


def test_extra_health_fields_cannot_override_the_status(worker: Worker, address: str) -> None:
    worker.fields = {"status": "splendid", "odd": {1, 2}, "key": object()}
    status, _, body = get(address, "/healthz")
    assert status == 200
    assert json.loads(body)["status"] == "ok"
    assert json.loads(body)["odd"] == "{1, 2}"


def test_raising_health_check_counts_as_failing(worker: Worker, address: str) -> None:
    def fail() -> str | None:
        raise RuntimeError("no")

    worker.why_not_alive = fail
    status, _, body = get(address, "/healthz")
    assert (status, json.loads(body)["status"]) == (503, "failing")
    assert get(address, "/readyz")[0] == 200


def test_metrics_endpoint_returns_the_metrics_of_the_worker(metrics: Metrics, address: str) -> None:
    metrics.claimed("mail", 3, 0.1)
    status, headers, body = get(address, "/metrics?name[]=x")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body == metrics.render()
    assert b'duly_claimed_total{work_type="mail"} 3.0' in body


@pytest.mark.parametrize("path", ["/", "/healthz/", "/metricsx", "/%00", "/healthz%2f"])
def test_other_paths_are_not_found(path: str, address: str) -> None:
    assert get(address, path)[0] == 404
    assert get(address, path, "POST")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_only_get_is_allowed(path: str, method: str, address: str) -> None:
    status, headers, body = get(address, path, method, b"x" if method == "POST" else None)
    assert (status, headers["Allow"], body) == (405, "GET", b"")


def test_long_requests_are_refused(address: str) -> None:
    assert get(address, "/" + "x" * 70_000)[0] == 414
    connection = http.client.HTTPConnection(*host_and_port(address), timeout=SECONDS)
    connection.request("GET", "/healthz", headers={f"x-{number}": "x" for number in range(200)})
    assert connection.getresponse().status == 431
    connection.close()


def test_health_server_writes_nothing_to_the_terminal(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    for path in ("/healthz", "/nowhere", "/" + "x" * 70_000):
        get(address, path)
    for nonsense in (b"", b"\0\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n"):
        with connect(address) as connection:
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            wait_until(lambda connection=connection: is_over(connection, SECONDS))
    with connect(address) as aborting:  # asks, and is gone before the answer
        aborting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        aborting.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert get(address, "/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


async def test_health_server_responds_while_every_event_loop_is_blocked(worker: Worker, metrics: Metrics) -> None:
    blocked, over = threading.Event(), threading.Event()

    async def block() -> None:
        blocked.set()
        over.wait()

    other = threading.Thread(target=lambda: asyncio.run(block()))
    other.start()
    try:
        assert blocked.wait(SECONDS)
        with serve_health(HOST, 0, worker, metrics) as address:
            assert get(address, "/healthz")[0] == 200  # and we block the loop of this test while we ask
    finally:
        over.set()
        other.join()


def test_above_the_limit_the_oldest_connection_is_closed(address: str) -> None:
    idle = server_threads()
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(address)) for _ in range(MAX_CONNECTIONS)]
        wait_until(lambda: server_threads() == idle + MAX_CONNECTIONS)
        with taking_less_than(2):
            assert get(address, "/healthz")[0] == 200
        assert server_threads() <= idle + MAX_CONNECTIONS
        assert is_over(connections[0], SECONDS)
        assert not any(is_over(connection) for connection in connections[1:])


def test_the_error_for_a_taken_port_names_the_setting(worker: Worker, metrics: Metrics, address: str) -> None:
    host, port = host_and_port(address)
    with (
        pytest.raises(PortTaken, match=rf"{port} .*in use.*DULY_WORKER_PORT"),
        serve_health(host, port, worker, metrics),
    ):
        pytest.fail("it opened")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_health_server_listens_on_any_loopback_address(host: str, worker: Worker, metrics: Metrics) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with serve_health(host, 0, worker, metrics) as address:
        assert get(address, "/healthz")[0] == 200


def test_no_port_is_opened_before_the_context_is_entered(worker: Worker, metrics: Metrics, address: str) -> None:
    before = server_threads()
    serve_health(*host_and_port(address), worker, metrics)
    assert server_threads() == before


def test_health_server_stops_within_a_second_and_frees_its_port(worker: Worker, metrics: Metrics) -> None:
    with ExitStack() as opened, ExitStack() as stack:
        address = opened.enter_context(serve_health(HOST, 0, worker, metrics))
        connections = [stack.enter_context(connect(address)) for _ in range(5)]
        assert get(address, "/healthz")[0] == 200
        with taking_less_than(1):
            opened.close()
        assert all(is_over(connection, SECONDS) for connection in connections)
        again = stack.enter_context(serve_health(*host_and_port(address), worker, metrics))
        assert again == address
        assert get(again, "/healthz")[0] == 200


def test_health_server_stops_within_a_second_even_if_a_check_hangs(worker: Worker, metrics: Metrics) -> None:
    hangs, over = threading.Event(), threading.Event()

    def hang() -> str | None:
        hangs.set()
        over.wait(SECONDS)
        return None

    worker.why_not_alive = hang
    idle = server_threads()
    with ExitStack() as opened:
        address = opened.enter_context(serve_health(HOST, 0, worker, metrics))
        with connect(address) as waiting:
            waiting.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert hangs.wait(SECONDS)
            assert get(address, "/readyz")[0] == 200
            with taking_less_than(1):
                opened.close()
    over.set()
    wait_until(lambda: server_threads() == idle)
