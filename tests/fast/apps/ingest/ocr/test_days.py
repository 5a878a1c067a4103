"""Several days in one picture: each shift goes to its day, and what cannot be assigned is a problem."""

from collections.abc import Sequence

import pytest

from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.apps.ingest.ocr.text_box import TextBox
from tests.support.ocr.text_boxes import box, page, pages, shifts_of

MONDAY, TUESDAY, WEDNESDAY = "2026-09-07", "2026-09-08", "2026-09-09"
ANNA = ("08:00", "09:00", "Städning", "Anna Svensson", "Askim")
BO = ("10:00", "11:30", "Tillsyn", "Bo Öberg", "Åby")
EVA = ("09:15", "10:15", "Möte", "Brf Måsen", "Mölndal")
ShiftFields = tuple[str, str, str, str, str]
LEFTS = (40, 390, 740)
HEADERS = ("Mån 7 sep", "Tis 8 sep", "Ons 9 sep")


def card(shift: ShiftFields, x: float, y: float) -> list[TextBox]:
    """Return a shift whose rows are below its times."""
    start, end, *rows = shift
    return [box(f"{start}-{end}", x, y), *(box(text, x, y + 65 + at * 60) for at, text in enumerate(rows) if text)]


def columns(*days: Sequence[ShiftFields], lefts: Sequence[float] = LEFTS, top: float = 300) -> list[TextBox]:
    """Days beside each other, without their headers."""
    return [
        each
        for left, shifts in zip(lefts, days, strict=False)
        for nth, shift in enumerate(shifts)
        for each in card(shift, left, top + nth * 340)
    ]


def headers(names: Sequence[str] = HEADERS, *, y: float = 200, shift: float = 0) -> list[TextBox]:
    """The row of headers above the columns, each at the left edge of its column or further right."""
    return [box(name, left + shift, y) for name, left in zip(names, LEFTS, strict=False)]


def by_day(found: Sequence[RecognisedDay]) -> dict[str | None, list[ShiftFields]]:
    """The shifts of each day."""
    return {each.schedule_date: shifts_of(each) for each in found}


def find_problems(found: Sequence[RecognisedDay]) -> list[str]:
    """The problems of all days."""
    return [problem for each in found for problem in each.problems]


# Beside each other ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0, 18], ids=["at the left edge", "centred"])
@pytest.mark.parametrize(
    "names",
    [
        HEADERS,
        ("Mon 7 Sep", "Tue 8 Sep", "Wed 9 Sep"),
        ("Mo 7.9.2026", "Di 8.9.2026", "Mi 9.9.2026"),
        ("ma 7.9.", "ti 8.9.", "ke 9.9."),
        ("2026-09-07", "2026-09-08", "2026-09-09"),
    ],
)
def test_day_columns_are_assigned_to_their_dates(names: Sequence[str], shift: float) -> None:
    found = pages([*headers(names, shift=shift), *columns([ANNA, BO], [EVA], [BO])])
    assert by_day(found) == {MONDAY: [ANNA, BO], TUESDAY: [EVA], WEDNESDAY: [BO]}
    assert find_problems(found) == []


def test_centered_headers_are_assigned_to_wide_columns() -> None:
    centred = [box(name, left + 99 - 9 * len(name), 200) for name, left in zip(HEADERS, LEFTS, strict=True)]
    found = pages([*centred, *columns([ANNA], [EVA], [BO])])
    assert by_day(found) == {MONDAY: [ANNA], TUESDAY: [EVA], WEDNESDAY: [BO]}
    assert find_problems(found) == []


def test_day_without_shifts_between_others_is_empty() -> None:
    found = pages([*headers(), *columns([ANNA], [], [BO])])
    assert by_day(found) == {MONDAY: [ANNA], TUESDAY: [], WEDNESDAY: [BO]}


def test_two_rows_of_day_columns_are_read_row_by_row() -> None:
    below = [box("Tor 10 sep", LEFTS[0], 900), box("Fre 11 sep", LEFTS[1], 900)]
    found = pages([*headers(), *columns([ANNA], [EVA], [BO]), *below, *columns([EVA], [ANNA], top=1000)])
    assert by_day(found) == {
        MONDAY: [ANNA],
        TUESDAY: [EVA],
        WEDNESDAY: [BO],
        "2026-09-10": [EVA],
        "2026-09-11": [ANNA],
    }
    assert find_problems(found) == []


def test_hour_scale_left_of_the_days_is_ignored() -> None:
    scale = [box("08:00", 10, 310, 24), box("10:00", 10, 650, 24)]
    lefts = (160, 600)
    names = [box(name, left, 200) for name, left in zip(HEADERS, lefts, strict=False)]
    found = pages([*names, *columns([ANNA, BO], [EVA], lefts=lefts), *scale])
    assert (by_day(found), find_problems(found)) == ({MONDAY: [ANNA, BO], TUESDAY: [EVA]}, [])


def test_text_left_of_the_first_day_is_a_problem() -> None:
    lefts = (360, 740)
    names = [box(name, left, 200) for name, left in zip(HEADERS, lefts, strict=False)]
    found = pages([*names, *columns([ANNA], [EVA], lefts=lefts), box("Karin Ek", 40, 365)])
    assert find_problems(found) == ["2026-09-07: 'Karin Ek' is left of the first day's column"]


def test_text_that_reaches_into_the_next_day_is_a_problem() -> None:
    long = (*ANNA[:2], "Läkarbesök med följe till sjukhus", *ANNA[3:])
    found = pages([*headers(), *columns([long], [], [BO])])
    assert find_problems(found) == [
        "2026-09-07: 'Läkarbesök med följe till sjukhus' reaches into the column of another day"
    ]


def test_a_date_below_the_row_of_days_is_a_problem() -> None:
    found = pages([*headers(), *columns([ANNA], [EVA], [BO]), box("Tor 10 sep", LEFTS[0], 1400)])
    assert find_problems(found) == ["2026-09-07: 'Tor 10 sep' is below other dates"]


def test_a_day_in_two_columns_with_another_between_is_a_problem() -> None:
    found = pages([*headers(("Mån 7 sep", "Tis 8 sep", "Mån 7 sep")), *columns([ANNA], [EVA], [BO])])
    assert find_problems(found) == ["2026-09-07: 2026-09-07 appears twice"]


@pytest.mark.parametrize("names", [("Måndag", "Tisdag", "Onsdag"), ("Monday", "Tuesday", "Wednesday")])
def test_weekdays_beside_each_other_without_dates_are_a_problem(names: Sequence[str]) -> None:
    found = page([*headers(names), *columns([ANNA], [EVA], [BO])])
    assert found.schedule_date is None
    assert found.problems[:1] == (f"several days are shown without their dates: {', '.join(names)}",)


# Below each other -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Måndag 7 september 2026", "Tisdag 8 september 2026"),
        ("Monday 7 September", "Tuesday 8 September"),
        ("Montag, 7. September", "Dienstag, 8. September"),
        ("ma 7.9.2026", "ti 8.9.2026"),
        ("Idag, mån 7 sep", "Imorgon, tis 8 sep"),
    ],
)
def test_list_of_shifts_belongs_to_the_day_header_above(first: str, second: str) -> None:
    boxes = [box(first, 40, 200), *card(ANNA, 40, 280), *card(BO, 40, 580)]
    boxes += [box(second, 40, 900), *card(EVA, 40, 980)]
    found = pages(boxes)
    assert by_day(found) == {MONDAY: [ANNA, BO], TUESDAY: [EVA]}
    assert find_problems(found) == []
    assert [(each.shows_day_start, each.shows_day_end) for each in found] == [(True, True), (True, True)]


def test_last_day_of_a_full_page_is_not_marked_as_ended() -> None:
    boxes = [box("Mån 7 sep", 40, 200), *card(ANNA, 40, 280), *card(BO, 40, 580)]
    boxes += [box("Tis 8 sep", 40, 1960), *card(EVA, 40, 2040)]
    assert [(each.schedule_date, each.shows_day_end) for each in pages(boxes)] == [(MONDAY, True), (TUESDAY, False)]


def test_a_row_for_each_day_with_its_shifts_in_cells_is_read_day_by_day() -> None:
    boxes = [box("Mån 7 sep", 40, 300), *card(ANNA, 300, 300), *card(BO, 680, 300)]
    boxes += [box("Tis 8 sep", 40, 640), *card(EVA, 300, 640)]
    found = pages(boxes)
    assert (by_day(found), find_problems(found)) == ({MONDAY: [ANNA, BO], TUESDAY: [EVA]}, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Dec 11 14:00-15:00", "Dec 12 09:00-10:00"),
        ("Fre 11 dec 14:00-15:00", "Lör 12 dec 09:00-10:00"),
        ("Fr 11.12.2026 14:00-15:00", "Sa 12.12.2026 09:00-10:00"),
    ],
)
def test_date_and_times_in_one_line_are_split(first: str, second: str) -> None:
    boxes = [box(first, 40, 300), box("Städning", 600, 300), box("Anna Ek", 600, 365)]
    boxes += [box(second, 40, 500), box("Möte", 600, 500), box("Bo Öberg", 600, 565)]
    assert by_day(pages(boxes)) == {
        "2026-12-11": [("14:00", "15:00", "Städning", "Anna Ek", "")],
        "2026-12-12": [("09:00", "10:00", "Möte", "Bo Öberg", "")],
    }


def test_times_slightly_above_the_header_beside_them_belong_to_it() -> None:
    boxes = [box("Mån 7 sep", 40, 300), *card(ANNA, 300, 300)]
    boxes += [box("Tis 8 sep", 40, 640), *card(EVA, 300, 640 - 30)]
    assert by_day(pages(boxes)) == {MONDAY: [ANNA], TUESDAY: [EVA]}


def test_repeated_header_continues_its_day() -> None:
    boxes = [box("Mån 7 sep", 40, 200), *card(ANNA, 40, 280), box("Mån 7 sep", 40, 560), *card(BO, 40, 640)]
    boxes += [box("Tis 8 sep", 40, 960), *card(EVA, 40, 1040)]
    found = pages(boxes)
    assert (by_day(found), find_problems(found)) == ({MONDAY: [ANNA, BO], TUESDAY: [EVA]}, [])


def test_day_that_appears_again_after_another_is_a_problem() -> None:
    boxes = [box("Mån 7 sep", 40, 200), *card(ANNA, 40, 280), box("Tis 8 sep", 40, 560), *card(EVA, 40, 640)]
    boxes += [box("Mån 7 sep", 40, 960), *card(BO, 40, 1040)]
    assert find_problems(pages(boxes)) == ["2026-09-07: 2026-09-07 appears twice, with another day between"]


def test_a_shift_above_the_first_of_several_dates_is_a_problem() -> None:
    boxes = [*card(BO, 40, 100), box("Mån 7 sep", 40, 400), *card(ANNA, 40, 480)]
    boxes += [box("Tis 8 sep", 40, 800), *card(EVA, 40, 880)]
    assert find_problems(pages(boxes)) == ["2026-09-07: '10:00-11:30' is above the first date"]


def test_date_inside_a_sentence_starts_no_day() -> None:
    note = box("Inställt till 8 september 2026 enligt kund", 40, 200 - 80)
    found = page([note, box("Måndag 7 september 2026", 40, 200), *card(ANNA, 40, 280)])
    assert (found.schedule_date, shifts_of(found)) == (MONDAY, [ANNA])
