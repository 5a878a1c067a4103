"""What handlers use: the bot, the database, the object store, and calls of the Bot API that tolerate refusals."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError

from duly.apps.ingest.service import Ingest
from duly.db.pool import Pool
from duly.executors.process_pool import ProcessPool
from duly.logging import get_log
from duly.rate_limit import RateLimiter
from duly.storage import ObjectStore
from duly.telegram.client import NO_PREVIEW, format_error, truncate

BURST = 60  # messages, or button presses, of one person
MAX_CALLBACK_TEXT_LENGTH = 200

T = TypeVar("T")
log = get_log("duly.telegram")


@dataclass(frozen=True)
class Services:
    """The services of a running bot."""

    bot: Bot
    pool: Pool
    objects: ObjectStore
    image_decoder: ProcessPool  # decode untrusted images
    ingest: Ingest
    token: str = field(repr=False)  # signs buttons and links
    allowed_ids: frozenset[int] = frozenset()  # Telegram ids; empty: all
    accepts_new_users: bool = True
    rate: RateLimiter = field(default_factory=lambda: RateLimiter(BURST, per_second=1.0))

    async def send_message(self, chat: int, text: str) -> None:
        """Send a message; that the person blocked the bot is not an error."""
        await self.ignore_refusal(lambda: self.bot.send_message(chat, truncate(text), link_preview_options=NO_PREVIEW))

    async def answer_callback(self, query_id: str, text: str, *, is_alert: bool) -> None:
        """Report the effect of a button press; that it is too old for a reply is not an error."""
        await self.ignore_refusal(
            lambda: self.bot.answer_callback_query(query_id, truncate(text, MAX_CALLBACK_TEXT_LENGTH), is_alert)
        )

    async def edit_message(self, chat: int, message_id: int, text: str) -> None:
        """Replace the text of a message and remove its buttons; that it has this text already is not an error."""
        await self.ignore_refusal(
            lambda: self.bot.edit_message_text(
                truncate(text), chat_id=chat, message_id=message_id, link_preview_options=NO_PREVIEW
            )
        )

    async def ignore_refusal(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Call the Bot API and log a permanent refusal: retrying the update would not help.

        Rate limits and network errors are raised: then the update is retried, while others are processed.
        """
        try:
            return await call()
        except (TelegramBadRequest, TelegramForbiddenError) as error:
            if "message is not modified" not in str(error):
                log.info("telegram.call_refused", error=format_error(error))
            return None
