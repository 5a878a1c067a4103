"""`duly notifications`: look at messages, have one sent again, say whether one arrived."""

from uuid import UUID

from duly.cli.asking import as_api
from duly.cli.shown import tell_page, tell_whole
from duly.cli.whose import get_person
from duly.db.pool import Pool
from duly.delivery import service
from duly.delivery.service import SentMessage
from duly.errors import InvalidArgument
from duly.kernel.paging import Page

__all__ = ["list_messages", "resend_message", "resolve_message", "show_message"]


def list_messages(
    status: str | None, channel: str | None, uid: str | None, limit: int, place: str | None, as_json: bool
) -> None:
    """Show a page of messages, and where the next begins."""
    if channel is not None and "\0" in channel:
        raise InvalidArgument("--channel: must be a name such as telegram")

    async def question(pool: Pool) -> Page[SentMessage]:
        recipient = None if uid is None else (await get_person(pool, uid)).uid
        return await service.list_messages(
            pool, status=status, channel=channel, recipient=recipient, place=place, most=limit
        )

    columns = ("id", "created_at", "channel", "recipient", "kind", "status", "sent_at", "last_error")
    tell_page(as_api(question), columns, as_json)


def show_message(key: UUID, as_json: bool) -> None:
    """Show a message."""
    tell_whole(as_api(lambda pool: service.get_message(pool, key)), as_json)


def resend_message(key: UUID, as_json: bool) -> None:
    """Have a message sent again."""
    tell_whole(as_api(lambda pool: service.resend_message(pool, key)), as_json)


def resolve_message(key: UUID, was_sent: bool | None, as_json: bool) -> None:
    """Say whether a message arrived."""
    if was_sent is None:
        raise InvalidArgument("say what became of it: --sent when it arrived, --not-sent when it did not")
    tell_whole(as_api(lambda pool: service.resolve_message(pool, key, was_sent=was_sent)), as_json)
