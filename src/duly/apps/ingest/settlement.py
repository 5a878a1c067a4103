"""Write what settled captures show: one function per statement, connection and schema in, value out."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from duly.apps.ingest.canonical import CANONICALIZER, Snapshot
from duly.apps.ingest.capture_notices import CaptureNotification
from duly.apps.ingest.day import Day, DayChange, day_from_row
from duly.apps.ingest.notifications import Event
from duly.apps.ingest.pages import further_session_id
from duly.apps.ingest.repository import to_json
from duly.crashpoint import crashpoint
from duly.db.advisory import advisory_key
from duly.db.queries import load_queries
from duly.db.rows import Connection, execute, find_value, get_rows
from duly.lease.operations import Lease, keys_and_owners, single_table_of_rows

SQL = load_queries(__file__, "settlement.sql")


@dataclass(frozen=True, slots=True)
class SettledCapture:
    """A session we settle: the change of its day, and what is written with it."""

    lease: Lease
    change: DayChange
    payload: Mapping[str, Any]
    result: Mapping[str, Any]
    further_days: Sequence[Snapshot] = ()

    @property
    def day(self) -> Day:
        """The day after the change."""
        return self.change.after


async def lock_days(connection: Connection, schema: str, days: Sequence[tuple[int, date]]) -> None:
    """Become the only writer of these days until the transaction ends."""
    keys = [advisory_key("ingest.day", schema, user_id, day) for user_id, day in days]
    await get_rows(connection, SQL.using(schema=schema).lock_days, keys=keys)


async def find_days(
    connection: Connection,
    schema: str,
    days: Sequence[tuple[int, date]],
    *,
    with_payload: Container[tuple[int, date]] = (),
) -> dict[tuple[int, date], Day]:
    """Return what is known of these days; for those in `with_payload` with their payload."""
    rows = await get_rows(connection, SQL.using(schema=schema).find_days, **_day_parameters(days, with_payload))
    return {(row["user_id"], row["schedule_date"]): day_from_row(row) for row in rows}


async def find_days_by_version(
    connection: Connection,
    schema: str,
    days: Sequence[tuple[int, date]],
    *,
    with_payload: Container[tuple[int, date]] = (),
) -> dict[tuple[int, date], Day]:
    """Return what is known of these days where there is no table of snapshots."""
    parameters = _day_parameters(days, with_payload)
    rows = await get_rows(connection, SQL.using(schema=schema).find_days_by_version, **parameters)
    return {(row["user_id"], row["schedule_date"]): day_from_row(row) for row in rows}


def _day_parameters(days: Sequence[tuple[int, date]], with_payload: Container[tuple[int, date]]) -> dict[str, Any]:
    """Return the parameters of the statements that find days."""
    return {
        "user_ids": [user_id for user_id, _ in days],
        "schedule_dates": [day for _, day in days],
        "with_payload": [day in with_payload for day in days],
        "canonicalizer": CANONICALIZER,
    }


async def find_existing_events(
    connection: Connection, schema: str, events: Sequence[tuple[int, date, Event]]
) -> frozenset[UUID]:
    """Return the ids of those events that the contract's unique key would reject."""
    if not events:
        return frozenset()
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).find_existing_events,
        event_ids=[event.id for _, _, event in events],
        user_ids=[user_id for user_id, _, _ in events],
        schedule_dates=[day for _, day, _ in events],
        event_types=[event.change.type.value for _, _, event in events],
        locations=[event.change.shift.location_fingerprint for _, _, event in events],
        old_hashes=[event.old_value_hash for _, _, event in events],
        new_hashes=[event.new_value_hash for _, _, event in events],
    )
    return frozenset(row["event_id"] for row in rows)


async def has_version(connection: Connection, schema: str, session_id: UUID) -> bool:
    """Check whether a session wrote a version."""
    return await find_value(connection, SQL.using(schema=schema).has_version, session_id=session_id) is not None


async def settle_captures(connection: Connection, captures: Sequence[SettledCapture]) -> Mapping[UUID, bool]:
    """Settle sessions and write the versions of changed days; return for each session whether it wrote a version."""
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


async def add_further_days(connection: Connection, schema: str, captures: Sequence[SettledCapture]) -> int:
    """Create a session for each further day of sessions that we have settled; return how many."""
    days = [(each.lease, day) for each in captures for day in each.further_days]
    if not days:
        return 0
    return await execute(
        connection,
        SQL.using(schema=schema).add_further_days,
        ids=[further_session_id(lease.key, day.schedule_date) for lease, day in days],
        session_ids=[lease.key for lease, _ in days],
        owners=[lease.owner for lease, _ in days],
        payloads=[to_json(day.payload) for _, day in days],
    )


async def add_events(connection: Connection, schema: str, captures: Sequence[SettledCapture]) -> int:
    """Write the events of changed days; return how many were new."""
    events = [
        (each, each.change.before.events + nth, event, event.change)
        for each in captures
        for nth, event in enumerate(each.change.events, 1)
    ]
    if not events:
        return 0
    return await execute(
        connection,
        SQL.using(schema=schema).add_events,
        event_ids=[event.id for _, _, event, _ in events],
        user_ids=[each.day.user_id for each, *_ in events],
        schedule_dates=[each.day.schedule_date for each, *_ in events],
        event_types=[changed.type.value for *_, changed in events],
        locations=[changed.shift.location_fingerprint for *_, changed in events],
        customers=[changed.shift.customer_fingerprint for *_, changed in events],
        old_hashes=[event.old_value_hash for _, _, event, _ in events],
        new_hashes=[event.new_value_hash for _, _, event, _ in events],
        old_values=[event.old.json_text if event.old else None for _, _, event, _ in events],
        new_values=[changed.new.json_text if changed.new else None for *_, changed in events],
        session_ids=[each.lease.key for each, *_ in events],
        seqs=[seq for _, seq, *_ in events],
    )


async def put_day_snapshots(connection: Connection, schema: str, captures: Sequence[SettledCapture]) -> int:
    """Store these days as they are known now; return how many."""
    days = [each.day for each in captures]
    return await execute(
        connection,
        SQL.using(schema=schema).put_day_snapshots,
        user_ids=[day.user_id for day in days],
        schedule_dates=[day.schedule_date for day in days],
        snapshots=["[" + ",".join(shift.json_text for shift in day.stored_shifts) + "]" for day in days],
        session_ids=[each.lease.key for each in captures],
        canonicalizers=[day.canonicalizer for day in days],
        events=[day.events for day in days],
    )


async def add_notifications(
    connection: Connection,
    schema: str,
    captures: Sequence[SettledCapture],
    languages: Mapping[int, str] | None = None,
) -> int:
    """Write notifications, each in the language of its person or in English; return how many were new."""
    notifications = [(each, notification) for each in captures for notification in each.change.notifications]
    if not notifications:
        return 0
    return await execute(
        connection,
        SQL.using(schema=schema).add_notifications,
        ids=[notification.id for _, notification in notifications],
        user_ids=[each.day.user_id for each, _ in notifications],
        schedule_dates=[each.day.schedule_date for each, _ in notifications],
        session_ids=[each.lease.key for each, _ in notifications],
        types=[notification.type.value for _, notification in notifications],
        messages=[notification.text((languages or {}).get(each.day.user_id)) for each, notification in notifications],
        event_ids=[to_json(list(map(str, notification.event_ids))) for _, notification in notifications],
    )


async def find_languages(connection: Connection, user_ids: Sequence[int]) -> dict[int, str]:
    """Return the languages of the people whom we know, by Telegram id."""
    rows = await get_rows(connection, SQL.find_languages, user_ids=list(user_ids))
    return {row["user_id"]: row["language"] for row in rows}


async def notify_senders(connection: Connection, schema: str, notifications: Sequence[CaptureNotification]) -> int:
    """Queue messages to the people who sent screenshots; return how many were new."""
    if not notifications:
        return 0
    return await execute(
        connection,
        SQL.using(schema=schema).notify_senders,
        keys=[each.session_id for each in notifications],
        types=[each.type for each in notifications],
        texts=[to_json(each.texts) for each in notifications],
        for_bot_only=[each.is_for_bot_only for each in notifications],
    )
