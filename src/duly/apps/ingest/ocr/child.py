"""What a child process does with a photograph: decodes it, reads it, and answers with a page for each day.

The engine is built at the first photograph and kept for the next ones. A refusal is an exception of ours, whose words
are for the person who sent it.
"""

from dataclasses import dataclass
from functools import lru_cache

from duly.apps.ingest.ocr.engine import Engine, Equipment, build_engine
from duly.apps.ingest.ocr.page import Page, read_pages
from duly.storage.photo import plain_photo

__all__ = ["Glasses", "engine_for", "look"]


@dataclass(frozen=True, slots=True)
class Glasses:
    """With what a photograph is looked at, and which year is meant when it names none."""

    equipment: Equipment
    default_year: int


def look(data: bytes, glasses: Glasses) -> tuple[Page, ...]:
    """The pages that a photograph shows: one for each day."""
    picture = plain_photo(data)
    marks = engine_for(glasses.equipment).read(picture)
    return read_pages(marks, picture.width, picture.height, glasses.default_year)


@lru_cache(maxsize=1)
def engine_for(equipment: Equipment) -> Engine:
    """The engine of this process."""
    return build_engine(equipment)
