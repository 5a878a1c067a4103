"""What counts as read: a shift only when start, end, title, customer and place are all exactly right."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from duly.apps.ingest.ocr.page import Page

__all__ = ["Score", "score_of", "seen_in", "total"]

MARKED = frozenset("åäöÅÄÖ")
Shown = Sequence[str]


@dataclass(frozen=True)
class Score:
    """How much of some screens was read."""

    images: int = 0
    dates: int = 0
    shifts: int = 0
    right: int = 0  # completely
    times: int = 0  # start and end
    marked: int = 0  # å, ä and ö that there are
    kept: int = 0
    invented: int = 0  # shifts that there are not
    flagged: int = 0  # images with a problem told


def score_of(page: Page, schedule_date: str, shifts: Sequence[Shown]) -> Score:
    """How well one page was read."""
    wanted = [tuple(shift) for shift in shifts]
    got = seen_in(page)
    right = sum((Counter(wanted) & Counter(got)).values())
    times = sum((Counter(each[:2] for each in wanted) & Counter(each[:2] for each in got)).values())
    by_time: dict[tuple[str, ...], tuple[str, ...]] = {each[:2]: each for each in got}
    marked = kept = 0
    for each in wanted:
        found = by_time.get(each[:2], ("",) * 5)
        for true, read in zip(each[2:], found[2:], strict=True):
            marked += sum(letter in MARKED for letter in true)
            kept += kept_in(true, read)
    return Score(
        images=1,
        dates=int(page.schedule_date == schedule_date),
        shifts=len(wanted),
        right=right,
        times=times,
        marked=marked,
        kept=kept,
        invented=max(0, len(got) - times),
        flagged=int(bool(page.problems)),
    )


def seen_in(page: Page) -> list[tuple[str, ...]]:
    """The shifts of a page, as screens show them."""
    return [(each.start, each.end, each.title, each.customer, each.location) for each in page.shifts]


def kept_in(true: str, read: str) -> int:
    """How many å, ä and ö of a text were kept: at their places, or where the lengths differ, at all."""
    if len(true) == len(read):
        return sum(letter == other for letter, other in zip(true, read, strict=True) if letter in MARKED)
    there_are, found = Counter(filter(MARKED.__contains__, true)), Counter(filter(MARKED.__contains__, read))
    return sum((there_are & found).values())


def total(scores: Iterable[Score]) -> Score:
    """All of them together."""
    several = list(scores)
    return Score(**{field.name: sum(getattr(score, field.name) for score in several) for field in fields(Score)})
