"""From lines to shifts: a range of times is an anchor, and what stands under or beside it belongs to it.

    list                        cards              two columns
    08:00-09:00 | Title         08:00-09:00        08:00-09:00   09:30-10:00
                | Customer      Title              Title         Title
                | Place         Customer           Customer      Customer
                                Place              Place         Place

One rule reads all three: anchors whose left edges agree are a column; a line belongs to the last anchor above it, or
beside it, in its column; the first lines are title, customer and place. What cannot be right is told, not guessed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from duly.apps.ingest.ocr.anchors import find_anchors
from duly.apps.ingest.ocr.cards import PIN, Card, card_of, conventions_of, name_of, proper
from duly.apps.ingest.ocr.chips import is_state
from duly.apps.ingest.ocr.lines import Line, Sheet
from duly.apps.ingest.ocr.parts import Block, Parts, parts_of
from duly.apps.ingest.ocr.problems import leftovers, problems_of, problems_of_row, repeated
from duly.apps.ingest.ocr.table import Columns, Field, in_words, rows_of
from duly.apps.ingest.ocr.times import find_range, is_like_range, is_old_note, is_old_range

__all__ = ["Card", "Layout", "find_layout"]

NEAR = 3.5  # of a line's height: so near above or below old times stand the new ones
BESIDE = 6.0  # of a line's height: so near beside them


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page shows below its head."""

    head: tuple[Line, ...]
    cards: tuple[Card, ...]  # as they are read, from the first on
    problems: tuple[str, ...]
    remains: tuple[Line, ...]  # of the head: what could be left of a shift that is hidden above
    ends: bool  # there is room for another shift below the last one


def find_layout(sheet: Sheet, columns: Columns | None = None) -> Layout:
    """The shifts of a page, and what is wrong with it; columns where it is a table."""
    lines, struck = without_old_times(sheet.lines)
    sheet = replace(sheet, lines=lines)
    if columns:
        return table_layout(sheet, columns, struck)
    anchors = find_anchors(sheet.lines)
    if not anchors:
        broken = [
            f"{line.text!r} looks like times and cannot be read" for line in sheet.lines if is_like_range(line.text)
        ]
        return Layout(sheet.lines, (), (*struck, *broken), (), ends=sheet.is_complete)
    parts = parts_of(sheet, anchors)
    page = conventions_of(parts)
    cards = tuple(card_of(block, page) for block in in_order(parts) if is_shift(block, parts))
    problems = (*struck, *problems_of(parts, cards, page))
    return Layout(parts.head, cards, problems, remains_of(parts), ends=has_end(parts, sheet))


def is_shift(block: Block, parts: Parts) -> bool:
    """Is everything there that makes a shift?"""
    return bool(block.rows) and not block.times.problem and not parts.is_cut(block)


def in_order(parts: Parts) -> list[Block]:
    """The blocks as a person reads them: row by row, unless their times go down the columns."""
    by_row = sorted(parts.blocks, key=lambda block: (row_of(block, parts), block.line.left))
    return min(by_row, parts.blocks, key=lambda blocks: steps_back(block.times.start for block in blocks))


def row_of(block: Block, parts: Parts) -> float:
    """Where the row of a block stands: with that of the first column that is beside it."""
    near = [other for other in parts.columns[0] if abs(other.line.middle - block.line.middle) < parts.pitch / 2]
    return min([other.line.middle for other in near], default=block.line.middle)


def steps_back(starts: Iterable[str]) -> int:
    """How often a start is earlier than the one before."""
    return sum(later < earlier for earlier, later in pairwise(filter(None, starts)))


# Tables ---------------------------------------------------------------------------------------------------------------


def table_layout(sheet: Sheet, columns: Columns, struck: Sequence[str]) -> Layout:
    """The shifts of a table."""
    rows, problems = rows_of(columns, sheet)
    cards: list[Card] = []
    for row in rows:
        fields = {field: in_words(row.lines(field)) for field in (Field.TITLE, Field.CUSTOMER, Field.LOCATION)}
        problems += problems_of_row(row, [line for line in fields.values() if line])
        title = fields[Field.TITLE] or (None if columns.has(Field.TITLE) else fields[Field.CUSTOMER])
        customer = fields[Field.CUSTOMER] if title is not fields[Field.CUSTOMER] else None
        location = fields[Field.LOCATION]
        if title is None:
            problems.append(f"the shift {row.anchor.line.text!r} has no title")
        elif not row.anchor.times.problem:
            parts = [line for line in (row.anchor.line, title, customer, location) if line]
            cards.append(
                Card(
                    row.anchor.times.start,
                    row.anchor.times.end,
                    name_of(title.text),
                    proper(customer.text) if customer else "",
                    proper(location.text) if location else "",
                    "",
                    round(min(line.weakest for line in parts), 3),
                )
            )
    problems += [f"the shift {card.start}-{card.end} {card.title!r} stands there twice" for card in repeated(cards)]
    lowest = max((row.anchor.line.bottom for row in rows), default=sheet.height)
    pitch = min(
        (below.anchor.line.middle - above.anchor.line.middle for above, below in pairwise(rows)), default=sheet.height
    )
    ends = sheet.is_complete or sheet.height - lowest >= pitch
    return Layout((), tuple(cards), (*struck, *problems), (), ends=ends)


# Old times ------------------------------------------------------------------------------------------------------------


def without_old_times(lines: Sequence[Line]) -> tuple[tuple[Line, ...], list[str]]:
    """The lines without times that others replaced, and what is struck through and replaced by nothing.

    A shift begins at its uppermost line, so times below those that they replaced are moved up to them where its words
    stand beside these.
    """
    current = [line for line in lines if not line.is_struck and not is_old_range(line.text) and find_range(line.text)]
    struck = [line for line in lines if line.is_struck and not is_state(line.text)]
    old = [line for line in lines if is_old_range(line.text)]
    replaced = {id(line): near for line in [*old, *struck] if (near := replacing(line, current))}
    moved = {
        id(near): replace(near, middle=line.middle)
        for line in struck
        if (near := replaced.get(id(line))) and line.middle < near.middle - line.height / 2 and has_beside(line, lines)
    }
    left = [f"{line.text!r} is struck through" for line in struck if id(line) not in replaced]
    gone = {*replaced, *(id(line) for line in old if is_old_note(line.text))}
    return tuple(moved.get(id(line), line) for line in lines if id(line) not in gone), left


def has_beside(line: Line, lines: Sequence[Line]) -> bool:
    """Check whether words stand right of old times: then their shift begins there, and not at the new times below."""
    return any(
        other.left > line.right and abs(other.middle - line.middle) < line.height / 2 and not find_range(other.text)
        for other in lines
    )


def replacing(line: Line, current: Sequence[Line]) -> Line | None:
    """The current times that stand beside old ones, or near above or below them."""
    if not any(map(str.isdigit, line.text)):
        return None
    near = [
        other
        for other in current
        if abs(other.middle - line.middle) < NEAR * line.height
        and min(abs(other.left - line.left), abs(other.left - line.right), abs(line.left - other.right))
        < BESIDE * line.height
    ]
    return min(near, key=lambda other: abs(other.middle - line.middle), default=None)


# Which part of the day ------------------------------------------------------------------------------------------------


def remains_of(parts: Parts) -> tuple[Line, ...]:
    """Lines above the first shift that begin where rows begin: they could be left of a shift that is hidden."""
    first = min(block.line.middle for block in parts.blocks)
    rows = [row for block in parts.blocks for row in block.rows]
    return tuple(
        line
        for line in parts.head
        if line.middle > first - parts.pitch and any(abs(line.left - row.left) < PIN * line.height for row in rows)
    )


def has_end(parts: Parts, sheet: Sheet) -> bool:
    """Is there room for another shift below the last one, with nothing in it that could be one?"""
    if sheet.is_complete:
        return not leftovers(parts)
    lowest = max(block.bottom for block in parts.blocks)
    is_free = parts.floor - lowest >= parts.pitch and not leftovers(parts)
    return is_free and not any(parts.is_cut(block) for block in parts.blocks)
