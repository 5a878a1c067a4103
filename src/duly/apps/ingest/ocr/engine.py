"""Engines: what finds and reads the text of a picture. The only file that meets an OCR library.

    RapidOCR     finds lines and reads them; its weights are in the package. It finds them so tight that rings are cut
                 off, and where one is blurred or touches its letter, the bare letter wins. So lines with a letter that
                 could bear a mark are read again, with some room around them and stretched, and a mark that is seen
                 faintly counts (`faint`). Where Tesseract has the language, such lines are read by it too, and
                 `spelling` weighs the two.
    Tesseract    alone, where RapidOCR cannot be had: lighter, and less sure of what is no text.

An engine is built once for a process and kept: its models take a second to load. It reads one picture at a time.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from PIL import Image, ImageOps, ImageStat

from duly.apps.ingest.ocr.faint import runs, with_faint_marks
from duly.apps.ingest.ocr.mark import Ink, Mark, Point
from duly.apps.ingest.ocr.spelling import may_bear_a_mark
from duly.errors import MissingExtra
from duly.extras import require

__all__ = ["Engine", "EngineName", "Equipment", "RapidEngine", "build_engine", "find_language", "must_have_engine"]

EngineName = Literal["auto", "rapidocr", "tesseract"]

RAPIDOCR = ("rapidocr", "onnxruntime")
MAX_SIDE_LENGTH = 2600  # larger pictures are made smaller first
FINDING_SIDE = 1600  # lines are found in a picture of this size, and read in the picture as it is
LEAST_FINDING_SIDE = 736  # of the shorter side: what RapidOCR makes of smaller pictures
MAX_THREADS = 2
BLANK = 0  # the place of no letter among RapidOCR's letters
# A line through a range hides its dash.
TIMES = r"\d{1,2}[:.]\d{2}\s*[-\u2010-\u2015~]?\s*\d{1,2}[:.]\d{2}[-\u2010-\u2015~]?"
TWO_RANGES = re.compile(rf"({TIMES})\s*({TIMES})")
WIDEST_BLANK = 1.5  # of a line's height, between two words of one line
MIN_LINE_LENGTH = 2  # letters: less is not worth a second look
MARGIN = 0.22  # of a line's height, around what the second engine gets
LINE_HEIGHT = 48  # pixels: what it reads best
MAX_LINE_LENGTH = 4000  # pixels
STRETCH = 1.5  # how much wider a line is made for a second look
LEAST_CONTRAST = 12  # of 255: less is no text
STRIKE = (0.38, 0.64)  # of the height: where a line through the text stands
BEYOND = (0.2, 0.45)  # of the height, right of a text: where its ground goes on, or ends
AFTER = (0.12, 1.1)  # of the height, right of a text: where more of it would stand
LEAST_INK = 0.04  # of that: less is nothing
OTHER_GROUND = 22  # of 255: so much differs what is no ground of the text
DARK = 110  # a mean below is light text on a dark ground
LEAST_WIDTH = 1000  # for Tesseract alone
LANGUAGES = {"sv": "swe", "en": "eng", "nb": "nor", "no": "nor", "da": "dan", "fi": "fin", "de": "deu"}
PLACES = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)


@dataclass(frozen=True, slots=True)
class Equipment:
    """Which engine, in which language, and where the language is kept."""

    engine: EngineName = "auto"
    language: str = "sv"
    tessdata: str | None = None


class Engine(Protocol):
    """Finds text."""

    @property
    def name(self) -> str:
        """What it consists of."""
        ...

    def read(self, picture: Image.Image) -> list[Mark]:
        """Every piece of text, in no particular order."""
        ...


def build_engine(equipment: Equipment) -> Engine:
    """The best engine that this machine has; MissingExtra when it has none."""
    language = LANGUAGES.get(equipment.language, equipment.language)
    directory = find_language(language, equipment.tessdata)
    if equipment.engine != "tesseract":
        if all(map(find_spec, RAPIDOCR)):
            return RapidEngine(LineReader(directory, language) if directory else None)
        if equipment.engine == "rapidocr":
            raise MissingExtra("OCR_ENGINE=rapidocr: it is not installed; install it with: pip install 'duly[ocr]'")
    if directory is None:
        raise MissingExtra(
            f"OCR_LANG={equipment.language}: there is no {language}.traineddata for Tesseract, which is to read alone; "
            f"install it (Debian: apt install tesseract-ocr-{language}), or name its directory with TESSDATA_PREFIX"
        )
    return PageReader(directory, language)


def must_have_engine(engine: EngineName, get: Callable[[str], None] = require) -> None:
    """Return once an engine can be imported; `get` says how it is had when it cannot: MissingExtra, as a rule."""
    has_rapidocr, has_tesseract = all(map(find_spec, RAPIDOCR)), bool(find_spec("tesserocr"))
    if not {"rapidocr": has_rapidocr, "tesseract": has_tesseract, "auto": has_rapidocr or has_tesseract}[engine]:
        get("ocr")


def find_language(language: str, directory: str | None) -> str | None:
    """The directory that has this language of Tesseract's, or None; a directory that is named is the only one."""
    places = (directory, str(Path(directory) / "tessdata")) if directory else PLACES
    return next((place for place in places if (Path(place) / f"{language}.traineddata").is_file()), None)


# RapidOCR -------------------------------------------------------------------------------------------------------------


class RapidEngine:
    """RapidOCR, and beside it perhaps a second reader of single lines."""

    def __init__(self, checker: "LineReader | None") -> None:
        self.checker = checker
        self.name = "rapidocr and tesseract" if checker else "rapidocr"

    @cached_property
    def engine(self) -> Any:
        """RapidOCR itself, with its models."""
        from rapidocr import RapidOCR

        threads = max(1, min(MAX_THREADS, (os.cpu_count() or 1) // 2))
        return RapidOCR(
            params={
                "Global.use_cls": False,  # text that stands on its head is not ours
                "Global.max_side_len": MAX_SIDE_LENGTH,
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
            }
        )

    def read(self, picture: Image.Image) -> list[Mark]:
        """Every line, with what the second reader makes of it."""
        grey = picture.convert("L")
        ground = ImageStat.Stat(grey).median[0]
        marks = self.find(picture)
        return [
            replace(
                self.examined(mark, grey), is_cut=ends_at_edge(mark, grey, ground), goes_on=goes_on(mark, grey, marks)
            )
            for mark in marks
        ]

    def examined(self, mark: Mark, grey: Image.Image) -> Mark:
        """The mark with all that a closer look at its line tells."""
        line = line_of(mark, grey)
        seen = replace(mark, ink=measure_ink(line, mark.height))
        return self.checked(self.looked_at_again(seen, line), line)

    def find(self, picture: Image.Image) -> list[Mark]:
        """Every line, as it is read at first; one that goes over a wide gap is two."""
        found = self.run(picture, finds=True)
        if found.boxes is None:
            return []
        lines = zip(found.boxes, found.txts, found.scores, found.word_results or repeat(()), strict=False)
        return [mark for box, text, score, words in lines for mark in marks_of(box, str(text), score, words)]

    def looked_at_again(self, mark: Mark, line: Image.Image) -> Mark:
        """The mark with what is seen with some room around its letters."""
        return replace(mark, again=self.look(stretched(line))) if has_letters(mark.text) else mark

    def look(self, line: Image.Image) -> str:
        """The text of one line, with the marks that RapidOCR sees only faintly."""
        return "".join(self.run(line, finds=False).txts or ())

    def checked(self, mark: Mark, line: Image.Image) -> Mark:
        """The mark with a second reading, where a letter of it could bear a mark."""
        if self.checker is None or len(mark.text) < MIN_LINE_LENGTH or not may_bear_a_mark(mark.text):
            return mark
        return replace(mark, second=self.checker.read(line))

    def run(self, picture: Image.Image, *, finds: bool) -> Any:
        """RapidOCR over a picture, or over one line; what it is to do is said each time, for it remembers."""
        import numpy as np

        engine = self.engine
        reader = engine._load_rec_model()
        if not isinstance(reader.postprocess_op, Decoder):
            reader.postprocess_op = Decoder(reader.postprocess_op)
        reader.postprocess_op.takes_faint_marks = not finds
        if finds:
            finder = engine._load_det_model()
            is_large = max(picture.size) > FINDING_SIDE
            finder.limit_type, finder.limit_side_len = (
                ("max", FINDING_SIDE) if is_large else ("min", LEAST_FINDING_SIDE)
            )
        blue_first = np.asarray(picture.convert("RGB"))[:, :, ::-1]
        return engine(blue_first, use_det=finds, use_cls=False, use_rec=True, return_word_box=finds)


def has_letters(text: str) -> bool:
    """Check whether a line has letters enough for another look."""
    return sum(map(str.isalpha, text)) >= MIN_LINE_LENGTH


class Decoder:
    """Decodes what RapidOCR gives for lines, and tells of each which letter it is least sure of."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder
        self.character = decoder.character
        self.takes_faint_marks = False

    def __call__(self, chances: Any, *rest: Any, **more: Any) -> Any:
        """Text and score of every line, and the words where they are asked for."""
        if self.takes_faint_marks:
            chances = with_faint_marks(chances, self.character)
        lines, words = self.decoder(chances, *rest, **more)
        sure = [letter_chances(line) for line in chances]
        return [(text, Score(score, text, each)) for (text, score), each in zip(lines, sure, strict=True)], words


class Score(float):
    """How sure an engine is of a line, and of each of its letters."""

    chances: tuple[float, ...]

    def __new__(cls, value: float, text: str, chances: Sequence[float]) -> "Score":
        """All of them; a blank is always sure, and letters that do not fit the text are as sure as the line."""
        made = super().__new__(cls, value)
        fits = len(chances) == len(text)
        made.chances = tuple(
            1.0 if letter.isspace() else chances[at] if fits else value for at, letter in enumerate(text)
        )
        return made


def letter_chances(steps: Any) -> list[float]:
    """The chances of every letter of a line; a letter has those of its best step."""
    best, chances = steps.argmax(axis=1).tolist(), steps.max(axis=1)
    return [float(chances[run].max()) for letter, run in runs(best) if letter != BLANK]


def marks_of(box: Any, text: str, score: float, words: Sequence[tuple[str, float, Any]]) -> list[Mark]:
    """A line as marks: one, or several where there is a wide gap between its words."""
    corners = cast("Any", tuple((float(x), float(y)) for x, y in box))
    chances = getattr(score, "chances", ())
    whole = Mark(text, corners, float(score), weakest=min(chances, default=float(score)), chances=chances)
    cuts = [
        nth
        for nth, ((_, _, left), (_, _, right)) in enumerate(pairwise(words), 1)
        if min(x for x, _ in right) - max(x for x, _ in left) > WIDEST_BLANK * whole.height
    ]
    if not cuts or whole.width < whole.height:
        return ranges_apart(whole)
    groups = [words[first:last] for first, last in pairwise((0, *cuts, len(words)))]
    return [part for group in groups for part in ranges_apart(part_of(whole, group))]


def ranges_apart(mark: Mark) -> list[Mark]:
    """A mark in two where it has two ranges of times, an old one and a new one: a line may go through one of them."""
    found = TWO_RANGES.fullmatch(mark.text.strip())
    if found is None:
        return [mark]
    border = (found.end(1) + found.start(2)) / 2 / len(found[0])
    first, second = found[1], found[2]
    return [
        replace(with_text(mark, first), corners=between(mark, 0.0, border)),
        replace(with_text(mark, second), corners=between(mark, border, 1.0)),
    ]


def part_of(mark: Mark, words: Sequence[tuple[str, float, Any]]) -> Mark:
    """The part of a mark that some of its words take."""
    left, reach = mark.corners[0][0], mark.corners[1][0] - mark.corners[0][0]
    first = max(0.0, (min(x for x, _ in words[0][2]) - left) / reach)
    last = min(1.0, (max(x for x, _ in words[-1][2]) - left) / reach)
    text = " ".join(word for word, _, _ in words)
    return replace(with_text(mark, text), corners=between(mark, first, last))


def with_text(mark: Mark, text: str) -> Mark:
    """The mark with a part of its text; how sure its letters are goes along where that part is one piece."""
    at = mark.text.find(text)
    if at < 0 or not mark.chances:
        return replace(mark, text=text, chances=())
    chances = mark.chances[at : at + len(text)]
    return replace(mark, text=text, chances=chances, weakest=min(chances, default=mark.weakest))


def between(mark: Mark, first: float, last: float) -> tuple[Point, Point, Point, Point]:
    """The corners of a part of a mark, of which 0 is the left end and 1 the right."""
    upper_left, upper_right, lower_right, lower_left = mark.corners

    def at(start: Point, end: Point, part: float) -> Point:
        return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part

    return (
        at(upper_left, upper_right, first),
        at(upper_left, upper_right, last),
        at(lower_left, lower_right, last),
        at(lower_left, lower_right, first),
    )


# Tesseract ------------------------------------------------------------------------------------------------------------


class LineReader:
    """Tesseract over one line at a time."""

    def __init__(self, directory: str, language: str) -> None:
        from tesserocr import PSM, PyTessBaseAPI  # type: ignore[import-untyped]

        self.api: Any = PyTessBaseAPI(path=directory, lang=language, psm=PSM.SINGLE_LINE)

    def read(self, line: Image.Image) -> str:
        """The text of a line."""
        self.api.SetImage(line)
        return str(self.api.GetUTF8Text()).strip()


class PageReader:
    """Tesseract over a whole page."""

    name = "tesseract"

    def __init__(self, directory: str, language: str) -> None:
        from tesserocr import PSM, PyTessBaseAPI

        self.api: Any = PyTessBaseAPI(path=directory, lang=language, psm=PSM.SINGLE_BLOCK)

    def read(self, picture: Image.Image) -> list[Mark]:
        """Every word."""
        from tesserocr import RIL, iterate_level  # type: ignore[import-untyped]

        grey = ImageOps.autocontrast(readable(picture.convert("L")))
        scale = max(1.0, LEAST_WIDTH / grey.width)
        scale *= min(1.0, MAX_SIDE_LENGTH / (max(grey.size) * scale))
        if scale != 1.0:
            grey = grey.resize((max(1, round(grey.width * scale)), max(1, round(grey.height * scale))))
        self.api.SetImage(grey)
        self.api.Recognize()
        marks: list[Mark] = []
        for word in cast("Iterable[Any]", iterate_level(self.api.GetIterator(), RIL.WORD)):
            text = str(word.GetUTF8Text(RIL.WORD) or "").strip()
            if text and (box := box_of(word, RIL.WORD)):
                left, top, right, bottom = (side / scale for side in box)
                corners = ((left, top), (right, top), (right, bottom), (left, bottom))
                marks.append(Mark(text, corners, word.Confidence(RIL.WORD) / 100))
        return marks


def box_of(word: Any, level: int) -> tuple[float, float, float, float] | None:
    """Where a word stands, as high as its row: else a dash or small letters seem too small for their neighbours."""
    box, baseline = word.BoundingBox(level), word.Baseline(level)
    if not box or not baseline:
        return None
    row = word.RowAttributes()
    bottom = (baseline[0][1] + baseline[1][1]) / 2 - row["descenders"]
    return box[0], bottom - row["row_height"], box[2], bottom


# Pictures of lines ----------------------------------------------------------------------------------------------------


def line_of(mark: Mark, grey: Image.Image) -> Image.Image:
    """The part of a picture that a mark covers, upright, a little larger, and dark on light."""
    corners = with_margin(mark)
    shape = (mark.width / max(mark.height, 1.0) + 2 * MARGIN) / (1 + 2 * MARGIN)
    width = round(min(MAX_LINE_LENGTH, max(1.0, shape) * LINE_HEIGHT))
    size = (width, LINE_HEIGHT)
    return readable(grey.transform(size, Image.Transform.QUAD, quad_of(corners), Image.Resampling.BICUBIC))


def stretched(line: Image.Image) -> Image.Image:
    """A line whose letters are wider: what stands above them is then seen for longer."""
    return line.resize((round(line.width * STRETCH), line.height), Image.Resampling.BICUBIC)


def with_margin(mark: Mark) -> tuple[Point, Point, Point, Point]:
    """The corners of a mark, moved outwards along its own sides."""
    upper_left, upper_right, lower_right, lower_left = mark.corners
    along = MARGIN * mark.height / max(mark.width, 1.0)

    def out(corner: Point, beside: Point, across: Point) -> Point:
        return (
            corner[0] + (corner[0] - beside[0]) * along + (corner[0] - across[0]) * MARGIN,
            corner[1] + (corner[1] - beside[1]) * along + (corner[1] - across[1]) * MARGIN,
        )

    return (
        out(upper_left, upper_right, lower_left),
        out(upper_right, upper_left, lower_right),
        out(lower_right, lower_left, upper_right),
        out(lower_left, lower_right, upper_left),
    )


def measure_ink(line: Image.Image, height: float) -> Ink | None:
    """How the strokes of an upright dark line look; None where there are none."""
    import numpy as np

    pixels = np.asarray(line, dtype=np.float32)
    ground, darkest = float(np.median(pixels)), float(np.percentile(pixels, 2))
    if ground - darkest < LEAST_CONTRAST:
        return None
    margin = round(LINE_HEIGHT * MARGIN / (1 + 2 * MARGIN))
    is_ink = pixels[:, margin:-margin] < (ground + darkest) / 2
    starts = is_ink & ~np.pad(is_ink, ((0, 0), (1, 0)))[:, :-1]
    scale = height * (1 + 2 * MARGIN) / LINE_HEIGHT
    weight = float(is_ink.sum()) / max(1, int(starts.sum())) * scale
    band = is_ink[round(LINE_HEIGHT * STRIKE[0]) : round(LINE_HEIGHT * STRIKE[1])]
    strike = float(band.mean(axis=1).max()) if band.shape[1] > LINE_HEIGHT else 0.0
    return Ink((ground - darkest) / 255, weight, strike)


def ends_at_edge(mark: Mark, grey: Image.Image, ground: float) -> bool:
    """Whether the page ends where the text ends: what lies beyond is neither ground of the text nor of the picture."""
    import numpy as np

    reach = mark.height / max(mark.width, 1.0)
    ends = between(mark, 0.0, 1.0 + BEYOND[1] * reach)[1:3]
    if not all(0 <= x < grey.width and 0 <= y < grey.height for x, y in ends):
        return True  # the picture itself ends there
    near, beyond = (
        np.asarray(grey.transform(size, Image.Transform.QUAD, quad_of(corners), Image.Resampling.BILINEAR), np.float32)
        for corners, size in (
            (between(mark, max(0.0, 1.0 - 4 * reach), 1.0), (96, 24)),
            (between(mark, 1.0 + BEYOND[0] * reach, 1.0 + BEYOND[1] * reach), (8, 24)),
        )
    )
    seen = float(np.median(beyond))
    is_other = all(abs(seen - each) > OTHER_GROUND for each in (float(np.median(near)), ground))
    return is_other and float(beyond.std()) < OTHER_GROUND / 2


def goes_on(mark: Mark, grey: Image.Image, marks: Sequence[Mark]) -> bool:
    """Whether something follows a text that looks like more of it, and that was not found: a number at its end.

    Bars and chips reach above and below the line; letters do not.
    """
    import numpy as np

    reach = mark.height / max(mark.width, 1.0)
    after = between(mark, 1.0 + AFTER[0] * reach, 1.0 + AFTER[1] * reach)
    (left, top), (right, bottom) = map(min, zip(*after, strict=True)), map(max, zip(*after, strict=True))
    if left < 0 or top < 0 or right >= grey.width or bottom >= grey.height:
        return False
    if any(other is not mark and is_over(other, left, right + mark.height / 5, (top + bottom) / 2) for other in marks):
        return False
    near, beyond = (
        np.asarray(grey.transform(size, Image.Transform.QUAD, quad_of(corners), Image.Resampling.BILINEAR), np.float32)
        for corners, size in ((between(mark, max(0.0, 1.0 - 4 * reach), 1.0), (96, 24)), (after, (32, 24)))
    )
    ground = np.median(near)
    is_ink = np.abs(beyond - ground) > np.percentile(np.abs(near - ground), 97) * 0.55
    return bool(is_ink[4:-4].mean() > LEAST_INK and is_ink[[0, 1, -2, -1]].mean() < LEAST_INK / 2)


def is_over(mark: Mark, left: float, right: float, middle: float) -> bool:
    """Whether a mark covers some of a stretch from left to right at a height."""
    across, down = zip(*mark.corners, strict=True)
    return min(across) < right and max(across) > left and min(down) < middle < max(down)


def quad_of(corners: tuple[Point, Point, Point, Point]) -> tuple[float, ...]:
    """Corners in the order that the library wants."""
    upper_left, upper_right, lower_right, lower_left = corners
    return (*upper_left, *lower_left, *lower_right, *upper_right)


def readable(grey: Image.Image) -> Image.Image:
    """Dark text on a light ground, whatever it was."""
    return ImageOps.invert(grey) if ImageStat.Stat(grey).mean[0] < DARK else grey
