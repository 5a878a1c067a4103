"""Compare letters without their case and diacritics, and correct the Swedish letters å, ä and ö.

The list of Swedish words has places, first names, parts of surnames, and words of schedules.
"""

import re
import unicodedata
from collections import defaultdict
from functools import cache
from pathlib import Path

WORD = re.compile(r"[^\W\d_]+")
BASE_LETTERS = frozenset("ao")  # of å, ä and ö
SWEDISH_LETTERS = frozenset("åäöÅÄÖ")
FOREIGN_TO_SWEDISH = str.maketrans(
    "àâãāăÀÁÂÃĀĂòôõōŏÒÔÕŌŎ", "åååååÅÅÅÅÅÅöööööÖÖÖÖÖ"
)  # how engines misread a ring or dots
SAME_SHAPE_CAPITALS = frozenset("cosuvwxzö")  # the capital is only larger, so engines confuse the case
MIN_MISSING_LETTER_LENGTH = 6  # characters: in a shorter word a missing letter is not assumed
WORD_LIST = Path(__file__).with_name("swedish_words.txt")
MIN_KNOWN_LENGTH = 3  # letters of a word, a prefix or a suffix that is looked up
MIN_UNAMBIGUOUS_LENGTH = 6  # letters: a shorter word is another one without its diacritics too often


def fold(text: str) -> str:
    """Return the text without diacritics and case."""
    return "".join(fold_letter(letter) for letter in unicodedata.normalize("NFC", text))


@cache
def fold_letter(letter: str) -> str:
    """Return a letter in lower case without diacritics; unchanged if that would not be one letter."""
    found = "".join(
        part for part in unicodedata.normalize("NFKD", letter.casefold()) if not unicodedata.combining(part)
    )
    return found if len(found) == 1 else letter


def has_diacritic(letter: str) -> bool:
    """Return whether a letter has a diacritic of any kind."""
    return fold_letter(letter) != letter.casefold()


def may_have_diacritic(text: str) -> bool:
    """Return whether a letter of a text may be å, ä or ö."""
    return any(letter in BASE_LETTERS for letter in fold(text))


def split_words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def drop_one_swedish_letter(word: str) -> list[str]:
    """Return the folded word without each of its Swedish letters, which an engine may miss completely.

    Short words give nothing, and neither does a letter beside its like: such a pair is not missed.
    """
    if len(word) < MIN_MISSING_LETTER_LENGTH:
        return []
    folded = fold(word)
    return [
        folded[:at] + folded[at + 1 :]
        for at, letter in enumerate(word)
        if letter in SWEDISH_LETTERS and folded[at] not in (folded[at - 1 : at], folded[at + 1 : at + 2])
    ]


def insert_missing_letter(word: str, longer: str | None) -> str:
    """Return the word with the Swedish letter that only the longer spelling has; unchanged if there is none."""
    if longer is None:
        return word
    at = next(at for at, letter in enumerate(longer) if letter in SWEDISH_LETTERS and differs_only_at(at, word, longer))
    return word[:at] + (longer[at].upper() if word.isupper() else longer[at]) + word[at:]


def differs_only_at(at: int, word: str, longer: str) -> bool:
    """Return whether two words are the same except for one letter of the longer one."""
    return fold(word) == fold(longer[:at] + longer[at + 1 :])


# The list of Swedish words --------------------------------------------------------------------------------------------


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
