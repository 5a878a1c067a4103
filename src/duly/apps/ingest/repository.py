"""One small function per statement: connection and schema in, value out."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import orjson

from duly.apps.ingest.canonical import CANONICALIZER, Observation
from duly.apps.ingest.day import Day, Step, day_of
from duly.apps.ingest.model import DayVersion, Image, KnownDay, Message, PastEvent, Session
from duly.apps.ingest.notices import Event
from duly.apps.ingest.pages import further_session_id
from duly.apps.ingest.telling import News
from duly.db.advisory import advisory_key
from duly.db.id_prefix import CANDIDATES_LIMIT, IdPrefix
from duly.db.queries import load_queries
from duly.db.rows import Connection, Row, change, find_row, find_value, get_row, get_rows, get_rows_planned_anew
from duly.lease.operations import Lease, settle_and

__all__ = [
    "BEGINNING",
    "END",
    "NO_EVENT",
    "SQL",
    "OpenSession",
    "Taken",
    "add_events",
    "add_further_days",
    "add_image",
    "add_notices",
    "add_session",
    "begin_session",
    "close_idle",
    "close_session",
    "find_brought",
    "find_columns",
    "find_days",
    "find_homes",
    "find_known_events",
    "find_labels",
    "find_languages",
    "find_open_session",
    "find_session",
    "find_snapshot",
    "find_version",
    "find_versions",
    "has_owners_key",
    "has_version",
    "list_events",
    "list_images",
    "list_notifications",
    "list_session_ids",
    "list_sessions",
    "list_snapshots",
    "list_versions",
    "lock_bringer",
    "lock_days",
    "lock_open_session",
    "put_snapshots",
    "settle_observed",
    "tell_senders",
]

SQL = load_queries(__file__)
BEGINNING = datetime.min.replace(tzinfo=UTC)
END = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))
NO_EVENT = (-1, BEGINNING, UUID(int=0))


# Asking ---------------------------------------------------------------------------------------------------------------


async def add_session(
    connection: Connection, schema: str, user_id: int, payload: Mapping[str, Any] | None = None
) -> Session:
    """Begin a session; with a payload it is complete."""
    given = as_json(payload) if payload is not None else None
    return Session(**await get_row(connection, SQL.using(schema=schema).add_session, user_id=user_id, payload=given))


async def lock_open_session(connection: Connection, schema: str, user_id: int, session_id: UUID) -> bool:
    """Be the one who adds to a session of this person; False when it takes no more images."""
    found = await find_value(
        connection, SQL.using(schema=schema).lock_open_session, user_id=user_id, session_id=session_id
    )
    return found is not None


async def add_image(
    connection: Connection, schema: str, session_id: UUID, r2_key: str, telegram_message_id: int | None = None
) -> Image | None:
    """Add an image to a session that we have locked; None when this message has brought it already."""
    row = await find_row(
        connection,
        SQL.using(schema=schema).add_image,
        session_id=session_id,
        r2_key=r2_key,
        telegram_message_id=telegram_message_id,
    )
    return Image(**row) if row else None


async def close_session(connection: Connection, schema: str, user_id: int, session_id: UUID) -> bool:
    """Say that a session is complete; False when it is not theirs or no longer waits."""
    found = await find_value(connection, SQL.using(schema=schema).close_session, user_id=user_id, session_id=session_id)
    return found is not None


# Bringing, one by one -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that still takes images."""

    id: UUID
    images: int
    last_message_id: int | None  # which brought the latest of them, where a bot did


async def lock_bringer(connection: Connection, user_id: int) -> None:
    """Be the only one who brings something of this person, for the rest of the transaction."""
    await change(connection, SQL.lock_bringer, key=advisory_key("ingest.bringer", user_id))


async def begin_session(connection: Connection, schema: str, user_id: int, session_id: UUID) -> bool:
    """Begin a session under this id; False when it was begun before."""
    found = await find_value(connection, SQL.using(schema=schema).begin_session, user_id=user_id, session_id=session_id)
    return found is not None


async def find_open_session(connection: Connection, schema: str, user_id: int, own: UUID | None) -> OpenSession | None:
    """The session of this person that still takes what belongs to this one, or anything at all; locked."""
    row = await find_row(connection, SQL.using(schema=schema).find_open_session, user_id=user_id, own=own)
    return OpenSession(**row) if row else None


async def find_brought(
    connection: Connection, schema: str, user_id: int, telegram_message_id: int, r2_keys: Sequence[str]
) -> Image | None:
    """The image that a message brought, under one of these names."""
    row = await find_row(
        connection,
        SQL.using(schema=schema).find_brought,
        user_id=user_id,
        telegram_message_id=telegram_message_id,
        r2_keys=list(r2_keys),
    )
    return Image(**row) if row else None


# Looking --------------------------------------------------------------------------------------------------------------


async def find_session(connection: Connection, schema: str, user_id: int | None, session_id: UUID) -> Session | None:
    """A session of this person, or of anybody when none is named."""
    row = await find_row(connection, SQL.using(schema=schema).find_session, user_id=user_id, session_id=session_id)
    return Session(**row) if row else None


async def list_session_ids(connection: Connection, schema: str, prefix: IdPrefix) -> Sequence[Row]:
    """The sessions whose ids begin so, a few of them."""
    statement = SQL.using(schema=schema).list_session_ids
    return await get_rows(connection, statement, first=prefix.first, last=prefix.last, limit=CANDIDATES_LIMIT)


async def list_sessions(
    connection: Connection, schema: str, user_id: int, before: tuple[datetime, UUID] = END, limit: int = 100
) -> Sequence[Session]:
    """A page of a person's sessions, the newest first."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_sessions,
        user_id=user_id,
        before_at=before[0],
        before_id=before[1],
        limit=limit,
    )
    return [Session(**row) for row in rows]


async def list_images(connection: Connection, schema: str, session_id: UUID, limit: int = 100) -> Sequence[Image]:
    """The images of a session, in their order."""
    rows = await get_rows(connection, SQL.using(schema=schema).list_images, session_id=session_id, limit=limit)
    return [Image(**row) for row in rows]


async def find_snapshot(connection: Connection, schema: str, user_id: int, schedule_date: date) -> KnownDay | None:
    """A day of this person as it is known now."""
    row = await find_row(
        connection, SQL.using(schema=schema).find_snapshot, user_id=user_id, schedule_date=schedule_date
    )
    return KnownDay(**row) if row else None


async def list_snapshots(
    connection: Connection, schema: str, user_id: int, first: date, last: date, limit: int = 100
) -> Sequence[KnownDay]:
    """Days of this person as they are known now."""
    rows = await get_rows(
        connection, SQL.using(schema=schema).list_snapshots, user_id=user_id, first=first, last=last, limit=limit
    )
    return [KnownDay(**row) for row in rows]


async def find_version(
    connection: Connection, schema: str, user_id: int, schedule_date: date, version: int
) -> DayVersion | None:
    """A version of a day, with what it shows."""
    row = await find_row(
        connection, SQL.using(schema=schema).find_version, user_id=user_id, schedule_date=schedule_date, version=version
    )
    return DayVersion(**row) if row else None


async def list_versions(
    connection: Connection, schema: str, user_id: int, schedule_date: date, after_version: int = 0, limit: int = 100
) -> Sequence[DayVersion]:
    """A page of a day's versions, in order, without what they show."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_versions,
        user_id=user_id,
        schedule_date=schedule_date,
        after_version=after_version,
        limit=limit,
    )
    return [DayVersion(**row) for row in rows]


async def list_events(
    connection: Connection,
    schema: str,
    user_id: int,
    schedule_date: date,
    after: tuple[int, datetime, UUID] = NO_EVENT,
    limit: int = 100,
    session_id: UUID | None = None,
) -> Sequence[PastEvent]:
    """A page of a day's events, or of one session's, in order; those without a number stand before all others."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_events,
        user_id=user_id,
        schedule_date=schedule_date,
        after_seq=after[0],
        after_at=after[1],
        after_id=after[2],
        session_id=session_id,
        limit=limit,
    )
    return [PastEvent(**row) for row in rows]


async def list_notifications(
    connection: Connection,
    schema: str,
    user_id: int,
    schedule_date: date,
    after: tuple[datetime, str] = (BEGINNING, ""),
    limit: int = 100,
) -> Sequence[Message]:
    """A page of a day's messages, in the order of delivery."""
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).list_notifications,
        user_id=user_id,
        schedule_date=schedule_date,
        after_at=after[0],
        after_id=after[1],
        limit=limit,
    )
    return [Message(**row) for row in rows]


async def find_labels(connection: Connection, schema: str) -> list[str] | None:
    """The states that this database knows for a session; None when it has no sessions."""
    return await find_value(connection, SQL.using(schema=schema).find_labels, table=f'"{schema}".capture_session')


async def find_columns(connection: Connection, schema: str) -> dict[str, set[str]]:
    """The tables of a schema, each with its columns."""
    rows = await get_rows(connection, SQL.using(schema=schema).find_columns, in_schema=schema)
    return {row["table_name"]: set(row["columns"]) for row in rows}


async def find_homes(connection: Connection) -> list[str]:
    """The schemas that have a table of sessions."""
    return await find_value(connection, SQL.find_homes) or []


async def has_owners_key(connection: Connection, schema: str) -> bool:
    """Is the key of events the contract's, which has no session in it?"""
    return await find_value(connection, SQL.using(schema=schema).has_owners_key, in_schema=schema) is True


# Working --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """A session of ours, the step it takes its day, and what is written down of it."""

    lease: Lease
    step: Step
    payload: Mapping[str, Any]
    result: Mapping[str, Any]
    further: Sequence[Observation] = ()  # other days that it shows

    @property
    def day(self) -> Day:
        """The day as it is afterwards."""
        return self.step.after


async def close_idle(
    connection: Connection, schema: str, *, pending: str, idle_seconds: float, limit: int = 100
) -> int:
    """Close sessions whose last image is idle; how many there were."""
    rows = await get_rows_planned_anew(
        connection, SQL.using(schema=schema).close_idle, pending=pending, idle_seconds=idle_seconds, limit=limit
    )
    return len(rows)


async def lock_days(connection: Connection, schema: str, days: Sequence[tuple[int, date]]) -> None:
    """Be the one who writes about these days."""
    keys = [advisory_key("ingest.day", schema, user_id, day) for user_id, day in days]
    await get_rows(connection, SQL.using(schema=schema).lock_days, keys=keys)


async def find_days(
    connection: Connection,
    schema: str,
    days: Sequence[tuple[int, date]],
    *,
    with_payload: Container[tuple[int, date]] = (),
) -> dict[tuple[int, date], Day]:
    """What is known of these days; of some the payload too."""
    rows = await get_rows(connection, SQL.using(schema=schema).find_days, **asked_of(days, with_payload))
    return {(row["user_id"], row["schedule_date"]): day_of(row) for row in rows}


async def find_versions(
    connection: Connection,
    schema: str,
    days: Sequence[tuple[int, date]],
    *,
    with_payload: Container[tuple[int, date]] = (),
) -> dict[tuple[int, date], Day]:
    """The same where there are no snapshots."""
    rows = await get_rows(connection, SQL.using(schema=schema).find_versions, **asked_of(days, with_payload))
    return {(row["user_id"], row["schedule_date"]): day_of(row) for row in rows}


def asked_of(days: Sequence[tuple[int, date]], with_payload: Container[tuple[int, date]]) -> dict[str, Any]:
    """Which days are asked for, as the statement takes them."""
    return {
        "user_ids": [user_id for user_id, _ in days],
        "schedule_dates": [day for _, day in days],
        "with_payload": [day in with_payload for day in days],
        "canonicalizer": CANONICALIZER,
    }


async def find_known_events(
    connection: Connection, schema: str, events: Sequence[tuple[int, date, Event]]
) -> frozenset[UUID]:
    """Which of these events of people's days the owner's key would refuse, by their ids."""
    if not events:
        return frozenset()
    rows = await get_rows(
        connection,
        SQL.using(schema=schema).find_known_events,
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
    """Has a session made a version?"""
    return await find_value(connection, SQL.using(schema=schema).has_version, session_id=session_id) is not None


async def settle_observed(connection: Connection, schema: str, to: str, taken: Sequence[Taken]) -> Mapping[UUID, bool]:
    """Finish sessions, and write the versions of those that changed their day; whether each has written one."""
    columns = {"result": ("jsonb", [as_json(each.result) for each in taken])}
    beside = {
        "user_id": ("bigint", [each.day.user_id for each in taken]),
        "schedule_date": ("date", [each.day.schedule_date for each in taken]),
        "version": ("integer", [each.day.version if each.step.is_change else None for each in taken]),
        "payload": ("jsonb", [as_json(each.payload) if each.step.is_change else None for each in taken]),
        "payload_hash": ("text", [each.day.payload_hash for each in taken]),
    }
    rows = await settle_and(
        connection,
        [each.lease for each in taken],
        to,
        columns,
        beside,
        SQL.using(schema=schema).settle_observed.as_string(None),
        canonicalizer=CANONICALIZER,
    )
    return {row["key"]: row["is_versioned"] for row in rows}


async def add_further_days(connection: Connection, schema: str, taken: Sequence[Taken]) -> int:
    """Begin a session for each further day of sessions that we have settled; how many there were."""
    days = [(each.lease, day) for each in taken for day in each.further]
    if not days:
        return 0
    return await change(
        connection,
        SQL.using(schema=schema).add_further_days,
        ids=[further_session_id(lease.key, day.schedule_date) for lease, day in days],
        session_ids=[lease.key for lease, _ in days],
        owners=[lease.owner for lease, _ in days],
        payloads=[as_json(day.payload) for _, day in days],
    )


async def add_events(connection: Connection, schema: str, taken: Sequence[Taken]) -> int:
    """Write down what changed; how many events there were."""
    events = [
        (each, each.step.before.events + nth, event, event.change)
        for each in taken
        for nth, event in enumerate(each.step.events, 1)
    ]
    if not events:
        return 0
    return await change(
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
        old_values=[event.old.text if event.old else None for _, _, event, _ in events],
        new_values=[changed.new.text if changed.new else None for *_, changed in events],
        session_ids=[each.lease.key for each, *_ in events],
        seqs=[seq for _, seq, *_ in events],
    )


async def put_snapshots(connection: Connection, schema: str, taken: Sequence[Taken]) -> int:
    """Write down what these days are known to be now."""
    days = [each.day for each in taken]
    return await change(
        connection,
        SQL.using(schema=schema).put_snapshots,
        user_ids=[day.user_id for day in days],
        schedule_dates=[day.schedule_date for day in days],
        snapshots=["[" + ",".join(shift.text for shift in day.snapshot) + "]" for day in days],
        session_ids=[each.lease.key for each in taken],
        canonicalizers=[day.canonicalizer for day in days],
        events=[day.events for day in days],
    )


async def add_notices(
    connection: Connection, schema: str, taken: Sequence[Taken], languages: Mapping[int, str] | None = None
) -> int:
    """Write down what people are to be told, each in their language or in English; how many messages there were."""
    notices = [(each, notice) for each in taken for notice in each.step.notices]
    if not notices:
        return 0
    return await change(
        connection,
        SQL.using(schema=schema).add_notices,
        ids=[notice.id for _, notice in notices],
        user_ids=[each.day.user_id for each, _ in notices],
        schedule_dates=[each.day.schedule_date for each, _ in notices],
        session_ids=[each.lease.key for each, _ in notices],
        types=[notice.type.value for _, notice in notices],
        messages=[notice.message((languages or {}).get(each.day.user_id)) for each, notice in notices],
        event_ids=[as_json(list(map(str, notice.event_ids))) for _, notice in notices],
    )


async def find_languages(connection: Connection, user_ids: Sequence[int]) -> dict[int, str]:
    """The languages of people whom we know, by the ids under which their days are kept."""
    rows = await get_rows(connection, SQL.find_languages, user_ids=list(user_ids))
    return {row["user_id"]: row["language"] for row in rows}


async def tell_senders(connection: Connection, schema: str, news: Sequence[News]) -> int:
    """Tell whoever sent screenshots what came of them; how many messages there were."""
    if not news:
        return 0
    return await change(
        connection,
        SQL.using(schema=schema).tell_senders,
        keys=[each.session_id for each in news],
        kinds=[each.kind for each in news],
        texts=[as_json(each.texts) for each in news],
        for_bots=[each.is_for_bots for each in news],
    )


def as_json(value: object) -> str:
    """A value as PostgreSQL takes it."""
    return orjson.dumps(value).decode()
