"""The day of a page, from its head."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.ingest.eyes.header import find_day
from duly.ingest.eyes.lines import Line
from tests.support.eyes.marks import line


def find_date(lines: list[Line], default_year: int) -> date | None:
    """The day that lines name."""
    found = find_day(lines, default_year)
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
def test_a_day_is_found_in_swedish_and_english_with_and_without_a_year(text: str, day: date) -> None:
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
def test_what_names_no_day_is_none(text: str) -> None:
    assert find_date([line(text)], default_year=2025) is None


@given(
    st.text()
    | st.lists(st.sampled_from(["24", "0", "2026", "9999", "/", ".", "-", " ", "tis", "feb", "idag"])).map("".join)
)
def test_whatever_a_line_says_a_day_is_found_or_not(text: str) -> None:
    found = find_date([line(text)], default_year=2025)
    assert found is None or 2000 <= found.year < 2200


def test_of_several_the_one_with_a_weekday_wins_and_then_the_one_with_a_year() -> None:
    lines = [line("Uppdaterad 3 mars 2026", 20), line("Tisdag 24 februari", 60), line("5 april 2026", 90, height=80)]
    assert find_date(lines, default_year=2026) == date(2026, 2, 24)
    assert find_date([line("3 mars", 20), line("5 april 2026", 90)], default_year=2026) == date(2026, 4, 5)
    assert find_date([line("3 mars", 20), line("5 april", 90, height=80)], default_year=2026) == date(2026, 4, 5)
