"""Committed test images, drawn by `screens.draw_day` and `draw_days`, and what they show."""

from collections.abc import Sequence

from duly.apps.ingest.ocr.reader import RecognisedDay
from tests.support.ocr.text_boxes import HERE, shifts_of

DAY = "2026-03-17"
ÅKE = ("07:30", "09:00", "Hemstädning", "Åke Öberg", "Åby")
MÄRTA = ("12:00", "13:30", "Tillsyn", "Märta Sjögren", "Västra Frölunda")
BEFORE = [ÅKE, ("09:30", "11:00", "Fönsterputs", "Café Ängen", "Mölndal"), MÄRTA]
AFTER = [
    ÅKE,
    ("10:00", "11:30", "Fönsterputs", "Café Ängen", "Mölndal"),
    MÄRTA,
    ("15:00", "16:00", "Ärenden", "Brf Näset", "Öckerö"),
]
DAYS = {"2026-09-07": BEFORE, "2026-09-08": AFTER[1:3]}


def picture(name: str) -> bytes:
    """Load one: before (a list), after (cards), grid (the same shifts as after), days (a list of two days), ring (a
    small image with rings) or faint (a part of a blurred one).
    """
    return (HERE / "pictures" / f"{name}.jpg").read_bytes()


def shows(pages: Sequence[RecognisedDay], shifts: list[tuple[str, str, str, str, str]]) -> bool:
    """Check whether an image was read as exactly this day."""
    found = [(sorted(shifts_of(page)), page.schedule_date, page.problems) for page in pages]
    return found == [(shifts, DAY, ())]
