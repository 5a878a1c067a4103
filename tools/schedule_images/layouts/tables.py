"""Tables: of one day with a row per shift, and rosters with a row per day or per shift of several days."""

import random
from collections.abc import Mapping, Sequence

from tools.schedule_images.blocks import draw_heading, draw_stack, stack_height
from tools.schedule_images.clocks import Span, plain_clock
from tools.schedule_images.dates import COLUMN_FORMATS, LONG_FORMATS
from tools.schedule_images.fonts import Font
from tools.schedule_images.layouts.days import draw_week_heading, following_days
from tools.schedule_images.page import Style
from tools.schedule_images.scene import WIDE, Drawing, Line, Scene
from tools.schedule_images.truth import Day, Shift, Truth

Header = Mapping[str, str]  # the title of a column by what it holds, in the order of the columns
HEADERS: Mapping[str, Sequence[Header]] = {
    "sv": (
        {"span": "Tid", "title": "Aktivitet", "customer": "Kund", "location": "Plats"},
        {"start": "Start", "end": "Slut", "title": "Aktivitet", "customer": "Kund", "location": "Plats"},
        {"span": "Tid", "title": "Uppgift", "customer": "Kund", "location": "Adress"},
        {"span": "Tid", "customer": "Kund", "title": "Aktivitet", "location": "Plats"},
    ),
    "en": (
        {"span": "Time", "title": "Task", "customer": "Client", "location": "Place"},
        {"start": "Start", "end": "End", "title": "Task", "customer": "Client", "location": "Location"},
        {"span": "Time", "customer": "Customer", "title": "Task", "location": "Location"},
    ),
    "de": (
        {"span": "Zeit", "title": "Aufgabe", "customer": "Kunde", "location": "Ort"},
        {"start": "Beginn", "end": "Ende", "title": "Tätigkeit", "customer": "Kunde", "location": "Ort"},
    ),
    "fi": (
        {"span": "Aika", "title": "Tehtävä", "customer": "Asiakas", "location": "Paikka"},
        {"start": "Alkaa", "end": "Loppuu", "title": "Tehtävä", "customer": "Asiakas", "location": "Paikka"},
    ),
}
ROSTER_HEADERS: Mapping[str, Header] = {
    "sv": {"day": "Dag", "span": "Tid", "title": "Pass", "customer": "Kund", "location": "Plats"},
    "en": {"day": "Day", "span": "Time", "title": "Shift", "customer": "Client", "location": "Place"},
    "de": {"day": "Tag", "span": "Zeit", "title": "Dienst", "customer": "Kunde", "location": "Ort"},
    "fi": {"day": "Päivä", "span": "Aika", "title": "Vuoro", "customer": "Asiakas", "location": "Paikka"},
}
CELL_HEADERS = {"sv": ("Dag", "Pass"), "en": ("Day", "Shift"), "de": ("Tag", "Dienst"), "fi": ("Päivä", "Vuoro")}
Row = Mapping[str, str]


def table_scene(rng: random.Random, font: Font) -> Scene:
    """Return a wide scene without the decorations that text beside a time would have."""
    scene = Scene(rng, font, widths=WIDE, text_scale=0.0185)
    scene.has_icons = False
    scene.clock = plain_clock(scene.clock)
    scene.title = Style(scene.body.size, scene.theme.ink, rng.random() < 0.3)
    scene.dim = Style(scene.body.size, rng.choice((scene.theme.ink, scene.theme.dim)))
    return scene


def column_lefts(scene: Scene, header: Header, rows: Sequence[Row], styles: Mapping[str, Style]) -> list[float]:
    """Return where the columns begin, and at last where the table ends; what is left over is shared."""
    widths = [
        max(
            scene.page.text_width(title, styles["header"]),
            *(scene.page.text_width(row[name], styles[name]) for row in rows),
        )
        for name, title in header.items()
    ]
    spare = scene.page.width - 2 * scene.margin - sum(widths)
    pad = spare / len(widths)
    assert pad >= scene.body.size, "the columns do not fit the page"
    lefts = [float(scene.margin)]
    for width in widths:
        lefts.append(lefts[-1] + width + pad)
    return lefts


def draw_grid(scene: Scene, y: float, header: Header, rows: Sequence[Row]) -> float:
    """Draw a table and return where it ends."""
    page, look = scene.page, scene.rng.choice(("grid", "rows", "zebra", "none"))
    body = scene.body
    styles = {
        "header": Style(body.size, scene.theme.ink, True), "day": Style(body.size, scene.theme.ink, True),
        "span": scene.time, "start": scene.time, "end": scene.time,
        "title": scene.title, "customer": body, "location": scene.dim,
    }  # fmt: skip
    lefts = column_lefts(scene, header, rows, styles)
    height, top, pad = round(body.size * 2), y, body.size * 0.4
    for number, row in enumerate([header, *rows]):
        if number == 0 or (look == "zebra" and number % 2 == 0):
            fill = scene.theme.line if number == 0 else scene.theme.card
            page.rectangle((lefts[0], y, lefts[-1], y + height), fill)
        for left, name in zip(lefts, header, strict=False):
            if row[name]:
                page.text(left + pad, y + height * 0.16, row[name], styles["header" if number == 0 else name])
        y += height
        if look in ("grid", "rows"):
            page.line(lefts[0], y, lefts[-1], y)
    for left in lefts if look == "grid" else ():
        page.line(left, top, left, y)
    return y + scene.margin


def to_row(scene: Scene, span: Span, shift: Shift, day: str = "") -> Row:
    """Return the cells of a shift."""
    start, end = scene.clock.time(span[0]), scene.clock.time(span[1])
    fields = {"title": shift.title, "customer": shift.customer, "location": shift.location}
    return {"day": day, "span": scene.clock.span(span), "start": start, "end": end, **fields}


def draw_table(rng: random.Random, font: Font) -> Drawing:
    """Draw a table of one day with a header row."""
    scene = table_scene(rng, font)
    day, written = scene.day(), scene.pick_format(LONG_FORMATS[scene.language])
    y = draw_heading(scene, written.write(day), has_status_bar=False)
    spans = scene.spans(rng.randint(4, 7))
    shifts = scene.shifts(spans, scene.page.width * 0.2, may_lack_customer=True)
    rows = [to_row(scene, span, shift) for span, shift in zip(spans, shifts, strict=True)]
    end = draw_grid(scene, y, rng.choice(HEADERS[scene.language]), rows)
    return scene.finish(end, Truth([Day(day, shifts)], year_is_drawn=written.has_year))


def draw_roster(rng: random.Random, font: Font) -> Drawing:
    """Draw a table of several days with a row per shift; the day stands in each row or in its first."""
    scene = table_scene(rng, font)
    days = following_days(scene, rng.randint(2, 4), may_skip=True)
    written = scene.pick_format(COLUMN_FORMATS[scene.language])
    y, year_is_drawn = draw_week_heading(scene, days, written)
    is_repeated = rng.random() < 0.5
    rows, truth = list[Row](), list[Day]()
    for day in days:
        spans = scene.spans(rng.randint(1, 3))
        shifts = scene.shifts(spans, scene.page.width * 0.19, may_lack_customer=True)
        for number, (span, shift) in enumerate(zip(spans, shifts, strict=True)):
            rows.append(to_row(scene, span, shift, written.write(day) if is_repeated or number == 0 else ""))
        truth.append(Day(day, shifts))
    end = draw_grid(scene, y, ROSTER_HEADERS[scene.language], rows)
    return scene.finish(end, Truth(truth, year_is_drawn=year_is_drawn))


def draw_roster_cells(rng: random.Random, font: Font) -> Drawing:
    """Draw a table with a row per day and a column per shift: time, title, customer and location in each cell."""
    scene = table_scene(rng, font)
    days = following_days(scene, rng.randint(2, 4))
    written = scene.pick_format(COLUMN_FORMATS[scene.language])
    y, year_is_drawn = draw_week_heading(scene, days, written)
    columns, day_style = rng.randint(2, 3), Style(scene.body.size, scene.theme.ink, True)
    first = max(scene.page.text_width(written.write(day), day_style) for day in days) + scene.body.size
    width = (scene.page.width - 2 * scene.margin - first) / columns
    lefts = [scene.margin, *(scene.margin + first + number * width for number in range(columns))]
    right, top, pad = scene.page.width - scene.margin, y, scene.body.size * 0.4
    day_title, shift_title = CELL_HEADERS[scene.language]
    scene.page.rectangle((lefts[0], y, right, y + scene.body.size * 2), scene.theme.line)
    for left, title in zip(lefts, [day_title, *(f"{shift_title} {n + 1}" for n in range(columns))], strict=True):
        scene.page.text(left + pad, y + scene.body.size * 0.3, title, day_style)
    y += scene.body.size * 2
    truth = list[Day]()
    for day in days:
        spans = scene.spans(rng.randint(1 if day != days[0] else columns, columns))
        shifts = [scene.shift(span, width - 2 * pad) for span in spans]
        scene.page.text(lefts[0] + pad, y + pad, written.write(day), day_style)
        cells = [
            [Line(scene.clock.span(span), scene.time), *scene.lines(shift)]
            for span, shift in zip(spans, shifts, strict=True)
        ]
        for left, lines in zip(lefts[1:], cells, strict=False):
            draw_stack(scene, left + pad, y + pad, lines)
        y += max(map(stack_height, cells)) + 2 * pad
        scene.page.line(lefts[0], y, right, y)
        truth.append(Day(day, shifts))
    for left in [*lefts, right]:
        scene.page.line(left, top, left, y)
    return scene.finish(y + scene.margin, Truth(truth, year_is_drawn=year_is_drawn))
