"""What commands show: tables and local times for people, JSON with times in UTC for programs."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from duly.kernel.causes import Explanation
from duly.kernel.outcome import Created, Creation
from duly.kernel.paging import Page
from duly.kernel.words import as_called

__all__ = [
    "on_one_line",
    "outcome_of",
    "print_table",
    "tell_explanation",
    "tell_fields",
    "tell_page",
    "tell_whole",
    "text_of",
    "to_json",
]

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
LONGEST_CELL = 40
FIELD_WIDTH = 17
Item = TypeVar("Item")


def tell_page(
    page: Page[Item],
    columns: Sequence[str],
    as_json: bool,
    *,
    row: Callable[[Item], Sequence[object]] | None = None,
    told: Callable[[Item], Mapping[str, object]] | None = None,
) -> None:
    """A page of a list, and where the next begins; without a `row` of its own an item shows its columns, cut short."""
    if as_json:
        print(to_json({"items": [(told or whole)(each) for each in page.items], "next": page.next}))
        return
    print_table(columns, [row(each) if row else short(each, columns) for each in page.items])
    if page.next:
        print(f"more      --place {page.next}")


def tell_whole(found: object, as_json: bool) -> None:
    """All of one thing."""
    if as_json:
        print(to_json(whole(found)))
    else:
        tell_fields(whole(found))


def tell_fields(found: Mapping[str, object]) -> None:
    """Everything that is there, a line each."""
    width = max([FIELD_WIDTH, *map(len, found)])
    for name, value in found.items():
        if value is not None:
            print(f"{name:{width}} {text_of(value)}")


def tell_explanation(found: Explanation[Any], as_json: bool) -> None:
    """The sentence for people; with its reason, for programs."""
    print(to_json(whole(found)) if as_json else as_called(on_one_line(found.sentence)))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with its head, as wide as its widest cells."""
    lines = [list(columns), *([text_of(cell) for cell in row] for row in rows)]
    widths = [max(len(line[nth]) for line in lines) for nth in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def short(row: object, columns: Sequence[str]) -> list[object]:
    """These columns of a row, as cells that are not too wide."""
    cells = (getattr(row, column) for column in columns)
    return [on_one_line(cell)[:LONGEST_CELL] if isinstance(cell, str) else cell for cell in cells]


def whole(row: Any) -> dict[str, Any]:
    """All there is of a row."""
    return asdict(row)


def outcome_of(made: Creation[Any]) -> str:
    """Was it made, or there?"""
    return "created" if isinstance(made, Created) else "existing"


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
