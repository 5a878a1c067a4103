"""Events that one application adds to the calendar feed of another: local times, without a zone."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class CalendarWindow:
    """The part of a calendar that a feed has: how far before and after an instant, and at most how many events."""

    at: datetime
    past: timedelta
    future: timedelta
    max_events: int


@dataclass(frozen=True)
class CalendarEvent:
    """An event from one local time of its person to another; if that is not later, it ends on the next day."""

    uid: str
    starts: datetime
    ends: datetime
    name: str
    location: str
    changed_at: datetime  # an instant
    is_cancelled: bool = False
