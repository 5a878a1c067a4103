"""The posts contract's own envelope: `{"success": true, "data": ...}` or `{"success": false, "error": ...}`.

What everywhere else is a problem with a status is told here in the contract's words, with its statuses; and how each
request ended is counted, ours to blame or not.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from fastapi import Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from duly.api.guard import GuardedRoute
from duly.api.problems import HEADERS, place_of, public_detail
from duly.db.pool import Pool
from duly.errors import AlreadyPosted, DulyError, InvalidArgument, Misconfigured, Unavailable, Unexpected
from duly.kernel.outcome import clean_text
from duly.logs import get_log
from duly.posts import store

__all__ = ["EnvelopedRoute", "IntentCounts", "Refusal", "envelopes"]

FLUSH_SECONDS = 5.0
log = get_log("duly.api")


class RefusalReason(BaseModel):
    """Why there is no post."""

    code: str = Field(description="docs/errors.md explains each.")
    message: str
    postId: str | None = Field(default=None, description="With ALREADY_POSTED: the post of that day.")  # noqa: N815


class Refusal(BaseModel):
    """A request that made no post."""

    success: bool = False
    error: RefusalReason


class IntentCounts:
    """How requests for posts ended, gathered here and written down every few seconds."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.counts: Counter[str] = Counter()

    def note(self, outcome: str) -> None:
        """One more ended so."""
        self.counts[outcome] += 1

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator["IntentCounts", None]:
        """Write down now and then, and at the end."""
        end = asyncio.Event()
        task = asyncio.create_task(self.flush_until(end))
        try:
            yield self
        finally:
            end.set()  # and not a cancel, which would lose what is being written this instant
            with suppress(TimeoutError):  # without a database we do not wait for ever
                async with asyncio.timeout(FLUSH_SECONDS):
                    await task

    async def flush_until(self, end: asyncio.Event) -> None:
        """Write down every few seconds, and once more at the end."""
        while not end.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await end.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write down what came together; what cannot be written now is kept for later."""
        counts, self.counts = self.counts, Counter()
        if not counts:
            return
        try:
            async with self.pool.transaction() as connection:
                await store.count_intents(connection, counts)
        except (DulyError, psycopg.Error) as error:
            self.counts += counts
            log.warning("the counts of intents are written later", error=str(error) or type(error).__name__)


class EnvelopedRoute(GuardedRoute):
    """A route that answers in the envelope whatever happens, and counts how it ended."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's own handler, whose failures are told in the envelope."""
        handle = super().get_route_handler()

        async def enveloped(request: Request) -> Response:
            counts: IntentCounts = request.state.intents
            try:
                response = await handle(request)
            except ClientDisconnect:  # who hung up while still speaking has asked for nothing
                raise
            except Exception as error:
                refusal = refusal_of(error)
                counts.note(refusal[0].code)
                if refusal[0] is Unexpected:
                    log.exception("a request for a post failed")
                return told(*refusal)
            counts.note("REPLAYED" if response.headers.get("Duly-Replayed") else "CREATED")
            return response

        return enveloped


def refusal_of(error: Exception) -> tuple[type[DulyError], str, AlreadyPosted | None]:
    """What kind of refusal an exception is, its words, and the post it names."""
    match error:
        case AlreadyPosted():
            return AlreadyPosted, str(error), error
        case Misconfigured():
            log.error("the API cannot work as it is set up", error=error)
            return Unavailable, "the server is not set up for this; its log says what is missing", None
        case DulyError():
            return type(error), public_detail(error), None
        case RequestValidationError():
            place = place_of(error.errors()[0])
            return InvalidArgument, f"{place.at.removeprefix('body.')}: {place.says}", None
        case HTTPException():  # the framework's own word for a body that is no text at all, or too deep
            return InvalidArgument, "body: cannot be read as JSON", None
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unavailable, "the database did not answer; ask again with the same requestId", None
        case _:
            return Unexpected, "something went wrong here that should not have; the server's log says what", None


def told(error: type[DulyError], message: str, posted: AlreadyPosted | None) -> Response:
    """A refusal as a response; a broken rule is 400 here, as the contract says."""
    code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
    post_id = str(posted.post_id) if posted and posted.post_id else None
    refusal = Refusal(error=RefusalReason(code=error.code, message=clean_text(message), postId=post_id))
    return JSONResponse(refusal.model_dump(exclude_none=True), code, headers=HEADERS.get(code, {}))


def envelopes(*errors: type[DulyError]) -> dict[int | str, dict[str, Any]]:
    """How an enveloped route may answer, for its documentation."""
    found: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
        words = f"`{error.code}`"
        known = found.get(code)
        found[code] = {"model": Refusal, "description": f"{known['description']}, {words}" if known else words}
    found["4XX"] = {"model": Refusal, "description": "Every refusal has this form."}  # else the framework adds its own
    return found
