"""What photographs did not show stays as it is known.

A photograph shows what fits on a screen. A shift that it does not show may be gone, or further down: only one that
begins within the part of the day that was covered is gone. The others are kept in the day, as the version before had
them, so that a glance at the morning never removes the evening.
"""

from collections.abc import Mapping
from typing import Any, cast

from duly.apps.ingest.canonical import Observation, observe
from duly.apps.ingest.reading import Coverage
from duly.apps.ingest.spelling import minutes
from duly.canonical_json import Json

__all__ = ["with_unseen"]


def with_unseen(
    known: Mapping[str, Json] | None, seen: Observation, covers: Coverage | None
) -> tuple[Observation, int]:
    """What was seen together with what is known and could not be seen, and how much that is."""
    if covers is None or known is None:
        return seen, 0
    shown = cast("list[Json]", seen.payload["entries"])
    unseen = [entry for entry in entries_of(known) if not is_covered(entry, covers) and entry not in shown]
    return (observe({**seen.payload, "entries": [*shown, *unseen]}), len(unseen)) if unseen else (seen, 0)


def entries_of(payload: Mapping[str, Json]) -> list[dict[str, Any]]:
    """The entries of a canonical payload."""
    return cast("list[dict[str, Any]]", payload["entries"])


def is_covered(entry: Mapping[str, Any], covers: Coverage) -> bool:
    """Does an entry begin in a part of the day that was seen?"""
    return any(span.first <= minutes(entry["start"]) <= span.last for span in covers)
