"""Lists and cards whose dates are written out in one of four languages, and one whose weekday is wrong."""

import random

from tools.schedule_images.blocks import draw_heading
from tools.schedule_images.dates import LONG_FORMATS
from tools.schedule_images.fonts import Font
from tools.schedule_images.layouts.cards import draw_card_column
from tools.schedule_images.layouts.lists import draw_spans
from tools.schedule_images.scene import Drawing, Scene
from tools.schedule_images.truth import Day, Truth
from tools.schedule_images.vocabulary import LANGUAGES


def draw_languages(rng: random.Random, font: Font) -> Drawing:
    """Draw a day in one of the languages, each as often as the others."""
    scene = Scene(rng, font, languages=LANGUAGES)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day))
    spans = scene.spans(rng.randint(3, 5))
    texts = [scene.clock.span(span) for span in spans]
    draw = rng.choice((draw_spans, draw_card_column))
    end, shifts = draw(scene, y, texts, spans)
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def draw_wrong_weekday(rng: random.Random, font: Font) -> Drawing:
    """Draw a list whose date is complete and whose weekday belongs to another date."""
    scene = Scene(rng, font)
    complete = [form for form in LONG_FORMATS[scene.language] if form.has_year and form.has_weekday]
    day, written = scene.day(), scene.pick_format(complete)
    y = draw_heading(scene, written.write(day, weekday_offset=rng.randint(1, 6)))
    spans = scene.spans(rng.randint(3, 5))
    end, shifts = draw_spans(scene, y, [scene.clock.span(span) for span in spans], spans)
    return scene.finish(end, Truth([Day(day, shifts)], refusal_is_fine=True))
