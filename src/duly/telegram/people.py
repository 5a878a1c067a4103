"""Who writes to us: known by their Telegram id, met for the first time, or bound to a person by a link."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiogram import BaseMiddleware, Router
from aiogram.enums import ChatType
from aiogram.exceptions import AiogramError
from aiogram.filters import Command, CommandObject, CommandStart
from aiogram.types import CallbackQuery, Message, TelegramObject
from aiogram.types import User as Someone

from duly.accounts import User, service
from duly.accounts.telegram_link import read_link
from duly.crashpoint import crashpoint
from duly.db.clock import now
from duly.errors import Conflict, InvalidArgument, RateLimited
from duly.telegram.messages import language_of, say
from duly.telegram.pending_updates import Visit
from duly.telegram.services import Desk

__all__ = ["KnowPeople", "LetIn", "links", "refuse", "router", "spoken_by"]

Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]


class LetIn(BaseMiddleware):
    """Lets people in who write to us in private, may do so, and not too much at once; others are told why not.

    What was let in stays so: it was sent once, however often it is tried.
    """

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        """Hand the event on, with the language that its app speaks."""
        desk: Desk = data["desk"]
        visit: Visit = data["visit"]
        if not isinstance(event, Message | CallbackQuery) or event.from_user is None or event.from_user.is_bot:
            return None
        if isinstance(event, Message) and event.chat.type != ChatType.PRIVATE:
            return None  # in a group we have nothing to say
        if desk.allowed and event.from_user.id not in desk.allowed:
            return await self.turn_away(desk, event, event.from_user, "private")
        if not visit.is_let_in:
            try:
                take_one(desk, event, event.from_user.id)
            except RateLimited:
                return await self.turn_away(desk, event, event.from_user, "slowly")
            visit.is_let_in = True
        return await handler(event, {**data, "language": language_of(event.from_user.language_code)})

    async def turn_away(self, desk: Desk, event: Message | CallbackQuery, who: Someone, why: str) -> None:
        """Say why, if it can be said at once: whoever comes too often is not worth waiting for."""
        with suppress(AiogramError):
            await refuse(desk, event, say(await spoken_by(desk, who), why))


def take_one(desk: Desk, event: Message | CallbackQuery, person: int) -> None:
    """Count what a person does: messages by the time they were written at, because what waited for us is not much."""
    if isinstance(event, Message):
        desk.rate.take(f"{person}", event.date.timestamp())
    else:
        desk.rate.take(f"{person}/taps")


async def spoken_by(desk: Desk, who: Someone) -> str:
    """The language of a person, or of their app as long as we do not know them."""
    known = await service.find_by_telegram(desk.pool, who.id)
    return known.language if known else language_of(who.language_code)


class KnowPeople(BaseMiddleware):
    """Lets a handler know which person it is; who is met for the first time becomes one, where that is so."""

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        """Find the person, and hand the event on."""
        desk: Desk = data["desk"]
        assert isinstance(event, Message | CallbackQuery), "no other comes so far"
        assert event.from_user, "nor anybody's"
        person = await service.find_by_telegram(desk.pool, event.from_user.id)
        if person is None and desk.takes_newcomers:
            person = (await service.meet_telegram(desk.pool, event.from_user.id, data["language"])).row
            crashpoint("after_work")
        if person is None:
            return await refuse(desk, event, say(data["language"], "stranger"))
        return await handler(event, {**data, "person": person})


async def follow_link(message: Message, desk: Desk, command: CommandObject, language: str) -> None:
    """`/start LINK` binds this Telegram id to the person of the link: once, and one id to one person."""
    assert message.from_user, "who was let in is somebody"
    telegram_id = message.from_user.id
    known = await service.find_by_telegram(desk.pool, telegram_id)
    spoken = known.language if known else language
    try:
        user_id = read_link(desk.token, command.args or "", await now(desk.pool))
    except InvalidArgument:
        await desk.tell(message.chat.id, say(spoken, "bad link"))
        return
    if known and known.id != user_id:
        await desk.tell(message.chat.id, say(spoken, "taken", uid=known.uid))
        return
    try:
        person = await service.link_telegram(desk.pool, user_id, telegram_id)
    except Conflict:
        await desk.tell(message.chat.id, say(spoken, "link used"))
        return
    crashpoint("after_work")
    await desk.tell(message.chat.id, say(person.language, "linked", uid=person.uid))


async def start(message: Message, desk: Desk, person: User) -> None:
    """`/start` greets."""
    await desk.tell(message.chat.id, say(person.language, "welcome", uid=person.uid))


async def tell_help(message: Message, desk: Desk, person: User) -> None:
    """`/help` says what there is."""
    await desk.tell(message.chat.id, say(person.language, "known", uid=person.uid))


async def refuse(desk: Desk, event: Message | CallbackQuery, text: str) -> None:
    """Say why nothing is done."""
    if isinstance(event, CallbackQuery):
        await desk.explain(event.id, text, loudly=True)
    else:
        await desk.tell(event.chat.id, text)


def links() -> Router:
    """Who binds people by links, before anybody asks who they are."""
    router = Router(name="links")
    router.message.register(follow_link, CommandStart(deep_link=True))
    return router


def router() -> Router:
    """Who greets."""
    router = Router(name="people")
    router.message.register(start, CommandStart())
    router.message.register(tell_help, Command("help"))
    return router
