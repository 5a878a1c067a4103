"""Cards of one day: times on top, then title, customer and location."""

import random
from collections.abc import Sequence

from tools.schedule_images.blocks import draw_heading, draw_stack, stack_height
from tools.schedule_images.clocks import Span
from tools.schedule_images.dates import LONG_FORMATS
from tools.schedule_images.fonts import Font
from tools.schedule_images.scene import WIDE_PHONE, Drawing, Line, Scene
from tools.schedule_images.truth import Day, Shift, Truth


def draw_card(scene: Scene, x: float, y: float, width: float, lines: Sequence[Line]) -> float:
    """Draw a card and return where it ends."""
    pad = scene.margin * 0.6
    bottom = y + stack_height(lines) + 2 * pad
    scene.page.rectangle((x, y, x + width, bottom), scene.theme.card, radius=scene.margin * 0.5)
    draw_stack(scene, x + pad, y + pad, lines)
    return bottom


def draw_card_column(
    scene: Scene,
    y: float,
    texts: Sequence[str],
    spans: Sequence[Span],
    *,
    given: Sequence[tuple[Shift, Sequence[Line]]] = (),
) -> tuple[float, list[Shift]]:
    """Draw a card for each of these times, with invented shifts or given ones; return the end and the shifts."""
    width = scene.page.width - 2 * scene.margin
    if not given:
        shifts = scene.shifts(spans, width - 2 * scene.margin)
        given = [(shift, scene.lines(shift)) for shift in shifts]
    for text, (_, lines) in zip(texts, given, strict=True):
        y = draw_card(scene, scene.margin, y, width, [Line(text, scene.time), *lines]) + scene.margin * 0.7
    return y + scene.margin, [shift for shift, _ in given]


def draw_cards(rng: random.Random, font: Font) -> Drawing:
    """Draw one card below the other."""
    scene = Scene(rng, font)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 5))
    end, shifts = draw_card_column(scene, y, [scene.clock.span(span) for span in spans], spans)
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def draw_two_columns(rng: random.Random, font: Font) -> Drawing:
    """Draw the cards of one day in two columns, filled by rows or by columns."""
    scene = Scene(rng, font, widths=WIDE_PHONE, text_scale=0.028)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(4, 8))
    width = (scene.page.width - 3 * scene.margin) / 2
    shifts = scene.shifts(spans, width - 1.3 * scene.margin)
    cards = [
        [Line(scene.clock.span(span), scene.time), *scene.lines(shift)]
        for span, shift in zip(spans, shifts, strict=True)
    ]
    pitch = stack_height(cards[0]) + 2 * scene.margin
    rows = (len(cards) + 1) // 2
    by_rows = rng.random() < 0.6
    for number, lines in enumerate(cards):
        column, row = (number % 2, number // 2) if by_rows else divmod(number, rows)
        draw_card(scene, scene.margin + column * (width + scene.margin), y + row * pitch, width, lines)
    return scene.finish(y + rows * pitch + scene.margin, Truth([Day(day, shifts)], year_is_drawn=written.has_year))
