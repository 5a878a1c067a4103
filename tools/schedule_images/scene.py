"""What the layouts share: a page with its language, clock, styles and invented texts that fit where they are drawn."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from PIL import Image

from tools.schedule_images.clocks import Span, hh_mm, pick_clock, random_spans
from tools.schedule_images.dates import DateFormat
from tools.schedule_images.fonts import Font
from tools.schedule_images.page import DARK, LIGHT, Page, Style
from tools.schedule_images.truth import Shift, Truth
from tools.schedule_images.vocabulary import Words

PHONE = (720, 828, 1080, 1170)
WIDE_PHONE = (1080, 1170)
WIDE = (1480, 1600)
LANGUAGES = ("sv", "sv", "sv", "en", "de", "fi")
HEADINGS = {
    "sv": ("Mitt schema", "Schema", "Dagens pass", "Mina pass"),
    "en": ("My schedule", "Shifts", "My day"),
    "de": ("Mein Dienstplan", "Einsätze", "Dienstplan"),
    "fi": ("Työvuorot", "Oma kalenteri"),
}
MIN_TEXT, MAX_TEXT = 26, 44
FIRST_DATE = date(2026, 1, 5)
MAX_TRIES = 400


@dataclass(frozen=True)
class Drawing:
    """An image as a device would show it, and what it shows."""

    image: Image.Image
    truth: Truth
    smallest_text: int  # in pixels; damages spare it


Layout = Callable[[random.Random, Font], Drawing]


@dataclass(frozen=True)
class Line:
    """A line of a stack of text."""

    text: str
    style: Style
    icon: str = ""

    @property
    def indent(self) -> float:
        """The room that the icon takes."""
        return self.style.size * 0.95 if self.icon else 0


class Scene:
    """A page with all that its layout draws from."""

    def __init__(
        self,
        rng: random.Random,
        font: Font,
        *,
        widths: Sequence[int] = PHONE,
        languages: Sequence[str] = LANGUAGES,
        text_scale: float = 0.036,
        is_dark: bool | None = None,
    ) -> None:
        self.rng = rng
        self.language = rng.choice(languages)
        self.words = Words(rng, self.language)
        self.clock = pick_clock(rng, self.language)
        width = rng.choice(widths)
        dark = rng.random() < 0.25 if is_dark is None else is_dark
        self.theme = rng.choice(DARK if dark else LIGHT)
        self.page = Page(font, width, self.theme)
        self.margin = round(width * 0.04)
        self.has_icons = rng.random() < 0.4
        self.separator = rng.choice(("line", "bar", "card", "space"))  # between the rows of a list
        body = min(MAX_TEXT - 4, max(MIN_TEXT, round(width * text_scale * rng.uniform(0.95, 1.05))))
        self.body = Style(body, self.theme.ink)
        self.dim = Style(max(MIN_TEXT, round(body * 0.94)), self.theme.dim)
        self.title = Style(min(MAX_TEXT, round(body * rng.choice((1.0, 1.08)))), self.theme.ink, True)
        time_color = rng.choice((self.theme.accent, self.theme.ink))
        self.time = Style(body, time_color, rng.random() < 0.5)
        self.heading = Style(round(body * 1.3), self.theme.ink, True)

    def day(self, *, count: int = 1) -> date:
        """Return a date of 2026; the first of `count` days in one week."""
        week = FIRST_DATE + timedelta(weeks=self.rng.randrange(51))
        return week + timedelta(days=self.rng.randrange(8 - count))

    def spans(self, count: int) -> list[Span]:
        """Return the times of a day; where hours are not padded, one of them shows that the clock has 24 hours."""
        return random_spans(self.rng, count, until_afternoon=not self.clock.is_padded)

    def pick_format(self, formats: Sequence[DateFormat]) -> DateFormat:
        """Pick a way to write dates."""
        return self.rng.choice(formats)

    def fit(self, make: Callable[[], str], style: Style, width: float) -> str:
        """Return a made text that fits this width."""
        for _ in range(MAX_TRIES):
            text = make()
            if self.page.text_width(text, style) <= width:
                return text
        raise AssertionError(f"no text fits {width:.0f} pixels at size {style.size}")

    def shift(self, span: Span, width: float, *, may_lack_customer: bool = False) -> Shift:
        """Invent a shift whose lines fit this width."""
        width -= self.dim.size if self.has_icons else 0
        title = self.fit(self.words.title, self.title, width)
        customer = self.fit(self.words.customer, self.body, width)
        location = self.fit(self.words.location, self.dim, width)
        if may_lack_customer and self.rng.random() < 0.2:
            customer = ""
        return Shift(hh_mm(span[0]), hh_mm(span[1]), title, customer, location)

    def shifts(self, spans: Sequence[Span], width: float, *, may_lack_customer: bool = False) -> list[Shift]:
        """Invent a shift for each of these times."""
        return [self.shift(span, width, may_lack_customer=may_lack_customer) for span in spans]

    def lines(self, shift: Shift) -> list[Line]:
        """Return title, customer and location as the lines of a stack."""
        customer = [Line(shift.customer, self.body, "person" if self.has_icons else "")] if shift.customer else []
        return [
            Line(shift.title, self.title),
            *customer,
            Line(shift.location, self.dim, "pin" if self.has_icons else ""),
        ]

    def finish(self, height: float, truth: Truth) -> Drawing:
        """Return what was drawn."""
        return Drawing(self.page.finish(height), truth, self.page.smallest_text)
