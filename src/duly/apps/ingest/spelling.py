"""One spelling for what people and cameras write in many: letters, blanks, capitals, times, and what only looks alike.

A canonical text is NFC, has one blank between words and none around them, and where a field is a name each word begins
with a capital and goes on small. Only letters that have exactly one capital and one small form change case, so that the
form of a form is itself. What is compared, and never shown, is folded further: no accents, no punctuation, and what a
camera takes for another letter is that letter.
"""

import re
import unicodedata
from datetime import date
from functools import lru_cache

from duly.canonical_json import Json
from duly.errors import InvalidArgument

__all__ = [
    "MINUTES_OF_DAY",
    "as_name",
    "as_text",
    "cases_of",
    "folded",
    "folded_number",
    "has_two_cases",
    "minutes",
    "read_date",
    "read_time",
    "read_words",
    "repaired",
    "shown",
    "tidied",
]

MINUTES_OF_DAY = 24 * 60
TIME = re.compile(r"\s*(\d{1,2})\s*[:.\s]\s*(\d{1,2})\s*")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
WORD_BORDERS = " -/•·("
SHOWN_CHARACTERS = 40
BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[01|](?=[^\W\d_])")
MISREAD = {"0": "o", "1": "i", "|": "l"}
LOOKS_LIKE_O_OR_L = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l"})
MISREAD_DIGITS = re.compile(r"[oli]*\d[\doli]*")
ACCENTS = 200  # combining classes from here on are marks above or below a letter
SHAPES = range(0x25A0, 0x2600)  # dots and boxes, which stand between words as a bullet does
LOOKS_LIKE_A_DIGIT = str.maketrans({"o": "0", "l": "1", "i": "1", "|": "1"})


def as_text(value: str) -> str:
    """The text in one spelling; its capitals stay."""
    return " ".join(unicodedata.normalize("NFC", value).split())


@lru_cache(maxsize=16384)
def as_name(value: str) -> str:
    """The text as a name is written: each word with a capital, whatever it was."""
    letters: list[str] = []
    is_first = True
    for letter in as_text(value):
        letters.append(cases_of(letter)[is_first])
        is_first = letter in WORD_BORDERS
    return as_text("".join(letters))


@lru_cache(maxsize=1024)
def cases_of(letter: str) -> tuple[str, str]:
    """Its small form and its capital; itself where it has not both."""
    return (letter.lower(), letter.upper()) if has_two_cases(letter) else (letter, letter)


def has_two_cases(letter: str) -> bool:
    """Has it one capital and one small form, each the other's? ß has not, and keeps the form it has."""
    small, capital = letter.lower(), letter.upper()
    return (
        small != capital and len(small) == len(capital) == 1 and small.upper() == capital and capital.lower() == small
    )


def tidied(value: Json) -> Json:
    """Any JSON value, with every text in it in one spelling."""
    match value:
        case str():
            return as_text(value)
        case list():
            return [tidied(each) for each in value]
        case dict():
            return {key: tidied(each) for key, each in value.items()}
        case _:
            return value


# Times ----------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def as_time(text: str) -> str | None:
    """HH:MM, or None when it spells no time; 24:00 is the midnight that ends a day."""
    found = TIME.fullmatch(unicodedata.normalize("NFKC", text))
    if not found:
        return None
    hour, minute = int(found[1]), int(found[2])
    if (hour, minute) == (24, 0):
        return "00:00"
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else None


def read_time(place: str, value: Json) -> str:
    """The time that a field spells: 9:5, 09.05 and 09 05 are 09:05."""
    found = as_time(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidArgument(f"{place}: must be a time such as 10:00, not {shown(value)}")
    return found


def minutes(time: str) -> int:
    """Minutes since midnight of a canonical time."""
    return int(time[:2]) * 60 + int(time[3:])


def read_date(place: str, value: Json) -> date:
    """The day that a field spells, as ISO 8601 does."""
    try:
        if not isinstance(value, str) or not DATE.fullmatch(value):
            raise ValueError
        found = date.fromisoformat(value)
    except ValueError:
        raise InvalidArgument(f"{place}: must be a day such as 2026-02-10, not {shown(value)}") from None
    if not 2000 <= found.year < 2200:
        raise InvalidArgument(f"{place}: must lie in the years 2000 to 2199, not {shown(value)}")
    return found


def shown(value: Json) -> str:
    """A value in a sentence, not too much of it."""
    text = "missing" if value is None else ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


# Only for comparing ---------------------------------------------------------------------------------------------------


def repaired(text: str) -> str:
    """The text without what a camera makes of letters: 0, 1 and | between two of them."""
    return BETWEEN_LETTERS.sub(lambda found: MISREAD[found[0]], text)


@lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """What is left to compare of a word: no accents, no case, no punctuation, look-alikes one."""
    bare = "".join(
        letter for letter in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(letter)
    )
    return "".join(letter for letter in bare.translate(LOOKS_LIKE_O_OR_L) if letter.isalnum())


@lru_cache(maxsize=4096)
def folded_number(text: str) -> str:
    """The same for a street number, whose look-alikes are digits: lO is 10, and 10 is not o."""
    bare = unicodedata.normalize("NFKD", text.casefold()).translate(LOOKS_LIKE_A_DIGIT)
    return "".join(letter for letter in bare if letter.isalnum())


@lru_cache(maxsize=16384)
def read_words(text: str) -> tuple[str, ...]:
    """What a reader sees in a text, word by word: letters, digits and symbols in their order.

    Case, accents, punctuation, blanks, Unicode form and what a camera confuses within a word or a number do not count.
    """
    bare = repaired("".join(map(_seen, unicodedata.normalize("NFKD", text.casefold()))))
    words = (word.translate(LOOKS_LIKE_A_DIGIT) if MISREAD_DIGITS.fullmatch(word) else word for word in bare.split())
    return tuple(words) or (as_text(text),)


def _seen(letter: str) -> str:
    """The letter as it is compared; a blank for what only separates words."""
    if letter.isalnum() or letter == "|":
        return letter
    category = unicodedata.category(letter)
    if category == "Cf" or unicodedata.combining(letter) >= ACCENTS:
        return ""
    if category == "So" and ord(letter) not in SHAPES:
        return f" {letter} "
    return letter if category.startswith("M") else " "
