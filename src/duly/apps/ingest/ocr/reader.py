"""One photograph, read: its days, the shifts of each, what is wrong, and which part of a day it covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from duly.apps.ingest.ocr.days import DayPart, split_days, undated_days, with_dates_apart
from duly.apps.ingest.ocr.header import Named, find_day, says_today
from duly.apps.ingest.ocr.layout import Card, Layout, find_layout
from duly.apps.ingest.ocr.lines import Line, Sheet, sheet_of
from duly.apps.ingest.ocr.mark import Mark
from duly.apps.ingest.ocr.table import Columns, Field, find_columns, with_cells_apart
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes

__all__ = ["Page", "is_over_midnight", "read_pages"]

MAX_SHIFTS = 100


@dataclass(frozen=True, slots=True)
class Page:
    """What a photograph shows of one day."""

    schedule_date: str | None
    shifts: tuple[Card, ...]
    problems: tuple[str, ...]
    begins: bool  # the day begins with its first shift: below the head nothing is left of another
    ends: bool  # the day ends with its last shift: there is room below for another
    notes: tuple[str, ...] = ()  # what is odd, and makes nothing doubtful


def read_pages(marks: Sequence[Mark], width: float, height: float, default_year: int) -> tuple[Page, ...]:
    """The pages that these marks make: one for every day that it shows, and one for a picture without a day."""
    sheet = with_dates_apart(sheet_of(marks, width, height))
    columns = find_columns(sheet)
    if columns:
        sheet = with_cells_apart(sheet, columns)
    parts = split_days(sheet, default_year)
    if not parts:
        return (page_of_sheet(sheet, columns, default_year),)
    return tuple(page_of_part(part, columns) for part in parts)


def page_of_sheet(sheet: Sheet, columns: Columns | None, default_year: int) -> Page:
    """The page of a sheet with one day, which its head names, or none."""
    layout = find_layout(sheet, columns)
    above = [line for line in sheet.lines if line.bottom < columns.top] if columns else layout.head
    day = (find_day(days_of_table(sheet, columns), default_year) if columns else None) or find_day(above, default_year)
    remains = any(line.middle > day.line.middle for line in layout.remains) if day else True
    undated = undated_days(sheet.lines)
    problems = [f"it shows several days without their dates: {', '.join(undated)}"] if undated else []
    return page_of(layout, day, problems, begins=not remains)


def days_of_table(sheet: Sheet, columns: Columns) -> list[Line]:
    """Return the lines of a table's column of days; they count before a date above it, which may be any."""
    return [line for line in sheet.lines if line.middle > columns.top and columns.column_of(line).field is Field.DAY]


def page_of_part(part: DayPart, columns: Columns | None) -> Page:
    """The page of one of several days."""
    layout = find_layout(part.sheet, columns)
    problems = [f"{part.day.date}: {problem}" for problem in part.problems]
    return page_of(layout, part.day, problems, begins=not layout.remains)


def page_of(layout: Layout, day: Named | None, problems: Sequence[str], *, begins: bool) -> Page:
    """The page of a layout and its day."""
    found = [*problems, *layout.problems]
    notes: list[str] = []
    if day and day.is_ambiguous:
        found.append(f"{day.line.text!r} may be two days")
    if day and day.contradicts:
        odd = f"{day.line.text!r}: {day.date} is a {day.date:%A}"
        if day.has_year or says_today(day.line.text):
            notes.append(odd)
        else:
            found.append(f"{odd}, so the year may be another one; send a photograph that shows the year")
    if steps := backward_steps(layout.cards):
        found.append(
            "the times run backwards: " + ", ".join(f"{earlier} is followed by {later}" for earlier, later in steps)
        )
    if len(layout.cards) > MAX_SHIFTS:
        found.append(f"it seems to show {len(layout.cards)} shifts, more than {MAX_SHIFTS}")
    return Page(
        schedule_date=day.date.isoformat() if day else None,
        shifts=layout.cards[:MAX_SHIFTS],
        problems=tuple(found),
        begins=day is not None and begins,
        ends=layout.ends,
        notes=tuple(notes),
    )


def backward_steps(cards: Sequence[Card]) -> list[tuple[str, str]]:
    """Return starts that are earlier than the one before, but for one step over midnight, and for double bookings."""
    starts = [card.start for card in cards]
    back = [
        (before.start, card.start)
        for nth, (before, card) in enumerate(pairwise(cards), 1)
        if card.start < before.start and not any(other.start <= card.start < other.end for other in cards[:nth])
    ]
    if len(back) == 1 and is_over_midnight(starts, *back[0]):
        return []
    return back


def is_over_midnight(starts: Sequence[str], earlier: str, later: str) -> bool:
    """Check whether a step back is one into the next day: it is long, and what follows stays before the first start."""
    return minutes(earlier) - minutes(later) > MINUTES_OF_DAY // 2 and starts[-1] < starts[0]
