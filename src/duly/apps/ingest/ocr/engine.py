"""OCR engines: find and recognise the text of an image.

    RapidOCR     detects lines and recognises them; its weights are in the package (`rapidocr_engine`). Where Tesseract
                 has the language, it reads doubtful lines too, and `diacritics` reconciles the two.
    Tesseract    alone, where RapidOCR is not installed: lighter, and worse at ignoring what is not text.

An engine is built once per process and kept: its models take a second to load. It reads one image at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from PIL import Image, ImageOps

from duly.apps.ingest.ocr.line_images import to_dark_on_light
from duly.apps.ingest.ocr.rapidocr_engine import RapidOcrEngine
from duly.apps.ingest.ocr.text_box import TextBox
from duly.errors import MissingExtra
from duly.extras import require

EngineName = Literal["auto", "rapidocr", "tesseract"]

RAPIDOCR_MODULES = ("rapidocr", "onnxruntime")
TESSERACT_LANGUAGES = {"sv": "swe", "en": "eng", "nb": "nor", "no": "nor", "da": "dan", "fi": "fin", "de": "deu"}
TESSDATA_DIRECTORIES = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
MIN_IMAGE_WIDTH = 1000  # pixels: narrower images are enlarged first
MAX_IMAGE_SIDE = 2600  # pixels, of the longer side: larger images are reduced first


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Engine, language, and directory of Tesseract's language data."""

    engine: EngineName = "auto"
    language: str = "sv"
    tessdata: str | None = None


class OcrEngine(Protocol):
    """Finds and recognises the text of an image."""

    @property
    def name(self) -> str:
        """Names of the libraries that are used."""
        ...

    def recognise(self, image: Image.Image) -> list[TextBox]:
        """Return all text, in no particular order."""
        ...


def build_engine(config: EngineConfig) -> OcrEngine:
    """Build the best engine that is installed; raise MissingExtra if there is none."""
    language = TESSERACT_LANGUAGES.get(config.language, config.language)
    directory = find_tessdata(language, config.tessdata)
    if config.engine != "tesseract":
        if all(map(find_spec, RAPIDOCR_MODULES)):
            return RapidOcrEngine(TesseractLineReader(directory, language).recognise if directory else None)
        if config.engine == "rapidocr":
            raise MissingExtra("OCR_ENGINE=rapidocr: it is not installed; install it with: pip install 'duly[ocr]'")
    if directory is None:
        raise MissingExtra(
            f"OCR_LANG={config.language}: Tesseract, the only engine to use, has no {language}.traineddata; install it "
            f"(Debian: apt install tesseract-ocr-{language}), or set TESSDATA_PREFIX to its directory"
        )
    return TesseractEngine(directory, language)


def require_engine(engine: EngineName, on_missing: Callable[[str], None] = require) -> None:
    """Return if an engine can be imported, else call `on_missing`, which raises MissingExtra by default."""
    has_rapidocr, has_tesseract = all(map(find_spec, RAPIDOCR_MODULES)), bool(find_spec("tesserocr"))
    if not {"rapidocr": has_rapidocr, "tesseract": has_tesseract, "auto": has_rapidocr or has_tesseract}[engine]:
        on_missing("ocr")


def find_tessdata(language: str, directory: str | None) -> str | None:
    """Return the directory with Tesseract's data of a language, or None; searches only `directory` if it is given."""
    candidates = (directory, str(Path(directory) / "tessdata")) if directory else TESSDATA_DIRECTORIES
    return next((each for each in candidates if (Path(each) / f"{language}.traineddata").is_file()), None)


# Tesseract ------------------------------------------------------------------------------------------------------------


class TesseractLineReader:
    """Recognises one line at a time."""

    def __init__(self, directory: str, language: str) -> None:
        from tesserocr import PSM, PyTessBaseAPI  # type: ignore[import-untyped]

        self.api: Any = PyTessBaseAPI(path=directory, lang=language, psm=PSM.SINGLE_LINE)

    def recognise(self, line: Image.Image) -> str:
        """Return the text of an image of one line."""
        self.api.SetImage(line)
        return str(self.api.GetUTF8Text()).strip()


class TesseractEngine:
    """Recognises the words of a full page."""

    name = "tesseract"

    def __init__(self, directory: str, language: str) -> None:
        from tesserocr import PSM, PyTessBaseAPI

        self.api: Any = PyTessBaseAPI(path=directory, lang=language, psm=PSM.SINGLE_BLOCK)

    def recognise(self, image: Image.Image) -> list[TextBox]:
        """Return a text box for each word."""
        from tesserocr import RIL, iterate_level  # type: ignore[import-untyped]

        grey = ImageOps.autocontrast(to_dark_on_light(image.convert("L")))
        scale = max(1.0, MIN_IMAGE_WIDTH / grey.width)
        scale *= min(1.0, MAX_IMAGE_SIDE / (max(grey.size) * scale))
        if scale != 1.0:
            grey = grey.resize((max(1, round(grey.width * scale)), max(1, round(grey.height * scale))))
        self.api.SetImage(grey)
        self.api.Recognize()
        boxes: list[TextBox] = []
        for word in cast("Iterable[Any]", iterate_level(self.api.GetIterator(), RIL.WORD)):
            text = str(word.GetUTF8Text(RIL.WORD) or "").strip()
            if text and (bounds := word_bounds(word, RIL.WORD)):
                left, top, right, bottom = (side / scale for side in bounds)
                corners = ((left, top), (right, top), (right, bottom), (left, bottom))
                boxes.append(TextBox(text, corners, word.Confidence(RIL.WORD) / 100))
        return boxes


def word_bounds(word: Any, level: int) -> tuple[float, float, float, float] | None:
    """Return left, top, right and bottom of a word, with the height of its row.

    The word's own height would make a dash or lower-case letters seem too small for their neighbours.
    """
    box, baseline = word.BoundingBox(level), word.Baseline(level)
    if not box or not baseline:
        return None
    row = word.RowAttributes()
    bottom = (baseline[0][1] + baseline[1][1]) / 2 - row["descenders"]
    return box[0], bottom - row["row_height"], box[2], bottom
