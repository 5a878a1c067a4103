"""Lines: marks of a page that was held at an angle, put straight and joined to what stands in one row.

A page that is turned has one slope; one that is photographed from the side has a slope that changes from top to
bottom. Both are read from the marks themselves, which know how their own text runs.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.ingest.eyes.mark import Mark
from duly.ingest.eyes.spelling import spelled
from duly.ingest.eyes.times import find_range

__all__ = ["Line", "Sheet", "sheet_of"]

WIDE = 3.0  # heights: from here on a mark knows how its line runs
STEEPEST = 0.6
LEAST_TO_BEND = 8  # marks, from which on a slope that changes is believed
GAP = 0.9  # of a line's height, between two marks of one line
SAME_ROW = 0.45  # of a line's height, between the middles of two marks of one row
ALIKE_HEIGHT = 1.6
CARD = 6.0  # of a line's height: so far below its times a line of a card stands
COLUMN = 0.7  # of a line's height: so exactly the lines of a column begin below each other


@dataclass(frozen=True, slots=True)
class Line:
    """Some text in one row, where it stands on the straightened page."""

    text: str
    left: float
    right: float
    middle: float  # from the top
    height: float
    confidence: float

    @property
    def top(self) -> float:
        """Its upper edge."""
        return self.middle - self.height / 2

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.middle + self.height / 2


@dataclass(frozen=True, slots=True)
class Sheet:
    """A straightened page: its lines from top to bottom, and how large it is."""

    lines: tuple[Line, ...]
    width: float
    height: float


def sheet_of(marks: Sequence[Mark], width: float, height: float) -> Sheet:
    """The page that these marks stand on."""
    pieces = sorted(straightened(marks, width, height), key=lambda line: (line.middle, line.left))
    columns = [piece for piece in pieces if find_range(piece.text)]
    pieces = [part for piece in pieces for part in parted(piece, columns)]
    lines: list[Line] = []
    for piece in sorted(pieces, key=lambda line: line.left):
        like = [at for at, line in enumerate(lines) if goes_on(line, piece) and not begins(piece, line, columns)]
        if like:
            nearest = min(like, key=lambda at: abs(piece.left - lines[at].right))
            lines[nearest] = joined(lines[nearest], piece)
        else:
            lines.append(piece)
    return Sheet(tuple(sorted(lines, key=lambda line: (line.middle, line.left))), width, height)


def goes_on(line: Line, piece: Line) -> bool:
    """Does a piece go on where a line ends?"""
    height = min(line.height, piece.height)
    gap = piece.left - line.right
    return (
        abs(line.middle - piece.middle) < SAME_ROW * height
        and -height < gap < GAP * height
        and max(line.height, piece.height) < ALIKE_HEIGHT * height
    )


def begins(piece: Line, line: Line, columns: Sequence[Line]) -> bool:
    """Does a piece begin a column of its own, below times, however near the text of the other column comes?"""
    return any(
        abs(piece.left - times.left) < COLUMN * piece.height and line.left < times.left - WIDE * piece.height
        for times in columns
    )


def parted(piece: Line, columns: Sequence[Line]) -> list[Line]:
    """The piece in two, where an engine took the text of two columns that nearly touch for one."""
    for times in columns:
        is_below = 0 < piece.middle - times.middle < CARD * piece.height
        spans = piece.left < times.left - WIDE * piece.height and piece.right > times.left + piece.height
        blanks = [at for at, letter in enumerate(piece.text) if letter == " "]
        if is_below and spans and blanks and not find_range(piece.text):
            border = (times.left - piece.left) / (piece.right - piece.left) * len(piece.text)
            at = min(blanks, key=lambda at: abs(at - border))
            return [
                replace(piece, text=piece.text[:at], right=times.left),
                replace(piece, text=piece.text[at + 1 :], left=times.left),
            ]
    return [piece]


def joined(line: Line, piece: Line) -> Line:
    """Both as one."""
    letters = len(line.text) + len(piece.text)
    return Line(
        text=f"{line.text} {piece.text}",
        left=line.left,
        right=max(line.right, piece.right),
        middle=(line.middle * len(line.text) + piece.middle * len(piece.text)) / letters,
        height=max(line.height, piece.height),
        confidence=min(line.confidence, piece.confidence),
    )


# Putting straight -----------------------------------------------------------------------------------------------------


def straightened(marks: Sequence[Mark], width: float, height: float) -> list[Line]:
    """Every mark as a piece of a line, as if the page had been level."""
    lean, bend = slope_of(marks, height)
    angle = math.atan(lean)
    cosine, sine = math.cos(angle), math.sin(angle)
    lines: list[Line] = []
    for mark in marks:
        text = " ".join(spelled(mark.text, mark.second).split())
        if not text or mark.height <= 0:
            continue
        across, down = mark.centre[0] - width / 2, mark.centre[1] - height / 2
        level_across, level_down = across * cosine + down * sine, down * cosine - across * sine
        level_down -= level_across * bend * level_down
        left = level_across + width / 2 - mark.width / 2
        lines.append(Line(text, left, left + mark.width, level_down + height / 2, mark.height, mark.confidence))
    return lines


def slope_of(marks: Sequence[Mark], height: float) -> tuple[float, float]:
    """How the lines run in the middle of the page, and how that changes with every step down."""
    wide = [mark for mark in marks if mark.width > WIDE * mark.height and abs(mark.slope) < STEEPEST]
    if not wide:
        return 0.0, 0.0
    lean = statistics.median(mark.slope for mark in wide)
    if len(wide) < LEAST_TO_BEND:
        return lean, 0.0
    downs = [mark.centre[1] - height / 2 for mark in wide]
    if max(downs) - min(downs) < height / 4:
        return lean, 0.0
    slopes, weights = [mark.slope for mark in wide], [mark.width for mark in wide]
    total = sum(weights)
    middle = sum(map(float.__mul__, weights, downs)) / total
    mean = sum(map(float.__mul__, weights, slopes)) / total
    spread = sum(weight * (down - middle) ** 2 for weight, down in zip(weights, downs, strict=True))
    common = sum(
        weight * (down - middle) * (slope - mean) for weight, down, slope in zip(weights, downs, slopes, strict=True)
    )
    bend = common / spread if spread else 0.0
    return mean - bend * middle, bend
