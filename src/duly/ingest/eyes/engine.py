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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from PIL import Image, ImageOps, ImageStat

from duly.errors import MissingExtra
from duly.extras import require
from duly.ingest.eyes.faint import with_faint_marks
from duly.ingest.eyes.mark import Mark, Point
from duly.ingest.eyes.spelling import may_bear_a_mark, with_lost_marks

__all__ = ["Engine", "EngineName", "Equipment", "RapidEngine", "build_engine", "find_language", "must_have_engine"]

EngineName = Literal["auto", "rapidocr", "tesseract"]

RAPIDOCR = ("rapidocr", "onnxruntime")
LONGEST_SIDE = 2600  # larger pictures are made smaller first
MOST_THREADS = 2
SHORTEST_LINE = 2  # letters: less is not worth a second look
MARGIN = 0.22  # of a line's height, around what the second engine gets
LINE_HEIGHT = 48  # pixels: what it reads best
LONGEST_LINE = 4000  # pixels
STRETCH = 1.5  # how much wider a line is made for a second look
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

        threads = max(1, min(MOST_THREADS, (os.cpu_count() or 1) // 2))
        return RapidOCR(
            params={
                "Global.use_cls": False,  # text that stands on its head is not ours
                "Global.max_side_len": LONGEST_SIDE,
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def read(self, picture: Image.Image) -> list[Mark]:
        """Every line, with what the second reader makes of it."""
        grey = picture.convert("L")
        return [self.checked(self.looked_at_again(mark, grey), grey) for mark in self.find(picture)]

    def find(self, picture: Image.Image) -> list[Mark]:
        """Every line, as it is read at first."""
        found = self.run(picture, finds=True)
        if found.boxes is None:
            return []
        return [
            Mark(str(text), cast("Any", tuple((float(x), float(y)) for x, y in box)), float(score))
            for box, text, score in zip(found.boxes, found.txts, found.scores, strict=True)
        ]

    def looked_at_again(self, mark: Mark, grey: Image.Image) -> Mark:
        """The mark, whose letters may have lost something that is seen with some room around them."""
        if len(mark.text) < SHORTEST_LINE or not may_bear_a_mark(mark.text):
            return mark
        return replace(mark, text=with_lost_marks(mark.text, self.look(stretched(line_of(mark, grey)))))

    def look(self, line: Image.Image) -> str:
        """The text of one line, with the marks that RapidOCR sees only faintly."""
        reader = self.engine.text_rec
        decoder = reader.postprocess_op

        def decode(chances: Any, *rest: Any, **more: Any) -> Any:
            return decoder(with_faint_marks(chances, decoder.character), *rest, **more)

        reader.postprocess_op = decode
        try:
            return "".join(self.run(line, finds=False).txts or ())
        finally:
            reader.postprocess_op = decoder

    def checked(self, mark: Mark, grey: Image.Image) -> Mark:
        """The mark with a second reading, where a letter of it could bear a mark."""
        if self.checker is None or len(mark.text) < SHORTEST_LINE or not may_bear_a_mark(mark.text):
            return mark
        return replace(mark, second=self.checker.read(line_of(mark, grey)))

    def run(self, picture: Image.Image, *, finds: bool) -> Any:
        """RapidOCR over a picture, or over one line; whether it finds is said each time, for it remembers."""
        import numpy as np

        blue_first = np.asarray(picture.convert("RGB"))[:, :, ::-1]
        return self.engine(blue_first, use_det=finds, use_cls=False, use_rec=True)


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
        scale *= min(1.0, LONGEST_SIDE / (max(grey.size) * scale))
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
    width = round(min(LONGEST_LINE, max(1.0, shape) * LINE_HEIGHT))
    upper_left, upper_right, lower_right, lower_left = corners
    quad = (*upper_left, *lower_left, *lower_right, *upper_right)  # the order that the library wants
    return readable(grey.transform((width, LINE_HEIGHT), Image.Transform.QUAD, quad, Image.Resampling.BICUBIC))


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


def readable(grey: Image.Image) -> Image.Image:
    """Dark text on a light ground, whatever it was."""
    return ImageOps.invert(grey) if ImageStat.Stat(grey).mean[0] < DARK else grey
