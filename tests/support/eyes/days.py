"""The pictures that are kept here, drawn by `screens.draw_day`, and what they show."""

from duly.ingest.eyes.page import Page
from tests.support.eyes.marks import HERE, shifts_of

__all__ = ["AFTER", "BEFORE", "DAY", "picture", "shows"]

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


def picture(name: str) -> bytes:
    """One of them: before (a list), after (cards), grid, which shows what after does, ring, a small one, or faint, a
    part of a blurred one.
    """
    return (HERE / "pictures" / f"{name}.jpg").read_bytes()


def shows(page: Page, shifts: list[tuple[str, str, str, str, str]]) -> bool:
    """Does a page show this day, exactly?"""
    return (sorted(shifts_of(page)), page.schedule_date, page.problems) == (shifts, DAY, ())
