"""The vocabulary of the report is unseen: no list has its words with å, ä or ö."""

from duly.apps.ingest.ocr.letters import SWEDISH_LETTERS, WORD, fold, known_words, words_missing_letter
from tests.support.ocr.vocabulary import DEVELOPMENT, REPORT, Vocabulary


def marked_words(vocabulary: Vocabulary) -> list[str]:
    """Every word with å, ä or ö."""
    texts = (*vocabulary.titles, *vocabulary.customers, *vocabulary.places)
    return sorted({word for text in texts for word in WORD.findall(text) if SWEDISH_LETTERS & set(word)})


def is_known(word: str) -> bool:
    """Check whether the word list has a word, or its prefix or suffix."""
    whole_words, beginnings, ends = known_words()
    letters = fold(word)
    return (
        letters in whole_words
        or letters in words_missing_letter()
        or letters.startswith(tuple(beginnings))
        or letters.endswith(tuple(ends))
    )


def test_no_word_list_contains_a_report_word_with_a_swedish_letter() -> None:
    words, developed_on = marked_words(REPORT), {fold(seen) for seen in marked_words(DEVELOPMENT)}
    offenders = [f"{word}: among the known words, or begins or ends like one" for word in words if is_known(word)]
    offenders += [f"{word}: was developed on" for word in words if fold(word) in developed_on]
    assert not offenders, "\n".join(offenders)


def test_report_has_enough_words_with_each_swedish_letter() -> None:
    words = marked_words(REPORT)
    assert len(words) >= 60
    assert all(sum(word.startswith(capital) for word in words) >= 8 for capital in "ÅÄÖ")
    assert is_known("Borås")
    assert is_known("Trappstädning")
