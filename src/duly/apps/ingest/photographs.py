"""The reader of photographs: fetches a session's images and runs OCR on each in a child process.

    images --object store--> bytes --child process--> pages --checked--> entries

A child process may die, hang or exceed its memory limit: then that photograph, and no other, fails with a text for its
person. Errors of the object store or the machine are infrastructure errors, which the caller retries.

Sessions are read one after another, each to its end, so that a backlog is worked off in order. The timeout counts the
time in the child process, never the time in the queue.

A page also has the part of the day that it covers: the starts from its first shift to its last one; from the beginning
of the day when the header of the day is above the first shift, and to the end of the day when there is room for another
shift below the last. A list that continues after midnight and is not fully visible covers the evening, and the starts
that it shows of the night; an unordered list covers the starts that it shows. Known shifts that start outside of what
all pages cover were not visible, and stay as they are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import cast

from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.engine import EngineConfig, require_engine
from duly.apps.ingest.ocr.reader import RecognisedDay, RecognitionOptions, is_over_midnight, recognise
from duly.apps.ingest.pages import NO_DATE, Coverage, DayPage, MinuteRange
from duly.apps.ingest.reading import CaptureInput, Input
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes_since_midnight
from duly.canonical_json import Json
from duly.errors import InvalidArgument, MissingExtra, NotFound, TooLarge, Unavailable
from duly.executors.call import Call, Executor
from duly.outcomes import Failed
from duly.storage import MAX_PHOTO_BYTES, ObjectStore

FETCH_SECONDS = 120.0  # longer than the timeouts of the object stores
MAX_PROBLEMS = 5  # listed in one error
Perform = Callable[[Call], Awaitable[object]]


@dataclass(frozen=True)
class OcrRunner:
    """Runs OCR on one photograph at a time, in a child process."""

    perform: Perform
    engine_config: EngineConfig
    default_year: int | None = None
    seconds: float = 60.0
    memory_bytes: int | None = None

    async def recognise(self, data: bytes) -> tuple[RecognisedDay, ...]:
        """Return the pages of a photograph, one for each day; InvalidArgument says why it cannot be read."""
        await asyncio.to_thread(require_engine, self.engine_config.engine)
        options = RecognitionOptions(self.engine_config, self.default_year or datetime.now(UTC).year)
        call = Call(recognise, (data, options), Executor.PROCESS, self.seconds, self.memory_bytes)
        answer = await self.perform(call)
        match answer:
            case tuple():
                return cast("tuple[RecognisedDay, ...]", answer)
            case Failed("MISSING_EXTRA", message):
                raise MissingExtra(message)
            case Failed(code, message) as failure:
                raise InvalidArgument(describe_ocr_failure(code, message, is_unexpected=failure.is_unexpected))
            case other:
                raise InvalidArgument(f"reading it ended as {type(other).__name__}")


def describe_ocr_failure(code: str, message: str, *, is_unexpected: bool) -> str:
    """Return why a photograph could not be read, for its person."""
    match code:
        case "TIMEOUT":
            return f"reading it {message}; send a smaller or clearer photograph"
        case "CRASHED":
            return f"reading it failed ({message}); send another photograph of the day"
        case _ if is_unexpected:
            return f"reading it failed, and that is not your fault ({message}); send the day again"
        case _:
            return message


@dataclass(frozen=True)
class PhotographReader:
    """Reads the images of a session from the object store."""

    objects: ObjectStore
    ocr: OcrRunner
    close_runner: Callable[[], Awaitable[None]]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    input = Input.PHOTOGRAPHS
    has_limits = True

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:
        """Return a page for every day of every image, in order; InvalidArgument when one of them is unreliable."""
        if not capture.images:
            raise InvalidArgument("the session has no photograph; add one, then close it")
        async with self.lock:
            photographs = [await self.read_image(capture, nth) for nth in range(len(capture.images))]
        check_pages(photographs)
        return [to_day_page(page, nth) for nth, pages in enumerate(photographs, 1) for page in pages]

    async def read_image(self, capture: CaptureInput, nth: int) -> tuple[RecognisedDay, ...]:
        """Return the pages of one image; errors name its number."""
        try:
            return await self.ocr.recognise(await self.fetch(capture.images[nth]))
        except (InvalidArgument, NotFound, TooLarge) as error:
            raise InvalidArgument(f"photograph {nth + 1} of {len(capture.images)}: {error}") from None

    async def fetch(self, name: str) -> bytes:
        """Return the bytes of an image; Unavailable when the object store does not answer in time."""
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                return await self.objects.get(name, MAX_PHOTO_BYTES)
        except TimeoutError:
            raise Unavailable(f"the object store did not return {name} within {FETCH_SECONDS:.0f} s") from None

    async def close(self) -> None:
        """Stop the child process."""
        await self.close_runner()


def check_pages(photographs: Sequence[Sequence[RecognisedDay]]) -> None:
    """Raise InvalidArgument when a page is unreliable, or when no page has a shift or no page has a date."""
    problems = [
        f"photograph {nth}: {problem}" if len(photographs) > 1 else problem
        for nth, pages in enumerate(photographs, 1)
        for page in pages
        for problem in page.problems
    ]
    if problems:
        more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
        raise InvalidArgument(
            f"not everything can be relied on: {'; '.join(problems[:MAX_PROBLEMS])}{more}. Send a clearer photograph, "
            "or the day as data"
        )
    if not any(page.shifts for pages in photographs for page in pages):
        raise InvalidArgument(
            "no shift was recognised in the photographs, and nothing was changed; send one that shows the day's list"
        )
    if not any(page.schedule_date for pages in photographs for page in pages):
        raise InvalidArgument(NO_DATE)


def to_day_page(day: RecognisedDay, photograph: int) -> DayPage:
    """Convert a recognised day to a payload with its coverage."""
    payload: dict[str, Json] = {"entries": [entry_from_shift(shift) for shift in day.shifts]}
    if day.schedule_date:
        payload["schedule_date"] = day.schedule_date
    return DayPage(payload, page_coverage(day), photograph, day.notes)


def entry_from_shift(shift: RecognisedShift) -> dict[str, Json]:
    """Convert a recognised shift to an entry; its title joins customer and work, as `shift.py` parses it."""
    title = f"{shift.customer} • {shift.title}" if shift.customer else shift.title
    entry: dict[str, Json] = {"start": shift.start, "end": shift.end, "title": title}
    if shift.location:
        entry["location"] = shift.location
    if shift.address:
        entry["address"] = shift.address
    return entry


def page_coverage(day: RecognisedDay) -> Coverage:
    """Return the part of the day that a page covers, judging by the order of its shifts."""
    starts = [minutes_since_midnight(shift.start) for shift in day.shifts]
    if not starts:
        return ()
    if day.shows_day_start and day.shows_day_end:
        return (MinuteRange(0, MINUTES_OF_DAY),)
    drops = [nth for nth, (earlier, later) in enumerate(pairwise(starts), 1) if later < earlier]
    if not drops:
        first = 0 if day.shows_day_start else starts[0]
        return (MinuteRange(first, MINUTES_OF_DAY if day.shows_day_end else starts[-1]),)
    texts = [shift.start for shift in day.shifts]
    if len(drops) == 1 and is_over_midnight(texts, texts[drops[0] - 1], texts[drops[0]]):
        return (MinuteRange(starts[0], MINUTES_OF_DAY), *(MinuteRange(start, start) for start in starts[drops[0] :]))
    return tuple(MinuteRange(start, start) for start in sorted(set(starts)))
