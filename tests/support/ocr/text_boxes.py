"""Marks without an engine: written down by hand, or recorded from one."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.mark import Mark
from duly.apps.ingest.ocr.page import Page, read_pages

__all__ = ["HERE", "Recorded", "line", "mark", "page", "pages", "recorded", "shifts_of", "tilted"]

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1080, 2400
LETTER = 18  # how wide one is


def mark(text: str, x: float, y: float, height: float = 40, confidence: float = 0.99) -> Mark:
    """Some text at a place, as wide as such text is."""
    right, bottom = x + LETTER * len(text), y + height
    return Mark(text, ((x, y), (right, y), (right, bottom), (x, bottom)), confidence)


def line(text: str, y: float = 100, height: float = 40) -> Line:
    """The same as a line."""
    return Line(text, 40, 40 + LETTER * len(text), y, height, 0.99)


def page(marks: Sequence[Mark], *, year: int = 2026) -> Page:
    """What such marks make, which show one day or none."""
    (found,) = pages(marks, year=year)
    return found


def pages(marks: Sequence[Mark], *, year: int = 2026) -> tuple[Page, ...]:
    """What such marks make, day by day."""
    return read_pages(marks, WIDTH, HEIGHT, year)


def shifts_of(found: Page) -> list[tuple[str, str, str, str, str]]:
    """Its shifts, as screens show them."""
    return [(each.start, each.end, each.title, each.customer, each.location) for each in found.shifts]


def tilted(marks: Sequence[Mark], degrees: float) -> list[Mark]:
    """The marks of a page that was turned about its middle."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))

    def turn(x: float, y: float) -> tuple[float, float]:
        across, down = x - WIDTH / 2, y - HEIGHT / 2
        return across * cosine - down * sine + WIDTH / 2, across * sine + down * cosine + HEIGHT / 2

    turned: list[Mark] = []
    for each in marks:
        one, two, three, four = (turn(*corner) for corner in each.corners)
        turned.append(Mark(each.text, (one, two, three, four), each.confidence, each.second))
    return turned


@dataclass(frozen=True)
class Recorded:
    """What an engine once made of a screen, and what the screen showed."""

    name: str
    about: str
    width: int
    height: int
    marks: tuple[Mark, ...]
    schedule_date: str
    shifts: list[tuple[str, ...]]

    def read(self, *, alone: bool = False) -> Page:
        """What we make of it now; alone, without the second engine."""
        marks = [Mark(each.text, each.corners, each.confidence) for each in self.marks] if alone else self.marks
        (found,) = read_pages(marks, self.width, self.height, 2026)
        return found


def recorded() -> list[Recorded]:
    """Everything that was recorded."""
    return [read_record(path) for path in sorted((HERE / "recorded").glob("*.json"))]


def read_record(path: Path) -> Recorded:
    """One record."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    marks = [
        Mark(text, ((c[0], c[1]), (c[2], c[3]), (c[4], c[5]), (c[6], c[7])), confidence, second)
        for text, confidence, second, *c in found["marks"]
    ]
    shifts = [tuple(shift) for shift in found["shifts"]]
    return Recorded(
        path.stem, found["about"], found["width"], found["height"], tuple(marks), found["schedule_date"], shifts
    )
