"""Draw screens of a day's schedule as phones show them, and degrade them: reproducible by seed, with the ground truth.

Three layouts, several themes and whatever fonts this machine has; then compression, scaling, noise, blur, rotation,
perspective. Seeds below REPORT_FROM use one vocabulary, the others another, so that what was developed on one is
reported on the other.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from statistics import NormalDist

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from duly.errors import Misconfigured
from tests.support.ocr.vocabulary import DEVELOPMENT, REPORT

REPORT_FROM = 1000
FONT_PLACES = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".fonts")
FAMILIES = (
    ("Roboto-Regular.ttf", "Roboto-Bold.ttf"), ("Roboto-Light.ttf", "Roboto-Medium.ttf"),
    ("NotoSans-Regular.ttf", "NotoSans-Bold.ttf"), ("NotoSerif-Regular.ttf", "NotoSerif-Bold.ttf"),
    ("Inter-Regular.otf", "Inter-Bold.otf"), ("Inter-Regular.ttf", "Inter-Bold.ttf"),
    ("Lato-Regular.ttf", "Lato-Bold.ttf"), ("Lato-Medium.ttf", "Lato-Black.ttf"),
    ("OpenSans-Regular.ttf", "OpenSans-Semibold.ttf"), ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"),
    ("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf"),
)  # fmt: skip
THEMES = (  # page, card, text, dim text, accent
    ("#f4f6f8", "#ffffff", "#111111", "#666666", "#1565c0"), ("#101418", "#1c2229", "#f2f2f2", "#9aa0a6", "#6cb2ff"),
    ("#e9f3e4", "#dcefcf", "#1b3314", "#56704c", "#1d6b2a"), ("#ffffff", "#f7f7f7", "#222222", "#777777", "#5b7a99"),
    ("#fff7ee", "#ffffff", "#332211", "#86715c", "#c2410c"), ("#000000", "#121212", "#eeeeee", "#8c8c8c", "#80cbc4"),
    ("#eceff1", "#eceff1", "#37474f", "#78909c", "#546e7a"),
)  # fmt: skip
SWEDISH = (
    ("Måndag", "Tisdag", "Onsdag", "Torsdag", "Fredag", "Lördag", "Söndag"),
    ("januari", "februari", "mars", "april", "maj", "juni", "juli", "augusti", "september", "oktober", "november",
     "december"),
)  # fmt: skip
ENGLISH = (
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
     "December"),
)  # fmt: skip
HEADS = ("Mitt schema", "Schema", "Min dag", "Dagens pass", "My schedule")
FIRST, BAR = 290, 150  # where the first shift begins, and how high the bar at the bottom is
FEET = ("Schema", "Kalender", "Chatt", "Profil")
Shown = tuple[str, str, str, str, str]  # start, end, title, customer, place


@dataclass(frozen=True)
class Truth:
    """What a screen shows."""

    date_line: str
    schedule_date: str
    shifts: tuple[Shown, ...]
    about: str


@dataclass(frozen=True)
class Screen:
    """A screen as a file, and what it shows."""

    data: bytes
    kind: str
    truth: Truth


@cache
def fonts() -> tuple[tuple[Path, Path], ...]:
    """Return the installed font families, regular and bold; raise Misconfigured if there is none."""
    font_files = {path.name: path for place in FONT_PLACES if place.is_dir() for path in sorted(place.rglob("*.?tf"))}
    found = tuple(
        (font_files[plain], font_files[bold]) for plain, bold in FAMILIES if {plain, bold} <= font_files.keys()
    )
    if not found:
        raise Misconfigured(
            f"screens are drawn with fonts, and of {', '.join(plain for plain, _ in FAMILIES)} none is in "
            f"{', '.join(map(str, FONT_PLACES))}; install one (Debian: apt install fonts-roboto-unhinted "
            "fonts-dejavu-core), or read screens that are drawn already with --images"
        )
    return found


def draw(seed: int, *, is_hard: bool = False, layout: str | None = None) -> Screen:
    """Draw the screen of a seed."""
    rolls = random.Random(f"screen {seed} {is_hard}")  # noqa: S311
    page = Drawing(rolls, layout or rolls.choice(("list", "cards", "grid")), seed)
    page.draw()
    spoil = HARD if is_hard else SOFT
    about, data, kind = spoil[seed % len(spoil)](page.image, rolls)
    return Screen(data, kind, Truth(page.date_line, page.day.isoformat(), tuple(page.shown), f"{page.about}, {about}"))


def draw_day(day: date, shifts: Sequence[Shown], layout: str, *, seed: int = 0, width: int = 540) -> bytes:
    """Draw a small screen of this day and these shifts, as a JPEG."""
    page = Drawing(random.Random(f"day {seed}"), layout, seed, day, shifts)  # noqa: S311
    page.draw()
    small = page.image.resize((width, round(page.height * width / page.width)), Image.Resampling.LANCZOS)
    return jpeg(small, 80)


def draw_days(days: Sequence[tuple[date, Sequence[Shown]]], *, width: int = 720) -> bytes:
    """Draw a list of several days, each with its header, and space below the last, as a JPEG."""
    plain, bold = (ImageFont.truetype(str(path), 28) for path in fonts()[0])
    rows = sum(1 + len(shifts) for _, shifts in days)
    image = Image.new("RGB", (width, 120 + 150 * (rows + 2)), "#ffffff")
    pen, y = ImageDraw.Draw(image), 120
    pen.text((40, 40), "Mitt schema", font=bold, fill="#111111")
    for day, shifts in days:
        header = f"{SWEDISH[0][day.weekday()]} {day.day} {SWEDISH[1][day.month - 1]} {day.year}"
        pen.text((40, y + 20), header, font=bold, fill="#111111")
        y += 80
        for start, end, *rows_of_shift in shifts:
            pen.text((40, y), f"{start} - {end}", font=plain, fill="#1565c0")
            for nth, words in enumerate(rows_of_shift):
                pen.text((280, y + 42 * nth), words, font=plain, fill="#222222")
            y += 170
    return jpeg(image, 60)


class Drawing:
    """A screen that is being drawn."""

    def __init__(
        self,
        rolls: random.Random,
        layout: str,
        seed: int,
        day: date | None = None,
        given: Sequence[Shown] | None = None,
    ) -> None:
        self.given = given
        self.rolls = rolls
        self.layout = layout
        self.words = REPORT if seed >= REPORT_FROM else DEVELOPMENT
        self.width, self.height = rolls.choice(((1080, 2400), (1170, 2532), (1080, 2340)))
        self.unit = self.width / 1080
        family = rolls.choice(fonts())
        self.plain, self.bold = (str(path) for path in family)
        self.ground, self.paper, self.ink, self.dim, self.accent = rolls.choice(THEMES)
        self.dash = rolls.choice(("–", "-", " - ", " – "))  # noqa: RUF001
        self.point = rolls.choice((":", ":", ":", ":", "."))
        self.has_pins = rolls.random() < 0.5
        self.day = day or date(2026, 1, 1) + timedelta(days=rolls.randrange(365))
        self.date_line = self.day_in_words()
        self.about = f"{layout}, {Path(self.plain).stem}"
        self.image = Image.new("RGB", (self.width, self.height), self.ground)
        self.pen = ImageDraw.Draw(self.image)
        self.shown: list[Shown] = []

    def day_in_words(self) -> str:
        """Return the date line of the header."""
        weekday, day, year = self.rolls.randrange(7), self.day.day, self.day.year
        swedish, english = SWEDISH[1][self.day.month - 1], ENGLISH[1][self.day.month - 1]
        name, english_name = SWEDISH[0][weekday], ENGLISH[0][weekday]
        return self.rolls.choice(
            (
                f"{name} {day} {swedish} {year}", f"{name} {day} {swedish} {year}", f"{name} {day} {swedish} {year}",
                f"Idag, {name.lower()} {day} {swedish}", f"{english_name}, {english} {day}, {year}",
                f"{english_name} {day} {english} {year}", f"{name[:3]} {day} {swedish[:3]} {year}",
                f"{day} {swedish} {year}",
            )
        )  # fmt: skip

    def write(self, x: float, y: float, text: str, size: float, *, bold: bool = False, ink: str = "") -> None:
        """Draw a text."""
        font = ImageFont.truetype(self.bold if bold else self.plain, round(size * self.unit))
        self.pen.text((x * self.unit, y * self.unit), text, font=font, fill=ink or self.ink)

    def pin(self, x: float, y: float, size: float) -> None:
        """Draw the icon before a location or a time."""
        box = [(x) * self.unit, (y + 4) * self.unit, (x + size) * self.unit, (y + 4 + size) * self.unit]
        self.pen.ellipse(box, outline=self.dim, width=3)
        middle, third = (box[0] + box[2]) / 2, size * self.unit / 6
        down = (box[1] + box[3]) / 2
        self.pen.ellipse([middle - third, down - third, middle + third, down + third], fill=self.dim)

    def draw(self) -> None:
        """Draw the full screen."""
        bottom = self.height / self.unit
        self.write(44, 18, f"{self.rolls.randrange(24):02}:{self.rolls.randrange(60):02}", 34)
        self.write(44, 104, self.rolls.choice(HEADS), 58, bold=True)
        self.write(46, 188, self.date_line, 40, ink=self.dim)
        {"list": self.draw_list, "cards": self.draw_cards, "grid": self.draw_grid}[self.layout]()
        self.pen.rectangle([0, (bottom - BAR) * self.unit, self.width, self.height], fill=self.paper)
        for nth, word in enumerate(FEET):
            self.write(75 + nth * 268, bottom - 92, word, 30, ink=self.dim)

    def shifts(self, limit: int) -> Iterator[tuple[str, Shown]]:
        """Yield the shifts of the day, each with its times as printed."""
        if self.given is not None:
            for shown in self.given:
                self.shown.append(shown)
                yield f"{shown[0]}{self.dash}{shown[1]}".replace(":", self.point), shown
            return
        minute = self.rolls.choice((360, 390, 420, 450, 480))
        for _ in range(self.rolls.randint(max(2, limit - 3), limit)):
            length = self.rolls.choice((30, 45, 60, 90, 105, 120, 180))
            if minute + length >= 24 * 60:
                return
            start, end = (f"{at // 60:02}:{at % 60:02}" for at in (minute, minute + length))
            minute += length + self.rolls.choice((0, 10, 15, 30, 45))
            title, customer, place = map(
                self.rolls.choice, (self.words.titles, self.words.customers, self.words.places)
            )
            shown = (start, end, title, customer, place)
            self.shown.append(shown)
            yield f"{start}{self.dash}{end}".replace(":", self.point), shown

    def above_the_bar(self, shifts: Iterator[tuple[str, Shown]], pitch: int, deep: int) -> Iterator[tuple[str, Shown]]:
        """Return the shifts that the navigation bar does not hide: only visible ones are expected."""
        room = self.height / self.unit - BAR - FIRST - deep
        return islice(shifts, int(room // pitch) + 1)

    def place(self, x: float, y: float, words: str, size: float) -> None:
        """Draw a location, with an icon if the screen has icons."""
        if self.has_pins:
            self.pin(x + 2, y, size * 0.85)
            x += size * 1.35
        self.write(x, y, words, size, ink=self.dim)

    def draw_list(self) -> None:
        """Draw times on the left, the rest on the right."""
        pitch = self.rolls.choice((232, 240, 250))
        for nth, (times, (_, _, title, customer, place)) in enumerate(self.above_the_bar(self.shifts(8), pitch, 186)):
            y = FIRST + nth * pitch
            self.pen.rectangle([0, y * self.unit, self.width, (y + pitch - 8) * self.unit], fill=self.paper)
            self.pen.rectangle(
                [372 * self.unit, (y + 18) * self.unit, 380 * self.unit, (y + pitch - 30) * self.unit], fill=self.accent
            )
            self.write(46, y + 22, times, 38, bold=self.rolls.random() < 0.5, ink=self.accent)
            self.write(404, y + 20, title, 40, bold=True)
            self.write(404, y + 84, customer, 38)
            self.place(404, y + 148, place, 36)

    def draw_cards(self) -> None:
        """Draw cards below each other."""
        pitch = self.rolls.choice((316, 328, 340))
        for nth, (times, (_, _, title, customer, place)) in enumerate(self.above_the_bar(self.shifts(6), pitch, 260)):
            y = FIRST + nth * pitch
            box = [36 * self.unit, y * self.unit, self.width - 36 * self.unit, (y + pitch - 28) * self.unit]
            self.pen.rounded_rectangle(box, 24, fill=self.paper)
            x = 76.0
            if self.has_pins:
                self.pin(x, y + 20, 38)
                x += 54
            self.write(x, y + 20, times, 44, bold=self.rolls.random() < 0.4, ink=self.accent)
            self.write(76, y + 88, title, 48, bold=True)
            self.write(76, y + 160, customer, 40)
            self.write(76, y + 222, place, 36, ink=self.dim)

    def draw_grid(self) -> None:
        """Draw cards in two columns."""
        for nth, (times, (_, _, title, customer, place)) in enumerate(self.shifts(10)):
            x, y = 36 + (nth % 2) * 516, FIRST + (nth // 2) * 318
            box = [x * self.unit, y * self.unit, (x + 490) * self.unit, (y + 290) * self.unit]
            self.pen.rounded_rectangle(box, 20, fill=self.paper)
            self.write(x + 30, y + 22, times, 38, ink=self.accent)
            self.write(x + 30, y + 84, title, 36, bold=True)
            self.write(x + 30, y + 148, customer, 32)
            self.place(x + 30, y + 208, place, 31)


# Degrading ------------------------------------------------------------------------------------------------------------

Spoiled = tuple[str, bytes, str]


def jpeg(image: Image.Image, quality: int) -> bytes:
    """The image as a JPEG."""
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def crisp(image: Image.Image, rolls: random.Random) -> Spoiled:
    """As the telephone made it."""
    file = BytesIO()
    image.save(file, "PNG")
    return "crisp", file.getvalue(), "png"


def compressed(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Sent through a messenger."""
    quality = rolls.randint(22, 70)
    return f"quality {quality}", jpeg(image, quality), "jpg"


def scaled(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Made smaller."""
    scale = rolls.uniform(0.45, 0.75)
    small = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.LANCZOS)
    return f"scaled {scale:.2f}", jpeg(small, 70), "jpg"


def noisy(image: Image.Image, rolls: random.Random) -> Spoiled:
    """With grain."""
    strength = NormalDist(128, rolls.uniform(12, 26))
    grain = Image.frombytes("L", image.size, rolls.randbytes(image.width * image.height))
    noise = grain.point([round(strength.inv_cdf((light + 0.5) / 256)) for light in range(256)]).convert("RGB")
    return "noisy", jpeg(Image.blend(image, noise, 0.12), 60), "jpg"


def turned(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Held a little askew."""
    angle = rolls.choice((-1, 1)) * rolls.uniform(1.0, 4.0)
    return f"turned {angle:.1f}", jpeg(rotated(image, angle), 75), "jpg"


def very_turned(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Held quite askew."""
    angle = rolls.choice((-1, 1)) * rolls.uniform(5.0, 7.0)
    return f"turned {angle:.1f}", jpeg(rotated(image, angle), 75), "jpg"


def rotated(image: Image.Image, angle: float) -> Image.Image:
    """The image on a larger sheet, turned."""
    return image.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=image.getpixel((3, image.height // 2)))  # type: ignore[arg-type]


def from_the_side(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Photographed from the side, in uneven light."""
    width, height = image.size
    near, far = rolls.uniform(0.02, 0.05), rolls.uniform(0.05, 0.08)
    corners = (
        -near * width,
        -far * height,
        -near * width,
        height * (1 + near),
        width * (1 + far),
        height * (1 + far),
        width * (1 + near),
        -near * height,
    )
    seen = image.transform(image.size, Image.Transform.QUAD, corners, Image.Resampling.BICUBIC, fillcolor="#3a332e")
    shade = Image.linear_gradient("L").resize(image.size).point([255 - light // 3 for light in range(256)])
    return "from the side", jpeg(Image.composite(seen, Image.new("RGB", image.size, "#222222"), shade), 70), "jpg"


def tiny(image: Image.Image, rolls: random.Random) -> Spoiled:
    """As wide as a stamp."""
    width = rolls.randint(388, 420)
    small = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    return f"{width} wide", jpeg(small, 85), "jpg"


def crushed(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Compressed until it hurts."""
    quality = rolls.randint(10, 14)
    return f"quality {quality}", jpeg(image, quality), "jpg"


def blurred(image: Image.Image, rolls: random.Random) -> Spoiled:
    """Out of focus."""
    radius = rolls.uniform(1.6, 2.3)
    return f"blurred {radius:.1f}", jpeg(image.filter(ImageFilter.GaussianBlur(radius)), 75), "jpg"


SOFT = (crisp, compressed, scaled, noisy, turned, compressed, crisp)
HARD = (from_the_side, tiny, crushed, blurred, very_turned)
