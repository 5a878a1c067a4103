"""Times that an engine breaks, or does not see, never make a shift vanish as if it were gone."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from duly.apps.ingest.ocr.mark import Mark
from duly.apps.ingest.ocr.page import Page
from duly.apps.ingest.ocr.times import Range, find_range
from duly.apps.ingest.photographs import coverage_of
from duly.apps.ingest.spelling import minutes
from tests.fast.apps.ingest.ocr.test_layout import ANNA, BO, EVA, FOOT, HEAD, as_cards, as_grid, as_list
from tests.support.ocr.marks import Recorded, mark, page, recorded, shifts_of, tilted

KARIN = ("14:00", "15:00", "Inköp", "Karin Åström", "Partille")
OLA = ("16:00", "17:00", "Jour", "Ola Ek", "Kungälv")
LAYS = [as_list, as_cards, as_grid]
LONG = [as_list, as_cards]
Lay = Callable[..., list[Mark]]
BREAKS: dict[str, Callable[[Range], str | None]] = {
    "not seen": lambda _: None,
    "08:0-09:00": lambda times: f"{times.start[:4]}-{times.end}",
    "q8:00-09:00": lambda times: f"q{times.start[1:]}-{times.end}",
    "08-09:00": lambda times: f"{times.start[:2]}-{times.end}",
    "08:00-09": lambda times: f"{times.start}-{times.end[:2]}",
    "08:0009:00": lambda times: f"{times.start}{times.end}",
    "08:00": lambda times: times.start,
    "0800 0900": lambda times: f"{times.start}{times.end}".replace(":", " "),
    "C%-&": lambda _: "C%-&",
}


def without(marks: Sequence[Mark], at: int, broken: str | None) -> list[Mark]:
    """The marks with one of them not seen, or read as something else."""
    instead = [] if broken is None else [replace(marks[at], text=broken)]
    return [*marks[:at], *instead, *marks[at + 1 :]]


def is_told(found: Page, start: str) -> bool:
    """Is there a problem, or does the page not claim to have looked where the shift begins?"""
    return bool(found.problems) or not any(span.first <= minutes(start) <= span.last for span in coverage_of(found))


@pytest.mark.parametrize("way", BREAKS)
@pytest.mark.parametrize("record", recorded(), ids=lambda record: f"{record.name} {record.about}")
def test_no_times_of_a_recorded_screen_are_lost_unnoticed(record: Recorded, way: str) -> None:
    silent: list[str] = []
    for at, each in enumerate(record.marks):
        if times := find_range(each.text):
            found = replace(record, marks=tuple(without(record.marks, at, BREAKS[way](times)))).read()
            if not is_told(found, times.start):
                silent.append(each.text)
    assert silent == []


@pytest.mark.parametrize("way", BREAKS)
@pytest.mark.parametrize("many", [2, 3, 4, 5])
@pytest.mark.parametrize("lay", LAYS)
@pytest.mark.parametrize("degrees", [0, -5])
def test_no_times_are_lost_unnoticed_in_any_layout(lay: Lay, degrees: float, many: int, way: str) -> None:
    marks = [*HEAD, *lay(*[ANNA, BO, EVA, KARIN, OLA][:many]), *FOOT]
    silent: list[str] = []
    for at, each in enumerate(marks):
        if times := find_range(each.text):
            found = page(tilted(without(marks, at, BREAKS[way](times)), degrees))
            if not is_told(found, times.start):
                silent.append(each.text)
    assert silent == []


@pytest.mark.parametrize("broken", ["08:0-09:00", "q8:00-09:00", "08-09:00", "08:00-09", "08:0009:00", "08:00"])
@pytest.mark.parametrize("lay", LAYS)
def test_times_of_the_first_shift_that_cannot_be_read_are_told(lay: Lay, broken: str) -> None:
    found = page([*HEAD, *without(lay(ANNA, BO, EVA), 0, broken), *FOOT])
    assert found.problems == (f"{broken!r} looks like times and cannot be read",)
    assert sorted(shifts_of(found)) == [BO, EVA]


@pytest.mark.parametrize("clock", ["15:01", "15.01", "15:01 5G", "3:01 PM"])
@pytest.mark.parametrize("lay", LAYS)
def test_the_clock_of_the_telephone_is_no_shift_that_cannot_be_read(lay: Lay, clock: str) -> None:
    found = page([mark(clock, 48, 18), *HEAD[1:], *lay(ANNA, BO, EVA), *FOOT])
    assert (sorted(shifts_of(found)), found.problems, found.begins) == ([ANNA, BO, EVA], (), True)


@pytest.mark.parametrize("lay", LAYS)
def test_the_last_times_that_were_not_seen_leave_a_shift_without_any(lay: Lay) -> None:
    marks = [each for each in lay(ANNA, BO, EVA) if not each.text.startswith(EVA[0])]
    (problem,) = page([*HEAD, *marks, *FOOT]).problems
    assert problem.startswith("'Möte' after '08:00" if lay is as_grid else "'Möte' after '10:00")
    assert problem.endswith("belongs to no shift")


def test_a_column_whose_only_times_were_not_seen_is_told() -> None:
    left, right = as_grid(ANNA, BO)[:4], as_grid(ANNA, BO)[4:]
    for marks in ([*left, *right[1:]], [*left[1:], *right]):
        (problem,) = page([*HEAD, *marks, *FOOT]).problems
        assert problem.endswith("belongs to no shift") or "belong to no shift" in problem


def test_two_ranges_that_were_taken_for_one_are_told() -> None:
    marks = [each for each in as_grid(ANNA, BO) if each.text[0].isalpha()]
    both = mark("08:00-09:00   10:00-11:30", 66, 343, 44)
    problems = page([*HEAD, both, *marks, *FOOT]).problems
    assert problems == ("'08:00-09:00 10:00-11:30' shows more than one range of times",)


@pytest.mark.parametrize("words", ["Förmiddag", "Totalt 2,5 h", "\N{BULLET}\N{BULLET}"])
@pytest.mark.parametrize("lay", LONG)
def test_a_heading_or_a_sum_below_the_last_shift_is_no_shift(lay: Lay, words: str) -> None:
    marks = lay(ANNA, BO)
    found = page([*HEAD, *marks, mark(words, marks[-1].corners[0][0], 1300), *FOOT])
    assert (shifts_of(found), found.problems, found.ends) == ([ANNA, BO], (), True)


def test_other_words_below_the_last_shift_do_not_end_the_day() -> None:
    found = page([*HEAD, *as_cards(ANNA, BO), mark("Visa mera", 500, 1500), *FOOT])
    assert (shifts_of(found), found.problems, found.ends) == ([ANNA, BO], (), False)


@pytest.mark.parametrize("lay", LONG)
def test_a_row_that_the_foot_of_the_page_cuts_is_left_to_the_next_photograph(lay: Lay) -> None:
    marks = lay(ANNA, BO, EVA)
    foot = marks[8].corners[0][1] + 90
    cut = [
        replace(each, text="l2:l5-l") if at == 8 else replace(each, text="Mot")
        for at, each in enumerate(marks[8:10], 8)
    ]
    shown = cut if lay is as_list else cut[:1]
    bar = [mark(word, x, foot, 34) for word, x in (("Schema", 75), ("Kalender", 340), ("Chatt", 630), ("Profil", 900))]
    found = page([*HEAD, *marks[:8], *shown, *bar])
    assert (shifts_of(found), found.problems, found.ends) == ([ANNA, BO], (), False)
