"""One screen read as a worker reads it: in a child process with the same equipment and limits; and what it cost.

What was read can be written down, and is not read again as long as the picture is the same.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.processes import peak_bytes_of
from duly.apps.ingest.ocr.engine import Equipment
from duly.apps.ingest.ocr.looking import engine_for
from duly.apps.ingest.ocr.mark import Mark
from duly.apps.ingest.ocr.page import Page, read_pages
from duly.apps.ingest.photographs import Eyes
from duly.errors import InvalidArgument, MissingExtra
from duly.executors.call import Call, Where
from duly.outcomes import Failed
from duly.storage.photo import plain_photo

__all__ = ["YEAR", "Desk", "Notes", "Reading"]

MEGABYTE = 1024 * 1024
YEAR = 2026  # of every screen that names none
FORGET_PEAK = "5"  # what the kernel wants to hear at clear_refs


@dataclass(frozen=True)
class Reading:
    """What an engine made of a screen, and what that cost; or why there is nothing."""

    engine: str
    width: int
    height: int
    marks: Sequence[Mark]
    cpu_s: float
    peak_mb: float
    failure: str = ""

    @property
    def ways(self) -> Sequence[str]:
        """How it can be scored: without its second engine too, where it had one."""
        return {"rapidocr and tesseract": ("checked", "alone"), "rapidocr": ("alone",)}.get(self.engine, (self.engine,))

    def page(self, way: str) -> Page:
        """The page that it makes, read this way; a screen shows one day, and one read as several was not read."""
        if self.failure:
            return Page(None, (), (self.failure,), begins=False, ends=False)
        marks = [replace(mark, second=None) for mark in self.marks] if way == "alone" else self.marks
        pages = read_pages(marks, self.width, self.height, YEAR)
        if len(pages) == 1:
            return pages[0]
        days = ", ".join(page.schedule_date or "a day without a date" for page in pages)
        return Page(None, (), (f"it was read as {len(pages)} days: {days}",), begins=False, ends=False)


class Desk:
    """Where screens are read, one after the other, by a child."""

    def __init__(self, eyes: Eyes) -> None:
        self.eyes = eyes
        self.engine = ""

    async def read(self, data: bytes) -> Reading:
        """What a screen says; one that ends or outstays the child was not read, and counts."""
        self.engine = self.engine or await self.called(build_here, self.eyes.equipment)
        try:
            width, height, marks, cpu_s, peak_mb = await self.called(read_here, data, self.eyes.equipment)
        except InvalidArgument as error:
            return Reading(self.engine, 0, 0, (), 0.0, 0.0, failure=str(error))
        return Reading(self.engine, width, height, marks, cpu_s, peak_mb)

    async def called(self, function: Callable[..., Any], *arguments: object) -> Any:
        """What a function gives in the child, within the limits of a worker's."""
        call = Call(function, arguments, Where.CHILD, self.eyes.seconds, self.eyes.memory_bytes)
        match await self.eyes.perform(call):
            case Failed("MISSING_EXTRA", message):
                raise MissingExtra(message)
            case Failed(code, message):
                raise InvalidArgument(f"it was not read: {code}: {message}")
            case answer:
                return answer


def build_here(equipment: Equipment) -> str:
    """The engine of this process, built; what it consists of."""
    return engine_for(equipment).name


def read_here(data: bytes, equipment: Equipment) -> tuple[int, int, list[Mark], float, float]:
    """A screen read in this process: width, height, marks, CPU-seconds, and the most megabytes meanwhile."""
    engine = engine_for(equipment)
    with suppress(OSError):  # a kernel that cannot forget tells the peak so far
        Path("/proc/self/clear_refs").write_text(FORGET_PEAK)
    began = time.process_time()
    picture = plain_photo(data)
    marks = engine.read(picture)
    spent = time.process_time() - began
    return picture.width, picture.height, marks, spent, peak_bytes_of("self") / MEGABYTE


class Notes:
    """Readings by the picture they are of, kept in a file where one is named."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
        self.found = {each["picture"]: reading_of(each) for each in map(json.loads, lines) if "picture" in each}

    def find(self, data: bytes) -> Reading | None:
        """What was read of this picture."""
        return self.found.get(picture_of(data))

    def write(self, name: str, data: bytes, reading: Reading) -> None:
        """Write a reading down; one that failed is tried again the next time."""
        if self.path and not reading.failure:
            with self.path.open("a", encoding="utf-8") as file:
                note = {"name": name, "picture": picture_of(data), **asdict(reading)}
                file.write(json.dumps(note, ensure_ascii=False) + "\n")


def picture_of(data: bytes) -> str:
    """What a picture is known by: a seed may be drawn anew, with other words or fonts."""
    return hashlib.sha256(data).hexdigest()


def reading_of(note: Mapping[str, Any]) -> Reading:
    """A reading as it was written down."""
    marks: list[Mark] = []
    for each in note["marks"]:
        one, two, three, four = ((x, y) for x, y in each["corners"])
        marks.append(Mark(each["text"], (one, two, three, four), each["confidence"], each["second"]))
    return Reading(note["engine"], note["width"], note["height"], marks, note["cpu_s"], note["peak_mb"])
