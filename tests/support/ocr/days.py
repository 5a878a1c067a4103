"""The pictures that are kept here, drawn by `screens.draw_day` and `draw_days`, and what they show."""

from collections.abc import Sequence

from duly.apps.ingest.ocr.page import Page
from tests.support.ocr.marks import HERE, shifts_of

__all__ = ["AFTER", "BEFORE", "DAY", "DAYS", "picture", "shows"]

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
    """One of them: before (a list), after (cards), grid, which shows what after does, days, a list of two, ring, a
    small one, or faint, a part of a blurred one.
    """
    return (HERE / "pictures" / f"{name}.jpg").read_bytes()


def shows(pages: Sequence[Page], shifts: list[tuple[str, str, str, str, str]]) -> bool:
    """Do the pages of a picture show this day, exactly, and no other?"""
    found = [(sorted(shifts_of(page)), page.schedule_date, page.problems) for page in pages]
    return found == [(shifts, DAY, ())]
