"""Ranges of times as screens print them, and such as cannot be right."""

import pytest

from duly.apps.ingest.ocr.times import (
    find_hours_range,
    find_single_time,
    find_time_range,
    is_meridiem,
    is_old_range,
    resembles_time,
)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("08:00-09:30", "08:00", "09:30"),
        ("08:00\N{EN DASH}09:30", "08:00", "09:30"),
        ("08:00 \N{EM DASH} 09:30", "08:00", "09:30"),
        ("08.00 - 09.30", "08:00", "09:30"),
        ("8:00-9:30", "08:00", "09:30"),
        ("kl 08:00-09:30", "08:00", "09:30"),
        ("kl. 8.00 till 9.30", "08:00", "09:30"),
        ("08:00 to 09:30", "08:00", "09:30"),
        ("\N{BULLSEYE} 08:00-09:30", "08:00", "09:30"),
        ("O8:OO-O9:3O", "08:00", "09:30"),
        ("I0:3O-|l:45", "10:30", "11:45"),
        ("1i:00-12:00", "11:00", "12:00"),
        ("L0:00-12:00", "10:00", "12:00"),
        ("08:00-0930", "08:00", "09:30"),
        ("0800-09:30", "08:00", "09:30"),
        ("0800-0930", "08:00", "09:30"),
        ("kl 0800 Till 0930", "08:00", "09:30"),
        ("Kl 08:00 TILL 09:30", "08:00", "09:30"),
        ("08:00 09:30", "08:00", "09:30"),
        ("08:00 = 09:30", "08:00", "09:30"),
        ("22:00-06:00", "22:00", "06:00"),
        ("18:00-24:00", "18:00", "00:00"),
        ("21:15-23:59", "21:15", "23:59"),
        ("8:00 AM - 9:30 AM", "08:00", "09:30"),
        ("1:00 PM - 3:00 PM", "13:00", "15:00"),
        ("1:00pm\N{EN DASH}3:00pm", "13:00", "15:00"),
        ("1:00 p.m. to 3:00 p.m.", "13:00", "15:00"),
        ("1.00 em - 3.00 em", "13:00", "15:00"),
        ("11:00 AM - 1:00 PM", "11:00", "13:00"),
        ("12:00 PM - 12:30 PM", "12:00", "12:30"),
        ("12:15 AM - 1:00 AM", "00:15", "01:00"),
        ("10:00 PM - 12:00 AM", "22:00", "00:00"),
        ("10:00 PM - 6:00 AM", "22:00", "06:00"),
        ("1:00 - 3:00 PM", "13:00", "15:00"),
        ("9:00 - 11:00 AM", "09:00", "11:00"),
        ("12:00 - 1:00 PM", "12:00", "13:00"),
        ("1:00 PM 3:00 PM", "13:00", "15:00"),
    ],
)
def test_time_range_is_found_in_every_format(text: str, start: str, end: str) -> None:
    found = find_time_range(text)
    assert found
    assert (found.start, found.end, found.problem) == (start, end, None)


@pytest.mark.parametrize(
    "text",
    [
        "08:00-08:75", "25:00-26:00", "08:00-08:00", "08:00-07:45", "24:00-06:00", "12:60-13:00", "06:00-23:00",
        "13:00 PM - 3:00 PM", "0:30 AM - 1:00 AM", "1:00 AM - 15:00 PM", "1:00 PM - 3:00", "11:00 - 1:00 PM",
        "9:00 - 12:00 AM",
    ],
)  # fmt: skip
def test_invalid_time_range_has_a_problem(text: str) -> None:
    found = find_time_range(text)
    assert found
    assert found.problem
    assert text in found.problem


@pytest.mark.parametrize(
    "text",
    [
        "Mitt schema", "15:01", "Tisdag 24 februari 2026", "Kund 4711", "412 58 Göteborg", "2026-02-24",
        "070-123 45 67", "0708-1234", "0708-12 34 56", "0700-1230 56", "Tel 0700-1230", "2026-2027", "2025-2030",
        "2026-02.24", "Kund 4711-0815", "9900-1000", "Lill-Lilla gatan", "Olli till Lillö", "lO:Ol-Oo:ll",
        "q8:00-09:00", "08:00-19:00:00", "08:00-09:000",
    ],
)  # fmt: skip
def test_text_without_a_time_range_gives_none(text: str) -> None:
    assert find_time_range(text) is None


def test_text_beside_the_times_is_kept() -> None:
    found = find_time_range("\N{BULLSEYE} 08:00-09:30 Städning")
    assert found
    assert (found.before, found.after) == ("\N{BULLSEYE}", "Städning")


@pytest.mark.parametrize(
    "text", ["08:00-09:00   10:00-11:30", "08:00-09:00 10:0-11:30", "08:0-09:00 10:00-11:30", "08:00-09:00 10:0011:30"]
)
def test_two_time_ranges_in_one_line_are_a_problem(text: str) -> None:
    found = find_time_range(text)
    assert found
    assert found.problem == f"{text!r} shows more than one time range"


@pytest.mark.parametrize("after", ["1:00", "(1.50 h)", "Tel 0708-1234", "PM-möte", "Em Karlsson"])
def test_duration_number_or_name_after_the_times_is_not_part_of_them(after: str) -> None:
    found = find_time_range(f"08:00-09:30 {after}")
    assert found
    assert (found.start, found.end, found.after, found.problem) == ("08:00", "09:30", after, None)


@pytest.mark.parametrize(
    "text",
    [
        "08:0-09:00", "q8:00-09:00", "08-09:00", "0B:00-09:00", "12:1513:15", "08:0009:00", "08:00-09:000", "8:00-9",
        "08:00-", "08:00", "q8:0-09:00", "08:00-q9:00", "08:00-19:00:00", "\N{BULLSEYE} 08:0-09:00",
    ],
)  # fmt: skip
def test_misread_times_are_distinguished_from_other_text(text: str) -> None:
    assert resembles_time(text)


@pytest.mark.parametrize(
    "text",
    ["Städning", "24.02.2026", "2026-02-24", "7.50 h", "7:30 tim", "0708-1234", "412 58 Göteborg", "Uppdaterad 15:01"],
)
def test_other_text_does_not_resemble_a_time(text: str) -> None:
    assert not resembles_time(text)


def test_single_time_is_found_only_without_other_words() -> None:
    assert find_single_time("08:00") == "08:00"
    assert find_single_time("kl 8.15") == "08:15"
    assert find_single_time("- 09:30", is_end=True) == "09:30"
    assert find_single_time("08:00 Städning") is None
    assert find_single_time("08:75") is None
    assert find_single_time("1:00 PM") == "01:00 PM"
    assert find_single_time("- 3.00 p.m.", is_end=True) == "03:00 PM"


# 12-hour clocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("1:00 - 3:00p", "13:00", "15:00"),
        ("1:00\N{EN DASH}3:00 p", "13:00", "15:00"),
        ("1:00p-3:00p", "13:00", "15:00"),
        ("1:00P - 3:00P", "13:00", "15:00"),
        ("1:00 P - 3:00 P", "13:00", "15:00"),
        ("1:00 p to 3:00 p", "13:00", "15:00"),
        ("9:00a - 11:00a", "09:00", "11:00"),
        ("9:00a - 1:00p", "09:00", "13:00"),
        ("1:00\N{EN DASH}3:00 e.m.", "13:00", "15:00"),
        ("1.00\N{EN DASH}3.00 e. m.", "13:00", "15:00"),
        ("1:00\N{EN DASH}3:00 EM", "13:00", "15:00"),
        ("9:00 f.m. \N{EN DASH} 11:00 f.m.", "09:00", "11:00"),
        ("9:00 fm \N{EN DASH} 1:00 em", "09:00", "13:00"),
        ("1:00 \N{EN DASH} 3:00 pm", "13:00", "15:00"),
        ("1:00 - 3:00 prn", "13:00", "15:00"),
        ("1 PM - 3 PM", "13:00", "15:00"),
        ("1pm\N{EN DASH}3:30pm", "13:00", "15:30"),
        ("11 am to 1:15 pm", "11:00", "13:15"),
        ("1-3 pm", "13:00", "15:00"),
        ("9 f.m. - 11 f.m.", "09:00", "11:00"),
        ("9:00 - 11:00 vorm.", "09:00", "11:00"),
        ("1:00 nachm. bis 3:00 nachm.", "13:00", "15:00"),
        ("1 bis 3 Uhr nachmittags", "13:00", "15:00"),
        ("9.00\N{EN DASH}11.00 ap.", "09:00", "11:00"),
        ("klo 1.00\N{EN DASH}3.00 ip.", "13:00", "15:00"),
        ("12 PM - 1 PM", "12:00", "13:00"),
        ("12:00p - 12:30p", "12:00", "12:30"),
        ("12:00a - 1:00a", "00:00", "01:00"),
        ("12:00 AM - 1:00 AM", "00:00", "01:00"),
        ("10 PM - 12 AM", "22:00", "00:00"),
        ("12:00 PM - 12:00 AM", "12:00", "00:00"),
    ],
)
def test_twelve_hour_times_are_converted_completely(text: str, start: str, end: str) -> None:
    found = find_time_range(text)
    assert found
    assert (found.start, found.end, found.before, found.after) == (start, end, "", "")
    assert (found.problem, found.is_12_hour, found.is_hours_only) == (None, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "11:00 - 1:00p", "11:00 - 1:00 e.m.", "11 - 1 PM", "1:00p - 3:00", "9:00 fm - 11:00", "13:00-15:00 e.m.",
        "13 PM - 15 PM", "1:00 PM - 3", "1:00-3:00 P", "1:00-3:00 p Cleaning", "em 1:00-3:00", "e.m. 1:00-3:00",
        "12 - 1 AM - 2", "1:00-3:00 EM Cleaning",
    ],
)  # fmt: skip
def test_times_with_an_ambiguous_am_or_pm_are_refused(text: str) -> None:
    found = find_time_range(text)
    assert found is None or found.problem


@pytest.mark.parametrize(
    "after",
    ["A Andersson", "P Olsson", "P-plats", "p-plats", "Em Karlsson", "IP-telefon", "AP Bygg", "Apan"],
)
def test_initial_or_name_after_the_times_is_not_am_or_pm(after: str) -> None:
    found = find_time_range(f"08:00-09:30 {after}")
    assert found
    assert (found.start, found.end, found.after, found.problem) == ("08:00", "09:30", after, None)


@pytest.mark.parametrize("text", ["p", "P", "e.m.", "fm", "PM", "a.m.", "nachm.", "vorm.", "ip.", "(pm)"])
def test_am_and_pm_markers_are_recognized(text: str) -> None:
    assert is_meridiem(text)


@pytest.mark.parametrize("text", ["Paus", "Em Karlsson", "A Ek", "", "Förmiddag", "08:00 PM"])
def test_other_words_are_not_am_or_pm(text: str) -> None:
    assert not is_meridiem(text)


def test_single_time_keeps_its_am_or_pm() -> None:
    assert find_single_time("1:00p") == "01:00 PM"
    assert find_single_time("9:00 f.m.") == "09:00 AM"
    assert find_single_time("- 3.00 ip.", is_end=True) == "03:00 PM"
    assert find_single_time("3:00 P") is None  # perhaps a sign for parking
    assert find_single_time("klo 8.15") == "08:15"
    assert find_single_time("8.15 Uhr") == "08:15"


# Old times ------------------------------------------------------------------------------------------------------------

OLD = [
    "(tidigare 08:00\N{EN DASH}09:00)", "tidigare 08:00-09:00", "Tidigare: 08:00-09:00", "(was 08:00-09:00)",
    "previously 8:00 AM - 9:00 AM", "förut 08:00-09:00", "(forut 08.00-09.00)", "ursprungligen 08:00 till 09:00",
    "(08:00\N{EN DASH}09:00)", "früher 08:00 bis 09:00", "fruher 08:00-09:00", "vorher 8\N{EN DASH}9 Uhr",
    "statt 08:00-09:00", "statt 8 Uhr - 9 Uhr", "aiemmin klo 8.00\N{EN DASH}9.00", "istället för 08:00-09:00",
    "i stället för kl 8-9", "instead of 08:00-09:00", "(tidigare 8-9)", "tidigare tid 08:00-09:00", "(was 08:00)",
    "[tidigare 08:00-09:00]", "(tidigare 08:00-09:00", "(tidigare 08:0-09:00)", "Ändrad från 08:00-09:00",
    "(was 1:00 - 2:00p)", "tidigare 08:00-09:00.",
]  # fmt: skip


@pytest.mark.parametrize("text", OLD)
def test_note_on_an_old_time_is_recognized(text: str) -> None:
    assert is_old_range(text)


@pytest.mark.parametrize("text", [text for text in OLD if not text.startswith("(08:00")])
def test_note_on_an_old_time_is_not_a_time_range(text: str) -> None:
    assert find_time_range(text) is None
    assert find_hours_range(text) is None


def test_bracketed_time_range_is_marked() -> None:
    found = find_time_range("(08:00\N{EN DASH}09:00)")
    assert found
    assert (found.start, found.end, found.before, found.after, found.problem) == ("08:00", "09:00", "", "", None)
    assert found.is_bracketed


@pytest.mark.parametrize(
    "text",
    [
        "08:00-09:00", "10:00-11:00 (tidigare 08:00-09:00)", "Tidigare Andersson", "Städning (08:00-09:00)", "",
        "08:00-09:00 \N{RIGHTWARDS ARROW} 10:00-11:00", "was", "(1:00)", "Tidigare 3 besök", "Wasagatan 8-9",
        "(070-123 45 67)",
    ],
)  # fmt: skip
def test_text_with_more_than_an_old_time_is_not_such_a_note(text: str) -> None:
    assert not is_old_range(text)


@pytest.mark.parametrize("note", OLD)
@pytest.mark.parametrize("title", ["", " Städning"])
def test_new_time_range_is_used_beside_an_old_one(note: str, title: str) -> None:
    found = find_time_range(f"10:00-11:00 {note}{title}")
    assert found
    assert (found.start, found.end, found.after, found.problem) == ("10:00", "11:00", title.strip(), None)


@pytest.mark.parametrize(
    "text",
    [
        "08:00\N{EN DASH}09:00 \N{RIGHTWARDS ARROW} 10:00\N{EN DASH}11:00",
        "08:00-09:00->10:00-11:00",
        "08:00-09:00 => 10:00-11:00",
        "06:00-07:00 \N{RIGHTWARDS ARROW} 08:00-09:00 \N{RIGHTWARDS ARROW} 10:00-11:00",
        "tidigare 08:00-09:00 10:00-11:00",
        "(08:00-09:00) 10:00-11:00",
        "Ändrad från 08:00-09:00 till 10:00-11:00",
        "(tidigare 08:00-09:00) \N{RIGHTWARDS ARROW} 10:00-11:00",
    ],
)
def test_old_time_range_may_come_before_the_new_one(text: str) -> None:
    found = find_time_range(text)
    assert found
    assert (found.start, found.end, found.before, found.after, found.problem) == ("10:00", "11:00", "", "", None)


@pytest.mark.parametrize(
    "text",
    [
        "08:00-09:00 - 10:00-11:00", "08:00-09:00 > 10:00-11:00", "08:00-09:00 (lunch 10:00-11:00)",
        "08:00-09:00, 10:00-11:00", "Städning (08:00-09:00) (10:00-11:00)", "10:00-11:00 (tidigare",
        "10:00-11:00 (tidigare)", "Tidigare 08:00-09:00 Städning", "08:00-09:00 och 10:00-11:00 (tidigare 07:00-08:00)",
        "08:00 \N{RIGHTWARDS ARROW} 09:00 \N{RIGHTWARDS ARROW} 10:00 \N{RIGHTWARDS ARROW} 11:00",
    ],
)  # fmt: skip
def test_time_ranges_without_a_clear_new_one_are_refused(text: str) -> None:
    found = find_time_range(text)
    assert found
    assert found.problem
    assert repr(text) in found.problem


# Hours without minutes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("8 Uhr \N{EN DASH} 10 Uhr", "08:00", "10:00"),
        ("8\N{EN DASH}10 Uhr", "08:00", "10:00"),
        ("von 8 bis 10 Uhr", "08:00", "10:00"),
        ("8.00\N{EN DASH}10.00 Uhr", "08:00", "10:00"),
        ("8.30 Uhr - 10 Uhr", "08:30", "10:00"),
        ("08:00 Uhr bis 10:00 Uhr", "08:00", "10:00"),
        ("klo 8\N{EN DASH}10", "08:00", "10:00"),
        ("kl 8-10", "08:00", "10:00"),
        ("Kl. 08\N{EN DASH}10", "08:00", "10:00"),
        ("kl 22-24", "22:00", "00:00"),
        ("von 08:00 bis 10:00", "08:00", "10:00"),
        ("klo 8.00\N{EN DASH}10.00", "08:00", "10:00"),
        ("from 08:00 until 10:00", "08:00", "10:00"),
        ("från 08:00 till 10:00", "08:00", "10:00"),
        ("kl 08:00 - kl 10:00", "08:00", "10:00"),
    ],
)
def test_time_range_with_a_word_for_hours_is_recognized_completely(text: str, start: str, end: str) -> None:
    found = find_time_range(text)
    assert found
    assert (found.start, found.end, found.before, found.after) == (start, end, "", "")
    assert (found.problem, found.is_hours_only) == (None, False)
    assert find_hours_range(text) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("8\N{EN DASH}10", "08:00", "10:00"),
        ("8-10:30", "08:00", "10:30"),
        ("8:30 - 10", "08:30", "10:00"),
        ("08\N{EN DASH}10", "08:00", "10:00"),
        ("kl 8-10:30", "08:00", "10:30"),
        ("8 bis 10", "08:00", "10:00"),
        ("22-06", "22:00", "06:00"),
        ("18-24", "18:00", "00:00"),
        ("0-8", "00:00", "08:00"),
        ("1-3:30 pm", "13:00", "15:30"),
        ("9a-11a", "09:00", "11:00"),
        ("10-12 (tidigare 8-10)", "10:00", "12:00"),
    ],
)
def test_bare_hours_are_a_range_that_the_layout_must_confirm(text: str, start: str, end: str) -> None:
    assert find_time_range(text) is None
    found = find_hours_range(text)
    assert found
    assert (found.start, found.end, found.problem, found.is_hours_only) == (start, end, None, True)


@pytest.mark.parametrize(
    "text",
    [
        "8-10 Städning", "Rum 8-10", "08:00-10:00", "8-25", "24-26", "10-8", "8-8", "070-12", "8-10-12", "2026-27",
        "(8-10)", "8/9-10/9", "7-8 sep", "8", "8-10 st", "Storgatan 5a-7a", "+46-70",
    ],
)  # fmt: skip
def test_other_numbers_are_not_hours(text: str) -> None:
    assert find_hours_range(text) is None


@pytest.mark.parametrize(
    "text", ["Städning kl 8-10", "kl 8-10 ring kunden", "Storgatan 5A-7A", "Rum 1-3", "1-3 PM kurs", "kl 8-10/9"]
)
def test_hours_among_other_words_are_not_a_time_range(text: str) -> None:
    assert find_time_range(text) is None
