"""The envelope of the posts contract: `{"success": true, "data": ...}` or `{"success": false, "error": ...}`.

Errors that are problem responses elsewhere have the form and the statuses of the contract here, and the outcome of each
request is counted for the service level objective. A request in the form of Firebase's callable functions,
`{"data": ...}`, gets a response in that form: `{"result": ...}` or `{"error": {"status", "message", "details"}}`. A
request that fails before its body is read gets the envelope, whose error has the status that callable clients read.
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
from duly.http.problems import HEADERS, INTERNAL_ERROR_DETAIL, MISCONFIGURED_DETAIL, public_detail, to_invalid_field
from duly.http.request_limits import GuardedRoute
from duly.logging import get_log
from duly.outcomes import clean_text

FLUSH_SECONDS = 5.0
PLAIN, CALLABLE = "plain", "callable"  # the forms of a request; pydantic adds them to the location of an error
CANONICAL_STATUSES: Mapping[int, str] = {  # by HTTP status, for clients of callable functions
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


class FailureReason(BaseModel):
    """Why no post was created."""

    code: str = Field(description="docs/errors.md explains each.")
    status: str = Field(description="The canonical status, for clients of callable functions.")
    message: str
    postId: str | None = Field(default=None, description="With ALREADY_POSTED: the post of that day.")  # noqa: N815


class FailureResponse(BaseModel):
    """Response to a request that created no post."""

    success: bool = False
    error: FailureReason


class CallableDetails(BaseModel):
    """Details of an error."""

    code: str = Field(description="docs/errors.md explains each.")
    postId: str | None = Field(default=None, description="With ALREADY_POSTED: the post of that day.")  # noqa: N815


class CallableError(BaseModel):
    """Why no post was created, in the form of callable functions."""

    status: str = Field(description="A canonical status, such as ALREADY_EXISTS.")
    message: str
    details: CallableDetails


class CallableFailureResponse(BaseModel):
    """Response to a request in the form of callable functions that created no post."""

    error: CallableError


class IntentOutcomes:
    """Counts the outcomes of post intents in memory and stores them every FLUSH_SECONDS."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.counts: Counter[str] = Counter()

    def note(self, outcome: str) -> None:
        """Count one outcome."""
        self.counts[outcome] += 1

    @asynccontextmanager
    async def flushing(self) -> AsyncGenerator["IntentOutcomes", None]:
        """Flush in the background, and once more when the block ends."""
        end = asyncio.Event()
        task = asyncio.create_task(self.flush_until(end))
        try:
            yield self
        finally:
            end.set()  # a cancel would lose counts that are being written
            with suppress(TimeoutError):  # the database may be unavailable
                async with asyncio.timeout(FLUSH_SECONDS):
                    await task

    async def flush_until(self, end: asyncio.Event) -> None:
        """Flush every FLUSH_SECONDS, and once more at the end."""
        while not end.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await end.wait()
            await self.flush()

    async def flush(self) -> None:
        """Store the counts; keep them for the next flush when that fails."""
        counts, self.counts = self.counts, Counter()
        if not counts:
            return
        try:
            async with self.pool.transaction() as connection:
                await repository.count_intents(connection, counts)
        except (DulyError, psycopg.Error) as error:
            self.counts += counts
            log.warning("posts.intent_counts_deferred", error=str(error) or type(error).__name__)


class EnvelopedRoute(GuardedRoute):
    """A guarded route that always responds in the envelope, and counts the outcome."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler of the route: its exceptions become failures in the envelope."""
        handle = super().get_route_handler()

        async def handle_enveloped(request: Request) -> Response:
            outcomes: IntentOutcomes = request.state.intent_outcomes
            try:
                response = await handle(request)
            except ClientDisconnect:  # the request never arrived completely, so it does not count
                raise
            except Exception as error:
                failure = failure_from_exception(error)
                outcomes.note(failure[0].code)
                if failure[0] is Unexpected:
                    log.exception("posts.intent_failed")
                return failure_response(*failure, is_callable=is_callable(request, error))
            outcomes.note("REPLAYED" if response.headers.get("Duly-Replayed") else "CREATED")
            return response

        return handle_enveloped


def failure_from_exception(error: Exception) -> tuple[type[DulyError], str, AlreadyPosted | None]:
    """Return the error class of an exception, its message, and the error itself if it names a post."""
    match error:
        case AlreadyPosted():
            return AlreadyPosted, str(error), error
        case Misconfigured():
            log.error("http.misconfigured", error=error)
            return Unavailable, MISCONFIGURED_DETAIL, None
        case DulyError():
            return type(error), public_detail(error), None
        case RequestValidationError():
            field = to_invalid_field(without_form(error.errors()[0]))
            return InvalidArgument, f"{field.location.removeprefix('body.')}: {field.message}", None
        case HTTPException():  # how the framework rejects a body that is not text, or nested too deep
            return InvalidArgument, "body: cannot be parsed as JSON", None
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unavailable, "the database did not answer; retry with the same requestId", None
        case _:
            return Unexpected, INTERNAL_ERROR_DETAIL, None


def detect_form(body: object) -> str:
    """Return the form of a request: callable functions put everything into `data`."""
    return CALLABLE if isinstance(body, dict) and "data" in cast("dict[str, Any]", body) else PLAIN


def is_callable(request: Request, error: Exception) -> bool:
    """Return whether a failed request had the form of callable functions, as far as it was parsed."""
    if isinstance(error, RequestValidationError):
        return detect_form(error.body) == CALLABLE
    return getattr(request.state, "is_callable", False)


def without_form(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error of pydantic whose location does not name the form."""
    first, *rest = found["loc"]
    return {**found, "loc": (first, *rest[1:])} if rest[:1] in ([PLAIN], [CALLABLE]) else found


def failure_response(
    error: type[DulyError], message: str, posted: AlreadyPosted | None, *, is_callable: bool
) -> Response:
    """Build the response for a failure; an invalid argument is 400 here, as the contract says."""
    code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
    post_id = str(posted.post_id) if posted and posted.post_id else None
    text, canonical = clean_text(message), CANONICAL_STATUSES.get(code, "INTERNAL")
    failure: BaseModel
    if is_callable:
        details = CallableDetails(code=error.code, postId=post_id)
        failure = CallableFailureResponse(error=CallableError(status=canonical, message=text, details=details))
    else:
        failure = FailureResponse(error=FailureReason(code=error.code, status=canonical, message=text, postId=post_id))
    return JSONResponse(failure.model_dump(exclude_none=True), code, headers=HEADERS.get(code, {}))


def failure_responses(*errors: type[DulyError]) -> dict[int | str, dict[str, Any]]:
    """Document how an enveloped route may fail."""
    responses: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
        description = f"`{error.code}`"
        known = responses.get(code)
        responses[code] = {
            "model": FailureResponse | CallableFailureResponse,
            "description": f"{known['description']}, {description}" if known else description,
        }
    responses["4XX"] = {
        "model": FailureResponse | CallableFailureResponse,
        "description": "Every failure has one of these forms.",
    }  # without it the framework adds its own
    return responses
