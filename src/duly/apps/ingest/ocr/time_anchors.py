"""Time anchors: the positioned time ranges of a page. Each one marks where a shift is.

Text that was meant as a time range and cannot be parsed is an anchor with a problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.times import (
    TimeRange,
    find_single_time,
    find_time_range,
    resembles_time,
    resembles_time_range,
)

# All in multiples of a line's height.
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
    """Check whether a time may be the end of a shift that starts at another, by their positions."""
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
    """Check whether a line resembles times, is aligned with an anchor, and is not the clock of the phone."""
    if not resembles_time(line.text) or is_status_bar_clock(line, lines):
        return False
    return any(abs(line.left - anchor.line.left) < MAX_OUTDENT * line.height for anchor in anchors)


def is_status_bar_clock(line: Line, lines: Sequence[Line]) -> bool:
    """Check whether a single time is the clock of the phone's status bar: nothing is above it."""
    return not resembles_time_range(line.text) and not any(other.bottom < line.top for other in lines)
