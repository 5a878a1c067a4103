"""Write times of day on 24-hour and 12-hour clocks."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

EN_DASH = "\N{EN DASH}"
Span = tuple[int, int]  # start and end in minutes after midnight
LENGTHS = (30, 45, 45, 60, 60, 75, 90, 90, 120, 150)
GAPS = (0, 0, 15, 15, 30, 45, 60)
LATEST_END = 22 * 60


def hh_mm(minute: int) -> str:
    """Write a time as HH:MM."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


@dataclass(frozen=True)
class Clock:
    """A way to write a time of day and a span on a 24-hour clock."""

    point: str
    dash: str
    is_padded: bool
    prefix: str = ""
    suffix: str = ""

    def time(self, minute: int) -> str:
        """Write a time."""
        hour = f"{minute // 60:02d}" if self.is_padded else f"{minute // 60}"
        return f"{hour}{self.point}{minute % 60:02d}"

    def span(self, span: Span) -> str:
        """Write a span."""
        return f"{self.prefix}{self.time(span[0])}{self.dash}{self.time(span[1])}{self.suffix}"


def plain_clock(clock: Clock) -> Clock:
    """Return a clock without the words around its spans."""
    return replace(clock, prefix="", suffix="")


def pick_clock(rng: random.Random, language: str) -> Clock:
    """Pick the clock of a picture."""
    dash = rng.choice((EN_DASH, "-", " - ", f" {EN_DASH} "))
    if language == "fi":
        return Clock(".", dash, rng.random() < 0.5, prefix=rng.choice(("", "", "klo ")))
    if language == "de":
        return Clock(":", dash, True, suffix=rng.choice(("", "", " Uhr")))
    if language == "sv":
        return Clock(rng.choice(":::."), dash, rng.random() < 0.85, prefix=rng.choice(("", "", "", "", "", "kl. ")))
    return Clock(":", dash, True)


def random_spans(rng: random.Random, count: int, *, until_afternoon: bool) -> list[Span]:
    """Return the times of a day's shifts, one after the other; `until_afternoon`: the last ends at 13:00 or later."""
    while True:
        latest_start = 9 if count > 4 else 14
        minute, spans = rng.randrange(6 * 60 + 30, latest_start * 60, 15), list[Span]()
        for _ in range(count):
            start = minute + rng.choice(GAPS)
            minute = start + rng.choice(LENGTHS)
            spans.append((start, minute))
        if minute <= LATEST_END and (minute >= 13 * 60 or not until_afternoon):
            return spans


def half(minute: int) -> int:
    """Return 0 before noon, 1 from noon on."""
    return int(minute >= 12 * 60)


def twelve(minute: int) -> str:
    """Write a time on a 12-hour clock, without its half."""
    return f"{(minute // 60 - 1) % 12 + 1}:{minute % 60:02d}"


def both_marked(span: Span, marks: tuple[str, str], dash: str) -> str:
    """Write a span whose times are both marked."""
    start, end = (f"{twelve(minute)}{marks[half(minute)]}" for minute in span)
    return f"{start}{dash}{end}"


def end_marked(span: Span, marks: tuple[str, str], dash: str) -> str:
    """Write a span with one mark at its end where both times are in the same half, else with two."""
    if half(span[0]) != half(span[1]):
        return both_marked(span, marks, dash)
    return f"{twelve(span[0])}{dash}{twelve(span[1])}{marks[half(span[1])]}"


TWELVE_HOUR: tuple[tuple[str, Callable[[Span], str]], ...] = (  # language, how a span is written
    ("en", lambda span: both_marked(span, (" AM", " PM"), " - ")),
    ("en", lambda span: end_marked(span, (" am", " pm"), EN_DASH)),
    ("en", lambda span: end_marked(span, ("a", "p"), " - ")),
    ("sv", lambda span: end_marked(span, (" f.m.", " e.m."), EN_DASH)),
    ("sv", lambda span: both_marked(span, (" f.m.", " e.m."), f" {EN_DASH} ")),
)
