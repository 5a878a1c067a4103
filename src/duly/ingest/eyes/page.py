"""One photograph, read: its day, its shifts, what is wrong with it, and which part of the day it covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from duly.ingest.eyes.header import find_day
from duly.ingest.eyes.layout import Card, find_layout
from duly.ingest.eyes.lines import sheet_of
from duly.ingest.eyes.mark import Mark

__all__ = ["Page", "read_page"]

MOST_SHIFTS = 100


@dataclass(frozen=True, slots=True)
class Page:
    """What a photograph shows."""

    schedule_date: str | None
    shifts: tuple[Card, ...]
    problems: tuple[str, ...]
    begins: bool  # the day begins with its first shift: below the head nothing is left of another
    ends: bool  # the day ends with its last shift: there is room below for another


def read_page(marks: Sequence[Mark], width: float, height: float, default_year: int) -> Page:
    """The page that these marks make."""
    layout = find_layout(sheet_of(marks, width, height))
    day = find_day(layout.head, default_year)
    problems = list(layout.problems)
    if len(layout.cards) > MOST_SHIFTS:
        problems.append(f"it seems to show {len(layout.cards)} shifts, more than {MOST_SHIFTS}")
    return Page(
        schedule_date=day.date.isoformat() if day else None,
        shifts=layout.cards[:MOST_SHIFTS],
        problems=tuple(problems),
        begins=day is not None and not any(line.middle > day.line.middle for line in layout.remains),
        ends=layout.ends,
    )
