"""Read what a session shows: from photographs, from a file, or from the data given with the session.

    Reader.read(capture) ---> pages, one per photograph and day ---> a canonical day, its coverage, and further days

The reader of photographs is in `photographs.py`; the others are here.
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
from duly.apps.ingest.canonical import CanonicalDay, canonicalize
from duly.apps.ingest.noise import add_noise
from duly.apps.ingest.pages import Coverage, DayPage, check_full_days, combined_coverage, group_by_day, has_shifts
from duly.canonical_json import MAX_BYTES, Json
from duly.errors import InvalidArgument, Misconfigured


class Input(StrEnum):
    """Where a payload came from; part of every result."""

    FIXTURE = "fixture"  # the file of FIXTURE_PAYLOAD_PATH
    GIVEN = "given"  # data in the session's payload column
    PHOTOGRAPHS = "ocr"


@dataclass(frozen=True, slots=True)
class CaptureInput:
    """A session as the input of a reader."""

    id: UUID
    user_id: int
    images: tuple[str, ...] = ()  # object names in order; set only for the reader of photographs


@dataclass(frozen=True, slots=True)
class CaptureReading:
    """What a session shows: a day, where it was read from, and which part of the day it covers (None: the full day)."""

    day: CanonicalDay
    input: Input
    coverage: Coverage | None = None
    images: int = 0
    further_days: tuple[CanonicalDay, ...] = ()  # later days, each covered completely
    empty_days: tuple[date, ...] = ()  # other days, on which no shift was recognized
    notes: tuple[str, ...] = ()  # oddities that do not make the reading unreliable

    @property
    def dates(self) -> list[date]:
        """Every date that the session shows with shifts."""
        return [day.schedule_date for day in (self.day, *self.further_days)]


class Reader(Protocol):
    """Returns one page per photograph and day; raises InvalidArgument, with a text for the person, when it cannot."""

    @property
    def input(self) -> Input:
        """Where its pages come from."""
        ...

    @property
    def has_limits(self) -> bool:
        """Whether the reader limits its own time, so that a session may wait for its turn without a timeout."""
        ...

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:
        """Return the pages of a session, in order."""
        ...

    async def close(self) -> None:
        """Release the reader's resources."""
        ...


@dataclass(frozen=True)
class FixtureReader:
    """Reads every session from one JSON file: a full day, possibly empty."""

    path: Path
    input = Input.FIXTURE
    has_limits = False

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:  # noqa: ARG002
        """Return the file as one page; Misconfigured when it cannot be read, which is not the session's failure."""
        self.check()
        return [DayPage(read_payload(self.path))]

    def check(self) -> None:
        """Raise Misconfigured for a missing or unreadable file; it is not opened, because it may be a pipe."""
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
        """Do nothing: there are no resources."""


@dataclass(frozen=True)
class NoiseReader:
    """Adds seeded OCR-like noise to the pages of another reader, without changing the day."""

    reader: Reader
    seed: int

    @property
    def input(self) -> Input:
        """Where the other reader's pages come from."""
        return self.reader.input

    @property
    def has_limits(self) -> bool:
        """Whether the other reader limits its own time."""
        return self.reader.has_limits

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:
        """Return the pages with different noise for every session; a page without a date is unchanged."""
        pages = await self.reader.read(capture)
        return [
            replace(page, payload=add_noise(page.payload, f"{self.seed}:{capture.id}:{nth}"))
            if "schedule_date" in page.payload
            else page
            for nth, page in enumerate(pages)
        ]

    async def close(self) -> None:
        """Close the other reader."""
        await self.reader.close()


async def read_capture(reader: Reader, capture: CaptureInput, payload: Mapping[str, Any] | None) -> CaptureReading:
    """Return what a session shows: its payload if it has one, else what the reader returns."""
    if payload is not None:
        return CaptureReading(canonicalize(payload), Input.GIVEN)
    pages, images = await reader.read(capture), len(capture.images)
    if len(pages) == 1:
        return CaptureReading(
            canonicalize(pages[0].payload), reader.input, pages[0].coverage, images, notes=pages[0].notes
        )
    days = group_by_day(pages)
    with_shifts = {day: each for day, each in days.items() if has_shifts(each) or len(days) == 1}
    assert with_shifts, "the reader refuses photographs without any shift"
    if len(with_shifts) > 1:
        check_full_days(with_shifts)
    first, *further = (canonicalize(aggregate([page.payload for page in each])) for each in with_shifts.values())
    coverage = combined_coverage(next(iter(with_shifts.values())))
    empty = tuple(day for day in days if day not in with_shifts)
    notes = tuple(note for page in pages for note in page.notes)
    return CaptureReading(first, reader.input, coverage, images, tuple(further), empty, notes)


def read_payload(path: Path) -> dict[str, Json]:
    """Return the object in a JSON file; errors name the file without its directory, because people see them."""
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
