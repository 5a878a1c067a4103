"""Recognise tables: one row for each shift, and one column for each of its fields.

    Time        | Task     | Client     | Place
    08:00-09:00 | Cleaning | Anna Bua   | Brenvik
    10:00-11:30 | Laundry  | Ola Tullom | Altan

A row of known column names above the first times makes a region a table; without one, rows of two or three cells beside
their times do, in the order title, customer, location. A column whose name is unknown is a problem once it has text.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from duly.apps.ingest.ocr.letters import fold, split_words
from duly.apps.ingest.ocr.lines import Line, Region, join_rows
from duly.apps.ingest.ocr.segmentation import TimeAnchor, find_anchors, join_start_and_end
from duly.apps.ingest.ocr.times import find_single_time
from duly.apps.ingest.ocr.ui_text import is_day_section_heading, is_navigation_label, is_ui_text

MIN_CELLS = 2  # cells beside the times, in a table without column names, and rows of such a table
MAX_CELLS = 3
MIN_USUAL_SHARE = 0.7  # of the rows must have the usual number of cells
MAX_SPLIT_DISTANCE = 3.5  # characters, between the edge of a column and the space at which a line is split
MIN_SPLIT_MARGIN = 1.2  # characters: how much nearer to the edge that space must be than any other
# Multiples of a line's height.
ROW_TOLERANCE = 0.6  # between the vertical centres of two cells of one row
CELL_TOLERANCE = 1.5  # between the left edges of the cells of a column without a name
MIN_ROW_MARGIN = 0.25  # how much nearer a line must be to its row than to the next


class Field(StrEnum):
    """What a column contains."""

    DAY = "day"
    TIME = "time"
    START = "start"
    END = "end"
    TITLE = "title"
    CUSTOMER = "customer"
    LOCATION = "location"
    IGNORED = "ignored"
    UNKNOWN = "unknown"


SHIFT_FIELDS = (Field.TITLE, Field.CUSTOMER, Field.LOCATION)
COLUMN_NAMES: dict[Field, frozenset[str]] = {
    Field.DAY: split_words("dag datum date day tag paiva pvm veckodag wochentag viikonpaiva"),
    Field.TIME: split_words("tid tider kl time times hours zeit zeiten uhrzeit aika kello klo arbetstid klockan"),
    Field.START: split_words("start starttid fran from von borjar begin beginn alkaa alku borjan"),
    Field.END: split_words("slut sluttid till to end bis ende slutar loppuu loppu"),
    Field.TITLE: split_words("""
        aktivitet uppdrag pass insats titel title task activity shift job jobb arbete tjanst service tatigkeit aufgabe
        einsatz dienst uppgift uppgifter arbetsuppgift arbetsmoment tasks activities tatigkeiten toiminta tehtava tyo
        vuoro besok vad what typ type arbetspass schicht
    """),
    Field.CUSTOMER: split_words("""
        kund kunder client customer kunde klient asiakas brukare namn name vem who patient hos
    """),
    Field.LOCATION: split_words("""
        plats ort adress address place location var where paikka osoite lokal site stalle omrade adresse
    """),
    Field.IGNORED: split_words("""
        langd duration dauer kesto timmar h nr no status rast break id stunden tunnit total totalt summa
    """),
}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, with the position of its name or its cells."""

    field: Field
    name: str
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table, and the upper edge of its rows."""

    columns: tuple[TableColumn, ...]
    top: float

    def has(self, *fields: Field) -> bool:
        """Return whether there is a column for each of these fields."""
        return {*fields} <= {column.field for column in self.columns}

    def column_of(self, line: Line) -> TableColumn:
        """Return the column of a cell: the one whose left edge, centre or right edge is nearest."""
        return min(self.columns, key=lambda column: distance(line, column))


@dataclass(slots=True, eq=False)
class TableRow:
    """A row of a table: its times, and the lines of each cell."""

    anchor: TimeAnchor
    cells: dict[TableColumn, list[Line]] = field(default_factory=dict[TableColumn, list[Line]])

    def lines(self, wanted: Field) -> list[Line]:
        """Return the lines of a field, from top to bottom."""
        found = [line for column, lines in self.cells.items() if column.field is wanted for line in lines]
        return sorted(found, key=lambda line: (line.centre_y, line.left))


def distance(line: Line, column: TableColumn) -> float:
    """Return the distance of a cell from a column: between the left edges, the centres or the right edges."""
    centres = abs((line.left + line.right) / 2 - (column.left + column.right) / 2)
    return min(abs(line.left - column.left), centres, abs(line.right - column.right))


def find_columns(region: Region) -> TableColumns | None:
    """Return the columns of a region that is a table, else None."""
    return find_named_columns(region) or find_unnamed_columns(region)


def split_cells(region: Region, columns: TableColumns) -> Region:
    """Return the region with each line split in which the engine joined the cells of several columns."""
    lefts = [column.left for column in columns.columns]
    return replace(region, lines=tuple(part for line in region.lines for part in split_line(line, lefts, columns.top)))


def split_line(line: Line, lefts: Sequence[float], top: float) -> list[Line]:
    """Return the parts of a line, split at the spaces that are nearest to the left edges of columns."""
    inside = sorted(left for left in lefts if line.left + line.height < left < line.right - line.height / 2)
    if line.centre_y < top or not inside or line.right <= line.left:
        return [line]
    border = (inside[0] - line.left) / (line.right - line.left) * len(line.text)
    spaces = [at for at, char in enumerate(line.text) if char == " " and abs(at - border) < MAX_SPLIT_DISTANCE]
    spaces.sort(key=lambda at: abs(at - border))
    if not spaces or (len(spaces) > 1 and abs(spaces[1] - border) - abs(spaces[0] - border) < MIN_SPLIT_MARGIN):
        return [line]
    at = spaces[0]
    first, rest = (
        replace(line, text=line.text[:at].strip(), right=inside[0] - line.height / 2),
        replace(line, text=line.text[at + 1 :].strip(), left=inside[0]),
    )
    return [first, *split_line(rest, lefts, top)]


def parse_column_name(text: str) -> Field | None:
    """Return the field that the name of a column means."""
    words = [fold(word) for word in text.replace("/", " ").replace(".", " ").split()]
    return next((found for found, names in COLUMN_NAMES.items() if words and words[0] in names), None)


# Columns with names ---------------------------------------------------------------------------------------------------


def find_named_columns(region: Region) -> TableColumns | None:
    """Return the columns of a row of names, if it has one for times and one for a title, customer or location."""
    for line in region.lines:
        row = [other for other in region.lines if abs(other.centre_y - line.centre_y) < ROW_TOLERANCE * line.height]
        fields = [parse_column_name(other.text) for other in row]
        has_time = Field.TIME in fields or {Field.START, Field.END} <= {*fields}
        if len(row) > 2 and has_time and {*SHIFT_FIELDS} & {*fields}:
            columns = [
                TableColumn(found or Field.UNKNOWN, other.text, other.left, other.right)
                for found, other in zip(fields, row, strict=True)
            ]
            return TableColumns(tuple(columns), max(other.bottom for other in row))
    return None


# Columns without names ------------------------------------------------------------------------------------------------


def find_unnamed_columns(region: Region) -> TableColumns | None:
    """Return the columns of rows that have two or three cells beside their times, and nothing below them."""
    anchors = [anchor for anchor in find_anchors(region.lines) if not anchor.times.problem]
    if len(anchors) < MIN_CELLS:
        return None
    used = {id(line) for anchor in anchors for line in anchor.sources}
    beside = [[line for line in region.lines if id(line) not in used and is_cell(line, anchor)] for anchor in anchors]
    count = statistics.mode(len(cells) for cells in beside)
    usual = [cells for cells in beside if len(cells) == count]
    if not MIN_CELLS <= count <= MAX_CELLS or len(usual) < MIN_USUAL_SHARE * len(anchors):
        return None
    below = [line for line in region.lines if line.centre_y > anchors[0].line.top and id(line) not in used]
    if len(below) > 2 * sum(map(len, beside)):
        return None
    ordered = [sorted(cells, key=lambda line: line.left) for cells in usual]
    columns = [
        TableColumn(
            found,
            found,
            statistics.median(cells[nth].left for cells in ordered),
            statistics.median(cells[nth].right for cells in ordered),
        )
        for nth, found in enumerate(SHIFT_FIELDS[:count])
    ]
    if any(
        abs(cells[nth].left - columns[nth].left) > CELL_TOLERANCE * cells[nth].height
        for cells in ordered
        for nth in range(count)
    ):
        return None
    times = [anchor.line for anchor in anchors]
    time = TableColumn(Field.TIME, Field.TIME, min(line.left for line in times), max(line.right for line in times))
    return TableColumns((time, *columns), min(line.top for line in times))


def is_cell(line: Line, anchor: TimeAnchor) -> bool:
    """Return whether a line is in the row of some times, right of them, and may be a field."""
    is_beside = (
        abs(line.centre_y - anchor.line.centre_y) < ROW_TOLERANCE * line.height and line.left > anchor.line.right
    )
    return is_beside and not is_ui_text(line.text)


# Rows -----------------------------------------------------------------------------------------------------------------


def build_rows(columns: TableColumns, region: Region) -> tuple[list[TableRow], list[str]]:
    """Return the rows of a table, one for each time range, and their problems."""
    lines = [line for line in region.lines if line.centre_y > columns.top - 1 and not is_navigation_label(line.text)]
    anchors = find_row_anchors(columns, lines)
    if not anchors:
        cells = [line for line in lines if columns.column_of(line).field in SHIFT_FIELDS]
        return [], [f"{line.text!r} is in a row without times ({line.position})" for line in cells[:1]]
    rows = [TableRow(anchor) for anchor in anchors]
    used = {id(line) for anchor in anchors for line in anchor.sources}
    row_pitch = min(
        [below.line.centre_y - above.line.centre_y for above, below in pairwise(anchors)],
        default=region.height,
    )
    problems: list[str] = []
    for line in (line for line in lines if id(line) not in used):
        row, is_decided = find_nearest_row(rows, line)
        column = columns.column_of(line)
        if spans_columns(line, columns):
            problems.append(f"{line.text!r} reaches into another column ({line.position})")
        elif abs(line.centre_y - row.anchor.line.centre_y) > max(row_pitch, 3 * line.height):
            if not is_ui_text(line.text) and not is_day_section_heading(line.text):
                problems.append(f"{line.text!r} belongs to no shift")
        elif not is_decided:
            problems.append(f"{line.text!r} is between two rows")
        elif column.field is Field.UNKNOWN:
            problems.append(f"{line.text!r} is in the column {column.name!r}, which is unknown")
        elif column.field in SHIFT_FIELDS:
            row.cells.setdefault(column, []).append(line)
    return rows, problems


def spans_columns(line: Line, columns: TableColumns) -> bool:
    """Return whether a line starts in one column and ends in another, so that it may be two cells."""
    lefts = [column.left for column in columns.columns]
    return any(line.left + line.height < left < line.right - line.height for left in lefts)


def find_row_anchors(columns: TableColumns, lines: Sequence[Line]) -> list[TimeAnchor]:
    """Return the times of the rows, from top to bottom: time ranges, or starts and ends of two columns."""
    if not columns.has(Field.START, Field.END):
        return find_anchors(
            [line for line in lines if columns.column_of(line).field in (Field.TIME, Field.START, Field.END)]
        )
    starts = [line for line in lines if columns.column_of(line).field is Field.START and find_single_time(line.text)]
    ends = [
        line
        for line in lines
        if columns.column_of(line).field is Field.END and find_single_time(line.text, is_end=True)
    ]
    found: list[TimeAnchor] = []
    for start in starts:
        beside = [end for end in ends if abs(end.centre_y - start.centre_y) < ROW_TOLERANCE * start.height]
        found += [join_start_and_end(start, end) for end in beside[:1]]
    return sorted(found, key=lambda anchor: anchor.line.centre_y)


def find_nearest_row(rows: Sequence[TableRow], line: Line) -> tuple[TableRow, bool]:
    """Return the row whose times are nearest to a line, and whether that is certain."""
    nearest = sorted(rows, key=lambda row: abs(row.anchor.line.centre_y - line.centre_y))
    gaps = [abs(row.anchor.line.centre_y - line.centre_y) for row in nearest[:2]]
    return nearest[0], len(gaps) < 2 or gaps[1] - gaps[0] > MIN_ROW_MARGIN * line.height


def merge_cell(lines: Sequence[Line]) -> Line | None:
    """Return the lines of a cell as one, or None if it is empty."""
    return replace(join_rows(lines), right=max(line.right for line in lines)) if lines else None
