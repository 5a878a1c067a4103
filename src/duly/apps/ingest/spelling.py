"""Normalize what people write and OCR reads in several ways: Unicode, blanks, case, times, and similar-looking letters.

A canonical text is NFC, with single blanks between words and none around them; in a name each word starts with
a capital, followed by small letters. Only letters with exactly one capital and one small form change case, which makes
the form idempotent. Text that is only compared, never displayed, is folded further: no accents, no punctuation, and
letters that OCR confuses are the same letter.
"""

import re
import unicodedata
from datetime import date
from functools import lru_cache

from duly.canonical_json import Json
from duly.errors import InvalidArgument

MINUTES_OF_DAY = 24 * 60
TIME = re.compile(r"\s*(\d{1,2})\s*[:.\s]\s*(\d{1,2})\s*")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
WORD_SEPARATORS = " -/•·("
MAX_VALUE_CHARACTERS = 40
BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[01|](?=[^\W\d_])")
MISREAD = {"0": "o", "1": "i", "|": "l"}
LOOKS_LIKE_O_OR_L = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l"})
MISREAD_DIGITS = re.compile(r"[oli]*\d[\doli]*")
ACCENTS = 200  # from this combining class on, a mark is above or below a letter
SHAPES = range(0x25A0, 0x2600)  # dots and boxes, which separate words like a bullet
LOOKS_LIKE_A_DIGIT = str.maketrans({"o": "0", "l": "1", "i": "1", "|": "1"})


def as_text(value: str) -> str:
    """Return the text in canonical spelling, with its case."""
    return " ".join(unicodedata.normalize("NFC", value).split())


@lru_cache(maxsize=16384)
def as_name(value: str) -> str:
    """Return the text as a name: each word starts with a capital."""
    letters: list[str] = []
    is_word_start = True
    for letter in as_text(value):
        letters.append(case_forms(letter)[is_word_start])
        is_word_start = letter in WORD_SEPARATORS
    return as_text("".join(letters))


@lru_cache(maxsize=1024)
def case_forms(letter: str) -> tuple[str, str]:
    """Return the small form and the capital of a letter; the letter itself where it does not have both."""
    return (letter.lower(), letter.upper()) if has_two_cases(letter) else (letter, letter)


def has_two_cases(letter: str) -> bool:
    """Return whether a letter has one capital and one small form that map to each other; ß does not."""
    small, capital = letter.lower(), letter.upper()
    return (
        small != capital and len(small) == len(capital) == 1 and small.upper() == capital and capital.lower() == small
    )


def normalize_texts(value: Json) -> Json:
    """Return a JSON value with every text in it in canonical spelling."""
    match value:
        case str():
            return as_text(value)
        case list():
            return [normalize_texts(each) for each in value]
        case dict():
            return {key: normalize_texts(each) for key, each in value.items()}
        case _:
            return value


# Times ----------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def as_time(text: str) -> str | None:
    """Return the time as HH:MM, or None when the text is not a time; 24:00 becomes 00:00."""
    found = TIME.fullmatch(unicodedata.normalize("NFKC", text))
    if not found:
        return None
    hour, minute = int(found[1]), int(found[2])
    if (hour, minute) == (24, 0):
        return "00:00"
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else None


def parse_time(path: str, value: Json) -> str:
    """Parse the time at a path of the payload: 9:5, 09.05 and 09 05 are 09:05."""
    found = as_time(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidArgument(f"{path}: must be a time such as 10:00, not {format_value(value)}")
    return found


def minutes_since_midnight(time: str) -> int:
    """Return the minutes since midnight of a canonical time."""
    return int(time[:2]) * 60 + int(time[3:])


def parse_date(path: str, value: Json) -> date:
    """Parse the ISO 8601 date at a path of the payload."""
    try:
        if not isinstance(value, str) or not DATE.fullmatch(value):
            raise ValueError
        found = date.fromisoformat(value)
    except ValueError:
        raise InvalidArgument(f"{path}: must be a day such as 2026-02-10, not {format_value(value)}") from None
    if not 2000 <= found.year < 2200:
        raise InvalidArgument(f"{path}: must lie in the years 2000 to 2199, not {format_value(value)}")
    return found


def format_value(value: Json) -> str:
    """Format a value for an error message, shortened."""
    text = "missing" if value is None else ascii(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}..."


# Comparing ------------------------------------------------------------------------------------------------------------


def repair_misread_letters(text: str) -> str:
    """Replace 0, 1 and | between letters by the letters that OCR misread."""
    return BETWEEN_LETTERS.sub(lambda found: MISREAD[found[0]], text)


@lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """Fold a word for comparing: no accents, no case, no punctuation, similar-looking letters equal."""
    bare = "".join(
        letter for letter in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(letter)
    )
    return "".join(letter for letter in bare.translate(LOOKS_LIKE_O_OR_L) if letter.isalnum())


@lru_cache(maxsize=4096)
def folded_number(text: str) -> str:
    """Fold a street number, in which similar-looking letters are digits: lO is 10."""
    bare = unicodedata.normalize("NFKD", text.casefold()).translate(LOOKS_LIKE_A_DIGIT)
    return "".join(letter for letter in bare if letter.isalnum())


@lru_cache(maxsize=16384)
def comparable_words(text: str) -> tuple[str, ...]:
    """Return the words of a text for comparing: letters, digits and symbols in order.

    Case, accents, punctuation, blanks, Unicode form and letters that OCR confuses do not count.
    """
    bare = repair_misread_letters("".join(map(_comparable, unicodedata.normalize("NFKD", text.casefold()))))
    words = (word.translate(LOOKS_LIKE_A_DIGIT) if MISREAD_DIGITS.fullmatch(word) else word for word in bare.split())
    return tuple(words) or (as_text(text),)


def _comparable(letter: str) -> str:
    """Return a letter as it is compared; a blank for a separator."""
    if letter.isalnum() or letter == "|":
        return letter
    category = unicodedata.category(letter)
    if category == "Cf" or unicodedata.combining(letter) >= ACCENTS:
        return ""
    if category == "So" and ord(letter) not in SHAPES:
        return f" {letter} "
    return letter if category.startswith("M") else " "
