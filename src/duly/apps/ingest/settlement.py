"""Write what settled captures show: one method per statement, connection in, value out."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from duly.apps.ingest.canonical import CANONICALIZER, CanonicalDay
from duly.apps.ingest.day import Day, DayChange, DayKey, day_from_row
from duly.apps.ingest.notifications import CaptureNotification, NewEvent
from duly.apps.ingest.pages import further_session_id
from duly.apps.ingest.repository import to_json
from duly.apps.ingest.states import DEFAULT_SCHEMA, States
from duly.crashpoint import crashpoint
from duly.db.advisory import advisory_key
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, execute, find_value, get_rows
from duly.lease.operations import Lease, keys_and_owners, single_table_of_rows

SQL = load_queries(__file__, "settlement.sql")


@dataclass(frozen=True, slots=True)
class SettledCapture:
    """A session we settle: the change of its day, and what is written with it."""

    lease: Lease
    change: DayChange
    payload: Mapping[str, Any]
    result: Mapping[str, Any]
    further_days: Sequence[CanonicalDay] = ()

    @property
    def day(self) -> Day:
        """The day after the change."""
        return self.change.after


class SettlementTables:
    """The tables of one installation that a settle writes."""

    def __init__(self, schema: str = DEFAULT_SCHEMA, states: States = States()) -> None:  # noqa: B008 (frozen)
        self.schema = schema
        self.sql = SQL.using(schema=schema)
        self.states = states

    async def lock_days(self, connection: Connection, days: Sequence[DayKey]) -> None:
        """Become the only writer of these days until the transaction ends."""
        keys = [advisory_key("ingest.day", self.schema, user_id, day) for user_id, day in days]
        await get_rows(connection, self.sql.lock_days, keys=keys)

    async def find_days(
        self, connection: Connection, days: Sequence[DayKey], *, with_payload: Container[DayKey] = ()
    ) -> dict[DayKey, Day]:
        """Return what is known of these days; for those in `with_payload` with their payload."""
        return _index_days(await get_rows(connection, self.sql.find_days, **_day_parameters(days, with_payload)))

    async def find_days_by_version(
        self, connection: Connection, days: Sequence[DayKey], *, with_payload: Container[DayKey] = ()
    ) -> dict[DayKey, Day]:
        """Return what is known of these days where there is no table of snapshots."""
        parameters = _day_parameters(days, with_payload)
        return _index_days(await get_rows(connection, self.sql.find_days_by_version, **parameters))

    async def find_existing_events(
        self, connection: Connection, events: Sequence[tuple[int, date, NewEvent]]
    ) -> frozenset[UUID]:
        """Return the ids of those events that the contract's unique key would reject."""
        if not events:
            return frozenset()
        rows = await get_rows(
            connection,
            self.sql.find_existing_events,
            event_ids=[event.id for _, _, event in events],
            user_ids=[user_id for user_id, _, _ in events],
            schedule_dates=[day for _, day, _ in events],
            event_types=[event.change.type.value for _, _, event in events],
            locations=[event.change.shift.location_fingerprint for _, _, event in events],
            old_hashes=[event.old_value_hash for _, _, event in events],
            new_hashes=[event.new_value_hash for _, _, event in events],
        )
        return frozenset(row["event_id"] for row in rows)

    async def has_version(self, connection: Connection, session_id: UUID) -> bool:
        """Return whether a session wrote a version."""
        return await find_value(connection, self.sql.has_version, session_id=session_id) is not None

    async def settle_captures(self, connection: Connection, captures: Sequence[SettledCapture]) -> Mapping[UUID, bool]:
        """Settle sessions and write the versions of changed days; return for each whether it wrote a version."""
        leases = [each.lease for each in captures]
        crashpoint("before_settle")
        rows = await get_rows(
            connection,
            single_table_of_rows(leases).statements.settle_done,
            **keys_and_owners(leases),
            result=[to_json(each.result) for each in captures],
            user_id=[each.day.user_id for each in captures],
            schedule_date=[each.day.schedule_date for each in captures],
            version=[each.day.version if each.change.has_new_version else None for each in captures],
            payload=[to_json(each.payload) if each.change.has_new_version else None for each in captures],
            payload_hash=[each.day.payload_hash for each in captures],
            canonicalizer=CANONICALIZER,
        )
        if rows:
            crashpoint("after_settle")
        return {row["key"]: row["is_versioned"] for row in rows}

    async def add_further_days(self, connection: Connection, captures: Sequence[SettledCapture]) -> int:
        """Create a session for each further day of sessions that we have settled; return how many."""
        days = [(each.lease, day) for each in captures for day in each.further_days]
        if not days:
            return 0
        return await execute(
            connection,
            self.sql.add_further_days,
            ids=[further_session_id(lease.key, day.schedule_date) for lease, day in days],
            session_ids=[lease.key for lease, _ in days],
            owners=[lease.owner for lease, _ in days],
            payloads=[to_json(day.payload) for _, day in days],
        )

    async def add_events(self, connection: Connection, captures: Sequence[SettledCapture]) -> int:
        """Write the events of changed days; return how many were new."""
        events = [
            (each, event, each.change.before.events + nth)
            for each in captures
            for nth, event in enumerate(each.change.events, 1)
        ]
        if not events:
            return 0
        return await execute(
            connection,
            self.sql.add_events,
            event_ids=[event.id for _, event, _ in events],
            user_ids=[each.day.user_id for each, _, _ in events],
            schedule_dates=[each.day.schedule_date for each, _, _ in events],
            event_types=[event.change.type.value for _, event, _ in events],
            locations=[event.change.shift.location_fingerprint for _, event, _ in events],
            customers=[event.change.shift.customer_fingerprint for _, event, _ in events],
            old_hashes=[event.old_value_hash for _, event, _ in events],
            new_hashes=[event.new_value_hash for _, event, _ in events],
            old_values=[event.old.json_text if event.old else None for _, event, _ in events],
            new_values=[event.change.new.json_text if event.change.new else None for _, event, _ in events],
            session_ids=[each.lease.key for each, _, _ in events],
            seqs=[seq for _, _, seq in events],
        )

    async def put_day_snapshots(self, connection: Connection, captures: Sequence[SettledCapture]) -> int:
        """Store these days as they are known now; return how many."""
        days = [each.day for each in captures]
        return await execute(
            connection,
            self.sql.put_day_snapshots,
            user_ids=[day.user_id for day in days],
            schedule_dates=[day.schedule_date for day in days],
            snapshots=["[" + ",".join(shift.json_text for shift in day.stored_shifts) + "]" for day in days],
            session_ids=[each.lease.key for each in captures],
            canonicalizers=[day.canonicalizer for day in days],
            events=[day.events for day in days],
        )

    async def add_notifications(
        self,
        connection: Connection,
        captures: Sequence[SettledCapture],
        languages: Mapping[int, str] | None = None,
    ) -> int:
        """Write notifications, each in the language of its person or in English; return how many were new."""
        notifications = [(each, notification) for each in captures for notification in each.change.notifications]
        if not notifications:
            return 0
        return await execute(
            connection,
            self.sql.add_notifications,
            ids=[notification.id for _, notification in notifications],
            user_ids=[each.day.user_id for each, _ in notifications],
            schedule_dates=[each.day.schedule_date for each, _ in notifications],
            session_ids=[each.lease.key for each, _ in notifications],
            types=[notification.type.value for _, notification in notifications],
            messages=[
                notification.text((languages or {}).get(each.day.user_id)) for each, notification in notifications
            ],
            event_ids=[to_json(list(map(str, notification.event_ids))) for _, notification in notifications],
        )

    async def find_languages(self, connection: Connection, user_ids: Sequence[int]) -> dict[int, str]:
        """Return the languages of the people whom we know, by Telegram id."""
        rows = await get_rows(connection, self.sql.find_languages, user_ids=list(user_ids))
        return {row["user_id"]: row["language"] for row in rows}

    async def notify_senders(self, connection: Connection, notifications: Sequence[CaptureNotification]) -> int:
        """Queue messages to the people who sent screenshots; return how many were new."""
        if not notifications:
            return 0
        return await execute(
            connection,
            self.sql.notify_senders,
            keys=[each.session_id for each in notifications],
            types=[each.type for each in notifications],
            texts=[to_json(each.texts) for each in notifications],
            for_bot_only=[each.is_for_bot_only for each in notifications],
        )


def _day_parameters(days: Sequence[DayKey], with_payload: Container[DayKey]) -> dict[str, Any]:
    """Return the parameters of the statements that find days."""
    return {
        "user_ids": [user_id for user_id, _ in days],
        "schedule_dates": [day for _, day in days],
        "with_payload": [day in with_payload for day in days],
        "canonicalizer": CANONICALIZER,
    }


def _index_days(rows: Sequence[Row]) -> dict[DayKey, Day]:
    """Return the days of these rows by person and date."""
    return {(row["user_id"], row["schedule_date"]): day_from_row(row) for row in rows}
