"""A mark: one piece of text that an engine found in a picture, where it stands, and how sure the engine is."""

import math
from dataclasses import dataclass

__all__ = ["Ink", "Mark", "Point"]

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Ink:
    """How strokes look."""

    contrast: float  # 0 to 1, against the ground
    weight: float  # width of a stroke, in pixels
    strike: float  # the largest part of the text's width that ink takes at the height of a line through it


@dataclass(frozen=True, slots=True)
class Mark:
    """Some text within four corners: upper left, upper right, lower right, lower left, as the text runs."""

    text: str
    corners: tuple[Point, Point, Point, Point]
    confidence: float  # 0 to 1, of all letters together
    second: str | None = None  # what a second engine reads here, where it was asked
    again: str | None = None  # what the first engine reads in a second look, with faint marks taken
    weakest: float = 1.0  # 0 to 1, of the letter that the engine is least sure of
    chances: tuple[float, ...] = ()  # 0 to 1, of each letter of the text, where that is known
    ink: Ink | None = None  # how its strokes look, where that was measured
    is_cut: bool = False  # the ground ends where the text ends
    goes_on: bool = False  # something like text follows that is in no mark

    @property
    def centre(self) -> Point:
        """The middle of it."""
        return sum(x for x, _ in self.corners) / 4, sum(y for _, y in self.corners) / 4

    @property
    def width(self) -> float:
        """How long the text is, along its line."""
        upper_left, upper_right, lower_right, lower_left = self.corners
        return (math.dist(upper_left, upper_right) + math.dist(lower_left, lower_right)) / 2

    @property
    def height(self) -> float:
        """How high its line is."""
        upper_left, upper_right, lower_right, lower_left = self.corners
        return (math.dist(upper_left, lower_left) + math.dist(upper_right, lower_right)) / 2

    @property
    def slope(self) -> float:
        """How much the line falls for every step to the right."""
        upper_left, upper_right, lower_right, lower_left = self.corners
        run = (upper_right[0] - upper_left[0]) + (lower_right[0] - lower_left[0])
        fall = (upper_right[1] - upper_left[1]) + (lower_right[1] - lower_left[1])
        return fall / run if run > 0 else 0.0
