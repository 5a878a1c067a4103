"""A page to draw on: it refuses text that leaves the page or touches other text."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tools.schedule_images.fonts import Font

MAX_HEIGHT = 5200
EDGE = 4  # pixels that stay free of text
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Theme:
    """The colours of a page."""

    ground: str
    card: str
    ink: str
    dim: str
    accent: str
    line: str


LIGHT = (
    Theme("#f4f6f8", "#ffffff", "#111111", "#5f6368", "#1565c0", "#c9d1d9"),
    Theme("#ffffff", "#f3f3f3", "#222222", "#666666", "#41617f", "#bbbbbb"),
    Theme("#e9f3e4", "#f8fcf5", "#1b3314", "#4c6542", "#1d6b2a", "#b4cca8"),
    Theme("#fff7ee", "#ffffff", "#332211", "#75614d", "#b23c0b", "#dcc9b4"),
    Theme("#eceff1", "#fafafa", "#263238", "#546e7a", "#00695c", "#b0bec5"),
)
DARK = (
    Theme("#101418", "#1c2229", "#f2f2f2", "#a9b0b7", "#6cb2ff", "#37414b"),
    Theme("#000000", "#161616", "#eeeeee", "#a0a0a0", "#80cbc4", "#3a3a3a"),
    Theme("#1b1a2b", "#272640", "#f5f3ff", "#b0abc9", "#f2b84b", "#45436a"),
)


@dataclass(frozen=True)
class Style:
    """How a line of text is drawn."""

    size: int
    color: str
    is_bold: bool = False

    @property
    def line_height(self) -> int:
        """The height of a line, with its leading."""
        return round(self.size * 1.45)


@cache
def load_font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    """Load a font file; the basic layout engine draws the same everywhere."""
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


class Page:
    """An image that grows downwards as it is drawn on."""

    def __init__(self, font: Font, width: int, theme: Theme) -> None:
        self.font = font
        self.width = width
        self.theme = theme
        self.image = Image.new("RGB", (width, MAX_HEIGHT), theme.ground)
        self.pen = ImageDraw.Draw(self.image)
        self.boxes: list[tuple[str, Box]] = []  # every text that was drawn
        self.smallest_text = 1000

    def load(self, style: Style) -> ImageFont.FreeTypeFont:
        """Return the font of a style."""
        return load_font(self.font.bold if style.is_bold else self.font.regular, style.size)

    def text_width(self, text: str, style: Style) -> float:
        """Return how wide a text is."""
        return self.load(style).getlength(text)

    def text(self, x: float, y: float, text: str, style: Style) -> float:
        """Draw a line whose top left is here and return its right edge."""
        font, baseline = self.load(style), (round(x), round(y + style.size * 1.06))
        box = self.pen.textbbox(baseline, text, font=font, anchor="ls")
        assert EDGE <= box[0] < box[2] <= self.width - EDGE, f"{text!r} leaves the page"
        assert box[3] < MAX_HEIGHT, f"{text!r} is below the page"
        assert not any(overlap(box, other) for _, other in self.boxes), f"{text!r} is drawn over other text"
        self.boxes.append((text, box))
        self.smallest_text = min(self.smallest_text, style.size)
        self.pen.text(baseline, text, font=font, fill=style.color, anchor="ls")
        return x + font.getlength(text)

    def strike(self, x: float, y: float, right: float, style: Style) -> None:
        """Strike through a line of text."""
        middle = round(y + style.size * 0.72)
        self.pen.line([x - 3, middle, right + 3, middle], fill=style.color, width=max(2, style.size // 11))

    def rectangle(self, box: Box, fill: str, *, radius: float = 0) -> None:
        """Draw a filled rectangle."""
        self.pen.rounded_rectangle(box, radius, fill=fill)

    def line(self, x: float, y: float, right: float, bottom: float, width: int = 2) -> None:
        """Draw a separating line."""
        self.pen.line([x, y, right, bottom], fill=self.theme.line, width=width)

    def pin(self, x: float, y: float, size: float, color: str) -> None:
        """Draw the pin that marks a location."""
        center, top, radius = x + size * 0.3, y + size * 0.28, size * 0.27
        self.pen.polygon(
            [(center - radius, top + radius * 1.2), (center + radius, top + radius * 1.2), (center, y + size * 1.12)],
            fill=color,
        )
        self.pen.ellipse([center - radius, top, center + radius, top + 2 * radius], fill=color)
        hole = radius * 0.4
        self.pen.ellipse(
            [center - hole, top + radius - hole, center + hole, top + radius + hole], fill=self.theme.ground
        )

    def person(self, x: float, y: float, size: float, color: str) -> None:
        """Draw the bust that marks a customer."""
        center, head = x + size * 0.3, size * 0.17
        self.pen.ellipse([center - head, y + size * 0.27, center + head, y + size * 0.27 + 2 * head], fill=color)
        self.pen.pieslice(
            [center - size * 0.3, y + size * 0.66, center + size * 0.3, y + size * 1.36], 180, 360, fill=color
        )

    def finish(self, height: float) -> Image.Image:
        """Return the image, cut below everything that was drawn."""
        bottom = max(height, *(box[3] + EDGE for _, box in self.boxes))
        return self.image.crop((0, 0, self.width, round(bottom)))


def overlap(one: Box, other: Box) -> bool:
    """Do two boxes share a point?"""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
