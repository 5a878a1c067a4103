"""Admission of senders, and their persons: known by Telegram id, new, or linked by a link."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiogram import BaseMiddleware, Router
from aiogram.enums import ChatType
from aiogram.exceptions import AiogramError
from aiogram.filters import Command, CommandObject, CommandStart
from aiogram.types import CallbackQuery, Message, TelegramObject
from aiogram.types import User as TelegramUser

from duly.accounts import Person, service
from duly.accounts.telegram_link import parse_telegram_link
from duly.crashpoint import crashpoint
from duly.db.clock import get_current_time
from duly.errors import Conflict, InvalidArgument, RateLimited
from duly.telegram.messages import parse_language, translate
from duly.telegram.pending_updates import PendingUpdate
from duly.telegram.services import Services

Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]


class AdmissionMiddleware(BaseMiddleware):
    """Admits updates from private chats of permitted senders within the rate limit; others get the reason.

    An update is admitted once: its retries do not count against the rate limit.
    """

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        """Call the handler with the language of the sender's app."""
        services: Services = data["services"]
        pending: PendingUpdate = data["pending"]
        if not isinstance(event, Message | CallbackQuery) or event.from_user is None or event.from_user.is_bot:
            return None
        if isinstance(event, Message) and event.chat.type != ChatType.PRIVATE:
            return None  # the bot ignores groups
        if services.allowed_ids and event.from_user.id not in services.allowed_ids:
            return await self.reject(services, event, event.from_user, "bot_private")
        if not pending.is_admitted:
            try:
                count_request(services, event, event.from_user.id)
            except RateLimited:
                return await self.reject(services, event, event.from_user, "rate_limited")
            pending.is_admitted = True
        return await handler(event, {**data, "language": parse_language(event.from_user.language_code)})

    async def reject(self, services: Services, event: Message | CallbackQuery, sender: TelegramUser, key: str) -> None:
        """Send the reason, once: a failed call is not retried, as that would cost more than the update."""
        with suppress(AiogramError):
            await refuse(services, event, translate(await find_language(services, sender), key))


def count_request(services: Services, event: Message | CallbackQuery, sender_id: int) -> None:
    """Count against the rate limit; a message by its own time, so that a backlog after an outage is no burst."""
    if isinstance(event, Message):
        services.rate.acquire(f"{sender_id}", event.date.timestamp())
    else:
        services.rate.acquire(f"{sender_id}/taps")


async def find_language(services: Services, sender: TelegramUser) -> str:
    """Return the language of a person, or of the app of an unknown sender."""
    known = await service.find_person_by_telegram(services.pool, sender.id)
    return known.language if known else parse_language(sender.language_code)


class PersonMiddleware(BaseMiddleware):
    """Passes the person to the handler; creates one for a new sender if the settings allow it."""

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        """Find or create the person, and call the handler."""
        services: Services = data["services"]
        assert isinstance(event, Message | CallbackQuery), "the admission middleware passes no other"
        assert event.from_user, "the admission middleware requires a sender"
        person = await service.find_person_by_telegram(services.pool, event.from_user.id)
        if person is None and services.accepts_new_users:
            person = (await service.register_telegram_person(services.pool, event.from_user.id, data["language"])).row
            crashpoint("after_work")
        if person is None:
            return await refuse(services, event, translate(data["language"], "person_unknown"))
        return await handler(event, {**data, "person": person})


async def follow_link(message: Message, services: Services, command: CommandObject, language: str) -> None:
    """Handle `/start LINK`: link this Telegram id to the person of the link, once, and to no other."""
    assert message.from_user, "the admission middleware requires a sender"
    telegram_id = message.from_user.id
    known = await service.find_person_by_telegram(services.pool, telegram_id)
    reply_language = known.language if known else language
    try:
        user_id = parse_telegram_link(services.token, command.args or "", await get_current_time(services.pool))
    except InvalidArgument:
        await services.send_message(message.chat.id, translate(reply_language, "link_invalid"))
        return
    if known and known.id != user_id:
        await services.send_message(message.chat.id, translate(reply_language, "account_taken", uid=known.uid))
        return
    try:
        person = await service.link_telegram(services.pool, user_id, telegram_id)
    except Conflict:
        await services.send_message(message.chat.id, translate(reply_language, "link_person_taken"))
        return
    crashpoint("after_work")
    await services.send_message(message.chat.id, translate(person.language, "linked", uid=person.uid))


async def start(message: Message, services: Services, person: Person) -> None:
    """Handle `/start`."""
    await services.send_message(message.chat.id, translate(person.language, "welcome", uid=person.uid))


async def send_help(message: Message, services: Services, person: Person) -> None:
    """Handle `/help`."""
    await services.send_message(message.chat.id, translate(person.language, "help_greeting", uid=person.uid))


async def refuse(services: Services, event: Message | CallbackQuery, text: str) -> None:
    """Reply with the reason why an update has no effect."""
    if isinstance(event, CallbackQuery):
        await services.answer_callback(event.id, text, is_alert=True)
    else:
        await services.send_message(event.chat.id, text)


def link_router() -> Router:
    """Build the router of links, which works without a known person."""
    router = Router(name="links")
    router.message.register(follow_link, CommandStart(deep_link=True))
    return router


def router() -> Router:
    """Build the router of /start and /help."""
    router = Router(name="people")
    router.message.register(start, CommandStart())
    router.message.register(send_help, Command("help"))
    return router
