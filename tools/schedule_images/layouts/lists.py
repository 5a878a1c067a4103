"""Lists of one day: times at the left, text at the right."""

import random
from collections.abc import Callable, Sequence

from tools.schedule_images.blocks import draw_heading, draw_rows, text_column
from tools.schedule_images.clocks import TWELVE_HOUR, Span, hh_mm
from tools.schedule_images.dates import LONG_FORMATS
from tools.schedule_images.fonts import Font
from tools.schedule_images.layouts.cards import draw_card_column
from tools.schedule_images.scene import Drawing, Line, Scene
from tools.schedule_images.truth import Day, Shift, Truth

BULLETS = (" \N{BULLET} ", " \N{BULLET} ", " \N{MIDDLE DOT} ")


def draw_spans(scene: Scene, y: float, texts: Sequence[str], spans: Sequence[Span]) -> tuple[float, list[Shift]]:
    """Draw a list of invented shifts whose times are written like this; return its end and the shifts."""
    _, width = text_column(scene, texts)
    shifts = scene.shifts(spans, width)
    rows = [([Line(text, scene.time)], scene.lines(shift)) for text, shift in zip(texts, shifts, strict=True)]
    return draw_rows(scene, y, rows), shifts


def draw_list(rng: random.Random, font: Font) -> Drawing:
    """Draw times at the left, title, customer and location stacked at the right."""
    scene = Scene(rng, font)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 6))
    end, shifts = draw_spans(scene, y, [scene.clock.span(span) for span in spans], spans)
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def draw_twelve_hour(rng: random.Random, font: Font) -> Drawing:
    """Draw a list or cards with the times on a 12-hour clock."""
    language, write = rng.choice(TWELVE_HOUR)
    scene = Scene(rng, font, languages=(language,))
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[language])
    y = draw_heading(scene, written.write(day), has_status_bar=False)
    spans = twelve_hour_spans(scene, language)
    texts = [write(span) for span in spans]
    if rng.random() < 0.5 or scene.page.width < 1000:
        end, shifts = draw_card_column(scene, y, texts, spans)
    else:
        end, shifts = draw_spans(scene, y, texts, spans)
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def twelve_hour_spans(scene: Scene, language: str) -> list[Span]:
    """Return times of which some are past noon; in Swedish none is in the hour after it, which has no usual form."""
    while True:
        spans = scene.spans(scene.rng.randint(3, 5))
        noon = any(minute // 60 == 12 for span in spans for minute in span)
        if spans[-1][1] >= 13 * 60 and not (noon and language == "sv"):
            return spans


def draw_two_line_titles(rng: random.Random, font: Font) -> Drawing:
    """Draw a list or cards in which some titles are wrapped to two lines."""
    scene = Scene(rng, font)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 5))
    texts = [scene.clock.span(span) for span in spans]
    is_list = rng.random() < 0.5
    width = text_column(scene, texts)[1] if is_list else scene.page.width - 4.5 * scene.margin
    longs = {rng.randrange(len(spans)), *(number for number in range(len(spans)) if rng.random() < 0.5)}
    stacks, shifts = list[list[Line]](), list[Shift]()
    for number, span in enumerate(spans):
        shift = scene.shift(span, width)
        titles = (
            two_lines(scene, scene.words.long_title, min(width, scene.title.size * 16))
            if number in longs
            else [shift.title]
        )
        shifts.append(shift._replace(title=" ".join(titles)))
        stacks.append([*(Line(title, scene.title) for title in titles), *scene.lines(shift)[1:]])
    if is_list:
        rows = [([Line(text, scene.time)], lines) for text, lines in zip(texts, stacks, strict=True)]
        end = draw_rows(scene, y, rows)
    else:
        end, _ = draw_card_column(scene, y, texts, spans, given=list(zip(shifts, stacks, strict=True)))
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def two_lines(scene: Scene, make: Callable[[], str], width: float) -> list[str]:
    """Return a made text, wrapped to exactly two lines of this width."""
    for _ in range(2000):
        lines = [""]
        for word in make().split():
            longer = f"{lines[-1]} {word}".strip()
            if scene.page.text_width(longer, scene.title) <= width or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(word)
        fits = all(scene.page.text_width(line, scene.title) <= width for line in lines)
        if len(lines) == 2 and fits:
            return lines
        if len(lines) == 1:  # too short for this width: more of it
            make = joined(make)
    raise AssertionError(f"no title takes two lines of {width:.0f} pixels")


def joined(make: Callable[[], str]) -> Callable[[], str]:
    """Return a maker of longer texts."""
    return lambda: f"{make()}, {make().lower()}"


def draw_bullet_line(rng: random.Random, font: Font) -> Drawing:
    """Draw customer and title in one line with a bullet between them, and the address below."""
    scene = Scene(rng, font)
    scene.has_icons = False
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 6))
    texts = [scene.clock.span(span) for span in spans]
    is_card = rng.random() < 0.5 or scene.page.width < 1000
    width = scene.page.width - 4.5 * scene.margin if is_card else text_column(scene, texts)[1]
    bullet, customer_first = rng.choice(BULLETS), rng.random() < 0.7
    drawn = [bullet_shift(scene, span, width, bullet, customer_first=customer_first) for span in spans]
    if is_card:
        end, _ = draw_card_column(scene, y, texts, spans, given=drawn)
    else:
        rows = [([Line(text, scene.time)], lines) for text, (_, lines) in zip(texts, drawn, strict=True)]
        end = draw_rows(scene, y, rows)
    return scene.finish(end, Truth([Day(day, [shift for shift, _ in drawn])], year_is_drawn=written.has_year))


def bullet_shift(
    scene: Scene, span: Span, width: float, bullet: str, *, customer_first: bool
) -> tuple[Shift, list[Line]]:
    """Invent a shift whose customer and title fit one line."""
    while True:
        title, customer = scene.words.title(), scene.words.person()
        line = bullet.join((customer, title) if customer_first else (title, customer))
        if scene.page.text_width(line, scene.title) <= width:
            break
    address = scene.fit(scene.words.address, scene.dim, width)
    shift = Shift(hh_mm(span[0]), hh_mm(span[1]), title, customer, address)
    return shift, [Line(line, scene.title), Line(address, scene.dim)]
