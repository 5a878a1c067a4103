"""Long polling: updates are asked for, taken, and confirmed afterwards, by asking for what comes after them.

    ask from `offset` ---> new ones join their line ---> look how far the lines came ---> offset at the first not done
                               |
                    one person's messages, or taps, in their order; different lines side by side

Whoever is killed in between asks from the same place again. An update that must wait is tried again by its line, while
the others go on; those behind it that are done already are remembered for as long. Telegram shows a hundred updates at
a time: when all of these were seen and the first one still waits, it is given up sooner, and its person is told.
"""

import asyncio
import random
from collections import deque
from collections.abc import Coroutine, Sequence
from math import ceil
from typing import Any, Literal, TypeVar

from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.types import Update
from pydantic import BaseModel, ValidationError

from duly.backoff import Backoff
from duly.crashpoint import crashpoint
from duly.errors import Misconfigured
from duly.logging import get_log
from duly.telegram.client import words_of
from duly.telegram.dispatcher import UPDATES, NotNow, Reception

__all__ = ["Poller"]

MAX_UPDATES = 100
AT_ONCE = 8
LOOK_SECONDS = 1.0
CROWDED_SECONDS = 60.0  # how long one that meets trouble is waited for while a hundred others stand behind it
MAX_WAIT_SECONDS = 60.0
RETRY = Backoff(base_seconds=0.5, cap_seconds=15.0)
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
REFUSED = "TELEGRAM_BOT_TOKEN: the Bot API refuses it; get a new one from BotFather, or see TELEGRAM_API_URL"
TWO_POLLERS = "another program asks for this bot's updates, or a webhook takes them; one of the two must end"

Line = tuple[int, bool]
T = TypeVar("T")
log = get_log("duly.telegram")


class Answer(BaseModel):
    """Updates as the Bot API gives them, though one of them may be none."""

    ok: Literal[True]
    result: list[dict[str, Any]]


class Poller:
    """Asks for updates until it is told to stop."""

    def __init__(self, reception: Reception, poll_seconds: float) -> None:
        self.reception = reception
        self.poll_seconds = poll_seconds
        self.offset: int | None = None
        self.behind: int | None = None  # all that we have seen
        self.lines: dict[Line, deque[Update]] = {}  # what is not done yet
        self.serving: set[asyncio.Task[None]] = set()  # a task for each line
        self.done: set[int] = set()  # behind one that is not
        self.is_crowded = False
        self.crowded_seconds = CROWDED_SECONDS
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
                self.pause = FIRST_PAUSE_SECONDS
                self.take(updates, stop)
                await self.look(LOOK_SECONDS)
            except (TelegramUnauthorizedError, TelegramNotFound):
                for task in self.serving:
                    task.cancel()
                raise Misconfigured(REFUSED) from None
            except AiogramError as error:
                await unless(stop, asyncio.sleep(self.rest_after(error)))
        await self.end()

    async def begin(self) -> None:
        """From now on updates are asked for: no webhook takes them any more. None of them is dropped."""
        me = await self.reception.bot.get_me()
        await self.reception.bot.delete_webhook(drop_pending_updates=False)
        await self.reception.introduce()
        log.info("the bot listens", bot=me.username)

    async def ask(self, seconds: float, limit: int = MAX_UPDATES) -> Sequence[Update]:
        """The next updates; asking from behind others confirms them."""
        bot = self.reception.bot
        crashpoint("before_settle")
        try:
            return await bot.get_updates(
                self.offset, limit, ceil(seconds), UPDATES, request_timeout=ceil(seconds + bot.session.timeout)
            )
        except ClientDecodeError as error:
            try:
                found = Answer.model_validate(error.data).result
            except ValidationError:  # nor is it one of the Bot API: something in between gave it
                raise error from None
            return [self.reception.read(each) for each in found]

    def take(self, updates: Sequence[Update], stop: asyncio.Event) -> None:
        """Let those that are new to us join their lines."""
        seen = self.done | self.waiting()
        new = [update for update in updates if update.update_id not in seen]
        self.is_crowded = len(updates) == MAX_UPDATES and not new
        for update in new:
            self.behind = update.update_id + 1
            line = line_of(update)
            if line in self.lines:
                self.lines[line].append(update)
            else:
                self.lines[line] = deque([update])
                self.serving.add(asyncio.create_task(self.serve(line, stop)))

    async def serve(self, line: Line, stop: asyncio.Event) -> None:
        """Take one after another, each as often as it must come again."""
        updates, failures = self.lines[line], 0
        while updates and not stop.is_set():
            try:
                async with self.side_by_side:
                    await self.reception.take(updates[0], self.crowded_seconds if self.is_crowded else None)
            except NotNow as wait:
                seconds = min(max(wait.seconds, RETRY.delay_seconds(failures)), MAX_WAIT_SECONDS)
                failures = min(failures + 1, 10)
                await unless(stop, asyncio.sleep(seconds))
            else:
                self.done.add(updates.popleft().update_id)
                failures = 0
        if not updates:
            del self.lines[line]

    async def look(self, seconds: float | None) -> None:
        """Give the lines a moment; then the first that is not done is where we ask from."""
        if self.serving:
            over, self.serving = await asyncio.wait(self.serving, timeout=seconds)
            for task in over:
                task.result()
        self.offset = min(self.waiting(), default=self.behind)
        self.done = {each for each in self.done if self.offset and each > self.offset}

    def waiting(self) -> set[int]:
        """The updates that we have seen and are not done with."""
        return {update.update_id for line in self.lines.values() for update in line}

    async def end(self) -> None:
        """Bring to its end what is under way, and confirm what is done, so that it does not come again.

        If nobody answers, it does, and that is well too.
        """
        await self.look(None)
        try:
            if self.offset is not None:
                await self.ask(0, limit=1)
        except AiogramError as error:
            log.info("the last updates were not confirmed", why=words_of(error))

    def rest_after(self, error: Exception) -> float:
        """How long to wait before the next question."""
        if isinstance(error, TelegramRetryAfter):
            return float(error.retry_after)
        if isinstance(error, TelegramConflictError):
            log.warning(TWO_POLLERS, why=words_of(error))
        else:
            log.warning("the Bot API does not answer", why=words_of(error))
        pause, self.pause = self.pause, min(self.pause * 2, MAX_PAUSE_SECONDS)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311


def line_of(update: Update) -> Line:
    """Whose line an update stands in; a tap does not wait for a photograph."""
    event = update.message or update.callback_query
    return event.from_user.id if event and event.from_user else 0, update.callback_query is not None


async def unless(stop: asyncio.Event, question: Coroutine[Any, Any, T]) -> T | None:
    """The answer to a question; None when the stop comes first."""
    asking, stopping = asyncio.ensure_future(question), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
        return await asking if asking.done() else None
    finally:
        asking.cancel()
        stopping.cancel()
