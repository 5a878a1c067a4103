"""What every request of /v1 passes first: who asks is known before its body is read, and no body is endless."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from duly.errors import TooLarge

__all__ = ["LARGEST_BODY_BYTES", "GuardedRoute"]

LARGEST_BODY_BYTES = 4 * 1024 * 1024  # a payload of 1 MiB fits in, however its letters are escaped


class GuardedRoute(APIRoute):
    """A route for callers we know, with bodies we can hold."""

    largest_bytes = LARGEST_BODY_BYTES

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's own handler, behind the two questions."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.state.caller = await request.state.keyring.caller_of(request)
            body = await read_body(request, self.largest_bytes)
            return await handle(Request(request.scope, repeat(body, request.receive)))

        return guarded


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The whole body, or TooLarge: at once when it says its length, else as soon as it passes the limit."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most_bytes:
        raise too_large(most_bytes)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise too_large(most_bytes)
    return bytes(body)


def too_large(most_bytes: int) -> TooLarge:
    """The refusal, in words."""
    return TooLarge(f"the body has more than {most_bytes} bytes; send less")


def repeat(body: bytes, receive: Callable[[], Awaitable[Message]]) -> Callable[[], Awaitable[Message]]:
    """Give a body that was read already to the next who reads; what comes after it comes from the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
