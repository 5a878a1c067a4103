"""Errors as bodies: `application/problem+json` (RFC 9457), with the error tree's own code.

A caller's mistake is told with what would do instead; a mistake of ours is told without its insides, which are for the
log. What the request brought is never repeated: it may be long, and it may be secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from fastapi import FastAPI, Request, Response, status
from fastapi.exceptions import RequestValidationError
from psycopg import errors as database_errors
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duly.errors import (
    AlreadyAnswered,
    DulyError,
    InvalidArgument,
    MethodNotAllowed,
    Misconfigured,
    NotFound,
    NotMigrated,
    RateLimited,
    Refused,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.logging import get_log
from duly.outcomes import clean_text

__all__ = ["MEDIA_TYPE", "Problem", "refusals", "tell_problems", "with_problems"]

MEDIA_TYPE = "application/problem+json"
MAX_PLACES = 20
MAX_PLACE_LENGTH = 200
MAX_WORDS_LENGTH = 500
RETRY_SECONDS = 2
HEADERS = {
    Unauthorized.status: {"WWW-Authenticate": 'Bearer realm="duly"'},
    Unavailable.status: {"Retry-After": str(RETRY_SECONDS)},
    RateLimited.status: {"Retry-After": "1"},
}
NOT_MIGRATED = (database_errors.UndefinedTable, database_errors.UndefinedFunction, database_errors.InvalidSchemaName)
log = get_log("duly.http")


class Place(BaseModel):
    """One thing that is wrong with a request, and where."""

    at: str = Field(description="Where it stands: `body.priority`, `query.limit`.")
    says: str = Field(description="What would do instead.")


class Problem(BaseModel):
    """Why a request was not done."""

    type: str = Field(description="The kind of problem, as a URI that is made of the code.")
    title: str = Field(description="What this kind of problem is; the same every time.")
    status: int = Field(description="The HTTP status.", ge=400, le=599)
    detail: str = Field(description="What is the matter this time, and what would do instead.")
    code: str = Field(description="The code, as on the command line and in a row: docs/errors.md explains each.")
    places: list[Place] | None = Field(default=None, description="With INVALID_ARGUMENT: what is wrong, and where.")
    receipt: dict[str, Any] | None = Field(
        default=None, description="With ALREADY_ANSWERED: the receipt of the first answer."
    )


# Telling --------------------------------------------------------------------------------------------------------------


def tell_problems(app: FastAPI) -> None:
    """From now on every failure of this application leaves as a problem."""
    app.add_exception_handler(DulyError, tell_error)
    app.add_exception_handler(RequestValidationError, tell_invalid)
    app.add_exception_handler(HTTPException, tell_unroutable)
    app.add_exception_handler(psycopg.Error, tell_database)
    app.add_exception_handler(ClientDisconnect, tell_nobody)
    app.add_middleware(LastResort)


def tell_error(request: Request, error: Exception) -> Response:
    """An error of ours; what is wrong with the server itself is for its log."""
    assert isinstance(error, DulyError)
    if isinstance(error, Misconfigured):
        log.error("the API cannot work as it is set up", error=error, path=shown_path(request.url.path))
        return answer(type(error), "the server is not set up for this; its log says what is missing")
    receipt = error.receipt if isinstance(error, AlreadyAnswered) else None
    return answer(type(error), public_detail(error), receipt=receipt)


def public_detail(error: DulyError) -> str:
    """What a client is told; where that is less than the message, the log has the whole."""
    if isinstance(error, Unavailable) and error.public is not None:
        log.error("a request could not be served", error=str(error))
        return error.public
    return str(error)


def tell_invalid(_: Request, error: Exception) -> Response:
    """What pydantic refused, place by place."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    places = [place_of(each) for each in found[:MAX_PLACES]]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return answer(InvalidArgument, f"{places[0].at}: {places[0].says}{more}", places)


def tell_unroutable(_: Request, error: Exception) -> Response:
    """What the framework refuses by itself: an address, a verb, or a body that is no text at all."""
    assert isinstance(error, HTTPException)
    match error.status_code:
        case status.HTTP_404_NOT_FOUND:
            return answer(NotFound, "there is nothing at this address; /openapi.json lists what there is")
        case status.HTTP_405_METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "")
            return answer(MethodNotAllowed, f"this address knows only {allowed}", headers=error.headers)
        case status.HTTP_400_BAD_REQUEST:
            return answer(InvalidArgument, "the body cannot be read as JSON", [Place(at="body", says="is not JSON")])
        case _:
            return answer(Refused, clean_text(str(error.detail), MAX_WORDS_LENGTH))


def tell_database(request: Request, error: Exception) -> Response:
    """What the database said, in words of ours; what it should never have said is a mistake of ours."""
    if isinstance(error, NOT_MIGRATED):
        return tell_error(request, NotMigrated(f"{error}; make our tables with: duly migrate"))
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return answer(
            Unavailable, "the database did not answer; whether anything was done is not known: ask again, same key"
        )
    raise error


def tell_nobody(_request: Request, _error: Exception) -> Response:
    """Whoever asked hung up while still speaking."""
    return Response(status_code=status.HTTP_400_BAD_REQUEST)


class LastResort:
    """Around everything: a mistake of ours becomes a line in the log, and a problem that says no more than that.

    The framework has such a thing, which tells the server underneath as well; that hangs up, on other requests too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer it ourselves when nobody did."""
        is_answered = False

        async def watched(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            if is_answered or scope["type"] != "http":
                raise
            log.exception("a request failed", method=scope["method"], path=shown_path(scope["path"]))
            words = "something went wrong here that should not have; the server's log says what"
            await answer(Unexpected, words)(scope, receive, send)


def answer(
    error: type[DulyError],
    detail: str,
    places: Sequence[Place] | None = None,
    headers: Mapping[str, str] | None = None,
    receipt: Mapping[str, Any] | None = None,
) -> Response:
    """One problem as a response."""
    problem = Problem(
        type=f"urn:duly:error:{error.code}",
        title=title_of(error),
        status=error.status,
        detail=clean_text(detail),
        code=error.code,
        places=list(places) if places else None,
        receipt=dict(receipt) if receipt else None,
    )
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=error.status,
        headers={**HEADERS.get(error.status, {}), **(headers or {})},
        media_type=MEDIA_TYPE,
    )


def title_of(error: type[DulyError]) -> str:
    """The error's own sentence."""
    return (error.__doc__ or "").splitlines()[0].rstrip(".")


def place_of(found: Mapping[str, Any]) -> Place:
    """One finding of pydantic's, without what was found there."""
    where = ".".join(map(str, found["loc"]))
    match found["type"]:
        case "json_invalid":
            where, words = "body", f"is not JSON: {found['ctx']['error']}, at character {found['loc'][-1]}"
        case "model_attributes_type" | "dict_type" if found["loc"] == ("body",):
            words = "must be a JSON object, sent with the header Content-Type: application/json"
        case _:
            words = str(found["msg"]).removeprefix("Value error, ")
    return Place(at=clean_text(where, MAX_PLACE_LENGTH), says=clean_text(words, MAX_WORDS_LENGTH))


# Documenting ----------------------------------------------------------------------------------------------------------


def refusals(*errors: type[DulyError]) -> dict[int | str, dict[str, Any]]:
    """How a route may answer, for its documentation: a status for each error, and the codes that come with it."""
    found: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        words = f"`{error.code}`: {title_of(error)}."
        known = found.get(error.status)
        found[error.status] = {
            "description": f"{known['description']} {words}" if known else words,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return found


def with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the body that every refusal refers to."""
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= {**schema.pop("$defs"), "Problem": schema}
    return document


def shown_path(path: str) -> str:
    """The path as a log may have it: who holds the address of a calendar or of an answer may use it."""
    return next((f"{secret}..." for secret in ("/ics/", "/c/") if path.startswith(secret)), path)
