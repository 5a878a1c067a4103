"""Recognise a photograph in a child process: decode it, run OCR, return one result per day.

The engine is built for the first photograph and kept for the following ones. A rejected photograph raises one of our
exceptions, whose message is written for the user who sent it.
"""

from dataclasses import dataclass
from functools import lru_cache

from duly.apps.ingest.ocr.engine import EngineConfig, OcrEngine, build_engine
from duly.apps.ingest.ocr.reader import RecognisedDay, read_days
from duly.storage.photo import decode_photo


@dataclass(frozen=True, slots=True)
class RecognitionOptions:
    """Engine to use, and the year of dates that show none."""

    engine: EngineConfig
    default_year: int


def recognise(data: bytes, options: RecognitionOptions) -> tuple[RecognisedDay, ...]:
    """Return the days that a photograph shows."""
    image = decode_photo(data)
    boxes = get_engine(options.engine).recognise(image)
    return read_days(boxes, image.width, image.height, options.default_year)


@lru_cache(maxsize=1)
def get_engine(config: EngineConfig) -> OcrEngine:
    """Return the engine of this process, built on first use."""
    return build_engine(config)
