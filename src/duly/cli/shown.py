"""What commands show: tables and local times for people, JSON with times in UTC for programs."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

__all__ = ["on_one_line", "print_table", "text_of", "to_json"]

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with its head, as wide as its widest cells."""
    lines = [list(columns), *([text_of(cell) for cell in row] for row in rows)]
    widths = [max(len(line[nth]) for line in lines) for nth in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def text_of(value: object) -> str:
    """A cell: in one line, and nothing that a terminal obeys, whoever wrote it."""
    match value:
        case None:
            return "-"
        case datetime():
            return f"{value.astimezone():%Y-%m-%d %H:%M:%S %Z}"
        case list():
            return " ".join(map(text_of, cast("list[object]", value)))
        case Mapping():
            return to_json(cast("Mapping[str, object]", value))
        case _:
            return on_one_line(str(value))


def on_one_line(text: str) -> str:
    """What a stranger wrote, without anything that breaks a row or that a terminal obeys."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def to_json(value: object) -> str:
    """JSON with times in UTC and ids as text."""
    return json.dumps(value, default=plain)


def plain(value: object) -> str:
    """What JSON has no kind for, as text."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
