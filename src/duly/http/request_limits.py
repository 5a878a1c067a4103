"""Checks that every request to /v1 passes before its body is read, and limits while it is read.

    API key (401) -> announced size (413) -> access rule: scope (403), rate (429)
      -> read the body, within a time limit (413), with a slot if it is large (503)

A body of up to SMALL_BODY_BYTES needs no slot: the server underneath buffers as much for any connection. A larger one
must arrive at MIN_BYTES_PER_SECOND, so that a stalled connection does not keep a slot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, cast

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.types import Message

from duly.errors import TooLarge
from duly.http.auth import ADMIN, AccessRule, Caller
from duly.http.body_slots import BodySlots, Slot

MAX_BODY_BYTES = 4 * 1024 * 1024  # fits a payload of 1 MiB, however its characters are escaped
SMALL_BODY_BYTES = 64 * 1024
BODY_SECONDS, IMAGE_SECONDS = 30.0, 120.0
BODIES_AT_ONCE, IMAGES_AT_ONCE = 32, 8
MIN_BYTES_PER_SECOND, STALL_SECONDS = 16 * 1024, 5.0  # for a body that has a slot

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """Authenticates, authorizes and limits a request before FastAPI sees its body."""

    max_bytes = MAX_BODY_BYTES
    max_seconds = BODY_SECONDS
    slots = "body_slots"

    def get_route_handler(self) -> Handler:
        """Wrap the handler of the route with the checks; the route must depend on exactly one access rule."""
        handle = super().get_route_handler()
        (rule,) = set(find_access_rules(self.dependant))

        async def handle_guarded(request: Request) -> Response:
            request.state.caller = await request.state.authenticator.authenticate(request)
            check_announced_size(request, self.max_bytes)
            await rule.authorize(request)
            slots: BodySlots = getattr(request.state, self.slots)
            with Slot(slots, slot_owner(request)) as slot:
                body = await read_body(request, self.max_bytes, self.max_seconds, slot)
                return await handle(Request(request.scope, replay(body, request.receive)))

        return handle_guarded


class ImageRoute(GuardedRoute):
    """A guarded route that accepts an image: more time to upload it, and fewer at once."""

    max_seconds = IMAGE_SECONDS
    slots = "image_slots"


def find_access_rules(dependant: Dependant) -> Iterator[AccessRule[Any]]:
    """Find the access rules among the dependencies of a route, and among their own."""
    for dependency in dependant.dependencies:
        rule = cast("object", dependency.call)
        if isinstance(rule, AccessRule):
            yield cast("AccessRule[Any]", rule)
        yield from find_access_rules(dependency)


def slot_owner(request: Request) -> str:
    """Return who shares body slots with all their other requests: the person, else the org, else the key."""
    caller: Caller = request.state.caller
    on_behalf = request.headers.get("duly-user") if caller.has_scope(ADMIN) else None
    uid = on_behalf or caller.uid
    return f"person {uid}" if uid else f"org {caller.org}" if caller.org else caller.name


def check_announced_size(request: Request, max_bytes: int) -> None:
    """Raise TooLarge when Content-Length is above the limit."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise body_too_large(max_bytes)


async def read_body(
    request: Request, max_bytes: int, max_seconds: float = BODY_SECONDS, slot: Slot | None = None
) -> bytes:
    """Read the body; raises TooLarge when it is too long or too slow, Unavailable when no slot becomes free."""
    check_announced_size(request, max_bytes)
    loop, body = asyncio.get_running_loop(), bytearray()
    started_at = loop.time()
    deadline = started_at + max_seconds
    try:
        async with asyncio.timeout_at(deadline) as timeout:
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise body_too_large(max_bytes)
                if slot and len(body) > SMALL_BODY_BYTES:
                    allowed_seconds = len(body) / MIN_BYTES_PER_SECOND
                    if not slot.is_acquired:
                        await slot.acquire()
                        started_at = loop.time() - allowed_seconds  # the sender does not pay for our queue
                    stalls_at = started_at + allowed_seconds + STALL_SECONDS
                    timeout.reschedule(min(deadline, max(loop.time(), stalls_at)))
    except TimeoutError:
        raise TooLarge(
            f"the request body did not arrive within {max_seconds:g} s, or arrived at less than "
            f"{MIN_BYTES_PER_SECOND // 1024} KiB/s; send less, or send it faster"
        ) from None
    return bytes(body)


def body_too_large(max_bytes: int) -> TooLarge:
    """Return the error for a body above the limit."""
    return TooLarge(f"the request body is larger than {max_bytes} bytes; send less")


def replay(body: bytes, receive: Callable[[], Awaitable[Message]]) -> Callable[[], Awaitable[Message]]:
    """Return a `receive` that gives a body that was already read, and then what comes from the connection."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return messages.pop() if messages else await receive()

    return receive_next
