"""`duly notifications`: look at messages, have one sent again, say whether one arrived."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from uuid import UUID

from duly.cli.asking import as_api, as_worker
from duly.cli.shown import tell_page, tell_whole
from duly.cli.whose import get_person, telegram_id_of
from duly.db.id_prefix import IdPrefix, read_prefix
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.lease.operations import LeaseTable
from duly.outbox import service
from duly.outbox.service import SentMessage
from duly.outbox.states import OUTBOX, notification
from duly.paging import Page
from duly.settings import load_settings

__all__ = ["list_messages", "resend_message", "resolve_message", "show_message"]

Answer = TypeVar("Answer")


def list_messages(
    status: str | None, channel: str | None, uid: str | None, days: bool, limit: int, place: str | None, as_json: bool
) -> None:
    """Show a page of messages, and where the next begins."""
    if channel is not None and "\0" in channel:
        raise InvalidArgument("--channel: must be a name such as telegram")

    async def question(pool: Pool, table: LeaseTable) -> Page[SentMessage]:
        recipient = None if uid is None else await recipient_of(pool, uid, days)
        return await service.list_messages(
            pool, table, status=status, channel=channel, recipient=recipient, place=place, limit=limit
        )

    columns = ("id", "created_at", "channel", "recipient", "kind", "status", "sent_at", "last_error")
    tell_page(ask(days, question), columns, as_json)


def show_message(key: str, days: bool, as_json: bool) -> None:
    """Show a message."""
    tell_whole(ask_of(key, days, service.get_message), as_json)


def resend_message(key: str, days: bool, as_json: bool) -> None:
    """Have a message sent again."""
    tell_whole(ask_of(key, days, service.resend_message), as_json)


def resolve_message(key: str, was_sent: bool | None, days: bool, as_json: bool) -> None:
    """Say whether a message arrived."""
    if was_sent is None:
        raise InvalidArgument("say what became of it: --sent when it arrived, --not-sent when it did not")
    tell_whole(ask_of(key, days, partial(service.resolve_message, was_sent=was_sent)), as_json)


# Within ---------------------------------------------------------------------------------------------------------------


def ask(days: bool, question: Callable[[Pool, LeaseTable], Awaitable[Answer]]) -> Answer:
    """Ask where the messages lie: about days in the ingest contract's table, which is a worker's to move."""
    if days:
        return as_worker(lambda pool: question(pool, notification(load_settings().db_schema)))
    return as_api(lambda pool: question(pool, OUTBOX))


async def recipient_of(pool: Pool, uid: str, days: bool) -> str:
    """By what name a person is written to."""
    return str(await telegram_id_of(pool, uid)) if days else (await get_person(pool, uid)).uid


def ask_of(
    key: str, days: bool, question: Callable[[Pool, UUID | str, LeaseTable], Awaitable[SentMessage]]
) -> SentMessage:
    """Ask about one message: by its id or the beginning of it in the outbox, by any words of messages about days."""
    given = None if days and "\0" not in key else checked_prefix(key)

    async def asked(pool: Pool, table: LeaseTable) -> SentMessage:
        return await question(pool, await service.resolve_id(pool, given) if given else key, table)

    return ask(days, asked)


def checked_prefix(key: str) -> IdPrefix:
    """The id of a message of the outbox, or its beginning."""
    try:
        return read_prefix(key)
    except InvalidArgument:
        raise InvalidArgument(
            f"{key[:100]!a} is no id of a message; see: duly notifications list, and --days for messages about days"
        ) from None
