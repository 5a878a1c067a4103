"""Cards: the rows of a block as title, customer, place and address of a shift."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from duly.ingest.eyes.chips import ICON
from duly.ingest.eyes.lines import Line
from duly.ingest.eyes.parts import Block
from duly.ingest.eyes.spelling import SHAPED_ALIKE

__all__ = ["PIN", "Card", "card_of"]

WRAPPED = 0.8  # of its column's width: a title that long may go on in the next row
ALIKE = 0.12  # heights of the rows of one title
PIN = 0.5  # of a line's height: a place that stands further right than its title has a pin before it
STRAY = re.compile(r"^(?:[QO0©®@9GCe&]{1,2}[\s)\]|°•·]+|[QO0G](?=[A-ZÅÄÖ][a-zåäöé]))(?=[A-ZÅÄÖ])")
STREET = re.compile(r"[^\W\d_]{3,}\s+\d{1,4}\s?[A-Za-z]?\b|\b\d{3}\s?\d{2}\b")


@dataclass(frozen=True, slots=True)
class Card:
    """One shift as it was seen."""

    start: str
    end: str
    title: str
    customer: str
    location: str
    address: str
    confidence: float


def card_of(block: Block, right: float) -> Card:
    """The shift of a block, whose rows say by their order what they are."""
    title, *rest = unwrapped(block.rows, right)
    address = next((line for line in rest[1:] if STREET.search(line.text)), None) if len(rest) > 2 else None
    if len(rest) == 1 and is_place(rest[0], title):
        customer, location = None, rest[0]
    else:
        customer, location = (rest[0] if rest else None), (rest[1] if len(rest) > 1 else None)
    parts = [line for line in (block.line, title, customer, location) if line]
    return Card(
        start=block.times.start,
        end=block.times.end,
        title=name_of(title.text),
        customer=name_of(customer.text) if customer else "",
        location=place_of(location.text) if location else "",
        address=place_of(address.text) if address and address is not location else "",
        confidence=round(min(line.confidence for line in parts), 3),
    )


def unwrapped(rows: Sequence[Line], right: float) -> list[Line]:
    """The rows with a title that goes on in the next one in one."""
    if len(rows) < 4 or any(STREET.search(row.text) for row in rows[2:]):
        return list(rows)
    title, more, *rest = rows
    is_long = title.right > title.left + WRAPPED * (right - title.left)
    if not is_long or abs(title.height - more.height) > ALIKE * title.height:
        return list(rows)
    whole = Line(
        f"{title.text} {more.text}", title.left, title.right, title.middle, title.height,
        min(title.confidence, more.confidence),
    )  # fmt: skip
    return [whole, *rest]


def is_place(line: Line, title: Line) -> bool:
    """Is the only row after a title its place, by the pin before it or by its number?"""
    return line.left - title.left > PIN * line.height or bool(ICON.match(line.text)) or bool(STREET.search(line.text))


def place_of(text: str) -> str:
    """A place without the pin before it."""
    return name_of(STRAY.sub("", ICON.sub("", text)))


def name_of(text: str) -> str:
    """What a row says, without an icon before it, and with the capital that only looks like a larger small letter."""
    name = ICON.sub("", text).strip()
    return name[:1].upper() + name[1:] if name[:1] in SHAPED_ALIKE else name
