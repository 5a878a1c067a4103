"""The webhook: Telegram posts updates to our API, which is told so when it starts."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from aiogram.exceptions import AiogramError

from duly.db.pool import Pool
from duly.logging import get_log
from duly.settings import Settings
from duly.storage import Objects
from duly.telegram.client import words_of
from duly.telegram.dispatcher import UPDATES, Reception, open_reception

__all__ = ["Hook"]

FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0

log = get_log("duly.telegram")


class Hook:
    """What the API needs to take updates: the secret that proves them, and a reception while it runs."""

    def __init__(self, settings: Settings) -> None:
        assert settings.telegram_webhook_secret, "who makes one has a secret"
        self.settings = settings
        self.secret = settings.telegram_webhook_secret.get_secret_value()

    @asynccontextmanager
    async def open(self, pool: Pool, objects: Objects) -> AsyncGenerator[Reception, None]:
        """A reception; Telegram is told our address meanwhile, if the settings have one."""
        async with open_reception(self.settings, pool, objects) as reception:
            telling = asyncio.create_task(self.tell_address(reception))
            try:
                yield reception
            finally:
                telling.cancel()
                with suppress(asyncio.CancelledError):
                    await telling

    async def tell_address(self, reception: Reception) -> None:
        """Say where updates go, until Telegram has heard it."""
        address = self.settings.telegram_webhook_url
        pause = FIRST_PAUSE_SECONDS
        while address:
            try:
                await reception.bot.set_webhook(
                    address, secret_token=self.secret, allowed_updates=UPDATES, drop_pending_updates=False
                )
                await reception.introduce()
            except AiogramError as error:
                log.warning("Telegram was not told where updates go", why=words_of(error))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(pause * 2, MAX_PAUSE_SECONDS)
            else:
                log.info("Telegram posts updates", to=address)
                return
