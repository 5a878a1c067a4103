"""`duly notifications`: list messages to people, send one again, record whether one arrived."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal, TypeVar
from uuid import UUID

import typer

from duly.accounts.service import require_person
from duly.cli.database_call import call_as_api, call_as_worker
from duly.cli.options import Cursor, Json, Limit, new_group
from duly.cli.output import print_page, print_record
from duly.cli.owners import find_telegram_id
from duly.db.id_prefix import IdPrefix, parse_id_prefix
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.outbox import service
from duly.outbox.service import StoredMessage
from duly.outbox.states import OUTBOX, MessageTable, notification_table
from duly.paging import Page
from duly.settings import load_settings

app = new_group("Messages to people: list, resend and resolve them.")

StatusName = Literal["pending", "sending", "sent", "failed", "uncertain"]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")]
Days = Annotated[bool, typer.Option("--days", help="Messages about ingested days, instead of those in the outbox.")]
Result = TypeVar("Result")


@app.command("list")
def list_messages(
    status: Annotated[StatusName | None, typer.Option(help="Only this status.")] = None,
    channel: Annotated[
        str | None, typer.Option(help="Only this channel, such as console, telegram or webhook.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="UID", help="Only messages to this user.")] = None,
    days: Days = False,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List messages, the newest first.

    Example: duly notifications list --status uncertain --days
    """
    if channel is not None and "\0" in channel:
        raise InvalidArgument("--channel: must be a name such as telegram")

    async def fetch(pool: Pool, table: MessageTable) -> Page[StoredMessage]:
        recipient = None if user is None else await find_recipient(pool, user, days)
        return await service.list_messages(
            pool, table, status=status, channel=channel, recipient=recipient, cursor=cursor, limit=limit
        )

    columns = ("id", "created_at", "channel", "recipient", "kind", "status", "sent_at", "last_error")
    print_page(call_with_table(days, fetch), columns, as_json)


@app.command("show")
def show_message(message: MessageId, days: Days = False, as_json: Json = False) -> None:
    """Show a message and its delivery.

    Example: duly notifications show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    print_record(call_with_message(message, days, service.get_message), as_json)


@app.command("resend")
def resend_message(message: MessageId, days: Days = False, as_json: Json = False) -> None:
    """Send a message again, under the same id, whose delivery failed or is uncertain.

    Example: duly notifications resend 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    print_record(call_with_message(message, days, service.resend_message), as_json)


@app.command("resolve")
def resolve_message(
    message: MessageId,
    was_sent: Annotated[bool | None, typer.Option("--sent/--not-sent", help="It arrived, or it did not.")] = None,
    days: Days = False,
    as_json: Json = False,
) -> None:
    """Record whether a message arrived whose delivery is uncertain.

    Example: duly notifications resolve 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --sent
    """
    if was_sent is None:
        raise InvalidArgument("give --sent if the message arrived, or --not-sent if it did not")
    resolve = partial(service.resolve_message, was_sent=was_sent)
    print_record(call_with_message(message, days, resolve), as_json)


# Helpers --------------------------------------------------------------------------------------------------------------


def call_with_table(days: bool, function: Callable[[Pool, MessageTable], Awaitable[Result]]) -> Result:
    """Call a function with the table of the messages; messages about days lie in a table that only workers may use."""
    if days:
        return call_as_worker(lambda pool: function(pool, notification_table(load_settings().db_schema)))
    return call_as_api(lambda pool: function(pool, OUTBOX))


def call_with_message(
    text: str, days: bool, function: Callable[[Pool, UUID | str, MessageTable], Awaitable[StoredMessage]]
) -> StoredMessage:
    """Call a function about one message: an id or unique prefix in the outbox, any text as id of one about days."""
    prefix = None if days and "\0" not in text else parse_message_id(text)

    async def call(pool: Pool, table: MessageTable) -> StoredMessage:
        return await function(pool, await service.resolve_id(pool, prefix) if prefix else text, table)

    return call_with_table(days, call)


async def find_recipient(pool: Pool, uid: str, days: bool) -> str:
    """Return the name that messages to a user have as their recipient."""
    return str(await find_telegram_id(pool, uid)) if days else (await require_person(pool, uid)).uid


def parse_message_id(text: str) -> IdPrefix:
    """Parse the id of a message in the outbox, or a prefix of one."""
    try:
        return parse_id_prefix(text)
    except InvalidArgument:
        raise InvalidArgument(
            f"{text[:100]!a} is not the id of a message; see: duly notifications list, and --days for messages about "
            "days"
        ) from None
