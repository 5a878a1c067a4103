"""Several days in one picture: below each other with headers, or side by side."""

import random
from collections.abc import Sequence
from datetime import date, timedelta

from tools.schedule_images.blocks import draw_heading, draw_rows, text_column
from tools.schedule_images.dates import COLUMN_FORMATS, LONG_FORMATS, DateFormat, week_headings
from tools.schedule_images.fonts import Font
from tools.schedule_images.layouts.cards import draw_card
from tools.schedule_images.page import Style
from tools.schedule_images.scene import Drawing, Line, Scene
from tools.schedule_images.truth import Day, Truth


def following_days(scene: Scene, count: int, *, may_skip: bool = False) -> list[date]:
    """Return days of one week, next to each other unless days may be skipped."""
    span = min(7, count + scene.rng.choice((0, 0, 1, 2))) if may_skip else count
    first = scene.day(count=span)
    numbers = [0, *sorted(scene.rng.sample(range(1, span), count - 1))]
    return [first + timedelta(days=number) for number in numbers]


def draw_week_heading(scene: Scene, days: Sequence[date], written: DateFormat) -> tuple[float, bool]:
    """Draw the top of a page of several days; return where they begin, and whether the year is drawn."""
    if written.has_year or scene.rng.random() < 0.25:
        return draw_heading(scene, "", has_status_bar=False), written.has_year
    heading = scene.rng.choice(week_headings(scene.language, days[0], days[-1]))
    return draw_heading(scene, "", heading=heading, has_status_bar=False), True


def draw_day_list(rng: random.Random, font: Font) -> Drawing:
    """Draw two or three days below each other, each with a header."""
    scene = Scene(rng, font)
    days = following_days(scene, rng.randint(2, 3), may_skip=True)
    written = scene.pick_format([form for form in LONG_FORMATS[scene.language] if "Idag" not in form.template])
    y, year_is_drawn = draw_week_heading(scene, days, written)
    on_band = rng.random() < 0.5
    truth = list[Day]()
    for day in days:
        y = draw_day_header(scene, y, written.write(day), on_band=on_band)
        spans = scene.spans(rng.randint(2, 3))
        texts = [scene.clock.span(span) for span in spans]
        shifts = scene.shifts(spans, text_column(scene, texts)[1])
        rows = [([Line(text, scene.time)], scene.lines(shift)) for text, shift in zip(texts, shifts, strict=True)]
        y = draw_rows(scene, y, rows)
        truth.append(Day(day, shifts))
    return scene.finish(y, Truth(truth, year_is_drawn=year_is_drawn))


def draw_day_header(scene: Scene, y: float, text: str, *, on_band: bool) -> float:
    """Draw the header of a day and return where its shifts begin."""
    style = Style(scene.title.size, scene.theme.ground if on_band else scene.theme.ink, True)
    if on_band:
        scene.page.rectangle((0, y, scene.page.width, y + style.line_height), scene.theme.accent)
    scene.page.text(scene.margin, y, text, style)
    return y + style.line_height + scene.body.size * 0.4


def draw_day_columns(rng: random.Random, font: Font) -> Drawing:
    """Draw two to four days side by side, cards below each header."""
    count = rng.choice((2, 3, 3, 3, 4))
    scene = Scene(rng, font, widths={2: (1080, 1170), 3: (1170, 1400), 4: (1600,)}[count], text_scale=0.022)
    days = following_days(scene, count)
    written = scene.pick_format(COLUMN_FORMATS[scene.language])
    y, year_is_drawn = draw_week_heading(scene, days, written)
    gap = scene.margin * 0.5
    width = (scene.page.width - 2 * gap - (count - 1) * gap) / count
    style = Style(scene.body.size, scene.theme.accent, True)
    scene.page.line(gap, y + style.line_height + 6, scene.page.width - gap, y + style.line_height + 6)
    truth, bottoms = list[Day](), list[float]()
    for number, day in enumerate(days):
        left, top = gap + number * (width + gap), y + style.line_height + gap + 6
        text = written.write(day)
        scene.page.text(left + (width - scene.page.text_width(text, style)) / 2, y, text, style)
        spans = scene.spans(rng.randint(2, 4))
        shifts = scene.shifts(spans, width - 1.4 * scene.margin)
        for span, shift in zip(spans, shifts, strict=True):
            lines = [Line(scene.clock.span(span), scene.time), *scene.lines(shift)]
            top = draw_card(scene, left, top, width, lines) + gap
        truth.append(Day(day, shifts))
        bottoms.append(top)
    return scene.finish(max(bottoms) + scene.margin, Truth(truth, year_is_drawn=year_is_drawn))
