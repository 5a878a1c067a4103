"""Detect wrapped titles: how many rows of a block are its title.

    Weekly cleaning of the            a title that did not fit, and continues
    kitchen and the hall              in the second row
    Anna Bua                          customer
    Brenvik                           location

The evidence: a title that ends in a comma or an "and", or continues in lower case; else that the first word of the
second row would not have fitted after the title, that the second row looks like the title and unlike what follows, and
that the block has one row more than others. If these contradict each other, that is a problem.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from duly.apps.ingest.ocr.letters import SAME_SHAPE_CAPITALS
from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.segmentation import Block, PageSegments

USUAL_ROWS = 3  # title, customer, location
MAX_TITLE_ROWS = 3
# Two rows look alike if they differ by at most:
HEIGHT_TOLERANCE = 0.22  # of the larger height
STROKE_TOLERANCE = 0.2  # of the larger stroke width
CONTRAST_TOLERANCE = 0.1  # of full contrast
# Shares of the stroke width of a title's first row.
MIN_TITLE_STROKE = 0.82  # a row with heavier strokes may be set as the title
MIN_SAME_STROKE = 0.92  # a row with heavier strokes is certainly set as the title
MAX_LIGHT_STROKE = 0.72  # a row with lighter strokes certainly is not
MIN_WRAPPED_LENGTH = 0.7  # of the width of its column: how long a title is that did not fit
MAX_SPARE_CHARS = 1.0  # characters that may still have fitted at the end of a line that was wrapped
CONTINUES = re.compile(
    r"(?:[,;&+/(-]|\b(?:och|and|und|ja|samt|sekä|eller|or|oder|tai|med|with|mit|hos|för|for|für|i|in|på))$"
)
ONE_LETTER_WORDS = frozenset({"i", "å"})  # other single letters are misread icons


@dataclass(frozen=True, slots=True)
class TitleAnalysis:
    """What the blocks of a page show about their titles."""

    text_rights: dict[Block, float]  # right edge of the longest row in the column of a block
    column_rights: dict[Block, float]  # right edge of the column of a block
    has_distinct_titles: bool  # titles that certainly have one row look unlike the row below them
    usual_rows: int  # of the blocks whose title certainly has one row
    rows_by_stroke: dict[Block, int]  # rows of the title by their strokes, if these are conclusive on this page

    def title_row_count(self, block: Block) -> int:
        """Return how many rows are the title."""
        if block in self.rows_by_stroke:
            return self.rows_by_stroke[block]
        rows = list(block.rows)
        count = 2 if self.is_wrapped(block) else 1
        while 1 < count < len(rows) - 1 and continues_in(rows[count - 1].text, rows[count].text):
            count += 1
        return count

    def is_wrapped(self, block: Block) -> bool:
        """Return whether a title continues in the second row."""
        rows = list(block.rows)
        if block in self.rows_by_stroke or len(rows) < 2:
            return self.rows_by_stroke.get(block, 1) > 1
        if continues_in(rows[0].text, rows[1].text, has_extra_row=len(rows) > USUAL_ROWS):
            return True
        return len(rows) > self.usual_rows and self.looks_wrapped(block)

    def looks_wrapped(self, block: Block) -> bool:
        """Return whether the second row is set like the title and unlike what follows."""
        rows = list(block.rows)
        if not self.may_be_wrapped(block) or not looks_alike(rows[0], rows[1]):
            return False
        return self.has_distinct_titles or (len(rows) > USUAL_ROWS and not looks_alike(rows[1], rows[2]))

    def is_undecided(self, block: Block) -> bool:
        """Return whether a title may continue in the second row, and the page does not show which."""
        rows = list(block.rows)
        if block in self.rows_by_stroke or len(rows) < 2:
            return False
        if self.rows_by_stroke and block not in self.rows_by_stroke:
            return True
        if self.is_wrapped(block):
            return False
        if len(rows) <= self.usual_rows:
            return self.looks_wrapped(block)
        return self.usual_rows > 1 and (len(rows) > USUAL_ROWS or self.may_be_wrapped(block))

    def may_be_wrapped(self, block: Block) -> bool:
        """Return whether the first word of the second row would not have fitted after the title."""
        title, more = block.rows[:2]
        char_width = (more.right - more.left) / max(1, len(more.text))
        word = len(more.text.split()[0]) if more.text.split() else 0
        is_long = title.right > title.left + MIN_WRAPPED_LENGTH * (self.column_rights[block] - title.left)
        return is_long and title.right + (1 + word + MAX_SPARE_CHARS) * char_width > self.text_rights[block]


def analyse_titles(segments: PageSegments) -> TitleAnalysis:
    """Analyse the titles of all blocks of a page."""
    text_rights = {
        block: max([row.right for other in column for row in other.rows], default=block.line.right)
        for column in segments.columns
        for block in column
    }
    column_rights = {block: segments.column_right(block) for block in segments.blocks}
    initial = TitleAnalysis(text_rights, column_rights, has_distinct_titles=False, usual_rows=0, rows_by_stroke={})
    usual = count_usual_rows(segments.blocks, initial)
    return TitleAnalysis(
        text_rights,
        column_rights,
        are_titles_distinct(segments.blocks, initial, usual),
        usual,
        count_rows_by_stroke(segments.blocks),
    )


def count_rows_by_stroke(blocks: Sequence[Block]) -> dict[Block, int]:
    """Return how many rows of each block are its title, if the strokes of titles are certainly heavier on this page.

    Every block then has a lighter row after them. The strokes of one row may be measured wrong, so a second row counts
    as title only if the block has one row more than those with one, or if its words show it. Blocks in which strokes
    and rows contradict each other are left out: they are undecided.
    """
    counts: dict[Block, int] = {}
    for block in blocks:
        rows = list(block.rows)
        if len(rows) < 2 or rows[0].ink is None:
            return {}
        heavy = next((nth for nth, row in enumerate(rows) if not is_as_heavy(row, rows[0])), len(rows))
        if heavy == len(rows) or heavy > MAX_TITLE_ROWS:
            return {}
        counts[block] = heavy
    single = max((len(block.rows) for block, count in counts.items() if count == 1), default=0)
    longer = [block for block, count in counts.items() if count > 1]
    by_words = [block for block in longer if continues_in(block.rows[0].text, block.rows[1].text, has_extra_row=True)]
    if not single and 2 * len(by_words) < len(longer):
        return {}
    usual = single or min((len(block.rows) - count_rows_by_words(block) + 1 for block in by_words), default=0)
    for block in longer:
        expected = len(block.rows) - usual + 1
        if 1 < expected <= counts[block] and (block in by_words or len(block.rows) > USUAL_ROWS):
            counts[block] = expected
        elif block in by_words:
            counts[block] = min(counts[block], 2)
        elif is_certainly_wrapped(block):
            del counts[block]
        else:
            counts[block] = 1
    return counts


def count_rows_by_words(block: Block) -> int:
    """Return how many rows are the title by their words alone."""
    rows = [row.text for row in block.rows]
    return 1 + next((nth for nth, pair in enumerate(pairwise(rows)) if not continues_in(*pair, has_extra_row=True)), 0)


def is_certainly_wrapped(block: Block) -> bool:
    """Return whether the second row is certainly set as the title, and the third certainly is not."""
    widths = [row.ink.stroke_width if row.ink else 0.0 for row in block.rows[:3]]
    return len(widths) == 3 and widths[1] > MIN_SAME_STROKE * widths[0] and widths[2] < MAX_LIGHT_STROKE * widths[0]


def is_as_heavy(row: Line, title: Line) -> bool:
    """Return whether the strokes of a row are as heavy as those of the title."""
    if row.ink is None or title.ink is None:
        return False
    return row.ink.stroke_width > MIN_TITLE_STROKE * title.ink.stroke_width


def continues_in(title: str, more: str, *, has_extra_row: bool = False) -> bool:
    """Return whether words show that a title continues: it ends in a comma or an "and", or the next row in lower case.

    A first letter whose capital is only larger counts as lower case only if the block has an extra row.
    """
    word = next(iter(more.split()), "")
    is_bracketed = more.startswith("(")
    is_lower_case = (
        (len(word) > 1 or word in ONE_LETTER_WORDS)
        and word[0].islower()
        and (has_extra_row or word[0] not in SAME_SHAPE_CAPITALS)
        and word[0] != "l"
    )
    has_open_bracket = title.count("(") > title.count(")")
    return is_lower_case or is_bracketed or has_open_bracket or bool(CONTINUES.search(title.strip().casefold()))


def count_usual_rows(blocks: Sequence[Block], initial: TitleAnalysis) -> int:
    """Return how many rows blocks have whose title certainly has one row; 0 if there is no such block.

    Titles that words show to be wrapped count with one row, if no other block has as few rows as these.
    """
    single = [
        len(block.rows)
        for block in blocks
        if len(block.rows) > 1
        and not initial.may_be_wrapped(block)
        and not continues_in(block.rows[0].text, block.rows[1].text)
    ]
    wrapped = [len(block.rows) + 1 - count for block in blocks if (count := count_rows_by_words(block)) > 1]
    usual = min(single, default=0)
    return USUAL_ROWS if usual > USUAL_ROWS and max(wrapped, default=0) == USUAL_ROWS else usual


def are_titles_distinct(blocks: Sequence[Block], initial: TitleAnalysis, usual: int) -> bool:
    """Return whether titles look unlike customers: in blocks whose title certainly has one row, or else in the rest."""
    certain = [block for block in blocks if 1 < len(block.rows) <= usual and not initial.may_be_wrapped(block)]
    if certain:
        return sum(looks_alike(*block.rows[:2]) for block in certain) <= len(certain) / 4
    several = [block for block in blocks if len(block.rows) > 2]
    return bool(several) and all(
        looks_alike(*block.rows[:2]) and not looks_alike(*block.rows[1:3]) for block in several
    )


def looks_alike(one: Line, other: Line) -> bool:
    """Return whether two rows look alike, by their height and, if measured, their strokes."""
    if abs(one.height - other.height) > HEIGHT_TOLERANCE * max(one.height, other.height):
        return False
    if one.ink is None or other.ink is None:
        return True
    widest = max(one.ink.stroke_width, other.ink.stroke_width)
    is_same_stroke = abs(one.ink.stroke_width - other.ink.stroke_width) <= STROKE_TOLERANCE * widest
    return is_same_stroke and abs(one.ink.contrast - other.ink.contrast) <= CONTRAST_TOLERANCE
