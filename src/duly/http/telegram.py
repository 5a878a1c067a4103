"""The webhook that Telegram posts updates to.

A request without the secret gets 401. Any other gets 200, unless the effects of its update are not committed yet:
Telegram sends the update again then.
"""

import hmac
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

import orjson
from fastapi import APIRouter, Request, Response, status

from duly.db.pool import Pool
from duly.errors import NotFound, Unauthorized
from duly.http.request_limits import read_body
from duly.logging import get_log

if TYPE_CHECKING:  # storage needs the extra for applications
    from duly.storage import ObjectStore

SECRET = "x-telegram-bot-api-secret-token"  # noqa: S105 (the header's name)
MAX_UPDATE_BYTES = 1024 * 1024

log = get_log("duly.http")


class UpdateDispatcher(Protocol):
    """Dispatches updates as Telegram posts them; raises Unavailable when Telegram is to send one again."""

    async def dispatch_raw(self, payload: Mapping[str, Any]) -> None: ...


class WebhookBot(Protocol):
    """A bot that receives its updates by webhook."""

    secret: str

    def open(self, pool: Pool, objects: "ObjectStore") -> AbstractAsyncContextManager[UpdateDispatcher]: ...


router = APIRouter(prefix="/telegram", include_in_schema=False)


@router.post("/hook")
async def receive_update(request: Request) -> Response:
    """Check the secret, read the body within its limits, and dispatch the update."""
    secret: str | None = request.state.webhook_secret
    if secret is None:
        raise NotFound("the webhook is disabled; set TELEGRAM_BOT_TOKEN and TELEGRAM_WEBHOOK_SECRET to enable it")
    given = request.headers.get(SECRET, "")
    if not hmac.compare_digest(given.encode(), secret.encode()):
        raise Unauthorized("webhook secret missing or wrong; it must be TELEGRAM_WEBHOOK_SECRET")
    update = parse_update(await read_body(request, MAX_UPDATE_BYTES))
    if update is not None:
        await request.state.telegram_dispatcher.dispatch_raw(update)
    return Response(status_code=status.HTTP_200_OK)


def parse_update(body: bytes) -> Mapping[str, Any] | None:
    """Return the posted object, or None when it is not one: sent again, it would be the same."""
    try:
        payload: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        payload = None
    if isinstance(payload, dict):
        return cast("Mapping[str, Any]", payload)
    log.warning("telegram.update_malformed", bytes=len(body))
    return None
