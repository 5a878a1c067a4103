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
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

__all__ = [
    "SHAPED_ALIKE",
    "agrees",
    "bare",
    "known_words",
    "may_bear_a_mark",
    "spelled",
    "with_lost_marks",
    "without_unsteady_lead",
    "word_set",
]

WORDS = Path(__file__).with_name("words.txt")
LETTERS = re.compile(r"[^\W\d_]+")
TOO_NEAR = re.compile(
    r"(?<=\b[^\W\d_]\.)(?=[^\W\d_]{2})|(?<=[a-zåäöé]{2})(?=[A-ZÅÄÖ][a-zåäö])|(?<=[^\W_])(?=\()|(?<=[^\W\d_],)(?=[^\W\d_])"
)
BULLETS = re.compile(r"\w\s*[•·∙●]\s*\w")
LEAD = re.compile(r"[\W_]*[^\W_]")
LOOKS_ALIKE = str.maketrans("l1|0", "iiio")
VOWELS = frozenset("aeiouy")
BEARERS = frozenset("ao")
Mend = Callable[[str, str, bool], str]  # a letter, the same in another reading, and whether it begins the line
MIN_KNOWN_LENGTH = 3
MIN_SURE_LENGTH = 6
MIN_WITH_LOSS_LENGTH = 6
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


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def may_bear_a_mark(text: str) -> bool:
    """Is there a letter that could be å, ä or ö?"""
    return any(letter in BEARERS for letter in bare(text))


def spelled(
    text: str, second: str | None = None, again: str | None = None, *, sure: Collection[str] = frozenset()
) -> str:
    """The text with the marks that its witnesses agree on.

    Words of which the first engine is sure stay as read, but for a mark that its second look and another witness show.
    In the others marks are lost more often than made up.
    """
    text, second, again = (clean(each) for each in (text, second or "", again or ""))
    if again and (fuller := with_letter(text, again)):
        text = fuller
    if BULLETS.search(again) and not BULLETS.search(text):
        text = as_set_in(again, text)
    text = with_unseen_vowels(with_large_i(with_blanks(text, again, second), second), second)
    looks, others = words_by_letters(again), words_by_letters(second)
    steady = frozenset(LETTERS.findall(text)) & frozenset(LETTERS.findall(again))
    weighed_text = by_all_witnesses(text, second, again)
    if len(LETTERS.findall(spaced(text))) != len(LETTERS.findall(weighed_text)):
        return weighed_text
    words = iter(LETTERS.findall(spaced(text)))

    def chosen(found: re.Match[str]) -> str:
        word = next(words)
        if again and word in sure:
            return confirmed(word, looks, others)
        return kept_steady(word, found[0], steady, others)

    return LETTERS.sub(chosen, weighed_text)


def kept_steady(word: str, instead: str, steady: Collection[str], others: Mapping[str, str]) -> str:
    """A word that both looks show alike as it was read; which mark a letter bears the other witnesses may know."""
    if word not in steady:
        return instead
    other, listed = others.get(bare(word)) or known(word), known(word)
    if listed.casefold() == others.get(bare(word), "").casefold():
        return listed
    if len(other) != len(word):
        return word
    return "".join(
        weighed(letter, like, False) if letter in MARKED and like in MARKED else letter
        for letter, like in zip(word, other, strict=True)
    )


def by_all_witnesses(text: str, second: str, again: str) -> str:
    """The text by the second look, the second engine and known words, for which marks are lost, not made up."""
    text = with_lost_marks(text, again) if again else text
    agreed = frozenset[str]()
    if second:
        agreed = frozenset(LETTERS.findall(text.casefold())) & frozenset(LETTERS.findall(second.casefold()))
        text = with_marks_of(text, second, weighed)
    return LETTERS.sub(lambda found: found[0] if found[0].casefold() in agreed else known(found[0]), spaced(text))


def agrees(text: str, again: str | None) -> bool:
    """Check whether two looks at a line show the same letters; marks, blanks and an icon before them may differ."""
    if again is None:
        return True
    first, second = shapes(text), shapes(again)
    return first in (second, second[1:]) or with_letter(text, again) is not None


def shapes(text: str) -> str:
    """The letters and digits of a text, without marks and case, and without what only looks alike."""
    return "".join(letter for letter in bare(clean(text)).translate(LOOKS_ALIKE) if letter.isalnum())


def without_unsteady_lead(text: str, again: str | None, second: str | None, *, is_sure: bool) -> str:
    """The text without its first letter or digit where another look at the line shows none there, or another: an icon.

    A first letter that is sure, and that the second engine sees too, stays.
    """
    lead = LEAD.match(text)
    if again is None or lead is None or (is_sure and second and shapes(second) == shapes(text)):
        return text
    first, other, rest = shapes(text), shapes(again), text[lead.end() :].lstrip()
    is_other_icon = first[1:] == other[1:] and first[:1] != other[:1] and rest[:1].isupper()
    return rest if first != other and (first[1:] == other or is_other_icon) else text


def with_letter(word: str, again: str) -> str | None:
    """The second look at a line where it has one marked letter that the first lacks: that was not seen; else None."""
    word, again = clean(word).strip(), clean(again).strip()
    lost = [at for at, letter in enumerate(again) if letter in MARKED and again[:at] + again[at + 1 :] == word]
    return again if lost else None


def with_unseen_vowels(text: str, second: str) -> str:
    """The text with an å, ä or ö between two consonants that only the second engine sees.

    The first one leaves such a letter out of a small picture, and is sure of the rest. Beside another vowel, or before
    a word, the second engine sees marks that are not there.
    """
    fuller = {lost: word for word in LETTERS.findall(second) for lost in without_one_vowel(word)}
    return LETTERS.sub(lambda found: with_lost_letter(found[0], fuller.get(bare(found[0]))), text)


def without_one_vowel(word: str) -> list[str]:
    """The letters of a word without an å, ä or ö that stands between two consonants."""
    letters = bare(word)
    return [
        letters[:at] + letters[at + 1 :]
        for at in range(1, len(word) - 1)
        if word[at] in MARKED and not {letters[at - 1], letters[at + 1]} & VOWELS
    ]


def with_blanks(text: str, again: str, second: str) -> str:
    """The text with the blanks that both other readings of the same letters have in it."""
    is_same = shapes(text) == shapes(again) == shapes(second)
    return as_set_in(again, text) if is_same and len(text.split()) < len(again.split()) <= len(second.split()) else text


def as_set_in(again: str, text: str) -> str:
    """The letters of a text with the blanks and bullets of another reading, where both have the same letters."""
    if shapes(again) != shapes(text):
        return text
    letters = iter(letter for letter in text if letter.isalnum())
    return "".join(next(letters, letter) if letter.isalnum() else letter for letter in again).strip()


def with_large_i(text: str, second: str) -> str:
    """The text with an I where a word seems to begin with l and the second engine sees an I."""
    large = {word for word in LETTERS.findall(second) if word[0] == "I"}
    return LETTERS.sub(
        lambda found: (
            f"I{found[0][1:]}" if f"I{found[0][1:]}" in large and found[0][0] == "l" and len(found[0]) > 2 else found[0]
        ),
        text,
    )


def clean(text: str) -> str:
    """The text with letters as Swedish has them, where an engine saw a ring or dots as something else."""
    return unicodedata.normalize("NFC", text).translate(NOT_SWEDISH)


def words_by_letters(text: str) -> dict[str, str]:
    """The words of a text by their letters without marks."""
    return {bare(word): word for word in LETTERS.findall(text)}


def confirmed(word: str, looks: Mapping[str, str], others: Mapping[str, str]) -> str:
    """A word that was read surely, with the marks that the second look adds if another witness has them, too."""
    letters = bare(word)
    look = looks.get(letters, word)
    if look.casefold() == word.casefold():
        return word
    marked = "".join(gained(letter, like, False) for letter, like in zip(word, look, strict=True))
    witnesses = {others.get(letters, "").casefold(), known(word).casefold()}
    return marked if marked.casefold() in witnesses else word


def spaced(text: str) -> str:
    """The text with blanks where two words stand too near: J.Ek, BrfMåsen, Städning(extra), kök,bad."""
    return TOO_NEAR.sub(" ", text)


# The second engine ----------------------------------------------------------------------------------------------------


def with_lost_marks(text: str, again: str) -> str:
    """The text with what its bare letters bear in another reading by the same engine; it makes no marks up."""
    return with_marks_of(clean(text), clean(again), gained)


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
    if len(word) < MIN_WITH_LOSS_LENGTH:
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
    if len(word) < MIN_KNOWN_LENGTH:
        return word
    whole, beginnings, ends = known_words()
    letters = bare(word)
    if spellings := whole.get(letters):
        return like_known(word, *spellings, is_sure=len(word) >= MIN_SURE_LENGTH) if len(spellings) == 1 else word
    if fuller := words_with_loss().get(letters):
        return with_lost_letter(word, fuller)
    for length in range(len(letters) - 1, MIN_KNOWN_LENGTH - 1, -1):
        if (start := beginnings.get(letters[:length])) is not None:
            return like_known(word[:length], start) + known_end(word[length:], ends)
    return known_end(word, ends)


def known_end(word: str, ends: dict[str, str]) -> str:
    """The word with its end as it is known to be spelled."""
    letters = bare(word)
    for length in range(len(letters), MIN_KNOWN_LENGTH - 1, -1):
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
