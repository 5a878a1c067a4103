"""A card: what the lines of a shift say, as far as their place on the page tells.

Three things are told by the page as a whole: whether icons stand before its lines, on which side of a bullet the
customer stands, and how a place looks beside a customer.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.labels import find_label
from duly.apps.ingest.ocr.chips import ICON
from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.parts import Block, Parts
from duly.apps.ingest.ocr.spelling import SHAPED_ALIKE, bare, word_set
from duly.apps.ingest.ocr.titles import Titles, titles_of

__all__ = [
    "PIN",
    "Card",
    "Conventions",
    "card_of",
    "conventions_of",
    "lacks_bullet",
    "may_be_icon",
    "name_of",
    "proper",
]

PIN = 0.5  # of a line's height: a line that stands further right than its title has an icon before it
STRAY = re.compile(
    r"^(?:[QO©®@GCeèéê&?♀¢]{1,2}|[09])[\s)\]|°•·]+(?=[A-ZÅÄÖ\d])"
)  # an icon, read as a letter or a digit
# No place begins with such a letter alone, and none with a digit that has one word, or another number, after it.
PLACE_STRAY = re.compile(r"^(?:[QO©®@GCeèéê&?♀¢]{1,2}[\s)\]|°•·]+(?=[A-ZÅÄÖ])|[90]\s+(?=[A-ZÅÄÖ](?:[^\W\d_]+$|\D+\d)))")
BEFORE_NUMBER = re.compile(r"^[\dQO©®@°]\s(?=\d{1,4}[A-Za-z]?\s)")  # an icon before a number: an address has one
NUMBERED = re.compile(r"^\d [A-Z][\w' ]* (?:Road|Lane|Street|Close|Avenue|Way|Drive|Court|Place|Square|Hill|Park)\b")
GLUED = re.compile(r"^[\dQO©®@°](?=[A-ZÅÄÖÜ][a-zåäöéü])")  # one that touches the text
LARGE_I = re.compile(r"\bl(?=[bcdfghjkmnpqrstvwxz][a-zåäöé])")  # no word begins so: it is an I, which looks like l
BULLET = re.compile(r"(?<=\w|[.)])\s*[•·∙●]\s*(?=\w)")
STREET = re.compile(
    r"[^\W\d_]{3,}\.?\s+\d{1,4}\s?[A-Za-z]?\b|[^\W\d_]{5,}\d{1,4}[A-Za-z]?\b|(?<!\d)\d{3}\s?\d{2}(?!\d)"
    r"|^\d{1,4}[A-Za-z]?\s+[^\W\d_]{3,}"
)
USUAL_ROWS = 3  # title, customer, place
NEARER = 0.08  # of the contrast of a title: so much nearer to one of two looks a line must be
TASKS = word_set("""
    aamiainen besok besprechung besuch breakfast buroreinigung care cleaning cooking dinner dusch einkauf
    fensterputzen fruhstuck frukost grundpflege hausbesuch hemtjanst ikkunanpesu inkop kavely kaynti kokous kotihoito
    koulutus laakkeet laundry lounas matlagning medication medicin middag mittagessen mittagspause pause pflege
    promenad pyykki reinigung ruokailu schulung service shopping siivous spaziergang stadning suihku suursiivous tauko
    tillsyn visit walk wasche
""")


@dataclass(frozen=True, slots=True)
class Card:
    """A shift as a card shows it; empty where it shows nothing."""

    start: str
    end: str
    title: str
    customer: str
    location: str
    address: str
    confidence: float  # of the letter that the engine is least sure of


@dataclass(frozen=True, slots=True)
class Conventions:
    """How a page shows its shifts."""

    titles: Titles
    has_icons: bool  # before its lines
    is_customer_first: bool  # of a bullet
    customer_contrast: float | None  # as lines look that certainly are customers, beside their titles
    place_contrast: float | None

    def rows_of(self, block: Block) -> tuple[Line, ...]:
        """Return the rows of a block, without icons, and with a title of several lines as one."""
        rows = with_title_joined(block.rows, self.titles.rows_of_title(block))
        if not rows:
            return ()
        title = replace(rows[0], text=without_digit_of_times(rows[0], block.line))
        more = [replace(row, text=without_icon(row, rows[0], self.has_icons)) for row in rows[1:]]
        if len(more) > 1:
            more[1] = replace(more[1], text=PLACE_STRAY.sub("", more[1].text))
        return title, *more

    def is_place(self, line: Line, title: Line) -> bool | None:
        """Check whether the only row after a title is its place; None where that cannot be told."""
        if STREET.search(line.text):
            return True
        if self.customer_contrast is None or self.place_contrast is None:  # no row tells how customers look
            return line.left - title.left > PIN * line.height
        contrast = contrast_beside(line, title)
        if contrast is None:
            return None
        as_customer, as_place = (abs(contrast - each) for each in (self.customer_contrast, self.place_contrast))
        return as_place < as_customer if abs(as_place - as_customer) > NEARER else None


def conventions_of(parts: Parts) -> Conventions:
    """Look at all blocks of a page."""
    titles = titles_of(parts)
    blocks = [(with_title_joined(block.rows, titles.rows_of_title(block)), block) for block in parts.blocks]
    indents = [row.left - rows[0].left > PIN * row.height for rows, _ in blocks for row in rows[1:USUAL_ROWS]]
    icons = [bool(ICON.match(row.text) or GLUED.match(row.text)) for rows, _ in blocks for row in rows[1:USUAL_ROWS]]
    strays = [bool(STRAY.match(row.text)) for rows, _ in blocks for row in rows[-1:] if len(rows) > 1]
    whole = [rows for rows, _ in blocks if len(rows) == USUAL_ROWS]
    return Conventions(
        titles,
        has_icons=any(indents) or any(icons) or (len(strays) > 1 and all(strays)),
        is_customer_first=is_customer_first([rows[0].text for rows, _ in blocks if rows]),
        customer_contrast=contrast_of([(rows[1], rows[0]) for rows in whole]),
        place_contrast=contrast_of([(rows[2], rows[0]) for rows in whole]),
    )


def contrast_of(lines: Sequence[tuple[Line, Line]]) -> float | None:
    """Return the usual contrast of some lines beside their titles."""
    found = [contrast for line, title in lines if (contrast := contrast_beside(line, title)) is not None]
    return statistics.median(found) if found else None


def contrast_beside(line: Line, title: Line) -> float | None:
    """Return the contrast of a line as a part of its title's, which light on the page changes alike."""
    return line.ink.contrast / title.ink.contrast if line.ink and title.ink and title.ink.contrast else None


def card_of(block: Block, page: Conventions) -> Card:
    """The shift of a block, whose rows say by their order what they are."""
    title, *rest = page.rows_of(block)
    address = next((line for line in rest[1:] if STREET.search(line.text)), None) if len(rest) > 2 else None
    if len(rest) == 1 and page.is_place(rest[0], title):
        customer, location = None, rest[0]
    else:
        customer, location = (rest[0] if rest else None), (rest[1] if len(rest) > 1 else None)
    parts = [line for line in (block.line, title, customer, location) if line]
    who, what = parted(title.text, page.is_customer_first) if customer is None else ("", title.text)
    return Card(
        start=block.times.start,
        end=block.times.end,
        title=name_of(what),
        customer=proper(customer.text if customer else who),
        location=proper(location.text) if location else "",
        address=name_of(address.text) if address and address is not location else "",
        confidence=round(min(line.weakest for line in parts), 3),
    )


def with_title_joined(rows: Sequence[Line], count: int) -> list[Line]:
    """The rows with the first so many, which are a title of several lines, in one."""
    if count < 2:
        return list(rows)
    first, rest = rows[:count], rows[count:]
    whole = replace(
        first[0],
        text=" ".join(line.text for line in first),
        confidence=min(line.confidence for line in first),
        weakest=min(line.weakest for line in first),
        is_at_edge=any(line.is_at_edge for line in first),
    )
    return [whole, *rest]


# Customer and title in one row ----------------------------------------------------------------------------------------


def parted(title: str, is_customer_first: bool) -> tuple[str, str]:
    """Customer and title of a row that has both, with a bullet between them."""
    first, bullet, second = BULLET.sub("\n", title.strip(), count=1).partition("\n")
    first, second = GLUED.sub("", first), GLUED.sub("", second)
    if not bullet or not second or BULLET.search(second):
        return "", title
    return (first, second) if is_customer_first else (second, first)


def lacks_bullet(titles: Sequence[str]) -> list[str]:
    """Return the titles without a bullet on a page where most others have one."""
    lacking = [title for title in titles if not BULLET.search(title)]
    return lacking if 0 < len(lacking) < len(titles) / 2 else []


def is_customer_first(titles: Sequence[str]) -> bool:
    """Check on which side of a bullet the customers of a page stand; as a rule on the left."""
    pairs = [pair for title in titles if all(pair := parted(title, is_customer_first=True))]
    return sum(task_votes(second) - task_votes(first) for first, second in pairs) >= 0


def task_votes(text: str) -> int:
    """Return how much speaks for a task, and against a name."""
    words = text.replace("(", " ").replace(",", " ").split()
    is_task = bool(words) and (bare(words[0]) in TASKS or find_label(tuple(words)) is not None)
    return 2 * is_task + any(not word.isalpha() for word in text.split())


# Icons ----------------------------------------------------------------------------------------------------------------


def without_icon(line: Line, title: Line, has_icons: bool) -> str:
    """The text of a line without the icon before it, which was read as a letter or a digit.

    A line that begins right of its title was read without its icon, and a page without icons has none.
    """
    text = BEFORE_NUMBER.sub("", GLUED.sub("", ICON.sub("", line.text)))
    is_without = line.left - title.left > PIN * line.height
    return STRAY.sub("", text) if has_icons and not is_without else text


def without_digit_of_times(title: Line, times: Line) -> str:
    """The text of a title without the last digit of the times beside it, which its part of the picture had, too."""
    is_beside = abs(title.middle - times.middle) < title.height / 2 and title.left < times.right
    is_repeated = title.text[:1].isdigit() and title.text[:1] == times.text.rstrip()[-1:]
    return title.text[1:].lstrip() if is_beside and is_repeated else title.text


def may_be_icon(line: Line, title: Line, has_icons: bool) -> bool:
    """Check whether a digit before a street is its number or an icon, and nothing tells."""
    is_without = line.left - title.left > PIN * line.height
    return has_icons and not is_without and bool(STRAY.match(line.text) and NUMBERED.match(line.text))


def proper(text: str) -> str:
    """What a row with the name of a person or a place says: its words begin with capitals."""
    return LARGE_I.sub("I", name_of(text))


def name_of(text: str) -> str:
    """What a row says, without an icon before it, and with the capital that only looks like a larger small letter."""
    name = ICON.sub("", text).strip()
    return name[:1].upper() + name[1:] if name[:1] in SHAPED_ALIKE else name
