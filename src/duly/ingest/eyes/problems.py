"""What is wrong with a page: everything that cannot be right, or that a shift which was not seen may have left."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from duly.ingest.eyes.cards import Card
from duly.ingest.eyes.chips import is_heading, is_navigation
from duly.ingest.eyes.lines import Line
from duly.ingest.eyes.parts import Block, Parts

__all__ = ["leftovers", "problems_of"]

LEAST_CONFIDENCE = 0.6  # of a range of times
HOLE = 0.7  # of a line's height: so much more than in all other blocks between two rows is a row too little
WIDER = 1.45  # times what usually is between two rows
MORE_ROWS = 3  # than usual: a longer title, an address and a note are fewer
ALIGNED = 0.8  # of a line's height: so exactly lines begin below each other


def problems_of(parts: Parts, cards: Sequence[Card]) -> list[str]:
    """All problems of a page, in words; what its end hides is none."""
    whole = [block for block in parts.blocks if not parts.is_cut(block)]
    return [
        *(problem for block in whole for problem in problems_of_times(block)),
        *(f"a line of the shift {block.line.text!r} cannot be read" for block in with_holes(parts.blocks)),
        *(f"{rest[0].text!r} after {block.line.text!r} belongs to no shift" for block, rest in left_after(parts)),
        *(f"{aside[0].text!r} beside {block.line.text!r} belongs to no shift" for block, aside in left_beside(parts)),
        *(f"{line.text!r} belongs to no shift" for line in left_outside(parts)),
        *(f"the shift {card.start}-{card.end} {card.title!r} stands there twice" for card in repeated(cards)),
    ]


def problems_of_times(block: Block) -> list[str]:
    """Why times cannot be right, or be relied on, or stand for nothing."""
    if block.times.problem:
        return [block.times.problem]
    is_legible = block.line.confidence >= LEAST_CONFIDENCE
    return [
        *([] if is_legible else [f"the times {block.line.text!r} are hardly legible"]),
        *([] if block.rows else [f"the shift {block.line.text!r} has no title"]),
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
