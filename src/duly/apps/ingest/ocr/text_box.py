"""Text box: a piece of text that an OCR engine recognised, with its position and confidence."""

import math
from dataclasses import dataclass

Point = tuple[float, float]
Corners = tuple[Point, Point, Point, Point]  # upper left, upper right, lower right, lower left, in reading direction


@dataclass(frozen=True, slots=True)
class Ink:
    """Appearance of the strokes of a text."""

    contrast: float  # 0 to 1, between text and background
    stroke_width: float  # pixels
    strikethrough: float  # largest share of the text's width that is inked in one pixel row where a strikethrough runs


@dataclass(frozen=True, slots=True)
class TextBox:
    """Text within four corners."""

    text: str
    corners: Corners
    confidence: float  # 0 to 1, of the whole text
    second_engine_text: str | None = None  # what the second engine reads here, if it was run
    reread_text: str | None = None  # what the first engine reads in a second pass that accepts faint diacritics
    min_char_confidence: float = 1.0  # 0 to 1, of the least certain character
    char_confidences: tuple[float, ...] = ()  # 0 to 1, of each character of the text, if known
    ink: Ink | None = None  # appearance of the strokes, if measured
    ends_at_page_edge: bool = False  # the background ends where the text ends
    has_unread_text_after: bool = False  # something that looks like text follows and is in no box

    @property
    def centre(self) -> Point:
        """Return the centre of the box."""
        return sum(x for x, _ in self.corners) / 4, sum(y for _, y in self.corners) / 4

    @property
    def width(self) -> float:
        """Return the length of the text along its baseline."""
        upper_left, upper_right, lower_right, lower_left = self.corners
        return (math.dist(upper_left, upper_right) + math.dist(lower_left, lower_right)) / 2

    @property
    def height(self) -> float:
        """Return the height across the baseline."""
        upper_left, upper_right, lower_right, lower_left = self.corners
        return (math.dist(upper_left, lower_left) + math.dist(upper_right, lower_right)) / 2

    @property
    def slope(self) -> float:
        """Return how far the baseline falls per pixel to the right."""
        upper_left, upper_right, lower_right, lower_left = self.corners
        run = (upper_right[0] - upper_left[0]) + (lower_right[0] - lower_left[0])
        fall = (upper_right[1] - upper_left[1]) + (lower_right[1] - lower_left[1])
        return fall / run if run > 0 else 0.0
