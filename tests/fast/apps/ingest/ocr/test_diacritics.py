"""Diacritics: lost ones are restored, and nothing else changes."""

import pytest

from duly.apps.ingest.ocr.diacritics import (
    add_lost_diacritics,
    drop_unstable_first_char,
    readings_agree,
    reconcile_readings,
)
from duly.apps.ingest.ocr.letters import fold, may_have_diacritic
from duly.apps.ingest.ocr.lines import assemble_lines
from duly.apps.ingest.ocr.text_box import TextBox


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
def test_a_second_engine_adds_diacritics_and_changes_neither_letters_nor_case(
    first: str, second: str, right: str
) -> None:
    assert reconcile_readings(first, second) == right


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
def test_listed_words_are_corrected_without_a_second_engine(first: str, right: str) -> None:
    assert reconcile_readings(first) == right


@pytest.mark.parametrize(
    "text",
    ["Göteborgs Stad", "Hisings Backa", "Anna Alm", "Lunchvärd", "Brf Måsen", "José Ortega", "IKEA", "Kund 4711"],
)
def test_correct_words_are_kept(text: str) -> None:
    assert reconcile_readings(text) == text
    assert reconcile_readings(text, text) == text


def test_reading_shared_by_both_engines_is_kept() -> None:
    assert reconcile_readings("Aby Stad", "Aby Stad") == "Aby Stad"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("BrfMåsen", "Brf Måsen"),
        ("Städning(extra)", "Städning (extra)"),
        ("kök,bad", "kök, bad"),
        ("McDonald", "McDonald"),
    ],
)
def test_joined_words_are_split(text: str, right: str) -> None:
    assert reconcile_readings(text) == right


@pytest.mark.parametrize(
    ("text", "reread", "right"),
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
def test_a_second_pass_restores_lost_diacritics(text: str, reread: str, right: str) -> None:
    assert add_lost_diacritics(text, reread) == right


@pytest.mark.parametrize(
    ("text", "reread"),
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
def test_a_second_pass_removes_no_diacritic_and_changes_no_letter(text: str, reread: str) -> None:
    assert add_lost_diacritics(text, reread) == text


# Three readings of a line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "second", "reread"),
    [
        ("Enilma", None, "Enilmå"),
        ("Enilma", "Enilma", "Enilmå"),
        ("Enilma", "Enilmå", "Enilma"),
        ("Fönä", "Fönå", "Fönä"),
        ("Goteborg", None, "Goteborg"),
    ],
)
def test_a_confident_line_is_kept_as_read(text: str, second: str | None, reread: str) -> None:
    assert reconcile_readings(text, second, reread, confident_words=text.split()) == text


@pytest.mark.parametrize(
    ("text", "second", "reread", "right"),
    [
        ("Enilma", "Enilmå", "Enilmå", "Enilmå"),
        ("Brf Enilma", "Brt Enilmå", "Brf Enilmå", "Brf Enilmå"),
        ("Goteborg", None, "Göteborg", "Göteborg"),
    ],
)
def test_diacritic_confirmed_by_another_source_is_added_to_a_confident_line(
    text: str, second: str | None, reread: str, right: str
) -> None:
    assert reconcile_readings(text, second, reread, confident_words=text.split()) == right


def test_a_diacritic_that_only_the_second_pass_shows_is_added_to_an_uncertain_line() -> None:
    assert reconcile_readings("Enilma", None, "Enilmå") == "Enilmå"


@pytest.mark.parametrize("is_confident", [True, False])
def test_swedish_letter_seen_only_by_the_second_pass_is_added(is_confident: bool) -> None:
    assert (
        reconcile_readings("Drnhult", None, "Drånhult", confident_words=["Drnhult"] if is_confident else [])
        == "Drånhult"
    )


@pytest.mark.parametrize("second", [None, "Alva", "Älva"])
@pytest.mark.parametrize("is_confident", [True, False])
def test_word_read_alike_by_both_passes_is_not_changed_by_the_word_list(second: str | None, is_confident: bool) -> None:
    assert reconcile_readings("Alva") == "Älva", "else nothing is shown"
    right = "Älva" if second == "Älva" and not is_confident else "Alva"  # the list and the second engine together
    assert reconcile_readings("Alva", second, "Alva", confident_words=["Alva"] if is_confident else []) == right


def test_stable_word_takes_the_diacritic_of_the_second_engine() -> None:
    assert reconcile_readings("Fönä", "Fönå", "Fönä") == "Fönå"


@pytest.mark.parametrize(
    ("second", "reread", "right"),
    [
        ("Brenva altan", "Brenva altan", "Brenva altan"),
        ("Brenvaaltan", "Brenva altan", "Brenvaaltan"),
        (None, "Brenva altan", "Brenvaaltan"),
        ("Brenva altan", None, "Brenvaaltan"),
        ("Brenva eltan", "Brenva altan", "Brenvaaltan"),
    ],
)
def test_space_found_in_both_other_readings_is_added(second: str | None, reread: str | None, right: str) -> None:
    assert reconcile_readings("Brenvaaltan", second, reread) == right


def test_lower_case_l_becomes_capital_i_if_the_second_engine_reads_one() -> None:
    assert reconcile_readings("lngrid Bua", "Ingrid Bua") == "Ingrid Bua"
    assert reconcile_readings("lngrid Bua", "lngrid Bua") == "lngrid Bua"


@pytest.mark.parametrize(
    ("text", "reread"),
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
def test_readings_agree_despite_diacritics_spaces_icons_or_a_missed_letter(text: str, reread: str | None) -> None:
    assert readings_agree(text, reread)


@pytest.mark.parametrize(
    ("text", "reread"), [("Anna", "Anne"), ("Anna", "Ann"), ("Anna Bua", "Anna Bu"), ("Drnhult", "Dranhult")]
)
def test_readings_with_different_letters_do_not_agree(text: str, reread: str) -> None:
    assert not readings_agree(text, reread)


def test_letters_are_compared_without_diacritics_and_case() -> None:
    assert fold("ÅkÄÖé") == "akaoe"
    assert may_have_diacritic("Näset")
    assert not may_have_diacritic("11:30")


@pytest.mark.parametrize(
    ("text", "reread", "second", "right"),
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
def test_a_first_letter_that_only_one_pass_shows_is_an_icon(
    text: str, reread: str | None, second: str | None, right: str
) -> None:
    assert drop_unstable_first_char(text, reread, second, is_confident=False) == right


def test_a_confident_first_letter_that_the_second_engine_reads_too_is_kept() -> None:
    assert drop_unstable_first_char("Ahlberg", "hlberg", "Ahlberg", is_confident=True) == "Ahlberg"


@pytest.mark.parametrize(
    ("uncertain", "right"),
    [("u", "Prurarkstigen"), ("a", "Prurärkstigen")],
)
def test_only_a_letter_that_is_uncertain_itself_gets_a_faint_diacritic(uncertain: str, right: str) -> None:
    text = "Prurarkstigen"
    chances = tuple(0.9 if letter == uncertain else 1.0 for letter in text)
    corners = ((0.0, 0.0), (300.0, 0.0), (300.0, 40.0), (0.0, 40.0))
    seen = TextBox(text, corners, 0.99, reread_text="Prurärkstigen", min_char_confidence=0.9, char_confidences=chances)
    (line,) = assemble_lines([seen], 1000, 1000).lines
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
def test_vowel_between_consonants_seen_only_by_the_second_engine_is_added(text: str, second: str, right: str) -> None:
    assert reconcile_readings(text, second, text, confident_words=text.split()) == right
