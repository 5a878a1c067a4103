"""Tesseract: a second reading of single lines, or the only engine for a full page."""

from collections.abc import Iterable
from typing import Any, cast

from PIL import Image, ImageOps

from duly.apps.ingest.ocr.line_images import to_dark_on_light
from duly.apps.ingest.ocr.text_box import TextBox

MIN_IMAGE_WIDTH = 1000  # pixels: narrower images are enlarged first
MAX_IMAGE_SIDE = 2600  # pixels, of the longer side: larger images are reduced first


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
