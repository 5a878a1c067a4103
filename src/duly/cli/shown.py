"""What commands show: tables and local times for people, JSON with times in UTC for programs."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar, cast

from rich.cells import cell_len, set_cell_size
from rich.console import Console

from duly.explain import Explanation
from duly.formatting import as_called
from duly.outcomes import Created, Creation
from duly.paging import Page

__all__ = [
    "instant_of",
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
GAP = "  "
MIN_CELL = 8
SHORTEST_ID, UUID_LENGTH = 8, 36
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FIELD_WIDTH = 17
CENT = Decimal("0.01")
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
    print_table(columns, [row(each) if row else [getattr(each, column) for column in columns] for each in page.items])
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
    """A table with its head: on a terminal no wider than that, elsewhere with every cell whole."""
    lines = [list(columns), *([text_of(cell) for cell in row] for row in rows)]
    cells_of = [[line[nth] for line in lines] for nth in range(len(columns))]
    widths = [max(map(cell_len, cells)) for cells in cells_of]
    if width := terminal_width():
        least = [unique_length(cells[1:]) if holds_ids(cells[1:]) else MIN_CELL for cells in cells_of]
        widths = fitted(widths, least, width - len(GAP) * (len(columns) - 1))
    for line in lines:
        print(GAP.join(padded(cell, size) for cell, size in zip(line, widths, strict=True)).rstrip())


def terminal_width() -> int | None:
    """How wide the terminal is that we print on; None where it is none."""
    return Console().width if sys.stdout.isatty() else None


def fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths with the widest narrowed until all fit; below its least none goes unless nothing else helps."""
    found = list(widths)
    for floor in (least, [1] * len(found)):
        while sum(found) > room and any(size > low for size, low in zip(found, floor, strict=True)):
            widest = max((nth for nth in range(len(found)) if found[nth] > floor[nth]), key=lambda nth: found[nth])
            found[widest] -= 1
    return found


def holds_ids(cells: Sequence[str]) -> bool:
    """Are these ids, which may be shortened to what tells them apart?"""
    return bool(cells) and all(UUID_TEXT.fullmatch(cell) for cell in cells)


def unique_length(ids: Sequence[str]) -> int:
    """How many characters tell these ids apart."""
    known = sorted(set(ids))
    lengths = range(SHORTEST_ID, UUID_LENGTH)
    return next((length for length in lengths if len({each[:length] for each in known}) == len(known)), UUID_LENGTH)


def padded(cell: str, width: int) -> str:
    """A cell as wide as its column on a terminal; what was cut ends in an ellipsis, except an id."""
    if cell_len(cell) <= width:
        return set_cell_size(cell, width)
    return cell[:width] if UUID_TEXT.fullmatch(cell) else set_cell_size(cell, width - 1) + "…"


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
        case Decimal():
            return amount_of(value)
        case list():
            return " ".join(map(text_of, cast("list[object]", value)))
        case Mapping():
            return to_json(cast("Mapping[str, object]", value))
        case _:
            return on_one_line(str(value))


def instant_of(at: datetime) -> str:
    """A moment with its milliseconds, where several lie within a second."""
    local = at.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {local:%Z}"


def amount_of(amount: Decimal) -> str:
    """An amount with its cents, and with more digits only where it has them."""
    cents = amount.quantize(CENT)
    return str(cents) if cents == amount else f"{amount.normalize():f}"


def on_one_line(text: str) -> str:
    """What a stranger wrote, without anything that breaks a row or that a terminal obeys."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def to_json(value: object) -> str:
    """JSON with times in UTC and ids as text."""
    return json.dumps(value, default=plain)


def plain(value: object) -> str:
    """What JSON has no kind for, as text."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
