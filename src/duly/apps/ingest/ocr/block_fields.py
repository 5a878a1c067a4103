"""Assign the rows of a block to the fields of a shift: title, customer, location, address.

Three conventions are detected from the page as a whole: whether icons precede its rows, on which side of a bullet the
customer is, and how the contrast of a location differs from a customer's.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.labels import find_label
from duly.apps.ingest.ocr.letters import SAME_SHAPE_CAPITALS, fold, split_words
from duly.apps.ingest.ocr.lines import Line, join_rows
from duly.apps.ingest.ocr.segmentation import Block, PageSegments
from duly.apps.ingest.ocr.titles import TitleAnalysis, analyse_titles
from duly.apps.ingest.ocr.ui_text import LEADING_ICON

MIN_ICON_INDENT = 0.5  # of a line's height: how far right of its title a row starts whose icon was not recognised
LETTER_ICON = re.compile(
    r"^(?:[QO©®@GCeèéê&?♀¢]{1,2}|[09])[\s)\]|°•·]+(?=[A-ZÅÄÖ\d])"
)  # an icon that was recognised as a letter or a digit
# No location starts with such a letter alone, or with a digit before a single word or before another number.
LOCATION_ICON = re.compile(
    r"^(?:[QO©®@GCeèéê&?♀¢]{1,2}[\s)\]|°•·]+(?=[A-ZÅÄÖ])|[90]\s+(?=[A-ZÅÄÖ](?:[^\W\d_]+$|\D+\d)))"
)
ICON_BEFORE_NUMBER = re.compile(r"^[\dQO©®@°]\s(?=\d{1,4}[A-Za-z]?\s)")  # an icon before the house number
NUMBERED_STREET = re.compile(
    r"^\d [A-Z][\w' ]* (?:Road|Lane|Street|Close|Avenue|Way|Drive|Court|Place|Square|Hill|Park)\b"
)
TOUCHING_ICON = re.compile(r"^[\dQO©®@°](?=[A-ZÅÄÖÜ][a-zåäöéü])")  # an icon that touches the text
MISREAD_CAPITAL_I = re.compile(r"\bl(?=[bcdfghjkmnpqrstvwxz][a-zåäöé])")  # no word starts with l and these: it is an I
BULLET = re.compile(r"(?<=\w|[.)])\s*[•·∙●]\s*(?=\w)")
STREET_ADDRESS = re.compile(
    r"[^\W\d_]{3,}\.?\s+\d{1,4}\s?[A-Za-z]?\b|[^\W\d_]{5,}\d{1,4}[A-Za-z]?\b|(?<!\d)\d{3}\s?\d{2}(?!\d)"
    r"|^\d{1,4}[A-Za-z]?\s+[^\W\d_]{3,}"
)
USUAL_ROWS = 3  # title, customer, location
MIN_CONTRAST_DIFFERENCE = 0.08  # of a title's contrast: how much nearer a row must be to customers or to locations
TASK_WORDS = split_words("""
    aamiainen besok besprechung besuch breakfast buroreinigung care cleaning cooking dinner dusch einkauf
    fensterputzen fruhstuck frukost grundpflege hausbesuch hemtjanst ikkunanpesu inkop kavely kaynti kokous kotihoito
    koulutus laakkeet laundry lounas matlagning medication medicin middag mittagessen mittagspause pause pflege
    promenad pyykki reinigung ruokailu schulung service shopping siivous spaziergang stadning suihku suursiivous tauko
    tillsyn visit walk wasche
""")


@dataclass(frozen=True, slots=True)
class RecognisedShift:
    """A shift as the page shows it; a field that it does not show is empty."""

    start: str
    end: str
    title: str
    customer: str
    location: str
    address: str
    confidence: float  # of the least certain character


@dataclass(frozen=True, slots=True)
class PageConventions:
    """How a page shows its shifts."""

    titles: TitleAnalysis
    has_icons: bool  # before its rows
    has_customer_icons: bool  # before customers, as before locations
    is_customer_first: bool  # left of a bullet, with the title right of it
    customer_contrast: float | None  # contrast of customers relative to their titles, from blocks with all fields
    location_contrast: float | None  # the same for locations

    def field_rows(self, block: Block) -> tuple[Line, ...]:
        """Return the rows of a block without icons, and with the lines of the title joined."""
        rows = join_title_rows(block.rows, self.titles.title_row_count(block))
        if not rows:
            return ()
        more = [replace(row, text=drop_icon(row, rows[0], self.has_icons)) for row in rows[1:]]
        if len(more) > 1 and not LEADING_ICON.match(rows[2].text):
            more[1] = replace(more[1], text=LOCATION_ICON.sub("", more[1].text))
        return rows[0], *more

    def is_location(self, line: Line, title: Line) -> bool | None:
        """Return whether the only row after a title is its location; None if that is undecided."""
        if STREET_ADDRESS.search(line.text):
            return True
        if self.customer_contrast is None or self.location_contrast is None:  # no block shows how customers look
            return None if self.has_customer_icons else is_indented_by_icon(line, title)
        contrast = relative_contrast(line, title)
        if contrast is None:
            return None
        to_customer, to_location = (abs(contrast - each) for each in (self.customer_contrast, self.location_contrast))
        return to_location < to_customer if abs(to_location - to_customer) > MIN_CONTRAST_DIFFERENCE else None


def detect_conventions(segments: PageSegments) -> PageConventions:
    """Detect the conventions of a page from all its blocks."""
    titles = analyse_titles(segments)
    blocks = [join_title_rows(block.rows, titles.title_row_count(block)) for block in segments.blocks]
    others = [(row, rows[0]) for rows in blocks for row in rows[1:USUAL_ROWS]]
    is_indented = any(row.left - title.left > MIN_ICON_INDENT * row.height for row, title in others)
    has_symbols = any(LEADING_ICON.match(row.text) or TOUCHING_ICON.match(row.text) for row, _ in others)
    lettered = [bool(LETTER_ICON.match(row.text)) for rows in blocks for row in rows[-1:] if len(rows) > 1]
    full = [rows for rows in blocks if len(rows) == USUAL_ROWS]
    return PageConventions(
        titles,
        has_icons=is_indented or has_symbols or (len(lettered) > 1 and all(lettered)),
        has_customer_icons=any(
            is_indented_by_icon(rows[1], rows[0]) or LEADING_ICON.match(rows[1].text) for rows in full
        ),
        is_customer_first=detect_customer_first([rows[0].text for rows in blocks if rows]),
        customer_contrast=median_contrast([(rows[1], rows[0]) for rows in full]),
        location_contrast=median_contrast([(rows[2], rows[0]) for rows in full]),
    )


def median_contrast(lines: Sequence[tuple[Line, Line]]) -> float | None:
    """Return the median contrast of some lines relative to their titles."""
    found = [contrast for line, title in lines if (contrast := relative_contrast(line, title)) is not None]
    return statistics.median(found) if found else None


def relative_contrast(line: Line, title: Line) -> float | None:
    """Return the contrast of a line relative to its title's, on which uneven light has no effect."""
    return line.ink.contrast / title.ink.contrast if line.ink and title.ink and title.ink.contrast else None


def shift_from_block(block: Block, conventions: PageConventions) -> RecognisedShift:
    """Return the shift of a block, whose rows are assigned to fields by their order."""
    title, *rest = conventions.field_rows(block)
    address = next((line for line in rest[1:] if STREET_ADDRESS.search(line.text)), None) if len(rest) > 2 else None
    if len(rest) == 1 and conventions.is_location(rest[0], title):
        customer, location = None, rest[0]
    else:
        customer, location = (rest[0] if rest else None), (rest[1] if len(rest) > 1 else None)
    lines = [line for line in (block.line, title, customer, location) if line]
    customer_text, title_text = (
        split_at_bullet(title.text, conventions.is_customer_first) if customer is None else ("", title.text)
    )
    return RecognisedShift(
        start=block.times.start,
        end=block.times.end,
        title=clean_text(title_text),
        customer=clean_name(customer.text if customer else customer_text),
        location=clean_name(location.text) if location else "",
        address=clean_text(address.text) if address and address is not location else "",
        confidence=round(min(line.min_char_confidence for line in lines), 3),
    )


def join_title_rows(rows: Sequence[Line], count: int) -> list[Line]:
    """Return the rows with the first `count`, which are the lines of a wrapped title, joined to one."""
    if count < 2:
        return list(rows)
    return [join_rows(rows[:count]), *rows[count:]]


# Customer and title in one row ----------------------------------------------------------------------------------------


def split_at_bullet(text: str, is_customer_first: bool) -> tuple[str, str]:
    """Return customer and title of a row that has both, with a bullet between them."""
    first, bullet, second = BULLET.sub("\n", text.strip(), count=1).partition("\n")
    first, second = TOUCHING_ICON.sub("", first), TOUCHING_ICON.sub("", second)
    if not bullet or not second or BULLET.search(second):
        return "", text
    return (first, second) if is_customer_first else (second, first)


def titles_without_bullet(titles: Sequence[str]) -> list[str]:
    """Return the titles without a bullet on a page where most others have one."""
    lacking = [title for title in titles if not BULLET.search(title)]
    return lacking if 0 < len(lacking) < len(titles) / 2 else []


def detect_customer_first(titles: Sequence[str]) -> bool:
    """Return whether the customers of a page are left of the bullet, which they are unless words show otherwise."""
    pairs = [pair for title in titles if all(pair := split_at_bullet(title, is_customer_first=True))]
    return sum(task_score(second) - task_score(first) for first, second in pairs) >= 0


def task_score(text: str) -> int:
    """Return how strongly a text suggests a task rather than a name."""
    words = text.replace("(", " ").replace(",", " ").split()
    is_task = bool(words) and (fold(words[0]) in TASK_WORDS or find_label(tuple(words)) is not None)
    return 2 * is_task + any(not word.isalpha() for word in text.split())


# Icons ----------------------------------------------------------------------------------------------------------------


def is_indented_by_icon(line: Line, title: Line) -> bool:
    """Return whether a line starts right of its title: it was recognised without the icon before it."""
    return line.left - title.left > MIN_ICON_INDENT * line.height


def drop_icon(line: Line, title: Line, has_icons: bool) -> str:
    """Return the text of a line without the icon before it, recognised as a symbol, a letter or a digit."""
    if LEADING_ICON.match(line.text):
        return LEADING_ICON.sub("", line.text)
    text = ICON_BEFORE_NUMBER.sub("", TOUCHING_ICON.sub("", line.text))
    return LETTER_ICON.sub("", text) if has_icons and not is_indented_by_icon(line, title) else text


def is_icon_or_number(line: Line, title: Line, has_icons: bool) -> bool:
    """Return whether a digit before a street may be its number or an icon, and nothing decides which."""
    is_doubtful = has_icons and not is_indented_by_icon(line, title)
    return is_doubtful and bool(LETTER_ICON.match(line.text) and NUMBERED_STREET.match(line.text))


def clean_name(text: str) -> str:
    """Return the name of a person or a place without an icon, and with capital letters at the start of its words."""
    return MISREAD_CAPITAL_I.sub("I", clean_text(text))


def clean_text(text: str) -> str:
    """Return a text without the icon before it, and with a capital where only the size of a letter shows one."""
    cleaned = LEADING_ICON.sub("", text).strip()
    return cleaned[:1].upper() + cleaned[1:] if cleaned[:1] in SAME_SHAPE_CAPITALS else cleaned
