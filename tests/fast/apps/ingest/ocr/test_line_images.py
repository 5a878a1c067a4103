"""What a closer look at a line tells: a line through it, more of it, the end of its page."""

from dataclasses import replace
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from duly.apps.ingest.ocr.engine import ends_at_edge, goes_on, line_of, measure_ink, ranges_apart
from duly.apps.ingest.ocr.mark import Mark

PAGE, DESK = 240, 120  # greys


def drawn(text: str, *, edge: int = 600) -> tuple[Image.Image, Mark]:
    """A page that ends at an edge, with a text on it, and the mark of the text's first word."""
    grey = Image.new("L", (600, 120), DESK)
    pen, font = ImageDraw.Draw(grey), ImageFont.load_default(40)
    pen.rectangle((0, 0, edge - 1, 119), fill=PAGE)
    pen.text((40, 35), text, fill=20, font=font)
    left, top, right, bottom = pen.textbbox((40, 35), text.split()[0], font=font)
    corners = ((left, top - 6.0), (right, top - 6.0), (right, bottom + 6.0), (left, bottom + 6.0))
    return grey, Mark(text.split()[0], corners, 0.99)


def test_a_text_goes_on_where_something_like_it_follows_that_was_not_found() -> None:
    grey, mark = drawn("Smusten 4")
    assert goes_on(mark, grey, [mark])
    corners: Any = tuple((x + mark.width, y) for x, y in mark.corners)
    number = replace(mark, text="4", corners=corners)
    assert not goes_on(mark, grey, [mark, number])


def test_a_text_ends_before_a_blank_or_a_bar() -> None:
    grey, mark = drawn("Smusten")
    assert not goes_on(mark, grey, [mark])
    right = mark.corners[1][0]
    ImageDraw.Draw(grey).rectangle((right + 12, 0, right + 18, 119), fill=20)
    assert not goes_on(mark, grey, [mark])


@pytest.mark.parametrize(("beyond", "is_cut"), [(4, True), (60, False)])
def test_a_text_is_cut_where_its_page_ends_with_it(beyond: int, is_cut: bool) -> None:
    _, mark = drawn("Smusten")
    grey, mark = drawn("Smusten", edge=round(mark.corners[1][0]) + beyond)
    assert ends_at_edge(mark, grey, PAGE) == is_cut


def test_a_text_is_cut_where_the_picture_ends_with_it() -> None:
    grey, mark = drawn("Smusten")
    picture = grey.crop((0, 0, round(mark.corners[1][0]) + 4, 120))
    assert ends_at_edge(mark, picture, PAGE)


@pytest.mark.parametrize(("has_line", "least", "most"), [(True, 0.65, 1.0), (False, 0.0, 0.6)])
def test_a_line_through_digits_is_seen(has_line: bool, least: float, limit: float) -> None:
    grey, mark = drawn("08:00-09:00")
    (left, top), _, (right, bottom), _ = mark.corners
    if has_line:
        ImageDraw.Draw(grey).line((left - 3, (top + bottom) / 2, right + 3, (top + bottom) / 2), fill=20, width=4)
    ink = measure_ink(line_of(mark, grey), mark.height)
    assert ink is not None
    assert least <= ink.strike <= limit


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("08:00-09:00 10:00-11:00", ["08:00-09:00", "10:00-11:00"]),
        ("12:1513:15 12:45-13:45", ["12:1513:15", "12:45-13:45"]),
        ("08:00-09:00", ["08:00-09:00"]),
    ],
)
def test_two_ranges_in_one_mark_are_two_marks(text: str, parts: list[str]) -> None:
    found = ranges_apart(Mark(text, ((0, 0), (400, 0), (400, 40), (0, 40)), 0.9, chances=(0.9,) * len(text)))
    assert [mark.text for mark in found] == parts
    assert [len(mark.chances) for mark in found] == [len(part) for part in parts]
