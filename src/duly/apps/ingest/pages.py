"""The pages of a session's photographs, by day.

A page is what one photograph shows of one day, and the part of the day that it covers. Pages without a date get the one
date that the others show. When there are several days, each must be covered completely: it becomes a session given as
data, and data is always the full day. A day among others on which no shift was recognized is left as it is known.

A photograph shows what fits on a screen. A known shift that is not on it may have been removed, or may be further down:
only one that starts within the covered part of the day was removed. The others stay in the day as the previous version
has them, so a photograph of the morning never removes the evening.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast
from uuid import UUID, uuid5

from duly.apps.ingest.canonical import CanonicalDay, canonicalize
from duly.apps.ingest.spelling import MINUTES_OF_DAY, minutes_since_midnight, parse_date
from duly.canonical_json import Json
from duly.errors import InvalidArgument

MAX_DAYS = 31  # per session
NO_DATE = "schedule_date: none of the photographs shows a date; send one with the head of the day in it"


@dataclass(frozen=True, slots=True)
class MinuteRange:
    """A part of a day, in minutes since midnight; both ends are included."""

    first: int
    last: int


Coverage = tuple[MinuteRange, ...]  # shifts that start outside of these parts of a day were not visible


@dataclass(frozen=True, slots=True)
class DayPage:
    """What a photograph shows of one day, and which part of the day it covers; None is the full day."""

    payload: Mapping[str, Json]
    coverage: Coverage | None = None
    photograph: int = 1  # its number in the session, from 1
    notes: tuple[str, ...] = ()  # oddities that do not make the reading unreliable


def group_by_day(pages: Sequence[DayPage]) -> dict[date, list[DayPage]]:
    """Return the pages of each day, the earliest day first; InvalidArgument when a page's day is unknown."""
    dates = {nth: day for nth, page in enumerate(pages) if (day := page_date(page))}
    days = sorted({*dates.values()})
    if not days:
        raise InvalidArgument(NO_DATE)
    if len(days) > MAX_DAYS:
        raise InvalidArgument(
            f"schedule_date: the photographs show {len(days)} days, more than {MAX_DAYS}; send them in several sessions"
        )
    for nth, page in enumerate(pages):
        if nth not in dates and len(days) > 1:
            raise InvalidArgument(
                f"schedule_date: photograph {page.photograph} shows no date, and the others show {format_dates(days)}; "
                "send it with the head of its day in it, or each day in a session of its own"
            )
    return {day: [page for nth, page in enumerate(pages) if dates.get(nth, days[0]) == day] for day in days}


def page_date(page: DayPage) -> date | None:
    """Return the date that a page shows."""
    value = page.payload.get("schedule_date")
    return None if value is None else parse_date("schedule_date", value)


def has_shifts(pages: Sequence[DayPage]) -> bool:
    """Return whether one of these pages shows a shift."""
    return any(page.payload.get("entries") for page in pages)


def check_full_days(days: Mapping[date, Sequence[DayPage]]) -> None:
    """Raise InvalidArgument when one of several days is not covered from beginning to end."""
    partial = [day for day, pages in days.items() if not covers_full_day(combined_coverage(pages))]
    if not partial:
        return
    them = partial[0].isoformat() if len(partial) == 1 else "each of them"
    others = ", and the other days again" if len(partial) < len(days) else ""
    raise InvalidArgument(
        f"schedule_date: the photographs show several days, {format_dates(list(days))}, and do not show "
        f"{format_dates(partial)} from beginning to end; send {them} by itself{others}"
    )


def combined_coverage(pages: Sequence[DayPage]) -> Coverage | None:
    """Return the parts of the day that these pages cover together; None is the full day."""
    parts = [page.coverage for page in pages]
    return None if None in parts else tuple(minutes for part in parts if part for minutes in part)


def covers_full_day(coverage: Coverage | None) -> bool:
    """Return whether parts of a day leave no gap from midnight to midnight."""
    if coverage is None:
        return True
    reached = 0
    for part in sorted(coverage, key=lambda part: part.first):
        if part.first <= reached:
            reached = max(reached, part.last)
    return reached >= MINUTES_OF_DAY


def further_session_id(session_id: UUID, schedule_date: date) -> UUID:
    """Return the id of the session that a further day becomes; reading the session again gives the same id."""
    return uuid5(session_id, schedule_date.isoformat())


def format_dates(days: Sequence[date]) -> str:
    """Format dates as a list in a sentence."""
    *others, last = (day.isoformat() for day in days)
    return f"{', '.join(others)} and {last}" if others else last


# What photographs do not cover ----------------------------------------------------------------------------------------


def keep_uncovered_entries(
    known_payload: Mapping[str, Json] | None, captured: CanonicalDay, coverage: Coverage | None
) -> tuple[CanonicalDay, int]:
    """Return the captured day with the known entries that its photographs did not cover, and how many those are."""
    if coverage is None or known_payload is None:
        return captured, 0
    entries = cast("list[Json]", captured.payload["entries"])
    known_entries = cast("list[dict[str, Any]]", known_payload["entries"])
    uncovered = [entry for entry in known_entries if not is_covered(entry, coverage) and entry not in entries]
    if not uncovered:
        return captured, 0
    return canonicalize({**captured.payload, "entries": [*entries, *uncovered]}), len(uncovered)


def is_covered(entry: Mapping[str, Any], coverage: Coverage) -> bool:
    """Return whether an entry starts in a covered part of the day."""
    return any(part.first <= minutes_since_midnight(entry["start"]) <= part.last for part in coverage)
