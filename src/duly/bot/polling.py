"""Long polling: updates are asked for, taken, and confirmed afterwards, by asking for what comes after them.

    ask from `offset` ---> take each, a person's in order, different people's side by side ---> offset behind the last

Whoever is killed in between asks from the same place again. An update that must wait is where the next question begins;
those behind it that are done already are remembered for as long.
"""

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from math import ceil
from typing import Any, TypeVar, cast

from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramAPIError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.types import Update

from duly.bot.reception import UPDATES, NotNow, Reception
from duly.delivery.telegram.client import words_of
from duly.errors import Misconfigured
from duly.kernel.crashpoint import crashpoint
from duly.logs import get_log

__all__ = ["Poller"]

MOST_UPDATES = 100
AT_ONCE = 8
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
REFUSED = "TELEGRAM_BOT_TOKEN: the Bot API refuses it; get a new one from BotFather, or see TELEGRAM_API_URL"
TWO_POLLERS = "another program asks for this bot's updates, or a webhook takes them; one of the two must end"

T = TypeVar("T")
log = get_log("duly.bot")


class Poller:
    """Asks for updates until it is told to stop."""

    def __init__(self, reception: Reception, poll_seconds: float) -> None:
        self.reception = reception
        self.poll_seconds = poll_seconds
        self.offset: int | None = None
        self.done: set[int] = set()  # behind one that must wait
        self.pause = FIRST_PAUSE_SECONDS
        self.side_by_side = asyncio.Semaphore(AT_ONCE)

    async def run(self, stop: asyncio.Event) -> None:
        """Ask, take, confirm, until the stop; a trouble on the way is waited out, however long."""
        is_introduced = False
        while not stop.is_set():
            try:
                if not is_introduced:
                    await self.begin()
                    is_introduced = True
                if (updates := await unless(stop, self.ask(self.poll_seconds))) is None:
                    break
                await self.take(updates)
                self.pause = FIRST_PAUSE_SECONDS
            except (TelegramUnauthorizedError, TelegramNotFound):
                raise Misconfigured(REFUSED) from None
            except (NotNow, AiogramError) as error:
                await unless(stop, asyncio.sleep(self.rest_after(error)))
        await self.end()

    async def begin(self) -> None:
        """From now on updates are asked for: no webhook takes them any more. None of them is dropped."""
        me = await self.reception.bot.get_me()
        await self.reception.bot.delete_webhook(drop_pending_updates=False)
        await self.reception.introduce()
        log.info("the bot listens", bot=me.username)

    async def ask(self, seconds: float, most: int = MOST_UPDATES) -> Sequence[Update]:
        """The next updates; asking from behind others confirms them."""
        bot = self.reception.bot
        crashpoint("before_settle")
        try:
            return await bot.get_updates(
                self.offset, most, ceil(seconds), UPDATES, request_timeout=ceil(seconds + bot.session.timeout)
            )
        except ClientDecodeError as error:
            given = cast("object", error.data)
            if not isinstance(given, dict):  # no answer of the Bot API at all
                raise
            found = cast("Mapping[str, Any]", given).get("result")
            return [self.reception.read(each) for each in cast("list[Mapping[str, Any]]", found)]

    async def take(self, updates: Sequence[Update]) -> None:
        """Take each that is new to us; from the first that must wait we ask again."""
        lines: dict[int, list[Update]] = {}
        for update in updates:
            if update.update_id not in self.done:
                lines.setdefault(person_of(update), []).append(update)
        await asyncio.gather(*map(self.take_line, lines.values()))
        waiting = [update.update_id for update in updates if update.update_id not in self.done]
        if updates:
            self.offset = min(waiting, default=updates[-1].update_id + 1)
            self.done = {each for each in self.done if each > self.offset}
        if waiting:
            raise NotNow

    async def take_line(self, updates: Sequence[Update]) -> None:
        """One person's updates, in their order, up to the first that must wait."""
        async with self.side_by_side:
            for update in updates:
                try:
                    await self.reception.take(update)
                except NotNow:
                    return
                self.done.add(update.update_id)

    async def end(self) -> None:
        """Confirm what is done, so that it does not come again; if nobody answers, it does, and that is well too."""
        try:
            if self.offset is not None:
                await self.ask(0, most=1)
        except TelegramAPIError as error:
            log.info("the last updates were not confirmed", why=words_of(error))

    def rest_after(self, error: Exception) -> float:
        """How long to wait before the next question."""
        if isinstance(error, TelegramRetryAfter):
            return float(error.retry_after)
        if isinstance(error, TelegramConflictError):
            log.warning(TWO_POLLERS, why=words_of(error))
        elif not isinstance(error, NotNow):
            log.warning("the Bot API does not answer", why=words_of(error))
        pause, self.pause = self.pause, min(self.pause * 2, LONGEST_PAUSE_SECONDS)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311


def person_of(update: Update) -> int:
    """Whose line an update stands in."""
    event = update.message or update.callback_query
    return event.from_user.id if event and event.from_user else 0


async def unless(stop: asyncio.Event, question: Coroutine[Any, Any, T]) -> T | None:
    """The answer to a question; None when the stop comes first."""
    asking, stopping = asyncio.ensure_future(question), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
        return await asking if asking.done() else None
    finally:
        asking.cancel()
        stopping.cancel()
