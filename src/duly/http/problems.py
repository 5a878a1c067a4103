"""Error responses: `application/problem+json` (RFC 9457), with the code of the error tree.

An error of the client names the fix. An internal error hides its details, which are logged. Values of the request are
never repeated: they may be long or secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from fastapi import FastAPI, Request, Response, status
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.errors import (
    AlreadyAnswered,
    DulyError,
    Forbidden,
    InvalidArgument,
    MethodNotAllowed,
    Misconfigured,
    NotFound,
    NotMigrated,
    RateLimited,
    Refused,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.logging import get_log
from duly.outcomes import clean_text

MEDIA_TYPE = "application/problem+json"
MAX_INVALID_FIELDS = 20
MAX_LOCATION_LENGTH = 200
MAX_MESSAGE_LENGTH = 500
RETRY_SECONDS = 2
MISCONFIGURED_DETAIL = "the server is not configured for this; its log names the missing setting"
INTERNAL_ERROR_DETAIL = "internal error; the server's log has the details"
HEADERS = {
    Unauthorized.status: {"WWW-Authenticate": 'Bearer realm="duly"'},
    Unavailable.status: {"Retry-After": str(RETRY_SECONDS)},
    RateLimited.status: {"Retry-After": "1"},
}
log = get_log("duly.http")


class InvalidField(BaseModel):
    """One error in a request, and its location."""

    location: str = Field(description="Where it is: `body.priority`, `query.limit`.")
    message: str = Field(description="The rule that the value breaks.")


class Problem(BaseModel):
    """Why a request failed."""

    type: str = Field(description="A URI made of the code.")
    title: str = Field(description="A summary; always the same for a code.")
    status: int = Field(description="The HTTP status.", ge=400, le=599)
    detail: str = Field(description="What is wrong with this request, and how to fix it.")
    code: str = Field(description="The code, as on the command line and in tables: docs/errors.md explains each.")
    errors: list[InvalidField] | None = Field(
        default=None, description="With INVALID_ARGUMENT: each error with its location."
    )
    receipt: dict[str, Any] | None = Field(
        default=None, description="With ALREADY_ANSWERED: the receipt of the first answer."
    )


# Handlers -------------------------------------------------------------------------------------------------------------


def install_problem_handlers(app: FastAPI) -> None:
    """Make every failure of this application a problem response."""
    app.add_exception_handler(DulyError, handle_duly_error)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(psycopg.Error, handle_database_error)
    app.add_exception_handler(ClientDisconnect, handle_client_disconnect)
    app.add_middleware(InternalErrorMiddleware)


def handle_duly_error(request: Request, error: Exception) -> Response:
    """Respond with an error of the tree; details of a wrong configuration are logged only."""
    assert isinstance(error, DulyError)
    if isinstance(error, Misconfigured):
        log.error("http.misconfigured", error=error, path=redact_path(request.url.path))
        return problem_response(type(error), MISCONFIGURED_DETAIL)
    receipt = error.receipt if isinstance(error, AlreadyAnswered) else None
    return problem_response(type(error), public_detail(error), receipt=receipt)


def public_detail(error: DulyError) -> str:
    """Return the message for the client; where it hides something, the full message is logged."""
    if isinstance(error, Unavailable) and error.public is not None:
        log.error("http.unavailable", error=str(error))
        return error.public
    return str(error)


def handle_validation_error(_: Request, error: Exception) -> Response:
    """Respond with the validation errors of pydantic, field by field."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    fields = [to_invalid_field(each) for each in found[:MAX_INVALID_FIELDS]]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return problem_response(InvalidArgument, f"{fields[0].location}: {fields[0].message}{more}", fields)


def handle_http_exception(_: Request, error: Exception) -> Response:
    """Respond to what the framework rejects: an unknown path, a wrong method, or a body that is not text."""
    assert isinstance(error, HTTPException)
    match error.status_code:
        case status.HTTP_404_NOT_FOUND:
            return problem_response(NotFound, "no such path; /openapi.json lists all of them")
        case status.HTTP_405_METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "")
            return problem_response(
                MethodNotAllowed, f"method not allowed for this path; use {allowed}", headers=error.headers
            )
        case status.HTTP_400_BAD_REQUEST:
            return problem_response(
                InvalidArgument,
                "the body cannot be parsed as JSON",
                [InvalidField(location="body", message="is not JSON")],
            )
        case _:
            return problem_response(Refused, clean_text(str(error.detail), MAX_MESSAGE_LENGTH))


def handle_database_error(request: Request, error: Exception) -> Response:
    """Respond to an error of the database; raises it again when it is a bug of duly."""
    if isinstance(error, MISSING_OBJECT_ERRORS):
        return handle_duly_error(request, NotMigrated(f"{error}; create the tables with: duly migrate"))
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return problem_response(
            Unavailable, "the database did not answer, so the result is unknown; retry with the same key"
        )
    raise error


def handle_client_disconnect(_request: Request, _error: Exception) -> Response:
    """End a request whose client disconnected while sending it; the response reaches no one."""
    return Response(status_code=status.HTTP_400_BAD_REQUEST)


class InternalErrorMiddleware:
    """The outermost middleware: logs an unexpected exception, and responds with a problem that hides it.

    The framework's own one raises it again to the server underneath, which then closes connections of other requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; respond in its place when it raised before it began to respond."""
        has_started = False

        async def send_noting_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self.app(scope, receive, send_noting_start)
        except Exception:
            if has_started or scope["type"] != "http":
                raise
            log.exception("http.request_failed", method=scope["method"], path=redact_path(scope["path"]))
            await problem_response(Unexpected, INTERNAL_ERROR_DETAIL)(scope, receive, send)


def problem_response(
    error: type[DulyError],
    detail: str,
    fields: Sequence[InvalidField] | None = None,
    headers: Mapping[str, str] | None = None,
    receipt: Mapping[str, Any] | None = None,
) -> Response:
    """Build the response for an error."""
    problem = Problem(
        type=f"urn:duly:error:{error.code}",
        title=error.title,
        status=error.status,
        detail=clean_text(detail),
        code=error.code,
        errors=list(fields) if fields else None,
        receipt=dict(receipt) if receipt else None,
    )
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=error.status,
        headers={**HEADERS.get(error.status, {}), **(headers or {})},
        media_type=MEDIA_TYPE,
    )


def to_invalid_field(found: Mapping[str, Any]) -> InvalidField:
    """Convert an error of pydantic, without the value that caused it."""
    location = ".".join(map(str, found["loc"]))
    match found["type"]:
        case "json_invalid":
            location, message = "body", f"is not JSON: {found['ctx']['error']}, at character {found['loc'][-1]}"
        case "model_attributes_type" | "dict_type" if found["loc"] == ("body",):
            message = "must be a JSON object, sent with the header Content-Type: application/json"
        case _:
            message = str(found["msg"]).removeprefix("Value error, ")
    return InvalidField(
        location=clean_text(location, MAX_LOCATION_LENGTH), message=clean_text(message, MAX_MESSAGE_LENGTH)
    )


# OpenAPI --------------------------------------------------------------------------------------------------------------


def problem_responses(*errors: type[DulyError]) -> dict[int | str, dict[str, Any]]:
    """Document how a route may fail: one response per status, with the codes of its errors."""
    responses: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        description = f"`{error.code}`: {error.title}."
        known = responses.get(error.status)
        responses[error.status] = {
            "description": f"{known['description']} {description}" if known else description,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return responses


COMMON_PROBLEMS = problem_responses(  # of every route that needs a key
    Unauthorized, Forbidden, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable
)
PERSON_PROBLEMS = problem_responses(  # of every route about data of one person
    Unauthorized, Forbidden, NotFound, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable
)


def add_problem_schema(document: dict[str, Any]) -> dict[str, Any]:
    """Add the schema of problems, to which every error response refers, to an OpenAPI document."""
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= {**schema.pop("$defs"), "Problem": schema}
    return document


def redact_path(path: str) -> str:
    """Return a path for the log, without the token of a calendar or an answer link, which grants access."""
    return next((f"{secret}..." for secret in ("/ics/", "/c/") if path.startswith(secret)), path)
