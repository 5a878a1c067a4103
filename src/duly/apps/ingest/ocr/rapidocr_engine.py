"""RapidOCR: detects lines and recognises them.

It crops lines so tightly that rings are cut off, and where a ring is blurred or touches its letter, the bare letter
wins. So lines with letters are recognised in a second pass, with a margin around them and stretched, in which a faint
diacritic counts. Lines that may have diacritics are read by Tesseract too, where it is installed.

At every time step along a line the recogniser gives each character of its alphabet a probability, and greedy decoding
takes the best. For a plain letter, its variants with diacritics together get less than 0.5 %. For an Å whose ring is
blurred or touches the letter, A may win, but Å, Á, Ä and similar get 3 % and more: something is above the letter, and
in Swedish that is a ring or dots.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import groupby, pairwise, repeat
from typing import TYPE_CHECKING, Any, cast

from PIL import Image, ImageStat

from duly.apps.ingest.ocr.letters import FOREIGN_TO_SWEDISH, may_have_diacritic
from duly.apps.ingest.ocr.line_images import (
    corners_between,
    crop_line,
    ends_at_page_edge,
    has_unread_text_after,
    measure_ink,
    stretch_line,
)
from duly.apps.ingest.ocr.text_box import TextBox

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_IMAGE_SIDE = 2600  # pixels, of the longer side: larger images are reduced first
MAX_DETECTION_SIDE = 1600  # pixels, of the longer side: lines are detected at this size and recognised at full size
MIN_DETECTION_SIDE = 736  # pixels, of the shorter side of a smaller image: RapidOCR's own default
MAX_THREADS = 2
CTC_BLANK = 0  # index of the blank in RapidOCR's alphabet
# A strikethrough hides the dash of a range, so it is optional.
TIMES = r"\d{1,2}[:.]\d{2}\s*[-\u2010-\u2015~]?\s*\d{1,2}[:.]\d{2}[-\u2010-\u2015~]?"
TWO_TIME_RANGES = re.compile(rf"({TIMES})\s*({TIMES})")
MAX_WORD_GAP = 1.5  # of the line height, between two words of one line
MIN_RECHECK_LENGTH = 2  # characters: shorter text is not read again
RecognisedWord = tuple[str, float, Any]  # text, confidence, corners
MIN_DIACRITIC_SHARE = 0.03  # of the probability of a letter and its variants: what the variants must have together
BASE_LETTERS = {"Å": "A", "Ä": "A", "Ö": "O", "å": "a", "ä": "a", "ö": "o"}
# Letters of other languages, kept as they are as long as no Swedish variant has a share of the probability.
AMBIGUOUS_FOREIGN = {"á": "å", "ó": "ö", "Ó": "Ö"}
# By index of a letter: index of each Swedish letter that it may be, with the indexes of all its look-alikes.
Variants = Mapping[int, Mapping[int, Sequence[int]]]


class RapidOcrEngine:
    """RapidOCR, with Tesseract as an optional second reader of single lines."""

    def __init__(self, read_line: Callable[[Image.Image], str] | None) -> None:
        self.read_line = read_line
        self.name = "rapidocr and tesseract" if read_line else "rapidocr"

    @cached_property
    def rapidocr(self) -> Any:
        """The RapidOCR instance, with its models loaded."""
        from rapidocr import RapidOCR

        threads = max(1, min(MAX_THREADS, (os.cpu_count() or 1) // 2))
        return RapidOCR(
            params={
                "Global.use_cls": False,  # no upside-down text
                "Global.max_side_len": MAX_IMAGE_SIDE,
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
            }
        )

    def recognise(self, image: Image.Image) -> list[TextBox]:
        """Return all lines, with the second readings and what was measured on their images."""
        grey = image.convert("L")
        background = ImageStat.Stat(grey).median[0]
        boxes = self.detect(image)
        return [
            replace(
                self.examine(box, grey),
                ends_at_page_edge=ends_at_page_edge(box, grey, background),
                has_unread_text_after=has_unread_text_after(box, grey, boxes),
            )
            for box in boxes
        ]

    def detect(self, image: Image.Image) -> list[TextBox]:
        """Return all lines as recognised in the first pass; a line with a wide gap becomes two boxes."""
        found = self.run(image, is_full_page=True)
        if found.boxes is None:
            return []
        lines = zip(found.boxes, found.txts, found.scores, found.word_results or repeat(()), strict=False)
        return [box for corners, text, score, words in lines for box in to_text_boxes(corners, str(text), score, words)]

    def examine(self, box: TextBox, grey: Image.Image) -> TextBox:
        """Return the box with its ink and its second readings."""
        line = crop_line(box, grey)
        measured = replace(box, ink=measure_ink(line, box.height))
        return self.with_second_engine(self.with_reread_text(measured, line), line)

    def with_reread_text(self, box: TextBox, line: Image.Image) -> TextBox:
        """Return the box with what RapidOCR reads in a second pass, if it has letters."""
        if sum(map(str.isalpha, box.text)) < MIN_RECHECK_LENGTH:
            return box
        return replace(box, reread_text="".join(self.run(stretch_line(line), is_full_page=False).txts or ()))

    def with_second_engine(self, box: TextBox, line: Image.Image) -> TextBox:
        """Return the box with what Tesseract reads, if a letter of it may have a diacritic."""
        if self.read_line is None or len(box.text) < MIN_RECHECK_LENGTH or not may_have_diacritic(box.text):
            return box
        return replace(box, second_engine_text=self.read_line(line))

    def run(self, image: Image.Image, *, is_full_page: bool) -> Any:
        """Run RapidOCR over a page, or over the image of one line, in which faint diacritics count.

        RapidOCR keeps its options between calls, so they are all set every time.
        """
        import numpy as np

        rapidocr = self.rapidocr
        recogniser = rapidocr._load_rec_model()
        if not isinstance(recogniser.postprocess_op, ConfidenceDecoder):
            recogniser.postprocess_op = ConfidenceDecoder(recogniser.postprocess_op)
        recogniser.postprocess_op.accepts_faint_diacritics = not is_full_page
        if is_full_page:
            detector = rapidocr._load_det_model()
            is_large = max(image.size) > MAX_DETECTION_SIDE
            detector.limit_type, detector.limit_side_len = (
                ("max", MAX_DETECTION_SIDE) if is_large else ("min", MIN_DETECTION_SIDE)
            )
        bgr = np.asarray(image.convert("RGB"))[:, :, ::-1]
        return rapidocr(bgr, use_det=is_full_page, use_cls=False, use_rec=True, return_word_box=is_full_page)


# Confidence of each character -----------------------------------------------------------------------------------------


class ConfidenceDecoder:
    """Wraps RapidOCR's decoder, and keeps the confidence of each character."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder
        self.character = decoder.character  # the alphabet; RapidOCR reads this attribute
        self.accepts_faint_diacritics = False

    def __call__(self, probabilities: Any, *args: Any, **options: Any) -> Any:
        """Return text and confidence of every line, and the words if they are requested."""
        if self.accepts_faint_diacritics:
            probabilities = restore_faint_diacritics(probabilities, self.character)
        lines, words = self.decoder(probabilities, *args, **options)
        by_line = [decode_char_confidences(line) for line in probabilities]
        return [
            (text, LineConfidence(score, text, each)) for (text, score), each in zip(lines, by_line, strict=True)
        ], words


class LineConfidence(float):
    """Confidence of a line, which RapidOCR passes on as a float, and of each of its characters."""

    char_confidences: tuple[float, ...]

    def __new__(cls, value: float, text: str, decoded: Sequence[float]) -> "LineConfidence":
        """Pair characters with confidences: 1.0 for a space, and the line's own if the numbers of both differ."""
        made = super().__new__(cls, value)
        fits = len(decoded) == len(text)
        made.char_confidences = tuple(
            1.0 if char.isspace() else decoded[index] if fits else value for index, char in enumerate(text)
        )
        return made


def decode_char_confidences(steps: Any) -> list[float]:
    """Return the confidence of every character of a line: the highest of its time steps."""
    best, highest = steps.argmax(axis=1).tolist(), steps.max(axis=1)
    return [float(highest[run].max()) for char, run in character_runs(best) if char != CTC_BLANK]


# From lines to text boxes ---------------------------------------------------------------------------------------------


def to_text_boxes(corners: Any, text: str, score: float, words: Sequence[RecognisedWord]) -> list[TextBox]:
    """Return a line as text boxes: one, or several if there is a wide gap between its words."""
    quad = cast("Any", tuple((float(x), float(y)) for x, y in corners))
    confidences = getattr(score, "char_confidences", ())
    line = TextBox(
        text,
        quad,
        float(score),
        min_char_confidence=min(confidences, default=float(score)),
        char_confidences=confidences,
    )
    cuts = [
        index
        for index, ((_, _, left), (_, _, right)) in enumerate(pairwise(words), 1)
        if min(x for x, _ in right) - max(x for x, _ in left) > MAX_WORD_GAP * line.height
    ]
    if not cuts or line.width < line.height:
        return split_time_ranges(line)
    groups = [words[first:last] for first, last in pairwise((0, *cuts, len(words)))]
    return [part for group in groups for part in split_time_ranges(box_around_words(line, group))]


def split_time_ranges(box: TextBox) -> list[TextBox]:
    """Return a box with two time ranges, an old one and a new one, as two: one of them may be struck through."""
    found = TWO_TIME_RANGES.fullmatch(box.text.strip())
    if found is None:
        return [box]
    border = (found.end(1) + found.start(2)) / 2 / len(found[0])
    first, second = found[1], found[2]
    return [
        replace(with_text(box, first), corners=corners_between(box, 0.0, border)),
        replace(with_text(box, second), corners=corners_between(box, border, 1.0)),
    ]


def box_around_words(box: TextBox, words: Sequence[RecognisedWord]) -> TextBox:
    """Return the part of a box that some of its words cover."""
    left, width = box.corners[0][0], box.corners[1][0] - box.corners[0][0]
    first = max(0.0, (min(x for x, _ in words[0][2]) - left) / width)
    last = min(1.0, (max(x for x, _ in words[-1][2]) - left) / width)
    text = " ".join(word for word, _, _ in words)
    return replace(with_text(box, text), corners=corners_between(box, first, last))


def with_text(box: TextBox, text: str) -> TextBox:
    """Return the box with a part of its text, and the confidences of that part if it is contiguous."""
    index = box.text.find(text)
    if index < 0 or not box.char_confidences:
        return replace(box, text=text, char_confidences=())
    confidences = box.char_confidences[index : index + len(text)]
    lowest = min(confidences, default=box.min_char_confidence)
    return replace(box, text=text, char_confidences=confidences, min_char_confidence=lowest)


# Faint diacritics -----------------------------------------------------------------------------------------------------


def restore_faint_diacritics(probabilities: "NDArray[Any]", alphabet: Sequence[str]) -> "NDArray[Any]":
    """Return the probabilities (line, time step, character) with faint diacritics raised above their bare letters."""
    variants, changed = letter_variants(tuple(alphabet)), probabilities.copy()
    for line in changed:
        for letter, steps in character_runs(line.argmax(axis=1).tolist()):
            accented = find_faint(line[steps].max(axis=0), letter, variants[letter]) if letter in variants else None
            if accented is not None:
                line[steps, accented] = 1.0 + line[steps, letter]
    return changed


def find_faint(highest: "NDArray[Any]", letter: int, variants: Mapping[int, Sequence[int]]) -> int | None:
    """Return the Swedish letter that a letter seems to be; None if it seems to be what was read."""
    others = float(highest[[like for same in variants.values() for like in same if like != letter]].sum())
    if others < MIN_DIACRITIC_SHARE * (others + float(highest[letter])):
        return None
    return max(variants, key=lambda accented: float(highest[variants[accented]].sum()))


def character_runs(best: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Yield each winning character with its run of consecutive time steps, which decodes to one character."""
    start = 0
    for letter, steps in groupby(best):
        end = start + len(list(steps))
        yield letter, slice(start, end)
        start = end


@lru_cache(maxsize=2)
def letter_variants(alphabet: tuple[str, ...]) -> Variants:
    """Return the Swedish letters that each bare or foreign letter of an alphabet may be, with their look-alikes."""
    indexes = {letter: index for index, letter in enumerate(alphabet)}
    found = defaultdict[int, defaultdict[int, list[int]]](lambda: defaultdict(list))
    for letter, index in indexes.items():
        swedish = AMBIGUOUS_FOREIGN.get(letter) or letter.translate(FOREIGN_TO_SWEDISH)
        base = BASE_LETTERS.get(swedish, "")
        if base in indexes and swedish in indexes:
            found[indexes[base]][indexes[swedish]].append(index)
    for letter, swedish in AMBIGUOUS_FOREIGN.items():
        if {letter, swedish, BASE_LETTERS[swedish]} <= indexes.keys():
            found[indexes[letter]] = found[indexes[BASE_LETTERS[swedish]]]
    return found
