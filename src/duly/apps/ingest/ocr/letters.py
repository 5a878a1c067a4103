"""Compare letters without their case and diacritics, and handle the Swedish letters å, ä and ö."""

import re
import unicodedata
from functools import cache

WORD = re.compile(r"[^\W\d_]+")
BASE_LETTERS = frozenset("ao")  # of å, ä and ö
SWEDISH_LETTERS = frozenset("åäöÅÄÖ")
FOREIGN_TO_SWEDISH = str.maketrans(
    "àâãāăÀÁÂÃĀĂòôõōŏÒÔÕŌŎ", "åååååÅÅÅÅÅÅöööööÖÖÖÖÖ"
)  # how engines misread a ring or dots
SAME_SHAPE_CAPITALS = frozenset("cosuvwxzö")  # the capital is only larger, so engines confuse the case
MIN_MISSING_LETTER_LENGTH = 6  # characters: in a shorter word a missing letter is not assumed


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
    """Check whether a letter has a diacritic of any kind."""
    return fold_letter(letter) != letter.casefold()


def may_have_diacritic(text: str) -> bool:
    """Check whether a letter of a text may be å, ä or ö."""
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
    """Check whether two words are the same except for one letter of the longer one."""
    return fold(word) == fold(longer[:at] + longer[at + 1 :])
