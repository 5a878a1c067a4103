"""Several days in one picture: the part of the sheet that each of them takes.

    list            columns           rows
    Mon 7 Sep       Mon 7  | Tue 8    Mon 7 | 08:00-09:00 ...
    08:00-09:00     08:00  | 09:00          | 10:00-11:00 ...
    Tue 8 Sep       10:00  |          Tue 8 | 09:00-10:00 ...
    09:00-10:00

Headers that stand beside each other begin columns; headers below each other begin where they stand. A picture that
names one day, or none, is one part. What cannot be assigned to a day is a problem, never a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

from duly.apps.ingest.ocr.anchors import Anchor, find_anchors
from duly.apps.ingest.ocr.chips import is_chip
from duly.apps.ingest.ocr.header import LEAP_YEAR, Named, days_in, is_day_header, weekday_of
from duly.apps.ingest.ocr.lines import Line, Sheet
from duly.apps.ingest.ocr.times import find_range, find_single

__all__ = ["DayPart", "split_days", "undated_days", "with_dates_apart"]

SAME_ROW = 0.7  # of a line's height, between the middles of two headers of one row
BESIDE = 0.9  # of a line's height: so much higher than the header of their day times may stand
MARGIN = 0.7  # of a line's height: so far left of its column a line may begin
ACROSS = 2.0  # of a line's height: so far into the next column a line may not reach


@dataclass(frozen=True, slots=True)
class DayPart:
    """A day that a header names, and the part of the sheet below or beside it."""

    day: Named
    sheet: Sheet
    problems: tuple[str, ...] = ()


def with_dates_apart(sheet: Sheet) -> Sheet:
    """Return the sheet with lines cut in two that have a date and, after it, times."""
    return replace(sheet, lines=tuple(part for line in sheet.lines for part in date_apart(line)))


def date_apart(line: Line) -> list[Line]:
    """Return a date and the times after it as two lines."""
    days = days_in(line, LEAP_YEAR)
    if len(days) != 1 or not find_range(line.text[days[0].end :]) or not is_day_header(line.text[: days[0].end]):
        return [line]
    at = days[0].end
    border = line.left + (line.right - line.left) * at / len(line.text)
    return [
        replace(line, text=line.text[:at].strip(), right=border),
        replace(line, text=line.text[at:].strip(" ,:"), left=border + line.height / 4),
    ]


def split_days(sheet: Sheet, default_year: int) -> list[DayPart]:
    """Return the parts of a sheet with several days, in reading order; nothing for a sheet with one day or none."""
    headers = [named for line in sheet.lines if is_day_header(line.text) for named in days_in(line, default_year)]
    if len({header.date for header in headers}) < 2:
        return []
    rows = rows_of(headers)
    if any(len({header.date for header in row}) > 1 for row in rows):
        return columns_below(rows, sheet)
    return below_each_other([row[0] for row in rows], sheet)


def undated_days(lines: Sequence[Line]) -> list[str]:
    """Return the names of weekdays that stand beside each other without a date."""
    names = [line for line in lines if weekday_of(line.text.strip(" .,:")) is not None]
    row = [name for name in names if abs(name.middle - names[0].middle) < SAME_ROW * name.height] if names else []
    return [name.text for name in row] if len(row) > 1 else []


def rows_of(headers: Sequence[Named]) -> list[list[Named]]:
    """Return headers by row, each row from left to right."""
    rows: list[list[Named]] = []
    for header in sorted(headers, key=lambda header: header.line.middle):
        if rows and header.line.middle - rows[-1][0].line.middle < SAME_ROW * header.line.height:
            rows[-1].append(header)
        else:
            rows.append([header])
    return [sorted(row, key=lambda header: header.line.left) for row in rows]


def repeated_days(days: Sequence[date]) -> list[date]:
    """Return the days that come again after another."""
    blocks = [day for before, day in pairwise((None, *days)) if day != before]
    return sorted({day for day in blocks if day and blocks.count(day) > 1})


# Below each other -----------------------------------------------------------------------------------------------------


def below_each_other(headers: Sequence[Named], sheet: Sheet) -> list[DayPart]:
    """Return the parts of headers that stand below each other; a header that is repeated goes on with its day."""
    firsts = [headers[0], *(header for before, header in pairwise(headers) if before.date != header.date)]
    tops = [header.line.top for header in firsts]
    taken = {id(header.line) for header in headers}
    lines = [line for line in sheet.lines if id(line) not in taken]
    problems = [
        f"{day} stands there twice, with another day between" for day in repeated_days([h.date for h in firsts])
    ]
    if early := find_anchors([line for line in lines if not is_below(line, firsts[0])]):
        problems.append(f"{early[0].line.text!r} stands above the first date")
    parts: list[DayPart] = []
    for nth, header in enumerate(firsts):
        is_last = nth == len(firsts) - 1
        bottom = sheet.height if is_last else tops[nth + 1]
        following = None if is_last else firsts[nth + 1]
        inside = tuple(
            line for line in lines if is_below(line, header) and not (following and is_below(line, following))
        )
        part = Sheet(inside, sheet.width, bottom, is_complete=not is_last)
        parts.append(DayPart(header, part, tuple(problems) if nth == 0 else ()))
    return parts


def is_below(line: Line, header: Named) -> bool:
    """Check whether a line stands below the top of a header; times beside it may stand a little higher."""
    if find_range(line.text):
        return line.middle >= header.line.middle - BESIDE * line.height
    return line.middle >= header.line.middle - header.line.height / 2


# Beside each other ----------------------------------------------------------------------------------------------------


def columns_below(rows: Sequence[Sequence[Named]], sheet: Sheet) -> list[DayPart]:
    """Return the parts of headers in rows; one that stands alone is a title above them, or a problem."""
    bands = [row for row in rows if len({header.date for header in row}) > 1]
    taken = {id(header.line) for row in rows for header in row}
    lone = [row[0] for row in rows if row not in bands and row[0].line.middle > bands[0][0].line.middle]
    problems = [f"{header.line.text!r} stands below other dates" for header in lone]
    problems += [f"{day} stands there twice" for day in repeated_days([header.date for row in bands for header in row])]
    parts: list[DayPart] = []
    for nth, band in enumerate(bands):
        top = min(header.line.middle for header in band)
        is_last = nth == len(bands) - 1
        bottom = sheet.height if is_last else min(header.line.top for header in bands[nth + 1])
        lines = [line for line in sheet.lines if id(line) not in taken and top < line.middle < bottom]
        parts += columns_of_band(band, Sheet(tuple(lines), sheet.width, bottom, is_complete=not is_last))
    first = parts[0]
    return [replace(first, problems=(*problems, *first.problems)), *parts[1:]]


def columns_of_band(headers: Sequence[Named], band: Sheet) -> list[DayPart]:
    """Return a part for each header of a row: the lines of its column."""
    anchors = find_anchors(band.lines)
    lefts = column_lefts(headers, anchors)
    rights = [*lefts[1:], band.width]
    parts: list[DayPart] = []
    for header, left, right in zip(headers, lefts, rights, strict=True):
        lines = [line for line in band.lines if column_at(line, lefts) == lefts.index(left)]
        across = [line.text for line in lines if line.right > right + ACROSS * line.height and right < band.width]
        moved = tuple(replace(line, left=line.left - left, right=line.right - left) for line in lines)
        problems = tuple(f"{text!r} reaches into another day's column" for text in across[:1])
        parts.append(DayPart(header, Sheet(moved, right - left, band.height, band.is_complete), problems))
    outside = [line for line in band.lines if column_at(line, lefts) is None and not is_scale(line)]
    if outside:
        problem = f"{outside[0].text!r} stands left of the first day's column"
        parts[0] = replace(parts[0], problems=(*parts[0].problems, problem))
    return parts


def column_lefts(headers: Sequence[Named], anchors: Sequence[Anchor]) -> list[float]:
    """Return where the columns begin: at their times, which stand below the left edge or the middle of a header."""
    by_left = [min(range(len(headers)), key=lambda nth: abs(headers[nth].line.left - a.line.left)) for a in anchors]
    by_middle = [
        min(range(len(headers)), key=lambda nth: abs(across_of(headers[nth].line) - across_of(a.line))) for a in anchors
    ]
    off_left = sum(abs(headers[nth].line.left - a.line.left) for nth, a in zip(by_left, anchors, strict=True))
    off_middle = sum(
        abs(across_of(headers[nth].line) - across_of(a.line)) for nth, a in zip(by_middle, anchors, strict=True)
    )
    nearest = by_left if off_left <= off_middle else by_middle
    return [
        min([header.line.left, *(a.line.left for at, a in zip(nearest, anchors, strict=True) if at == nth)])
        for nth, header in enumerate(headers)
    ]


def across_of(line: Line) -> float:
    """Return the middle of a line from left to right."""
    return (line.left + line.right) / 2


def column_at(line: Line, lefts: Sequence[float]) -> int | None:
    """Return which column a line belongs to: the last that begins left of it."""
    return max((nth for nth, left in enumerate(lefts) if line.left >= left - MARGIN * line.height), default=None)


def is_scale(line: Line) -> bool:
    """Check whether a line left of all columns is the scale of a calendar, or nothing."""
    return find_single(line.text) is not None or is_chip(line.text)
