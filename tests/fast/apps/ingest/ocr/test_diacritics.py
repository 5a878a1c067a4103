"""Dots and rings: what is lost comes back, and nothing else changes."""

import pytest

from duly.apps.ingest.ocr.lines import sheet_of
from duly.apps.ingest.ocr.mark import Mark
from duly.apps.ingest.ocr.spelling import agrees, bare, may_bear_a_mark, spelled, with_lost_marks, without_unsteady_lead


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


# Three readings of a line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "second", "again"),
    [
        ("Enilma", None, "Enilmå"),
        ("Enilma", "Enilma", "Enilmå"),
        ("Enilma", "Enilmå", "Enilma"),
        ("Fönä", "Fönå", "Fönä"),
        ("Goteborg", None, "Goteborg"),
    ],
)
def test_a_line_that_the_engine_is_sure_of_stays_as_read(text: str, second: str | None, again: str) -> None:
    assert spelled(text, second, again, sure=text.split()) == text


@pytest.mark.parametrize(
    ("text", "second", "again", "right"),
    [
        ("Enilma", "Enilmå", "Enilmå", "Enilmå"),
        ("Brf Enilma", "Brt Enilmå", "Brf Enilmå", "Brf Enilmå"),
        ("Goteborg", None, "Göteborg", "Göteborg"),
    ],
)
def test_a_mark_that_the_second_look_and_another_witness_show_is_added_to_a_sure_line(
    text: str, second: str | None, again: str, right: str
) -> None:
    assert spelled(text, second, again, sure=text.split()) == right


def test_a_mark_that_only_the_second_look_shows_is_added_to_a_line_that_is_not_sure() -> None:
    assert spelled("Enilma", None, "Enilmå") == "Enilmå"


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_marked_letter_that_only_the_second_look_has_was_not_seen_before(is_sure: bool) -> None:
    assert spelled("Drnhult", None, "Drånhult", sure=["Drnhult"] if is_sure else []) == "Drånhult"


@pytest.mark.parametrize("second", [None, "Alva", "Älva"])
@pytest.mark.parametrize("is_sure", [True, False])
def test_a_word_that_both_looks_show_alike_is_not_changed_by_known_words(second: str | None, is_sure: bool) -> None:
    assert spelled("Alva") == "Älva", "else nothing is shown"
    right = "Älva" if second == "Älva" and not is_sure else "Alva"  # the list and the second engine together
    assert spelled("Alva", second, "Alva", sure=["Alva"] if is_sure else []) == right


def test_the_mark_of_a_steady_word_is_the_one_that_the_second_engine_has() -> None:
    assert spelled("Fönä", "Fönå", "Fönä") == "Fönå"


@pytest.mark.parametrize(
    ("second", "again", "right"),
    [
        ("Brenva altan", "Brenva altan", "Brenva altan"),
        ("Brenvaaltan", "Brenva altan", "Brenvaaltan"),
        (None, "Brenva altan", "Brenvaaltan"),
        ("Brenva altan", None, "Brenvaaltan"),
        ("Brenva eltan", "Brenva altan", "Brenvaaltan"),
    ],
)
def test_a_blank_is_added_where_both_other_readings_have_it(second: str | None, again: str | None, right: str) -> None:
    assert spelled("Brenvaaltan", second, again) == right


def test_a_small_l_becomes_a_capital_i_where_the_second_engine_sees_one() -> None:
    assert spelled("lngrid Bua", "Ingrid Bua") == "Ingrid Bua"
    assert spelled("lngrid Bua", "lngrid Bua") == "lngrid Bua"


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("Anna Bua", None),
        ("Anna Bua", "Anna Bua"),
        ("Anna Bua", "Änna Buå"),
        ("Anna Bua", "AnnaBua"),
        ("Anna Bua", "anna bua."),
        ("Anna Bua", "Q Anna Bua"),
        ("Drnhult", "Drånhult"),
    ],
)
def test_two_looks_agree_that_differ_in_marks_blanks_an_icon_or_a_lost_marked_letter(
    text: str, again: str | None
) -> None:
    assert agrees(text, again)


@pytest.mark.parametrize(
    ("text", "again"), [("Anna", "Anne"), ("Anna", "Ann"), ("Anna Bua", "Anna Bu"), ("Drnhult", "Dranhult")]
)
def test_two_looks_do_not_agree_that_differ_in_letters(text: str, again: str) -> None:
    assert not agrees(text, again)


def test_letters_are_compared_without_marks_and_case() -> None:
    assert bare("ÅkÄÖé") == "akaoe"
    assert may_bear_a_mark("Näset")
    assert not may_bear_a_mark("11:30")


@pytest.mark.parametrize(
    ("text", "again", "second", "right"),
    [
        ("911 ElampLane", "11 Elamp Lane", "9 11 Elamp Lane", "11 ElampLane"),
        ("èGreisonsallee 21", "• Greisonsallee 21", "9 Greisonsallee 21", "Greisonsallee 21"),
        ("PSukesstigen 14", "9Sukesstigen 14", None, "Sukesstigen 14"),
        ("Jaskuja 28B", "9 Jaskuja 28B", "9 Jaskuja 28B", "Jaskuja 28B"),
        ("9 Plurd Street", "9 Plurd Street", "9 Plurd Street", "9 Plurd Street"),
        ("Usara Oy", "Osara Oy", None, "Usara Oy"),
        ("Usara", None, None, "Usara"),
    ],
)
def test_a_first_letter_that_only_one_look_shows_is_an_icon(
    text: str, again: str | None, second: str | None, right: str
) -> None:
    assert without_unsteady_lead(text, again, second, is_sure=False) == right


def test_a_first_letter_that_is_sure_and_seen_by_the_second_engine_stays() -> None:
    assert without_unsteady_lead("Ahlberg", "hlberg", "Ahlberg", is_sure=True) == "Ahlberg"


@pytest.mark.parametrize(
    ("unsure", "right"),
    [("u", "Prurarkstigen"), ("a", "Prurärkstigen")],
)
def test_only_a_letter_that_is_unsure_itself_gets_a_faint_mark(unsure: str, right: str) -> None:
    text = "Prurarkstigen"
    chances = tuple(0.9 if letter == unsure else 1.0 for letter in text)
    corners = ((0.0, 0.0), (300.0, 0.0), (300.0, 40.0), (0.0, 40.0))
    seen = Mark(text, corners, 0.99, again="Prurärkstigen", weakest=0.9, chances=chances)
    (line,) = sheet_of([seen], 1000, 1000).lines
    assert line.text == right


@pytest.mark.parametrize(
    ("text", "second", "right"),
    [
        ("Skrtagan Bygg AB", "Skråtagan Bygg AB", "Skråtagan Bygg AB"),
        ("Slmvägen 68A", "Slåmvägen 68A", "Slåmvägen 68A"),
        ("Dümindus", "Duämindus", "Dümindus"),
        ("Frühstück", "Fruhstäuck", "Frühstück"),
        ("Mjaldvägen", "Mjaäldvägen", "Mjaldvägen"),
        ("Jorin", "åJorin", "Jorin"),
    ],
)
def test_a_vowel_between_consonants_that_only_the_second_engine_sees_is_there(
    text: str, second: str, right: str
) -> None:
    assert spelled(text, second, text, sure=text.split()) == right
