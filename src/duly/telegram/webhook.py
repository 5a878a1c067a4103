"""The webhook: Telegram posts updates to the HTTP API, which registers its URL when it starts."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from aiogram.exceptions import AiogramError

from duly.db.pool import Pool
from duly.logging import get_log
from duly.settings import Settings
from duly.storage import ObjectStore
from duly.telegram.client import format_error
from duly.telegram.dispatcher import ALLOWED_UPDATES, Dispatcher, open_dispatcher

FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0

log = get_log("duly.telegram")


class TelegramWebhook:
    """What the HTTP API needs to receive updates: the secret that authenticates them, and a dispatcher."""

    def __init__(self, settings: Settings) -> None:
        assert settings.telegram_webhook_secret, "callers check that a secret is set"
        self.settings = settings
        self.secret = settings.telegram_webhook_secret.get_secret_value()

    @asynccontextmanager
    async def open(self, pool: Pool, objects: ObjectStore) -> AsyncGenerator[Dispatcher, None]:
        """Open a dispatcher; register the webhook in the background, if the settings have its URL."""
        async with open_dispatcher(self.settings, pool, objects) as dispatcher:
            registering = asyncio.create_task(self.register_webhook(dispatcher))
            try:
                yield dispatcher
            finally:
                registering.cancel()
                with suppress(asyncio.CancelledError):
                    await registering

    async def register_webhook(self, dispatcher: Dispatcher) -> None:
        """Register the webhook with Telegram; retries until that succeeds."""
        url = self.settings.telegram_webhook_url
        pause = FIRST_PAUSE_SECONDS
        while url:
            try:
                await dispatcher.bot.set_webhook(
                    url, secret_token=self.secret, allowed_updates=ALLOWED_UPDATES, drop_pending_updates=False
                )
                await dispatcher.register_commands()
            except AiogramError as error:
                log.warning("telegram.webhook_not_registered", error=format_error(error))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(pause * 2, MAX_PAUSE_SECONDS)
            else:
                log.info("telegram.webhook_registered", url=url)
                return
