"""Assemble text boxes into lines: deskew the page, then join the fragments of one row."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.apps.ingest.ocr.diacritics import drop_unstable_first_char, readings_agree, reconcile_readings
from duly.apps.ingest.ocr.letters import may_have_diacritic
from duly.apps.ingest.ocr.text_box import Ink, TextBox, estimate_skew
from duly.apps.ingest.ocr.times import find_time_range, is_meridiem, is_old_range, resembles_time_range

# Distances: multiples of a line's height.
MIN_COLUMN_OFFSET = 3.0  # between the left edge of a line and a column that it does not start in
MAX_FRAGMENT_GAP = 0.9  # between two fragments of one line
ROW_TOLERANCE = 0.45  # between the vertical centres of two fragments of one row
MAX_HEIGHT_RATIO = 1.6  # between the heights of two fragments of one line
MAX_CARD_HEIGHT = 6.0  # between the times of a card and its last line
MAX_REPLACEMENT_GAP = 2.0  # between struck-through times and the new ones right of them
COLUMN_TOLERANCE = 0.7  # between the left edges of the lines of a column
EDGE_PIXELS = 2.0  # pixels: text this close to the side of an image may be truncated
LEADING_DIGITS = re.compile(r"\d{2}")
MANY_DIGITS = re.compile(r"(?:\D*\d){5}")  # a time range has these; for a single time a strikethrough is not measurable
WORD = re.compile(r"[^\W\d_]+")
CONFIDENT = 0.985  # confidence of a character from which on it is kept as read
AGREED_CONFIDENCE = 0.6  # lower bound of the confidence of a line that two readings agree on
ICON_CONFIDENCE = 0.8  # confidence of a character on its own, below which it is taken for an icon
LAST_LATIN_LETTER = "\u024f"
DISPUTED_CONFIDENCE = 0.2  # upper bound of the confidence of a line that they disagree on
# Shares of a text's width that are inked at the height of a strikethrough.
MIN_STRIKETHROUGH_DIGITS = 0.65  # digits alone reach a half
MIN_STRIKETHROUGH_LETTERS = 0.9  # letters alone reach three quarters


@dataclass(frozen=True, slots=True)
class Line:
    """Text of one row, with its position on the deskewed page."""

    text: str
    left: float
    right: float
    centre_y: float  # from the top
    height: float
    confidence: float
    min_char_confidence: float = 1.0  # of the least certain character
    ink: Ink | None = None
    may_be_truncated: bool = False  # by the edge of the image or the page, or text after it was not detected
    image_position: tuple[float, float] = (0.0, 0.0)  # of the centre: shares of the width and height of the image

    @property
    def is_struck_through(self) -> bool:
        """Return whether the text is struck through."""
        threshold = (
            MIN_STRIKETHROUGH_DIGITS
            if MANY_DIGITS.search(self.text) and not WORD.search(self.text)
            else MIN_STRIKETHROUGH_LETTERS
        )
        return self.ink is not None and self.ink.strikethrough >= threshold

    @property
    def position(self) -> str:
        """Describe where the line is in the image, for messages."""
        return f"{self.image_position[0]:.0%} from the left, {self.image_position[1]:.0%} from the top"

    @property
    def top(self) -> float:
        """Return the upper edge."""
        return self.centre_y - self.height / 2

    @property
    def bottom(self) -> float:
        """Return the lower edge."""
        return self.centre_y + self.height / 2


@dataclass(frozen=True, slots=True)
class Region:
    """A deskewed page or a part of it: its lines from top to bottom, and its size."""

    lines: tuple[Line, ...]
    width: float
    height: float
    is_complete: bool = False  # nothing can be hidden below, because the next day starts there


def assemble_lines(boxes: Sequence[TextBox], width: float, height: float) -> Region:
    """Return the deskewed page of these text boxes, with the fragments of each row joined."""
    fragments = sorted(deskew(boxes, width, height), key=lambda line: (line.centre_y, line.left))
    fragments = [fragment for fragment in fragments if not is_icon(fragment, fragments)]
    fragments = [drop_digit_of_times(fragment, fragments) for fragment in fragments]
    fragments = [
        align_with_struck_times(drop_duplicated_letter(fragment, fragments), fragments) for fragment in fragments
    ]
    time_lines = [
        fragment
        for fragment in fragments
        if find_time_range(fragment.text) and not fragment.is_struck_through and not is_old_range(fragment.text)
    ]
    fragments = [part for fragment in fragments for part in split_at_column(fragment, time_lines)]
    lines: list[Line] = []
    for fragment in sorted(fragments, key=lambda line: line.left):
        matching = [
            at
            for at, line in enumerate(lines)
            if continues_line(line, fragment) and not starts_other_column(fragment, line, time_lines)
        ]
        if matching:
            nearest = min(matching, key=lambda at: abs(fragment.left - lines[at].right))
            lines[nearest] = join_fragments(lines[nearest], fragment)
        else:
            lines.append(fragment)
    return Region(tuple(sorted(lines, key=lambda line: (line.centre_y, line.left))), width, height)


def is_icon(fragment: Line, fragments: Sequence[Line]) -> bool:
    """Return whether a fragment is an icon before a text: a character that the engine doubts, or of another script."""
    if len(fragment.text) != 1:
        return False
    is_doubtful = fragment.min_char_confidence < ICON_CONFIDENCE or fragment.text > LAST_LATIN_LETTER
    return is_doubtful and any(
        WORD.search(other.text)
        and fragment.left < other.left < fragment.right + MAX_FRAGMENT_GAP * other.height
        and abs(other.centre_y - fragment.centre_y) < other.height / 2
        for other in fragments
    )


def drop_digit_of_times(fragment: Line, fragments: Sequence[Line]) -> Line:
    """Drop the first digit of a text if it is the last digit of the times before it, recognised twice."""
    is_repeated = fragment.text[:1].isdigit() and any(
        times.left < fragment.left < times.right
        and abs(times.centre_y - fragment.centre_y) < fragment.height / 2
        and fragment.text[0] == times.text.rstrip()[-1:]
        and find_time_range(times.text) is not None
        for times in fragments
    )
    return replace(fragment, text=fragment.text[1:].lstrip()) if is_repeated else fragment


def align_with_struck_times(fragment: Line, fragments: Sequence[Line]) -> Line:
    """Move times that are right of the struck-through ones they replace to the position of those.

    The fields of their shift are aligned with the old times.
    """
    if not find_time_range(fragment.text) or fragment.is_struck_through:
        return fragment
    old = [
        other.left
        for other in fragments
        if other.is_struck_through
        and -fragment.height / 2 < fragment.left - other.right < MAX_REPLACEMENT_GAP * fragment.height
        and abs(other.centre_y - fragment.centre_y) < fragment.height / 2
    ]
    return replace(fragment, left=min(old)) if old else fragment


def drop_duplicated_letter(fragment: Line, fragments: Sequence[Line]) -> Line:
    """Drop a single letter after times if text follows: it is that text's first letter, recognised twice."""
    times = find_time_range(fragment.text)
    if times is None or times.problem or len(times.after) != 1 or not times.after.isalpha():
        return fragment
    has_beside = any(
        -fragment.height < other.left - fragment.right < fragment.height / 2
        and abs(other.centre_y - fragment.centre_y) < fragment.height / 2
        for other in fragments
        if other is not fragment
    )
    return replace(fragment, text=fragment.text.rstrip()[:-1].rstrip()) if has_beside else fragment


def continues_line(line: Line, fragment: Line) -> bool:
    """Return whether a fragment continues a line."""
    height = min(line.height, fragment.height)
    gap = fragment.left - line.right
    if is_only_time_range(line.text) and not is_meridiem(fragment.text) and is_separate_text(fragment.text):
        return False
    return (
        abs(line.centre_y - fragment.centre_y) < ROW_TOLERANCE * height
        and -height < gap < MAX_FRAGMENT_GAP * height
        and max(line.height, fragment.height) < MAX_HEIGHT_RATIO * height
    )


def is_separate_text(text: str) -> bool:
    """Return whether a text after times is no part of them: it is words, or other times."""
    return sum(map(str.isalpha, text)) > 1 or resembles_time_range(text)


def is_only_time_range(text: str) -> bool:
    """Return whether a text is a time range and nothing else."""
    times = find_time_range(text)
    return times is not None and not times.problem and not times.before and not times.after


def starts_other_column(fragment: Line, line: Line, time_lines: Sequence[Line]) -> bool:
    """Return whether a fragment starts another column, aligned with times, however close the line comes to it."""
    return any(
        abs(fragment.left - times.left) < COLUMN_TOLERANCE * fragment.height
        and line.left < times.left - MIN_COLUMN_OFFSET * fragment.height
        for times in time_lines
    )


def split_at_column(fragment: Line, time_lines: Sequence[Line]) -> list[Line]:
    """Split a fragment in which the engine joined the text of two columns that nearly touch."""
    for times in time_lines:
        is_below = 0 < fragment.centre_y - times.centre_y < MAX_CARD_HEIGHT * fragment.height
        is_across = (
            fragment.left < times.left - MIN_COLUMN_OFFSET * fragment.height
            and fragment.right > times.left + fragment.height
        )
        blanks = [at for at, letter in enumerate(fragment.text) if letter == " "]
        if is_below and is_across and blanks and not find_time_range(fragment.text):
            border = (times.left - fragment.left) / (fragment.right - fragment.left) * len(fragment.text)
            at = min(blanks, key=lambda at: abs(at - border))
            return [
                replace(fragment, text=fragment.text[:at], right=times.left),
                replace(fragment, text=fragment.text[at + 1 :], left=times.left),
            ]
    return [fragment]


def join_fragments(line: Line, fragment: Line) -> Line:
    """Return a line and the fragment that continues it as one line."""
    letters = len(line.text) + len(fragment.text)
    longer = line if len(line.text) >= len(fragment.text) else fragment
    return replace(
        longer,
        text=f"{line.text} {fragment.text}",
        left=line.left,
        right=max(line.right, fragment.right),
        centre_y=(line.centre_y * len(line.text) + fragment.centre_y * len(fragment.text)) / letters,
        height=max(line.height, fragment.height),
        confidence=min(line.confidence, fragment.confidence),
        min_char_confidence=min(line.min_char_confidence, fragment.min_char_confidence),
        may_be_truncated=line.may_be_truncated or fragment.may_be_truncated,
    )


def join_rows(lines: Sequence[Line]) -> Line:
    """Return lines below each other as one, at the position of the first."""
    return replace(
        lines[0],
        text=" ".join(line.text for line in lines),
        confidence=min(line.confidence for line in lines),
        min_char_confidence=min(line.min_char_confidence for line in lines),
        may_be_truncated=any(line.may_be_truncated for line in lines),
    )


# Deskewing ------------------------------------------------------------------------------------------------------------


def deskew(boxes: Sequence[TextBox], width: float, height: float) -> list[Line]:
    """Return every text box as a fragment of a line, at its position on the deskewed page."""
    slope, slope_change = estimate_skew(boxes, height)
    angle = math.atan(slope)
    cosine, sine = math.cos(angle), math.sin(angle)
    lines: list[Line] = []
    is_unread: list[bool] = []
    for box in boxes:
        box = drop_unstable_icon(box)
        text = " ".join(
            reconcile_readings(
                box.text, box.second_engine_text, box.reread_text, confident_words=confident_words(box)
            ).split()
        )
        if not text or box.height <= 0:
            continue
        across, down = box.centre[0] - width / 2, box.centre[1] - height / 2
        level_across, level_down = across * cosine + down * sine, down * cosine - across * sine
        level_down -= level_across * slope_change * level_down
        left = level_across + width / 2 - box.width / 2
        is_unread.append(box.has_unread_text_after)
        lines.append(
            Line(
                text,
                left,
                left + box.width,
                level_down + height / 2,
                box.height,
                box.confidence,
                lowest_confidence(box),
                box.ink,
                may_be_truncated=box.ends_at_page_edge
                or any(not EDGE_PIXELS < x < width - 1 - EDGE_PIXELS for x, _ in box.corners),
                image_position=(box.centre[0] / width, box.centre[1] / height),
            )
        )
    text_right = max((line.right for line in lines), default=0.0)
    return [
        replace(
            line,
            may_be_truncated=continues_line or (line.may_be_truncated and is_at_text_margin(line, text_right, width)),
        )
        for line, continues_line in zip(lines, is_unread, strict=True)
    ]


def drop_unstable_icon(box: TextBox) -> TextBox:
    """Return the box without a first character that only one of two readings shows: it is an icon."""
    is_confident = bool(box.char_confidences) and box.char_confidences[0] >= CONFIDENT
    text = drop_unstable_first_char(box.text, box.reread_text, box.second_engine_text, is_confident=is_confident)
    confidences = box.char_confidences[len(box.text) - len(text) :] if box.char_confidences else ()
    return replace(
        box,
        text=text,
        char_confidences=confidences,
        min_char_confidence=min(confidences, default=box.min_char_confidence),
    )


def confident_words(box: TextBox) -> frozenset[str]:
    """Return the words in which every letter that may have a diacritic was recognised with confidence."""
    if not box.char_confidences:
        return frozenset(WORD.findall(box.text)) if box.min_char_confidence >= CONFIDENT else frozenset()
    return frozenset(
        word[0]
        for word in WORD.finditer(box.text)
        if all(
            confidence >= CONFIDENT or not may_have_diacritic(letter)
            for letter, confidence in zip(word[0], box.char_confidences[word.start() : word.end()], strict=True)
        )
    )


def is_at_text_margin(line: Line, text_right: float, width: float) -> bool:
    """Return whether a line reaches the margin of the text or image; one that ends before others is not truncated."""
    return line.right > text_right - line.height or line.left < line.height or line.right > width - line.height


def has_doubtful_first_digit(box: TextBox) -> bool:
    """Return whether the first of several digits may be an icon: a 9 before 31 Sudin Street."""
    return bool(LEADING_DIGITS.match(box.text)) and bool(box.char_confidences) and box.char_confidences[0] < CONFIDENT


def has_disputed_diacritic(box: TextBox) -> bool:
    """Return whether only the second pass shows a diacritic on a lower-case letter of low confidence."""
    if box.second_engine_text is None or box.reread_text is None or len(box.reread_text.strip()) != len(box.text):
        return False
    bare_words = frozenset(WORD.findall(box.second_engine_text))
    pairs = zip(box.text, box.reread_text.strip(), box.char_confidences, strict=False)
    is_doubtful = any(
        letter in "ao" and other_char in "åäö" and confidence < CONFIDENT for letter, other_char, confidence in pairs
    )
    return is_doubtful and bool(
        bare_words & frozenset(WORD.findall(box.text)) - frozenset(WORD.findall(box.reread_text))
    )


def lowest_confidence(box: TextBox) -> float:
    """Return the lowest confidence of a character, raised or lowered by whether the readings of the line agree."""
    if find_time_range(box.text):
        return box.min_char_confidence
    if has_doubtful_first_digit(box) or has_disputed_diacritic(box):
        return min(box.min_char_confidence, DISPUTED_CONFIDENCE)
    if not readings_agree(box.text, box.reread_text) and not (
        box.second_engine_text and readings_agree(box.text, box.second_engine_text)
    ):
        return min(box.min_char_confidence, DISPUTED_CONFIDENCE)
    return box.min_char_confidence if box.reread_text is None else max(box.min_char_confidence, AGREED_CONFIDENCE)
