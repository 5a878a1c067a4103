"""Segment a page into header, columns of blocks, and lines that belong to none of them.

A time anchor is a time range with its position: each one marks where a shift is. Text that was meant as a time range
and cannot be parsed is an anchor with a problem.

header                      has the date
block   block               a time anchor with its rows, in its column
block   block
-------------- content_bottom: below it is the navigation bar
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from duly.apps.ingest.ocr.lines import Line, Region
from duly.apps.ingest.ocr.times import (
    TimeRange,
    find_single_time,
    find_time_range,
    resembles_time,
    resembles_time_range,
)
from duly.apps.ingest.ocr.ui_text import is_navigation_label, is_ui_text

MIN_COLUMN_DISTANCE = 0.16  # of the width of the page, between the left edges of two columns
# Multiples of a line's height.
MAX_ROW_GAP = 2.7  # between the rows of one block
MAX_HIDDEN_GAP = 1.5  # between a line and the end of the page, if the line may be cut or the next one hidden
MIN_BLOCK_PITCH = 6.0  # assumed distance of two blocks, if a page has only one per column
ROW_TOLERANCE = 0.7  # between labels of the navigation bar on a page that is not quite level
MIN_NAVIGATION_LABELS = 3  # labels in the navigation bar
MAX_FIELD_ROWS = 3  # rows that nearly every block has: title, customer, location
MAX_RISE = 0.9  # how much higher than its anchor a title beside it may be
MAX_END_BELOW = 2.4  # how far below its start an end may be
MAX_END_RIGHT = 3.0  # how far right of its start an end may be
MAX_OUTDENT = 2.0  # how far left of its anchor a line may start and still belong to the column


@dataclass(frozen=True, slots=True, eq=False)
class TimeAnchor:
    """A time range, its position, and the lines it was parsed from."""

    line: Line
    times: TimeRange
    sources: tuple[Line, ...]

    @property
    def block_top(self) -> float:
        """Return the smallest `centre_y` of a line that may belong to the anchor."""
        return self.line.centre_y - MAX_RISE * self.line.height


def find_anchors(lines: Sequence[Line]) -> list[TimeAnchor]:
    """Return all time ranges from top to bottom; if there is one, also what resembles times and cannot be parsed."""
    single_line = [TimeAnchor(line, times, (line,)) for line in lines if (times := find_time_range(line.text))]
    parsed = [*single_line, *find_two_line_ranges(lines_without_anchor(lines, single_line))]
    unreadable = [
        unreadable_anchor(line)
        for line in lines_without_anchor(lines, parsed)
        if is_unreadable_anchor(line, parsed, lines)
    ]
    anchors = check_meridiems([*parsed, *unreadable])
    return sorted(anchors, key=lambda anchor: (anchor.line.centre_y, anchor.line.left))


def lines_without_anchor(lines: Sequence[Line], anchors: Sequence[TimeAnchor]) -> list[Line]:
    """Return the lines that no anchor was parsed from."""
    used = {id(line) for anchor in anchors for line in anchor.sources}
    return [line for line in lines if id(line) not in used]


def check_meridiems(anchors: Sequence[TimeAnchor]) -> list[TimeAnchor]:
    """Return the anchors, with a problem for each one that lacks AM or PM on a page where another has it."""
    if not any(anchor.times.is_12_hour for anchor in anchors):
        return list(anchors)
    return [
        anchor if anchor.times.is_12_hour or anchor.times.problem else replace(anchor, times=missing_meridiem(anchor))
        for anchor in anchors
    ]


def missing_meridiem(anchor: TimeAnchor) -> TimeRange:
    """Return the times of an anchor with the problem that AM or PM is missing."""
    return replace(anchor.times, problem=f"{anchor.line.text!r} lacks AM or PM, which other times on the page have")


# Ranges in two lines --------------------------------------------------------------------------------------------------


def find_two_line_ranges(lines: Sequence[Line]) -> list[TimeAnchor]:
    """Return the ranges whose start and end are separate lines, side by side or one below the other."""
    anchors: list[TimeAnchor] = []
    singles = [line for line in lines if find_single_time(line.text, is_end=True)]
    used: set[int] = set()
    for line in singles:
        if id(line) in used or find_single_time(line.text) is None:
            continue
        ends = [other for other in singles if id(other) not in used and other is not line and may_be_end(line, other)]
        if ends:
            end = min(ends, key=lambda other: abs(other.centre_y - line.centre_y) + abs(other.left - line.left))
            used |= {id(line), id(end)}
            anchors.append(join_start_and_end(line, end))
    return anchors


def join_start_and_end(line: Line, end: Line) -> TimeAnchor:
    """Return a start and an end as one anchor."""
    text = f"{find_single_time(line.text)}-{find_single_time(end.text, is_end=True)}"
    times = find_time_range(text)
    assert times, "two times make a range"
    right, confidence = max(line.right, end.right), min(line.confidence, end.confidence)
    return TimeAnchor(replace(line, text=text, right=right, confidence=confidence), times, (line, end))


def may_be_end(start: Line, other: Line) -> bool:
    """Return whether a time may be the end of a shift that starts at another, by their positions."""
    height = max(start.height, other.height)
    right, down = other.left - start.right, other.centre_y - start.centre_y
    is_beside = abs(down) < height / 2 and 0 <= right < MAX_END_RIGHT * height
    is_below = height / 2 < down < MAX_END_BELOW * height and abs(other.left - start.left) < 2 * height
    return is_beside or is_below


# Unreadable times -----------------------------------------------------------------------------------------------------


def unreadable_anchor(line: Line) -> TimeAnchor:
    """Return an anchor whose times are unknown."""
    return TimeAnchor(line, TimeRange("", "", "", "", f"{line.text!r} looks like times but cannot be read"), (line,))


def is_unreadable_anchor(line: Line, anchors: Sequence[TimeAnchor], lines: Sequence[Line]) -> bool:
    """Return whether a line resembles times, is aligned with an anchor, and is not the clock of the phone."""
    if not resembles_time(line.text) or is_status_bar_clock(line, lines):
        return False
    return any(abs(line.left - anchor.line.left) < MAX_OUTDENT * line.height for anchor in anchors)


def is_status_bar_clock(line: Line, lines: Sequence[Line]) -> bool:
    """Return whether a single time is the clock of the phone's status bar: nothing is above it."""
    return not resembles_time_range(line.text) and not any(other.bottom < line.top for other in lines)


# Blocks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A time anchor with its lines: the rows below each other, what is beside those, and what follows after a gap."""

    line: Line
    times: TimeRange
    rows: tuple[Line, ...]
    beside: tuple[Line, ...]
    trailing: tuple[Line, ...]

    @property
    def bottom(self) -> float:
        """Return the lower edge of the last row."""
        return max([self.line.bottom, *(row.bottom for row in self.rows)])

    @property
    def row_steps(self) -> list[float]:
        """Return the vertical distances from the times to the first row, from that to the second, and so on."""
        return [below.centre_y - above.centre_y for above, below in pairwise([self.line, *self.rows])][:MAX_FIELD_ROWS]


@dataclass(frozen=True, slots=True)
class PageSegments:
    """The segments of a page that shows shifts."""

    header: tuple[Line, ...]
    columns: tuple[tuple[Block, ...], ...]  # from left to right, each from top to bottom
    unassigned: tuple[Line, ...]  # below the header, and in no column
    content_bottom: float
    width: float
    is_complete: bool = False  # the next day starts at `content_bottom`, so nothing is hidden there

    @property
    def blocks(self) -> list[Block]:
        """Return all blocks, column by column."""
        return [block for column in self.columns for block in column]

    @property
    def block_pitch(self) -> float:
        """Return the usual vertical distance of blocks, or an estimate if no column has two."""
        steps = [
            below.line.centre_y - above.line.centre_y for column in self.columns for above, below in pairwise(column)
        ]
        return statistics.median(steps or [MIN_BLOCK_PITCH * block.line.height for block in self.blocks])

    @property
    def usual_rows(self) -> int:
        """Return the number of rows that most blocks have."""
        counts = [min(MAX_FIELD_ROWS, len(block.rows)) for block in self.blocks]
        return statistics.mode(sorted(counts, reverse=True))

    @property
    def max_block_extent(self) -> float:
        """Return the largest distance from the times of a block to the bottom of its rows."""
        return max(sum(block.row_steps) + block.line.height / 2 for block in self.blocks)

    def is_last(self, block: Block) -> bool:
        """Return whether a block is the last of its column."""
        return any(column[-1] is block for column in self.columns)

    def reaches_bottom(self, line: Line) -> bool:
        """Return whether a line is so close to the end of the page that it may be cut, or the next one hidden."""
        return not self.is_complete and self.content_bottom - line.bottom < MAX_HIDDEN_GAP * line.height

    def is_cut_off(self, block: Block) -> bool:
        """Return whether the end of the page hides a part of a block."""
        last = block.rows[-1] if block.rows else block.line
        return self.is_last(block) and len(block.rows) < self.usual_rows and self.reaches_bottom(last)

    def column_right(self, block: Block) -> float:
        """Return the right edge of the column of a block."""
        lefts = [column[0].line.left for column in self.columns]
        own = next(column[0].line.left for column in self.columns if block in column)
        return min([left for left in lefts if left > own + 1], default=self.width)


def segment_page(region: Region, anchors: Sequence[TimeAnchor]) -> PageSegments:
    """Segment a page with these anchors."""
    used = {id(line) for anchor in anchors for line in anchor.sources}
    lines = [line for line in region.lines if id(line) not in used]
    first = min(anchor.block_top for anchor in anchors)
    header = [line for line in lines if line.bottom < first + line.height / 2]
    below = [line for line in lines if line.bottom >= first + line.height / 2]
    body, content_bottom = drop_navigation_bar(below, region.height, anchors)
    columns = group_columns(anchors, region.width)
    by_anchor: dict[TimeAnchor | None, list[Line]] = {}
    for line in body:
        by_anchor.setdefault(find_anchor_for(line, columns), []).append(line)
    return PageSegments(
        header=tuple(header),
        columns=tuple(tuple(build_block(anchor, by_anchor.get(anchor, [])) for anchor in column) for column in columns),
        unassigned=tuple(line for line in by_anchor.get(None, []) if not is_ui_text(line.text)),
        content_bottom=content_bottom,
        width=region.width,
        is_complete=region.is_complete,
    )


def drop_navigation_bar(
    lines: Sequence[Line], height: float, anchors: Sequence[TimeAnchor]
) -> tuple[list[Line], float]:
    """Return the lines above the navigation bar, and the lower edge of the content.

    A row is the navigation bar if it has known labels, or several lines after a wide gap.
    """
    for line in sorted(lines, key=lambda line: -line.centre_y):
        row = [other for other in lines if abs(other.centre_y - line.centre_y) < ROW_TOLERANCE * line.height]
        others = [*lines, *(anchor.line for anchor in anchors)]
        above = max(
            (other.centre_y for other in others if other.centre_y < line.centre_y - ROW_TOLERANCE * line.height),
            default=0.0,
        )
        labels = sum(is_navigation_label(other.text) for other in row)
        is_separated = len(row) >= MIN_NAVIGATION_LABELS and line.centre_y - above > MAX_ROW_GAP * line.height
        if labels >= MIN_NAVIGATION_LABELS - 1 or is_separated:
            top = min(other.centre_y for other in row) - line.height
            return [other for other in lines if other.centre_y < top], top
    return list(lines), height


# Columns --------------------------------------------------------------------------------------------------------------


def group_columns(anchors: Iterable[TimeAnchor], width: float) -> list[list[TimeAnchor]]:
    """Return anchors with aligned left edges, from left to right, each column from top to bottom."""
    columns: list[list[TimeAnchor]] = []
    for anchor in sorted(anchors, key=lambda anchor: anchor.line.left):
        if columns and anchor.line.left - columns[-1][-1].line.left < MIN_COLUMN_DISTANCE * width:
            columns[-1].append(anchor)
        else:
            columns.append([anchor])
    return [sorted(column, key=lambda anchor: anchor.line.centre_y) for column in columns]


def find_anchor_for(line: Line, columns: Sequence[Sequence[TimeAnchor]]) -> TimeAnchor | None:
    """Return the anchor that a line belongs to: the last one above or beside it in its column."""
    for column in reversed(columns):
        nearest = min(column, key=lambda anchor: abs(anchor.line.centre_y - line.centre_y))
        if line.left >= nearest.line.left - MAX_OUTDENT * line.height:
            return next((anchor for anchor in reversed(column) if anchor.block_top <= line.centre_y), None)
    return None


# Rows -----------------------------------------------------------------------------------------------------------------


def build_block(anchor: TimeAnchor, lines: Iterable[Line]) -> Block:
    """Return an anchor with its lines, sorted into rows, what is beside them, and what follows after a gap."""
    fields = sorted((line for line in lines if not is_ui_text(line.text)), key=lambda line: (line.centre_y, line.left))
    if first := text_after_times(anchor):
        fields.insert(0, first)
    rows: list[Line] = []
    beside: list[Line] = []
    for nth, line in enumerate(fields):
        if rows and line.centre_y - rows[-1].centre_y < min(line.height, rows[-1].height) / 2:
            left, right = sorted((rows[-1], line), key=lambda each: each.left)
            rows[-1] = left
            beside.append(right)
            continue
        height = statistics.median([anchor.line.height, line.height])
        last = rows[-1].centre_y if rows else anchor.line.centre_y
        if line.centre_y - last > MAX_ROW_GAP * height:
            return Block(anchor.line, anchor.times, tuple(rows), tuple(beside), tuple(fields[nth:]))
        rows.append(line)
    return Block(anchor.line, anchor.times, tuple(rows), tuple(beside), ())


def text_after_times(anchor: TimeAnchor) -> Line | None:
    """Return the text after the times in their own line, unless it is a duration or the like."""
    text = anchor.times.after.strip(" ,;|·•-")
    if not text or is_ui_text(text):
        return None
    line = anchor.line
    return Line(text, line.left, line.right, line.centre_y, line.height, line.confidence)
