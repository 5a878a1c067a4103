"""The reception: takes every update, by whichever way it comes, and says when it is done with it.

An update that meets a trouble of the moment (the database, the Bot API, its files, the store) is not done, and comes
again: as long as it takes while the database is away, for an hour otherwise. One that fails for a reason nobody foresaw
comes again a few times. Then it is written down, its person is told, and it is over.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiogram import Bot, Dispatcher
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.types import BotCommand, Update
from psycopg import InterfaceError, OperationalError
from pydantic import ValidationError

from duly.crashpoint import crashpoint
from duly.db.pool import Pool
from duly.errors import Unavailable
from duly.executors.images import a_child
from duly.logging import get_log
from duly.settings import Settings
from duly.storage import Objects
from duly.telegram import answers, captures, days, people
from duly.telegram.client import open_bot, words_of
from duly.telegram.messages import COMMANDS, language_of, say
from duly.telegram.pending_updates import Visit, Visits
from duly.telegram.services import Desk

__all__ = ["UPDATES", "NotNow", "Reception", "open_reception"]

UPDATES = ["message", "callback_query"]
MAX_TRIES = 3
PATIENCE_SECONDS = 3600.0
OURS = (Unavailable, OperationalError, InterfaceError)  # nobody is served before it is back
OF_THE_MOMENT = (
    captures.OutOfReach,
    TelegramNetworkError,
    TelegramServerError,
    TelegramRetryAfter,
    ClientDecodeError,
)

log = get_log("duly.telegram")


class NotNow(Exception):
    """We are not done with an update: it is to come again, after so many seconds at the soonest."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds


class Reception:
    """Where updates are handed in."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.dispatcher = dispatcher_of(desk)
        self.visits = Visits()
        self.patience_seconds = PATIENCE_SECONDS

    @property
    def bot(self) -> Bot:
        """The bot that they are for."""
        return self.desk.bot

    async def take(self, update: Update, patience_seconds: float | None = None) -> None:
        """Return when its effects are committed, or there will never be any; NotNow when it is to come again."""
        if update.message is None and update.callback_query is None:
            return  # nothing that we asked for
        visit = self.visits.of(update.update_id)
        try:
            crashpoint("before_work")
            await self.dispatcher.feed_update(self.bot, update, visit=visit)
        except OURS as error:
            log.warning("an update must wait", update=update.update_id, why=words_of(error))
            raise NotNow from None
        except Exception as error:
            patience = self.patience_seconds if patience_seconds is None else patience_seconds
            await self.put_off(update, visit, error, patience)
        self.visits.end(update.update_id)

    async def put_off(self, update: Update, visit: Visit, error: Exception, patience_seconds: float) -> None:
        """NotNow as long as something may still come of it; then whoever sent it is told that nothing did."""
        waited = visit.waited_seconds()
        if isinstance(error, OF_THE_MOMENT):
            log.warning("an update must wait", update=update.update_id, why=words_of(error))
            is_over = waited >= patience_seconds
        else:
            visit.failures += 1
            log.exception("an update failed", update=update.update_id, tries=visit.failures)
            is_over = visit.failures >= MAX_TRIES
        if not is_over:
            raise NotNow(error.retry_after if isinstance(error, TelegramRetryAfter) else 0.0) from None
        try:
            await self.apologize(update)
        except Exception as unsaid:
            if waited < patience_seconds:
                raise NotNow from None
            log.warning("nobody was told", update=update.update_id, why=words_of(unsaid))
        log.error("an update was given up", update=update.update_id, seconds=round(waited), why=words_of(error))

    async def take_raw(self, given: Mapping[str, Any]) -> None:
        """The same, for an update as Telegram posts it; Unavailable when it is to come again."""
        try:
            await self.take(self.read(given))
        except NotNow:
            raise Unavailable("the update is not done with: send it again") from None

    def read(self, given: Mapping[str, Any]) -> Update:
        """An update as Telegram writes it. One that cannot be read is empty: it would be no other if it came again."""
        try:
            return Update.model_validate(given, context={"bot": self.bot})
        except ValidationError as error:
            number = given.get("update_id")
            log.warning("an update cannot be read", update=number, mistakes=error.error_count())
            return Update(update_id=number if isinstance(number, int) else 0)

    async def apologize(self, update: Update) -> None:
        """Tell whoever sent it that nothing came of it."""
        event = update.message or update.callback_query
        if event is None or event.from_user is None:
            return
        language = language_of(event.from_user.language_code)
        with suppress(*OURS):
            language = await people.spoken_by(self.desk, event.from_user)
        await people.refuse(self.desk, event, say(language, "failed"))

    async def introduce(self) -> None:
        """Let Telegram's apps show what can be asked, in each language."""
        for language, commands in COMMANDS.items():
            listed = [BotCommand(command=name, description=words) for name, words in commands.items()]
            await self.bot.set_my_commands(listed, language_code=None if language == "en" else language)


def dispatcher_of(desk: Desk) -> Dispatcher:
    """The handlers, in the order in which they are asked."""
    dispatcher = Dispatcher(desk=desk, disable_fsm=True)
    for observer in (dispatcher.message, dispatcher.callback_query):
        observer.outer_middleware(people.LetIn())
    dispatcher.include_router(people.links())
    for router in (answers.router(), people.router(), days.router(), captures.router()):
        for observer in (router.message, router.callback_query):
            observer.middleware(people.KnowPeople())
        dispatcher.include_router(router)
    return dispatcher


@asynccontextmanager
async def open_reception(settings: Settings, pool: Pool, objects: Objects) -> AsyncGenerator[Reception, None]:
    """The reception of the bot that the settings name."""
    assert settings.telegram_token, "who opens it has a token"
    token = settings.telegram_token.get_secret_value()
    bot = open_bot(token, settings.telegram_api_url, settings.telegram_seconds)
    try:
        async with a_child() as children:
            yield Reception(
                Desk(
                    bot=bot,
                    pool=pool,
                    objects=objects,
                    children=children,
                    schema=settings.db_schema,
                    token=token,
                    allowed=frozenset(map(int, filter(None, settings.telegram_allowed.split(",")))),
                    takes_newcomers=settings.telegram_newcomers,
                )
            )
    finally:
        await bot.session.close()
