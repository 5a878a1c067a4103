"""OCR engines: find and recognise the text of an image.

    RapidOCR     detects lines and recognises them; its weights are in the package (`rapidocr_engine`). Where Tesseract
                 has the language, it reads doubtful lines too, and `diacritics` reconciles the two.
    Tesseract    alone, where RapidOCR is not installed: lighter, and worse at ignoring what is not text (`tesseract`).

An engine is built once per process and kept: its models take a second to load. It reads one image at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol

from PIL import Image

from duly.apps.ingest.ocr.rapidocr_engine import RapidOcrEngine
from duly.apps.ingest.ocr.tesseract import TesseractEngine, TesseractLineReader
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
            return RapidOcrEngine(TesseractLineReader(directory, language) if directory else None)
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
