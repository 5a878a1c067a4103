"""The reader of photographs: fetches a session's images, has a child process look at each, and says what they show.

    images --objects--> bytes --child--> pages --every one sound, some day, some shift--> entries

A child may die, hang or want too much memory: that is the photograph's failure and nobody else's, told to its person
in a sentence. What the store or the machine refuses is no photograph's fault, and left to whoever asked to try again.

Sessions are read one after another, the one that came first to its end, so that a line of them is served from its
front. Time is counted while a child looks, and never while a session waits.

Which part of the day was seen is told as well. A page covers the starts from its uppermost shift to its last one; from
the beginning of the day when the head of the day stands above the first, and to the end of the day when there is room
for another below the last. A list that goes on after midnight and is not seen as a whole covers its evening, and of the
night what it shows; one in no order covers what it shows. A known shift that begins outside of what all pages cover was
not seen, and stays as it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import cast

from duly.apps.ingest.ocr.engine import Equipment, must_have_engine
from duly.apps.ingest.ocr.layout import Card
from duly.apps.ingest.ocr.looking import Glasses, look
from duly.apps.ingest.ocr.page import Page as Seen
from duly.apps.ingest.ocr.page import is_over_midnight
from duly.apps.ingest.pages import NO_DATE, Coverage, Page, Span
from duly.apps.ingest.reading import Captured, Input
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes
from duly.canonical_json import Json
from duly.errors import InvalidArgument, MissingExtra, NotFound, TooLarge, Unavailable
from duly.executors.call import Call, Where
from duly.outcomes import Failed
from duly.storage import MAX_PHOTO_BYTES, Objects

__all__ = ["NO_DATE", "Eyes", "PhotographReader", "coverage_of", "entry_of", "page_of"]

FETCH_SECONDS = 120.0  # more than any store of ours lets pass before it gives up by itself
MAX_PROBLEMS = 5  # told in one sentence
Perform = Callable[[Call], Awaitable[object]]


@dataclass(frozen=True)
class Eyes:
    """Looks at one photograph at a time, in a child process."""

    perform: Perform
    equipment: Equipment
    default_year: int | None = None
    seconds: float = 60.0
    memory_bytes: int | None = None

    async def look(self, data: bytes) -> tuple[Seen, ...]:
        """The pages that a photograph shows, one for each day; InvalidArgument says why there is none."""
        await asyncio.to_thread(must_have_engine, self.equipment.engine)
        glasses = Glasses(self.equipment, self.default_year or datetime.now(UTC).year)
        call = Call(look, (data, glasses), Where.CHILD, self.seconds, self.memory_bytes)
        answer = await self.perform(call)
        match answer:
            case tuple():
                return cast("tuple[Seen, ...]", answer)
            case Failed("MISSING_EXTRA", message):
                raise MissingExtra(message)
            case Failed(code, message) as failure:
                raise InvalidArgument(refusal_of(code, message, is_unexpected=failure.is_unexpected))
            case other:
                raise InvalidArgument(f"reading it ended as {type(other).__name__}")


def refusal_of(code: str, message: str, *, is_unexpected: bool) -> str:
    """Why a photograph could not be read, for its person."""
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
    """Reads the images of a session from the store."""

    objects: Objects
    eyes: Eyes
    close_eyes: Callable[[], Awaitable[None]]
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    input = Input.PHOTOGRAPHS
    has_limits = True

    async def read(self, captured: Captured) -> Sequence[Page]:
        """A page for every day of every image, in order; InvalidArgument when one of them cannot be relied on."""
        if not captured.images:
            raise InvalidArgument("the session has no photograph; add one, then close it")
        async with self.turn:
            seen = [await self.look(captured, nth) for nth in range(len(captured.images))]
        check(seen)
        return [page_of(page, nth) for nth, pages in enumerate(seen, 1) for page in pages]

    async def look(self, captured: Captured, nth: int) -> tuple[Seen, ...]:
        """What one of the images shows."""
        try:
            return await self.eyes.look(await self.fetch(captured.images[nth]))
        except (InvalidArgument, NotFound, TooLarge) as error:
            raise InvalidArgument(f"photograph {nth + 1} of {len(captured.images)}: {error}") from None

    async def fetch(self, name: str) -> bytes:
        """The bytes of an image; Unavailable when the store holds us up."""
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                return await self.objects.get(name, MAX_PHOTO_BYTES)
        except TimeoutError:
            raise Unavailable(f"the store did not give {name} within {FETCH_SECONDS:.0f} s") from None

    async def close(self) -> None:
        """End the child."""
        await self.close_eyes()


def check(seen: Sequence[Sequence[Seen]]) -> None:
    """Refuse photographs whose pages cannot all be right, and such as show nothing."""
    problems = [
        f"photograph {nth}: {problem}" if len(seen) > 1 else problem
        for nth, pages in enumerate(seen, 1)
        for page in pages
        for problem in page.problems
    ]
    if problems:
        more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
        raise InvalidArgument(
            f"not everything can be relied on: {'; '.join(problems[:MAX_PROBLEMS])}{more}. Send a clearer photograph, "
            "or the day as data"
        )
    if not any(page.shifts for pages in seen for page in pages):
        raise InvalidArgument(
            "no shift was recognised in the photographs, and nothing was changed; send one that shows the day's list"
        )
    if not any(page.schedule_date for pages in seen for page in pages):
        raise InvalidArgument(NO_DATE)


def page_of(seen: Seen, photograph: int) -> Page:
    """A page of a photograph as payload, and which part of the day it covers."""
    payload: dict[str, Json] = {"entries": [entry_of(card) for card in seen.shifts]}
    if seen.schedule_date:
        payload["schedule_date"] = seen.schedule_date
    return Page(payload, coverage_of(seen), photograph, seen.notes)


def entry_of(card: Card) -> dict[str, Json]:
    """A shift as an entry of a payload: who and what for in its title, as `shift` takes them apart."""
    title = f"{card.customer} • {card.title}" if card.customer else card.title
    entry: dict[str, Json] = {"start": card.start, "end": card.end, "title": title}
    if card.location:
        entry["location"] = card.location
    if card.address:
        entry["address"] = card.address
    return entry


def coverage_of(seen: Seen) -> Coverage:
    """The part of the day that a page shows, as far as the order of its shifts tells."""
    starts = [minutes(card.start) for card in seen.shifts]
    if not starts:
        return ()
    if seen.begins and seen.ends:
        return (Span(0, MINUTES_OF_DAY),)
    back = [nth for nth, (earlier, later) in enumerate(pairwise(starts), 1) if later < earlier]
    if not back:
        return (Span(0 if seen.begins else starts[0], MINUTES_OF_DAY if seen.ends else starts[-1]),)
    texts = [card.start for card in seen.shifts]
    if len(back) == 1 and is_over_midnight(texts, texts[back[0] - 1], texts[back[0]]):
        return (Span(starts[0], MINUTES_OF_DAY), *(Span(start, start) for start in starts[back[0] :]))
    return tuple(Span(start, start) for start in sorted(set(starts)))
