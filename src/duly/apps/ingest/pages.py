"""The pages of a session's photographs, day by day.

A page is what one photograph shows of one day, and the part of the day that it covers. Pages without a date are taken
for the one date that the others show. Of several days each must be seen as a whole: it becomes data, and a day that is
given as data is always the whole day. A day among others of which no shift was seen is left as it is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID, uuid5

from duly.apps.ingest.spelling import MINUTES_OF_DAY, read_date
from duly.canonical_json import Json
from duly.errors import InvalidArgument

__all__ = [
    "MAX_DAYS",
    "NO_DATE",
    "Coverage",
    "Page",
    "Span",
    "check_whole",
    "coverage_of",
    "further_session_id",
    "has_shifts",
    "in_words",
    "split_days",
]

MAX_DAYS = 31  # of one session
NO_DATE = "schedule_date: none of the photographs shows a date; send one with the head of the day in it"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a day, in minutes since midnight, both ends included."""

    first: int
    last: int


Coverage = tuple[Span, ...]  # parts of a day; what begins in none of them was not seen


@dataclass(frozen=True, slots=True)
class Page:
    """What a photograph shows of one day, and which part of the day; None is all of it."""

    payload: Mapping[str, Json]
    covers: Coverage | None = None
    photograph: int = 1  # its number in the session
    notes: tuple[str, ...] = ()  # what is odd, and makes nothing doubtful


def split_days(pages: Sequence[Page]) -> dict[date, list[Page]]:
    """Return the pages of each day, the earliest day first; InvalidArgument when a page has no day."""
    dates = {nth: day for nth, page in enumerate(pages) if (day := date_of(page))}
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
                f"schedule_date: photograph {page.photograph} shows no date, and the others show {in_words(days)}; "
                "send it with the head of its day in it, or each day in a session of its own"
            )
    return {day: [page for nth, page in enumerate(pages) if dates.get(nth, days[0]) == day] for day in days}


def date_of(page: Page) -> date | None:
    """Return the date that a page shows."""
    shown = page.payload.get("schedule_date")
    return None if shown is None else read_date("schedule_date", shown)


def has_shifts(pages: Sequence[Page]) -> bool:
    """Check whether one of these pages shows a shift."""
    return any(page.payload.get("entries") for page in pages)


def check_whole(days: Mapping[date, Sequence[Page]]) -> None:
    """Refuse several days of which one is not seen from beginning to end."""
    partial = [day for day, pages in days.items() if not is_whole(coverage_of(pages))]
    if not partial:
        return
    them = partial[0].isoformat() if len(partial) == 1 else "each of them"
    others = ", and the other days again" if len(partial) < len(days) else ""
    raise InvalidArgument(
        f"schedule_date: the photographs show several days, {in_words(list(days))}, and do not show "
        f"{in_words(partial)} from beginning to end; send {them} by itself{others}"
    )


def coverage_of(pages: Sequence[Page]) -> Coverage | None:
    """Return the part of the day that these pages show together."""
    parts = [page.covers for page in pages]
    return None if None in parts else tuple(span for part in parts if part for span in part)


def is_whole(covers: Coverage | None) -> bool:
    """Check whether parts of a day overlap from beginning to end."""
    if covers is None:
        return True
    reached = 0
    for span in sorted(covers, key=lambda span: span.first):
        if span.first <= reached:
            reached = max(reached, span.last)
    return reached >= MINUTES_OF_DAY


def further_session_id(session_id: UUID, schedule_date: date) -> UUID:
    """Return the id of the session that a further day becomes: the same however often the session is read."""
    return uuid5(session_id, schedule_date.isoformat())


def in_words(days: Sequence[date]) -> str:
    """Return days as a sentence lists them."""
    *others, last = (day.isoformat() for day in days)
    return f"{', '.join(others)} and {last}" if others else last
