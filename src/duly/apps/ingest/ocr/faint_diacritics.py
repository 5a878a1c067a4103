"""Restore diacritics that the recogniser gives too little probability to win against the bare letter.

At every time step along a line the recogniser gives each character of its alphabet a probability, and greedy decoding
takes the best. For a plain letter, its variants with diacritics together get less than 0.5 %. For an Å whose ring is
blurred or touches the letter, A may win, but Å, Á, Ä and similar get 3 % and more: something is above the letter, and
in Swedish that is a ring or dots.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from duly.apps.ingest.ocr.letters import FOREIGN_TO_SWEDISH

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_DIACRITIC_SHARE = 0.03  # of the probability of a letter and its variants: what the variants must have together
BASE_LETTERS = {"Å": "A", "Ä": "A", "Ö": "O", "å": "a", "ä": "a", "ö": "o"}
# Letters of other languages, kept as they are as long as no Swedish variant has a share of the probability.
AMBIGUOUS_FOREIGN = {"á": "å", "ó": "ö", "Ó": "Ö"}
# By index of a letter: index of each Swedish letter that it may be, with the indexes of all its look-alikes.
Variants = Mapping[int, Mapping[int, Sequence[int]]]


def restore_faint_diacritics(probabilities: "NDArray[Any]", alphabet: Sequence[str]) -> "NDArray[Any]":
    """Return the probabilities (line, time step, character) with faint diacritics raised above their bare letters."""
    variants, changed = letter_variants(tuple(alphabet)), probabilities.copy()
    for line in changed:
        for letter, steps in character_runs(line.argmax(axis=1).tolist()):
            accented = find_faint(line[steps].max(axis=0), letter, variants[letter]) if letter in variants else None
            if accented is not None:
                line[steps, accented] = 1.0 + line[steps, letter]
    return changed


def find_faint(highest: "NDArray[Any]", letter: int, variants: Mapping[int, Sequence[int]]) -> int | None:
    """Return the Swedish letter that a letter seems to be; None if it seems to be what was read."""
    others = float(highest[[like for same in variants.values() for like in same if like != letter]].sum())
    if others < MIN_DIACRITIC_SHARE * (others + float(highest[letter])):
        return None
    return max(variants, key=lambda accented: float(highest[variants[accented]].sum()))


def character_runs(best: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Yield each winning character with its run of consecutive time steps, which decodes to one character."""
    start = 0
    for letter, steps in groupby(best):
        end = start + len(list(steps))
        yield letter, slice(start, end)
        start = end


@lru_cache(maxsize=2)
def letter_variants(alphabet: tuple[str, ...]) -> Variants:
    """Return the Swedish letters that each bare or foreign letter of an alphabet may be, with their look-alikes."""
    indexes = {letter: index for index, letter in enumerate(alphabet)}
    found = defaultdict[int, defaultdict[int, list[int]]](lambda: defaultdict(list))
    for letter, index in indexes.items():
        swedish = AMBIGUOUS_FOREIGN.get(letter) or letter.translate(FOREIGN_TO_SWEDISH)
        base = BASE_LETTERS.get(swedish, "")
        if base in indexes and swedish in indexes:
            found[indexes[base]][indexes[swedish]].append(index)
    for letter, swedish in AMBIGUOUS_FOREIGN.items():
        if {letter, swedish, BASE_LETTERS[swedish]} <= indexes.keys():
            found[indexes[letter]] = found[indexes[BASE_LETTERS[swedish]]]
    return found
