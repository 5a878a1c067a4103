"""Split a page that shows several days into the region of each.

    list            columns           rows
    Mon 7 Sep       Mon 7  | Tue 8    Mon 7 | 08:00-09:00 ...
    08:00-09:00     08:00  | 09:00          | 10:00-11:00 ...
    Tue 8 Sep       10:00  |          Tue 8 | 09:00-10:00 ...
    09:00-10:00

Day headers side by side start columns; day headers below each other start where they are. A page with one date or none
is one region. What cannot be assigned to a day is a problem, never a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

from duly.apps.ingest.ocr.date_scan import parse_weekday
from duly.apps.ingest.ocr.header import LEAP_YEAR, HeaderDate, find_dates, is_day_header
from duly.apps.ingest.ocr.lines import Line, Region
from duly.apps.ingest.ocr.segmentation import TimeAnchor, find_anchors
from duly.apps.ingest.ocr.times import find_single_time, find_time_range
from duly.apps.ingest.ocr.ui_text import is_ui_text

# Multiples of a line's height.
ROW_TOLERANCE = 0.7  # between the vertical centres of two headers of one row
MAX_RISE = 0.9  # how much higher than the header of their day times may be
COLUMN_TOLERANCE = 0.7  # how far left of its column a line may start
MAX_OVERLAP = 2.0  # how far a line may reach into the next column


@dataclass(frozen=True, slots=True)
class DayRegion:
    """A date of a header, and the region below or beside it."""

    header_date: HeaderDate
    region: Region
    problems: tuple[str, ...] = ()


def split_dates(region: Region) -> Region:
    """Return the region with each line that has a date and, after it, times split in two."""
    return replace(region, lines=tuple(part for line in region.lines for part in split_date(line)))


def split_date(line: Line) -> list[Line]:
    """Return a date and the times after it as two lines."""
    dates = find_dates(line, LEAP_YEAR)
    if (
        len(dates) != 1
        or not find_time_range(line.text[dates[0].end :])
        or not is_day_header(line.text[: dates[0].end])
    ):
        return [line]
    at = dates[0].end
    border = line.left + (line.right - line.left) * at / len(line.text)
    return [
        replace(line, text=line.text[:at].strip(), right=border),
        replace(line, text=line.text[at:].strip(" ,:"), left=border + line.height / 4),
    ]


def find_day_regions(region: Region, default_year: int) -> list[DayRegion]:
    """Return the regions of a page with several days, in reading order; nothing for a page with one day or none."""
    headers = [found for line in region.lines if is_day_header(line.text) for found in find_dates(line, default_year)]
    if len({header.date for header in headers}) < 2:
        return []
    rows = group_rows(headers)
    if any(len({header.date for header in row}) > 1 for row in rows):
        return split_columns(rows, region)
    return split_below_headers([row[0] for row in rows], region)


def find_undated_days(lines: Sequence[Line]) -> list[str]:
    """Return the names of weekdays that are side by side without a date."""
    names = [line for line in lines if parse_weekday(line.text.strip(" .,:")) is not None]
    row = (
        [name for name in names if abs(name.centre_y - names[0].centre_y) < ROW_TOLERANCE * name.height]
        if names
        else []
    )
    return [name.text for name in row] if len(row) > 1 else []


def group_rows(headers: Sequence[HeaderDate]) -> list[list[HeaderDate]]:
    """Return headers by row, each row from left to right."""
    rows: list[list[HeaderDate]] = []
    for header in sorted(headers, key=lambda header: header.line.centre_y):
        if rows and header.line.centre_y - rows[-1][0].line.centre_y < ROW_TOLERANCE * header.line.height:
            rows[-1].append(header)
        else:
            rows.append([header])
    return [sorted(row, key=lambda header: header.line.left) for row in rows]


def find_repeated_days(days: Sequence[date]) -> list[date]:
    """Return the days that come again after another."""
    runs = [day for before, day in pairwise((None, *days)) if day != before]
    return sorted({day for day in runs if day and runs.count(day) > 1})


# Below each other -----------------------------------------------------------------------------------------------------


def split_below_headers(headers: Sequence[HeaderDate], region: Region) -> list[DayRegion]:
    """Return the regions of headers below each other; a repeated header continues its day."""
    firsts = [headers[0], *(header for before, header in pairwise(headers) if before.date != header.date)]
    tops = [header.line.top for header in firsts]
    used = {id(header.line) for header in headers}
    lines = [line for line in region.lines if id(line) not in used]
    problems = [
        f"{day} appears twice, with another day between" for day in find_repeated_days([h.date for h in firsts])
    ]
    if early := find_anchors([line for line in lines if not is_below(line, firsts[0])]):
        problems.append(f"{early[0].line.text!r} is above the first date")
    days: list[DayRegion] = []
    for nth, header in enumerate(firsts):
        is_last = nth == len(firsts) - 1
        bottom = region.height if is_last else tops[nth + 1]
        following = None if is_last else firsts[nth + 1]
        inside = tuple(
            line for line in lines if is_below(line, header) and not (following and is_below(line, following))
        )
        part = Region(inside, region.width, bottom, is_complete=not is_last)
        days.append(DayRegion(header, part, tuple(problems) if nth == 0 else ()))
    return days


def is_below(line: Line, header: HeaderDate) -> bool:
    """Return whether a line is below the top of a header; times beside it may be a little higher."""
    if find_time_range(line.text):
        return line.centre_y >= header.line.centre_y - MAX_RISE * line.height
    return line.centre_y >= header.line.centre_y - header.line.height / 2


# Side by side ---------------------------------------------------------------------------------------------------------


def split_columns(rows: Sequence[Sequence[HeaderDate]], region: Region) -> list[DayRegion]:
    """Return the regions of headers in rows; a single header is the title above them, or a problem below them."""
    bands = [row for row in rows if len({header.date for header in row}) > 1]
    used = {id(header.line) for row in rows for header in row}
    single = [row[0] for row in rows if row not in bands and row[0].line.centre_y > bands[0][0].line.centre_y]
    problems = [f"{header.line.text!r} is below other dates" for header in single]
    problems += [f"{day} appears twice" for day in find_repeated_days([header.date for row in bands for header in row])]
    days: list[DayRegion] = []
    for nth, band in enumerate(bands):
        top = min(header.line.centre_y for header in band)
        is_last = nth == len(bands) - 1
        bottom = region.height if is_last else min(header.line.top for header in bands[nth + 1])
        lines = [line for line in region.lines if id(line) not in used and top < line.centre_y < bottom]
        days += split_band(band, Region(tuple(lines), region.width, bottom, is_complete=not is_last))
    first = days[0]
    return [replace(first, problems=(*problems, *first.problems)), *days[1:]]


def split_band(headers: Sequence[HeaderDate], band: Region) -> list[DayRegion]:
    """Return the region of each header of a row: the lines of its column."""
    anchors = find_anchors(band.lines)
    lefts = find_column_lefts(headers, anchors)
    rights = [*lefts[1:], band.width]
    days: list[DayRegion] = []
    for header, left, right in zip(headers, lefts, rights, strict=True):
        lines = [line for line in band.lines if column_index(line, lefts) == lefts.index(left)]
        across = [line.text for line in lines if line.right > right + MAX_OVERLAP * line.height and right < band.width]
        moved = tuple(replace(line, left=line.left - left, right=line.right - left) for line in lines)
        problems = tuple(f"{text!r} reaches into the column of another day" for text in across[:1])
        days.append(DayRegion(header, Region(moved, right - left, band.height, band.is_complete), problems))
    outside = [line for line in band.lines if column_index(line, lefts) is None and not is_time_scale(line)]
    if outside:
        problem = f"{outside[0].text!r} is left of the first day's column"
        days[0] = replace(days[0], problems=(*days[0].problems, problem))
    return days


def find_column_lefts(headers: Sequence[HeaderDate], anchors: Sequence[TimeAnchor]) -> list[float]:
    """Return the left edges of the columns: those of their times, which are aligned left or centred with a header."""
    by_left = [min(range(len(headers)), key=lambda nth: abs(headers[nth].line.left - a.line.left)) for a in anchors]
    by_centre = [
        min(range(len(headers)), key=lambda nth: abs(centre_x(headers[nth].line) - centre_x(a.line))) for a in anchors
    ]
    error_left = sum(abs(headers[nth].line.left - a.line.left) for nth, a in zip(by_left, anchors, strict=True))
    error_centre = sum(
        abs(centre_x(headers[nth].line) - centre_x(a.line)) for nth, a in zip(by_centre, anchors, strict=True)
    )
    nearest = by_left if error_left <= error_centre else by_centre
    return [
        min([header.line.left, *(a.line.left for at, a in zip(nearest, anchors, strict=True) if at == nth)])
        for nth, header in enumerate(headers)
    ]


def centre_x(line: Line) -> float:
    """Return the horizontal centre of a line."""
    return (line.left + line.right) / 2


def column_index(line: Line, lefts: Sequence[float]) -> int | None:
    """Return the index of the column that a line belongs to: the last that starts left of it."""
    tolerance = COLUMN_TOLERANCE * line.height
    return max((nth for nth, left in enumerate(lefts) if line.left >= left - tolerance), default=None)


def is_time_scale(line: Line) -> bool:
    """Return whether a line left of all columns is of a calendar's time scale, or no field of a shift."""
    return find_single_time(line.text) is not None or is_ui_text(line.text)
