"""Lines become shifts: three layouts, what is missing, what is too much, and what cannot be right."""

from collections.abc import Callable, Sequence

import pytest

from duly.apps.ingest.ocr.text_box import TextBox
from tests.support.ocr.text_boxes import Recorded as Record
from tests.support.ocr.text_boxes import box, page, recorded, shifts_of, tilted

HEAD = [box("15:01", 45, 18), box("Mitt schema", 44, 110, 60), box("Tisdag 24 februari 2026", 46, 196)]
FOOT = [box(word, x, 2310, 34) for word, x in (("Schema", 75), ("Kalender", 340), ("Chatt", 630), ("Profil", 900))]
ANNA = ("08:00", "09:00", "Städning", "Anna Svensson", "Askim")
BO = ("10:00", "11:30", "Tillsyn", "Bo Öberg", "Åby")
EVA = ("12:15", "13:15", "Möte", "Brf Måsen", "Mölndal")
ShiftFields = tuple[str, str, str, str, str]


def as_list(*shifts: ShiftFields, pin: int = 0) -> list[TextBox]:
    """Lay shifts out with times on the left, the rest on the right."""
    boxes: list[TextBox] = []
    for nth, (start, end, *rows) in enumerate(shifts):
        y = 317 + nth * 240
        boxes.append(box(f"{start}-{end}", 48, y))
        boxes += [box(text, 404 + (pin if at == 2 else 0), y - 4 + at * 65) for at, text in enumerate(rows) if text]
    return boxes


def as_cards(*shifts: ShiftFields, left: int = 80, top: int = 343) -> list[TextBox]:
    """Lay shifts out as cards below each other."""
    boxes: list[TextBox] = []
    for nth, (start, end, *rows) in enumerate(shifts):
        y = top + nth * 340
        boxes.append(box(f"{start}\N{EN DASH}{end}", left, y, 44))
        boxes += [box(text, left, y + 72 + at * 66) for at, text in enumerate(rows) if text]
    return boxes


def as_grid(*shifts: ShiftFields) -> list[TextBox]:
    """Lay shifts out as cards in two columns."""
    columns = as_cards(*shifts[::2], left=66), as_cards(*shifts[1::2], left=582)
    return [*columns[0], *columns[1]]


@pytest.mark.parametrize("lay", [as_list, as_cards, as_grid])
@pytest.mark.parametrize("degrees", [0, 3, -7])
def test_all_layouts_are_read_upright_and_tilted(lay: Callable[..., list[TextBox]], degrees: float) -> None:
    found = page(tilted([*HEAD, *lay(ANNA, BO, EVA), *FOOT], degrees))
    assert sorted(shifts_of(found)) == [ANNA, BO, EVA]
    assert (found.schedule_date, found.problems) == ("2026-02-24", ())
    assert (found.shows_day_start, found.shows_day_end) == (True, True)


def test_pieces_of_one_line_are_joined_but_columns_are_not() -> None:
    boxes = [
        *HEAD,
        box("08:00", 48, 317),
        box("- 09:00", 148, 317),
        box("Västra", 404, 313),
        box("Sidan", 522, 313),
    ]
    assert shifts_of(page(boxes)) == [("08:00", "09:00", "Västra Sidan", "", "")]


def test_a_line_that_nearly_touches_the_next_column_ends_there() -> None:
    long = (*ANNA[:2], "Läkarbesök, ledsagning mera", *ANNA[3:])
    assert 582 - (66 + 18 * len(long[2])) < 40 * 0.9
    boxes = as_grid(long, BO)
    assert shifts_of(page([*HEAD, *boxes, *FOOT])) == [long, BO]
    one = box(f"{long[2]} {BO[2]}", 66, 343 + 72)  # an engine may even take both for one
    rest = [each for each in boxes if each.text not in (long[2], BO[2])]
    assert shifts_of(page([*HEAD, *rest, one, *FOOT])) == [long, BO]


def test_times_below_each_other_are_one_range() -> None:
    boxes = [*HEAD, box("08:00", 48, 317), box("09:00", 48, 377), box("Städning", 404, 313), box("Anna", 404, 378)]
    found = page(boxes)
    assert (shifts_of(found), found.problems) == ([("08:00", "09:00", "Städning", "Anna", "")], ())


@pytest.mark.parametrize("times", ["1:00 PM - 3:00 PM", "1:00 - 3:00 PM", "1:00PM-3:00PM"])
def test_twelve_hour_times_are_converted_and_am_or_pm_is_not_a_title(times: str) -> None:
    boxes = [box("8:00 AM - 9:00 AM", 80, 343), *as_cards(ANNA, BO)[1:]]
    boxes[4] = box(times, 80, 683)
    found = page([*HEAD, *boxes, *FOOT])
    assert (shifts_of(found), found.problems) == ([ANNA, ("13:00", "15:00", *BO[2:])], ())


def test_am_and_pm_on_two_lines_are_converted() -> None:
    boxes = [*HEAD, box("1:00 PM", 48, 317), box("3:00 PM", 48, 377), *as_list(ANNA)[1:]]
    assert shifts_of(page(boxes)) == [("13:00", "15:00", *ANNA[2:])]


def test_missing_location_is_empty_and_an_icon_marks_a_location() -> None:
    fold = ("08:00", "09:00", "Städning", "Anna Svensson", "")
    assert shifts_of(page([*HEAD, *as_list(fold, BO), *FOOT])) == [fold, BO]
    lunch = [box("08:00-09:00", 48, 317), box("Lunch", 404, 313), box("Askim", 450, 378)]
    assert shifts_of(page([*HEAD, *lunch, *FOOT])) == [("08:00", "09:00", "Lunch", "", "Askim")]


@pytest.mark.parametrize(
    "location", ["\N{BULLSEYE} Åby", "Q Åby", "QQ Åby", "\N{COPYRIGHT SIGN}Åby", "QÅby", "O Åby", "O )Åby", "O ) Åby"]
)
def test_pin_icon_read_as_a_letter_is_not_part_of_the_location(location: str) -> None:
    assert shifts_of(page([*HEAD, *as_cards((*BO[:4], location)), *FOOT])) == [BO]


def test_durations_and_status_labels_are_not_rows() -> None:
    chips = [box("1 h", 900, 317), box("Bekräftad", 700, 317), box("2h 30m", 404, 2000)]
    assert shifts_of(page([*HEAD, *as_list(ANNA, BO), *chips, *FOOT])) == [ANNA, BO]


@pytest.mark.parametrize("chip", ["0 45 min", "01 h"])
def test_digit_read_twice_is_not_part_of_a_duration(chip: str) -> None:
    (times, *fields) = as_cards(ANNA)
    beside = box(chip, times.corners[1][0] - 10, times.corners[1][1])
    assert shifts_of(page([*HEAD, times, beside, *fields, *FOOT])) == [ANNA]


def test_a_long_title_continues_in_the_next_row() -> None:
    title = ("Hemstädning med fönsterputs och", "balkong")
    boxes = [box("08:00-09:00", 48, 317)]
    boxes += [box(text, 404, 313 + at * 65) for at, text in enumerate((*title, "Anna Svensson", "Askim"))]
    assert shifts_of(page([*HEAD, *boxes, *FOOT])) == [("08:00", "09:00", " ".join(title), "Anna Svensson", "Askim")]


def test_address_in_a_fourth_row_is_kept_besides_the_location() -> None:
    boxes = [*as_cards(ANNA), box("Storgatan 12 B, 412 58 Göteborg", 80, 343 + 72 + 198)]
    (found,) = page([*HEAD, *boxes, *FOOT]).shifts
    assert (found.location, found.address) == ("Askim", "Storgatan 12 B, 412 58 Göteborg")


# What cannot be right -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        (as_list(ANNA, ("10:00", "10:75", *BO[2:])), "'10:00-10:75' is not a valid time range"),
        (as_list(ANNA, ("10:00", "09:45", *BO[2:])), "would be a shift of 23.75 hours"),
        ([*as_list(ANNA), box("10:0-11:30", 48, 557), *as_list(ANNA, BO)[5:]], "looks like times but cannot be read"),
        ([*as_list(ANNA), box("q0:00-11:30", 48, 557), *as_list(ANNA, BO)[5:]], "looks like times but cannot be read"),
        (as_list(ANNA, ("10:00", "11:30 PM", *BO[2:])), "'08:00-09:00' lacks AM or PM"),
        (
            as_list(ANNA, ("11:00", "1:30 PM", *BO[2:]))[4:],
            "'11:00-1:30 PM' does not show whether both times are AM or PM",
        ),
        ([box("08:00-09:00", 48, 317), *as_list(ANNA, BO)[4:]], "'08:00-09:00' has no title"),
        ([box("08:00-09:00", 48, 317, confidence=0.52), *as_list(ANNA)[1:]], "barely legible"),
        (
            [*as_list(ANNA, BO, EVA)[:4], *as_list(ANNA, BO, EVA)[5:]],
            "'Tillsyn' after '08:00-09:00' belongs to no shift",
        ),
    ],
)
def test_implausible_text_is_a_problem_and_not_guessed(boxes: Sequence[TextBox], problem: str) -> None:
    (found,) = page([*HEAD, *boxes, *FOOT]).problems
    assert problem in found


@pytest.mark.parametrize("lost", [5, 6, 9, 10])  # a title or a customer, of the second shift or the third
@pytest.mark.parametrize("lay", [as_list, as_cards])
def test_row_missing_from_one_block_is_a_problem(lay: Callable[..., list[TextBox]], lost: int) -> None:
    boxes = lay(ANNA, BO, EVA)
    problems = page([*HEAD, *boxes[:lost], *boxes[lost + 1 :], *FOOT]).problems
    assert problems
    assert all(("'10:00" if lost < 8 else "'12:15") in problem for problem in problems)


@pytest.mark.parametrize("lay", [as_list, as_cards, as_grid])
def test_a_shift_that_appears_twice_is_a_problem(lay: Callable[..., list[TextBox]]) -> None:
    (found,) = page([*HEAD, *lay(ANNA, BO, ANNA), *FOOT]).problems
    assert found == "the shift 08:00-09:00 'Städning' appears twice"


@pytest.mark.parametrize("lay", [as_list, as_cards, as_grid])
def test_a_double_booking_is_read(lay: Callable[..., list[TextBox]]) -> None:
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
                "'Fre 24 feb': 2026-02-24 is a Tuesday, so it may be of another year; "
                "send a photograph that shows the year",
            ),
            (),
        ),
    ],
)
def test_wrong_weekday_is_a_note_and_without_a_year_a_problem(
    head: str, problems: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    found = page([box(head, 46, 196), *as_cards(ANNA), *FOOT])
    assert (found.schedule_date, found.problems, found.notes) == ("2026-02-24", problems, notes)


def test_telephone_number_or_years_in_a_card_are_not_times() -> None:
    for line in ("0708-1234", "2026-2027", "Lill-Lilla gatan"):
        boxes = [*as_cards(ANNA), box(line, 80, 343 + 72 + 198)]
        found = page([*HEAD, *boxes, *FOOT])
        assert (shifts_of(found), found.problems) == ([ANNA], ())


def test_page_without_times_has_no_shifts() -> None:
    found = page([*HEAD, *FOOT])
    assert (found.shifts, found.problems, found.schedule_date) == ((), (), "2026-02-24")
    assert page([]).shifts == ()


# Which part of the day ------------------------------------------------------------------------------------------------


def test_page_that_continues_below_does_not_show_the_end_of_the_day() -> None:
    full = as_cards(*[(f"{7 + nth:02}:00", f"{7 + nth:02}:45", *ANNA[2:]) for nth in range(6)])
    found = page([*HEAD, *full, *FOOT])
    assert (len(found.shifts), found.shows_day_start, found.shows_day_end) == (6, True, False)
    for hidden in (1, 2, 3):
        foot = [box(word, x, full[-hidden].corners[0][1], 34) for word, x in (("Schema", 75), ("Chatt", 630))]
        found = page([*HEAD, *full[:-hidden], *foot])
        assert (len(found.shifts), found.shows_day_end, found.problems) == (5, False, ())


def test_page_without_a_header_does_not_show_the_start_of_the_day() -> None:
    found = page([box("15:01", 45, 18), box("Askim", 80, 120), *as_cards(ANNA, BO), *FOOT])
    assert (found.schedule_date, found.shows_day_start, found.shows_day_end) == (None, False, True)


@pytest.mark.parametrize("text", ["08.10", "Totalt 7.5 h", "App v2.1", "5G 4.5", "Tis 08.10", "1/2"])
def test_clock_amount_or_version_in_the_header_is_not_a_date(text: str) -> None:
    found = page([box(text, 45, 18), box("Mitt schema", 44, 110, 60), *as_cards(ANNA, BO), *FOOT])
    assert (found.schedule_date, found.shows_day_start, len(found.shifts)) == (None, False, 2)


def test_partial_shift_below_the_header_does_not_show_the_start_of_the_day() -> None:
    found = page([*HEAD, box("Anna Svensson", 80, 290), box("Askim", 80, 350), *as_cards(BO, EVA, top=480), *FOOT])
    assert (shifts_of(found), found.shows_day_start) == ([BO, EVA], False)


# What an engine makes of screens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True], ids=["checked", "alone"])
@pytest.mark.parametrize("record", recorded(), ids=lambda record: f"{record.name} {record.about}")
def test_recorded_screens_are_read_completely(record: Record, alone: bool) -> None:
    found = record.read(alone=alone)
    assert sorted(shifts_of(found)) == record.shifts
    assert (found.schedule_date, found.problems) == (record.schedule_date, ())
