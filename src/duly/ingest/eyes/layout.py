"""From lines to shifts: a range of times is an anchor, and what stands under or beside it belongs to it.

    list                        cards              two columns
    08:00-09:00 | Title         08:00-09:00        08:00-09:00   09:30-10:00
                | Customer      Title              Title         Title
                | Place         Customer           Customer      Customer
                                Place              Place         Place

One rule reads all three: anchors whose left edges agree are a column; a line belongs to the last anchor above it, or
beside it, in its column; the first lines are title, customer and place. What cannot be right is told, not guessed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from duly.ingest.eyes.anchors import find_anchors
from duly.ingest.eyes.cards import PIN, Card, card_of
from duly.ingest.eyes.lines import Line, Sheet
from duly.ingest.eyes.parts import Block, Parts, parts_of
from duly.ingest.eyes.problems import leftovers, problems_of

__all__ = ["Card", "Layout", "find_layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page shows below its head."""

    head: tuple[Line, ...]
    cards: tuple[Card, ...]  # as they are read, from the first on
    problems: tuple[str, ...]
    remains: tuple[Line, ...]  # of the head: what could be left of a shift that is hidden above
    ends: bool  # there is room for another shift below the last one


def find_layout(sheet: Sheet) -> Layout:
    """The shifts of a page, and what is wrong with it."""
    anchors = find_anchors(sheet.lines)
    if not anchors:
        return Layout(sheet.lines, (), (), (), ends=False)
    parts = parts_of(sheet, anchors)
    cards = tuple(card_of(block, parts.right_of(block)) for block in in_order(parts) if is_shift(block, parts))
    return Layout(parts.head, cards, tuple(problems_of(parts, cards)), remains_of(parts), ends=has_end(parts))


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


def has_end(parts: Parts) -> bool:
    """Is there room for another shift below the last one, with nothing in it that could be one?"""
    lowest = max(block.bottom for block in parts.blocks)
    is_free = parts.floor - lowest >= parts.pitch and not leftovers(parts)
    return is_free and not any(parts.is_cut(block) for block in parts.blocks)
