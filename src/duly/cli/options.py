"""Arguments and options that several commands have."""

from typing import Annotated, Any

import typer

from duly.db.id_prefix import IdPrefix, parse_id_prefix
from duly.errors import InvalidArgument

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")]
Cursor = Annotated[str | None, typer.Option(help="Continue after the previous page: its `next`.")]
OnlyUser = Annotated[str | None, typer.Option("--user", metavar="UID", help="Only those of this user.")]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Port of the API; 0 picks a free one. Default: DULY_PORT, or else 8420, or a free one."
    ),
]
AppName = Annotated[
    str | None,
    typer.Option("--app", help="The app that declares your job types, as module:variable. Default: DULY_APP."),
]


def new_group(summary: str) -> typer.Typer:
    """Create a group of commands; called without a command it prints its help."""
    return typer.Typer(help=summary, no_args_is_help=True)


def id_argument(noun: str) -> Any:
    """Declare an argument that is the id of a job, post or session, or a unique prefix of one."""
    return typer.Argument(
        metavar="ID", parser=parse_id, help=f"Id of the {noun}, or a unique prefix of at least 4 characters."
    )


def parse_id(text: str) -> IdPrefix:
    """Parse an id or a prefix of one."""
    try:
        return parse_id_prefix(text)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None
