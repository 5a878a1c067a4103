"""Measurements on the image of a line: strikethrough, text that was not detected, truncation."""

from dataclasses import replace
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from duly.apps.ingest.ocr.line_images import crop_line, ends_at_page_edge, has_unread_text_after, measure_ink
from duly.apps.ingest.ocr.rapidocr_engine import split_time_ranges
from duly.apps.ingest.ocr.text_box import TextBox

PAGE, BACKGROUND = 240, 120  # greys


def drawn(text: str, *, edge: int = 600) -> tuple[Image.Image, TextBox]:
    """Draw a text on a page that ends at an edge; return the image and the box of the first word."""
    grey = Image.new("L", (600, 120), BACKGROUND)
    pen, font = ImageDraw.Draw(grey), ImageFont.load_default(40)
    pen.rectangle((0, 0, edge - 1, 119), fill=PAGE)
    pen.text((40, 35), text, fill=20, font=font)
    left, top, right, bottom = pen.textbbox((40, 35), text.split()[0], font=font)
    corners = ((left, top - 6.0), (right, top - 6.0), (right, bottom + 6.0), (left, bottom + 6.0))
    return grey, TextBox(text.split()[0], corners, 0.99)


def test_undetected_text_after_a_box_is_found() -> None:
    grey, box = drawn("Smusten 4")
    assert has_unread_text_after(box, grey, [box])
    corners: Any = tuple((x + box.width, y) for x, y in box.corners)
    number = replace(box, text="4", corners=corners)
    assert not has_unread_text_after(box, grey, [box, number])


def test_blank_or_bar_after_a_box_is_not_text() -> None:
    grey, box = drawn("Smusten")
    assert not has_unread_text_after(box, grey, [box])
    right = box.corners[1][0]
    ImageDraw.Draw(grey).rectangle((right + 12, 0, right + 18, 119), fill=20)
    assert not has_unread_text_after(box, grey, [box])


@pytest.mark.parametrize(("beyond", "is_cut"), [(4, True), (60, False)])
def test_a_text_is_truncated_where_its_page_ends(beyond: int, is_cut: bool) -> None:
    _, box = drawn("Smusten")
    grey, box = drawn("Smusten", edge=round(box.corners[1][0]) + beyond)
    assert ends_at_page_edge(box, grey, PAGE) == is_cut


def test_a_text_is_truncated_where_the_image_ends() -> None:
    grey, box = drawn("Smusten")
    picture = grey.crop((0, 0, round(box.corners[1][0]) + 4, 120))
    assert ends_at_page_edge(box, picture, PAGE)


@pytest.mark.parametrize(("has_line", "least", "limit"), [(True, 0.65, 1.0), (False, 0.0, 0.6)])
def test_a_strikethrough_of_digits_is_measured(has_line: bool, least: float, limit: float) -> None:
    grey, box = drawn("08:00-09:00")
    (left, top), _, (right, bottom), _ = box.corners
    if has_line:
        ImageDraw.Draw(grey).line((left - 3, (top + bottom) / 2, right + 3, (top + bottom) / 2), fill=20, width=4)
    ink = measure_ink(crop_line(box, grey), box.height)
    assert ink is not None
    assert least <= ink.strikethrough <= limit


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("08:00-09:00 10:00-11:00", ["08:00-09:00", "10:00-11:00"]),
        ("12:1513:15 12:45-13:45", ["12:1513:15", "12:45-13:45"]),
        ("08:00-09:00", ["08:00-09:00"]),
    ],
)
def test_two_time_ranges_in_one_box_become_two_boxes(text: str, parts: list[str]) -> None:
    found = split_time_ranges(
        TextBox(text, ((0, 0), (400, 0), (400, 40), (0, 40)), 0.9, char_confidences=(0.9,) * len(text))
    )
    assert [box.text for box in found] == parts
    assert [len(box.char_confidences) for box in found] == [len(part) for part in parts]
