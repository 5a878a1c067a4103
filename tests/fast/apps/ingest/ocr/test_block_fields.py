"""Fields of a block: icons before rows, a bullet within one, and whether a row is a customer or a location."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from duly.apps.ingest.ocr.text_box import Ink, TextBox
from tests.support.ocr.text_boxes import box, page, shifts_of

HEAD = [box("Tisdag 24 februari 2026", 46, 100)]
DARK, DIM = Ink(contrast=0.9, stroke_width=4, strikethrough=0), Ink(contrast=0.5, stroke_width=4, strikethrough=0)
BETWEEN = Ink(contrast=0.7, stroke_width=4, strikethrough=0)
ShiftFields = tuple[str, str, str, str, str]


def cards(*shifts: Sequence[str], indent: float = 0, inks: Sequence[Ink | None] = ()) -> list[TextBox]:
    """Return cards below each other; all rows but the title are indented."""
    boxes = [*HEAD]
    for nth, (times, *rows) in enumerate(shifts):
        y = 300 + nth * 340
        boxes.append(box(times, 80, y, 44))
        for at, text in enumerate(rows):
            each = box(text, 80 + (indent if at else 0), y + 72 + at * 66)
            boxes.append(replace(each, ink=inks[at]) if inks else each)
    return boxes


# Icons ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("icon", ["Q ", "O ", "9 ", "0 ", "© ", "Q) "])
def test_icon_read_as_a_letter_or_digit_is_not_part_of_the_location(icon: str) -> None:
    found = page(
        cards(
            ("08:00-09:00", "Städning", "Anna Svensson", f"{icon}Brenvik"),
            ("10:00-11:30", "Tillsyn", "Bo Öberg", f"{icon}Altan"),
        )
    )
    assert [shift[4] for shift in shifts_of(found)] == ["Brenvik", "Altan"]
    assert found.problems == ()


@pytest.mark.parametrize("icon", ["9", "0", "Q", "O", "©"])
def test_icon_that_touches_the_text_is_removed(icon: str) -> None:
    found = page(cards(("08:00-09:00", "Städning", "Anna Svensson", f"{icon}Brenvik")))
    assert shifts_of(found) == [("08:00", "09:00", "Städning", "Anna Svensson", "Brenvik")]


@pytest.mark.parametrize(("icon", "confidence"), [("上", 0.99), ("2", 0.52), ("A", 0.7)])
def test_uncertain_single_character_box_is_an_icon(icon: str, confidence: float) -> None:
    boxes = cards(("08:00-09:00", "Städning", "Anna Svensson", "Brenvik"), indent=46)
    customer = next(each for each in boxes if each.text == "Anna Svensson")
    left, top = customer.corners[0]
    symbol = replace(box(icon, left - 42, top), min_char_confidence=confidence)
    assert shifts_of(page([*boxes, symbol])) == [("08:00", "09:00", "Städning", "Anna Svensson", "Brenvik")]


def test_confident_single_digit_box_is_kept() -> None:
    boxes = cards(("08:00-09:00", "Cleaning", "Mary Mossley", "Tay Road"), indent=46)
    street = next(each for each in boxes if each.text == "Tay Road")
    left, top = street.corners[0]
    assert "4 Tay Road" in shifts_of(page([*boxes, box("4", left - 42, top)]))[0]


@pytest.mark.parametrize("icon", ["9 ", "Q ", "0 "])
def test_icon_before_a_house_number_is_removed_and_the_number_kept(icon: str) -> None:
    found = page(cards(("08:00-09:00", "Cleaning", "Mary Mossley", f"{icon}45A Tay Road")))
    assert (shifts_of(found)[0][4], found.problems) == ("45A Tay Road", ())


@pytest.mark.parametrize("address", ["9 Tay Road", "45A Tay Road", "12 Brent Lane"])
def test_leading_house_number_is_kept_on_a_page_without_icons(address: str) -> None:
    found = page(
        cards(
            ("08:00-09:00", "Cleaning", "Mary Mossley", address),
            ("10:00-11:30", "Laundry", "John Amshaw", "Elwick"),
        )
    )
    assert (shifts_of(found)[0][4], found.problems) == (address, ())


def test_a_digit_before_a_street_is_a_problem_where_the_page_has_icons() -> None:
    found = page(
        cards(
            ("08:00-09:00", "Cleaning", "Mary Mossley", "9 Tay Road"),
            ("10:00-11:30", "Laundry", "John Amshaw", "QElwick"),
        )
    )
    assert len(found.problems) == 1
    assert found.problems[0].startswith("'9 Tay Road' may start with an icon or a number (")


def test_house_number_is_kept_in_a_row_indented_by_an_unread_icon() -> None:
    found = page(cards(("08:00-09:00", "Cleaning", "Mary Mossley", "9 Tay Road"), indent=46))
    assert (shifts_of(found)[0][4], found.problems) == ("9 Tay Road", ())


def test_one_row_loses_one_icon_and_keeps_its_house_number() -> None:
    found = page(
        cards(
            ("08:00-09:00", "Laundry", "•Amshaw Ltd", "•9 Tay Road"),
            ("10:00-11:30", "Training", "Mary Mossley", "Elwick"),
        )
    )
    assert (shifts_of(found)[0][3:], found.problems) == (("Amshaw Ltd", "9 Tay Road"), ())


# A bullet -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bullet", [" • ", " · ", "•", "· "])
def test_side_of_a_bullet_with_task_words_is_the_title(bullet: str) -> None:
    first = page(cards(("08:00-09:00", f"Anna Bua{bullet}Städning"), ("10:00-11:30", f"Bo Altan{bullet}Tillsyn")))
    second = page(cards(("08:00-09:00", f"Städning{bullet}Anna Bua"), ("10:00-11:30", f"Tillsyn{bullet}Bo Altan")))
    expected = [("08:00", "09:00", "Städning", "Anna Bua", ""), ("10:00", "11:30", "Tillsyn", "Bo Altan", "")]
    assert shifts_of(first) == shifts_of(second) == expected


def test_one_known_task_decides_the_title_side_for_the_whole_page() -> None:
    found = page(cards(("08:00-09:00", "Brenva • Anna Bua"), ("10:00-11:30", "Städning • Bo Altan")))
    assert shifts_of(found) == [
        ("08:00", "09:00", "Brenva", "Anna Bua", ""),
        ("10:00", "11:30", "Städning", "Bo Altan", ""),
    ]


def test_title_with_a_bullet_is_not_split_if_the_customer_has_its_own_row() -> None:
    found = page(cards(("08:00-09:00", "Städning • Tvätt", "Anna Bua", "Brenvik")))
    assert shifts_of(found) == [("08:00", "09:00", "Städning • Tvätt", "Anna Bua", "Brenvik")]


# Customer or place ----------------------------------------------------------------------------------------------------


def with_lone_row(text: str, ink: Ink | None) -> list[TextBox]:
    """Return two shifts whose customer and location differ in contrast, and one with a single row after its title."""
    boxes = cards(
        ("08:00-09:00", "Städning", "Anna Svensson", "Brenvik"),
        ("10:00-11:30", "Tillsyn", "Bo Öberg", "Altan"),
        inks=(DARK, DARK, DIM),
    )
    lone = cards(("12:00-13:00", "Lunch", text), inks=(DARK, ink))[1:]
    down = [replace(each, corners=tuple((x, y + 680) for x, y in each.corners)) for each in lone]
    return [*boxes, *down]


@pytest.mark.parametrize(
    ("ink", "shift"),
    [
        (DARK, ("12:00", "13:00", "Lunch", "Elvan", "")),
        (DIM, ("12:00", "13:00", "Lunch", "", "Elvan")),
    ],
    ids=["as customers look", "as places look"],
)
def test_single_row_after_a_title_is_classified_by_its_color(ink: Ink, shift: ShiftFields) -> None:
    found = page(with_lone_row("Elvan", ink))
    assert (shifts_of(found)[-1], found.problems) == (shift, ())


@pytest.mark.parametrize("ink", [BETWEEN, None], ids=["looks like both", "not measured"])
def test_single_row_after_a_title_with_an_unclear_color_is_a_problem(ink: Ink | None) -> None:
    found = page(with_lone_row("Elvan", ink))
    assert len(found.problems) == 1
    assert found.problems[0].startswith("it is unclear whether 'Elvan' is a customer or a location (")


@pytest.mark.parametrize("icon", ["⌂ ", "⌂"])
def test_single_row_with_an_icon_is_unclear_where_customers_have_icons_too(icon: str) -> None:
    boxes = cards(("08:00-09:00", "Utbildning", "Anna Svensson", f"{icon}Brenvik"), indent=30)
    lone = cards(("12:00-13:00", "Städning", f"{icon}Elvan"))[1:]
    down = [replace(each, corners=tuple((x, y + 340) for x, y in each.corners)) for each in lone]
    found = page([*boxes, *down])
    assert [problem.partition(" (")[0] for problem in found.problems] == [
        "it is unclear whether 'Elvan' is a customer or a location"
    ]


@pytest.mark.parametrize("address", ["Storgatan 12", "Brenvägen 4B", "45 Tay Road", "Altan, 412 58 Göteborg"])
def test_single_row_after_a_title_that_is_an_address_is_the_location(address: str) -> None:
    found = page(with_lone_row(address, BETWEEN))
    assert (shifts_of(found)[-1], found.problems) == (("12:00", "13:00", "Lunch", "", address), ())


# Letters --------------------------------------------------------------------------------------------------------------


def test_lower_case_l_at_the_start_of_a_name_becomes_a_capital_i() -> None:
    found = page(cards(("08:00-09:00", "Städning", "lngrid Bua", "lrsta")))
    assert shifts_of(found) == [("08:00", "09:00", "Städning", "Ingrid Bua", "Irsta")]


def test_lower_case_l_inside_a_title_is_kept() -> None:
    found = page(cards(("08:00-09:00", "Städning av lokal", "Anna Bua", "Brenvik")))
    assert shifts_of(found)[0][2] == "Städning av lokal"
