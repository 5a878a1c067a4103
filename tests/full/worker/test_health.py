"""The health server: it answers whatever the worker does, and no client can occupy it for long."""

import time
from contextlib import suppress

from duly.worker.health import CONNECTION_SECONDS
from tests.fast.worker.test_health import address, connect, get, is_over, metrics, worker

__all__ = ["address", "metrics", "worker"]


def test_a_connection_to_the_health_port_is_closed_at_its_time_limit(address: str) -> None:
    with connect(address) as silent, connect(address) as busy, connect(address) as unread:
        began = time.monotonic()
        unread.sendall(b"GET /healthz HTTP/1.0\r\n")
        busy.sendall(b"GET /healthz HTTP/1.0\r\nx: ")
        while not is_over(busy, 0.1):
            with suppress(OSError):  # it may end this very moment
                busy.send(b"x")
            assert get(address, "/healthz")[0] == 200  # others are served meanwhile
            assert time.monotonic() - began < 2 * CONNECTION_SECONDS
        assert time.monotonic() - began > CONNECTION_SECONDS - 1
        assert is_over(silent, CONNECTION_SECONDS)
        assert is_over(unread, CONNECTION_SECONDS)
