"""Ids as arguments: whole, or as much of their beginning as is unique."""

from typing import Any

import typer

__all__ = ["id_argument"]


def id_argument(kind: str) -> Any:
    """An argument that is the id of a job, a post or a session, or the beginning of one."""
    return typer.Argument(
        metavar="ID",
        parser=read_id,
        help=f"The {kind}'s id, or as much of its beginning as is unique, at least 4.",
    )


def read_id(text: str) -> Any:
    """What was typed, as the beginning of an id; the kernel is imported on use, so that `duly --help` stays quick."""
    from duly.db.id_prefix import read_prefix
    from duly.errors import InvalidArgument

    try:
        return read_prefix(text)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None
