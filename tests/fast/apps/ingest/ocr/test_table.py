"""Tables: a row for each shift, a column for each of its fields, with a row of names or without."""

from collections.abc import Mapping, Sequence

import pytest

from duly.apps.ingest.ocr.text_box import TextBox
from tests.support.ocr.text_boxes import box, page, pages, shifts_of, tilted

HEAD = [box("Tisdag 24 februari 2026", 46, 100)]
ANNA = ("08:00", "09:00", "Städning", "Anna Ek", "Askim")
BO = ("10:00", "11:30", "Tillsyn", "Bo Öberg", "Åby")
EVA = ("12:15", "13:15", "Möte", "Brf Måsen", "Mölndal")
SHIFTS = [ANNA, BO, EVA]
LEFTS = (40, 300, 560, 820)
TOP, PITCH = 300, 90
ShiftFields = tuple[str, str, str, str, str]


def row(cells: Sequence[str], y: float, lefts: Sequence[float] = LEFTS) -> list[TextBox]:
    """Cells beside each other; an empty one is not there."""
    return [box(text, left, y) for text, left in zip(cells, lefts, strict=True) if text]


def rows(shifts: Sequence[Sequence[str]] = SHIFTS, order: Sequence[int] = (2, 3, 4)) -> list[TextBox]:
    """A row for each shift: times, then its fields in some order."""
    return [
        each
        for nth, shift in enumerate(shifts)
        for each in row((f"{shift[0]}-{shift[1]}", *(shift[at] for at in order)), TOP + PITCH * (nth + 1))
    ]


def table(names: Sequence[str], *body: TextBox, lefts: Sequence[float] = LEFTS) -> list[TextBox]:
    """Return a page with a row of column names and what is below it."""
    return [*HEAD, *row(names, TOP, lefts), *body]


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ("Tid", "Aktivitet", "Kund", "Plats"),
        ("Tid", "Uppdrag", "Brukare", "Adress"),
        ("Time", "Task", "Client", "Place"),
        ("Time", "Activity", "Customer", "Location"),
        ("Zeit", "Einsatz", "Kunde", "Ort"),
        ("Uhrzeit", "Tätigkeit", "Kunde", "Adresse"),
        ("Aika", "Tehtävä", "Asiakas", "Paikka"),
        ("Klo", "Työ", "Asiakas", "Osoite"),
        ("TID", "AKTIVITET", "KUND", "PLATS"),
    ],
)
def test_column_names_are_recognized_in_four_languages(names: Sequence[str]) -> None:
    found = page(table(names, *rows()))
    assert (found.schedule_date, shifts_of(found), found.problems) == ("2026-02-24", SHIFTS, ())


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("Tid", "Kund", "Aktivitet", "Plats"), (3, 2, 4)),
        (("Tid", "Plats", "Kund", "Aktivitet"), (4, 3, 2)),
        (("Time", "Client", "Task", "Place"), (3, 2, 4)),
    ],
)
def test_columns_may_be_in_any_order(names: Sequence[str], order: Sequence[int]) -> None:
    found = page(table(names, *rows(order=order)))
    assert (shifts_of(found), found.problems) == (SHIFTS, ())


@pytest.mark.parametrize(
    "names",
    [
        ("Start", "Slut", "Aktivitet", "Kund", "Plats"),
        ("Från", "Till", "Aktivitet", "Kund", "Plats"),
        ("From", "To", "Task", "Client", "Place"),
        ("Von", "Bis", "Einsatz", "Kunde", "Ort"),
        ("Alkaa", "Loppuu", "Tehtävä", "Asiakas", "Paikka"),
    ],
)
def test_start_and_end_may_be_in_separate_columns(names: Sequence[str]) -> None:
    lefts = (40, 200, 380, 600, 840)
    body = [each for nth, shift in enumerate(SHIFTS) for each in row(shift, TOP + PITCH * (nth + 1), lefts)]
    found = page(table(names, *body, lefts=lefts))
    assert (shifts_of(found), found.problems) == (SHIFTS, ())


def test_empty_customer_cell_gives_no_customer_and_keeps_the_location() -> None:
    lunch = ("09:00", "09:30", "Lunch", "", "Åby")
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *rows([ANNA, lunch, BO])))
    assert (shifts_of(found), found.problems) == ([ANNA, lunch, BO], ())


def test_table_without_a_title_column_uses_customers_as_titles() -> None:
    lefts, names = (40, 400, 760), ("Tid", "Kund", "Plats")
    body = [*row(("08:00-09:00", "Anna Ek", "Askim"), 390, lefts), *row(("10:00-11:30", "Bo Öberg", "Åby"), 480, lefts)]
    found = page(table(names, *body, lefts=lefts))
    assert shifts_of(found) == [("08:00", "09:00", "Anna Ek", "", "Askim"), ("10:00", "11:30", "Bo Öberg", "", "Åby")]


def test_a_row_without_a_title_is_a_problem() -> None:
    lost = ("10:00", "11:30", "", "Bo Öberg", "Åby")
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *rows([ANNA, lost, EVA])))
    assert (shifts_of(found), found.problems) == ([ANNA, EVA], ("the shift '10:00-11:30' has no title",))


@pytest.mark.parametrize("name", ["Längd", "Status", "Dauer", "Kesto", "Nr"])
def test_irrelevant_column_is_ignored(name: str) -> None:
    found = page(table(("Tid", "Aktivitet", "Kund", name), *rows([(*shift[:4], "17") for shift in SHIFTS])))
    assert (shifts_of(found), found.problems) == ([(*shift[:4], "") for shift in SHIFTS], ())


def test_text_in_an_unknown_column_is_a_problem() -> None:
    found = page(table(("Tid", "Aktivitet", "Kund", "Bil"), *rows([ANNA])))
    assert found.problems == ("'Askim' is in the column 'Bil', which is unknown",)


def test_unknown_column_may_be_empty() -> None:
    found = page(table(("Tid", "Aktivitet", "Kund", "Bil"), *rows([(*ANNA[:4], "")])))
    assert (shifts_of(found), found.problems) == ([(*ANNA[:4], "")], ())


# Cells ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["Trappstädning", "Lunch i parken", "Möte med alla"])
@pytest.mark.parametrize("customer", ["Ulla Ek", "Birgitta Öberg", "Eva"])
def test_two_cells_read_as_one_line_are_split_at_the_column(title: str, customer: str) -> None:
    shifts = [ANNA, ("10:00", "11:30", title, customer, "Åby"), EVA]
    cells = [each for each in rows(shifts) if each.text not in (title, customer)]
    both = box(f"{title} {customer}", 300, TOP + 2 * PITCH)
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *cells, both))
    assert (shifts_of(found), found.problems) == (shifts, ())


def test_two_cells_with_an_ambiguous_split_are_a_problem() -> None:
    cells = [each for each in rows([ANNA, BO, EVA]) if each.text not in BO[2:4]]
    both = box("Trappstädning Bo Öberg", 300, TOP + 2 * PITCH)
    first, *_ = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *cells, both)).problems
    assert first.startswith("'Trappstädning Bo Öberg' reaches into another column (")


def test_roster_takes_its_date_from_the_day_column_and_not_from_above() -> None:
    lefts = (40, 200, 460, 680, 880)
    names = row(("Dag", "Tid", "Aktivitet", "Kund", "Plats"), TOP, lefts)
    body = row(("7 sep", "08:00-09:00", "Städning", "Anna Ek", "Askim"), 400, lefts)
    found = page([box("Utskrivet 2026-09-01", 40, 60), *names, *body])
    assert (found.schedule_date, shifts_of(found), found.problems) == ("2026-09-07", [ANNA], ())


def test_row_with_unreadable_times_is_a_problem_even_if_alone_on_its_day() -> None:
    lefts = (40, 200, 460, 680, 880)
    names = row(("Dag", "Tid", "Aktivitet", "Kund", "Plats"), TOP, lefts)
    first = row(("7 sep", "08:00-09:00", "Städning", "Anna Ek", "Askim"), 400, lefts)
    second = row(("8 sep", "08:15 5 - 10:45", "Tillsyn", "Bo Öberg", "Åby"), 490, lefts)
    monday, tuesday = pages([*names, *first, *second])
    assert (shifts_of(monday), monday.problems) == ([ANNA], ())
    assert tuesday.problems[0].startswith("'Tillsyn' is in a row without times (")


def test_cell_of_two_lines_is_joined() -> None:
    body = row(("08:00-09:00", "Städning och", "Anna Ek", "Askim"), 400)
    body += [box("tvätt", 300, 450), *row(("10:00-11:30", "Tillsyn", "Bo Öberg", "Åby"), 550)]
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *body))
    assert (shifts_of(found), found.problems) == ([(*ANNA[:2], "Städning och tvätt", *ANNA[3:]), BO], ())


def test_a_line_halfway_between_two_rows_is_a_problem() -> None:
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *rows(), box("Tvätt", 300, TOP + PITCH * 1.5)))
    assert found.problems == ("'Tvätt' is between two rows",)


def test_a_line_far_below_the_last_row_belongs_to_no_shift() -> None:
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *rows(), box("Karin Ek", 300, 1200)))
    assert (shifts_of(found), found.problems) == (SHIFTS, ("'Karin Ek' belongs to no shift",))


def test_a_row_that_appears_twice_is_a_problem() -> None:
    found = page(table(("Tid", "Aktivitet", "Kund", "Plats"), *rows([ANNA, BO, ANNA])))
    assert "the shift 08:00-09:00 'Städning' appears twice" in found.problems


@pytest.mark.parametrize("degrees", [-3, -1, 1, 3])
def test_cells_of_a_tilted_page_are_assigned_to_their_rows(degrees: float) -> None:
    found = page(tilted(table(("Tid", "Aktivitet", "Kund", "Plats"), *rows()), degrees))
    assert (shifts_of(found), found.problems) == (SHIFTS, ())


# Without names --------------------------------------------------------------------------------------------------------


def test_rows_without_column_names_have_title_customer_and_location() -> None:
    found = page([*HEAD, *rows()])
    assert (shifts_of(found), found.problems) == (SHIFTS, ())


def test_rows_of_two_cells_without_column_names_have_title_and_customer() -> None:
    shifts = [(*shift[:4], "") for shift in SHIFTS]
    found = page([*HEAD, *rows(shifts)])
    assert (shifts_of(found), found.problems) == (shifts, ())


# Several days ---------------------------------------------------------------------------------------------------------

ROSTER = ("Dag", "Tid", "Aktivitet", "Kund", "Plats")
ROSTER_LEFTS = (20, 200, 420, 640, 860)
MONDAY, TUESDAY = "2026-09-07", "2026-09-08"


def roster(days: Sequence[str], shifts: Sequence[ShiftFields]) -> list[TextBox]:
    """A table with a day before each row, or nothing where it goes on."""
    body = [
        each
        for nth, (day, shift) in enumerate(zip(days, shifts, strict=True))
        for each in row((day, f"{shift[0]}-{shift[1]}", *shift[2:]), TOP + PITCH * (nth + 1), ROSTER_LEFTS)
    ]
    return [*row(ROSTER, TOP, ROSTER_LEFTS), *body]


@pytest.mark.parametrize(
    "days", [("7 sep", "7 sep", "8 sep"), ("7 sep", "", "8 sep")], ids=["in each row", "only in the first"]
)
@pytest.mark.parametrize("degrees", [0, 2])
def test_a_roster_with_a_day_column_is_read_day_by_day(days: Sequence[str], degrees: float) -> None:
    found = pages(tilted(roster(days, SHIFTS), degrees))
    read: Mapping[str | None, list[ShiftFields]] = {each.schedule_date: shifts_of(each) for each in found}
    assert read == {MONDAY: [ANNA, BO], TUESDAY: [EVA]}
    assert [problem for each in found for problem in each.problems] == []


def test_roster_that_returns_to_an_earlier_day_is_a_problem() -> None:
    found = pages(roster(("7 sep", "8 sep", "7 sep"), SHIFTS))
    problems = [problem for each in found for problem in each.problems]
    assert problems == ["2026-09-07: 2026-09-07 appears twice, with another day between"]
