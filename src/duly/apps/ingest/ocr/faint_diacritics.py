"""Marks that an engine sees faintly: it settles for a bare letter, and gives its marked likes a part of the chances.

At every step along a line an engine gives each letter that it knows a chance, and takes the best. Of a plain letter the
marked likes together got less than one in two hundred. Of an Å whose ring is blurred or touches the letter, A may win,
but Å, Á, Ä and their like got one in thirty and more: something stands above, and in Swedish that is a ring or dots.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from duly.apps.ingest.ocr.spelling import NOT_SWEDISH

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["runs", "with_faint_marks"]

FAINT = 0.03  # of a letter's chances: what its marked likes must have together
BARE = {"Å": "A", "Ä": "A", "Ö": "O", "å": "a", "ä": "a", "ö": "o"}
FOREIGN = {"á": "å", "ó": "ö", "Ó": "Ö"}  # letters in their own right, as long as nothing else is seen in their place
Likes = Mapping[int, Mapping[int, Sequence[int]]]  # letter, mark that it may bear, everything that looks so


def with_faint_marks(chances: "NDArray[Any]", letters: Sequence[str]) -> "NDArray[Any]":
    """The chances of some lines, by line, step and letter, in which a faint mark wins over its bare letter."""
    likes, changed = likes_of(tuple(letters)), chances.copy()
    for line in changed:
        for letter, steps in runs(line.argmax(axis=1).tolist()):
            mark = faint_mark(line[steps].max(axis=0), letter, likes[letter]) if letter in likes else None
            if mark is not None:
                line[steps, mark] = 1.0 + line[steps, letter]
    return changed


def faint_mark(highest: "NDArray[Any]", letter: int, likes: Mapping[int, Sequence[int]]) -> int | None:
    """The mark that a letter seems to bear; None when it seems to be what it is."""
    others = float(highest[[like for same in likes.values() for like in same if like != letter]].sum())
    if others < FAINT * (others + float(highest[letter])):
        return None
    return max(likes, key=lambda mark: float(highest[likes[mark]].sum()))


def runs(best: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Every letter that wins, and the steps in a row at which it does: together they are read as one."""
    start = 0
    for letter, steps in groupby(best):
        end = start + len(list(steps))
        yield letter, slice(start, end)
        start = end


@lru_cache(maxsize=2)
def likes_of(letters: tuple[str, ...]) -> Likes:
    """By the place of a bare or foreign letter: the place of each mark that it may bear, and of all that look so."""
    at = {letter: place for place, letter in enumerate(letters)}
    found = defaultdict[int, defaultdict[int, list[int]]](lambda: defaultdict(list))
    for letter, place in at.items():
        mark = FOREIGN.get(letter) or letter.translate(NOT_SWEDISH)
        bare = BARE.get(mark, "")
        if bare in at and mark in at:
            found[at[bare]][at[mark]].append(place)
    for letter, mark in FOREIGN.items():
        if {letter, mark, BARE[mark]} <= at.keys():
            found[at[letter]] = found[at[BARE[mark]]]
    return found
