"""The Bot API as we ask it: one session, with a time limit, and errors that never show the token."""

from http import HTTPStatus

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramNetworkError, TelegramServerError
from aiogram.methods import Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import LinkPreviewOptions
from aiohttp import ClientConnectorError, ConnectionTimeoutError

from duly.logging import masked

__all__ = ["MAX_TEXT_LENGTH", "NO_PREVIEW", "cut", "never_left", "open_bot", "words_of"]

MAX_TEXT_LENGTH = 4096  # of a message, as Telegram counts: in units of UTF-16
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


def open_bot(token: str, api_url: str, seconds: float) -> Bot:
    """A bot at this Bot API; it connects when it is first asked something."""
    return Bot(token, session=Session(api=TelegramAPIServer.from_base(api_url), timeout=seconds))


class Session(AiohttpSession):
    """The way to the Bot API, on which a gateway may answer in its place."""

    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        """What was answered; a 5xx that does not say why, where aiogram looks into the words, is one all the same."""
        try:
            return super().check_response(bot, method, status_code, content)
        except TypeError:
            if status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            raise TelegramServerError(method, f"HTTP {status_code} without a word") from None


def never_left(error: TelegramNetworkError) -> bool:
    """Did the request certainly not reach the other side, because there was no connection to send it on?"""
    return isinstance(error.__cause__, ClientConnectorError | ConnectionTimeoutError)


def words_of(error: BaseException) -> str:
    """An error in one line, without the token, which stands in every address of the Bot API."""
    return masked(" ".join(f"{type(error).__name__}: {error}".split()))


def cut(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """The text, or as much of it as Telegram takes."""
    units = text.encode("utf-16-le", "replace")
    if len(units) <= max_length * 2:
        return text
    return units[: (max_length - 1) * 2].decode("utf-16-le", "ignore") + "…"
