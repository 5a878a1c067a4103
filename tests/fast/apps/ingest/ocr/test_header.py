"""The date of a page, from its header."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.apps.ingest.ocr.header import HeaderDate, find_dates, find_header_date, is_day_header
from duly.apps.ingest.ocr.lines import Line
from tests.support.ocr.text_boxes import line


def find_date(lines: list[Line], default_year: int) -> date | None:
    """Return the date of these lines."""
    found = find_header_date(lines, default_year)
    return found.date if found else None


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Tisdag 24 februari 2026", date(2026, 2, 24)),
        ("tisdag, 24 februari 2026", date(2026, 2, 24)),
        ("Idag, tisdag 24 februari", date(2025, 2, 24)),
        ("Tis 24 feb", date(2025, 2, 24)),
        ("Tuesday, February 24, 2026", date(2026, 2, 24)),
        ("Today Tue 24 Feb 2026", date(2026, 2, 24)),
        ("Feb 24th, 2026", date(2026, 2, 24)),
        ("24 maj", date(2025, 5, 24)),
        ("2026-02-24", date(2026, 2, 24)),
        ("24/2 2026", date(2026, 2, 24)),
        ("24/2/2026", date(2026, 2, 24)),
        ("24.2.2026", date(2026, 2, 24)),
        ("2026.02.24", date(2026, 2, 24)),
        ("February 24,2026", date(2026, 2, 24)),
        ("Tisdag 24/2", date(2025, 2, 24)),
        ("Tis 24/2 v.9", date(2025, 2, 24)),
        ("Idag 24/2", date(2025, 2, 24)),
        ("09.41 Tis 24 feb", date(2025, 2, 24)),
        ("Tis 24 feb 08:10 7.5 h", date(2025, 2, 24)),
        ("Lordag 16 decenber 2026", date(2026, 12, 16)),
        ("Söndag 1 mars 2026 v. 9", date(2026, 3, 1)),
    ],
)
def test_date_is_found_in_swedish_and_english_with_or_without_a_year(text: str, day: date) -> None:
    assert find_date([line("Mitt schema"), line(text)], default_year=2025) == day


@pytest.mark.parametrize(
    "text",
    [
        "Mitt schema", "Idag", "Tisdag", "Vecka 9", "31 februari 2026", "mars", "24", "Maj Andersson", "15:01",
        "08.10", "kl 08.10", "Tis 08.10", "08.10 2026", "8,30",
        "Totalt 7.5 h", "8.5 hours", "Torsdag 7.5 h", "Jan 7.5 h", "Jan 8 tim", "Jan 08:10",
        "App v2.1", "5G 4.5", "Version 2026.1.2", "v2026-01-02",
        "1/2", "3/5 klara", "Tisdag 3/5 klara", "Dag 3/7", "Vecka 1/2", "24/7",
    ],
)  # fmt: skip
def test_text_without_a_date_gives_none(text: str) -> None:
    assert find_date([line(text)], default_year=2025) is None


@given(
    st.text()
    | st.lists(st.sampled_from(["24", "0", "2026", "9999", "/", ".", "-", " ", "tis", "feb", "idag"])).map("".join)
)
def test_any_line_has_a_valid_date_or_none(text: str) -> None:
    found = find_date([line(text)], default_year=2025)
    assert found is None or 2000 <= found.year < 2200


def test_date_with_a_weekday_is_preferred_and_then_the_one_with_a_year() -> None:
    lines = [line("Uppdaterad 3 mars 2026", 20), line("Tisdag 24 februari", 60), line("5 april 2026", 90, height=80)]
    assert find_date(lines, default_year=2026) == date(2026, 2, 24)
    assert find_date([line("3 mars", 20), line("5 april 2026", 90)], default_year=2026) == date(2026, 4, 5)
    assert find_date([line("3 mars", 20), line("5 april", 90, height=80)], default_year=2026) == date(2026, 4, 5)


# German and Finnish ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Montag, 7. September 2026", date(2026, 9, 7)),
        ("Mo 07.09.2026", date(2026, 9, 7)),
        ("Mo, 07.09.2026", date(2026, 9, 7)),
        ("Mo. 7. Sept. 2026", date(2026, 9, 7)),
        ("ma 7.9.2026", date(2026, 9, 7)),
        ("ma 7.9.", date(2025, 9, 7)),
        ("Mo 07.09.", date(2025, 9, 7)),
        ("Montag 7.9.", date(2025, 9, 7)),
        ("Måndag 7.9.", date(2025, 9, 7)),
        ("Heute 7.9.", date(2025, 9, 7)),
        ("Donnerstag, 5. März 2026", date(2026, 3, 5)),
        ("Donnerstag, 5. Marz 2026", date(2026, 3, 5)),
        ("5. Mrz 2026", date(2026, 3, 5)),
        ("5. Mär. 2026", date(2026, 3, 5)),
        ("1. Mai 2026", date(2026, 5, 1)),
        ("Samstag 3. Jänner", date(2025, 1, 3)),
        ("So 6. Dez 2026", date(2026, 12, 6)),
        ("24. Dezember 2026", date(2026, 12, 24)),
        ("3. Januar 2026", date(2026, 1, 3)),
        ("4. Februar 2026", date(2026, 2, 4)),
        ("5. Okt. 2026", date(2026, 10, 5)),
        ("maanantai 7. syyskuuta 2026", date(2026, 9, 7)),
        ("maanantaina 7. syyskuuta", date(2025, 9, 7)),
        ("7. syyskuu 2026", date(2026, 9, 7)),
        ("8. kesäkuuta 2026", date(2026, 6, 8)),
        ("8. kesakuuta 2026", date(2026, 6, 8)),
        ("9. elokuuta 2026", date(2026, 8, 9)),
        ("9. lokakuuta 2026", date(2026, 10, 9)),
        ("9. iokakuuta 2026", date(2026, 10, 9)),
        ("1. touko 2026", date(2026, 5, 1)),
        ("Tänään ti 8.9.", date(2025, 9, 8)),
        ("KW 37 Mo 7.9.", date(2025, 9, 7)),
    ],
)
def test_date_is_found_in_german_and_finnish(text: str, day: date) -> None:
    assert find_date([line("Dienstplan"), line(text)], default_year=2025) == day


@pytest.mark.parametrize(
    "text",
    [
        "Mo 08.10", "ma 8.10", "7.9.", "Mo", "ma", "Helmi 12", "Elo 7", "KW 37", "Hei 24", "Mo 8 Uhr", "Tis 08.10.",
        "Frida 24/2", "Montage 24/2", "so 3/5 klara", "Montag 8.30 Uhr", "la 7",
    ],
)  # fmt: skip
def test_german_or_finnish_text_without_a_date_gives_none(text: str) -> None:
    assert find_date([line(text)], default_year=2025) is None


@pytest.mark.parametrize(
    ("text", "weekday"),
    [
        ("Måndag 7 september 2026", 0), ("Tues 8 Sep 2026", 1), ("Mittwoch 9.9.2026", 2), ("to 10.9.2026", 3),
        ("perjantaina 11.9.2026", 4), ("12 september 2026 (lör)", 5), ("13.9.2026 su", 6), ("Sontag 13.9.2026", 6),
        ("7 september 2026", None), ("5 to 7 september 2026", None), ("Tisdag den 8 september 2026", 1),
    ],
)  # fmt: skip
def test_weekday_of_a_date_is_parsed(text: str, weekday: int | None) -> None:
    found = find_header_date([line(text)], default_year=2026)
    assert found
    assert (found.weekday, found.contradicts_weekday) == (weekday, False)


# Weekdays and dates that contradict -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Fredag 24 februari 2026", "Friday, February 24, 2026", "Fri 2026-02-24", "Fredag 24/2 2026", "Fri 24/02/2026",
        "Fr 24.2.2026", "Idag, fredag 24 februari", "Fre 24/2",
    ],
)  # fmt: skip
def test_a_weekday_that_contradicts_the_date_is_reported_and_the_date_kept(text: str) -> None:
    found = find_header_date([line(text)], default_year=2026)
    assert found
    assert (found.date, found.weekday, found.contradicts_weekday, found.is_ambiguous) == (
        date(2026, 2, 24),
        4,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("text", "day", "contradicts_weekday", "is_ambiguous"),
    [
        ("Friday 04/03/2026", date(2026, 4, 3), False, False),
        ("Wednesday 04/03/2026", date(2026, 3, 4), False, False),
        ("Monday 04/03/2026", date(2026, 3, 4), True, True),
        ("04/03/2026", date(2026, 3, 4), False, True),
        ("Today 04/03/2026", date(2026, 3, 4), False, True),
        ("4/3 2026", date(2026, 3, 4), False, True),
        ("Fri 4/3", date(2026, 4, 3), False, False),
        ("Mon 4/3", date(2026, 3, 4), True, True),
        ("Sunday 02/03/2025", date(2025, 3, 2), False, False),
        ("Onsdag 4/3 2026", date(2026, 3, 4), False, False),
        ("Fredag 4/3 2026", date(2026, 3, 4), True, False),
        ("Fredag 04/03/2026", date(2026, 3, 4), True, False),
        ("Fredag 4/3", date(2026, 3, 4), True, False),
        ("Idag 4/3 2026", date(2026, 3, 4), False, False),
        ("4.3.2026", date(2026, 3, 4), False, False),
        ("pe 4.3.2026", date(2026, 3, 4), True, False),
        ("Wednesday 4.3.2026", date(2026, 3, 4), False, False),
        ("Friday 4.3.2026", date(2026, 3, 4), True, True),
        ("Monday 4.3.2026", date(2026, 3, 4), True, False),
        ("03/03/2026", date(2026, 3, 3), False, False),
        ("04/13/2026", date(2026, 4, 13), False, False),
        ("Monday 04/13/2026", date(2026, 4, 13), False, False),
        ("Thursday 07/05/2026", date(2026, 5, 7), False, False),
    ],
)
def test_day_and_month_are_swapped_only_if_the_weekday_requires_it(
    text: str, day: date, contradicts_weekday: bool, is_ambiguous: bool
) -> None:
    found = find_header_date([line(text)], default_year=2026)
    assert found
    assert (found.date, found.contradicts_weekday, found.is_ambiguous) == (day, contradicts_weekday, is_ambiguous)


def test_weekday_that_fits_both_orders_leaves_the_date_ambiguous() -> None:
    both = next(
        date(2026, month, day)
        for month in range(1, 13)
        for day in range(1, 13)
        if day != month and date(2026, month, day).weekday() == date(2026, day, month).weekday()
    )
    found = find_header_date([line(f"{both:%A %d/%m/%Y}")], default_year=2026)
    assert found
    assert (found.contradicts_weekday, found.is_ambiguous) == (False, True)


@pytest.mark.parametrize("text", ["Tisdag 13/24 2026", "13.24.2026", "Tisdag 4/13 2026", "4.13.2026", "Tisdag 2/24"])
def test_month_above_12_in_day_first_order_is_not_a_date(text: str) -> None:
    assert find_header_date([line(text)], default_year=2026) is None


@pytest.mark.parametrize("text", ["7\N{EN DASH}13 september 2026", "7-13 sep", "September 7-13", "7 sep | 8 sep"])
def test_a_line_with_several_days_is_ambiguous(text: str) -> None:
    found = find_header_date([line(text)], default_year=2026)
    assert found
    assert found.is_ambiguous


@pytest.mark.parametrize(
    ("text", "has_year"), [("Tis 8 sep", False), ("Tis 8/9", False), ("8 sep 2026", True), ("2026-09-08", True)]
)
def test_date_records_whether_the_year_was_written(text: str, has_year: bool) -> None:
    found = find_header_date([line(text)], default_year=2026)
    assert found
    assert found.has_year is has_year


# Several days in one line ---------------------------------------------------------------------------------------------


def texts_and_days(days: list[HeaderDate]) -> list[tuple[str, int]]:
    """Return the text and the day of the month of each."""
    return [(each.line.text[each.start : each.end], each.date.day) for each in days]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Mån 7/9 Tis 8/9 Ons 9/9", [("Mån 7/9", 7), ("Tis 8/9", 8), ("Ons 9/9", 9)]),
        ("Mån 7/9 | Tis 8/9", [("Mån 7/9", 7), ("Tis 8/9", 8)]),
        ("Mån7/9 Tis8/9", [("Mån7/9", 7), ("Tis8/9", 8)]),
        ("7 sep | 8 sep", [("7 sep", 7), ("8 sep", 8)]),
        ("7 sep 8 sep", [("7 sep", 7), ("8 sep", 8)]),
        ("Sep 7 Sep 8", [("Sep 7", 7), ("Sep 8", 8)]),
        ("Måndag 7 september | Tisdag 8 september", [("Måndag 7 september", 7), ("Tisdag 8 september", 8)]),
        ("Måndag den 7 sep 2026 Tisdag den 8 sep 2026", [("Måndag den 7 sep 2026", 7), ("Tisdag den 8 sep 2026", 8)]),
        ("ma 7.9. ti 8.9. ke 9.9. to 10.9.", [("ma 7.9.", 7), ("ti 8.9.", 8), ("ke 9.9.", 9), ("to 10.9.", 10)]),
        ("Mo 07.09. Di 08.09.", [("Mo 07.09.", 7), ("Di 08.09.", 8)]),
        ("2026-09-07 2026-09-08", [("2026-09-07", 7), ("2026-09-08", 8)]),
        ("7 sep (mån) 8 sep (tis)", [("7 sep (mån)", 7), ("8 sep (tis)", 8)]),
        ("Mån 7 sep", [("Mån 7 sep", 7)]),
        ("09:41 Mån 7 sep", [("Mån 7 sep", 7)]),
        ("Mån 7/9 klart Tis 8/9", []),
        ("7/9 8/9", []),
        ("Mitt schema", []),
        ("", []),
    ],
)
def test_all_dates_of_a_line_are_found_with_their_text(text: str, days: list[tuple[str, int]]) -> None:
    assert texts_and_days(find_dates(line(text), 2026)) == days


def test_each_date_of_a_line_has_its_own_weekday() -> None:
    days = find_dates(line("Mån 7/9 Tis 8/9 Fre 9/9"), 2026)
    assert [(each.weekday, each.contradicts_weekday, each.is_ambiguous) for each in days] == [
        (0, False, False), (1, False, False), (4, True, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Måndag", "mån", "Tisdag 8 september 2026", "Tis 8/9", "Idag", "I dag", "Idag, tis 24 feb", "2026-09-07",
        "7 sep", "Mån 7", "Mo 7", "ma 7.9.", "Montag, 7. September", "Today", "Tänään", "Måndag v. 37",
        "Mån 7/9 Tis 8/9 Ons 9/9", "Mån Tis Ons Tors Fre", "Mon Tue Wed Thu Fri", "TISDAG",
        "Tuesday, February 24, 2026", "29 februari",
    ],
)  # fmt: skip
def test_line_with_only_dates_is_a_day_header(text: str) -> None:
    assert is_day_header(text)


@pytest.mark.parametrize(
    "text",
    [
        "Möte om 7 september", "Uppdaterad 3 mars 2026", "Frida", "Fri", "Tor", "Man", "Mo", "To", "Städning",
        "Vecka 37", "Dag", "Måndag 08:00", "Måndag 7.5 h", "7/9", "7", "1/2", "Tisdag 3/5 klara", "Montage", "mars", "",
        "Ring Anna på måndag", "Maj Andersson", "08:00-09:00", "Tis 8.30", "Lördagsgatan 7",
    ],
)  # fmt: skip
def test_line_with_other_text_is_not_a_day_header(text: str) -> None:
    assert not is_day_header(text)


@given(
    st.text()
    | st.lists(st.sampled_from(["24", "0", "2026", "/", ".", "-", " ", "tis", "mo", "feb", "idag", "|"])).map("".join)
)
def test_the_dates_of_any_line_do_not_overlap(text: str) -> None:
    is_day_header(text)
    end = 0
    for each in find_dates(line(text), 2025):
        assert end <= each.start < each.end <= len(text)
        end = each.end
