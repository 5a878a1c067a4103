"""Charts as SVG: the same bytes for the same figures, in light and dark, readable by screen readers.

`bars` compares, `percentiles` compares what the slow ones waited, `curves` shows what becomes of a figure as something
grows. Each has a title and a description for those who cannot see it, draws its own ground, and says every value in
words: nothing is shown by colour alone.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

LETTER = 7.0  # about as wide as a letter of this size is
TALL = 24  # a row
TOP = 52  # where the first row begins, below the title
MARGIN = 16
MAX_LENGTH = 320  # the longest bar
WIDE, HIGH = 470, 240  # the ground of curves
STEPS = 4  # between the lines of a scale
MARKS = ("circle", "square", "diamond", "triangle")
STYLE = """\
<style>
  svg { color: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
  text { fill: currentColor; }
  .ground { fill: #ffffff; }
  .title { font-size: 15px; font-weight: 600; }
  .group { font-weight: 600; }
  .quiet { fill: currentColor; opacity: 0.7; }
  .axis { stroke: currentColor; opacity: 0.25; fill: none; }
  .range { stroke: currentColor; opacity: 0.8; fill: none; }
  .needed { fill: currentColor; opacity: 0.08; }
  .ours { fill: #0969da; stroke: #0969da; }
  .other { fill: #9aa4af; stroke: #9aa4af; }
  .s0 { fill: #0969da; stroke: #0969da; }
  .s1 { fill: #bc4c00; stroke: #bc4c00; }
  .s2 { fill: #1a7f37; stroke: #1a7f37; }
  .s3 { fill: #8250df; stroke: #8250df; }
  .line { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; }
    .ground { fill: #0d1117; }
    .ours, .s0 { fill: #58a6ff; stroke: #58a6ff; }
    .other { fill: #6e7681; stroke: #6e7681; }
    .s1 { fill: #f0883e; stroke: #f0883e; }
    .s2 { fill: #3fb950; stroke: #3fb950; }
    .s3 { fill: #bc8cff; stroke: #bc8cff; }
    .line { fill: none; }
  }
</style>"""
DASHES = ("", "6 4", "2 3", "8 3 2 3")

Point = tuple[float, float]
Scale = Callable[[float], float]


@dataclass(frozen=True)
class Bar:
    """One bar: its label, value, note, and the range of its rounds."""

    label: str
    value: float
    note: str = ""
    group: str = ""  # rows of one group stand together under its name
    minimum: float | None = None
    maximum: float | None = None
    is_ours: bool = True

    def __post_init__(self) -> None:
        assert self.value >= 0, f"a bar of {self.value} cannot be drawn"

    @property
    def max_length(self) -> float:
        """Return how far it reaches, its range included."""
        return max(self.value, self.maximum or 0.0)


def bars(title: str, rows: Sequence[Bar], unit: str, *, is_one_scale: bool = False, foot: str = "") -> str:
    """Draw bars, every group on a scale of its own unless they share one, with a footer."""
    assert rows, "a picture of nothing"
    labels = MARGIN + LETTER * max(len(row.label) for row in rows) + 12
    output = [format_bar(row, unit) for row in rows]
    width = max(labels + MAX_LENGTH + 10 + LETTER * max(map(len, output)) + MARGIN, 2 * MARGIN + 9 * len(title))
    drawn: list[str] = []
    y = float(TOP)
    for group, members in groupby(rows, key=lambda row: row.group):
        together = list(members)
        scale = MAX_LENGTH / (max(row.max_length for row in (rows if is_one_scale else together)) or 1.0)
        if group:
            drawn.append(text_at(MARGIN, y + 16, group, "group"))
            y += TALL
        drawn.append(line_between(labels, y - 2, labels, y + TALL * len(together) - 4, "axis"))
        for row in together:
            drawn += one_bar(row, format_bar(row, unit), labels, y, scale)
            y += TALL
        y += 8
    several = len({row.group for row in rows}) > 1
    scales = " Every group has a scale of its own." if several and not is_one_scale else ""
    text = "; ".join(
        f"{row.group + ', ' if row.group else ''}{row.label}: {words}" for row, words in zip(rows, output, strict=True)
    )
    return picture(title, f"{text}.{scales}", width, y + 4, drawn, foot)


def percentiles(
    title: str, rows: Mapping[str, Mapping[str, float]], unit: str, *, ours: Collection[str] = (), foot: str = ""
) -> str:
    """Draw the percentiles of each variant on one scale; ours are highlighted."""
    names = list(dict.fromkeys(name for of_side in rows.values() for name in of_side))
    flat = [
        Bar(variant, of_side[name], group=name, is_ours=not ours or variant in ours)
        for name in names
        for variant, of_side in rows.items()
        if name in of_side
    ]
    return bars(title, flat, unit, is_one_scale=True, foot=foot)


def curves(
    title: str,
    series: Mapping[str, Sequence[Point]],
    x_label: str,
    y_label: str,
    *,
    needed: tuple[float, float] | None = None,
    foot: str = "",
) -> str:
    """Draw figures over a logarithmic size; a band shows the limits of the goal."""
    points = [point for line in series.values() for point in line]
    assert points, "a picture of nothing"
    assert all(x > 0 and y >= 0 for x, y in points), "a scale of tens begins above nothing"
    left, bottom = MARGIN + 64.0, TOP + 4.0 + HIGH
    low = math.floor(math.log10(min(x for x, _ in points)))
    high = max(low + 1, math.ceil(math.log10(max(x for x, _ in points))))
    highest = tidy(max([y for _, y in points] + ([needed[1]] if needed else [])))

    def x_of(x: float) -> float:
        return left + WIDE * (math.log10(x) - low) / (high - low)

    def y_of(y: float) -> float:
        return bottom - HIGH * y / highest

    drawn: list[str] = []
    if needed:
        drawn.append(box_at(left, y_of(needed[1]), WIDE, y_of(needed[0]) - y_of(needed[1]), "needed"))
    for step in range(STEPS + 1):
        value = highest * step / STEPS
        drawn.append(line_between(left, y_of(value), left + WIDE, y_of(value), "axis"))
        drawn.append(text_at(left - 8, y_of(value) + 4, human(value), "quiet", "end"))
    for x in (10.0**power for power in range(low, high + 1)):
        drawn.append(line_between(x_of(x), bottom, x_of(x), bottom + 5, "axis"))
        drawn.append(text_at(x_of(x), bottom + 19, human(x), "quiet", "middle"))
    drawn.append(text_at(left + WIDE / 2, bottom + 39, x_label, "quiet", "middle"))
    drawn.append(text_at(left, TOP - 8, y_label, "quiet"))
    y = bottom + 62
    for number, (name, line) in enumerate(series.items()):
        drawn += one_curve(number, name, sorted(line), x_of, y_of)
        drawn += legend(number, name, left, y)
        y += 20
    text = "; ".join(
        f"{name}: " + ", ".join(f"{human(y)} at {human(x)}" for x, y in line) for name, line in series.items()
    )
    band = f" Needed: {human(needed[0])} to {human(needed[1])}." if needed else ""
    width = max(left + WIDE + 40, left + 40 + LETTER * max(map(len, series)), 2 * MARGIN + 9 * len(title))
    return picture(title, f"{y_label} by {x_label}. {text}.{band}", width, y, drawn, foot)


# Pieces ---------------------------------------------------------------------------------------------------------------


def one_bar(row: Bar, words: str, x: float, y: float, scale: float) -> list[str]:
    """Draw a bar with its label, range and value."""
    middle = y + TALL / 2 - 3
    drawn = [text_at(x - 8, middle + 4, row.label, anchor="end")]
    drawn.append(box_at(x, y + 1, row.value * scale, TALL - 8, "ours" if row.is_ours else "other"))
    if row.minimum is not None and row.maximum is not None and row.minimum < row.maximum:
        drawn.append(line_between(x + row.minimum * scale, middle, x + row.maximum * scale, middle, "range"))
        ends = (x + row.minimum * scale, x + row.maximum * scale)
        drawn += [line_between(end, middle - 4, end, middle + 4, "range") for end in ends]
    drawn.append(text_at(x + row.max_length * scale + 8, middle + 4, words))
    return drawn


def one_curve(number: int, name: str, line: Sequence[Point], x_of: Scale, y_of: Scale) -> list[str]:
    """Draw a line through its points, each with a tooltip."""
    shade = f"s{number % len(MARKS)}"
    path = " ".join(f"{coord(x_of(x))},{coord(y_of(y))}" for x, y in line)
    dash = f' stroke-dasharray="{DASHES[number % len(DASHES)]}"' if DASHES[number % len(DASHES)] else ""
    drawn = [f'<polyline class="{shade} line" points="{path}"{dash}/>']
    for x, y in line:
        text = f"<title>{escape(name)}: {human(y)} at {human(x)}</title>"
        drawn.append(mark_at(number, x_of(x), y_of(y), text))
        drawn.append(text_at(x_of(x), y_of(y) - 9, human(y), "quiet", "middle"))
    return drawn


def legend(number: int, name: str, x: float, y: float) -> list[str]:
    """Draw the legend of a line."""
    return [mark_at(number, x + 6, y - 4, ""), text_at(x + 20, y, name)]


def mark_at(number: int, x: float, y: float, inside: str) -> str:
    """Draw a point of a line, in its own shape and colour."""
    shade = f"s{number % len(MARKS)}"
    match MARKS[number % len(MARKS)]:
        case "circle":
            return f'<circle class="{shade}" cx="{coord(x)}" cy="{coord(y)}" r="4">{inside}</circle>'
        case "square":
            corners = [(-4, -4), (4, -4), (4, 4), (-4, 4)]
        case "diamond":
            corners = [(0, -5), (5, 0), (0, 5), (-5, 0)]
        case _:
            corners = [(0, -5), (5, 4), (-5, 4)]
    points = " ".join(f"{coord(x + dx)},{coord(y + dy)}" for dx, dy in corners)
    return f'<polygon class="{shade}" points="{points}">{inside}</polygon>'


def picture(title: str, text: str, width: float, height: float, drawn: Iterable[str], foot: str) -> str:
    """Assemble the chart: title and description for screen readers first, footer last."""
    w, h = math.ceil(max(width, 2 * MARGIN + LETTER * len(foot))), math.ceil(height + (TALL if foot else 0))
    below = [text_at(MARGIN, height + 12, foot, "quiet")] if foot else []
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" width="{w}" height="{h}" '
        f'viewBox="0 0 {w} {h}">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(" ".join(filter(None, (text, foot))))}</desc>',
        STYLE,
        f'<rect class="ground" width="{w}" height="{h}" rx="6"/>',
        text_at(MARGIN, 24, title, "title"),
        *drawn,
        *below,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def text_at(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    """Draw text."""
    of_kind = f' class="{kind}"' if kind else ""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{coord(x)}" y="{coord(y)}"{of_kind}{at}>{escape(words)}</text>'


def line_between(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    """Draw a straight line."""
    return f'<line class="{kind}" x1="{coord(x)}" y1="{coord(y)}" x2="{coord(to_x)}" y2="{coord(to_y)}"/>'


def box_at(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Draw a rectangle, never too thin to see."""
    size = f'width="{coord(max(width, 1.0))}" height="{coord(height)}"'
    return f'<rect class="{kind}" x="{coord(x)}" y="{coord(y)}" {size}/>'


# Words and numbers ----------------------------------------------------------------------------------------------------


def format_bar(row: Bar, unit: str) -> str:
    """Format a bar's value with its unit and note."""
    return f"{human(row.value)} {unit}".rstrip() + (f" ({row.note})" if row.note else "")


def human(value: float) -> str:
    """Format a number with its significant digits."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def coord(place: float) -> str:
    """Format a coordinate to a tenth."""
    return f"{place:.1f}".removesuffix(".0")


def tidy(value: float) -> float:
    """Return the end of a scale: a round number not below this one, whose quarters are short."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 6.0, 8.0, 10.0) if value <= step * power)
