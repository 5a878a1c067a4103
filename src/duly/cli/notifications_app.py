"""What `duly notifications` offers."""

from typing import Annotated, Literal

import typer

__all__ = ["notifications_app"]

notifications_app = typer.Typer(
    help="Messages: what was sent to whom, what failed, what nobody knows of.", no_args_is_help=True
)

StatusName = Literal["pending", "sending", "sent", "failed", "uncertain"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The message's id.")]
Days = Annotated[bool, typer.Option("--days", help="Messages about days, which ingest writes, instead of the outbox.")]


@notifications_app.command("list")
def notifications_list(
    status: Annotated[StatusName | None, typer.Option(help="Only of this status.")] = None,
    channel: Annotated[
        str | None, typer.Option(help="Only by this channel, such as console, telegram or webhook.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="UID", help="Only to this person.")] = None,
    days: Days = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")] = 20,
    place: Annotated[str | None, typer.Option(help="Go on here: what the page before gave as next.")] = None,
    as_json: Json = False,
) -> None:
    """Show messages, the newest first.

    Example: duly notifications list --status uncertain --days
    """
    from duly.cli.notifications import list_messages

    list_messages(status, channel, user, days, limit, place, as_json)


@notifications_app.command("show")
def notifications_show(message: Id, days: Days = False, as_json: Json = False) -> None:
    """Show a message and what became of it.

    Example: duly notifications show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.notifications import show_message

    show_message(message, days, as_json)


@notifications_app.command("resend")
def notifications_resend(message: Id, days: Days = False, as_json: Json = False) -> None:
    """Have a message that failed, or of which nobody knows, sent again under the same id.

    Example: duly notifications resend 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.notifications import resend_message

    resend_message(message, days, as_json)


@notifications_app.command("resolve")
def notifications_resolve(
    message: Id,
    was_sent: Annotated[bool | None, typer.Option("--sent/--not-sent", help="It arrived, or it did not.")] = None,
    days: Days = False,
    as_json: Json = False,
) -> None:
    """Say of a message of which nobody knows whether it arrived.

    Example: duly notifications resolve 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --sent
    """
    from duly.cli.notifications import resolve_message

    resolve_message(message, was_sent, days, as_json)
