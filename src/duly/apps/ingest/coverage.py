"""Keep the shifts that the photographs of a day could not show.

A photograph shows what fits on a screen. A known shift that is not on it may have been removed, or may be further down:
only one that starts within the covered part of the day was removed. The others stay in the day as the previous version
has them, so a photograph of the morning never removes the evening.
"""

from collections.abc import Mapping
from typing import Any, cast

from duly.apps.ingest.canonical import Snapshot, canonicalize
from duly.apps.ingest.reading import Coverage
from duly.apps.ingest.spelling import minutes_since_midnight
from duly.canonical_json import Json


def keep_uncovered_entries(
    known_payload: Mapping[str, Json] | None, snapshot: Snapshot, coverage: Coverage | None
) -> tuple[Snapshot, int]:
    """Return the snapshot with the known entries that its photographs did not cover, and how many those are."""
    if coverage is None or known_payload is None:
        return snapshot, 0
    entries = cast("list[Json]", snapshot.payload["entries"])
    known_entries = cast("list[dict[str, Any]]", known_payload["entries"])
    uncovered = [entry for entry in known_entries if not is_covered(entry, coverage) and entry not in entries]
    if not uncovered:
        return snapshot, 0
    return canonicalize({**snapshot.payload, "entries": [*entries, *uncovered]}), len(uncovered)


def is_covered(entry: Mapping[str, Any], coverage: Coverage) -> bool:
    """Check whether an entry starts in a covered part of the day."""
    return any(part.first <= minutes_since_midnight(entry["start"]) <= part.last for part in coverage)
