"""A page in its parts: the head, columns of blocks, and what belongs to none of them.

head                        the day stands here
block   block               an anchor with its rows, in its column
block   block
-------------- floor        where the page ends for shifts: below is the bar at the foot
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from duly.apps.ingest.ocr.anchors import INDENT, Anchor
from duly.apps.ingest.ocr.chips import is_chip, is_navigation
from duly.apps.ingest.ocr.lines import Line, Sheet
from duly.apps.ingest.ocr.times import Range

__all__ = ["Block", "Parts", "parts_of"]

NEW_COLUMN = 0.16  # of the width of the page, between the left edges of two columns
WIDEST_GAP = 2.7  # of a line's height, between the rows of one block
REACH = 1.5  # of a line's height: so near to the floor a line may be cut, or the next one hidden
ROOM = 6.0  # of a line's height: what a block takes at least
SAME_ROW = 0.7  # of a line's height: the bar at the foot of a page that is not quite straight
MANY = 3  # names in that bar
MAX_ROWS = 3  # that nearly every block has: title, customer, place


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An anchor and the lines that belong to it: its rows, what stands beside these, and what comes after a gap."""

    line: Line
    times: Range
    rows: tuple[Line, ...]
    aside: tuple[Line, ...]
    rest: tuple[Line, ...]

    @property
    def bottom(self) -> float:
        """Where it ends."""
        return max([self.line.bottom, *(row.bottom for row in self.rows)])

    @property
    def steps(self) -> list[float]:
        """How far below the times the first row stands, below that the second, and so on."""
        return [below.middle - above.middle for above, below in pairwise([self.line, *self.rows])][:MAX_ROWS]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a page that shows shifts."""

    head: tuple[Line, ...]
    columns: tuple[tuple[Block, ...], ...]  # from left to right, each from top to bottom
    strays: tuple[Line, ...]  # below the head, and in no column
    floor: float
    width: float
    is_complete: bool = False  # the next day begins at the floor, so that nothing is hidden there

    @property
    def blocks(self) -> list[Block]:
        """All of them, column by column."""
        return [block for column in self.columns for block in column]

    @property
    def pitch(self) -> float:
        """How far below each other blocks stand, or else how much room one takes."""
        steps = [below.line.middle - above.line.middle for column in self.columns for above, below in pairwise(column)]
        return statistics.median(steps or [ROOM * block.line.height for block in self.blocks])

    @property
    def usual_rows(self) -> int:
        """How many rows most blocks have."""
        counts = [min(MAX_ROWS, len(block.rows)) for block in self.blocks]
        return statistics.mode(sorted(counts, reverse=True))

    @property
    def extent(self) -> float:
        """How far below its times the last row of a block stands at most."""
        return max(sum(block.steps) + block.line.height / 2 for block in self.blocks)

    def is_last(self, block: Block) -> bool:
        """Is it the last one of its column?"""
        return any(column[-1] is block for column in self.columns)

    def reaches_floor(self, line: Line) -> bool:
        """Is a line so near to the end of the page that it could be cut, or the next one hidden?"""
        return not self.is_complete and self.floor - line.bottom < REACH * line.height

    def is_cut(self, block: Block) -> bool:
        """Does the end of the page hide a part of a block?"""
        last = block.rows[-1] if block.rows else block.line
        return self.is_last(block) and len(block.rows) < self.usual_rows and self.reaches_floor(last)

    def right_of(self, block: Block) -> float:
        """Where the column of a block ends on the right."""
        lefts = [column[0].line.left for column in self.columns]
        own = next(column[0].line.left for column in self.columns if block in column)
        return min([left for left in lefts if left > own + 1], default=self.width)


def parts_of(sheet: Sheet, anchors: Sequence[Anchor]) -> Parts:
    """The parts of a page with these anchors."""
    taken = {id(line) for anchor in anchors for line in anchor.sources}
    lines = [line for line in sheet.lines if id(line) not in taken]
    first = min(anchor.beside for anchor in anchors)
    head = [line for line in lines if line.bottom < first + line.height / 2]
    below = [line for line in lines if line.bottom >= first + line.height / 2]
    body, floor = without_navigation(below, sheet.height, anchors)
    columns = columns_of(anchors, sheet.width)
    owned: dict[Anchor | None, list[Line]] = {}
    for line in body:
        owned.setdefault(owner_of(line, columns), []).append(line)
    return Parts(
        head=tuple(head),
        columns=tuple(tuple(block_of(anchor, owned.get(anchor, [])) for anchor in column) for column in columns),
        strays=tuple(line for line in owned.get(None, []) if not is_chip(line.text)),
        floor=floor,
        width=sheet.width,
        is_complete=sheet.is_complete,
    )


def without_navigation(lines: Sequence[Line], height: float, anchors: Sequence[Anchor]) -> tuple[list[Line], float]:
    """The lines without the bar at the foot of the page, and where the page ends for shifts."""
    for line in sorted(lines, key=lambda line: -line.middle):
        row = [other for other in lines if abs(other.middle - line.middle) < SAME_ROW * line.height]
        others = [*lines, *(anchor.line for anchor in anchors)]
        above = max(
            (other.middle for other in others if other.middle < line.middle - SAME_ROW * line.height), default=0.0
        )
        names = sum(is_navigation(other.text) for other in row)
        is_bar = len(row) >= MANY and line.middle - above > WIDEST_GAP * line.height
        if names >= MANY - 1 or is_bar:
            top = min(other.middle for other in row) - line.height
            return [other for other in lines if other.middle < top], top
    return list(lines), height


# Columns --------------------------------------------------------------------------------------------------------------


def columns_of(anchors: Iterable[Anchor], width: float) -> list[list[Anchor]]:
    """Anchors whose left edges agree, from left to right, each column from top to bottom."""
    columns: list[list[Anchor]] = []
    for anchor in sorted(anchors, key=lambda anchor: anchor.line.left):
        if columns and anchor.line.left - columns[-1][-1].line.left < NEW_COLUMN * width:
            columns[-1].append(anchor)
        else:
            columns.append([anchor])
    return [sorted(column, key=lambda anchor: anchor.line.middle) for column in columns]


def owner_of(line: Line, columns: Sequence[Sequence[Anchor]]) -> Anchor | None:
    """The anchor that a line belongs to: the last one above it, or beside it, in its column."""
    for column in reversed(columns):
        nearest = min(column, key=lambda anchor: abs(anchor.line.middle - line.middle))
        if line.left >= nearest.line.left - INDENT * line.height:
            return next((anchor for anchor in reversed(column) if anchor.beside <= line.middle), None)
    return None


# Rows -----------------------------------------------------------------------------------------------------------------


def block_of(anchor: Anchor, lines: Iterable[Line]) -> Block:
    """An anchor with its lines, sorted into rows, what is beside them, and what comes after a gap."""
    named = sorted((line for line in lines if not is_chip(line.text)), key=lambda line: (line.middle, line.left))
    if words := beside_times(anchor):
        named.insert(0, words)
    rows: list[Line] = []
    aside: list[Line] = []
    for nth, line in enumerate(named):
        if rows and line.middle - rows[-1].middle < min(line.height, rows[-1].height) / 2:
            first, other = sorted((rows[-1], line), key=lambda each: each.left)
            rows[-1] = first
            aside.append(other)
            continue
        height = statistics.median([anchor.line.height, line.height])
        last = rows[-1].middle if rows else anchor.line.middle
        if line.middle - last > WIDEST_GAP * height:
            return Block(anchor.line, anchor.times, tuple(rows), tuple(aside), tuple(named[nth:]))
        rows.append(line)
    return Block(anchor.line, anchor.times, tuple(rows), tuple(aside), ())


def beside_times(anchor: Anchor) -> Line | None:
    """What stands in the very line of the times, when it is more than how long they are."""
    words = anchor.times.after.strip(" ,;|·•-")
    if not words or is_chip(words):
        return None
    line = anchor.line
    return Line(words, line.left, line.right, line.middle, line.height, line.confidence)
