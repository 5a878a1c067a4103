"""Text boxes without an engine: written by hand, or recorded from one."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.reader import RecognisedDay, read_days
from duly.apps.ingest.ocr.text_box import TextBox

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1080, 2400
CHAR_WIDTH = 18  # pixels


def box(text: str, x: float, y: float, height: float = 40, confidence: float = 0.99) -> TextBox:
    """Return a text box at a position, with a width for its text."""
    right, bottom = x + CHAR_WIDTH * len(text), y + height
    return TextBox(text, ((x, y), (right, y), (right, bottom), (x, bottom)), confidence)


def line(text: str, y: float = 100, height: float = 40) -> Line:
    """Return a line at a vertical position."""
    return Line(text, 40, 40 + CHAR_WIDTH * len(text), y, height, 0.99)


def page(boxes: Sequence[TextBox], *, year: int = 2026) -> RecognisedDay:
    """Read text boxes that show one day or none."""
    (found,) = pages(boxes, year=year)
    return found


def pages(boxes: Sequence[TextBox], *, year: int = 2026) -> tuple[RecognisedDay, ...]:
    """Read the days that text boxes show."""
    return read_days(boxes, WIDTH, HEIGHT, year)


def shifts_of(found: RecognisedDay) -> list[tuple[str, str, str, str, str]]:
    """Return the shifts of a day as start, end, title, customer and location."""
    return [(each.start, each.end, each.title, each.customer, each.location) for each in found.shifts]


def tilted(boxes: Sequence[TextBox], degrees: float) -> list[TextBox]:
    """Return the text boxes of a page that is rotated around its centre."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))

    def turn(x: float, y: float) -> tuple[float, float]:
        across, down = x - WIDTH / 2, y - HEIGHT / 2
        return across * cosine - down * sine + WIDTH / 2, across * sine + down * cosine + HEIGHT / 2

    turned: list[TextBox] = []
    for each in boxes:
        one, two, three, four = (turn(*corner) for corner in each.corners)
        turned.append(TextBox(each.text, (one, two, three, four), each.confidence, each.second_engine_text))
    return turned


@dataclass(frozen=True)
class Recorded:
    """The recorded text boxes of a screen, and what the screen shows."""

    name: str
    about: str
    width: int
    height: int
    boxes: tuple[TextBox, ...]
    schedule_date: str
    shifts: list[tuple[str, ...]]

    def read(self, *, alone: bool = False) -> RecognisedDay:
        """Read the recorded text boxes; `alone` without the second engine."""
        boxes = [TextBox(each.text, each.corners, each.confidence) for each in self.boxes] if alone else self.boxes
        (found,) = read_days(boxes, self.width, self.height, 2026)
        return found


def recorded() -> list[Recorded]:
    """Load all recordings."""
    return [read_record(path) for path in sorted((HERE / "recorded").glob("*.json"))]


def read_record(path: Path) -> Recorded:
    """Load one recording."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    boxes = [
        TextBox(text, ((c[0], c[1]), (c[2], c[3]), (c[4], c[5]), (c[6], c[7])), confidence, second)
        for text, confidence, second, *c in found["boxes"]
    ]
    shifts = [tuple(shift) for shift in found["shifts"]]
    return Recorded(
        path.stem, found["about"], found["width"], found["height"], tuple(boxes), found["schedule_date"], shifts
    )
