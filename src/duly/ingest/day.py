"""What a capture makes of a day: perhaps a version, the events that lead to it, and what its person is told."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from uuid import UUID

from duly.errors import InvalidArgument
from duly.ingest.canonical import CANONICALIZER, Observation, observe
from duly.ingest.diff import diff
from duly.ingest.notices import Event, Notice, events_of, notices_of
from duly.ingest.shift import Shift, read_shift
from duly.kernel.canonical import Json

__all__ = ["Day", "Step", "day_of", "take"]


@dataclass(frozen=True)
class Day:
    """A day as it is known: its version, the hash of that, and its shifts."""

    user_id: int
    schedule_date: date
    version: int = 0
    payload_hash: str | None = None
    shifts: tuple[Shift, ...] | None = None  # None: nobody has looked at them yet
    events: int = 0  # how many there were
    canonicalizer: int | None = CANONICALIZER  # that gave the shifts their form
    known: frozenset[Shift] = frozenset()  # where another did: the shifts in the form that ours gives them
    payload: Mapping[str, Json] | None = None  # of its version, where somebody asked for it


@dataclass(frozen=True)
class Step:
    """A session's part in a day."""

    before: Day
    after: Day
    events: list[Event]
    notices: list[Notice]

    @property
    def is_change(self) -> bool:
        """Is there a new version?"""
        return self.after.version > self.before.version


def take(
    day: Day,
    session_id: UUID,
    seen: Observation,
    *,
    threshold: int,
    refused: Collection[UUID] = (),
    only_versions: bool = False,
    is_told: bool = True,
) -> Step:
    """The step from what was known to what was seen; seeing the same again changes nothing.

    `refused` are events that the owner's key would not take: they are neither written nor told. `only_versions` is for
    a backend without tables for events; where it has no table for messages, nobody is told.
    """
    is_same = day.payload_hash == seen.payload_hash
    if is_same and (day.shifts is not None or only_versions):
        return Step(day, day, [], [])
    changes = [] if only_versions else events_of(session_id, diff(day.shifts or (), seen.shifts))
    events = [event for event in changes if event.id not in refused]
    told = [event for event in events if event.change.new is None or event.change.new not in day.known]
    told = told if is_told else []
    after = replace(
        day,
        version=day.version if is_same else day.version + 1,
        payload_hash=seen.payload_hash,
        shifts=seen.shifts,
        events=day.events + len(events),
        canonicalizer=CANONICALIZER,
        known=frozenset(),
        payload=seen.payload,
    )
    return Step(day, after, events, notices_of(day.user_id, day.schedule_date, session_id, told, threshold=threshold))


def day_of(row: Mapping[str, Any]) -> Day:
    """A day from what the database has of it.

    What another canonicaliser wrote is read again with ours: a day that only gets another form has not changed, and
    shifts that only get another form are not told.
    """
    payload_hash, known, payload = row["payload_hash"], frozenset[Shift](), None
    if row["payload"] is not None:
        try:
            again = observe(row["payload"])
        except InvalidArgument:
            payload_hash = None  # somebody else's words: whatever we see is new
        else:
            payload = again.payload
            if row["is_foreign"]:
                payload_hash, known = again.payload_hash, frozenset(again.shifts)
    snapshot = row["snapshot_payload"]
    return Day(
        user_id=row["user_id"],
        schedule_date=row["schedule_date"],
        version=row["current_version"] or 0,
        payload_hash=payload_hash,
        shifts=None if snapshot is None else tuple(dict.fromkeys(map(read_shift, snapshot))),
        events=row["events"] or 0,
        canonicalizer=row["canonicalizer"],
        known=known,
        payload=payload,
    )
