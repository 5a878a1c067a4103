"""What a session shows: read from photographs, from a file, or given as data with the session itself.

    Reader.read(captured) ---> pages, one payload per photograph ---> one day, and which part of it was seen

The reader of photographs is in `photographs`; the others are here.
"""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import UUID

from duly.errors import InvalidArgument, Misconfigured
from duly.ingest.aggregate import aggregate
from duly.ingest.canonical import Observation, observe
from duly.ingest.noise import with_noise
from duly.kernel.canonical import LARGEST_BYTES, Json

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
class Span:
    """A part of a day, in minutes since midnight, both ends included."""

    first: int
    last: int


Coverage = tuple[Span, ...]  # parts of a day; what begins in none of them was not seen


@dataclass(frozen=True, slots=True)
class Page:
    """What one photograph shows, and which part of the day; None is all of it."""

    payload: Mapping[str, Json]
    covers: Coverage | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen, by which eyes, and which part of the day; None is all of it."""

    seen: Observation
    input: Input
    covers: Coverage | None = None
    images: int = 0


class Reader(Protocol):
    """Eyes: one page per photograph; InvalidArgument says, for its person, why there is none."""

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
    pages = await reader.read(captured)
    seen = observe(aggregate([page.payload for page in pages]))
    return Observed(seen, reader.input, coverage_of(pages), len(captured.images))


def coverage_of(pages: Sequence[Page]) -> Coverage | None:
    """The part of the day that these pages show together."""
    parts = [page.covers for page in pages]
    return None if None in parts else tuple(span for part in parts if part for span in part)


def read_payload(path: Path) -> dict[str, Json]:
    """The object in a JSON file; who is told of a refusal need not know where our files lie."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InvalidArgument(f"{path.name}: has more than {LARGEST_BYTES} bytes, which is too much for a day")
        found = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(f"{path.name}: cannot be read ({reason}); FIXTURE_PAYLOAD_PATH names the file") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path.name}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"{path.name}: must hold an object with schedule_date and entries")
    return cast("dict[str, Json]", found)
