"""What a line says, when readers differ only in dots and rings.

An engine that reads any language now and then loses the ring of a capital Å, or makes it dots. Three witnesses mend
that, and change nothing else: neither letters nor their case.

    1. Swedish words that everybody knows (`words.txt`): places, first names, parts of surnames, words of schedules. A
       word is known when exactly one spelling there has its letters.
    2. a second engine that knows Swedish, where it read the same letters
    3. the first engine
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

__all__ = ["SHAPED_ALIKE", "bare", "may_bear_a_mark", "spelled", "with_lost_marks"]

WORDS = Path(__file__).with_name("words.txt")
LETTERS = re.compile(r"[^\W\d_]+")
TOO_NEAR = re.compile(
    r"(?<=\b[^\W\d_]\.)(?=[^\W\d_]{2})|(?<=[a-zåäöé]{2})(?=[A-ZÅÄÖ][a-zåäö])|(?<=[^\W_])(?=\()|(?<=[^\W\d_],)(?=[^\W\d_])"
)
BEARERS = frozenset("ao")
Mend = Callable[[str, str, bool], str]  # a letter, the same in another reading, and whether it begins the line
SHORTEST_KNOWN = 3
SHORTEST_SURE = 6
SHORTEST_WITH_LOSS = 6
MARKED = frozenset("åäöÅÄÖ")
NOT_SWEDISH = str.maketrans("àâãāăÀÁÂÃĀĂòôõōŏÒÔÕŌŎ", "åååååÅÅÅÅÅÅöööööÖÖÖÖÖ")  # as engines see a ring or dots
SHAPED_ALIKE = frozenset("cosuvwxzö")  # a capital that is a small letter, larger


def bare(text: str) -> str:
    """The letters without marks and case."""
    return "".join(bare_letter(letter) for letter in unicodedata.normalize("NFC", text))


@cache
def bare_letter(letter: str) -> str:
    """One letter without its marks, small; itself when it would not stay one letter."""
    found = "".join(
        part for part in unicodedata.normalize("NFKD", letter.casefold()) if not unicodedata.combining(part)
    )
    return found if len(found) == 1 else letter


def may_bear_a_mark(text: str) -> bool:
    """Is there a letter that could be å, ä or ö?"""
    return any(letter in BEARERS for letter in bare(text))


def spelled(text: str, second: str | None = None) -> str:
    """The text with the marks that its witnesses agree on."""
    text = unicodedata.normalize("NFC", text).translate(NOT_SWEDISH)
    agreed = frozenset[str]()
    if second:
        second = unicodedata.normalize("NFC", second).translate(NOT_SWEDISH)
        agreed = frozenset(LETTERS.findall(text.casefold())) & frozenset(LETTERS.findall(second.casefold()))
        text = with_marks_of(text, second, weighed)
    return LETTERS.sub(lambda found: found[0] if found[0].casefold() in agreed else known(found[0]), spaced(text))


def spaced(text: str) -> str:
    """The text with blanks where two words stand too near: J.Ek, BrfMåsen, Städning(extra), kök,bad."""
    return TOO_NEAR.sub(" ", text)


# The second engine ----------------------------------------------------------------------------------------------------


def with_lost_marks(text: str, again: str) -> str:
    """The text with what its bare letters bear in another reading by the same engine; it makes no marks up."""
    text, again = (unicodedata.normalize("NFC", each).translate(NOT_SWEDISH) for each in (text, again))
    return with_marks_of(text, again, gained)


def with_marks_of(text: str, second: str, marked: Mend) -> str:
    """The text with the marks of a second reading, as far as both have the same letters."""
    if bare(text.replace(" ", "")) == bare(second.replace(" ", "")):
        letters = iter(second.replace(" ", ""))
        return "".join(
            letter if letter == " " else marked(letter, next(letters), at == 0) for at, letter in enumerate(text)
        )
    words = {bare(word[0]): word[0] for word in LETTERS.finditer(second)}
    fuller = {lost: word for word in words.values() for lost in without_one_marked(word)}

    def from_second(found: re.Match[str]) -> str:
        other = words.get(bare(found[0]))
        if other is None:
            return with_lost_letter(found[0], fuller.get(bare(found[0])))
        is_first = not found.string[: found.start()].strip()
        pairs = zip(found[0], other, strict=True)
        return "".join(marked(letter, like, is_first and at == 0) for at, (letter, like) in enumerate(pairs))

    return LETTERS.sub(from_second, text)


def gained(letter: str, like: str, is_first: bool) -> str:  # noqa: ARG001
    """A letter with the Swedish mark that its like has, if it has none."""
    if letter in MARKED or like not in MARKED:
        return letter
    return like.upper() if letter.isupper() else like.lower()


def weighed(letter: str, like: str, is_first: bool) -> str:
    """A letter with the mark that it or its like has, and its own case. Marks are lost more often than made up; where
    both have one, the second engine knows Swedish. Of a line's first letter a capital wins, where it only looks larger.
    """
    is_lost = not has_mark(like) or (has_mark(letter) and bare_letter(letter) not in BEARERS)
    is_capital = letter.isupper() or (is_first and like.isupper() and letter.casefold() in SHAPED_ALIKE)
    right = letter if is_lost else like
    return right.upper() if is_capital else right.lower()


def has_mark(letter: str) -> bool:
    """Does it bear a mark of any kind?"""
    return bare_letter(letter) != letter.casefold()


def without_one_marked(word: str) -> list[str]:
    """The letters of a word of some length without one that bears a mark, which an engine may not see at all; one that
    stands twice is rather seen twice.
    """
    if len(word) < SHORTEST_WITH_LOSS:
        return []
    letters = bare(word)
    return [
        letters[:at] + letters[at + 1 :]
        for at, letter in enumerate(word)
        if letter in MARKED and letters[at] not in (letters[at - 1 : at], letters[at + 1 : at + 2])
    ]


def with_lost_letter(word: str, fuller: str | None) -> str:
    """The word with the marked letter that it lacks; itself when nobody knows of one."""
    if fuller is None:
        return word
    at = next(at for at, letter in enumerate(fuller) if letter in MARKED and same_but_for(at, word, fuller))
    return word[:at] + (fuller[at].upper() if word.isupper() else fuller[at]) + word[at:]


def same_but_for(at: int, word: str, fuller: str) -> bool:
    """Are two words the same but for one letter of the longer one?"""
    return bare(word) == bare(fuller[:at] + fuller[at + 1 :])


# What everybody knows -------------------------------------------------------------------------------------------------


def known(word: str) -> str:
    """The word as it is known to be spelled; itself when it is not known, or several are."""
    if len(word) < SHORTEST_KNOWN:
        return word
    whole, beginnings, ends = known_words()
    letters = bare(word)
    if spellings := whole.get(letters):
        return like_known(word, *spellings, is_sure=len(word) >= SHORTEST_SURE) if len(spellings) == 1 else word
    if fuller := words_with_loss().get(letters):
        return with_lost_letter(word, fuller)
    for length in range(len(letters) - 1, SHORTEST_KNOWN - 1, -1):
        if (start := beginnings.get(letters[:length])) is not None:
            return like_known(word[:length], start) + known_end(word[length:], ends)
    return known_end(word, ends)


def known_end(word: str, ends: dict[str, str]) -> str:
    """The word with its end as it is known to be spelled."""
    letters = bare(word)
    for length in range(len(letters), SHORTEST_KNOWN - 1, -1):
        if (end := ends.get(letters[-length:])) is not None:
            return word[:-length] + like_known(word[-length:], end)
    return word


def like_known(word: str, spelling: str, *, is_sure: bool = False) -> str:
    """The word with known marks in its own case: on capitals, and in place of other marks; on small letters that have
    none only when we are sure, for Backa is not bäcka.
    """
    letters = [
        letter if letter.islower() and not has_mark(letter) and not is_sure else right
        for letter, right in zip(word, spelling.lower(), strict=True)
    ]
    if spelling[0].isupper() and letters[0] in SHAPED_ALIKE:
        letters[0] = letters[0].upper()  # a name, whose capital only looks larger
    return "".join(right.upper() if letter.isupper() else right for letter, right in zip(word, letters, strict=True))


@cache
def known_words() -> tuple[dict[str, frozenset[str]], dict[str, str], dict[str, str]]:
    """Whole words by their letters, then beginnings and ends of words."""
    whole, beginnings, ends = defaultdict[str, set[str]](set), dict[str, str](), dict[str, str]()
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    for word in (word for line in lines if not line.startswith("#") for word in line.split()):
        spelling = word.strip("-")
        if word.endswith("-"):
            beginnings[bare(spelling)] = spelling
        elif word.startswith("-"):
            ends[bare(spelling)] = spelling
        else:
            whole[bare(spelling)].add(spelling)
    return {letters: frozenset(spellings) for letters, spellings in whole.items()}, beginnings, ends


@cache
def words_with_loss() -> dict[str, str]:
    """Known words by what is left of their letters when a marked one is not seen."""
    whole, _, _ = known_words()
    found = defaultdict[str, set[str]](set)
    for spelling in (spelling for spellings in whole.values() for spelling in spellings):
        for lost in without_one_marked(spelling):
            found[lost].add(spelling)
    return {lost: next(iter(words)) for lost, words in found.items() if len(words) == 1}
