"""An HTTP client of little cost: requests are bytes built beforehand, one at a time on a kept connection."""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import cast

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
END = b"\r\n\r\n"


class Channel(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection is open."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Receive a part of an answer, or all of it."""
        self.received += data
        head = self.received.find(END)
        length = LENGTH.search(self.received, 0, head) if head >= 0 else None
        if length and len(self.received) >= head + len(END) + int(length[1]) and self.answer:
            self.answer.set_result(bytes(self.received))
            self.received.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits when the server closes the connection."""
        if self.answer and not self.answer.done():
            self.answer.set_exception(exc or ConnectionError("the server closed the connection"))

    async def ask(self, request: bytes) -> bytes:
        """Send a request and wait for its answer."""
        assert self.transport
        if self.transport.is_closing():
            raise ConnectionError("the server closed the connection")
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answer


def request_of(path: str, key: str, body: bytes) -> bytes:
    """Build a whole POST request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    )
    return head.encode() + END + body


async def send_all(port: int, requests: Sequence[bytes], clients: int) -> list[float]:
    """Send requests over several connections at once; return the seconds that each took. Each must create a post."""
    waiting = iter(requests)  # shared: the next free client takes the next request
    seconds: list[float] = []

    async def send(channel: Channel) -> None:
        for request in waiting:
            began = time.monotonic()
            answer = await channel.ask(request)
            seconds.append(time.monotonic() - began)
            if not (answer.startswith(b"HTTP/1.1 200 ") and b'"success":true' in answer):
                raise RuntimeError(f"answered {answer.decode(errors='replace')}")

    loop = asyncio.get_running_loop()
    channels = [(await loop.create_connection(Channel, "127.0.0.1", port))[1] for _ in range(clients)]
    try:
        async with asyncio.TaskGroup() as group:
            for channel in channels:
                group.create_task(send(channel))
    finally:
        for channel in channels:
            assert channel.transport
            channel.transport.close()
    return seconds
