"""Parts that several layouts draw: status bar, heading, stack of lines, chip, list rows, navigation bar."""

from collections.abc import Sequence

from tools.schedule_images.page import Style
from tools.schedule_images.scene import HEADINGS, Line, Scene

NAVIGATION = {
    "sv": ("Schema", "Kalender", "Chatt", "Profil"),
    "en": ("Schedule", "Calendar", "Chat", "Profile"),
    "de": ("Plan", "Kalender", "Chat", "Profil"),
    "fi": ("Vuorot", "Kalenteri", "Viestit", "Profiili"),
}


def draw_status_bar(scene: Scene) -> float:
    """Draw the device's clock and battery and return where the page begins."""
    page, style = scene.page, Style(scene.dim.size, scene.theme.ink, True)
    clock = f"{scene.rng.randint(7, 22):02d}:{scene.rng.randint(0, 59):02d}"
    page.text(scene.margin + 8, 14, clock, style)
    right, top, size = page.width - scene.margin, 14 + style.size * 0.36, style.size
    page.rectangle((right - size * 1.5, top, right - 6, top + size * 0.7), scene.theme.ink, radius=6)
    page.rectangle((right - 5, top + size * 0.2, right, top + size * 0.5), scene.theme.ink)
    return 14 + style.size * 2.3


def draw_heading(scene: Scene, date_text: str, *, has_status_bar: bool | None = None, heading: str = "") -> float:
    """Draw the top of a page, with the date if there is one, and return where the shifts begin."""
    page, y = scene.page, float(scene.margin)
    if scene.rng.random() < 0.35 if has_status_bar is None else has_status_bar:
        y = draw_status_bar(scene)
    if heading or not date_text or scene.rng.random() < 0.6:
        page.text(scene.margin, y, heading or scene.rng.choice(HEADINGS[scene.language]), scene.heading)
        y += scene.heading.line_height
    if date_text:
        style = scene.rng.choice((scene.title, Style(round(scene.body.size * 1.1), scene.theme.dim)))
        page.text(scene.margin, y, date_text, style)
        y += style.line_height
    return y + scene.body.size * 0.7


def stack_height(lines: Sequence[Line]) -> float:
    """Return how high a stack of lines is."""
    return sum(line.style.line_height for line in lines)


def draw_stack(scene: Scene, x: float, y: float, lines: Sequence[Line]) -> float:
    """Draw lines below each other, empty ones as space, and return where the next one would begin."""
    for line in lines:
        draw_icon(scene, x, y, line)
        if line.text:
            scene.page.text(x + line.indent, y, line.text, line.style)
        y += line.style.line_height
    return y


def draw_icon(scene: Scene, x: float, y: float, line: Line) -> None:
    """Draw the icon before a line, if it has one."""
    if line.icon == "pin":
        scene.page.pin(x, y, line.style.size, scene.theme.accent)
    if line.icon == "person":
        scene.page.person(x, y, line.style.size, scene.theme.accent)


def draw_chip(scene: Scene, x: float, y: float, text: str, color: str) -> float:
    """Draw a word on a rounded ground, level with a title that begins at y, and return its right edge."""
    style = Style(scene.dim.size, scene.theme.ground)
    pad = style.size * 0.45
    right = x + scene.page.text_width(text, style) + 2 * pad
    scene.page.rectangle((x, y + 2, right, y + style.line_height - 2), color, radius=style.size * 0.5)
    scene.page.text(x + pad, y, text, style)
    return right


def text_column(scene: Scene, times: Sequence[str]) -> tuple[float, float]:
    """Return where the text right of these times begins, and how wide it may be."""
    left = scene.margin + max(scene.page.text_width(text, scene.time) for text in times) + scene.body.size * 1.6
    return left, scene.page.width - scene.margin - left


def draw_row(scene: Scene, y: float, x: float, times: Sequence[Line], lines: Sequence[Line]) -> float:
    """Draw times at the left and a stack at the right, and return where the row ends."""
    top = y + scene.body.size * 0.4
    draw_stack(scene, scene.margin, top, times)
    return max(draw_stack(scene, x, top, lines), top + stack_height(times)) + scene.body.size * 0.4


def draw_rows(scene: Scene, y: float, rows: Sequence[tuple[Sequence[Line], Sequence[Line]]]) -> float:
    """Draw a list with its separators and return where it ends."""
    x, _ = text_column(scene, [line.text for times, _ in rows for line in times])
    for times, lines in rows:
        height = max(stack_height(times), stack_height(lines)) + scene.body.size * 0.8
        if scene.separator == "card":
            scene.page.rectangle((8, y, scene.page.width - 8, y + height), scene.theme.card, radius=14)
        if scene.separator == "bar":
            bar = x - scene.body.size * 0.7
            scene.page.rectangle((bar, y + 10, bar + 6, y + height - 10), scene.theme.accent)
        end = draw_row(scene, y, x, times, lines)
        if scene.separator == "line":
            scene.page.line(scene.margin, end, scene.page.width - scene.margin, end)
        y = end + scene.body.size * (0.25 if scene.separator != "space" else 0.6)
    return y + scene.margin


def draw_navigation(scene: Scene, y: float) -> float:
    """Draw the navigation bar at the foot and return where the page ends."""
    page, style = scene.page, Style(scene.dim.size, scene.theme.dim)
    height = style.size * 3.2
    page.rectangle((0, y, page.width, y + height), scene.theme.card)
    names = NAVIGATION[scene.language]
    for number, name in enumerate(names):
        center, size = page.width * (number + 0.5) / len(names), style.size
        page.pen.rounded_rectangle(
            [center - size * 0.5, y + size * 0.4, center + size * 0.5, y + size * 1.3],
            size * (0.15 + 0.1 * number),
            outline=scene.theme.accent if number == 0 else scene.theme.dim,
            width=4,
        )
        page.text(center - page.text_width(name, style) / 2, y + size * 1.45, name, style)
    return y + height
