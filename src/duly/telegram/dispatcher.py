"""Dispatches every update to its handler, whether it came by polling or by webhook, and decides about retries.

An update that meets a temporary error is retried: without limit while the database is unavailable, for an hour when it
is the Bot API, its files or the object store. After an unexpected error it is retried MAX_FAILURES - 1 times. Then it
is logged, the person is notified, and it is dropped.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiogram import Bot
from aiogram import Dispatcher as AiogramDispatcher
from aiogram.exceptions import ClientDecodeError, TelegramNetworkError, TelegramRetryAfter, TelegramServerError
from aiogram.types import BotCommand, Update
from psycopg import InterfaceError, OperationalError
from pydantic import ValidationError

from duly.apps.ingest.service import Ingest
from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.errors import Unavailable
from duly.executors.images import open_image_decoder
from duly.logging import get_log
from duly.settings import Settings
from duly.storage import ObjectStore
from duly.telegram import answers, captures, days, people
from duly.telegram.client import format_error, open_bot
from duly.telegram.messages import COMMANDS, parse_language, translate
from duly.telegram.pending_updates import PendingUpdate, PendingUpdates
from duly.telegram.services import Services

ALLOWED_UPDATES = ["message", "callback_query"]
MAX_FAILURES = 3
MAX_RETRY_SECONDS = 3600.0
DATABASE_ERRORS = (Unavailable, OperationalError, InterfaceError)  # retried without limit
TEMPORARY_ERRORS = (
    captures.TemporaryFailure,
    TelegramNetworkError,
    TelegramServerError,
    TelegramRetryAfter,
    ClientDecodeError,
)

log = get_log("duly.telegram")


class RetryLater(Exception):
    """An update must be dispatched again, after at least `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


class Dispatcher:
    """Dispatches updates to their handlers."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.aiogram_dispatcher = build_aiogram_dispatcher(services)
        self.pending_updates = PendingUpdates()
        self.max_retry_seconds = MAX_RETRY_SECONDS

    @property
    def bot(self) -> Bot:
        """Return the bot whose updates these are."""
        return self.services.bot

    async def dispatch(self, update: Update, max_retry_seconds: float | None = None) -> None:
        """Process an update; returns when its effects are committed or it is dropped, raises RetryLater otherwise."""
        if update.message is None and update.callback_query is None:
            return  # not one of ALLOWED_UPDATES
        pending = self.pending_updates.get(update.update_id)
        try:
            crashpoint("before_work")
            await self.aiogram_dispatcher.feed_update(self.bot, update, pending=pending)
        except DATABASE_ERRORS as error:
            log.warning("telegram.update_deferred", update_id=update.update_id, error=format_error(error))
            raise RetryLater from None
        except Exception as error:
            retry_seconds = self.max_retry_seconds if max_retry_seconds is None else max_retry_seconds
            await self.retry_or_give_up(update, pending, error, retry_seconds)
        self.pending_updates.remove(update.update_id)

    async def retry_or_give_up(
        self, update: Update, pending: PendingUpdate, error: Exception, max_retry_seconds: float
    ) -> None:
        """Raise RetryLater while the update may still succeed; then notify the person, and drop it."""
        waited = pending.waited_seconds()
        if isinstance(error, TEMPORARY_ERRORS):
            log.warning("telegram.update_deferred", update_id=update.update_id, error=format_error(error))
            is_over = waited >= max_retry_seconds
        else:
            pending.failures += 1
            log.exception("telegram.update_failed", update_id=update.update_id, failures=pending.failures)
            is_over = pending.failures >= MAX_FAILURES
        if not is_over:
            raise RetryLater(error.retry_after if isinstance(error, TelegramRetryAfter) else 0.0) from None
        try:
            await self.notify_failure(update)
        except Exception as unsent:
            if waited < max_retry_seconds:
                raise RetryLater from None
            log.warning("telegram.failure_notice_not_sent", update_id=update.update_id, error=format_error(unsent))
        log.error(
            "telegram.update_dropped", update_id=update.update_id, seconds=round(waited), error=format_error(error)
        )

    async def dispatch_raw(self, payload: Mapping[str, Any]) -> None:
        """Dispatch an update as Telegram posts it; raises Unavailable when Telegram is to send it again."""
        try:
            await self.dispatch(self.parse(payload))
        except RetryLater:
            raise Unavailable("the update was not processed; send it again") from None

    def parse(self, payload: Mapping[str, Any]) -> Update:
        """Parse an update; a malformed one becomes an empty update, because a retry would not change it."""
        try:
            return Update.model_validate(payload, context={"bot": self.bot})
        except ValidationError as error:
            update_id = payload.get("update_id")
            log.warning("telegram.update_malformed", update_id=update_id, errors=error.error_count())
            return Update(update_id=update_id if isinstance(update_id, int) else 0)

    async def notify_failure(self, update: Update) -> None:
        """Notify the sender of an update that it was dropped."""
        event = update.message or update.callback_query
        if event is None or event.from_user is None:
            return
        language = parse_language(event.from_user.language_code)
        with suppress(*DATABASE_ERRORS):
            language = await people.find_language(self.services, event.from_user)
        await people.refuse(self.services, event, translate(language, "failed"))

    async def register_commands(self) -> None:
        """Register the commands, in each language, for the menu of Telegram's apps."""
        for language, commands in COMMANDS.items():
            listed = [BotCommand(command=name, description=description) for name, description in commands.items()]
            await self.bot.set_my_commands(listed, language_code=None if language == "en" else language)


def build_aiogram_dispatcher(services: Services) -> AiogramDispatcher:
    """Register the handlers, in the order in which they are tried."""
    aiogram_dispatcher = AiogramDispatcher(services=services, disable_fsm=True)
    for observer in (aiogram_dispatcher.message, aiogram_dispatcher.callback_query):
        observer.outer_middleware(people.AdmissionMiddleware())
    aiogram_dispatcher.include_router(people.link_router())
    for router in (answers.router(), people.router(), days.router(), captures.router()):
        for observer in (router.message, router.callback_query):
            observer.middleware(people.PersonMiddleware())
        aiogram_dispatcher.include_router(router)
    return aiogram_dispatcher


@asynccontextmanager
async def open_dispatcher(settings: Settings, pool: Pool, objects: ObjectStore) -> AsyncGenerator[Dispatcher, None]:
    """Open the dispatcher of the bot that the settings name."""
    assert settings.telegram_token, "callers check that a token is set"
    token = settings.telegram_token.get_secret_value()
    bot = open_bot(token, settings.telegram_api_url, settings.telegram_seconds)
    try:
        async with open_image_decoder() as image_decoder:
            yield Dispatcher(
                Services(
                    bot=bot,
                    pool=pool,
                    objects=objects,
                    image_decoder=image_decoder,
                    ingest=Ingest(pool, settings.db_schema),
                    token=token,
                    allowed_ids=frozenset(map(int, filter(None, settings.telegram_allowed.split(",")))),
                    accepts_new_users=settings.telegram_newcomers,
                )
            )
    finally:
        await bot.session.close()
