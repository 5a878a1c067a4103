"""Ranges of times as screens print them, and such as cannot be right."""

import pytest

from duly.ingest.eyes.times import find_range, find_single, is_like_times


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
def test_a_range_is_found_however_it_is_printed(text: str, start: str, end: str) -> None:
    found = find_range(text)
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
def test_a_range_that_cannot_be_right_says_so(text: str) -> None:
    found = find_range(text)
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
def test_what_is_no_range_is_none(text: str) -> None:
    assert find_range(text) is None


def test_what_stands_beside_the_times_is_kept() -> None:
    found = find_range("\N{BULLSEYE} 08:00-09:30 Städning")
    assert found
    assert (found.before, found.after) == ("\N{BULLSEYE}", "Städning")


@pytest.mark.parametrize(
    "text", ["08:00-09:00   10:00-11:30", "08:00-09:00 10:0-11:30", "08:0-09:00 10:00-11:30", "08:00-09:00 10:0011:30"]
)
def test_of_two_ranges_in_one_line_none_is_taken_for_the_other(text: str) -> None:
    found = find_range(text)
    assert found
    assert found.problem == f"{text!r} shows more than one range of times"


@pytest.mark.parametrize("after", ["1:00", "(1.50 h)", "Tel 0708-1234", "PM-möte", "Em Karlsson"])
def test_a_duration_a_number_or_a_name_after_the_times_is_no_part_of_them(after: str) -> None:
    found = find_range(f"08:00-09:30 {after}")
    assert found
    assert (found.start, found.end, found.after, found.problem) == ("08:00", "09:30", after, None)


@pytest.mark.parametrize(
    "text",
    [
        "08:0-09:00", "q8:00-09:00", "08-09:00", "0B:00-09:00", "12:1513:15", "08:0009:00", "08:00-09:000", "8:00-9",
        "08:00-", "08:00", "q8:0-09:00", "08:00-q9:00", "08:00-19:00:00", "\N{BULLSEYE} 08:0-09:00",
    ],
)  # fmt: skip
def test_what_was_meant_for_times_is_told_from_other_text(text: str) -> None:
    assert is_like_times(text)


@pytest.mark.parametrize(
    "text",
    ["Städning", "24.02.2026", "2026-02-24", "7.50 h", "7:30 tim", "0708-1234", "412 58 Göteborg", "Uppdaterad 15:01"],
)
def test_other_text_is_not_meant_for_times(text: str) -> None:
    assert not is_like_times(text)


def test_a_time_alone_is_one_only_without_other_words() -> None:
    assert find_single("08:00") == "08:00"
    assert find_single("kl 8.15") == "08:15"
    assert find_single("- 09:30", is_later=True) == "09:30"
    assert find_single("08:00 Städning") is None
    assert find_single("08:75") is None
    assert find_single("1:00 PM") == "01:00 PM"
    assert find_single("- 3.00 p.m.", is_later=True) == "03:00 PM"
