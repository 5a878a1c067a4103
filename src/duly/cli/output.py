"""What commands print: tables and local times for people, JSON with times in UTC for programs."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar, cast

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from duly.explain import Explanation
from duly.formatting import rewrite_commands
from duly.outcomes import Created, Creation
from duly.paging import Page

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
GAP = 2
MIN_ID_LENGTH, UUID_LENGTH = 8, 36
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FIELD_WIDTH = 17
CENT = Decimal("0.01")
Item = TypeVar("Item")


def print_page(
    page: Page[Item],
    columns: Sequence[str],
    as_json: bool,
    *,
    to_row: Callable[[Item], Sequence[object]] | None = None,
    to_document: Callable[[Item], Mapping[str, object]] | None = None,
) -> None:
    """Print a page of a list, and the cursor of the next page; without `to_row` a row has the item's columns."""
    if as_json:
        documents = [to_document(each) if to_document else asdict(cast("Any", each)) for each in page.items]
        print(to_json({"items": documents, "next": page.next}))
        return
    rows = [to_row(each) if to_row else [getattr(each, column) for column in columns] for each in page.items]
    print_table(columns, rows)
    if page.next:
        print(f"more      --cursor {page.next}")


def print_result(document: object, as_json: bool, *lines: str) -> None:
    """Print a document as JSON, or else the lines that describe it."""
    print(to_json(document) if as_json else "\n".join(lines), flush=True)


def print_record(record: Any, as_json: bool) -> None:
    """Print every field of a dataclass."""
    if as_json:
        print(to_json(asdict(record)))
    else:
        print_fields(asdict(record))


def print_fields(fields: Mapping[str, object]) -> None:
    """Print the fields that are not None, one per line."""
    width = max([FIELD_WIDTH, *map(len, fields)])
    for name, value in fields.items():
        if value is not None:
            print(f"{name:{width}} {format_value(value)}")


def print_explanation(explanation: Explanation[Any], as_json: bool) -> None:
    """Print the sentence; as JSON, with its reason code."""
    print(to_json(asdict(explanation)) if as_json else rewrite_commands(single_line(explanation.sentence)))


# Tables ---------------------------------------------------------------------------------------------------------------


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with a header: cut to the width of a terminal, in full anywhere else."""
    cells = [[column, *(format_value(row[nth]) for row in rows)] for nth, column in enumerate(columns)]
    full_width = sum(max(map(cell_len, column)) for column in cells) + GAP * (len(columns) - 1)
    width = terminal_width() or full_width
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    for nth, (_, *values) in enumerate(cells):
        has_ids = bool(values) and all(UUID_TEXT.fullmatch(value) for value in values)
        table.add_column(no_wrap=has_ids)  # the other columns are narrowed first
        if has_ids and full_width > width:
            length = unique_length(values)
            cells[nth][1:] = [value[:length] for value in values]
    for line in zip(*cells, strict=True):
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in line))
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def terminal_width() -> int | None:
    """Return the width of the terminal we print on; None if standard output is not a terminal."""
    return Console().width if sys.stdout.isatty() else None


def unique_length(ids: Sequence[str]) -> int:
    """Return how many leading characters distinguish these ids."""
    distinct = set(ids)
    lengths = range(MIN_ID_LENGTH, UUID_LENGTH)
    return next(
        (length for length in lengths if len({each[:length] for each in distinct}) == len(distinct)), UUID_LENGTH
    )


# Values ---------------------------------------------------------------------------------------------------------------


def creation_outcome(creation: Creation[Any]) -> str:
    """Return whether the row was created or existed already."""
    return "created" if isinstance(creation, Created) else "existing"


def format_value(value: object) -> str:
    """Format a value on one line, without control characters that a terminal would obey."""
    match value:
        case None:
            return "-"
        case datetime():
            return f"{value.astimezone():%Y-%m-%d %H:%M:%S %Z}"
        case Decimal():
            return format_amount(value)
        case list():
            return " ".join(map(format_value, cast("list[object]", value)))
        case Mapping():
            return to_json(cast("Mapping[str, object]", value))
        case _:
            return single_line(str(value))


def format_instant(instant: datetime) -> str:
    """Format an instant with milliseconds, for lists where several lie within one second."""
    local = instant.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {local:%Z}"


def format_amount(amount: Decimal) -> str:
    """Format an amount with two decimals, and with more only where it has them."""
    rounded = amount.quantize(CENT)
    return str(rounded) if rounded == amount else f"{amount.normalize():f}"


def single_line(text: str) -> str:
    """Put text on one line and replace control characters: it may come from anyone."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def to_json(value: object) -> str:
    """Serialize to JSON, with times in UTC and ids as text."""
    return json.dumps(value, default=to_json_text)


def to_json_text(value: object) -> str:
    """Convert a value that JSON has no type for."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
