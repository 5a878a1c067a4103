"""Analyse the layout: a time range anchors a shift, and what is below or beside it belongs to it.

    list                        cards              two columns
    08:00-09:00 | Title         08:00-09:00        08:00-09:00   09:30-10:00
                | Customer      Title              Title         Title
                | Location      Customer           Customer      Customer
                                Location           Location      Location

One rule covers all three: anchors with aligned left edges are a column; a line belongs to the last anchor above or
beside it in its column; the first rows are title, customer and location. What is inconsistent is reported as a
problem, not guessed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from duly.apps.ingest.ocr.block_fields import (
    MIN_ICON_INDENT,
    RecognisedShift,
    clean_name,
    clean_text,
    detect_conventions,
    shift_from_block,
)
from duly.apps.ingest.ocr.lines import Line, Region
from duly.apps.ingest.ocr.problems import find_duplicates, find_problems, find_row_problems, find_unassigned_lines
from duly.apps.ingest.ocr.segmentation import Block, PageSegments, find_anchors, segment_page
from duly.apps.ingest.ocr.table import Field, TableColumns, build_rows, merge_cell
from duly.apps.ingest.ocr.times import find_time_range, is_old_note, is_old_range, resembles_time_range
from duly.apps.ingest.ocr.ui_text import is_status_label

# Multiples of a line's height, between replaced times and the new ones.
MAX_REPLACEMENT_RISE = 3.5  # vertically
MAX_REPLACEMENT_GAP = 6.0  # horizontally


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page shows below its header."""

    header: tuple[Line, ...]
    shifts: tuple[RecognisedShift, ...]  # in reading order
    problems: tuple[str, ...]
    cut_rows: tuple[Line, ...]  # lines of the header that may be the rest of a shift hidden above
    shows_day_end: bool  # there is space for another shift below the last one


def analyse_layout(region: Region, columns: TableColumns | None) -> Layout:
    """Return the shifts of a page and its problems; `columns` are those of a table, if the page is one."""
    lines, struck_problems = drop_replaced_times(region.lines)
    region = replace(region, lines=lines)
    if columns:
        return analyse_table(region, columns, struck_problems)
    anchors = find_anchors(region.lines)
    if not anchors:
        unreadable = [
            f"{line.text!r} looks like times but cannot be read"
            for line in region.lines
            if resembles_time_range(line.text)
        ]
        problems = (*struck_problems, *unreadable)
        return Layout(region.lines, (), problems, (), shows_day_end=region.is_complete)
    segments = segment_page(region, anchors)
    conventions = detect_conventions(segments)
    shifts = tuple(
        shift_from_block(block, conventions) for block in reading_order(segments) if is_shift(block, segments)
    )
    problems = (*struck_problems, *find_problems(segments, shifts, conventions))
    return Layout(
        segments.header, shifts, problems, find_cut_rows(segments), shows_day_end=has_space_below(segments, region)
    )


def is_shift(block: Block, segments: PageSegments) -> bool:
    """Return whether a block has all that a shift needs."""
    return bool(block.rows) and not block.times.problem and not segments.is_cut_off(block)


def reading_order(segments: PageSegments) -> list[Block]:
    """Return the blocks row by row, or column by column if their times are then in better order."""
    by_row = sorted(segments.blocks, key=lambda block: (row_position(block, segments), block.line.left))
    return min(by_row, segments.blocks, key=lambda blocks: count_backward_steps(block.times.start for block in blocks))


def row_position(block: Block, segments: PageSegments) -> float:
    """Return the vertical position of a block's row: that of the block beside it in the first column."""
    near = [
        other
        for other in segments.columns[0]
        if abs(other.line.centre_y - block.line.centre_y) < segments.block_pitch / 2
    ]
    return min([other.line.centre_y for other in near], default=block.line.centre_y)


def count_backward_steps(starts: Iterable[str]) -> int:
    """Count the starts that are earlier than the one before."""
    return sum(later < earlier for earlier, later in pairwise(filter(None, starts)))


# Tables ---------------------------------------------------------------------------------------------------------------


def analyse_table(region: Region, columns: TableColumns, struck_problems: Sequence[str]) -> Layout:
    """Return the shifts of a table and its problems."""
    rows, problems = build_rows(columns, region)
    shifts: list[RecognisedShift] = []
    for row in rows:
        fields = {field: merge_cell(row.lines(field)) for field in (Field.TITLE, Field.CUSTOMER, Field.LOCATION)}
        problems += find_row_problems(row, [line for line in fields.values() if line])
        title = fields[Field.TITLE] or (None if columns.has(Field.TITLE) else fields[Field.CUSTOMER])
        customer = fields[Field.CUSTOMER] if title is not fields[Field.CUSTOMER] else None
        location = fields[Field.LOCATION]
        if title is None:
            problems.append(f"the shift {row.anchor.line.text!r} has no title")
        elif not row.anchor.times.problem:
            lines = [line for line in (row.anchor.line, title, customer, location) if line]
            shifts.append(
                RecognisedShift(
                    row.anchor.times.start,
                    row.anchor.times.end,
                    clean_text(title.text),
                    clean_name(customer.text) if customer else "",
                    clean_name(location.text) if location else "",
                    "",
                    round(min(line.min_char_confidence for line in lines), 3),
                )
            )
    problems += [
        f"the shift {shift.start}-{shift.end} {shift.title!r} appears twice" for shift in find_duplicates(shifts)
    ]
    bottom = max((row.anchor.line.bottom for row in rows), default=region.height)
    row_pitch = min(
        (below.anchor.line.centre_y - above.anchor.line.centre_y for above, below in pairwise(rows)),
        default=region.height,
    )
    shows_day_end = region.is_complete or region.height - bottom >= row_pitch
    return Layout((), tuple(shifts), (*struck_problems, *problems), (), shows_day_end=shows_day_end)


# Old times ------------------------------------------------------------------------------------------------------------


def drop_replaced_times(lines: Sequence[Line]) -> tuple[tuple[Line, ...], list[str]]:
    """Return the lines without times that others replace, and a problem for each struck-through line without a new one.

    A shift starts at its uppermost line, so new times below the old ones are moved up to these if the fields of the
    shift are beside the old times.
    """
    current = [
        line
        for line in lines
        if not line.is_struck_through and not is_old_range(line.text) and find_time_range(line.text)
    ]
    struck = [line for line in lines if line.is_struck_through and not is_status_label(line.text)]
    old = [line for line in lines if is_old_range(line.text)]
    replaced = {id(line): new for line in [*old, *struck] if (new := find_replacement(line, current))}
    moved = {
        id(new): replace(new, centre_y=line.centre_y)
        for line in struck
        if (new := replaced.get(id(line)))
        and line.centre_y < new.centre_y - line.height / 2
        and has_text_beside(line, lines)
    }
    problems = [f"{line.text!r} is struck through" for line in struck if id(line) not in replaced]
    dropped = {*replaced, *(id(line) for line in old if is_old_note(line.text))}
    return tuple(moved.get(id(line), line) for line in lines if id(line) not in dropped), problems


def has_text_beside(line: Line, lines: Sequence[Line]) -> bool:
    """Return whether text is right of old times: then their shift starts there, and not at the new times below."""
    return any(
        other.left > line.right
        and abs(other.centre_y - line.centre_y) < line.height / 2
        and not find_time_range(other.text)
        for other in lines
    )


def find_replacement(line: Line, current: Sequence[Line]) -> Line | None:
    """Return the current times that are beside old ones, or close above or below them."""
    if not any(map(str.isdigit, line.text)):
        return None
    near = [
        other
        for other in current
        if abs(other.centre_y - line.centre_y) < MAX_REPLACEMENT_RISE * line.height
        and min(abs(other.left - line.left), abs(other.left - line.right), abs(line.left - other.right))
        < MAX_REPLACEMENT_GAP * line.height
    ]
    return min(near, key=lambda other: abs(other.centre_y - line.centre_y), default=None)


# Which part of the day is shown ---------------------------------------------------------------------------------------


def find_cut_rows(segments: PageSegments) -> tuple[Line, ...]:
    """Return lines above the first shift that are aligned with rows: they may be the rest of a shift that is hidden."""
    first = min(block.line.centre_y for block in segments.blocks)
    rows = [row for block in segments.blocks for row in block.rows]
    return tuple(
        line
        for line in segments.header
        if line.centre_y > first - segments.block_pitch
        and any(abs(line.left - row.left) < MIN_ICON_INDENT * line.height for row in rows)
    )


def has_space_below(segments: PageSegments, region: Region) -> bool:
    """Return whether there is space for another shift below the last one, with nothing in it that may be one."""
    if region.is_complete:
        return not find_unassigned_lines(segments)
    bottom = max(block.bottom for block in segments.blocks)
    is_free = segments.content_bottom - bottom >= segments.block_pitch and not find_unassigned_lines(segments)
    return is_free and not any(segments.is_cut_off(block) for block in segments.blocks)
