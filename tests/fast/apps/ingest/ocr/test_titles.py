"""Wrapped titles: joined if words or strokes show it, and a problem if these contradict each other."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from duly.apps.ingest.ocr.text_box import Ink, TextBox
from tests.support.ocr.text_boxes import box, page, shifts_of

HEAD = [box("Tisdag 24 februari 2026", 46, 100)]
ANNA = ("08:00", "09:00", "Städning", "Anna Svensson", "Askim")
BO = ("10:00", "11:30", "Tillsyn", "Bo Öberg", "Åby")
EVA = ("12:15", "13:15", "Möte", "Brf Måsen", "Mölndal")
BOLD, PLAIN = Ink(contrast=0.9, stroke_width=6, strikethrough=0), Ink(contrast=0.6, stroke_width=3, strikethrough=0)
X = 404  # where the rows of a list begin
LONG = "Storstädning i hela huset Brenva"  # as long as fits
assert X + 18 * len(LONG) < 1000


def block(
    times: str, y: float, titles: Sequence[str], rest: Sequence[str], inks: Sequence[Ink] | None
) -> list[TextBox]:
    """Return times on the left, rows on the right: first those of the title, which may have other strokes."""
    boxes = [box(times, 48, y + 4)]
    for at, text in enumerate((*titles, *rest)):
        each = box(text, X, y + at * 65)
        boxes.append(replace(each, ink=inks[at >= len(titles)]) if inks else each)
    return boxes


def day(
    *titles: str,
    rest: Sequence[str] = ("Karin Ek", "Härryda"),
    inks: Sequence[Ink] | None = None,
    others: Sequence[tuple[str, str, str, str, str]] = (ANNA, BO),
) -> list[TextBox]:
    """A page with some shifts of three rows, then one with this title."""
    boxes = [*HEAD]
    for nth, (start, end, title, *more) in enumerate(others):
        boxes += block(f"{start}-{end}", 300 + nth * 260, [title], [text for text in more if text], inks)
    return [*boxes, *block("14:00-15:00", 300 + len(others) * 260, titles, rest, inks)]


# By words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Städning av köket,", "Badrummet och hallen"),
        ("Hemstädning och", "Fönsterputs"),
        ("Cleaning of the hall and", "Kitchen"),
        ("Reinigung und", "Einkauf"),
        ("Siivous ja", "Pyykki"),
        ("Veckostädning hos kund", "av köket"),
        ("Städning", "(två personer)"),
        ("Städning (kök", "Badrum)"),
        ("Promenad med", "Karin"),
    ],
)
@pytest.mark.parametrize("inks", [None, (BOLD, PLAIN)], ids=["looks unknown", "looks known"])
def test_wording_shows_that_a_title_continues(first: str, second: str, inks: Sequence[Ink] | None) -> None:
    found = page(day(first, second, inks=inks))
    assert shifts_of(found)[-1] == ("14:00", "15:00", f"{first} {second}", "Karin Ek", "Härryda")
    assert found.problems == ()


def test_a_title_may_continue_in_a_third_row() -> None:
    found = page(day("Städning av köket,", "badrummet och", "hallen"))
    assert shifts_of(found)[-1][2:] == ("Städning av köket, badrummet och hallen", "Karin Ek", "Härryda")


def test_wording_continues_a_title_in_a_block_with_the_usual_number_of_rows() -> None:
    found = page(day("Hemstädning och", "Fönsterputs", rest=["Karin Ek"]))
    assert shifts_of(found)[-1] == ("14:00", "15:00", "Hemstädning och Fönsterputs", "Karin Ek", "")


# By strokes -----------------------------------------------------------------------------------------------------------


def test_extra_row_styled_like_the_title_belongs_to_the_title() -> None:
    found = page(day(LONG, "Altan Bua", inks=(BOLD, PLAIN)))
    assert shifts_of(found)[-1] == ("14:00", "15:00", f"{LONG} Altan Bua", "Karin Ek", "Härryda")
    assert (shifts_of(found)[:-1], found.problems) == ([ANNA, BO], ())


def test_second_row_styled_like_customers_is_the_customer() -> None:
    rows = ("Altan Bua", "Härryda", "Storgatan 12, 412 58 Göteborg")
    found = page(day(LONG, rest=rows, inks=(BOLD, PLAIN)))
    assert shifts_of(found)[-1] == ("14:00", "15:00", LONG, "Altan Bua", "Härryda")
    assert (found.shifts[-1].address, found.problems) == (rows[2], ())


@pytest.mark.parametrize("inks", [None, (BOLD, PLAIN)], ids=["looks unknown", "looks known"])
def test_block_with_the_usual_number_of_rows_has_a_title_of_one_row(inks: Sequence[Ink] | None) -> None:
    found = page(day("Utbildning Brenva", inks=inks))
    assert shifts_of(found)[-1] == ("14:00", "15:00", "Utbildning Brenva", "Karin Ek", "Härryda")
    assert found.problems == ()


@pytest.mark.parametrize("inks", [None, (BOLD, BOLD)], ids=["looks unknown", "all look alike"])
def test_unexplained_extra_row_is_a_problem(inks: Sequence[Ink] | None) -> None:
    found = page(day(LONG, "Altan Bua", inks=inks))
    assert found.problems == ("it is unclear which lines of '14:00-15:00' are its title",)


def test_wrapped_title_in_a_block_with_the_usual_number_of_rows_is_a_problem() -> None:
    found = page(day(LONG, "Altan Bua", rest=["Härryda"], inks=(BOLD, PLAIN)))
    assert found.problems == ("it is unclear which lines of '14:00-15:00' are its title",)


def test_extra_row_is_a_problem_where_the_words_of_all_other_titles_show_that_they_are_wrapped() -> None:
    boxes = [*HEAD]
    titles = [("Hausbesuch und Reinigung", "Greis"), ("Wäsche und", "Einkauf"), ("Promenad,", "och tvätt")]
    for nth, title in enumerate(titles):
        boxes += block(f"{8 + nth:02}:00-{8 + nth:02}:45", 300 + nth * 340, title, ("Karin Ek", "Härryda"), None)
    found = page(boxes)
    assert found.problems == ("it is unclear which lines of '08:00-08:45' are its title",)
