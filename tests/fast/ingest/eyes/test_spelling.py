"""Dots and rings: what is lost comes back, and nothing else changes."""

import pytest

from duly.ingest.eyes.spelling import bare, may_bear_a_mark, spelled, with_lost_marks


@pytest.mark.parametrize(
    ("first", "second", "right"),
    [
        ("Aby", "Åby", "Åby"),
        ("Sven-Äke Löf", "Sven-Åke Löf", "Sven-Åke Löf"),
        ("Åkered", "OO Akered", "Åkered"),
        ("Onsala", "QQ Onsala", "Onsala"),
        ("Ulla Brannstrom", "ulla Brännström", "Ulla Brännström"),
        ("öppning", "Öppning", "Öppning"),
        ("Zoë Ek", "Zoé Ek", "Zoë Ek"),
        ("Rene Ek", "René Ek", "René Ek"),
        ("Vrdhemmet", "Vårdhemmet", "Vårdhemmet"),
        ("Karin Öhman", "Karin ÖRmMan", "Karin Öhman"),
        ("Kund 4711", "Kund 47171", "Kund 4711"),
        ("Gun Åsbrink", "Gun AÅsbrink", "Gun Åsbrink"),
        ("Håkon Öijer", "Håkon ÖÖijer", "Håkon Öijer"),
    ],
)
def test_a_second_engine_gives_marks_and_neither_letters_nor_case(first: str, second: str, right: str) -> None:
    assert spelled(first, second) == right


@pytest.mark.parametrize(
    ("first", "right"),
    [
        ("Aby", "Åby"),
        ("Äke Öberg", "Åke Öberg"),
        ("Värdcentralen", "Vårdcentralen"),
        ("Vrdcentralen", "Vårdcentralen"),
        ("Lângedrag", "Långedrag"),
        ("J.Hákansson", "J. Håkansson"),
        ("Handla àt kund", "Handla åt kund"),
        ("Trappstådning", "Trappstädning"),
        ("Göran öberg", "Göran Öberg"),
        ("Goteborg", "Göteborg"),
    ],
)
def test_words_that_everybody_knows_need_no_second_engine(first: str, right: str) -> None:
    assert spelled(first) == right


@pytest.mark.parametrize(
    "text",
    ["Göteborgs Stad", "Hisings Backa", "Anna Alm", "Lunchvärd", "Brf Måsen", "José Ortega", "IKEA", "Kund 4711"],
)
def test_words_that_are_right_stay_as_they_are(text: str) -> None:
    assert spelled(text) == text
    assert spelled(text, text) == text


def test_what_both_engines_read_alike_is_believed() -> None:
    assert spelled("Aby Stad", "Aby Stad") == "Aby Stad"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("BrfMåsen", "Brf Måsen"),
        ("Städning(extra)", "Städning (extra)"),
        ("kök,bad", "kök, bad"),
        ("McDonald", "McDonald"),
    ],
)
def test_words_that_stand_too_near_are_parted(text: str, right: str) -> None:
    assert spelled(text) == right


@pytest.mark.parametrize(
    ("text", "again", "right"),
    [
        ("Atgärdsmöte", "Åtgärdsmöte", "Åtgärdsmöte"),
        ("Per-Anund Ohman", "Per-Ånund Öhman", "Per-Ånund Öhman"),
        ("Alem", "Álem", "Ålem"),
        ("Tallberg", "Tällberg", "Tällberg"),
        ("Ránea", "Råneå", "Råneå"),
        ("Tage Hard", "ToRge Hård", "Tage Hård"),
        ("Ödsml", "Ödsml", "Ödsml"),
        ("Vrdhemmet", "Vårdhemmet", "Vårdhemmet"),
    ],
)
def test_another_look_gives_bare_letters_the_marks_they_had_lost(text: str, again: str, right: str) -> None:
    assert with_lost_marks(text, again) == right


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("Åby", "Aby"),
        ("Väg", "Våg"),
        ("Sánchez", "Sánchez"),
        ("Alm", "Ålme"),
        ("JOUR", "jour"),
        ("Rene Ek", "René Ek"),
        ("Öijersson", "OÖijersson"),
    ],
)
def test_another_look_takes_no_mark_and_changes_no_letter(text: str, again: str) -> None:
    assert with_lost_marks(text, again) == text


def test_letters_are_compared_without_marks_and_case() -> None:
    assert bare("ÅkÄÖé") == "akaoe"
    assert may_bear_a_mark("Näset")
    assert not may_bear_a_mark("11:30")
