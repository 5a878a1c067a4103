"""Correct å, ä and ö by a list of Swedish words: places, first names, parts of surnames, words of schedules."""

from collections import defaultdict
from functools import cache
from pathlib import Path

from duly.apps.ingest.ocr.letters import (
    SAME_SHAPE_CAPITALS,
    drop_one_swedish_letter,
    fold,
    has_diacritic,
    insert_missing_letter,
)

WORD_LIST = Path(__file__).with_name("swedish_words.txt")
MIN_KNOWN_LENGTH = 3  # letters of a word, a prefix or a suffix that is looked up
MIN_UNAMBIGUOUS_LENGTH = 6  # letters: a shorter word is another one without its diacritics too often


def correct_by_word_list(word: str) -> str:
    """Return the word as the list spells it; unchanged if it is not listed, or with several spellings."""
    if len(word) < MIN_KNOWN_LENGTH:
        return word
    full_words, prefixes, suffixes = known_words()
    folded = fold(word)
    if spellings := full_words.get(folded):
        if len(spellings) > 1:
            return word
        return apply_spelling(word, *spellings, is_unambiguous=len(word) >= MIN_UNAMBIGUOUS_LENGTH)
    if longer := words_missing_letter().get(folded):
        return insert_missing_letter(word, longer)
    for length in range(len(folded) - 1, MIN_KNOWN_LENGTH - 1, -1):
        if (prefix := prefixes.get(folded[:length])) is not None:
            return apply_spelling(word[:length], prefix) + correct_suffix(word[length:], suffixes)
    return correct_suffix(word, suffixes)


def correct_suffix(word: str, suffixes: dict[str, str]) -> str:
    """Return the word with its longest listed suffix as the list spells it."""
    folded = fold(word)
    for length in range(len(folded), MIN_KNOWN_LENGTH - 1, -1):
        if (suffix := suffixes.get(folded[-length:])) is not None:
            return word[:-length] + apply_spelling(word[-length:], suffix)
    return word


def apply_spelling(word: str, spelling: str, *, is_unambiguous: bool = False) -> str:
    """Return the word with the diacritics of a spelling, in its own case.

    Capitals and letters with another diacritic are always corrected; lower-case letters without one only if the word
    is unambiguous, because Backa is not bäcka.
    """
    letters = [
        letter if letter.islower() and not has_diacritic(letter) and not is_unambiguous else listed
        for letter, listed in zip(word, spelling.lower(), strict=True)
    ]
    if spelling[0].isupper() and letters[0] in SAME_SHAPE_CAPITALS:
        letters[0] = letters[0].upper()  # a name, whose capital was taken for a lower-case letter
    return "".join(right.upper() if letter.isupper() else right for letter, right in zip(word, letters, strict=True))


@cache
def known_words() -> tuple[dict[str, frozenset[str]], dict[str, str], dict[str, str]]:
    """Return the listed words, then prefixes and suffixes, all by their folded letters."""
    full_words, prefixes, suffixes = defaultdict[str, set[str]](set), dict[str, str](), dict[str, str]()
    lines = WORD_LIST.read_text(encoding="utf-8").splitlines()
    for word in (word for line in lines if not line.startswith("#") for word in line.split()):
        spelling = word.strip("-")
        if word.endswith("-"):
            prefixes[fold(spelling)] = spelling
        elif word.startswith("-"):
            suffixes[fold(spelling)] = spelling
        else:
            full_words[fold(spelling)].add(spelling)
    return {folded: frozenset(spellings) for folded, spellings in full_words.items()}, prefixes, suffixes


@cache
def words_missing_letter() -> dict[str, str]:
    """Return the listed words by their folded letters without one å, ä or ö, where only one word fits."""
    full_words, _, _ = known_words()
    found = defaultdict[str, set[str]](set)
    for spelling in (spelling for spellings in full_words.values() for spelling in spellings):
        for folded in drop_one_swedish_letter(spelling):
            found[folded].add(spelling)
    return {folded: next(iter(words)) for folded, words in found.items() if len(words) == 1}
