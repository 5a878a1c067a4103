"""The outbox channel Telegram: sends a message to the person's private chat with the bot, with buttons to answer it.

    accepted ---------------------------- sent; the receipt is the chat and the number of the message
    429 --------------------------------- retried after the time that Telegram names
    403, 400 (blocked, no such chat) ---- undeliverable
    401, 404 (the token), 5xx ----------- retried
    no connection ----------------------- retried: nothing was sent
    no response, or an unreadable one --- outcome unknown

Telegram does not detect duplicates, so a message with an unknown outcome is left to an operator.
"""

import re
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

from duly.outbox.channel import NotSent, OutboundMessage, OutcomeUnknown, UncertainPolicy, Undeliverable
from duly.telegram.buttons import sign_key
from duly.telegram.client import NO_PREVIEW, format_error, open_bot, truncate, was_never_sent

BUTTONS_PER_ROW = 2
MESSAGE_ID = re.compile(r"(-?\d{1,19}):(\d{1,19})", re.ASCII)
UNDELIVERABLE_ERRORS = (TelegramForbiddenError, TelegramBadRequest, TelegramMigrateToChat, TelegramEntityTooLarge)

MessageId = tuple[int, int]  # the id of a chat, and of a message in it


class Telegram:
    """Sends messages to the chats of people with the bot."""

    name = "telegram"
    uncertain_policy = UncertainPolicy.MANUAL

    def __init__(self, token: str, api_url: str = "https://api.telegram.org", seconds: float = 10.0) -> None:
        self.token = token
        self.api_url = api_url
        self.seconds = seconds
        self.bot: Bot | None = None

    async def send(self, message: OutboundMessage) -> str | None:
        """Send a message to the chat of its recipient; return its receipt."""
        chat = require_chat(message)
        keyboard = build_keyboard(message.payload.get("buttons", ()), self.token, chat)
        try:
            sent = await self.get_bot().send_message(
                chat, truncate(message.text), reply_markup=keyboard, link_preview_options=NO_PREVIEW
            )
        except TelegramRetryAfter as error:
            raise NotSent(format_error(error), retry_after=float(error.retry_after)) from None
        except UNDELIVERABLE_ERRORS as error:
            raise Undeliverable(format_error(error)) from None
        except TelegramNetworkError as error:
            raise (NotSent if was_never_sent(error) else OutcomeUnknown)(format_error(error)) from None
        except ClientDecodeError:
            raise OutcomeUnknown("the response of the Bot API cannot be parsed") from None
        except TelegramAPIError as error:
            raise NotSent(format_error(error)) from None
        return format_message_id((chat, sent.message_id))

    def get_bot(self) -> Bot:
        """Return the bot, created on the event loop that sends."""
        if self.bot is None:
            self.bot = open_bot(self.token, self.api_url, self.seconds)
        return self.bot

    async def close(self) -> None:
        """Close connections."""
        if self.bot is not None:
            await self.bot.session.close()
            self.bot = None


def format_message_id(message_id: MessageId) -> str:
    """Return the receipt of a sent message, `chat:message`, which its row in the outbox and the reminder keep."""
    return f"{message_id[0]}:{message_id[1]}"


def parse_message_id(receipt: str) -> MessageId | None:
    """Return the message that a receipt is about; None for any other text."""
    found = MESSAGE_ID.fullmatch(receipt)
    return (int(found[1]), int(found[2])) if found else None


def require_chat(message: OutboundMessage) -> int:
    """Return the private chat of the recipient, whose id is their Telegram id; raises Undeliverable."""
    if message.contact is None or message.contact.telegram_id is None:
        raise Undeliverable(
            f"{message.recipient} has no Telegram id; give them a link with: "
            f"duly people link-telegram {message.recipient}"
        )
    return message.contact.telegram_id


def build_keyboard(buttons: Sequence[Mapping[str, Any]], token: str, chat: int) -> InlineKeyboardMarkup | None:
    """Build the inline keyboard, or None without buttons."""
    keys = [
        InlineKeyboardButton(text=str(each["label"]), callback_data=sign_key(token, chat, str(each["key"])))
        for each in buttons
    ]
    rows = [keys[start : start + BUTTONS_PER_ROW] for start in range(0, len(keys), BUTTONS_PER_ROW)]
    return InlineKeyboardMarkup(inline_keyboard=rows) if rows else None
