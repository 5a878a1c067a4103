"""Text box: a piece of text that an OCR engine recognised, with its position and confidence.

A rotated page has one slope; a page photographed from the side has a slope that changes from top to bottom. Both are
estimated from the text boxes, whose corners follow their own baselines.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]
Corners = tuple[Point, Point, Point, Point]  # upper left, upper right, lower right, lower left, in reading direction
# Slopes: pixels down per pixel to the right.
MIN_ASPECT = 3.0  # width to height of a box: a narrower one has no reliable slope
MAX_SLOPE = 0.6  # of a box: a steeper one is no horizontal text
MIN_PAIRS = 6  # boxes with a right neighbour: fewer do not give a reliable slope
MAX_PAIR_HEIGHT_RATIO = 1.35  # between the heights of a box and its right neighbour
MAX_PAIR_SLOPE_DEVIATION = 0.02  # between the slope of a pair and the median of all pairs
MAX_PAIR_SLOPE_OFFSET = 0.03  # between the medians of pairs and of boxes: beyond, the pairs are not of one line
MIN_SLOPES_FOR_PERSPECTIVE = 8  # measured slopes: fewer do not show that the slope changes down the page


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


# Skew -----------------------------------------------------------------------------------------------------------------


def estimate_skew(boxes: Sequence[TextBox], height: float) -> tuple[float, float]:
    """Return the slope of lines in the middle of the page, and its change per pixel down.

    The slope of a single box depends on its letters: a word that ends in a small letter seems to fall. Pairs of boxes
    side by side are more precise, and are used if they agree with the boxes.
    """
    wide = [box for box in boxes if box.width > MIN_ASPECT * box.height and abs(box.slope) < MAX_SLOPE]
    if not wide:
        return 0.0, 0.0
    by_box = fit_slope([(box.centre[1] - height / 2, box.slope, box.width) for box in wide], height)
    median_slope = statistics.median(box.slope for box in wide)
    pairs = [pair for box in boxes if (pair := slope_to_right_neighbour(box, boxes, median_slope))]
    if len(pairs) < MIN_PAIRS:
        return by_box
    found = [(down - height / 2, slope, distance) for down, slope, distance in pairs]
    pair_slope = statistics.median(slope for _, slope, _ in found)
    near = [each for each in found if abs(each[1] - pair_slope) < MAX_PAIR_SLOPE_DEVIATION]
    if abs(pair_slope - median_slope) > MAX_PAIR_SLOPE_OFFSET or len(near) < MIN_PAIRS:
        return by_box
    return fit_slope(near, height)


def slope_to_right_neighbour(
    box: TextBox, boxes: Sequence[TextBox], median_slope: float
) -> tuple[float, float, float] | None:
    """Return the vertical centre of a box and its right neighbour, the slope between them, and their distance."""
    found: list[tuple[float, float, float]] = []
    for other in boxes:
        distance = other.centre[0] - box.centre[0]
        if distance <= (box.width + other.width) / 2:
            continue
        down = other.centre[1] - box.centre[1]
        is_like = max(box.height, other.height) < MAX_PAIR_HEIGHT_RATIO * min(box.height, other.height)
        if is_like and abs(down - median_slope * distance) < min(box.height, other.height) / 2:
            found.append(((box.centre[1] + other.centre[1]) / 2, down / distance, distance))
    return min(found, key=lambda each: each[2], default=None)


def fit_slope(found: Sequence[tuple[float, float, float]], height: float) -> tuple[float, float]:
    """Fit a line through (y, slope, weight); return the slope in the middle and its change per pixel down."""
    slope = statistics.median(slope for _, slope, _ in found)
    downs = [down for down, _, _ in found]
    if len(found) < MIN_SLOPES_FOR_PERSPECTIVE or max(downs) - min(downs) < height / 4:
        return slope, 0.0
    total = sum(weight for _, _, weight in found)
    middle = sum(weight * down for down, _, weight in found) / total
    mean = sum(weight * slope for _, slope, weight in found) / total
    variance = sum(weight * (down - middle) ** 2 for down, _, weight in found)
    covariance = sum(weight * (down - middle) * (slope - mean) for down, slope, weight in found)
    slope_change = covariance / variance if variance else 0.0
    return mean - slope_change * middle, slope_change
