"""What a session shows: read from photographs, from a file, or given as data with the session itself.

    Reader.read(captured) ---> pages, one payload per photograph ---> one day

A reader of photographs fits in here beside the others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import UUID

from duly.errors import InvalidArgument
from duly.ingest.aggregate import aggregate
from duly.ingest.canonical import Observation, observe
from duly.ingest.noise import with_noise
from duly.kernel.canonical import LARGEST_BYTES, Json

__all__ = ["Captured", "FixtureReader", "Input", "NoiseReader", "Observed", "Reader", "observed", "read_payload"]


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


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen, and by which eyes."""

    seen: Observation
    input: Input


class Reader(Protocol):
    """Eyes: one payload per photograph; InvalidArgument says, for its person, why there is none."""

    @property
    def input(self) -> Input:
        """Where its pages come from."""
        ...

    async def read(self, captured: Captured) -> Sequence[Mapping[str, Json]]:
        """The pages of a session, in order."""
        ...


@dataclass(frozen=True)
class FixtureReader:
    """Takes a JSON file for what was read: the whole day, an empty one included. Read anew whenever it has changed."""

    path: Path
    input = Input.FIXTURE

    async def read(self, captured: Captured) -> Sequence[Mapping[str, Json]]:  # noqa: ARG002
        """The one page of the file."""
        return [read_payload(self.path)]


@dataclass(frozen=True)
class NoiseReader:
    """Another reader's pages as a bad camera would show them: the same day, in other words, by a seed."""

    reader: Reader
    seed: int

    @property
    def input(self) -> Input:
        """The other reader's."""
        return self.reader.input

    async def read(self, captured: Captured) -> Sequence[Mapping[str, Json]]:
        """The same pages, spelled differently for every session."""
        pages = await self.reader.read(captured)
        return [with_noise(page, f"{self.seed}:{captured.id}:{nth}") for nth, page in enumerate(pages)]


async def observed(reader: Reader, captured: Captured, payload: Mapping[str, Any] | None) -> Observed:
    """What a session shows; what was given with it needs no reader."""
    if payload is not None:
        return Observed(observe(payload), Input.GIVEN)
    pages = await reader.read(captured)
    return Observed(observe(aggregate(pages)), reader.input)


def read_payload(path: Path) -> dict[str, Json]:
    """The object in a JSON file."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InvalidArgument(f"{path}: has more than {LARGEST_BYTES} bytes, which is too much for a day")
        found = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(f"{path}: cannot be read ({reason}); FIXTURE_PAYLOAD_PATH names the file") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"{path}: must hold an object with schedule_date and entries")
    return cast("dict[str, Json]", found)
