"""The days of people: as they are known now, and their versions, events and notifications."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from uuid import UUID

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.diff import ShiftChange, diff, replay
from duly.apps.ingest.model import DaySnapshot, DayVersion, ShiftEvent, StoredNotification
from duly.apps.ingest.shift import Shift, shift_from_json
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import find_row, get_rows
from duly.errors import NotFound
from duly.paging import MAX_ROWS, Page, build_page, checked_limit, decode_cursor

SQL = load_queries(__file__, "day_history.sql")
BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReplayedDay:
    """A day rebuilt from its events, beside the day as it is known."""

    schedule_date: date
    events: int
    shifts: list[Shift] | None  # None: an event removes a shift that is not there
    known: list[Shift]

    @property
    def is_same(self) -> bool:
        """Whether the events rebuild the known day."""
        return self.shifts == self.known


class DayHistory:
    """Reads the days of one installation, each of them by the Telegram id of its person."""

    def __init__(self, pool: Pool, schema: str) -> None:
        self.pool = pool
        self.sql = SQL.using(schema=schema)

    async def get_day(self, user_id: int, schedule_date: date) -> DaySnapshot:
        """Return a person's day as it is known now; raises NotFound when there is none."""
        async with self.pool.transaction() as connection:
            row = await find_row(connection, self.sql.get_day, user_id=user_id, schedule_date=schedule_date)
        if row is None:
            raise NotFound(f"nothing is known of {schedule_date.isoformat()}")
        return DaySnapshot(**row)

    async def list_days(self, user_id: int, first: date, last: date, *, limit: int = 100) -> Sequence[DaySnapshot]:
        """Return a person's days between two dates, as they are known now."""
        async with self.pool.transaction() as connection:
            rows = await get_rows(
                connection, self.sql.list_days, user_id=user_id, first=first, last=last, limit=checked_limit(limit)
            )
        return [DaySnapshot(**row) for row in rows]

    async def get_version(self, user_id: int, schedule_date: date, version: int) -> DayVersion:
        """Return a version of a day, with its payload; raises NotFound when there is none."""
        async with self.pool.transaction() as connection:
            row = await find_row(
                connection, self.sql.get_version, user_id=user_id, schedule_date=schedule_date, version=version
            )
        if row is None:
            raise NotFound(f"there is no version {version} of {schedule_date.isoformat()}")
        return DayVersion(**row)

    async def list_versions(
        self, user_id: int, schedule_date: date, *, cursor: str | None = None, limit: int = 100
    ) -> Page[DayVersion]:
        """Return a page of a day's versions, in order, without their payloads."""
        after = 0 if cursor is None else decode_cursor(cursor, int)[0]
        async with self.pool.transaction() as connection:
            rows = await get_rows(
                connection,
                self.sql.list_versions,
                user_id=user_id,
                schedule_date=schedule_date,
                after_version=after,
                limit=checked_limit(limit) + 1,
            )
        return build_page([DayVersion(**row) for row in rows], limit, lambda version: (version.version,))

    async def list_events(
        self,
        user_id: int,
        schedule_date: date,
        *,
        session_id: UUID | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[ShiftEvent]:
        """Return a page of a day's events, or of those that one session wrote, in the order in which they happened."""
        after = (-1, BEGINNING, UUID(int=0))
        if cursor is not None:
            after = decode_cursor(cursor, int, datetime.fromisoformat, UUID)
        async with self.pool.transaction() as connection:
            rows = await get_rows(
                connection,
                self.sql.list_events,
                user_id=user_id,
                schedule_date=schedule_date,
                after_seq=after[0],
                after_at=after[1],
                after_id=after[2],
                session_id=session_id,
                limit=checked_limit(limit) + 1,
            )
        events = [ShiftEvent(**row) for row in rows]
        return build_page(events, limit, lambda event: (event.seq or 0, event.detected_at, event.event_id))

    async def list_all_events(
        self, user_id: int, schedule_date: date, session_id: UUID | None = None
    ) -> list[ShiftEvent]:
        """Return every event of a day, or those that one session wrote, in order."""
        events, cursor = list[ShiftEvent](), None
        while True:
            page = await self.list_events(user_id, schedule_date, session_id=session_id, cursor=cursor, limit=MAX_ROWS)
            events += page.items
            if not (cursor := page.next):
                return events

    async def list_notifications(
        self, user_id: int, schedule_date: date, *, cursor: str | None = None, limit: int = 100
    ) -> Page[StoredNotification]:
        """Return a page of the notifications about a day, in order of delivery."""
        after = (BEGINNING, "") if cursor is None else decode_cursor(cursor, datetime.fromisoformat, str)
        async with self.pool.transaction() as connection:
            rows = await get_rows(
                connection,
                self.sql.list_notifications,
                user_id=user_id,
                schedule_date=schedule_date,
                after_at=after[0],
                after_id=after[1],
                limit=checked_limit(limit) + 1,
            )
        notifications = [StoredNotification(**row) for row in rows]
        return build_page(notifications, limit, lambda each: (each.created_at, each.notification_id))

    async def compare_versions(self, user_id: int, schedule_date: date, before: int, after: int) -> list[ShiftChange]:
        """Return what changed from one version of a day to another; 0 is the empty day before the first."""
        return diff(*[await self._get_shifts(user_id, schedule_date, version) for version in (before, after)])

    async def _get_shifts(self, user_id: int, schedule_date: date, version: int) -> tuple[Shift, ...]:
        """Return the shifts of a version, in the form of the current canonicalizer."""
        if version == 0:
            return ()
        return canonicalize((await self.get_version(user_id, schedule_date, version)).payload).shifts

    async def replay_day(self, user_id: int, schedule_date: date) -> ReplayedDay:
        """Rebuild a day from its events alone, from a state of the day that did not change meanwhile."""
        day, events = await self.get_day(user_id, schedule_date), await self.list_all_events(user_id, schedule_date)
        while (again := await self.get_day(user_id, schedule_date)) != day:
            day, events = again, await self.list_all_events(user_id, schedule_date)
        known = sorted(map(shift_from_json, day.snapshot_payload), key=lambda shift: shift.sort_key)
        try:
            shifts = replay((each.old_value, each.new_value) for each in events)
        except ValueError:
            shifts = None
        return ReplayedDay(schedule_date, len(events), shifts, known)
