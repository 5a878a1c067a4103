"""What is reported on is unseen: no list has its marked words."""

from duly.apps.ingest.ocr.spelling import LETTERS, MARKED, bare, known_words, words_with_loss
from tests.support.ocr.vocabulary import DEVELOPMENT, REPORT, Vocabulary


def marked_words(vocabulary: Vocabulary) -> list[str]:
    """Every word with å, ä or ö."""
    texts = (*vocabulary.titles, *vocabulary.customers, *vocabulary.places)
    return sorted({word for text in texts for word in LETTERS.findall(text) if MARKED & set(word)})


def is_known(word: str) -> bool:
    """Is it among the words that everybody knows, or is its beginning or its end?"""
    whole, beginnings, ends = known_words()
    letters = bare(word)
    return (
        letters in whole
        or letters in words_with_loss()
        or letters.startswith(tuple(beginnings))
        or letters.endswith(tuple(ends))
    )


def test_no_list_knows_a_marked_word_of_the_report() -> None:
    words, developed_on = marked_words(REPORT), {bare(seen) for seen in marked_words(DEVELOPMENT)}
    offenders = [f"{word}: among the known words, or begins or ends like one" for word in words if is_known(word)]
    offenders += [f"{word}: was developed on" for word in words if bare(word) in developed_on]
    assert not offenders, "\n".join(offenders)


def test_the_report_has_marks_enough_and_each_of_them_as_a_capital() -> None:
    words = marked_words(REPORT)
    assert len(words) >= 60
    assert all(sum(word.startswith(capital) for word in words) >= 8 for capital in "ÅÄÖ")
    assert is_known("Borås")
    assert is_known("Trappstädning")
