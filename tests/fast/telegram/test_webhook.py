"""The webhook: needs its secret, and an update is sent again only while its effects are not committed."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx2
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.http.app import build_app
from duly.settings import Settings
from duly.telegram.webhook import TelegramWebhook
from tests.support.api import client_for, running
from tests.support.telegram.environment import BotTestEnvironment

SECRET = "a-secret_of-ours"  # noqa: S105
HEADER = "X-Telegram-Bot-Api-Secret-Token"


@contextmanager
def hooked(env: BotTestEnvironment, **more: object) -> Generator[httpx2.Client, None, None]:
    """Serve the API with a bot that receives updates by webhook."""
    webhook = TelegramWebhook(env.settings(TELEGRAM_WEBHOOK_SECRET=SECRET, **more))
    dsn = make_conninfo(env.schedules.admin.info.dsn, user=Names().api)
    with (
        running(build_app(Settings(), dsn, env.objects, webhook=webhook)) as address,
        client_for(address) as client,
    ):
        yield client


def update(**message: object) -> dict[str, object]:
    """Build an update as Telegram posts it."""
    return {"update_id": 7, **message}


async def test_irrelevant_updates_are_answered_with_200(env: BotTestEnvironment) -> None:
    with hooked(env) as client:
        bodies: list[Any] = [{"update_id": 7, "poll": {}}, {"update_id": 8}, {"no": "update"}, [1], "x"]
        for body in bodies:
            assert client.post("/telegram/hook", json=body, headers={HEADER: SECRET}).status_code == 200, body
        assert client.post("/telegram/hook", content=b"\xff", headers={HEADER: SECRET}).status_code == 200


async def test_without_a_bot_the_webhook_path_is_not_found(env: BotTestEnvironment) -> None:
    dsn = make_conninfo(env.schedules.admin.info.dsn, user=Names().api)
    with running(build_app(Settings(), dsn, env.objects)) as address, client_for(address) as client:
        assert client.post("/telegram/hook", json={}, headers={HEADER: SECRET}).status_code == 404
