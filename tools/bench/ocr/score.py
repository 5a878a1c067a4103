"""Score a reading: a shift is right only if start, end, title, customer and location are all exactly right."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from duly.apps.ingest.ocr.reader import RecognisedDay

SWEDISH_LETTERS = frozenset("åäöÅÄÖ")
ShiftFields = Sequence[str]


@dataclass(frozen=True)
class Score:
    """Counts of what was read correctly on some screens."""

    images: int = 0
    dates: int = 0
    shifts: int = 0
    right: int = 0  # completely
    times: int = 0  # start and end
    marked: int = 0  # å, ä and ö on the screens
    kept: int = 0
    invented: int = 0  # recognised shifts that are not on the screens
    flagged: int = 0  # images with a reported problem


def score_day(page: RecognisedDay, schedule_date: str, shifts: Sequence[ShiftFields]) -> Score:
    """Score the reading of one day."""
    expected = [tuple(shift) for shift in shifts]
    recognised = to_rows(page)
    right = sum((Counter(expected) & Counter(recognised)).values())
    times = sum((Counter(each[:2] for each in expected) & Counter(each[:2] for each in recognised)).values())
    by_time: dict[tuple[str, ...], tuple[str, ...]] = {each[:2]: each for each in recognised}
    marked = kept = 0
    for each in expected:
        found = by_time.get(each[:2], ("",) * 5)
        for true, read in zip(each[2:], found[2:], strict=True):
            marked += sum(letter in SWEDISH_LETTERS for letter in true)
            kept += count_kept(true, read)
    return Score(
        images=1,
        dates=int(page.schedule_date == schedule_date),
        shifts=len(expected),
        right=right,
        times=times,
        marked=marked,
        kept=kept,
        invented=max(0, len(recognised) - times),
        flagged=int(bool(page.problems)),
    )


def to_rows(page: RecognisedDay) -> list[tuple[str, ...]]:
    """Return the shifts of a day as start, end, title, customer and location."""
    return [(each.start, each.end, each.title, each.customer, each.location) for each in page.shifts]


def count_kept(true: str, read: str) -> int:
    """Count the å, ä and ö of a text that were kept: at their positions, or anywhere if the lengths differ."""
    if len(true) == len(read):
        return sum(letter == other for letter, other in zip(true, read, strict=True) if letter in SWEDISH_LETTERS)
    there_are, found = (
        Counter(filter(SWEDISH_LETTERS.__contains__, true)),
        Counter(filter(SWEDISH_LETTERS.__contains__, read)),
    )
    return sum((there_are & found).values())


def total(scores: Iterable[Score]) -> Score:
    """Add scores up."""
    several = list(scores)
    return Score(**{field.name: sum(getattr(score, field.name) for score in several) for field in fields(Score)})
