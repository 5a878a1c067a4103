"""The posts contract's own envelope: `{"success": true, "data": ...}` or `{"success": false, "error": ...}`.

What everywhere else is a problem with a status is told here in the contract's words, with its statuses; and how each
request ended is counted, ours to blame or not. A request in the form of Firebase's callable functions, `{"data": ...}`,
is answered in that form: `{"result": ...}` or `{"error": {"status", "message", "details"}}`. A request that is refused
before its body is read gets the envelope, whose error has the status that callable clients read.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import psycopg
from fastapi import Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from duly.apps.posts import repository
from duly.db.pool import Pool
from duly.errors import AlreadyPosted, DulyError, InvalidArgument, Misconfigured, Unavailable, Unexpected
from duly.http.problems import HEADERS, place_of, public_detail
from duly.http.request_limits import GuardedRoute
from duly.logging import get_log
from duly.outcomes import clean_text

__all__ = ["CALLABLE", "PLAIN", "EnvelopedRoute", "IntentCounts", "Refusal", "envelopes", "form_of"]

FLUSH_SECONDS = 5.0
PLAIN, CALLABLE = "plain", "callable"  # the forms of a request; also what pydantic puts into the place of an error
CANONICAL: Mapping[int, str] = {  # what clients of callable functions call an HTTP status
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    413: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
log = get_log("duly.http")


class RefusalReason(BaseModel):
    """Why there is no post."""

    code: str = Field(description="docs/errors.md explains each.")
    status: str = Field(description="The same for clients of callable functions: a canonical status.")
    message: str
    postId: str | None = Field(default=None, description="With ALREADY_POSTED: the post of that day.")  # noqa: N815


class Refusal(BaseModel):
    """A request that made no post."""

    success: bool = False
    error: RefusalReason


class CallableDetails(BaseModel):
    """What else there is to know of an error."""

    code: str = Field(description="docs/errors.md explains each.")
    postId: str | None = Field(default=None, description="With ALREADY_POSTED: the post of that day.")  # noqa: N815


class CallableError(BaseModel):
    """Why there is no post, as clients of callable functions read it."""

    status: str = Field(description="A canonical status, such as ALREADY_EXISTS.")
    message: str
    details: CallableDetails


class CallableRefusal(BaseModel):
    """A request in the form of callable functions that made no post."""

    error: CallableError


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
                await repository.count_intents(connection, counts)
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
                return told(*refusal, is_callable=is_callable(request, error))
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
            place = place_of(without_form(error.errors()[0]))
            return InvalidArgument, f"{place.at.removeprefix('body.')}: {place.says}", None
        case HTTPException():  # the framework's own word for a body that is no text at all, or too deep
            return InvalidArgument, "body: cannot be read as JSON", None
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unavailable, "the database did not answer; ask again with the same requestId", None
        case _:
            return Unexpected, "something went wrong here that should not have; the server's log says what", None


def form_of(body: object) -> str:
    """Which form a request has: callable functions have all they are given in `data`."""
    return CALLABLE if isinstance(body, dict) and "data" in cast("dict[str, Any]", body) else PLAIN


def is_callable(request: Request, error: Exception) -> bool:
    """Was a request that failed in the form of callable functions, as far as it was read?"""
    if isinstance(error, RequestValidationError):
        return form_of(error.body) == CALLABLE
    return getattr(request.state, "is_callable", False)


def without_form(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """A finding of pydantic's whose place does not say which form was read."""
    first, *rest = found["loc"]
    return {**found, "loc": (first, *rest[1:])} if rest[:1] in ([PLAIN], [CALLABLE]) else found


def told(error: type[DulyError], message: str, posted: AlreadyPosted | None, *, is_callable: bool) -> Response:
    """A refusal as a response; a broken rule is 400 here, as the contract says."""
    code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
    post_id = str(posted.post_id) if posted and posted.post_id else None
    words, canonical = clean_text(message), CANONICAL.get(code, "INTERNAL")
    refusal: BaseModel
    if is_callable:
        details = CallableDetails(code=error.code, postId=post_id)
        refusal = CallableRefusal(error=CallableError(status=canonical, message=words, details=details))
    else:
        refusal = Refusal(error=RefusalReason(code=error.code, status=canonical, message=words, postId=post_id))
    return JSONResponse(refusal.model_dump(exclude_none=True), code, headers=HEADERS.get(code, {}))


def envelopes(*errors: type[DulyError]) -> dict[int | str, dict[str, Any]]:
    """How an enveloped route may answer, for its documentation."""
    found: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
        words = f"`{error.code}`"
        known = found.get(code)
        found[code] = {
            "model": Refusal | CallableRefusal,
            "description": f"{known['description']}, {words}" if known else words,
        }
    found["4XX"] = {
        "model": Refusal | CallableRefusal,
        "description": "Every refusal has one of these forms.",
    }  # else the framework adds its own
    return found
