"""Titles of several lines: how many rows of a block are its title.

    Weekly cleaning of the            a title that did not fit, and goes on
    kitchen and the hall              in the second row
    Anna Bua                          customer
    Brenvik                           place

What tells: a title that ends in a comma or an "and", or goes on in small letters; else that the first word of the
second row would not have fitted after the title, that the second row looks like the title and unlike what follows, and
that the block has a row more than others. Where these differ, that is a problem.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.parts import Block, Parts
from duly.apps.ingest.ocr.spelling import SHAPED_ALIKE

__all__ = ["Titles", "titles_of"]

USUAL_ROWS = 3  # title, customer, place
SAME_HEIGHT = 0.22
SAME_WEIGHT = 0.2
SAME_CONTRAST = 0.1
SURELY_LIGHTER = 0.82  # of the weight of a title's strokes
EXACTLY = 0.92  # and one that is set alike
CERTAINLY_LIGHTER = 0.72
MAX_TITLE_ROWS = 3  # rows
LONG = 0.7  # of the width of its column: so long is a title that did not fit
GOES_ON = re.compile(
    r"(?:[,;&+/(-]|\b(?:och|and|und|ja|samt|sekä|eller|or|oder|tai|med|with|mit|hos|för|for|für|i|in|på))$"
)
SMALL_WORDS = frozenset({"i", "å"})  # other single letters are icons that were read
SPARE = 1.0  # letters: as much room may be left at the end of a line that was wrapped


@dataclass(frozen=True, slots=True)
class Titles:
    """What the blocks of a page tell about their titles."""

    limits: dict[Block, float]  # how far right the text of a block may reach
    rights: dict[Block, float]  # where the column of a block ends
    looks_apart: bool  # a title looks unlike the row below it, where it certainly has one row
    usual_rows: int  # of the blocks whose title certainly has one row
    runs: dict[Block, int]  # how many rows are surely set as the title, where that tells on this page

    def rows_of_title(self, block: Block) -> int:
        """Return how many rows are the title."""
        if block in self.runs:
            return self.runs[block]
        rows = list(block.rows)
        count = 2 if self.is_wrapped(block) else 1
        while 1 < count < len(rows) - 1 and says_more(rows[count - 1].text, rows[count].text):
            count += 1
        return count

    def is_wrapped(self, block: Block) -> bool:
        """Check whether a title goes on in the second row."""
        rows = list(block.rows)
        if block in self.runs or len(rows) < 2:
            return self.runs.get(block, 1) > 1
        if says_more(rows[0].text, rows[1].text, is_long=len(rows) > USUAL_ROWS):
            return True
        return len(rows) > self.usual_rows and self.looks_wrapped(block)

    def looks_wrapped(self, block: Block) -> bool:
        """Check whether the second row is set like the title and unlike what follows."""
        rows = list(block.rows)
        if not self.may_go_on(block) or not is_alike(rows[0], rows[1]):
            return False
        return self.looks_apart or (len(rows) > USUAL_ROWS and not is_alike(rows[1], rows[2]))

    def is_undecided(self, block: Block) -> bool:
        """Check whether a title may go on in the second row, and the page does not tell."""
        rows = list(block.rows)
        if block in self.runs or len(rows) < 2:
            return False
        if self.runs and block not in self.runs:
            return True
        if self.is_wrapped(block):
            return False
        if len(rows) <= self.usual_rows:
            return self.looks_wrapped(block)
        return self.usual_rows > 1 and (len(rows) > USUAL_ROWS or self.may_go_on(block))

    def may_go_on(self, block: Block) -> bool:
        """Check whether the first word of the second row would not have fitted after the title."""
        title, more = block.rows[:2]
        letter = (more.right - more.left) / max(1, len(more.text))
        word = len(more.text.split()[0]) if more.text.split() else 0
        is_long = title.right > title.left + LONG * (self.rights[block] - title.left)
        return is_long and title.right + (1 + word + SPARE) * letter > self.limits[block]


def titles_of(parts: Parts) -> Titles:
    """Look at all blocks of a page."""
    limits = {
        block: max([row.right for other in column for row in other.rows], default=block.line.right)
        for column in parts.columns
        for block in column
    }
    rights = {block: parts.right_of(block) for block in parts.blocks}
    plain = Titles(limits, rights, looks_apart=False, usual_rows=0, runs={})
    usual = usual_rows_of(parts.blocks, plain)
    return Titles(limits, rights, looks_apart_of(parts.blocks, plain, usual), usual, runs_of(parts.blocks))


def runs_of(blocks: Sequence[Block]) -> dict[Block, int]:
    """Return how many rows of each block are set as its first, where the strokes of titles are surely heavier.

    Every block has then a lighter row after them. Strokes of one row may be measured wrong, so a second row is taken
    for the title only where the block has a row more than those with one, or where words tell. Blocks in which strokes
    and rows differ are left out: they are undecided.
    """
    runs: dict[Block, int] = {}
    for block in blocks:
        rows = list(block.rows)
        if len(rows) < 2 or rows[0].ink is None:
            return {}
        run = next((nth for nth, row in enumerate(rows) if not is_as_heavy(row, rows[0])), len(rows))
        if run == len(rows) or run > MAX_TITLE_ROWS:
            return {}
        runs[block] = run
    single = max((len(block.rows) for block, run in runs.items() if run == 1), default=0)
    longer = [block for block, run in runs.items() if run > 1]
    telling = [block for block in longer if says_more(block.rows[0].text, block.rows[1].text, is_long=True)]
    if not single and 2 * len(telling) < len(longer):
        return {}
    usual = single or min((len(block.rows) - told_rows(block) + 1 for block in telling), default=0)
    for block in longer:
        wanted = len(block.rows) - usual + 1
        if 1 < wanted <= runs[block] and (block in telling or len(block.rows) > USUAL_ROWS):
            runs[block] = wanted
        elif block in telling:
            runs[block] = min(runs[block], 2)
        elif is_surely_wrapped(block):
            del runs[block]
        else:
            runs[block] = 1
    return runs


def told_rows(block: Block) -> int:
    """Return how many rows are the title by words alone."""
    rows = [row.text for row in block.rows]
    return 1 + next((nth for nth, pair in enumerate(pairwise(rows)) if not says_more(*pair, is_long=True)), 0)


def is_surely_wrapped(block: Block) -> bool:
    """Check whether the second row is set exactly as the title, and the third certainly is not."""
    weights = [row.ink.weight if row.ink else 0.0 for row in block.rows[:3]]
    return len(weights) == 3 and weights[1] > EXACTLY * weights[0] and weights[2] < CERTAINLY_LIGHTER * weights[0]


def is_as_heavy(row: Line, title: Line) -> bool:
    """Check whether the strokes of a row are as heavy as those of the title."""
    return row.ink is not None and title.ink is not None and row.ink.weight > SURELY_LIGHTER * title.ink.weight


def says_more(title: str, more: str, *, is_long: bool = False) -> bool:
    """Check whether words tell that a title goes on: it ends in a comma or an "and", or the next row begins small.

    A letter whose capital only is larger counts as small where there are rows enough.
    """
    word = next(iter(more.split()), "")
    is_bracketed = more.startswith("(")
    is_small = (
        (len(word) > 1 or word in SMALL_WORDS)
        and word[0].islower()
        and (is_long or word[0] not in SHAPED_ALIKE)
        and word[0] != "l"
    )
    has_open_bracket = title.count("(") > title.count(")")
    return is_small or is_bracketed or has_open_bracket or bool(GOES_ON.search(title.strip().casefold()))


def usual_rows_of(blocks: Sequence[Block], plain: Titles) -> int:
    """Return how many rows blocks have whose title certainly is in one row; 0 where no block is that certain."""
    counts = [
        len(block.rows)
        for block in blocks
        if len(block.rows) > 1 and not plain.may_go_on(block) and not says_more(block.rows[0].text, block.rows[1].text)
    ]
    return min(counts, default=0)


def looks_apart_of(blocks: Sequence[Block], plain: Titles, usual: int) -> bool:
    """Check whether titles look unlike customers: in blocks whose title certainly has one row, or else by the rest."""
    certain = [block for block in blocks if 1 < len(block.rows) <= usual and not plain.may_go_on(block)]
    if certain:
        return sum(is_alike(*block.rows[:2]) for block in certain) <= len(certain) / 4
    several = [block for block in blocks if len(block.rows) > 2]
    return bool(several) and all(is_alike(*block.rows[:2]) and not is_alike(*block.rows[1:3]) for block in several)


def is_alike(one: Line, other: Line) -> bool:
    """Check whether two rows look alike, as far as their size and their strokes tell."""
    if abs(one.height - other.height) > SAME_HEIGHT * max(one.height, other.height):
        return False
    if one.ink is None or other.ink is None:
        return True
    is_same_weight = abs(one.ink.weight - other.ink.weight) <= SAME_WEIGHT * max(one.ink.weight, other.ink.weight)
    return is_same_weight and abs(one.ink.contrast - other.ink.contrast) <= SAME_CONTRAST
