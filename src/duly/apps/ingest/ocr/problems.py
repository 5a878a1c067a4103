"""What is wrong with a page: everything that cannot be right, or that a shift which was not seen may have left."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from duly.apps.ingest.ocr.cards import Card, Conventions, lacks_bullet, may_be_icon
from duly.apps.ingest.ocr.chips import is_heading, is_navigation
from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.parts import Block, Parts
from duly.apps.ingest.ocr.table import Row
from duly.apps.ingest.ocr.times import find_range

__all__ = ["leftovers", "problems_of", "problems_of_row", "repeated"]

TIMES_INSIDE = re.compile(r"\d{1,2}[:.]\d{2}\s?[-\u2010-\u2015]\s?\d{1,2}[:.]\d{2}")
LEAST_LETTER = 0.35  # of a letter of a shift: below, the line is not relied on
LEAST_CONFIDENCE = 0.6  # of a range of times
HOLE = 0.7  # of a line's height: so much more than in all other blocks between two rows is a row too little
WIDER = 1.45  # times what usually is between two rows
MORE_ROWS = 3  # than usual: a longer title, an address and a note are fewer
USUAL_ROWS = 3  # title, customer, place
READ_ROWS = 4  # title, customer, place, address
CROWDED = 2.0  # of a line's height: nearer to each other are the times of one shift, old and new
ALIGNED = 0.8  # of a line's height: so exactly lines begin below each other


def problems_of(parts: Parts, cards: Sequence[Card], page: Conventions) -> list[str]:
    """All problems of a page, in words; what its end hides is none."""
    whole = [block for block in parts.blocks if not parts.is_cut(block)]
    return [
        *(problem for block in whole for problem in problems_of_times(block)),
        *(f"a line of the shift {block.line.text!r} cannot be read" for block in with_holes(parts.blocks)),
        *(f"{rest[0].text!r} after {block.line.text!r} belongs to no shift" for block, rest in left_after(parts)),
        *(f"{aside[0].text!r} beside {block.line.text!r} belongs to no shift" for block, aside in left_beside(parts)),
        *(f"{line.text!r} belongs to no shift" for line in left_outside(parts)),
        *(f"the shift {card.start}-{card.end} {card.title!r} stands there twice" for card in repeated(cards)),
        *(f"which lines of {block.line.text!r} are its title cannot be told" for block in undecided(whole, page)),
        *(
            f"whether {line.text!r} is a customer or a place cannot be told ({line.place})"
            for line in unknown_rows(whole, page)
        ),
        *(
            f"{line.text!r} may begin with an icon or a number ({line.place})"
            for line in with_icon_or_number(whole, page)
        ),
        *(f"{title!r} has no bullet between customer and title" for title in without_bullet(whole, page)),
        *(f"{block.line.text!r} stands too near to other times" for block in crowded(parts)),
        *(problem for block in whole for line in lines_of(block, page) for problem in problems_of_line(line)),
    ]


def lines_of(block: Block, page: Conventions) -> list[Line]:
    """Return the lines of a block that are read: its times, and its first rows with the title as one."""
    return [block.line, *page.rows_of(block)[:READ_ROWS]]


def undecided(blocks: Iterable[Block], page: Conventions) -> list[Block]:
    """Return the blocks whose title may have one row or two."""
    return [block for block in blocks if page.titles.is_undecided(block)]


def unknown_rows(blocks: Iterable[Block], page: Conventions) -> list[Line]:
    """Return rows that alone follow a title, and may be a customer or a place."""
    rows = [page.rows_of(block) for block in blocks]
    return [several[1] for several in rows if len(several) == 2 and page.is_place(several[1], several[0]) is None]


def without_bullet(blocks: Iterable[Block], page: Conventions) -> list[str]:
    """Return titles without a bullet where most have one, and the customer stands in no row of its own."""
    rows = [page.rows_of(block) for block in blocks]
    return lacks_bullet([several[0].text for several in rows if several and len(several) < USUAL_ROWS])


def with_icon_or_number(blocks: Iterable[Block], page: Conventions) -> list[Line]:
    """Return rows whose first digit may be an icon."""
    return [row for block in blocks for row in block.rows[1:] if may_be_icon(row, block.rows[0], page.has_icons)]


def crowded(parts: Parts) -> list[Block]:
    """Return blocks whose times stand directly below others, where there is no room for the rows of both."""
    if parts.usual_rows < 2:
        return []
    pairs = [(above, below) for column in parts.columns for above, below in pairwise(column)]
    near = [
        below
        for above, below in pairs
        if below.line.middle - above.line.middle < CROWDED * below.line.height and len(above.rows) < parts.usual_rows
    ]
    return near if len(near) < len(pairs) else []


def problems_of_row(row: Row, cells: Sequence[Line]) -> list[str]:
    """What is wrong with a row of a table."""
    times = [row.anchor.times.problem] if row.anchor.times.problem else []
    return [*times, *(problem for line in [row.anchor.line, *cells] for problem in problems_of_line(line))]


def problems_of_line(line: Line) -> list[str]:
    """Why a line of a shift cannot be relied on."""
    if line.is_at_edge:
        return [f"{line.text!r} may be cut at the side or go on ({line.place})"]
    if line.text.count("(") > line.text.count(")"):
        return [f"{line.text!r} has no end ({line.place})"]
    has_words = sum(map(str.isalpha, line.text)) > 2
    if has_words and TIMES_INSIDE.search(line.text) and not find_range(line.text):
        return [f"{line.text!r} has times in it ({line.place})"]
    if line.weakest < LEAST_LETTER:
        return [f"{line.text!r} is hardly legible ({line.place})"]
    return []


def problems_of_times(block: Block) -> list[str]:
    """Why times cannot be right, or be relied on, or stand for nothing."""
    if block.times.problem:
        return [block.times.problem]
    is_legible = block.line.confidence >= LEAST_CONFIDENCE
    return [
        *([] if is_legible else [f"the times {block.line.text!r} are hardly legible ({block.line.place})"]),
        *([] if block.rows else [f"the shift {block.line.text!r} has no title ({block.line.place})"]),
    ]


def with_holes(blocks: Sequence[Block]) -> list[Block]:
    """Those that lack a row which all others have, where it would have stood: it is there, and was not read."""
    return [block for block in blocks if any(is_hole(block, nth, blocks) for nth in range(len(block.steps)))]


def is_hole(block: Block, nth: int, blocks: Iterable[Block]) -> bool:
    """Is the room above a row larger than in all other blocks?"""
    others = [other.steps[nth] for other in blocks if other is not block and len(other.steps) > nth]
    return len(others) > 1 and block.steps[nth] > max(others) + HOLE * block.line.height


def repeated(cards: Iterable[Card]) -> list[Card]:
    """Shifts that nothing tells apart from another of their page: one of them was misread, and nobody knows which."""
    counts = Counter(replace(card, confidence=0.0) for card in cards)
    return [card for card, count in counts.items() if count > 1]


# What is left over ----------------------------------------------------------------------------------------------------


def leftovers(parts: Parts) -> list[Line]:
    """Lines below the head that are no part of any shift, whatever they are; headings are known."""
    lines = [*parts.strays, *(line for block in parts.blocks for line in block.rest)]
    return [line for line in lines if not is_heading(line.text)]


def left_after(parts: Parts) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Blocks with what follows them and could be a shift whose times were not seen."""
    yield from left_below(parts)
    yield from left_within(parts)


def left_below(parts: Parts) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Blocks with what comes after a gap and could be a shift whose times were not seen."""
    for block in parts.blocks:
        rest = [line for line in block.rest if not is_heading(line.text)]
        if not parts.is_last(block):
            is_shift = bool(rest)
        else:
            rest = [line for line in rest if not is_of_the_foot(line, parts)]
            is_shift = any(
                line.middle - block.line.middle < parts.extent or is_like_a_row(line, parts.blocks) for line in rest
            )
        if is_shift:
            yield block, rest


def left_within(parts: Parts) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Blocks with more rows than usual, of which some are apart, or more than one shift can have."""
    usual = parts.usual_rows
    steps = [below.middle - above.middle for block in parts.blocks for above, below in pairwise(block.rows[:usual])]
    for block in parts.blocks:
        widest = WIDER * statistics.median(steps) if steps else math.inf
        apart = (nth for nth in range(usual, len(block.rows)) if gap_above(block, nth) > widest)
        first = next(apart, usual if len(block.rows) >= usual + MORE_ROWS else None)
        if first is not None:
            yield block, block.rows[first:]


def gap_above(block: Block, nth: int) -> float:
    """How far a row stands below the one before."""
    return block.rows[nth].middle - block.rows[nth - 1].middle


def left_beside(parts: Parts) -> Iterator[tuple[Block, Sequence[Line]]]:
    """Blocks with several lines below each other beside their rows: another column, whose times were not seen."""
    for block in parts.blocks:
        if not block.times.problem and any(is_aligned(one, other) for one, other in combinations(block.aside, 2)):
            yield block, block.aside


def left_outside(parts: Parts) -> list[Line]:
    """The first line of what stands in no column."""
    return [line for line in parts.strays if not is_heading(line.text) and not is_of_the_foot(line, parts)][:1]


def is_of_the_foot(line: Line, parts: Parts) -> bool:
    """Is it cut by the end of the page, or a name of a bar there that was not read as a whole?"""
    return parts.reaches_floor(line) or is_navigation(line.text)


def is_like_a_row(line: Line, blocks: Iterable[Block]) -> bool:
    """Does a line begin where the rows of shifts begin?"""
    return any(is_aligned(line, row) for block in blocks for row in block.rows)


def is_aligned(line: Line, other: Line) -> bool:
    """Do two lines begin below each other?"""
    return abs(line.left - other.left) < ALIGNED * max(line.height, other.height)
