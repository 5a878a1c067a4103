"""Where Telegram posts updates: who does not have the secret is refused, and everything else is answered with 200.

Only an update whose effects are not committed yet is answered otherwise: Telegram sends it again then.
"""

import hmac
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast

import orjson
from fastapi import APIRouter, Request, Response, status

from duly.db.pool import Pool
from duly.errors import NotFound, Unauthorized
from duly.http.request_limits import read_body
from duly.logging import get_log
from duly.storage import Objects

__all__ = ["Receives", "TakesUpdates", "router"]

SECRET = "x-telegram-bot-api-secret-token"  # noqa: S105 (the header's name)
MAX_UPDATE_BYTES = 1024 * 1024

log = get_log("duly.http")


class TakesUpdates(Protocol):
    """Takes updates as Telegram posts them; Unavailable says that one is to come again."""

    async def take_raw(self, given: Mapping[str, Any]) -> None: ...


class Receives(Protocol):
    """A bot that is reached by webhook."""

    secret: str

    def open(self, pool: Pool, objects: Objects) -> AbstractAsyncContextManager[TakesUpdates]: ...


router = APIRouter(prefix="/telegram", include_in_schema=False)


@router.post("/hook")
async def take_update(request: Request) -> Response:
    """Check the secret, read so much and no more, and hand the update in."""
    secret: str | None = request.state.hook_secret
    if secret is None:
        raise NotFound("no bot is reached here; set TELEGRAM_BOT_TOKEN and TELEGRAM_WEBHOOK_SECRET")
    given = request.headers.get(SECRET, "")
    if not hmac.compare_digest(given.encode(), secret.encode()):
        raise Unauthorized("the secret of the webhook is not the one we gave Telegram")
    update = read_update(await read_body(request, MAX_UPDATE_BYTES))
    if update is not None:
        await request.state.reception.take_raw(update)
    return Response(status_code=status.HTTP_200_OK)


def read_update(body: bytes) -> Mapping[str, Any] | None:
    """What was posted; None for what is no update, which would be none either if it came again."""
    try:
        given: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        given = None
    if isinstance(given, dict):
        return cast("Mapping[str, Any]", given)
    log.warning("what was posted as an update is none", bytes=len(body))
    return None
