"""Images that are unreadable or contradictory: the only correct answer is a refusal."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from PIL import Image

from tools.schedule_images.blocks import draw_heading, draw_rows, text_column
from tools.schedule_images.clocks import EN_DASH, Span, twelve
from tools.schedule_images.dates import LONG_FORMATS, DateFormat
from tools.schedule_images.fonts import Font
from tools.schedule_images.layouts.cards import draw_card_column
from tools.schedule_images.layouts.lists import draw_spans
from tools.schedule_images.page import Box
from tools.schedule_images.scene import Drawing, Line, Scene
from tools.schedule_images.truth import refused


def with_year(language: str) -> Sequence[DateFormat]:
    """Return the date formats that leave no doubt."""
    return [written for written in LONG_FORMATS[language] if written.has_year]


def draw_cut_right_edge(rng: random.Random, font: Font) -> Drawing:
    """Draw a list and cut it through the letters of its titles; the date stays whole."""
    scene = Scene(rng, font)
    scene.has_icons = False
    y = draw_heading(scene, scene.pick_format(with_year(scene.language)).write(scene.day()), has_status_bar=False)
    header_right = max(box[2] for _, box in scene.page.boxes)
    spans = scene.spans(rng.randint(3, 5))
    texts = [scene.clock.span(span) for span in spans]
    left, width = text_column(scene, texts)
    least = max(width * 0.45, header_right + 3 * scene.body.size - left)
    shifts = [scene.shift(span, width)._replace(title=wide_title(scene, least, width)) for span in spans]
    rows = [([Line(text, scene.time)], scene.lines(shift)) for text, shift in zip(texts, shifts, strict=True)]
    drawing = scene.finish(draw_rows(scene, y, rows), refused("right edge cut through the titles"))
    titles = [box for text, box in scene.page.boxes if text in {shift.title for shift in shifts}]
    right = round(min(box[2] for box in titles)) - scene.body.size
    cut = cut_through_letters(drawing.image, titles, range(right - scene.body.size, right))
    return replace(drawing, image=drawing.image.crop((0, 0, cut, drawing.image.height)))


def wide_title(scene: Scene, least: float, width: float) -> str:
    """Return a title of at least and at most these widths."""
    while True:
        title = scene.fit(scene.rng.choice((scene.words.title, scene.words.long_title)), scene.title, width)
        if scene.page.text_width(title, scene.title) >= least:
            return title


def cut_through_letters(image: Image.Image, titles: Sequence[Box], columns: range) -> int:
    """Return the column that runs through the letters of the most titles."""

    def is_cut(title: Box, column: int) -> bool:
        strip = image.crop((column, round(title[1]), column + 1, round(title[3]))).convert("L").tobytes()
        return max(strip) - min(strip) > 90

    return max(columns, key=lambda column: sum(is_cut(title, column) for title in titles))


def draw_backwards_times(rng: random.Random, font: Font) -> Drawing:
    """Draw a list whose hours begin again at 1 after noon, without am or pm."""
    scene = Scene(rng, font)
    y = draw_heading(scene, scene.pick_format(with_year(scene.language)).write(scene.day()), has_status_bar=False)
    while True:
        spans = scene.spans(rng.randint(4, 5))
        starts = [(start // 60 - 1) % 12 + 1 for start, _ in spans]
        if spans[-1][0] >= 13 * 60 and starts != sorted(starts):
            break
    dash = rng.choice((EN_DASH, " - ", f" {EN_DASH} "))
    end, _ = draw_spans(scene, y, [f"{twelve(start)}{dash}{twelve(stop)}" for start, stop in spans], spans)
    return scene.finish(end, refused("times run backwards without am or pm"))


def draw_ambiguous_date(rng: random.Random, font: Font) -> Drawing:
    """Draw an English day whose date is two numbers up to 12 and a year, without a weekday."""
    scene = Scene(rng, font, languages=("en",))
    first, second = rng.sample(range(1, 13), 2)
    written = rng.choice(("{:02d}/{:02d}/{}", "{}/{}/{}")).format(first, second, date(2026, 1, 1).year)
    y = draw_heading(scene, written)
    return draw_day(scene, y, "day and month are ambiguous")


def draw_no_date(rng: random.Random, font: Font) -> Drawing:
    """Draw a day without any date."""
    scene = Scene(rng, font)
    return draw_day(scene, draw_heading(scene, ""), "no date", year_is_drawn=False)


def draw_day(scene: Scene, y: float, reason: str, *, year_is_drawn: bool = True) -> Drawing:
    """Draw a list or cards that are fine in themselves."""
    spans: Sequence[Span] = scene.spans(scene.rng.randint(3, 5))
    draw = scene.rng.choice((draw_spans, draw_card_column))
    end, _ = draw(scene, y, [scene.clock.span(span) for span in spans], spans)
    return scene.finish(end, refused(reason, year_is_drawn=year_is_drawn))


def draw_undecidable_halves(rng: random.Random, font: Font) -> Drawing:
    """Draw afternoon times marked PM and, between them, times around 12 without a mark that fit neither half."""
    scene = Scene(rng, font, languages=("en",))
    y = draw_heading(scene, scene.pick_format(with_year("en")).write(scene.day()), has_status_bar=False)
    first = rng.randrange(13 * 60, 14 * 60, 15)
    open_start = rng.choice((10 * 60 + 30, 11 * 60, 11 * 60 + 30))
    last = rng.randrange(16 * 60, 18 * 60, 15)
    spans: list[Span] = [(first, first + 90), (open_start, open_start + 120), (last, last + 60)]
    marks = (" PM", "", " PM")
    texts = [f"{twelve(start)}{mark} - {twelve(end)}{mark}" for (start, end), mark in zip(spans, marks, strict=True)]
    end, _ = draw_card_column(scene, y, texts, spans)
    return scene.finish(end, refused("a time without am or pm fits neither half"))


def draw_upside_down(rng: random.Random, font: Font) -> Drawing:
    """Draw a day and turn it by half a turn."""
    scene = Scene(rng, font)
    written = scene.pick_format(with_year(scene.language))
    drawing = draw_day(scene, draw_heading(scene, written.write(scene.day())), "upside down")
    return replace(drawing, image=drawing.image.transpose(Image.Transpose.ROTATE_180))
