"""The client of the Bot API: one session with a timeout, and error texts that never contain the token."""

from http import HTTPStatus

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramNetworkError, TelegramServerError
from aiogram.methods import Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import LinkPreviewOptions
from aiohttp import ClientConnectorError, ConnectionTimeoutError

from duly.redaction import masked

MAX_TEXT_LENGTH = 4096  # of a message, in UTF-16 code units
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


def open_bot(token: str, api_url: str, seconds: float) -> Bot:
    """Create a bot at this Bot API; it connects on the first call."""
    return Bot(token, session=Session(api=TelegramAPIServer.from_base(api_url), timeout=seconds))


class Session(AiohttpSession):
    """A session with the Bot API that expects error pages of gateways."""

    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        """Parse a response; a 5xx without a description, on which aiogram fails, raises TelegramServerError too."""
        try:
            return super().check_response(bot, method, status_code, content)
        except TypeError:
            if status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            raise TelegramServerError(method, f"HTTP {status_code} without a description") from None


def was_never_sent(error: TelegramNetworkError) -> bool:
    """Return whether a request was certainly not sent, because there was no connection."""
    return isinstance(error.__cause__, ClientConnectorError | ConnectionTimeoutError)


def format_error(error: BaseException) -> str:
    """Format an error in one line, without the token, which is part of every URL of the Bot API."""
    return masked(" ".join(f"{type(error).__name__}: {error}".split()))


def truncate(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Truncate a text to the limit of Telegram."""
    units = text.encode("utf-16-le", "replace")
    if len(units) <= max_length * 2:
        return text
    return units[: (max_length - 1) * 2].decode("utf-16-le", "ignore") + "…"
