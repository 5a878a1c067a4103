"""Read a photograph: the days it shows, their shifts, and how much of each day it covers.

`recognise` runs in a child process, which keeps its engine; `read_days` is everything after the text boxes. A rejected
photograph raises one of our exceptions, whose message is written for the user who sent it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.day_regions import DayRegion, find_day_regions, find_undated_days, split_dates
from duly.apps.ingest.ocr.engine import EngineConfig, OcrEngine, build_engine
from duly.apps.ingest.ocr.header import HeaderDate, find_header_date, is_relative_day
from duly.apps.ingest.ocr.layout import Layout, analyse_layout
from duly.apps.ingest.ocr.lines import Line, Region, assemble_lines
from duly.apps.ingest.ocr.table import Field, TableColumns, find_columns, split_cells
from duly.apps.ingest.ocr.text_box import TextBox
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes_since_midnight
from duly.storage.photo import decode_photo

MAX_SHIFTS = 100  # of one day: more cannot be right


@dataclass(frozen=True, slots=True)
class RecognisedDay:
    """What a photograph shows of one day."""

    schedule_date: str | None
    shifts: tuple[RecognisedShift, ...]
    problems: tuple[str, ...]
    shows_day_start: bool  # the first shift is the first of the day: nothing of another one is below the header
    shows_day_end: bool  # the last shift is the last of the day: there is space below for another one
    notes: tuple[str, ...] = ()  # what is odd, and makes nothing doubtful


def read_days(boxes: Sequence[TextBox], width: float, height: float, default_year: int) -> tuple[RecognisedDay, ...]:
    """Return each day that an image of this size shows, or one without a date if it shows none."""
    region = split_dates(assemble_lines(boxes, width, height))
    columns = find_columns(region)
    if columns:
        region = split_cells(region, columns)
    days = find_day_regions(region, default_year)
    if not days:
        return (read_single_day(region, columns, default_year),)
    return tuple(read_day_region(day, columns) for day in days)


def read_single_day(region: Region, columns: TableColumns | None, default_year: int) -> RecognisedDay:
    """Return the day of a page with at most one date, which is in its header."""
    layout = analyse_layout(region, columns)
    header = [line for line in region.lines if line.bottom < columns.top] if columns else layout.header
    day = find_header_date(day_cells(region, columns), default_year) if columns else None
    day = day or find_header_date(header, default_year)
    is_cut_above = any(line.centre_y > day.line.centre_y for line in layout.cut_rows) if day else True
    undated = find_undated_days(region.lines)
    problems = [f"several days are shown without their dates: {', '.join(undated)}"] if undated else []
    return build_day(layout, day, problems, shows_start=not is_cut_above)


def day_cells(region: Region, columns: TableColumns) -> list[Line]:
    """Return the cells of a table's day column; they take precedence over a date above the table."""
    return [line for line in region.lines if line.centre_y > columns.top and columns.column_of(line).field is Field.DAY]


def read_day_region(day: DayRegion, columns: TableColumns | None) -> RecognisedDay:
    """Return one of several days."""
    layout = analyse_layout(day.region, columns)
    problems = [f"{day.header_date.date}: {problem}" for problem in day.problems]
    return build_day(layout, day.header_date, problems, shows_start=not layout.cut_rows)


def build_day(layout: Layout, day: HeaderDate | None, problems: Sequence[str], *, shows_start: bool) -> RecognisedDay:
    """Return the day of a layout and its date."""
    found = [*problems, *layout.problems]
    notes: list[str] = []
    if day and day.is_ambiguous:
        found.append(f"{day.line.text!r} may be two different dates")
    if day and day.contradicts_weekday:
        mismatch = f"{day.line.text!r}: {day.date} is a {day.date:%A}"
        if day.has_year or is_relative_day(day.line.text):
            notes.append(mismatch)
        else:
            found.append(f"{mismatch}, so it may be of another year; send a photograph that shows the year")
    if steps := backward_steps(layout.shifts):
        found.append(
            "the times run backwards: " + ", ".join(f"{earlier} is followed by {later}" for earlier, later in steps)
        )
    if len(layout.shifts) > MAX_SHIFTS:
        found.append(f"{len(layout.shifts)} shifts were recognised, more than the limit of {MAX_SHIFTS}")
    return RecognisedDay(
        schedule_date=day.date.isoformat() if day else None,
        shifts=layout.shifts[:MAX_SHIFTS],
        problems=tuple(found),
        shows_day_start=day is not None and shows_start,
        shows_day_end=layout.shows_day_end,
        notes=tuple(notes),
    )


def backward_steps(shifts: Sequence[RecognisedShift]) -> list[tuple[str, str]]:
    """Return pairs of starts of which the later one is earlier in the day.

    One step over midnight is allowed, and so are double bookings, which start during another shift.
    """
    starts = [shift.start for shift in shifts]
    back = [
        (before.start, shift.start)
        for nth, (before, shift) in enumerate(pairwise(shifts), 1)
        if shift.start < before.start and not any(other.start <= shift.start < other.end for other in shifts[:nth])
    ]
    if len(back) == 1 and is_over_midnight(starts, *back[0]):
        return []
    return back


def is_over_midnight(starts: Sequence[str], earlier: str, later: str) -> bool:
    """Return whether a step back leads into the next day: it is long, and the last start is before the first."""
    return (
        minutes_since_midnight(earlier) - minutes_since_midnight(later) > MINUTES_OF_DAY // 2 and starts[-1] < starts[0]
    )


# In the child process -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecognitionOptions:
    """Engine to use, and the year of dates that show none."""

    engine: EngineConfig
    default_year: int


def recognise(data: bytes, options: RecognitionOptions) -> tuple[RecognisedDay, ...]:
    """Return the days that a photograph shows."""
    image = decode_photo(data)
    boxes = get_engine(options.engine).recognise(image)
    return read_days(boxes, image.width, image.height, options.default_year)


@lru_cache(maxsize=1)
def get_engine(config: EngineConfig) -> OcrEngine:
    """Return the engine of this process, built on first use."""
    return build_engine(config)
