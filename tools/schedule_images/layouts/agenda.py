"""Lists as calendar applications draw them: an agenda with coloured bars, and a dark list with all its decorations."""

import random

from tools.schedule_images.blocks import draw_chip, draw_heading, draw_navigation, draw_row, draw_stack, stack_height
from tools.schedule_images.clocks import Span, plain_clock
from tools.schedule_images.dates import LONG_FORMATS
from tools.schedule_images.fonts import Font
from tools.schedule_images.page import Style
from tools.schedule_images.scene import Drawing, Line, Scene
from tools.schedule_images.truth import Day, Truth

BARS = ("#1e88e5", "#43a047", "#fb8c00", "#8e24aa", "#e53935", "#00897b")
STATES = {
    "sv": ("Bekräftad", "Planerad", "Klar"),
    "en": ("Confirmed", "Planned", "Done"),
    "de": ("Bestätigt", "Geplant"),
    "fi": ("Vahvistettu", "Suunniteltu"),
}


def draw_agenda(rng: random.Random, font: Font) -> Drawing:
    """Draw the start at the left, the end in grey below it, a coloured bar, and the text at the right."""
    scene = Scene(rng, font)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 6))
    start_style = Style(scene.body.size, scene.theme.ink, True)
    x = scene.margin + scene.page.text_width("00:00", start_style) + scene.body.size * 2
    shifts = scene.shifts(spans, scene.page.width - scene.margin - x)
    for span, shift in zip(spans, shifts, strict=True):
        times = [Line(scene.clock.time(span[0]), start_style), Line(scene.clock.time(span[1]), scene.dim)]
        end = draw_row(scene, y, x, times, scene.lines(shift))
        bar = x - scene.body.size * 1.1
        scene.page.rectangle((bar, y + 12, bar + 8, end - 8), rng.choice(BARS), radius=4)
        y = end + scene.body.size * 0.4
    return scene.finish(y + scene.margin, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def duration(span: Span, language: str) -> str:
    """Write how long a shift takes."""
    hours, minutes = divmod(span[1] - span[0], 60)
    hour = {"sv": "h", "en": "h", "de": "Std.", "fi": "h"}[language]
    return " ".join([f"{hours} {hour}"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0))


def draw_dark_list(rng: random.Random, font: Font) -> Drawing:
    """Draw a dark list with icons, durations, status chips and a navigation bar."""
    scene = Scene(rng, font, is_dark=True)
    scene.has_icons = True
    scene.clock = plain_clock(scene.clock)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    page, pad = scene.page, scene.margin * 0.6
    left, right = scene.margin, scene.page.width - scene.margin
    spans = scene.spans(rng.randint(3, 5))
    shifts = scene.shifts(spans, right - left - 2 * pad, may_lack_customer=True)
    for span, shift in zip(spans, shifts, strict=True):
        lines = scene.lines(shift)
        bottom = y + scene.time.line_height + stack_height(lines) + 2 * pad
        page.rectangle((left, y, right, bottom), scene.theme.card, radius=18)
        end = page.text(left + pad, y + pad, scene.clock.span(span), scene.time)
        length = duration(span, scene.language)
        end = page.text(end + scene.body.size, y + pad, length, scene.dim)
        draw_state(scene, end, right - pad, y + pad)
        draw_stack(scene, left + pad, y + pad + scene.time.line_height, lines)
        y = bottom + scene.margin * 0.6
    return scene.finish(
        draw_navigation(scene, y + scene.margin), Truth([Day(day, shifts)], year_is_drawn=written.has_year)
    )


def draw_state(scene: Scene, left: float, right: float, y: float) -> None:
    """Draw a status chip at the right of a line, where there is room for it."""
    state = scene.rng.choice(STATES[scene.language])
    width = scene.page.text_width(state, scene.dim) + scene.dim.size * 0.9
    if right - width > left + scene.body.size:
        draw_chip(scene, right - width, y, state, scene.theme.accent)
