"""Anchors: the ranges of times on a page, which tell where its shifts stand, and what was meant for one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.times import Range, find_range, find_single, is_like_range, is_like_times

__all__ = ["INDENT", "Anchor", "find_anchors"]

BESIDE = 0.9  # of a line's height: so much higher than its anchor a title beside it may stand
STACKED = 2.4  # of a line's height: so far below its start an end may stand
APART = 3.0  # of a line's height: so far right of its start an end may stand
INDENT = 2.0  # of a line's height: so far left of its anchor a line still belongs to its column


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """A range of times, where it stands, and the lines that it was read from."""

    line: Line
    times: Range
    sources: tuple[Line, ...]

    @property
    def beside(self) -> float:
        """How high a line that belongs to it may stand."""
        return self.line.middle - BESIDE * self.line.height


def find_anchors(lines: Sequence[Line]) -> list[Anchor]:
    """Every range of times, from top to bottom; where there is one, also what was meant for one and cannot be read."""
    whole = [Anchor(line, times, (line,)) for line in lines if (times := find_range(line.text))]
    sound = [*whole, *stacked(others(lines, whole))]
    broken = [broken_one(line) for line in others(lines, sound) if is_broken(line, sound, lines)]
    return sorted(with_halves([*sound, *broken]), key=lambda anchor: (anchor.line.middle, anchor.line.left))


def others(lines: Sequence[Line], anchors: Sequence[Anchor]) -> list[Line]:
    """The lines that no anchor was read from."""
    taken = {id(line) for anchor in anchors for line in anchor.sources}
    return [line for line in lines if id(line) not in taken]


def with_halves(anchors: Sequence[Anchor]) -> list[Anchor]:
    """The anchors, of which all must say their half of the day where one does."""
    if not any(anchor.times.is_halved for anchor in anchors):
        return list(anchors)
    return [
        anchor if anchor.times.is_halved or anchor.times.problem else replace(anchor, times=without_half(anchor))
        for anchor in anchors
    ]


def without_half(anchor: Anchor) -> Range:
    """Its times as a problem: others on the page say their half of the day."""
    return replace(anchor.times, problem=f"{anchor.line.text!r} does not say in which half of the day it is")


# Two lines ------------------------------------------------------------------------------------------------------------


def stacked(lines: Sequence[Line]) -> list[Anchor]:
    """Ranges in two lines, a start and an end, beside each other or below each other."""
    anchors: list[Anchor] = []
    singles = [line for line in lines if find_single(line.text, is_later=True)]
    taken: set[int] = set()
    for line in singles:
        if id(line) in taken or find_single(line.text) is None:
            continue
        ends = [other for other in singles if id(other) not in taken and other is not line and is_end_of(line, other)]
        if ends:
            end = min(ends, key=lambda other: abs(other.middle - line.middle) + abs(other.left - line.left))
            taken |= {id(line), id(end)}
            anchors.append(both(line, end))
    return anchors


def both(line: Line, end: Line) -> Anchor:
    """A start and an end as one."""
    text = f"{find_single(line.text)}-{find_single(end.text, is_later=True)}"
    times = find_range(text)
    assert times, "two times make a range"
    right, confidence = max(line.right, end.right), min(line.confidence, end.confidence)
    return Anchor(replace(line, text=text, right=right, confidence=confidence), times, (line, end))


def is_end_of(start: Line, other: Line) -> bool:
    """Could a time be the end of a shift that begins at another?"""
    height = max(start.height, other.height)
    right, down = other.left - start.right, other.middle - start.middle
    is_beside = abs(down) < height / 2 and 0 <= right < APART * height
    is_below = height / 2 < down < STACKED * height and abs(other.left - start.left) < 2 * height
    return is_beside or is_below


# What cannot be read --------------------------------------------------------------------------------------------------


def broken_one(line: Line) -> Anchor:
    """An anchor whose times nobody knows."""
    return Anchor(line, Range("", "", "", "", f"{line.text!r} looks like times and cannot be read"), (line,))


def is_broken(line: Line, anchors: Sequence[Anchor], lines: Sequence[Line]) -> bool:
    """Does a line stand where times stand, and look like some, without being any or the telephone's clock?"""
    if not is_like_times(line.text) or is_clock(line, lines):
        return False
    return any(abs(line.left - anchor.line.left) < INDENT * line.height for anchor in anchors)


def is_clock(line: Line, lines: Sequence[Line]) -> bool:
    """Is a single time the clock of the telephone? Nothing stands above that."""
    return not is_like_range(line.text) and not any(other.bottom < line.top for other in lines)
