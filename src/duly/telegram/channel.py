"""Telegram: a message goes to the person's private chat with the bot, and its buttons answer it.

    taken ------------------------------- the chat and the message's number are its receipt
    429 --------------------------------- tried again when Telegram says
    403, 400 (blocked, no such chat) ---- it will never work
    401, 404 (the token), 5xx ----------- tried again: somebody must mend something, or Telegram does
    no connection ----------------------- tried again: it never left
    no answer, or one nobody can read --- nobody knows

Telegram cannot tell a message that comes twice, so what is uncertain is left to a person to decide.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aiogram import Bot
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramRetryAfter,
)
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from duly.outbox.channel import Message, NotSent, Unknown, WhenUncertain, WillNeverWork
from duly.telegram.buttons import sealed_key
from duly.telegram.client import NO_PREVIEW, cut, never_left, open_bot, words_of

__all__ = ["Telegram"]

A_ROW = 2  # buttons beside each other
FINAL = (TelegramForbiddenError, TelegramBadRequest, TelegramMigrateToChat, TelegramEntityTooLarge)


class Telegram:
    """Sends messages to people's chats with our bot."""

    name = "telegram"
    when_uncertain = WhenUncertain.ASK

    def __init__(self, token: str, api_url: str = "https://api.telegram.org", seconds: float = 10.0) -> None:
        self.token = token
        self.api_url = api_url
        self.seconds = seconds
        self.bot: Bot | None = None

    async def send(self, message: Message) -> str | None:
        """Send it to the chat of whoever it is for; the receipt is `chat:message`."""
        chat = chat_of(message)
        keyboard = keyboard_of(message.payload.get("buttons", ()), self.token, chat)
        try:
            sent = await self.opened().send_message(
                chat, cut(message.text), reply_markup=keyboard, link_preview_options=NO_PREVIEW
            )
        except TelegramRetryAfter as error:
            raise NotSent(words_of(error), retry_after=float(error.retry_after)) from None
        except FINAL as error:
            raise WillNeverWork(words_of(error)) from None
        except TelegramNetworkError as error:
            raise (NotSent if never_left(error) else Unknown)(words_of(error)) from None
        except ClientDecodeError:
            raise Unknown("the answer of the Bot API cannot be read") from None
        except TelegramAPIError as error:
            raise NotSent(words_of(error)) from None
        return f"{chat}:{sent.message_id}"

    def opened(self) -> Bot:
        """The bot, on the loop that sends."""
        if self.bot is None:
            self.bot = open_bot(self.token, self.api_url, self.seconds)
        return self.bot

    async def close(self) -> None:
        """Close connections."""
        if self.bot is not None:
            await self.bot.session.close()
            self.bot = None


def chat_of(message: Message) -> int:
    """The private chat of whoever it is for, which has the number of their Telegram id."""
    if message.person is None or message.person.telegram_id is None:
        raise WillNeverWork(
            f"{message.recipient} has no Telegram id; give them a link with: duly users link {message.recipient}"
        )
    return message.person.telegram_id


def keyboard_of(buttons: Sequence[Mapping[str, Any]], token: str, chat: int) -> InlineKeyboardMarkup | None:
    """The buttons, two in a row."""
    made = [
        InlineKeyboardButton(text=str(each["label"]), callback_data=sealed_key(token, chat, str(each["key"])))
        for each in buttons
    ]
    rows = [made[place : place + A_ROW] for place in range(0, len(made), A_ROW)]
    return InlineKeyboardMarkup(inline_keyboard=rows) if rows else None
