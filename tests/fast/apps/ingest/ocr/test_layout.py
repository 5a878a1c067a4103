"""Lines become shifts: three layouts, what is missing, what is too much, and what cannot be right."""

from collections.abc import Callable, Sequence

import pytest

from duly.apps.ingest.ocr.mark import Mark
from tests.support.ocr.marks import Recorded as Record
from tests.support.ocr.marks import mark, page, recorded, shifts_of, tilted

HEAD = [mark("15:01", 45, 18), mark("Mitt schema", 44, 110, 60), mark("Tisdag 24 februari 2026", 46, 196)]
FOOT = [mark(word, x, 2310, 34) for word, x in (("Schema", 75), ("Kalender", 340), ("Chatt", 630), ("Profil", 900))]
ANNA = ("08:00", "09:00", "Städning", "Anna Svensson", "Askim")
BO = ("10:00", "11:30", "Tillsyn", "Bo Öberg", "Åby")
EVA = ("12:15", "13:15", "Möte", "Brf Måsen", "Mölndal")
Shown = tuple[str, str, str, str, str]


def as_list(*shifts: Shown, pin: int = 0) -> list[Mark]:
    """Times on the left, the rest on the right."""
    marks: list[Mark] = []
    for nth, (start, end, *rows) in enumerate(shifts):
        y = 317 + nth * 240
        marks.append(mark(f"{start}-{end}", 48, y))
        marks += [mark(text, 404 + (pin if at == 2 else 0), y - 4 + at * 65) for at, text in enumerate(rows) if text]
    return marks


def as_cards(*shifts: Shown, left: int = 80, top: int = 343) -> list[Mark]:
    """One below the other."""
    marks: list[Mark] = []
    for nth, (start, end, *rows) in enumerate(shifts):
        y = top + nth * 340
        marks.append(mark(f"{start}\N{EN DASH}{end}", left, y, 44))
        marks += [mark(text, left, y + 72 + at * 66) for at, text in enumerate(rows) if text]
    return marks


def as_grid(*shifts: Shown) -> list[Mark]:
    """Two beside each other."""
    columns = as_cards(*shifts[::2], left=66), as_cards(*shifts[1::2], left=582)
    return [*columns[0], *columns[1]]


@pytest.mark.parametrize("lay", [as_list, as_cards, as_grid])
@pytest.mark.parametrize("degrees", [0, 3, -7])
def test_all_layouts_are_read_straight_and_askew(lay: Callable[..., list[Mark]], degrees: float) -> None:
    found = page(tilted([*HEAD, *lay(ANNA, BO, EVA), *FOOT], degrees))
    assert sorted(shifts_of(found)) == [ANNA, BO, EVA]
    assert (found.schedule_date, found.problems) == ("2026-02-24", ())
    assert (found.begins, found.ends) == (True, True)


def test_pieces_of_one_line_are_joined_and_columns_are_not() -> None:
    marks = [
        *HEAD,
        mark("08:00", 48, 317),
        mark("- 09:00", 148, 317),
        mark("Västra", 404, 313),
        mark("Sidan", 522, 313),
    ]
    assert shifts_of(page(marks)) == [("08:00", "09:00", "Västra Sidan", "", "")]


def test_a_line_that_nearly_touches_the_next_column_ends_there() -> None:
    long = (*ANNA[:2], "Läkarbesök, ledsagning mera", *ANNA[3:])
    assert 582 - (66 + 18 * len(long[2])) < 40 * 0.9
    marks = as_grid(long, BO)
    assert shifts_of(page([*HEAD, *marks, *FOOT])) == [long, BO]
    one = mark(f"{long[2]} {BO[2]}", 66, 343 + 72)  # an engine may even take both for one
    rest = [each for each in marks if each.text not in (long[2], BO[2])]
    assert shifts_of(page([*HEAD, *rest, one, *FOOT])) == [long, BO]


def test_times_below_each_other_are_one_range() -> None:
    marks = [*HEAD, mark("08:00", 48, 317), mark("09:00", 48, 377), mark("Städning", 404, 313), mark("Anna", 404, 378)]
    found = page(marks)
    assert (shifts_of(found), found.problems) == ([("08:00", "09:00", "Städning", "Anna", "")], ())


@pytest.mark.parametrize("times", ["1:00 PM - 3:00 PM", "1:00 - 3:00 PM", "1:00PM-3:00PM"])
def test_a_clock_with_two_halves_is_converted_and_its_halves_are_no_title(times: str) -> None:
    marks = [mark("8:00 AM - 9:00 AM", 80, 343), *as_cards(ANNA, BO)[1:]]
    marks[4] = mark(times, 80, 683)
    found = page([*HEAD, *marks, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA, ("13:00", "15:00", *BO[2:])], ())


def test_halves_of_the_day_in_two_lines_are_converted_too() -> None:
    marks = [*HEAD, mark("1:00 PM", 48, 317), mark("3:00 PM", 48, 377), *as_list(ANNA)[1:]]
    assert shifts_of(page(marks)) == [("13:00", "15:00", *ANNA[2:])]


def test_a_missing_place_is_missing_and_a_pin_tells_a_place_from_a_customer() -> None:
    bare = ("08:00", "09:00", "Städning", "Anna Svensson", "")
    assert shifts_of(page([*HEAD, *as_list(bare, BO), *FOOT])) == [bare, BO]
    lunch = [mark("08:00-09:00", 48, 317), mark("Lunch", 404, 313), mark("Askim", 450, 378)]
    assert shifts_of(page([*HEAD, *lunch, *FOOT])) == [("08:00", "09:00", "Lunch", "", "Askim")]


@pytest.mark.parametrize(
    "place", ["\N{BULLSEYE} Åby", "Q Åby", "QQ Åby", "\N{COPYRIGHT SIGN}Åby", "QÅby", "O Åby", "O )Åby", "O ) Åby"]
)
def test_a_pin_that_was_read_as_a_letter_is_no_part_of_the_place(place: str) -> None:
    assert shifts_of(page([*HEAD, *as_cards((*BO[:4], place)), *FOOT])) == [BO]


def test_durations_and_states_are_no_rows() -> None:
    chips = [mark("1 h", 900, 317), mark("Bekräftad", 700, 317), mark("2h 30m", 404, 2000)]
    assert shifts_of(page([*HEAD, *as_list(ANNA, BO), *chips, *FOOT])) == [ANNA, BO]


def test_a_long_title_goes_on_in_the_next_row() -> None:
    title = ("Hemstädning med fönsterputs och", "balkong")
    marks = [mark("08:00-09:00", 48, 317)]
    marks += [mark(text, 404, 313 + at * 65) for at, text in enumerate((*title, "Anna Svensson", "Askim"))]
    assert shifts_of(page([*HEAD, *marks, *FOOT])) == [("08:00", "09:00", " ".join(title), "Anna Svensson", "Askim")]


def test_an_address_in_a_fourth_row_is_kept_beside_the_place() -> None:
    marks = [*as_cards(ANNA), mark("Storgatan 12 B, 412 58 Göteborg", 80, 343 + 72 + 198)]
    (found,) = page([*HEAD, *marks, *FOOT]).shifts
    assert (found.location, found.address) == ("Askim", "Storgatan 12 B, 412 58 Göteborg")


# What cannot be right -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "problem"),
    [
        (as_list(ANNA, ("10:00", "10:75", *BO[2:])), "'10:00-10:75' is no range of times"),
        (as_list(ANNA, ("10:00", "09:45", *BO[2:])), "would be a shift of 23.75 hours"),
        ([*as_list(ANNA), mark("10:0-11:30", 48, 557), *as_list(ANNA, BO)[5:]], "looks like times and cannot be read"),
        ([*as_list(ANNA), mark("q0:00-11:30", 48, 557), *as_list(ANNA, BO)[5:]], "looks like times and cannot be read"),
        (as_list(ANNA, ("10:00", "11:30 PM", *BO[2:])), "'08:00-09:00' does not say in which half of the day"),
        (as_list(ANNA, ("11:00", "1:30 PM", *BO[2:]))[4:], "'11:00-1:30 PM' does not say in which half of the day"),
        ([mark("08:00-09:00", 48, 317), *as_list(ANNA, BO)[4:]], "'08:00-09:00' has no title"),
        ([mark("08:00-09:00", 48, 317, confidence=0.52), *as_list(ANNA)[1:]], "hardly legible"),
        (
            [*as_list(ANNA, BO, EVA)[:4], *as_list(ANNA, BO, EVA)[5:]],
            "'Tillsyn' after '08:00-09:00' belongs to no shift",
        ),
    ],
)
def test_what_cannot_be_right_is_told_and_not_guessed(marks: Sequence[Mark], problem: str) -> None:
    (found,) = page([*HEAD, *marks, *FOOT]).problems
    assert problem in found


@pytest.mark.parametrize("lost", [5, 6, 9, 10])  # a title or a customer, of the second shift or the third
@pytest.mark.parametrize("lay", [as_list, as_cards])
def test_a_row_that_was_not_read_is_missed_where_the_others_have_it(lay: Callable[..., list[Mark]], lost: int) -> None:
    marks = lay(ANNA, BO, EVA)
    problems = page([*HEAD, *marks[:lost], *marks[lost + 1 :], *FOOT]).problems
    assert problems
    assert all(("'10:00" if lost < 8 else "'12:15") in problem for problem in problems)


@pytest.mark.parametrize("lay", [as_list, as_cards, as_grid])
def test_a_shift_that_stands_there_twice_was_misread_once(lay: Callable[..., list[Mark]]) -> None:
    (found,) = page([*HEAD, *lay(ANNA, BO, ANNA), *FOOT]).problems
    assert found == "the shift 08:00-09:00 'Städning' stands there twice"


@pytest.mark.parametrize("lay", [as_list, as_cards, as_grid])
def test_a_double_booking_is_read_as_it_stands(lay: Callable[..., list[Mark]]) -> None:
    within, at_once = ("08:15", "08:30", "Rast", "", ""), (*ANNA[:3], *BO[3:])
    found = page([*HEAD, *lay(ANNA, within, at_once), *FOOT])
    assert (sorted(shifts_of(found)), found.problems) == (sorted([ANNA, within, at_once]), ())


@pytest.mark.parametrize(
    ("head", "problems", "notes"),
    [
        ("Fredag 24 februari 2026", (), ("'Fredag 24 februari 2026': 2026-02-24 is a Tuesday",)),
        ("Tisdag 24 februari 2026", (), ()),
        ("Tis 24 feb", (), ()),
        ("Idag, fre 24 feb", (), ("'Idag, fre 24 feb': 2026-02-24 is a Tuesday",)),
        (
            "Fre 24 feb",
            (
                "'Fre 24 feb': 2026-02-24 is a Tuesday, so the year may be another one; "
                "send a photograph that shows the year",
            ),
            (),
        ),
    ],
)
def test_a_weekday_that_is_not_the_dates_is_odd_and_without_a_year_a_problem(
    head: str, problems: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    found = page([mark(head, 46, 196), *as_cards(ANNA), *FOOT])
    assert (found.schedule_date, found.problems, found.notes) == ("2026-02-24", problems, notes)


def test_a_telephone_number_or_two_years_in_a_card_are_no_times_of_another() -> None:
    for words in ("0708-1234", "2026-2027", "Lill-Lilla gatan"):
        marks = [*as_cards(ANNA), mark(words, 80, 343 + 72 + 198)]
        found = page([*HEAD, *marks, *FOOT])
        assert (shifts_of(found), found.problems) == ([ANNA], ())


def test_a_page_without_times_shows_nothing() -> None:
    found = page([*HEAD, *FOOT])
    assert (found.shifts, found.problems, found.schedule_date) == ((), (), "2026-02-24")
    assert page([]).shifts == ()


# Which part of the day ------------------------------------------------------------------------------------------------


def test_a_page_that_goes_on_below_does_not_end_the_day() -> None:
    full = as_cards(*[(f"{7 + nth:02}:00", f"{7 + nth:02}:45", *ANNA[2:]) for nth in range(6)])
    found = page([*HEAD, *full, *FOOT])
    assert (len(found.shifts), found.begins, found.ends) == (6, True, False)
    for hidden in (1, 2, 3):
        foot = [mark(word, x, full[-hidden].corners[0][1], 34) for word, x in (("Schema", 75), ("Chatt", 630))]
        found = page([*HEAD, *full[:-hidden], *foot])
        assert (len(found.shifts), found.ends, found.problems) == (5, False, ())


def test_a_page_without_a_head_does_not_begin_the_day() -> None:
    found = page([mark("15:01", 45, 18), mark("Askim", 80, 120), *as_cards(ANNA, BO), *FOOT])
    assert (found.schedule_date, found.begins, found.ends) == (None, False, True)


@pytest.mark.parametrize("text", ["08.10", "Totalt 7.5 h", "App v2.1", "5G 4.5", "Tis 08.10", "1/2"])
def test_a_clock_an_amount_or_a_version_in_the_head_is_no_day(text: str) -> None:
    found = page([mark(text, 45, 18), mark("Mitt schema", 44, 110, 60), *as_cards(ANNA, BO), *FOOT])
    assert (found.schedule_date, found.begins, len(found.shifts)) == (None, False, 2)


def test_what_is_left_of_a_shift_below_the_head_does_not_begin_the_day() -> None:
    found = page([*HEAD, mark("Anna Svensson", 80, 290), mark("Askim", 80, 350), *as_cards(BO, EVA, top=480), *FOOT])
    assert (shifts_of(found), found.begins) == ([BO, EVA], False)


# What an engine makes of screens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True], ids=["checked", "alone"])
@pytest.mark.parametrize("record", recorded(), ids=lambda record: f"{record.name} {record.about}")
def test_recorded_screens_are_read_completely(record: Record, alone: bool) -> None:
    found = record.read(alone=alone)
    assert sorted(shifts_of(found)) == record.shifts
    assert (found.schedule_date, found.problems) == (record.schedule_date, ())
