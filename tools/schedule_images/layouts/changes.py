"""Shifts that were moved, with their old times, and shifts that were cancelled."""

import random

from tools.schedule_images.blocks import draw_chip, draw_heading, draw_row, draw_rows, stack_height, text_column
from tools.schedule_images.clocks import Span, plain_clock
from tools.schedule_images.dates import LONG_FORMATS
from tools.schedule_images.fonts import Font
from tools.schedule_images.layouts.cards import draw_card
from tools.schedule_images.page import Style
from tools.schedule_images.scene import Drawing, Line, Scene
from tools.schedule_images.truth import Day, Shift, Truth

EARLIER = {"sv": "(tidigare {})", "en": "(was {})", "de": "(vorher {})", "fi": "(aiemmin {})"}
CANCELLED = {"sv": ("Avbokad", "Inställd"), "en": ("Cancelled",)}
RED = "#c62828"


def draw_changed_times(rng: random.Random, font: Font) -> Drawing:
    """Draw a day of which some shifts were moved: the old time struck beside or above the new one, or in a note."""
    scene = Scene(rng, font)
    scene.clock = plain_clock(scene.clock)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 5))
    moved = {rng.randrange(len(spans)), *(number for number in range(len(spans)) if rng.random() < 0.3)}
    olds = [old_span(rng, span) if number in moved else None for number, span in enumerate(spans)]
    draw = rng.choice((draw_struck_beside, draw_struck_above, draw_note))
    end, shifts = draw(scene, y, spans, olds)
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def old_span(rng: random.Random, span: Span) -> Span:
    """Return the times that a shift had before."""
    offset = rng.choice((-60, -45, -30, -15, 15, 30, 60))
    return span[0] + offset, span[1] + offset


def draw_struck_beside(scene: Scene, y: float, spans: list[Span], olds: list[Span | None]) -> tuple[float, list[Shift]]:
    """Draw cards with the old time struck through beside the new one, before or after it."""
    page, width = scene.page, scene.page.width - 2 * scene.margin
    shifts, pad = scene.shifts(spans, width - 2 * scene.margin), scene.margin * 0.6
    new_first, gap = scene.rng.random() < 0.4, scene.body.size
    for span, old, shift in zip(spans, olds, shifts, strict=True):
        top = y + pad
        bottom = draw_card(scene, scene.margin, y, width, [Line("", scene.time), *scene.lines(shift)])
        new, x = scene.clock.span(span), scene.margin + pad
        if new_first:
            x = page.text(x, top, new, scene.time) + gap
        if old:
            right = page.text(x, top, scene.clock.span(old), scene.dim)
            page.strike(x, top, right, scene.dim)
            x = right + gap
        if not new_first:
            page.text(x, top, new, scene.time)
        y = bottom + scene.margin * 0.7
    return y + scene.margin, shifts


def draw_struck_above(scene: Scene, y: float, spans: list[Span], olds: list[Span | None]) -> tuple[float, list[Shift]]:
    """Draw a list with the old time struck through above the new one."""
    struck = Style(scene.time.size, scene.theme.dim, scene.time.is_bold)
    texts = [scene.clock.span(span) for span in [*spans, *filter(None, olds)]]
    x, width = text_column(scene, texts)
    shifts = scene.shifts(spans, width)
    for span, old, shift in zip(spans, olds, shifts, strict=True):
        times = [Line(scene.clock.span(old), struck)] if old else []
        end = draw_row(scene, y, x, [*times, Line(scene.clock.span(span), scene.time)], scene.lines(shift))
        if old:
            right = scene.margin + scene.page.text_width(times[0].text, struck)
            scene.page.strike(scene.margin, y + scene.body.size * 0.4, right, struck)
        scene.page.line(scene.margin, end, scene.page.width - scene.margin, end)
        y = end + scene.body.size * 0.25
    return y + scene.margin, shifts


def draw_note(scene: Scene, y: float, spans: list[Span], olds: list[Span | None]) -> tuple[float, list[Shift]]:
    """Draw a list with the old time in a note below the shift."""
    texts = [scene.clock.span(span) for span in spans]
    shifts = scene.shifts(spans, text_column(scene, texts)[1])
    note = EARLIER[scene.language]
    rows = list[tuple[list[Line], list[Line]]]()
    for text, old, shift in zip(texts, olds, shifts, strict=True):
        notes = [Line(note.format(scene.clock.span(old)), scene.dim)] if old else []
        rows.append(([Line(text, scene.time)], [*scene.lines(shift), *notes]))
    return draw_rows(scene, y, rows), shifts


def draw_cancelled(rng: random.Random, font: Font) -> Drawing:
    """Draw a list in which shifts are cancelled: by a word before the title, or by a chip before or after it.

    The word is part of the title line, and so of the title.
    """
    scene = Scene(rng, font, languages=tuple(CANCELLED))
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 5))
    texts = [scene.clock.span(span) for span in spans]
    x, width = text_column(scene, texts)
    word, form = rng.choice(CANCELLED[scene.language]), rng.choice(("prefix", "chip before", "chip after"))
    cancelled = {rng.randrange(len(spans)), *(number for number in range(len(spans)) if rng.random() < 0.2)}
    room = scene.page.text_width(f"{word}:  ", scene.title) + scene.body.size * 1.5
    shifts = list[Shift]()
    for number, (span, text) in enumerate(zip(spans, texts, strict=True)):
        shift = scene.shift(span, width - room if number in cancelled else width)
        times = [Line(text, scene.time)]
        if number in cancelled:
            shift, lines = cancel(scene, x, y + scene.body.size * 0.4, shift, word, form)
        else:
            lines = scene.lines(shift)
        draw_row(scene, y, x, times, lines)
        y += max(stack_height(lines), stack_height(times)) + scene.body.size * 0.8
        scene.page.line(scene.margin, y, scene.page.width - scene.margin, y)
        y += scene.body.size * 0.25
        shifts.append(shift)
    return scene.finish(y + scene.margin, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def cancel(scene: Scene, x: float, y: float, shift: Shift, word: str, form: str) -> tuple[Shift, list[Line]]:
    """Draw the chip of a cancelled shift, if it has one; return the shift with its full title, and its lines."""
    rest, gap = scene.lines(shift)[1:], scene.body.size * 0.5
    if form == "prefix":
        changed = shift._replace(title=f"{word}: {shift.title}")
        return changed, [Line(changed.title, scene.title), *rest]
    if form == "chip before":
        right = draw_chip(scene, x, y, word, RED)
        scene.page.text(right + gap, y, shift.title, scene.title)
        return shift._replace(title=f"{word} {shift.title}"), [Line("", scene.title), *rest]
    draw_chip(scene, x + scene.page.text_width(shift.title, scene.title) + gap, y, word, RED)
    return shift._replace(title=f"{shift.title} {word}"), [Line(shift.title, scene.title), *rest]
