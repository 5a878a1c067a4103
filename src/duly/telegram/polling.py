"""Long polling: updates are fetched, processed, and confirmed afterwards by fetching from a later offset.

    fetch from `offset` ---> append new updates to their queues ---> set `offset` to the first unprocessed update
                                   |
                     a queue per sender for messages, another for button presses; queues run concurrently

A bot that is killed in between fetches from the same offset again. An update that must wait is retried by its queue
while other queues go on; the updates after it that are processed already are remembered until then. Telegram returns
100 updates at a time: when all of these are known and the first of them still waits, it is dropped sooner than usual,
and its person is notified.
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
from duly.telegram.client import format_error
from duly.telegram.dispatcher import ALLOWED_UPDATES, Dispatcher, RetryLater

MAX_UPDATES = 100
MAX_CONCURRENT_UPDATES = 8
QUEUE_WAIT_SECONDS = 1.0
CROWDED_RETRY_SECONDS = 60.0  # how long a failing update is retried while a full batch waits behind it
MAX_WAIT_SECONDS = 60.0
RETRY = Backoff(base_seconds=0.5, cap_seconds=15.0)
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
TOKEN_REFUSED = "TELEGRAM_BOT_TOKEN: the Bot API refuses it; get a new one from BotFather, or check TELEGRAM_API_URL"  # noqa: S105
CONFLICT_FIX = "stop the other program that polls this bot, or remove its webhook"

QueueKey = tuple[int, bool]  # the id of the sender, and whether the queue is for button presses
T = TypeVar("T")
log = get_log("duly.telegram")


class RawUpdates(BaseModel):
    """A response of getUpdates in which single updates may be malformed."""

    ok: Literal[True]
    result: list[dict[str, Any]]


class Poller:
    """Fetches and processes updates until it is stopped."""

    def __init__(self, dispatcher: Dispatcher, poll_seconds: float) -> None:
        self.dispatcher = dispatcher
        self.poll_seconds = poll_seconds
        self.offset: int | None = None
        self.next_offset: int | None = None  # after all fetched updates
        self.queues: dict[QueueKey, deque[Update]] = {}  # unprocessed updates
        self.queue_tasks: set[asyncio.Task[None]] = set()
        self.processed: set[int] = set()  # after `offset`
        self.is_crowded = False
        self.crowded_retry_seconds = CROWDED_RETRY_SECONDS
        self.pause_seconds = FIRST_PAUSE_SECONDS
        self.concurrency = asyncio.Semaphore(MAX_CONCURRENT_UPDATES)

    async def run(self, stop: asyncio.Event) -> None:
        """Fetch, process and confirm updates until the stop; errors of the Bot API are retried without limit."""
        has_started = False
        while not stop.is_set():
            try:
                if not has_started:
                    await self.start()
                    has_started = True
                if (updates := await run_unless(stop, self.fetch(self.poll_seconds))) is None:
                    break
                self.pause_seconds = FIRST_PAUSE_SECONDS
                self.enqueue(updates, stop)
                await self.advance_offset(QUEUE_WAIT_SECONDS)
            except (TelegramUnauthorizedError, TelegramNotFound):
                for task in self.queue_tasks:
                    task.cancel()
                raise Misconfigured(TOKEN_REFUSED) from None
            except AiogramError as error:
                await run_unless(stop, asyncio.sleep(self.pause_after(error)))
        await self.finish()

    async def start(self) -> None:
        """Remove the webhook, without dropping its pending updates, and register the commands."""
        me = await self.dispatcher.bot.get_me()
        await self.dispatcher.bot.delete_webhook(drop_pending_updates=False)
        await self.dispatcher.register_commands()
        log.info("telegram.polling_started", bot=me.username)

    async def fetch(self, seconds: float, limit: int = MAX_UPDATES) -> Sequence[Update]:
        """Fetch the next updates, which confirms all updates before the offset."""
        bot = self.dispatcher.bot
        crashpoint("before_settle")
        try:
            return await bot.get_updates(
                self.offset, limit, ceil(seconds), ALLOWED_UPDATES, request_timeout=ceil(seconds + bot.session.timeout)
            )
        except ClientDecodeError as error:
            try:
                found = RawUpdates.model_validate(error.data).result
            except ValidationError:  # not a response of the Bot API, but of something in between
                raise error from None
            return [self.dispatcher.parse(each) for each in found]

    def enqueue(self, updates: Sequence[Update], stop: asyncio.Event) -> None:
        """Append new updates to their queues, and start a task for each new queue."""
        known = self.processed | self.unprocessed()
        new = [update for update in updates if update.update_id not in known]
        self.is_crowded = len(updates) == MAX_UPDATES and not new
        for update in new:
            self.next_offset = update.update_id + 1
            key = queue_key(update)
            if key in self.queues:
                self.queues[key].append(update)
            else:
                self.queues[key] = deque([update])
                self.queue_tasks.add(asyncio.create_task(self.process_queue(key, stop)))

    async def process_queue(self, key: QueueKey, stop: asyncio.Event) -> None:
        """Dispatch the updates of a queue one after another, each until it is processed or dropped."""
        updates, failures = self.queues[key], 0
        while updates and not stop.is_set():
            try:
                async with self.concurrency:
                    await self.dispatcher.dispatch(updates[0], self.crowded_retry_seconds if self.is_crowded else None)
            except RetryLater as retry:
                seconds = min(max(retry.seconds, RETRY.delay_seconds(failures)), MAX_WAIT_SECONDS)
                failures = min(failures + 1, 10)
                await run_unless(stop, asyncio.sleep(seconds))
            else:
                self.processed.add(updates.popleft().update_id)
                failures = 0
        if not updates:
            del self.queues[key]

    async def advance_offset(self, seconds: float | None) -> None:
        """Wait up to `seconds` for the queues, and set the offset to the first unprocessed update."""
        if self.queue_tasks:
            finished, self.queue_tasks = await asyncio.wait(self.queue_tasks, timeout=seconds)
            for task in finished:
                task.result()
        self.offset = min(self.unprocessed(), default=self.next_offset)
        self.processed = {each for each in self.processed if self.offset and each > self.offset}

    def unprocessed(self) -> set[int]:
        """Return the ids of the updates in all queues."""
        return {update.update_id for queue in self.queues.values() for update in queue}

    async def finish(self) -> None:
        """Wait for updates in progress and confirm what is processed; if that fails, Telegram sends it again."""
        await self.advance_offset(None)
        try:
            if self.offset is not None:
                await self.fetch(0, limit=1)
        except AiogramError as error:
            log.info("telegram.updates_not_confirmed", error=format_error(error))

    def pause_after(self, error: Exception) -> float:
        """Log an error of the Bot API, and return how many seconds to wait before the next call."""
        if isinstance(error, TelegramRetryAfter):
            return float(error.retry_after)
        if isinstance(error, TelegramConflictError):  # another program polls this bot, or a webhook is set
            log.warning("telegram.polling_conflict", error=format_error(error), fix=CONFLICT_FIX)
        else:
            log.warning("telegram.unavailable", error=format_error(error))
        seconds, self.pause_seconds = self.pause_seconds, min(self.pause_seconds * 2, MAX_PAUSE_SECONDS)
        return seconds * random.uniform(0.5, 1.0)  # noqa: S311


def queue_key(update: Update) -> QueueKey:
    """Return the queue of an update; button presses do not wait for images of the same sender."""
    event = update.message or update.callback_query
    return event.from_user.id if event and event.from_user else 0, update.callback_query is not None


async def run_unless(stop: asyncio.Event, coroutine: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of a coroutine; cancel it and return None when the stop comes first."""
    running, stopping = asyncio.ensure_future(coroutine), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        return await running if running.done() else None
    finally:
        running.cancel()
        stopping.cancel()
