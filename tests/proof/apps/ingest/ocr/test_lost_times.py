"""Times that an engine misreads or misses never make a shift vanish silently."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.apps.ingest.ocr.text_box import TextBox
from duly.apps.ingest.ocr.times import TimeRange, find_time_range
from duly.apps.ingest.photographs import page_coverage
from duly.apps.ingest.spelling import minutes_since_midnight
from tests.fast.apps.ingest.ocr.test_layout import ANNA, BO, EVA, FOOT, HEAD, as_cards, as_grid, as_list
from tests.support.ocr.text_boxes import Recorded, box, page, recorded, shifts_of, tilted

KARIN = ("14:00", "15:00", "Inköp", "Karin Åström", "Partille")
OLA = ("16:00", "17:00", "Jour", "Ola Ek", "Kungälv")
LAYS = [as_list, as_cards, as_grid]
LONG = [as_list, as_cards]
Lay = Callable[..., list[TextBox]]
BREAKS: dict[str, Callable[[TimeRange], str | None]] = {
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


def without(boxes: Sequence[TextBox], at: int, broken: str | None) -> list[TextBox]:
    """Return the boxes with one of them missed, or read as something else."""
    instead = [] if broken is None else [replace(boxes[at], text=broken)]
    return [*boxes[:at], *instead, *boxes[at + 1 :]]


def is_reported(found: RecognisedDay, start: str) -> bool:
    """Check whether there is a problem, or the page does not cover the start of the shift."""
    return bool(found.problems) or not any(
        span.first <= minutes_since_midnight(start) <= span.last for span in page_coverage(found)
    )


@pytest.mark.parametrize("way", BREAKS)
@pytest.mark.parametrize("record", recorded(), ids=lambda record: f"{record.name} {record.about}")
def test_no_times_of_a_recorded_screen_are_lost_unnoticed(record: Recorded, way: str) -> None:
    silent: list[str] = []
    for at, each in enumerate(record.boxes):
        if times := find_time_range(each.text):
            found = replace(record, boxes=tuple(without(record.boxes, at, BREAKS[way](times)))).read()
            if not is_reported(found, times.start):
                silent.append(each.text)
    assert silent == []


@pytest.mark.parametrize("way", BREAKS)
@pytest.mark.parametrize("many", [2, 3, 4, 5])
@pytest.mark.parametrize("lay", LAYS)
@pytest.mark.parametrize("degrees", [0, -5])
def test_no_times_are_lost_unnoticed_in_any_layout(lay: Lay, degrees: float, many: int, way: str) -> None:
    boxes = [*HEAD, *lay(*[ANNA, BO, EVA, KARIN, OLA][:many]), *FOOT]
    silent: list[str] = []
    for at, each in enumerate(boxes):
        if times := find_time_range(each.text):
            found = page(tilted(without(boxes, at, BREAKS[way](times)), degrees))
            if not is_reported(found, times.start):
                silent.append(each.text)
    assert silent == []


@pytest.mark.parametrize("broken", ["08:0-09:00", "q8:00-09:00", "08-09:00", "08:00-09", "08:0009:00", "08:00"])
@pytest.mark.parametrize("lay", LAYS)
def test_unreadable_times_of_the_first_shift_are_a_problem(lay: Lay, broken: str) -> None:
    found = page([*HEAD, *without(lay(ANNA, BO, EVA), 0, broken), *FOOT])
    assert found.problems == (f"{broken!r} looks like times but cannot be read",)
    assert sorted(shifts_of(found)) == [BO, EVA]


@pytest.mark.parametrize("clock", ["15:01", "15.01", "15:01 5G", "3:01 PM"])
@pytest.mark.parametrize("lay", LAYS)
def test_the_clock_in_the_status_bar_is_not_reported_as_an_unreadable_shift(lay: Lay, clock: str) -> None:
    found = page([box(clock, 48, 18), *HEAD[1:], *lay(ANNA, BO, EVA), *FOOT])
    assert (sorted(shifts_of(found)), found.problems, found.shows_day_start) == ([ANNA, BO, EVA], (), True)


@pytest.mark.parametrize("lay", LAYS)
def test_missed_times_of_the_last_shift_are_reported_as_text_without_a_shift(lay: Lay) -> None:
    boxes = [each for each in lay(ANNA, BO, EVA) if not each.text.startswith(EVA[0])]
    (problem,) = page([*HEAD, *boxes, *FOOT]).problems
    assert problem.startswith("'Möte' after '08:00" if lay is as_grid else "'Möte' after '10:00")
    assert problem.endswith("belongs to no shift")


def test_a_column_without_readable_times_is_a_problem() -> None:
    left, right = as_grid(ANNA, BO)[:4], as_grid(ANNA, BO)[4:]
    for boxes in ([*left, *right[1:]], [*left[1:], *right]):
        (problem,) = page([*HEAD, *boxes, *FOOT]).problems
        assert problem.endswith("belongs to no shift") or "belong to no shift" in problem


def test_two_time_ranges_in_one_text_box_are_a_problem() -> None:
    boxes = [each for each in as_grid(ANNA, BO) if each.text[0].isalpha()]
    both = box("08:00-09:00   10:00-11:30", 66, 343, 44)
    problems = page([*HEAD, both, *boxes, *FOOT]).problems
    assert problems == ("'08:00-09:00 10:00-11:30' shows more than one time range",)


@pytest.mark.parametrize("words", ["Förmiddag", "Totalt 2,5 h", "\N{BULLET}\N{BULLET}"])
@pytest.mark.parametrize("lay", LONG)
def test_a_heading_or_a_total_below_the_last_shift_is_not_a_shift(lay: Lay, words: str) -> None:
    boxes = lay(ANNA, BO)
    found = page([*HEAD, *boxes, box(words, boxes[-1].corners[0][0], 1300), *FOOT])
    assert (shifts_of(found), found.problems, found.shows_day_end) == ([ANNA, BO], (), True)


def test_other_text_below_the_last_shift_does_not_end_the_day() -> None:
    found = page([*HEAD, *as_cards(ANNA, BO), box("Visa mera", 500, 1500), *FOOT])
    assert (shifts_of(found), found.problems, found.shows_day_end) == ([ANNA, BO], (), False)


@pytest.mark.parametrize("lay", LONG)
def test_a_row_cut_off_by_the_page_footer_is_left_to_the_next_photograph(lay: Lay) -> None:
    boxes = lay(ANNA, BO, EVA)
    foot = boxes[8].corners[0][1] + 90
    cut = [
        replace(each, text="l2:l5-l") if at == 8 else replace(each, text="Mot")
        for at, each in enumerate(boxes[8:10], 8)
    ]
    shown = cut if lay is as_list else cut[:1]
    bar = [box(word, x, foot, 34) for word, x in (("Schema", 75), ("Kalender", 340), ("Chatt", 630), ("Profil", 900))]
    found = page([*HEAD, *boxes[:8], *shown, *bar])
    assert (shifts_of(found), found.problems, found.shows_day_end) == ([ANNA, BO], (), False)
