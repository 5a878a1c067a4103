"""Lines: marks of a page that was held at an angle, put straight and joined to what stands in one row.

A page that is turned has one slope; one that is photographed from the side has a slope that changes from top to
bottom. Both are read from the marks themselves, which know how their own text runs.
"""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.ocr.mark import Ink, Mark
from duly.apps.ingest.ocr.spelling import agrees, may_bear_a_mark, spelled, without_unsteady_lead
from duly.apps.ingest.ocr.times import find_range, is_half_of_day, is_like_range, is_old_range

__all__ = ["Line", "Sheet", "sheet_of"]

WIDE = 3.0  # heights: from here on a mark knows how its line runs
STEEPEST = 0.6
LEAST_PAIRS = 6  # of marks beside each other, from which on they tell how lines run
LIKE_HEIGHT = 1.35  # heights of two marks that may stand in one line
PAIRS_AGREE = 0.02  # slopes of pairs that are of lines
PAIRS_OFF = 0.03  # from the slope of the marks themselves: then the pairs are no lines
LEAST_TO_BEND = 8  # marks, from which on a slope that changes is believed
GAP = 0.9  # of a line's height, between two marks of one line
SAME_ROW = 0.45  # of a line's height, between the middles of two marks of one row
ALIKE_HEIGHT = 1.6
CARD = 6.0  # of a line's height: so far below its times a line of a card stands
DIGITS_FIRST = re.compile(r"\d{2}")
MANY_DIGITS = re.compile(r"(?:\D*\d){5}")  # of a range; a single time is too short to tell
WORD = re.compile(r"[^\W\d_]+")
SURE = 0.985  # of its letters, from which on a word stays as read
AGREED = 0.6  # how sure letters are at least that two looks show alike
DISPUTED = 0.2  # and at most, where they differ
STRUCK_TIMES = 0.65  # of the width of digits, which take up to a half by themselves
STRUCK_WORDS = 0.9  # of the width of letters, which take up to three quarters
BESIDE_STRUCK = 2.0  # of a line's height: so near to old times new ones stand
EDGE = 2.0  # pixels: what stands so near to the side of a picture may be cut
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
    weakest: float = 1.0  # of its letter that the engine is least sure of
    ink: Ink | None = None
    is_at_edge: bool = False  # of the picture or the page, which may have cut it
    at: tuple[float, float] = (0.0, 0.0)  # where it stands in the picture: parts of its width and height

    @property
    def is_struck(self) -> bool:
        """Does a line go through it?"""
        least = STRUCK_TIMES if MANY_DIGITS.search(self.text) and not WORD.search(self.text) else STRUCK_WORDS
        return self.ink is not None and self.ink.strike >= least

    @property
    def place(self) -> str:
        """Where it stands in the picture, for people."""
        return f"{self.at[0]:.0%} from the left, {self.at[1]:.0%} from the top"

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
    is_complete: bool = False  # nothing can go on below, where the next day begins


def sheet_of(marks: Sequence[Mark], width: float, height: float) -> Sheet:
    """The page that these marks stand on."""
    pieces = sorted(straightened(marks, width, height), key=lambda line: (line.middle, line.left))
    pieces = [beside_struck(without_first_letter(piece, pieces), pieces) for piece in pieces]
    columns = [
        piece for piece in pieces if find_range(piece.text) and not piece.is_struck and not is_old_range(piece.text)
    ]
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


def beside_struck(piece: Line, pieces: Sequence[Line]) -> Line:
    """Times right of those that they replaced, as if they stood there: their shift begins at the old ones."""
    if not find_range(piece.text) or piece.is_struck:
        return piece
    old = [
        other.left
        for other in pieces
        if other.is_struck
        and -piece.height / 2 < piece.left - other.right < BESIDE_STRUCK * piece.height
        and abs(other.middle - piece.middle) < piece.height / 2
    ]
    return replace(piece, left=min(old)) if old else piece


def without_first_letter(piece: Line, pieces: Sequence[Line]) -> Line:
    """Times without a letter after them that is the beginning of the words beside them, which have it too."""
    times = find_range(piece.text)
    if times is None or times.problem or len(times.after) != 1 or not times.after.isalpha():
        return piece
    has_beside = any(
        -piece.height < other.left - piece.right < piece.height / 2
        and abs(other.middle - piece.middle) < piece.height / 2
        for other in pieces
        if other is not piece
    )
    return replace(piece, text=piece.text.rstrip()[:-1].rstrip()) if has_beside else piece


def goes_on(line: Line, piece: Line) -> bool:
    """Does a piece go on where a line ends?"""
    height = min(line.height, piece.height)
    gap = piece.left - line.right
    if is_range(line.text) and not is_half_of_day(piece.text) and is_no_rest(piece.text):
        return False
    return (
        abs(line.middle - piece.middle) < SAME_ROW * height
        and -height < gap < GAP * height
        and max(line.height, piece.height) < ALIKE_HEIGHT * height
    )


def is_no_rest(text: str) -> bool:
    """Check whether a text after times is no part of them: words, or other times."""
    return sum(map(str.isalpha, text)) > 1 or is_like_range(text)


def is_range(text: str) -> bool:
    """Check whether a text is times and nothing else."""
    times = find_range(text)
    return times is not None and not times.problem and not times.before and not times.after


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
    longer = line if len(line.text) >= len(piece.text) else piece
    return replace(
        longer,
        text=f"{line.text} {piece.text}",
        left=line.left,
        right=max(line.right, piece.right),
        middle=(line.middle * len(line.text) + piece.middle * len(piece.text)) / letters,
        height=max(line.height, piece.height),
        confidence=min(line.confidence, piece.confidence),
        weakest=min(line.weakest, piece.weakest),
        is_at_edge=line.is_at_edge or piece.is_at_edge,
    )


# Putting straight -----------------------------------------------------------------------------------------------------


def straightened(marks: Sequence[Mark], width: float, height: float) -> list[Line]:
    """Every mark as a piece of a line, as if the page had been level."""
    lean, bend = slope_of(marks, height)
    angle = math.atan(lean)
    cosine, sine = math.cos(angle), math.sin(angle)
    lines: list[Line] = []
    unread: list[bool] = []
    for mark in marks:
        mark = without_icon(mark)
        text = " ".join(spelled(mark.text, mark.second, mark.again, sure=sure_words(mark)).split())
        if not text or mark.height <= 0:
            continue
        across, down = mark.centre[0] - width / 2, mark.centre[1] - height / 2
        level_across, level_down = across * cosine + down * sine, down * cosine - across * sine
        level_down -= level_across * bend * level_down
        left = level_across + width / 2 - mark.width / 2
        unread.append(mark.goes_on)
        lines.append(
            Line(
                text,
                left,
                left + mark.width,
                level_down + height / 2,
                mark.height,
                mark.confidence,
                certainty_of(mark),
                mark.ink,
                is_at_edge=mark.is_cut or any(not EDGE < x < width - 1 - EDGE for x, _ in mark.corners),
                at=(mark.centre[0] / width, mark.centre[1] / height),
            )
        )
    outmost = max((line.right for line in lines), default=0.0)
    return [
        replace(line, is_at_edge=goes_on or (line.is_at_edge and is_outmost(line, outmost, width)))
        for line, goes_on in zip(lines, unread, strict=True)
    ]


def without_icon(mark: Mark) -> Mark:
    """The mark without an icon that one of two looks took for a letter."""
    is_sure = bool(mark.chances) and mark.chances[0] >= SURE
    text = without_unsteady_lead(mark.text, mark.again, mark.second, is_sure=is_sure)
    chances = mark.chances[len(mark.text) - len(text) :] if mark.chances else ()
    return replace(mark, text=text, chances=chances, weakest=min(chances, default=mark.weakest))


def sure_words(mark: Mark) -> frozenset[str]:
    """The words of a mark in which the engine is sure of every letter that could bear a mark."""
    if not mark.chances:
        return frozenset(WORD.findall(mark.text)) if mark.weakest >= SURE else frozenset()
    return frozenset(
        word[0]
        for word in WORD.finditer(mark.text)
        if all(
            chance >= SURE or not may_bear_a_mark(letter)
            for letter, chance in zip(word[0], mark.chances[word.start() : word.end()], strict=True)
        )
    )


def is_outmost(line: Line, outmost: float, width: float) -> bool:
    """Check whether no line of the page goes further: what ends before others is not cut."""
    return line.right > outmost - line.height or line.left < line.height or line.right > width - line.height


def has_unsure_lead(mark: Mark) -> bool:
    """Check whether the first of several digits may be an icon: 931 Sudin Street."""
    return bool(DIGITS_FIRST.match(mark.text)) and bool(mark.chances) and mark.chances[0] < SURE


def has_disputed_mark(mark: Mark) -> bool:
    """Check whether a small letter of which the engine is not sure has a mark in its second look alone."""
    if mark.second is None or mark.again is None or len(mark.again.strip()) != len(mark.text):
        return False
    bare_words = frozenset(WORD.findall(mark.second))
    pairs = zip(mark.text, mark.again.strip(), mark.chances, strict=False)
    is_doubtful = any(letter in "ao" and like in "åäö" and chance < SURE for letter, like, chance in pairs)
    return is_doubtful and bool(bare_words & frozenset(WORD.findall(mark.text)) - frozenset(WORD.findall(mark.again)))


def certainty_of(mark: Mark) -> float:
    """How sure the letters of a mark are: of the weakest, or by what two looks at the line say."""
    if find_range(mark.text):
        return mark.weakest
    if has_unsure_lead(mark) or has_disputed_mark(mark):
        return min(mark.weakest, DISPUTED)
    if not agrees(mark.text, mark.again) and not (mark.second and agrees(mark.text, mark.second)):
        return min(mark.weakest, DISPUTED)
    return mark.weakest if mark.again is None else max(mark.weakest, AGREED)


def slope_of(marks: Sequence[Mark], height: float) -> tuple[float, float]:
    """How the lines run in the middle of the page, and how that changes with every step down.

    The slope of one mark is that of its letters, too: a word that ends in a small letter seems to fall. Marks beside
    each other tell more, where they agree with that.
    """
    wide = [mark for mark in marks if mark.width > WIDE * mark.height and abs(mark.slope) < STEEPEST]
    if not wide:
        return 0.0, 0.0
    single = fitted([(mark.centre[1] - height / 2, mark.slope, mark.width) for mark in wide], height)
    rough = statistics.median(mark.slope for mark in wide)
    pairs = [pair for mark in marks if (pair := to_the_right(mark, marks, rough))]
    if len(pairs) < LEAST_PAIRS:
        return single
    found = [(down - height / 2, slope, apart) for down, slope, apart in pairs]
    middle = statistics.median(slope for _, slope, _ in found)
    near = [each for each in found if abs(each[1] - middle) < PAIRS_AGREE]
    if abs(middle - rough) > PAIRS_OFF or len(near) < LEAST_PAIRS:
        return single
    return fitted(near, height)


def to_the_right(mark: Mark, marks: Sequence[Mark], rough: float) -> tuple[float, float, float] | None:
    """How far down a mark and the nearest one right of it stand, how the line between them runs, and how long it is."""
    found: list[tuple[float, float, float]] = []
    for other in marks:
        apart = other.centre[0] - mark.centre[0]
        if apart <= (mark.width + other.width) / 2:
            continue
        down = other.centre[1] - mark.centre[1]
        is_like = max(mark.height, other.height) < LIKE_HEIGHT * min(mark.height, other.height)
        if is_like and abs(down - rough * apart) < min(mark.height, other.height) / 2:
            found.append(((mark.centre[1] + other.centre[1]) / 2, down / apart, apart))
    return min(found, key=lambda each: each[2], default=None)


def fitted(found: Sequence[tuple[float, float, float]], height: float) -> tuple[float, float]:
    """The slope in the middle and its change with every step down, of slopes at some heights, by their weights."""
    lean = statistics.median(slope for _, slope, _ in found)
    downs = [down for down, _, _ in found]
    if len(found) < LEAST_TO_BEND or max(downs) - min(downs) < height / 4:
        return lean, 0.0
    total = sum(weight for _, _, weight in found)
    middle = sum(weight * down for down, _, weight in found) / total
    mean = sum(weight * slope for _, slope, weight in found) / total
    spread = sum(weight * (down - middle) ** 2 for down, _, weight in found)
    common = sum(weight * (down - middle) * (slope - mean) for down, slope, weight in found)
    bend = common / spread if spread else 0.0
    return mean - bend * middle, bend
