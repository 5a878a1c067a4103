"""What a session shows: read from photographs, from a file, or given as data with the session itself.

    Reader.read(captured) ---> pages, one per photograph and day ---> a day, which part of it was seen, and further days

The reader of photographs is in `photographs`; the others are here.
"""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import UUID

from duly.apps.ingest.aggregate import aggregate
from duly.apps.ingest.canonical import Observation, observe
from duly.apps.ingest.noise import with_noise
from duly.apps.ingest.pages import Coverage, Page, Span, check_whole, coverage_of, has_shifts, split_days
from duly.canonical_json import MAX_BYTES, Json
from duly.errors import InvalidArgument, Misconfigured

__all__ = [
    "Captured",
    "Coverage",
    "FixtureReader",
    "Input",
    "NoiseReader",
    "Observed",
    "Page",
    "Reader",
    "Span",
    "observed",
    "read_payload",
]


class Input(StrEnum):
    """Where a payload came from; every outcome says it."""

    FIXTURE = "fixture"  # a file of the worker's
    GIVEN = "given"  # data that came with the session
    PHOTOGRAPHS = "ocr"


@dataclass(frozen=True, slots=True)
class Captured:
    """A session as a reader sees it."""

    id: UUID
    user_id: int
    images: tuple[str, ...] = ()  # the names of its photographs, in order; only for who reads photographs


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen, by which eyes, and which part of the day; None is all of it."""

    seen: Observation
    input: Input
    covers: Coverage | None = None
    images: int = 0
    further: tuple[Observation, ...] = ()  # later days, each seen as a whole
    empty_days: tuple[date, ...] = ()  # other days, of which no shift was seen
    notes: tuple[str, ...] = ()  # what is odd in the photographs, and makes nothing doubtful


class Reader(Protocol):
    """Eyes: one page per photograph and day; InvalidArgument says, for its person, why there is none."""

    @property
    def input(self) -> Input:
        """Where its pages come from."""
        ...

    @property
    def has_limits(self) -> bool:
        """Does it watch its own time? Then nobody else does: a session may have to wait for its turn."""
        ...

    async def read(self, captured: Captured) -> Sequence[Page]:
        """The pages of a session, in order."""
        ...

    async def close(self) -> None:
        """Let go of what was kept for reading."""
        ...


@dataclass(frozen=True)
class FixtureReader:
    """Takes a JSON file for what was read: the whole day, an empty one included. Read anew whenever it has changed."""

    path: Path
    input = Input.FIXTURE
    has_limits = False

    async def read(self, captured: Captured) -> Sequence[Page]:  # noqa: ARG002
        """The one page of the file; Misconfigured when there is no such file: no session is to blame for that."""
        self.check()
        return [Page(read_payload(self.path))]

    def check(self) -> None:
        """Refuse a file that is not there, or may not be read; it is not opened, because it may be a pipe."""
        reason = None
        if not self.path.exists():
            reason = os.strerror(errno.ENOENT)
        elif self.path.is_dir():
            reason = os.strerror(errno.EISDIR)
        elif not os.access(self.path, os.R_OK):
            reason = os.strerror(errno.EACCES)
        if reason:
            raise Misconfigured(
                f"FIXTURE_PAYLOAD_PATH={self.path}: cannot be read ({reason}); name a JSON file with schedule_date"
            )

    async def close(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class NoiseReader:
    """Another reader's pages as a bad camera would show them: the same day, in other words, by a seed."""

    reader: Reader
    seed: int

    @property
    def input(self) -> Input:
        """The other reader's."""
        return self.reader.input

    @property
    def has_limits(self) -> bool:
        """As the other reader does."""
        return self.reader.has_limits

    async def read(self, captured: Captured) -> Sequence[Page]:
        """The same pages, spelled differently for every session; one without a date stays as it is."""
        pages = await self.reader.read(captured)
        return [
            replace(page, payload=with_noise(page.payload, f"{self.seed}:{captured.id}:{nth}"))
            if "schedule_date" in page.payload
            else page
            for nth, page in enumerate(pages)
        ]

    async def close(self) -> None:
        """Let the other go."""
        await self.reader.close()


async def observed(reader: Reader, captured: Captured, payload: Mapping[str, Any] | None) -> Observed:
    """What a session shows; what was given with it needs no reader."""
    if payload is not None:
        return Observed(observe(payload), Input.GIVEN)
    pages, images = await reader.read(captured), len(captured.images)
    if len(pages) == 1:
        return Observed(observe(pages[0].payload), reader.input, pages[0].covers, images, notes=pages[0].notes)
    days = split_days(pages)
    shown = {day: each for day, each in days.items() if has_shifts(each) or len(days) == 1}
    assert shown, "of photographs without any shift nothing is read"
    if len(shown) > 1:
        check_whole(shown)
    seen, *further = (observe(aggregate([page.payload for page in each])) for each in shown.values())
    covers = coverage_of(next(iter(shown.values())))
    empty = tuple(day for day in days if day not in shown)
    notes = tuple(note for page in pages for note in page.notes)
    return Observed(seen, reader.input, covers, images, tuple(further), empty, notes)


def read_payload(path: Path) -> dict[str, Json]:
    """The object in a JSON file; who is told of a refusal need not know where our files lie."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidArgument(f"{path.name}: has more than {MAX_BYTES} bytes, which is too much for a day")
        found = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(f"{path.name}: cannot be read ({reason}); FIXTURE_PAYLOAD_PATH names the file") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path.name}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"{path.name}: must hold an object with schedule_date and entries")
    return cast("dict[str, Json]", found)
