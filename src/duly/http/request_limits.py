"""What every request of /v1 passes first: who asks, and whether they may, is known before the body is read.

    whose key (401) -> is what it announces too much (413) -> may it do this (403), not too often (429)
      -> the body is read: for so long and no longer (413), and no more of them at once than we can hold (503)

Only then is it looked at. A body of up to 64 KiB needs no place: the server underneath holds as much for anybody. One
caller holds at most half of the places, and beyond that a share of its own is left to every other; a larger body must
arrive at MIN_BYTES_PER_SECOND, so that no place is held by a connection that stalls.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from fastapi import Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.types import Message

from duly.errors import TooLarge, Unavailable
from duly.rate_limit import Rate

__all__ = [
    "BODIES_AT_ONCE",
    "IMAGES_AT_ONCE",
    "MAX_BODY_BYTES",
    "MIN_BYTES_PER_SECOND",
    "SMALL_BODY_BYTES",
    "GuardedRoute",
    "ImageRoute",
    "Room",
    "read_body",
]

MAX_BODY_BYTES = 4 * 1024 * 1024  # a payload of 1 MiB fits in, however its letters are escaped
SMALL_BODY_BYTES = 64 * 1024
BODY_SECONDS, IMAGE_SECONDS = 30.0, 120.0
BODIES_AT_ONCE, IMAGES_AT_ONCE = 32, 8
PLACE_SECONDS = 5.0
MIN_BYTES_PER_SECOND, STALL_SECONDS = 16 * 1024, 5.0  # of a body that holds a place
ADMIN = "admin"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Room:
    """Where large bodies are held, so many at once in this process, until they are answered.

    While more than half of the places are free anybody may take one; then only who holds less than a share. So one
    caller never holds more than half, and several of them leave room for the next.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.share = max(1, places // 8)
        self.held: Counter[str] = Counter()
        self.freed = asyncio.Event()

    def has_place_for(self, caller: str) -> bool:
        """May this caller take a place now?"""
        free = self.places - self.held.total()
        return free > self.places // 2 or (free > 0 and self.held[caller] < self.share)

    async def take(self, caller: str) -> None:
        """Wait until there is a place for this caller, and take it."""
        while not self.has_place_for(caller):
            await self.freed.wait()
        self.held[caller] += 1

    def release(self, caller: str) -> None:
        """Give a place back."""
        self.held[caller] -= 1
        if not self.held[caller]:
            del self.held[caller]
        self.freed.set()
        self.freed = asyncio.Event()

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncGenerator["Place", None]:
        """A place that is there to be taken; whoever took it gives it back in the end."""
        place = Place(self, caller)
        try:
            yield place
        finally:
            if place.is_taken:
                self.release(caller)


@dataclass
class Place:
    """One place in a room."""

    room: Room
    caller: str
    is_taken: bool = False

    async def take(self) -> None:
        """Wait a moment for a place, or Unavailable; who has it has it."""
        if self.is_taken:
            return
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self.room.take(self.caller)
        except TimeoutError:
            raise Unavailable("too many large bodies are being read at once; nothing was done: ask again") from None
        self.is_taken = True


@dataclass
class RateOfOne:
    """The rate, as one request meets it: twice, before its body is read and after, and it counts once."""

    rate: Rate
    counted: set[str] = field(default_factory=set[str])

    def take(self, who: str) -> None:
        """One more for this person, or RateLimited."""
        if who not in self.counted:
            self.rate.take(who)
            self.counted.add(who)


class GuardedRoute(APIRoute):
    """A route for callers we know, with bodies we can hold."""

    max_bytes = MAX_BODY_BYTES
    max_seconds = BODY_SECONDS
    room = "room"

    def get_route_handler(self) -> Handler:
        """The route's own handler, behind all the questions."""
        handle, judge = super().get_route_handler(), self.get_judge()

        async def guarded(request: Request) -> Response:
            request.state.caller = await request.state.keyring.caller_of(request)
            refuse_announced(request, self.max_bytes)
            if brings_body(request):
                request.state.rate = RateOfOne(request.state.rate)
                await judge(request)
            room: Room = getattr(request.state, self.room)
            async with room.place(sharer_of(request)) as place:
                body = await read_body(request, self.max_bytes, self.max_seconds, place)
                return await handle(Request(request.scope, repeat(body, request.receive)))

        return guarded

    def get_judge(self) -> Handler:
        """Everything that the route depends on, without its body: raises what the route would."""
        asked = [*self.dependencies, *dependencies_of(self.endpoint)]
        return APIRoute(self.path, admitted, dependencies=asked).get_route_handler()


class ImageRoute(GuardedRoute):
    """A route that takes a photograph: it may take longer to come, and fewer are held at once."""

    max_seconds = IMAGE_SECONDS
    room = "image_room"


def sharer_of(request: Request) -> str:
    """Who shares places with all their other requests: the person, or else the org, or else the key."""
    caller = request.state.caller
    on_behalf = request.headers.get("duly-user") if caller.may(ADMIN) else None  # nobody else may name another
    return f"person {uid}" if (uid := on_behalf or caller.uid) else f"org {caller.org}" if caller.org else caller.name


async def admitted() -> Response:
    """Nobody objected."""
    return Response()


def dependencies_of(endpoint: Callable[..., Any]) -> Iterator[Depends]:
    """What a function asks FastAPI for, as its annotations say."""
    for hint in get_type_hints(endpoint, include_extras=True).values():
        yield from (part for part in get_args(hint) if isinstance(part, Depends))


def brings_body(request: Request) -> bool:
    """Does a request say that a body comes with it?"""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def refuse_announced(request: Request, max_bytes: int) -> None:
    """TooLarge when a body says that it will be."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise too_large(max_bytes)


async def read_body(
    request: Request, max_bytes: int, seconds: float = BODY_SECONDS, place: Place | None = None
) -> bytes:
    """The whole body, or TooLarge: at once when it says its length, else as soon as it is too long or takes too long.

    One that is not small takes the place, or is Unavailable; then it must go on arriving.
    """
    refuse_announced(request, max_bytes)
    body = bytearray()
    begun_at, end_at = time.monotonic(), asyncio.get_running_loop().time() + seconds
    try:
        async with asyncio.timeout_at(end_at) as limit:
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise too_large(max_bytes)
                if place and len(body) > SMALL_BODY_BYTES:
                    if not place.is_taken:
                        await place.take()
                        begun_at = time.monotonic() - len(body) / MIN_BYTES_PER_SECOND  # waiting here was not theirs
                    slack = STALL_SECONDS + len(body) / MIN_BYTES_PER_SECOND - (time.monotonic() - begun_at)
                    limit.reschedule(min(end_at, asyncio.get_running_loop().time() + max(0.0, slack)))
    except TimeoutError:
        raise TooLarge(too_slow(seconds)) from None
    return bytes(body)


def too_slow(seconds: float) -> str:
    """Why a body was not waited for."""
    return (
        f"the body did not come within {seconds:g} s, or came at less than {MIN_BYTES_PER_SECOND // 1024} KiB/s; "
        "send less, or send it faster"
    )


def too_large(max_bytes: int) -> TooLarge:
    """The refusal, in words."""
    return TooLarge(f"the body has more than {max_bytes} bytes; send less")


def repeat(body: bytes, receive: Callable[[], Awaitable[Message]]) -> Callable[[], Awaitable[Message]]:
    """Give a body that was read already to the next who reads; what comes after it comes from the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
