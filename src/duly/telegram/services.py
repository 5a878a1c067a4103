"""What every handler has at hand: the bot, the database, where images are kept, and how to speak so that it arrives."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError

from duly.db.pool import Pool
from duly.executors.process_pool import Children
from duly.logging import get_log
from duly.rate_limit import Rate
from duly.storage import Objects
from duly.telegram.client import NO_PREVIEW, cut, words_of

__all__ = ["Desk"]

BURST = 60  # messages, or taps, of one person
MAX_CALLBACK_TEXT_LENGTH = 200

T = TypeVar("T")
log = get_log("duly.telegram")


@dataclass(frozen=True)
class Desk:
    """A bot at work."""

    bot: Bot
    pool: Pool
    objects: Objects
    children: Children  # who decode what strangers send
    schema: str  # of the ingest tables
    token: str = field(repr=False)  # seals buttons and links
    allowed: frozenset[int] = frozenset()  # nobody named: everybody
    takes_newcomers: bool = True
    rate: Rate = field(default_factory=lambda: Rate(BURST, per_second=1.0))

    async def tell(self, chat: int, text: str) -> None:
        """Write to somebody. Who blocked us is told nothing, and that is no error."""
        await self.quietly(lambda: self.bot.send_message(chat, cut(text), link_preview_options=NO_PREVIEW))

    async def explain(self, query: str, text: str, *, loudly: bool = False) -> None:
        """Say what a tap did. One that is too old to be answered is not."""
        await self.quietly(lambda: self.bot.answer_callback_query(query, cut(text, MAX_CALLBACK_TEXT_LENGTH), loudly))

    async def rewrite(self, chat: int, message_id: int, text: str) -> None:
        """Put these words, without buttons, in the place of a message; that they stand there already is well."""
        await self.quietly(
            lambda: self.bot.edit_message_text(
                cut(text), chat_id=chat, message_id=message_id, link_preview_options=NO_PREVIEW
            )
        )

    async def quietly(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Ask the Bot API for something that changes nothing of ours.

        What it refuses for good is not worth an update that comes again for ever. That it asks us to wait, or that
        nobody answers, is raised: the update is tried again, and meanwhile the others are taken.
        """
        try:
            return await call()
        except (TelegramBadRequest, TelegramForbiddenError) as error:
            if "message is not modified" not in str(error):
                log.info("Telegram refused", why=words_of(error))
            return None
