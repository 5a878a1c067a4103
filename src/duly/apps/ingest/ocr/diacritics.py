"""Reconcile several readings of a line that differ in diacritics.

An engine for all languages sometimes loses the ring of a capital Å, or reads it as dots. Three other sources correct
that, and change nothing else, neither letters nor their case:

    1. a second pass of the same engine, in which faint diacritics count (`rapidocr_engine`)
    2. a second engine that knows Swedish, where it read the same letters
    3. a list of Swedish words (`letters`), where exactly one spelling has the letters of a word
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping

from duly.apps.ingest.ocr.letters import (
    BASE_LETTERS,
    FOREIGN_TO_SWEDISH,
    SAME_SHAPE_CAPITALS,
    SWEDISH_LETTERS,
    WORD,
    correct_by_word_list,
    drop_one_swedish_letter,
    fold,
    fold_letter,
    has_diacritic,
    insert_missing_letter,
)

MISSING_SPACE = re.compile(
    r"(?<=\b[^\W\d_]\.)(?=[^\W\d_]{2})|(?<=[a-zåäöé]{2})(?=[A-ZÅÄÖ][a-zåäö])|(?<=[^\W_])(?=\()|(?<=[^\W\d_],)(?=[^\W\d_])"
)
BULLET = re.compile(r"\w\s*[•·∙●]\s*\w")
FIRST_CHAR = re.compile(r"[\W_]*[^\W_]")
LOOK_ALIKES = str.maketrans("l1|0", "iiio")
VOWELS = frozenset("aeiouy")
MergeLetter = Callable[[str, str, bool], str]  # a letter, the same one in another reading, is it the line's first


def reconcile_readings(
    text: str,
    second_engine: str | None = None,
    reread: str | None = None,
    *,
    confident_words: Collection[str] = frozenset(),
) -> str:
    """Return the text of a line with the diacritics that its readings agree on.

    Confident words are kept as read, except for a diacritic that the second pass and another source show. In other
    words a diacritic is more often lost than invented.
    """
    text, second_engine, reread = map(to_swedish_letters, (text, second_engine or "", reread or ""))
    if reread and (longer := with_missed_letter(text, reread)):
        text = longer
    if BULLET.search(reread) and not BULLET.search(text):
        text = with_spacing_from(reread, text)
    text = add_missing_spaces(text, reread, second_engine)
    text = add_missed_vowels(restore_capital_i(text, second_engine), second_engine)
    by_reread, by_second_engine = words_by_folded(reread), words_by_folded(second_engine)
    stable_words = frozenset(WORD.findall(text)) & frozenset(WORD.findall(reread))
    merged = merge_all_sources(text, second_engine, reread)
    if len(WORD.findall(split_joined_words(text))) != len(WORD.findall(merged)):
        return merged
    words = iter(WORD.findall(split_joined_words(text)))

    def choose(found: re.Match[str]) -> str:
        word = next(words)
        if reread and word in confident_words:
            return confirm_diacritics(word, by_reread, by_second_engine)
        return keep_stable(word, found[0], stable_words, by_second_engine)

    return WORD.sub(choose, merged)


def readings_agree(text: str, other: str | None) -> bool:
    """Return whether two readings have the same letters; diacritics, spaces and an icon before them may differ."""
    if other is None:
        return True
    first, second = letter_shapes(text), letter_shapes(other)
    return first in (second, second[1:]) or with_missed_letter(text, other) is not None


def drop_unstable_first_char(text: str, reread: str | None, second_engine: str | None, *, is_confident: bool) -> str:
    """Return the text without a first letter or digit that the second pass does not show, or shows as another.

    It is an icon then. A confident first letter that the second engine reads too is kept.
    """
    first_char = FIRST_CHAR.match(text)
    is_confirmed = is_confident and second_engine and letter_shapes(second_engine) == letter_shapes(text)
    if reread is None or first_char is None or is_confirmed:
        return text
    first, other, rest = letter_shapes(text), letter_shapes(reread), text[first_char.end() :].lstrip()
    is_other_icon = first[1:] == other[1:] and first[:1] != other[:1] and rest[:1].isupper()
    return rest if first != other and (first[1:] == other or is_other_icon) else text


# Words ----------------------------------------------------------------------------------------------------------------


def keep_stable(word: str, merged: str, stable_words: Collection[str], by_second_engine: Mapping[str, str]) -> str:
    """Return a word that both passes read alike as read, else as merged.

    Which diacritic a letter of a stable word has may still be corrected by the second engine or the word list.
    """
    if word not in stable_words:
        return merged
    listed = correct_by_word_list(word)
    other = by_second_engine.get(fold(word)) or listed
    if listed.casefold() == by_second_engine.get(fold(word), "").casefold():
        return listed
    if len(other) != len(word):
        return word
    return "".join(
        merge_letter(letter, like, False) if letter in SWEDISH_LETTERS and like in SWEDISH_LETTERS else letter
        for letter, like in zip(word, other, strict=True)
    )


def confirm_diacritics(word: str, by_reread: Mapping[str, str], by_second_engine: Mapping[str, str]) -> str:
    """Return a confident word with the diacritics that the second pass adds, if another source has them too."""
    folded = fold(word)
    reread = by_reread.get(folded, word)
    if reread.casefold() == word.casefold():
        return word
    gained = "".join(gain_diacritic(letter, like, False) for letter, like in zip(word, reread, strict=True))
    confirming = {by_second_engine.get(folded, "").casefold(), correct_by_word_list(word).casefold()}
    return gained if gained.casefold() in confirming else word


def words_by_folded(text: str) -> dict[str, str]:
    """Return the words of a text by their folded letters."""
    return {fold(word): word for word in WORD.findall(text)}


# Letters and spaces ---------------------------------------------------------------------------------------------------


def to_swedish_letters(text: str) -> str:
    """Return the text with the foreign letters as which engines misread å, ä and ö replaced."""
    return unicodedata.normalize("NFC", text).translate(FOREIGN_TO_SWEDISH)


def letter_shapes(text: str) -> str:
    """Return the letters and digits of a text, folded, and with look-alikes replaced by one of them."""
    return "".join(letter for letter in fold(to_swedish_letters(text)).translate(LOOK_ALIKES) if letter.isalnum())


def with_missed_letter(text: str, reread: str) -> str | None:
    """Return the second pass if it has exactly one å, ä or ö more than the text, which was missed; else None."""
    text, reread = to_swedish_letters(text).strip(), to_swedish_letters(reread).strip()
    missed = [
        at for at, letter in enumerate(reread) if letter in SWEDISH_LETTERS and reread[:at] + reread[at + 1 :] == text
    ]
    return reread if missed else None


def add_missed_vowels(text: str, second_engine: str) -> str:
    """Return the text with each å, ä or ö between two consonants that only the second engine reads.

    The first engine drops such a letter of a small image, and is confident of the rest. Beside another vowel, or
    before a word, the second engine invents diacritics.
    """
    longer = {folded: word for word in WORD.findall(second_engine) for folded in drop_one_vowel(word)}
    return WORD.sub(lambda found: insert_missing_letter(found[0], longer.get(fold(found[0]))), text)


def drop_one_vowel(word: str) -> list[str]:
    """Return the folded word without each å, ä or ö that is between two consonants."""
    folded = fold(word)
    return [
        folded[:at] + folded[at + 1 :]
        for at in range(1, len(word) - 1)
        if word[at] in SWEDISH_LETTERS and not {folded[at - 1], folded[at + 1]} & VOWELS
    ]


def add_missing_spaces(text: str, reread: str, second_engine: str) -> str:
    """Return the text with the spaces that both other readings of the same letters have."""
    is_same = letter_shapes(text) == letter_shapes(reread) == letter_shapes(second_engine)
    is_joined = len(text.split()) < len(reread.split()) <= len(second_engine.split())
    return with_spacing_from(reread, text) if is_same and is_joined else text


def with_spacing_from(other: str, text: str) -> str:
    """Return the letters of a text with the spaces and bullets of another reading, if both have the same letters."""
    if letter_shapes(other) != letter_shapes(text):
        return text
    letters = iter(letter for letter in text if letter.isalnum())
    return "".join(next(letters, letter) if letter.isalnum() else letter for letter in other).strip()


def split_joined_words(text: str) -> str:
    """Return the text with spaces where they are missing: J.Ek, BrfMåsen, Städning(extra), kök,bad."""
    return MISSING_SPACE.sub(" ", text)


def restore_capital_i(text: str, second_engine: str) -> str:
    """Return the text with an I for the l that starts a word where the second engine reads an I."""
    capitalised = {word for word in WORD.findall(second_engine) if word[0] == "I"}

    def correct(found: re.Match[str]) -> str:
        with_capital = f"I{found[0][1:]}"
        is_misread = with_capital in capitalised and found[0][0] == "l" and len(found[0]) > 2
        return with_capital if is_misread else found[0]

    return WORD.sub(correct, text)


# Merging --------------------------------------------------------------------------------------------------------------


def merge_all_sources(text: str, second_engine: str, reread: str) -> str:
    """Return the text with the diacritics of the second pass, the second engine and the word list."""
    text = add_lost_diacritics(text, reread) if reread else text
    agreed = frozenset[str]()
    if second_engine:
        agreed = frozenset(WORD.findall(text.casefold())) & frozenset(WORD.findall(second_engine.casefold()))
        text = merge_diacritics(text, second_engine, merge_letter)

    def correct(found: re.Match[str]) -> str:
        return found[0] if found[0].casefold() in agreed else correct_by_word_list(found[0])

    return WORD.sub(correct, split_joined_words(text))


def add_lost_diacritics(text: str, reread: str) -> str:
    """Return the text with diacritics on its bare letters from a second pass of the same engine, which invents none."""
    return merge_diacritics(to_swedish_letters(text), to_swedish_letters(reread), gain_diacritic)


def merge_diacritics(text: str, other: str, merge: MergeLetter) -> str:
    """Return the text merged letter by letter with another reading, where both have the same folded letters."""
    if fold(text.replace(" ", "")) == fold(other.replace(" ", "")):
        letters = iter(other.replace(" ", ""))
        return "".join(
            letter if letter == " " else merge(letter, next(letters), at == 0) for at, letter in enumerate(text)
        )
    words = {fold(word[0]): word[0] for word in WORD.finditer(other)}
    longer = {folded: word for word in words.values() for folded in drop_one_swedish_letter(word)}

    def merge_word(found: re.Match[str]) -> str:
        like = words.get(fold(found[0]))
        if like is None:
            return insert_missing_letter(found[0], longer.get(fold(found[0])))
        is_first = not found.string[: found.start()].strip()
        pairs = zip(found[0], like, strict=True)
        return "".join(
            merge(letter, other_letter, is_first and at == 0) for at, (letter, other_letter) in enumerate(pairs)
        )

    return WORD.sub(merge_word, text)


def gain_diacritic(letter: str, other: str, is_first: bool) -> str:  # noqa: ARG001
    """Return a letter with the Swedish diacritic of its counterpart, if it has none itself."""
    if letter in SWEDISH_LETTERS or other not in SWEDISH_LETTERS:
        return letter
    return other.upper() if letter.isupper() else other.lower()


def merge_letter(letter: str, other: str, is_first: bool) -> str:
    """Return a letter with its own diacritic or its counterpart's, in its own case.

    Diacritics are lost more often than invented; where both have one, the second engine's is right, which knows
    Swedish. The first letter of a line becomes a capital if only its size tells the case.
    """
    keeps_own = not has_diacritic(other) or (has_diacritic(letter) and fold_letter(letter) not in BASE_LETTERS)
    is_capital = letter.isupper() or (is_first and other.isupper() and letter.casefold() in SAME_SHAPE_CAPITALS)
    right = letter if keeps_own else other
    return right.upper() if is_capital else right.lower()
