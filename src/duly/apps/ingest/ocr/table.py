"""Tables: one row for a shift, and a column for each of its fields.

    Time        | Task     | Client     | Place
    08:00-09:00 | Cleaning | Anna Bua   | Brenvik
    10:00-11:30 | Laundry  | Ola Tullom | Altan

A row of known column names above the first times makes a sheet a table; without one, rows of two or three cells beside
their times do, in the order title, customer, place. A column whose name is not known is a problem once it has text.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from duly.apps.ingest.ocr.anchors import Anchor, both, find_anchors
from duly.apps.ingest.ocr.chips import is_chip, is_heading, is_navigation
from duly.apps.ingest.ocr.lines import Line, Sheet
from duly.apps.ingest.ocr.spelling import bare, word_set
from duly.apps.ingest.ocr.times import find_single

__all__ = ["Columns", "Field", "Row", "find_columns", "in_words", "rows_of", "with_cells_apart"]

SAME_ROW = 0.6  # of a line's height, between the middles of two cells of one row
LEAST_CELLS = 2  # beside the times, in a table without names
MAX_CELLS = 3
USUAL_SHARE = 0.7  # of the rows that have so many cells
CUT_LETTERS = 3.5  # so far from the edge of a column a blank may stand at which a line is cut
DECIDED_LETTERS = 1.2  # so much nearer to the edge than any other
DECIDED = 0.25  # of a line's height: so much nearer a line must be to its row than to the next


class Field(StrEnum):
    """What a column has."""

    DAY = "day"
    TIME = "time"
    START = "start"
    END = "end"
    TITLE = "title"
    CUSTOMER = "customer"
    LOCATION = "location"
    IGNORED = "ignored"
    UNKNOWN = "unknown"


NAMES: dict[Field, frozenset[str]] = {
    Field.DAY: word_set("dag datum date day tag paiva pvm veckodag wochentag viikonpaiva"),
    Field.TIME: word_set("tid tider kl time times hours zeit zeiten uhrzeit aika kello klo arbetstid klockan"),
    Field.START: word_set("start starttid fran from von borjar begin beginn alkaa alku borjan"),
    Field.END: word_set("slut sluttid till to end bis ende slutar loppuu loppu"),
    Field.TITLE: word_set("""
        aktivitet uppdrag pass insats titel title task activity shift job jobb arbete tjanst service tatigkeit aufgabe
        einsatz dienst uppgift uppgifter arbetsuppgift arbetsmoment tasks activities tatigkeiten toiminta tehtava tyo
        vuoro besok vad what typ type arbetspass schicht
    """),
    Field.CUSTOMER: word_set("""
        kund kunder client customer kunde klient asiakas brukare namn name vem who patient hos
    """),
    Field.LOCATION: word_set("""
        plats ort adress address place location var where paikka osoite lokal site stalle omrade adresse
    """),
    Field.IGNORED: word_set("""
        langd duration dauer kesto timmar h nr no status rast break id stunden tunnit total totalt summa
    """),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and where its name or its cells stand."""

    field: Field
    name: str
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, and where its rows begin."""

    columns: tuple[Column, ...]
    top: float

    def has(self, *fields: Field) -> bool:
        """Check whether it has all of these."""
        return {*fields} <= {column.field for column in self.columns}

    def column_of(self, line: Line) -> Column:
        """Return the column of a cell: the one whose left edge or middle is nearest."""
        return min(self.columns, key=lambda column: distance(line, column))


@dataclass(slots=True, eq=False)
class Row:
    """A row of a table: its times, and the lines of each cell."""

    anchor: Anchor
    cells: dict[Column, list[Line]] = field(default_factory=dict[Column, list[Line]])

    def lines(self, wanted: Field) -> list[Line]:
        """Return the lines of a field, from top to bottom."""
        found = [line for column, lines in self.cells.items() if column.field is wanted for line in lines]
        return sorted(found, key=lambda line: (line.middle, line.left))


def distance(line: Line, column: Column) -> float:
    """Return how far a cell is from a column, by the left edges, the middles or the right edges."""
    middles = abs((line.left + line.right) / 2 - (column.left + column.right) / 2)
    return min(abs(line.left - column.left), middles, abs(line.right - column.right))


def find_columns(sheet: Sheet) -> Columns | None:
    """Return the columns of a sheet that is a table."""
    return named_columns(sheet) or unnamed_columns(sheet)


def with_cells_apart(sheet: Sheet, columns: Columns) -> Sheet:
    """Return the sheet with lines cut where an engine took the cells of several columns for one line."""
    lefts = [column.left for column in columns.columns]
    return replace(sheet, lines=tuple(part for line in sheet.lines for part in cut_at(line, lefts, columns.top)))


def cut_at(line: Line, lefts: Sequence[float], top: float) -> list[Line]:
    """Return the parts of a line, cut at the blanks that are nearest to where columns begin."""
    inside = sorted(left for left in lefts if line.left + line.height < left < line.right - line.height / 2)
    if line.middle < top or not inside or line.right <= line.left:
        return [line]
    border = (inside[0] - line.left) / (line.right - line.left) * len(line.text)
    blanks = [at for at, letter in enumerate(line.text) if letter == " " and abs(at - border) < CUT_LETTERS]
    blanks.sort(key=lambda at: abs(at - border))
    if not blanks or (len(blanks) > 1 and abs(blanks[1] - border) - abs(blanks[0] - border) < DECIDED_LETTERS):
        return [line]
    at = blanks[0]
    first, rest = (
        replace(line, text=line.text[:at].strip(), right=inside[0] - line.height / 2),
        replace(line, text=line.text[at + 1 :].strip(), left=inside[0]),
    )
    return [first, *cut_at(rest, lefts, top)]


def field_of(text: str) -> Field | None:
    """Return the field that the name of a column means."""
    words = [bare(word) for word in text.replace("/", " ").replace(".", " ").split()]
    return next((found for found, names in NAMES.items() if words and words[0] in names), None)


# By their names -------------------------------------------------------------------------------------------------------


def named_columns(sheet: Sheet) -> Columns | None:
    """Return the columns of a row of names, when one of them is for times and one for what is done, or for whom."""
    for line in sheet.lines:
        row = [other for other in sheet.lines if abs(other.middle - line.middle) < SAME_ROW * line.height]
        fields = [field_of(other.text) for other in row]
        has_time = Field.TIME in fields or {Field.START, Field.END} <= {*fields}
        if len(row) > 2 and has_time and {Field.TITLE, Field.CUSTOMER, Field.LOCATION} & {*fields}:
            columns = [
                Column(found or Field.UNKNOWN, other.text, other.left, other.right)
                for found, other in zip(fields, row, strict=True)
            ]
            return Columns(tuple(columns), max(other.bottom for other in row))
    return None


# By their cells -------------------------------------------------------------------------------------------------------


def unnamed_columns(sheet: Sheet) -> Columns | None:
    """Return the columns of rows that have two or three cells beside their times, and nothing below them."""
    anchors = [anchor for anchor in find_anchors(sheet.lines) if not anchor.times.problem]
    if len(anchors) < LEAST_CELLS:
        return None
    taken = {id(line) for anchor in anchors for line in anchor.sources}
    beside = [[line for line in sheet.lines if id(line) not in taken and is_cell(line, anchor)] for anchor in anchors]
    count = statistics.mode(len(cells) for cells in beside)
    usual = [cells for cells in beside if len(cells) == count]
    if not LEAST_CELLS <= count <= MAX_CELLS or len(usual) < USUAL_SHARE * len(anchors):
        return None
    below = [line for line in sheet.lines if line.middle > anchors[0].line.top and id(line) not in taken]
    if len(below) > 2 * sum(map(len, beside)):
        return None
    fields = (Field.TITLE, Field.CUSTOMER, Field.LOCATION)[:count]
    ordered = [sorted(cells, key=lambda line: line.left) for cells in usual]
    columns = [
        Column(
            found,
            found,
            statistics.median(cells[nth].left for cells in ordered),
            statistics.median(cells[nth].right for cells in ordered),
        )
        for nth, found in enumerate(fields)
    ]
    if any(
        abs(cells[nth].left - columns[nth].left) > 1.5 * cells[nth].height for cells in ordered for nth in range(count)
    ):
        return None
    times = [anchor.line for anchor in anchors]
    time = Column(Field.TIME, Field.TIME, min(line.left for line in times), max(line.right for line in times))
    return Columns((time, *columns), min(line.top for line in times))


def is_cell(line: Line, anchor: Anchor) -> bool:
    """Check whether a line stands in the row of some times, right of them, and says something."""
    is_beside = abs(line.middle - anchor.line.middle) < SAME_ROW * line.height and line.left > anchor.line.right
    return is_beside and not is_chip(line.text)


# Rows -----------------------------------------------------------------------------------------------------------------


def rows_of(columns: Columns, sheet: Sheet) -> tuple[list[Row], list[str]]:
    """Return the rows of a table, each by its times, and what is wrong with them."""
    lines = [line for line in sheet.lines if line.middle > columns.top - 1 and not is_navigation(line.text)]
    anchors = row_anchors(columns, lines)
    if not anchors:
        named = [
            line for line in lines if columns.column_of(line).field in (Field.TITLE, Field.CUSTOMER, Field.LOCATION)
        ]
        return [], [f"{line.text!r} stands in a row without times ({line.place})" for line in named[:1]]
    rows = [Row(anchor) for anchor in anchors]
    taken = {id(line) for anchor in anchors for line in anchor.sources}
    pitch = min(
        [below.line.middle - above.line.middle for above, below in pairwise(anchors)],
        default=sheet.height,
    )
    problems: list[str] = []
    for line in (line for line in lines if id(line) not in taken):
        row, is_decided = nearest_row(rows, line)
        column = columns.column_of(line)
        if reaches_over(line, columns):
            problems.append(f"{line.text!r} reaches into another column ({line.place})")
        elif abs(line.middle - row.anchor.line.middle) > max(pitch, 3 * line.height):
            problems += [] if is_chip(line.text) or is_heading(line.text) else [f"{line.text!r} belongs to no shift"]
        elif not is_decided:
            problems.append(f"{line.text!r} stands between two rows")
        elif column.field is Field.UNKNOWN:
            problems.append(f"{line.text!r} stands in the column {column.name!r}, which is not known")
        elif column.field in (Field.TITLE, Field.CUSTOMER, Field.LOCATION):
            row.cells.setdefault(column, []).append(line)
    return rows, problems


def reaches_over(line: Line, columns: Columns) -> bool:
    """Check whether a line begins in one column and ends in another, so that it may be two cells."""
    lefts = [column.left for column in columns.columns]
    return any(line.left + line.height < left < line.right - line.height for left in lefts)


def row_anchors(columns: Columns, lines: Sequence[Line]) -> list[Anchor]:
    """Return the times of the rows, from top to bottom: ranges, or starts and ends of two columns."""
    if not columns.has(Field.START, Field.END):
        return find_anchors(
            [line for line in lines if columns.column_of(line).field in (Field.TIME, Field.START, Field.END)]
        )
    starts = [line for line in lines if columns.column_of(line).field is Field.START and find_single(line.text)]
    ends = [
        line for line in lines if columns.column_of(line).field is Field.END and find_single(line.text, is_later=True)
    ]
    found: list[Anchor] = []
    for start in starts:
        beside = [end for end in ends if abs(end.middle - start.middle) < SAME_ROW * start.height]
        found += [both(start, end) for end in beside[:1]]
    return sorted(found, key=lambda anchor: anchor.line.middle)


def nearest_row(rows: Sequence[Row], line: Line) -> tuple[Row, bool]:
    """Return the row whose times are nearest to a line, and whether that is certain."""
    nearest = sorted(rows, key=lambda row: abs(row.anchor.line.middle - line.middle))
    gaps = [abs(row.anchor.line.middle - line.middle) for row in nearest[:2]]
    return nearest[0], len(gaps) < 2 or gaps[1] - gaps[0] > DECIDED * line.height


def in_words(lines: Sequence[Line]) -> Line | None:
    """Return the lines of a cell as one."""
    if not lines:
        return None
    return replace(
        lines[0],
        text=" ".join(line.text for line in lines),
        right=max(line.right for line in lines),
        confidence=min(line.confidence for line in lines),
        weakest=min(line.weakest for line in lines),
        is_at_edge=any(line.is_at_edge for line in lines),
    )
