"""From lines to shifts: a range of times is an anchor, and what stands under or beside it belongs to it.

    list                        cards              two columns
    08:00-09:00 | Title         08:00-09:00        08:00-09:00   09:30-10:00
                | Customer      Title              Title         Title
                | Place         Customer           Customer      Customer
                                Place              Place         Place

One rule reads all three: anchors whose left edges agree are a column; a line belongs to the last anchor above it, or
beside it, in its column; the first lines are title, customer and place. What cannot be right is told, not guessed.
"""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from duly.ingest.eyes.lines import Line, Sheet
from duly.ingest.eyes.spelling import SHAPED_ALIKE, bare
from duly.ingest.eyes.times import Range, find_range, find_single

__all__ = ["Card", "Layout", "find_layout"]

BESIDE = 0.9  # of a line's height: so much higher than its anchor a title beside it may stand
STACKED = 2.4  # of a line's height: so far below its start an end may stand
APART = 3.0  # of a line's height: so far right of its start an end may stand
INDENT = 2.0  # of a line's height: so far left of its anchor a line still belongs to its column
NEW_COLUMN = 0.16  # of the width of the page, between the left edges of two columns
WIDEST_GAP = 2.7  # of a line's height, between the rows of one card
LEAST_CONFIDENCE = 0.6  # of a range of times
WRAPPED = 0.8  # of its column's width: a title that long may go on in the next row
ALIKE = 0.12  # heights of the rows of one title
HOLE = 0.7  # of a line's height: so much more than in all other cards between two rows is a row too little
ROOM = 6.0  # of a line's height: what a card takes at least
NAVIGATION = frozenset(
    {
        "schema", "kalender", "chatt", "chat", "profil", "profile", "schedule", "calendar", "hem", "home", "mer",
        "more", "meny", "menu", "installningar", "settings", "meddelanden", "messages", "konto", "account", "notiser",
        "start", "oversikt", "overview", "tid", "time", "uppgifter", "tasks", "kunder", "dag", "vecka", "manad",
    }
)  # fmt: skip
HEADINGS = frozenset(
    {
        "formiddag", "eftermiddag", "kvall", "natt", "morgon", "morning", "afternoon", "evening", "night", "idag",
        "imorgon",
    }
)  # fmt: skip
CHIPS = frozenset(
    {
        "bekraftad", "confirmed", "preliminar", "pagar", "pagaende", "ongoing", "klar", "done", "paborjad", "started",
        "ny", "new", "andrad", "changed", "nasta", "next", "obligatorisk",
    }
)  # fmt: skip
DURATION = re.compile(
    r"\(?\s*(?:\d{1,2}\s?(?:h|tim|timmar|hours?)\.?(?:\s?\d{1,2}\s?(?:m|min)\.?)?|\d{1,3}\s?min\.?|\d{1,2}[.,]\d{1,2}\s?(?:h|tim))\s*\)?",
    re.IGNORECASE,
)
CLOCK_LIKE = re.compile(
    r"\d{1,2}[:.]\d{2}(?!\d)|(?=[\d\s\W]*[:.])\d{1,2}[:.\d]*\s*[-\u2010-\u2015]\s*\d[\d:.]*"
    r"|\w{1,2}[:.]\w{2}\s*[-\u2010-\u2015]\s*\d{1,2}[:.]\w{2}"
)
ICON = re.compile(r"^(?:[^\w(\"'+]+\s*)+")
STRAY = re.compile(r"^(?:[QO0©®@9GCe&]{1,2}[\s)\]|°•·]+|[QO0G](?=[A-ZÅÄÖ][a-zåäöé]))(?=[A-ZÅÄÖ])")
SAME_ROW = 0.7  # of a line's height: the bar at the foot of a page that is not quite straight
MANY = 3  # names in that bar
PIN = 0.5  # of a line's height: a place that stands further right than its title has a pin before it
STREET = re.compile(r"[^\W\d_]{3,}\s+\d{1,4}\s?[A-Za-z]?\b|\b\d{3}\s?\d{2}\b")


@dataclass(frozen=True, slots=True)
class Card:
    """One shift as it was seen."""

    start: str
    end: str
    title: str
    customer: str
    location: str
    address: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page shows below its head."""

    head: tuple[Line, ...]
    cards: tuple[Card, ...]
    problems: tuple[str, ...]
    remains: tuple[Line, ...]  # of the head: what could be left of a shift that is hidden above
    ends: bool  # there is room for another shift below the last one


@dataclass(eq=False, slots=True)
class Anchor:
    """A range of times, and the lines that belong to it."""

    line: Line
    times: Range
    lines: list[Line] = field(default_factory=list[Line])

    @property
    def beside(self) -> float:
        """How high a line that belongs to it may stand."""
        return self.line.middle - BESIDE * self.line.height


def find_layout(sheet: Sheet) -> Layout:
    """The shifts of a page, and what is wrong with it."""
    anchors = find_anchors(sheet.lines)
    if not anchors:
        return Layout(sheet.lines, (), (), (), ends=False)
    first = min(anchor.beside for anchor in anchors)
    used = {id(anchor.line) for anchor in anchors}
    head = tuple(line for line in sheet.lines if line.bottom < first + line.height / 2 and id(line) not in used)
    above = {id(line) for line in head}
    below = [line for line in sheet.lines if id(line) not in above and id(line) not in used]
    body, floor = without_navigation(below, sheet.height)
    columns = columns_of(anchors, sheet.width)
    strays = [line for line in body if not settle(line, columns) and line.middle < floor]
    problems = [f"{anchor.times.problem}" for anchor in anchors if anchor.times.problem]
    problems += [
        f"the times {anchor.line.text!r} are hardly legible"
        for anchor in anchors
        if not anchor.times.problem and anchor.line.confidence < LEAST_CONFIDENCE
    ]
    problems += [f"{line.text!r} looks like times and cannot be read" for line in body if is_broken(line, columns)]
    problems += [f"a line of the shift {anchor.line.text!r} cannot be read" for anchor in with_holes(anchors)]
    cards: list[Card] = []
    is_cut, lowest = False, 0.0
    pitch = pitch_of(columns)
    usual = usual_rows(anchors)
    extent = max(sum(steps_of(anchor)) + anchor.line.height / 2 for anchor in anchors)
    for column in columns:
        for nth, anchor in enumerate(column):
            is_last = nth + 1 == len(column)
            rows, rest = rows_of(anchor)
            lowest = max([lowest, anchor.line.bottom, *(row.bottom for row in rows)])
            is_inside = not is_last or (rest and rest[0].middle - anchor.line.middle < extent)
            if rest and is_inside and not all(bare(line.text) in HEADINGS for line in rest):
                problems.append(f"{rest[0].text!r} after {anchor.line.text!r} belongs to no shift")
            if is_last and len(rows) < usual and reaches(floor, anchor, rows):
                is_cut = True
            elif not rows:
                problems.append(f"the shift {anchor.line.text!r} has no title")
            elif not anchor.times.problem:
                cards.append(card_of(anchor, rows, column_width(column, columns, sheet.width)))
    problems += [f"the shift {card.start}-{card.end} {card.title!r} stands there twice" for card in repeated(cards)]
    is_free = floor - lowest >= pitch and not any(line.middle > lowest for line in strays)
    remains = tuple(line for line in head if line.middle > first - pitch and is_like_a_row(line, anchors))
    return Layout(head, tuple(cards), tuple(problems), remains, ends=is_free and not is_cut)


# Anchors --------------------------------------------------------------------------------------------------------------


def find_anchors(lines: Sequence[Line]) -> list[Anchor]:
    """Every range of times: in one line, in two beside each other, or in two below each other."""
    anchors: list[Anchor] = []
    taken: set[int] = set()
    for line in lines:
        if times := find_range(line.text):
            anchors.append(Anchor(line, times))
            taken.add(id(line))
    singles = [line for line in lines if id(line) not in taken and find_single(line.text, is_later=True)]
    for line in singles:
        if id(line) in taken or find_single(line.text) is None:
            continue
        ends = [other for other in singles if id(other) not in taken and other is not line and is_end_of(line, other)]
        if not ends:
            continue
        end = min(ends, key=lambda other: abs(other.middle - line.middle) + abs(other.left - line.left))
        start, later = find_single(line.text), find_single(end.text, is_later=True)
        times = find_range(f"{start}-{later}")
        assert times, "two times make a range"
        taken |= {id(line), id(end)}
        both = Line(
            f"{start}-{later}", line.left, max(line.right, end.right), line.middle, line.height,
            min(line.confidence, end.confidence),
        )  # fmt: skip
        anchors.append(Anchor(both, times))
    return sorted(anchors, key=lambda anchor: (anchor.line.middle, anchor.line.left))


def is_end_of(start: Line, other: Line) -> bool:
    """Could a time be the end of a shift that begins at another?"""
    height = max(start.height, other.height)
    right, down = other.left - start.right, other.middle - start.middle
    is_beside = abs(down) < height / 2 and 0 <= right < APART * height
    is_below = height / 2 < down < STACKED * height and abs(other.left - start.left) < 2 * height
    return is_beside or is_below


def is_broken(line: Line, columns: Sequence[Sequence[Anchor]]) -> bool:
    """Does a line stand where times stand, and look like some, without being any?"""
    if not CLOCK_LIKE.match(ICON.sub("", line.text)) or find_range(line.text):
        return False
    lefts = [anchor.line.left for column in columns for anchor in column]
    return any(abs(line.left - left) < INDENT * line.height for left in lefts)


# Columns --------------------------------------------------------------------------------------------------------------


def columns_of(anchors: Sequence[Anchor], width: float) -> list[list[Anchor]]:
    """Anchors whose left edges agree, from left to right, each column from top to bottom."""
    columns: list[list[Anchor]] = []
    for anchor in sorted(anchors, key=lambda anchor: anchor.line.left):
        if columns and anchor.line.left - columns[-1][-1].line.left < NEW_COLUMN * width:
            columns[-1].append(anchor)
        else:
            columns.append([anchor])
    return [sorted(column, key=lambda anchor: anchor.line.middle) for column in columns]


def settle(line: Line, columns: Sequence[Sequence[Anchor]]) -> bool:
    """Give a line to the anchor that it belongs to, if there is one."""
    for column in reversed(columns):
        nearest = min(column, key=lambda anchor: abs(anchor.line.middle - line.middle))
        if line.left < nearest.line.left - INDENT * line.height:
            continue
        above = [anchor for anchor in column if anchor.beside <= line.middle]
        if above:
            above[-1].lines.append(line)
        return bool(above)
    return False


def column_width(column: Sequence[Anchor], columns: Sequence[Sequence[Anchor]], width: float) -> float:
    """Where a column ends on the right."""
    left = column[0].line.left
    return min([other[0].line.left for other in columns if other[0].line.left > left + 1], default=width)


def pitch_of(columns: Iterable[Sequence[Anchor]]) -> float:
    """How far below each other shifts stand, or else how much room one takes."""
    steps = [below.line.middle - above.line.middle for column in columns for above, below in pairwise(column)]
    heights = [anchor.line.height for column in columns for anchor in column]
    return statistics.median(steps) if steps else ROOM * statistics.median(heights)


def without_navigation(lines: Sequence[Line], height: float) -> tuple[list[Line], float]:
    """The lines without the bar at the foot of the page, and where the page ends for shifts."""
    for line in sorted(lines, key=lambda line: -line.middle):
        row = [other for other in lines if abs(other.middle - line.middle) < SAME_ROW * line.height]
        above = max((other.middle for other in lines if other.middle < line.middle - line.height), default=0.0)
        names = sum(bare(other.text) in NAVIGATION for other in row)
        is_bar = len(row) >= MANY and line.middle - above > WIDEST_GAP * line.height
        if names >= MANY - 1 or is_bar:
            top = min(other.middle for other in row) - line.height
            return [other for other in lines if other.middle < top], top
    return list(lines), height


# Cards ----------------------------------------------------------------------------------------------------------------


def rows_of(anchor: Anchor) -> tuple[list[Line], list[Line]]:
    """The rows of a card from top to bottom, and what comes after a gap and is none of them."""
    lines = sorted((line for line in anchor.lines if not is_chip(line.text)), key=lambda line: (line.middle, line.left))
    if words := beside_times(anchor):
        lines.insert(0, words)
    rows: list[Line] = []
    for nth, line in enumerate(lines):
        if rows and line.middle - rows[-1].middle < min(line.height, rows[-1].height) / 2:
            continue  # beside its row: a chip, a name of a colleague
        height = statistics.median([each.height for each in (anchor.line, line)])
        last = rows[-1].middle if rows else anchor.line.middle
        if line.middle - last > WIDEST_GAP * height:
            return rows, lines[nth:]
        rows.append(line)
    return rows, []


def beside_times(anchor: Anchor) -> Line | None:
    """What stands in the very line of the times, when it is more than how long they are."""
    words = anchor.times.after.strip(" ,;|·•-")
    if not words or is_chip(words):
        return None
    line = anchor.line
    return Line(words, line.left, line.right, line.middle, line.height, line.confidence)


def is_chip(text: str) -> bool:
    """Is it an icon, a duration or a state, and not a name?"""
    return not any(map(str.isalpha, text)) or bool(DURATION.fullmatch(text.strip())) or bare(text) in CHIPS


def with_holes(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Cards that lack a row which all others have, where it would have stood: it is there, and was not read."""
    steps = {id(anchor): steps_of(anchor) for anchor in anchors}
    found: list[Anchor] = []
    for anchor in anchors:
        for nth, step in enumerate(steps[id(anchor)]):
            others = [several[nth] for key, several in steps.items() if key != id(anchor) and len(several) > nth]
            if len(others) > 1 and step > max(others) + HOLE * anchor.line.height:
                found.append(anchor)
                break
    return found


def steps_of(anchor: Anchor) -> list[float]:
    """How far below the times the first row stands, below that the second, and so on."""
    rows, _ = rows_of(anchor)
    return [below.middle - above.middle for above, below in pairwise([anchor.line, *rows])][:3]


def is_like_a_row(line: Line, anchors: Sequence[Anchor]) -> bool:
    """Does a line begin where the rows of cards begin?"""
    lefts = [row.left for anchor in anchors for row in rows_of(anchor)[0]]
    return any(abs(line.left - left) < PIN * line.height for left in lefts)


def usual_rows(anchors: Sequence[Anchor]) -> int:
    """How many rows most cards of a page have."""
    counts = [min(3, len(rows_of(anchor)[0])) for anchor in anchors]
    return statistics.mode(sorted(counts, reverse=True))


def reaches(floor: float, anchor: Anchor, rows: Sequence[Line]) -> bool:
    """Is a card so near to the end of the page that its next row could be hidden?"""
    last = rows[-1] if rows else anchor.line
    return floor - last.bottom < 1.5 * last.height


def card_of(anchor: Anchor, rows: Sequence[Line], right: float) -> Card:
    """Title, customer and place of a card, whose rows say which they are by their order."""
    rows = unwrapped(rows, right)
    title, rest = rows[0], list(rows[1:])
    address = next((line for line in rest[1:] if STREET.search(line.text)), None) if len(rest) > 2 else None
    if len(rest) == 1 and (is_place(rest[0], title)):
        customer, location = None, rest[0]
    else:
        customer, location = (rest[0] if rest else None), (rest[1] if len(rest) > 1 else None)
    parts = [line for line in (anchor.line, title, customer, location) if line]
    return Card(
        start=anchor.times.start,
        end=anchor.times.end,
        title=name_of(title.text),
        customer=name_of(customer.text) if customer else "",
        location=place_of(location.text) if location else "",
        address=place_of(address.text) if address and address is not location else "",
        confidence=round(min(line.confidence for line in parts), 3),
    )


def repeated(cards: Iterable[Card]) -> list[Card]:
    """Shifts that nothing tells apart from another of their page: one of them was misread, and nobody knows which."""
    counts = Counter(replace(card, confidence=0.0) for card in cards)
    return [card for card, count in counts.items() if count > 1]


def unwrapped(rows: Sequence[Line], right: float) -> list[Line]:
    """The rows with a title that goes on in the next one in one."""
    if len(rows) < 4 or any(STREET.search(row.text) for row in rows[2:]):
        return list(rows)
    title, more, *rest = rows
    is_long = title.right > title.left + WRAPPED * (right - title.left)
    if not is_long or abs(title.height - more.height) > ALIKE * title.height:
        return list(rows)
    whole = Line(
        f"{title.text} {more.text}", title.left, title.right, title.middle, title.height,
        min(title.confidence, more.confidence),
    )  # fmt: skip
    return [whole, *rest]


def is_place(line: Line, title: Line) -> bool:
    """Is the only row after a title its place, by the pin before it or by its number?"""
    return line.left - title.left > PIN * line.height or bool(ICON.match(line.text)) or bool(STREET.search(line.text))


def place_of(text: str) -> str:
    """A place without the pin before it."""
    return name_of(STRAY.sub("", ICON.sub("", text)))


def name_of(text: str) -> str:
    """What a row says, without an icon before it, and with the capital that only looks like a larger small letter."""
    name = ICON.sub("", text).strip()
    return name[:1].upper() + name[1:] if name[:1] in SHAPED_ALIKE else name
