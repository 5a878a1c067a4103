"""Find the problems of a page: what cannot be right, and what a shift that was not recognised may have left."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from duly.apps.ingest.ocr.block_fields import (
    PageConventions,
    RecognisedShift,
    is_icon_or_number,
    titles_without_bullet,
)
from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.segmentation import Block, PageSegments
from duly.apps.ingest.ocr.table import TableRow
from duly.apps.ingest.ocr.times import find_time_range
from duly.apps.ingest.ocr.ui_text import is_day_section_heading, is_navigation_label

TIMES_INSIDE = re.compile(r"\d{1,2}[:.]\d{2}\s?[-\u2010-\u2015]\s?\d{1,2}[:.]\d{2}")
MIN_CHAR_CONFIDENCE = 0.35  # of every character of a shift: below, the line is not relied on
MIN_TIMES_CONFIDENCE = 0.6  # of a time range as a whole
# Multiples of a line's height.
MIN_HOLE = 0.7  # how much larger than in all other blocks a gap between rows is if a row was missed there
MIN_BLOCK_DISTANCE = 2.0  # between times: closer ones are the old and new times of one shift
ALIGNMENT_TOLERANCE = 0.8  # between the left edges of aligned lines
MAX_STEP_RATIO = 1.45  # of the usual distance of two rows: after a larger one something else starts
MAX_EXTRA_ROWS = 3  # rows more than usual: a wrapped title, an address and a note are fewer
USUAL_ROWS = 3  # title, customer, location
FIELD_ROWS = 4  # title, customer, location, address


def find_problems(segments: PageSegments, shifts: Sequence[RecognisedShift], conventions: PageConventions) -> list[str]:
    """Return all problems of a page as messages; what its end hides is not a problem."""
    full = [block for block in segments.blocks if not segments.is_cut_off(block)]
    return [
        *(problem for block in full for problem in find_time_problems(block)),
        *(f"a line of the shift {block.line.text!r} cannot be read" for block in blocks_with_hole(segments.blocks)),
        *(
            f"{rest[0].text!r} after {block.line.text!r} belongs to no shift"
            for block, rest in (*lines_after_gap(segments), *surplus_rows(segments))
        ),
        *(f"{rest[0].text!r} beside {block.line.text!r} belongs to no shift" for block, rest in lines_beside(segments)),
        *(f"{line.text!r} belongs to no shift" for line in lines_outside(segments)),
        *(f"the shift {shift.start}-{shift.end} {shift.title!r} appears twice" for shift in find_duplicates(shifts)),
        *(
            f"it is unclear which lines of {block.line.text!r} are its title"
            for block in full
            if conventions.titles.is_undecided(block)
        ),
        *(
            f"it is unclear whether {line.text!r} is a customer or a location ({line.position})"
            for line in unclear_fields(full, conventions)
        ),
        *(
            f"{line.text!r} may start with an icon or a number ({line.position})"
            for line in icon_or_number_rows(full, conventions)
        ),
        *(f"{title!r} has no bullet between customer and title" for title in rows_without_bullet(full, conventions)),
        *(f"{block.line.text!r} is too close to other times" for block in crowded_blocks(segments)),
        *(
            problem
            for block in full
            for line in field_lines(block, conventions)
            for problem in find_line_problems(line)
        ),
    ]


def find_row_problems(row: TableRow, cells: Sequence[Line]) -> list[str]:
    """Return the problems of a row of a table."""
    times = [row.anchor.times.problem] if row.anchor.times.problem else []
    return [*times, *(problem for line in [row.anchor.line, *cells] for problem in find_line_problems(line))]


def find_duplicates(shifts: Iterable[RecognisedShift]) -> list[RecognisedShift]:
    """Return shifts that equal another one of their page: one of the two was misread, and it is unknown which."""
    counts = Counter(replace(shift, confidence=0.0) for shift in shifts)
    return [shift for shift, count in counts.items() if count > 1]


# Lines and times ------------------------------------------------------------------------------------------------------


def field_lines(block: Block, conventions: PageConventions) -> list[Line]:
    """Return the lines of a block that become fields: its times, and its first rows with the title as one."""
    return [block.line, *conventions.field_rows(block)[:FIELD_ROWS]]


def find_line_problems(line: Line) -> list[str]:
    """Return why a line of a shift cannot be relied on."""
    if line.may_be_truncated:
        return [f"{line.text!r} may be cut off at the side, or continue ({line.position})"]
    if line.text.count("(") > line.text.count(")"):
        return [f"{line.text!r} lacks a closing bracket ({line.position})"]
    has_words = sum(map(str.isalpha, line.text)) > 2
    if has_words and TIMES_INSIDE.search(line.text) and not find_time_range(line.text):
        return [f"{line.text!r} contains times ({line.position})"]
    if line.min_char_confidence < MIN_CHAR_CONFIDENCE:
        return [f"{line.text!r} is barely legible ({line.position})"]
    return []


def find_time_problems(block: Block) -> list[str]:
    """Return why times cannot be right or be relied on, or belong to nothing."""
    if block.times.problem:
        return [block.times.problem]
    is_legible = block.line.confidence >= MIN_TIMES_CONFIDENCE
    return [
        *([] if is_legible else [f"the times {block.line.text!r} are barely legible ({block.line.position})"]),
        *([] if block.rows else [f"the shift {block.line.text!r} has no title ({block.line.position})"]),
    ]


# Fields ---------------------------------------------------------------------------------------------------------------


def unclear_fields(blocks: Iterable[Block], conventions: PageConventions) -> list[Line]:
    """Return the only rows after a title that may be a customer or a location."""
    rows = [conventions.field_rows(block) for block in blocks]
    return [each[1] for each in rows if len(each) == 2 and conventions.is_location(each[1], each[0]) is None]


def rows_without_bullet(blocks: Iterable[Block], conventions: PageConventions) -> list[str]:
    """Return titles without a bullet where most have one, and the customer has no row of its own."""
    rows = [conventions.field_rows(block) for block in blocks]
    return titles_without_bullet([each[0].text for each in rows if each and len(each) < USUAL_ROWS])


def icon_or_number_rows(blocks: Iterable[Block], conventions: PageConventions) -> list[Line]:
    """Return rows whose first digit may be an icon."""
    return [
        row
        for block in blocks
        for row in block.rows[1:]
        if is_icon_or_number(row, block.rows[0], conventions.has_icons)
    ]


# Distances ------------------------------------------------------------------------------------------------------------


def crowded_blocks(segments: PageSegments) -> list[Block]:
    """Return blocks whose times are directly below others, without space for the rows of both."""
    if segments.usual_rows < 2:
        return []
    pairs = [(above, below) for column in segments.columns for above, below in pairwise(column)]
    near = [
        below
        for above, below in pairs
        if below.line.centre_y - above.line.centre_y < MIN_BLOCK_DISTANCE * below.line.height
        and len(above.rows) < segments.usual_rows
    ]
    return near if len(near) < len(pairs) else []


def blocks_with_hole(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks with an empty space where all others have a row: it was not recognised."""
    return [block for block in blocks if any(is_hole(block, nth, blocks) for nth in range(len(block.row_steps)))]


def is_hole(block: Block, nth: int, blocks: Iterable[Block]) -> bool:
    """Return whether the space above a row is larger than in all other blocks."""
    others = [other.row_steps[nth] for other in blocks if other is not block and len(other.row_steps) > nth]
    return len(others) > 1 and block.row_steps[nth] > max(others) + MIN_HOLE * block.line.height


# Lines without a shift ------------------------------------------------------------------------------------------------


def find_unassigned_lines(segments: PageSegments) -> list[Line]:
    """Return lines below the header that belong to no shift, except headings."""
    lines = [*segments.unassigned, *(line for block in segments.blocks for line in block.trailing)]
    return [line for line in lines if not is_day_section_heading(line.text)]


def lines_after_gap(segments: PageSegments) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Yield blocks with lines that follow after a gap and may be a shift whose times were not recognised."""
    for block in segments.blocks:
        rest = [line for line in block.trailing if not is_day_section_heading(line.text)]
        if not segments.is_last(block):
            is_shift = bool(rest)
        else:
            rest = [line for line in rest if not is_at_page_bottom(line, segments)]
            is_shift = any(
                line.centre_y - block.line.centre_y < segments.max_block_extent
                or is_aligned_with_rows(line, segments.blocks)
                for line in rest
            )
        if is_shift:
            yield block, rest


def surplus_rows(segments: PageSegments) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Yield blocks with more rows than usual, of which some are apart, or more than one shift can have."""
    usual = segments.usual_rows
    steps = [
        below.centre_y - above.centre_y for block in segments.blocks for above, below in pairwise(block.rows[:usual])
    ]
    max_step = MAX_STEP_RATIO * statistics.median(steps) if steps else math.inf
    for block in segments.blocks:
        rows = block.rows
        apart = (nth for nth in range(usual, len(rows)) if rows[nth].centre_y - rows[nth - 1].centre_y > max_step)
        first = next(apart, usual if len(rows) >= usual + MAX_EXTRA_ROWS else None)
        if first is not None:
            yield block, rows[first:]


def lines_beside(segments: PageSegments) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Yield blocks with several aligned lines beside their rows: another column, whose times were not recognised."""
    for block in segments.blocks:
        if not block.times.problem and any(is_aligned(one, other) for one, other in combinations(block.beside, 2)):
            yield block, block.beside


def lines_outside(segments: PageSegments) -> list[Line]:
    """Return the first line that is in no column, or nothing."""
    return [
        line
        for line in segments.unassigned
        if not is_day_section_heading(line.text) and not is_at_page_bottom(line, segments)
    ][:1]


def is_at_page_bottom(line: Line, segments: PageSegments) -> bool:
    """Return whether a line is cut by the end of the page, or is a label of a navigation bar that was not detected."""
    return segments.reaches_bottom(line) or is_navigation_label(line.text)


def is_aligned_with_rows(line: Line, blocks: Iterable[Block]) -> bool:
    """Return whether a line starts where the rows of shifts start."""
    return any(is_aligned(line, row) for block in blocks for row in block.rows)


def is_aligned(line: Line, other: Line) -> bool:
    """Return whether the left edges of two lines are aligned."""
    return abs(line.left - other.left) < ALIGNMENT_TOLERANCE * max(line.height, other.height)
