"""Read a screen as a worker does, in a child process with the same engine and limits, and measure what it costs.

Readings can be stored in a file; the same image is then not read again.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from duly.apps.ingest.ocr.engine import EngineConfig
from duly.apps.ingest.ocr.reader import RecognisedDay, get_engine, read_days
from duly.apps.ingest.ocr.text_box import TextBox
from duly.apps.ingest.photographs import OcrRunner
from duly.errors import InvalidArgument, MissingExtra
from duly.executors.call import Call, Executor
from duly.outcomes import Failed
from duly.storage.photo import decode_photo
from tools.bench.processes import read_peak_bytes

MEGABYTE = 1024 * 1024
YEAR = 2026  # of dates without a year
RESET_PEAK_RSS = "5"  # written to clear_refs to reset the peak


@dataclass(frozen=True)
class Reading:
    """The text boxes that an engine recognised on a screen, with their cost; or why it failed."""

    engine: str
    width: int
    height: int
    boxes: Sequence[TextBox]
    cpu_s: float
    peak_mb: float
    failure: str = ""

    @property
    def ways(self) -> Sequence[str]:
        """Return the ways it can be scored: also without the second engine, if it had one."""
        return {"rapidocr and tesseract": ("checked", "alone"), "rapidocr": ("alone",)}.get(self.engine, (self.engine,))

    def page(self, way: str) -> RecognisedDay:
        """Return the day that the screen shows, read this way; one read as several days counts as failed."""
        if self.failure:
            return RecognisedDay(None, (), (self.failure,), shows_day_start=False, shows_day_end=False)
        boxes = [replace(box, second_engine_text=None) for box in self.boxes] if way == "alone" else self.boxes
        pages = read_days(boxes, self.width, self.height, YEAR)
        if len(pages) == 1:
            return pages[0]
        days = ", ".join(page.schedule_date or "a day without a date" for page in pages)
        return RecognisedDay(
            None, (), (f"it was read as {len(pages)} days: {days}",), shows_day_start=False, shows_day_end=False
        )


class ScreenReader:
    """Reads screens one after another in a child process."""

    def __init__(self, ocr_runner: OcrRunner) -> None:
        self.ocr_runner = ocr_runner
        self.engine = ""

    async def read(self, data: bytes) -> Reading:
        """Return the reading of a screen; one that crashes the child or times out counts as failed."""
        self.engine = self.engine or await self.call_in_child(build_engine_in_child, self.ocr_runner.engine_config)
        try:
            width, height, boxes, cpu_s, peak_mb = await self.call_in_child(
                recognise_in_child, data, self.ocr_runner.engine_config
            )
        except InvalidArgument as error:
            return Reading(self.engine, 0, 0, (), 0.0, 0.0, failure=str(error))
        return Reading(self.engine, width, height, boxes, cpu_s, peak_mb)

    async def call_in_child(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function in the child process, within the limits of a worker."""
        call = Call(function, arguments, Executor.PROCESS, self.ocr_runner.seconds, self.ocr_runner.memory_bytes)
        match await self.ocr_runner.perform(call):
            case Failed("MISSING_EXTRA", message):
                raise MissingExtra(message)
            case Failed(code, message):
                raise InvalidArgument(f"it was not read: {code}: {message}")
            case answer:
                return answer


def build_engine_in_child(engine_config: EngineConfig) -> str:
    """Build the engine of this process; return its name."""
    return get_engine(engine_config).name


def recognise_in_child(data: bytes, engine_config: EngineConfig) -> tuple[int, int, list[TextBox], float, float]:
    """Recognise a screen in this process; return width, height, text boxes, CPU seconds and peak megabytes."""
    engine = get_engine(engine_config)
    with suppress(OSError):  # a kernel without this reports the peak since the process started
        Path("/proc/self/clear_refs").write_text(RESET_PEAK_RSS)
    began = time.process_time()
    picture = decode_photo(data)
    boxes = engine.recognise(picture)
    spent = time.process_time() - began
    return picture.width, picture.height, boxes, spent, read_peak_bytes("self") / MEGABYTE


class ReadingCache:
    """Readings by the hash of their image, stored in a file if one is given."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
        self.found = {each["picture"]: parse_reading(each) for each in map(json.loads, lines) if "picture" in each}

    def find(self, data: bytes) -> Reading | None:
        """Return the stored reading of an image, or None."""
        return self.found.get(hash_image(data))

    def write(self, name: str, data: bytes, reading: Reading) -> None:
        """Store a reading; one that failed is not stored, so it is tried again."""
        if self.path and not reading.failure:
            with self.path.open("a", encoding="utf-8") as file:
                note = {"name": name, "picture": hash_image(data), **asdict(reading)}
                file.write(json.dumps(note, ensure_ascii=False) + "\n")


def hash_image(data: bytes) -> str:
    """Return the key of an image; its name is none, because a seed may draw another image with other fonts."""
    return hashlib.sha256(data).hexdigest()


def parse_reading(note: Mapping[str, Any]) -> Reading:
    """Parse a stored reading."""
    boxes: list[TextBox] = []
    for each in note["boxes"]:
        one, two, three, four = ((x, y) for x, y in each["corners"])
        boxes.append(TextBox(each["text"], (one, two, three, four), each["confidence"], each["second_engine_text"]))
    return Reading(note["engine"], note["width"], note["height"], boxes, note["cpu_s"], note["peak_mb"])
