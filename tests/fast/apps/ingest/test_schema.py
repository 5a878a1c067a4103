"""What the ingest tables refuse: to the owner, to each role, and to concurrent writers."""

import asyncio
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo

from duly.apps.ingest.repository import SessionTables
from duly.db.migrations import Names
from duly.db.pool import connect
from tests.support.ingest.actions import ANNA, SCHEMA, CaptureActions
from tests.support.ingest.strategies import payload
from tests.support.locks import wait_until_blocked
from tools.state_machines.model import ILLEGAL_TRANSITION

DAY = "2026-02-10"
A = payload({"start": "10:00", "end": "14:00", "title": "Anna Svensson • Städning"})
ROLES = ("worker", "api", "readonly")
TABLES = (
    "capture_session",
    "capture_image",
    "day_schedule",
    "schedule_version",
    "day_snapshot",
    "schedule_event",
    "schedule_notification",
)


@pytest.fixture
async def seen(captures: CaptureActions) -> UUID:
    """A session that left something in every table; and one more, which still takes images."""
    await captures.capture(A)
    key = await captures.open(user=7)
    await SessionTables().add_image(captures.api, key, "screenshots/1.png", telegram_message_id=1)
    return key


def error_from(captures: CaptureActions, statement: str, *values: object) -> psycopg.Error:
    """The error of a statement that is refused."""
    with pytest.raises(psycopg.Error) as refusal:
        captures.admin.execute(statement.encode(), values)
    return refusal.value


# Leases ---------------------------------------------------------------------------------------------------------------

TAKE_OVER = "update schedule_ingest.capture_session set locked_by = 'thief', locked_at = duly.clock()"


async def test_lease_written_with_the_contracts_columns_is_not_taken_before_it_ends(
    captures: CaptureActions,
) -> None:
    await captures.open()
    claim = (
        "update schedule_ingest.capture_session set state = 'processing', locked_by = 'w-1', locked_at = duly.clock()"
    )
    captures.admin.execute(claim.encode())
    assert "is leased by w-1" in str(error_from(captures, TAKE_OVER))
    past = "update schedule_ingest.capture_session set locked_at = duly.clock() - interval '{} s'"
    captures.admin.execute(past.format(290).encode())
    assert "is leased by w-1" in str(error_from(captures, TAKE_OVER))
    captures.admin.execute(past.format(301).encode())
    captures.admin.execute(TAKE_OVER.encode())


async def test_claim_lease_seconds_decide_when_a_lease_without_a_length_expires(captures: CaptureActions) -> None:
    """A worker writes its LEASE_TIMEOUT_SECONDS down, and so long the other's lease lasted."""
    await captures.open()
    captures.admin.execute(
        "update schedule_ingest.capture_session set state = 'processing', locked_by = 'w-1',"
        " locked_at = duly.clock() - interval '100 s'"
    )
    assert "is leased by w-1" in str(error_from(captures, f"{TAKE_OVER}, lease_seconds = 120"))
    captures.admin.execute(f"{TAKE_OVER}, lease_seconds = 60".encode())


# Values ---------------------------------------------------------------------------------------------------------------

IMAGE = "insert into schedule_ingest.capture_image (session_id, sequence, r2_key) values (%s, {}, {})"
CHECKS = {
    "ck_schedule_version__payload": "schedule_version (payload) '[]'",
    "ck_schedule_version__version": "schedule_version (version) 0",
    "ck_schedule_version__payload_hash": "schedule_version (payload_hash) ''",
    "ck_day_snapshot__snapshot_payload": "day_snapshot (snapshot_payload) '{}'",
    "ck_day_snapshot__events": "day_snapshot (events) -1",
    "ck_schedule_event__event_type": "schedule_event (event_type) 'shift_painted'",
    "ck_schedule_event__seq": "schedule_event (seq) 0",
    "ck_schedule_notification__status": "schedule_notification (status) 'lost'",
    "ck_schedule_notification__notification_type": "schedule_notification (notification_type) 'shout'",
    "ck_schedule_notification__event_ids": "schedule_notification (event_ids) '{}'",
    "ck_schedule_notification__message": "schedule_notification (message) ''",
    "ck_schedule_notification__sent_at": "schedule_notification (sent_at) duly.clock()",
    "ck_day_schedule__current_version": "day_schedule (current_version) 0",
}


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("rule", CHECKS)
def test_invalid_value_violates_the_named_constraint(rule: str, captures: CaptureActions) -> None:
    """A row like the one that is there, with one column as it must not be, and no trigger to say so first."""
    table, column, value = CHECKS[rule].split(" ", 2)
    name = column.strip("()")
    captures.admin.execute("set session_replication_role = replica")
    columns = captures.values(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
        " and attgenerated = '' and attidentity = ''",
        f"schedule_ingest.{table}",
    )
    like = ", ".join(value if each == name else each for each in columns)
    error = error_from(
        captures,
        f"insert into schedule_ingest.{table} ({', '.join(columns)}) select {like} from schedule_ingest.{table}",
    )
    assert isinstance(error, errors.CheckViolation)
    assert error.diag.constraint_name == rule


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("kind", ["added", "removed", "time_changed", "relocated", "retitled", "reclassified"])
def test_each_event_type_requires_its_old_and_new_values(kind: str, captures: CaptureActions) -> None:
    for old, new in (("'{}'", "'{}'"), ("null", "'{}'"), ("'{}'", "null"), ("null", "null")):
        is_valid = (old == "null", new == "null") == (kind == "added", kind == "removed")
        insert = (
            "insert into schedule_ingest.schedule_event (event_id, user_id, schedule_date, event_type,"
            " location_fingerprint, customer_fingerprint, old_value_hash, new_value_hash, old_value, new_value,"
            " source_session_id) select gen_random_uuid(), user_id, schedule_date, %s, 'l', 'c', 'o', 'n',"
            f" {old}, {new}, source_session_id from schedule_ingest.day_snapshot"
        )
        if is_valid:
            captures.admin.execute(insert.encode(), [f"shift_{kind}"])
            continue
        error = error_from(captures, insert, f"shift_{kind}")
        assert error.diag.constraint_name == "ck_schedule_event__values"


def test_image_sequence_starts_at_one_and_names_are_unique(captures: CaptureActions, seen: UUID) -> None:
    for sequence, name, rule in (
        ("0", "'zero'", "ck_capture_image__sequence"),
        ("-1", "'minus'", "ck_capture_image__sequence"),
        ("1", "'again'", "uq_capture_image__session_id_sequence"),
        ("2", "'screenshots/1.png'", "uq_capture_image__r2_key"),
        ("2", "''", "ck_capture_image__r2_key"),
    ):
        assert error_from(captures, IMAGE.format(sequence, name), seen).diag.constraint_name == rule
    captures.admin.execute(IMAGE.format("2", "'screenshots/2.png'").encode(), [seen])


def test_image_must_reference_a_session(captures: CaptureActions) -> None:
    error = error_from(captures, IMAGE.format("1", "'x'"), UUID(int=1))
    assert error.diag.constraint_name == "fk_capture_image_capture_session_session_id"


async def test_telegram_message_adds_one_image_only(captures: CaptureActions, seen: UUID) -> None:
    assert await SessionTables().add_image(captures.api, seen, "screenshots/2.png", telegram_message_id=1) is None
    assert captures.count("schedule_ingest.capture_image") == 1


# Immutable rows -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("table", ["capture_image", "schedule_version", "schedule_event"])
@pytest.mark.parametrize("change", ["update {0} set {1} = {1}", "delete from {0}", "truncate {0} cascade"])
@pytest.mark.parametrize("role", ["", Names().owner])
def test_images_versions_and_events_are_immutable(table: str, change: str, role: str, captures: CaptureActions) -> None:
    column = {"capture_image": "r2_key", "schedule_version": "payload", "schedule_event": "event_type"}[table]
    if role:
        captures.admin.execute(f"set role {role}".encode())
    error = error_from(captures, change.format(f"schedule_ingest.{table}", column))
    assert "is append-only" in str(error)
    captures.admin.execute("reset role")
    assert captures.count(f"{SCHEMA}.{table}") == 1


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("table", ["day_schedule", "day_snapshot"])
@pytest.mark.parametrize("change", ["delete from {}", "truncate {}"])
def test_day_rows_cannot_be_deleted(table: str, change: str, captures: CaptureActions) -> None:
    assert "is append-only" in str(error_from(captures, change.format(f"schedule_ingest.{table}")))


def test_session_with_dependent_rows_cannot_be_deleted(captures: CaptureActions, seen: UUID) -> None:
    error = error_from(captures, "delete from schedule_ingest.capture_session where id = %s", seen)
    assert isinstance(error, errors.ForeignKeyViolation | errors.RestrictViolation)


@pytest.mark.parametrize(
    "how",
    [
        "closed_at = duly.clock()",
        "state = 'processing', locked_by = 'me/1', locked_at = duly.clock()",
        "state = 'failed', error = 'because'",
    ],
)
def test_no_image_can_be_added_to_a_closed_or_claimed_session(how: str, captures: CaptureActions, seen: UUID) -> None:
    captures.admin.execute(f"update schedule_ingest.capture_session set {how} where id = %s".encode(), [seen])
    error = error_from(captures, IMAGE.format("2", "'late'"), seen)
    assert (error.sqlstate, "accepts no more images" in str(error)) == (ILLEGAL_TRANSITION, True)


async def test_closing_a_session_waits_for_an_image_in_flight(
    captures: CaptureActions, seen: UUID, database: str
) -> None:
    close = "update schedule_ingest.capture_session set closed_at = duly.clock() where id = %s"
    async with captures.api.transaction():
        await SessionTables().add_image(captures.api, seen, "screenshots/2.png")
        closing = asyncio.create_task(asyncio.to_thread(captures.admin.execute, close.encode(), [seen]))
        await asyncio.to_thread(wait_until_blocked, database)
    await closing
    created, closed = captures.rows(
        "select max(i.created_at), max(s.closed_at) from schedule_ingest.capture_image as i"
        " join schedule_ingest.capture_session as s on s.id = i.session_id where s.id = %s",
        seen,
    )[0]
    assert created < closed


# Versions and their pointer -------------------------------------------------------------------------------------------


VERSION = (
    "insert into schedule_ingest.schedule_version (user_id, schedule_date, version, session_id, payload, payload_hash)"
    f" select user_id, '{DAY}', %s, id, '{{}}', 'hash' from schedule_ingest.capture_session where id = %s"
)


async def claimed_session(captures: CaptureActions, user: int = ANNA) -> UUID:
    """A session that a worker holds."""
    await captures.open(user)
    (lease,) = await captures.claim()
    return lease.key


def pointer(captures: CaptureActions) -> list[int]:
    """Return the current versions of the days."""
    return captures.values("select current_version from schedule_ingest.day_schedule")


@pytest.mark.breaks_invariants
async def test_versions_are_consecutive_and_move_the_current_version(captures: CaptureActions) -> None:
    for version in (1, 2, 3):
        for wrong in {0, version + 1, version + 2}:
            error = error_from(captures, VERSION, wrong, await claimed_session(captures))
            assert error.sqlstate in (ILLEGAL_TRANSITION, "23514")
        captures.admin.execute(VERSION.encode(), [version, await claimed_session(captures)])
        assert pointer(captures) == [version]
    for existing_version in (1, 2, 3):
        assert isinstance(
            error_from(captures, VERSION, existing_version, await claimed_session(captures)), errors.UniqueViolation
        )


@pytest.mark.breaks_invariants
async def test_session_can_create_only_one_version(captures: CaptureActions) -> None:
    key = await claimed_session(captures)
    captures.admin.execute(VERSION.encode(), [1, key])
    assert error_from(captures, VERSION, 2, key).diag.constraint_name == "uq_schedule_version__session_id"


@pytest.mark.breaks_invariants
async def test_several_versions_in_one_statement_count_like_several_statements(captures: CaptureActions) -> None:
    for user in (1, 2):
        await claimed_session(captures, user)
    captures.admin.execute(VERSION.replace("%s", "1", 1).split(" where ")[0].encode())
    assert pointer(captures) == [1, 1]
    for user in (1, 2):
        await claimed_session(captures, user)
    error = error_from(
        captures, VERSION.replace("%s", "3", 1).split(" where ")[0] + " where state = 'processing' limit 2"
    )
    assert isinstance(error, errors.UniqueViolation) or error.sqlstate == ILLEGAL_TRANSITION
    assert pointer(captures) == [1, 1]


@pytest.mark.parametrize("state", ["pending", "failed", "another's"])
async def test_version_requires_a_processing_session_of_the_same_user(state: str, captures: CaptureActions) -> None:
    key = await captures.open() if state == "pending" else await claimed_session(captures)
    if state == "failed":
        captures.admin.execute(
            "update schedule_ingest.capture_session set state = 'failed', error = 'because', locked_by = null,"
            " locked_at = null, lease_seconds = null"
        )
    statement = VERSION.replace("select user_id", "select 7") if state == "another's" else VERSION
    error = error_from(captures, statement, 1, key)
    assert (error.sqlstate, "it cannot write a version" in str(error)) == (ILLEGAL_TRANSITION, True)
    assert pointer(captures) == []


async def insert_version(connection: AsyncConnection[Any], version: int, key: UUID) -> None:
    """A version, as a worker that minds no lock would write it."""
    await connection.execute(VERSION.encode(), [version, key])


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("is_committed", [True, False])
async def test_one_of_two_concurrent_writers_of_a_version_succeeds(
    is_committed: bool, captures: CaptureActions, database: str
) -> None:
    one, two = await claimed_session(captures), await claimed_session(captures)
    async with await connect(make_conninfo(database, user=Names().worker)) as other:
        async with captures.worker.transaction(force_rollback=not is_committed):
            await insert_version(captures.worker, 1, one)
            second = asyncio.create_task(insert_version(other, 1, two))
            await asyncio.to_thread(wait_until_blocked, database)
        if is_committed:
            with pytest.raises(errors.UniqueViolation):
                await second
        else:
            await second
    assert pointer(captures) == [1]
    assert captures.values("select session_id from schedule_ingest.schedule_version") == [one if is_committed else two]


@pytest.mark.breaks_invariants
async def test_the_next_version_cannot_be_written_before_the_last_is_committed(
    captures: CaptureActions, database: str
) -> None:
    one, two = await claimed_session(captures), await claimed_session(captures)
    async with await connect(make_conninfo(database, user=Names().worker)) as other, captures.worker.transaction():
        await insert_version(captures.worker, 1, one)
        with pytest.raises(psycopg.Error, match="versions of a day have no gap") as refusal:
            await insert_version(other, 2, two)
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION
    assert pointer(captures) == [1]


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("role", ["", Names().owner])
@pytest.mark.parametrize(
    "statement",
    [
        "insert into schedule_ingest.day_schedule values (7, '2026-02-10', 1)",
        "update schedule_ingest.day_schedule set current_version = 2",
        "update schedule_ingest.day_schedule set current_version = 1",
        "update schedule_ingest.day_schedule set user_id = 7",
    ],
)
def test_current_version_is_moved_only_by_inserting_a_version(
    statement: str, role: str, captures: CaptureActions
) -> None:
    if role:
        captures.admin.execute(f"set role {role}".encode())
    error = error_from(captures, statement)
    assert (error.sqlstate, "current_version changes only with a new version" in str(error)) == (
        ILLEGAL_TRANSITION,
        True,
    )


def test_trigger_can_move_the_current_version_only_to_the_next_one(captures: CaptureActions, seen: UUID) -> None:
    captures.admin.execute(
        "create function schedule_ingest.meddle() returns trigger language plpgsql as $$ begin"
        " update schedule_ingest.day_schedule set current_version = current_version + 2; return null; end $$;"
        "create trigger meddle after insert on schedule_ingest.capture_image"
        " for each row execute function schedule_ingest.meddle()"
    )
    assert "current_version changes only to the next version" in str(
        error_from(captures, IMAGE.format("2", "'x'"), seen)
    )


# Snapshots and events -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("seen")
def test_snapshot_is_written_once_per_session(captures: CaptureActions) -> None:
    error = error_from(captures, "update schedule_ingest.day_snapshot set updated_at = duly.clock()")
    assert (error.sqlstate, "a session writes one snapshot of a day" in str(error)) == (ILLEGAL_TRANSITION, True)


@pytest.mark.breaks_invariants
@pytest.mark.usefixtures("seen")
async def test_event_identity_includes_its_session(captures: CaptureActions) -> None:
    again = (
        "insert into schedule_ingest.schedule_event select gen_random_uuid(), user_id, schedule_date, event_type,"
        " location_fingerprint, customer_fingerprint, old_value_hash, new_value_hash, old_value, new_value,"
        " detected_at, {}, seq + {} from schedule_ingest.schedule_event"
    )
    error = error_from(captures, again.format("source_session_id", 1))
    assert error.diag.constraint_name == "uq_schedule_event__dedupe"
    other = f"'{await captures.open()}'"
    error = error_from(captures, again.format(other, 0))
    assert error.diag.constraint_name == "uq_schedule_event__user_id_schedule_date_seq"
    captures.admin.execute(again.format(other, 1).encode())
    assert captures.count("schedule_ingest.schedule_event") == 2


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("table", ["day_snapshot", "schedule_event", "schedule_notification"])
def test_snapshots_events_and_notifications_reference_an_existing_session(table: str, captures: CaptureActions) -> None:
    foreign = captures.values(
        "select conname from pg_constraint where conrelid = %s::regclass and contype = 'f'", f"schedule_ingest.{table}"
    )
    assert foreign == [f"fk_{table}_capture_session_source_session_id"]


# Privileges -----------------------------------------------------------------------------------------------------------

RIGHTS = {
    "worker": {
        "capture_session": {"select", "update"},
        "capture_image": {"select"},
        "day_schedule": {"select"},
        "schedule_version": {"select", "insert"},
        "day_snapshot": {"select", "insert", "update"},
        "schedule_event": {"select", "insert"},
        "schedule_notification": {"select", "insert"},
    },
    "api": {table: {"select", "insert"} if table == "capture_image" else {"select"} for table in TABLES},
    "readonly": {table: {"select"} for table in TABLES},
}
CREATION_COLUMNS = {
    "id",
    "user_id",
    "payload",
    "given_at",
    "closed_at",
}  # columns that the creator of a session may write
COLUMNS = {
    ("api", "insert"): CREATION_COLUMNS,
    ("api", "update"): {"closed_at"},
    ("worker", "insert"): CREATION_COLUMNS,
}


@pytest.mark.parametrize("part", ROLES)
@pytest.mark.parametrize("table", TABLES)
def test_each_role_has_exactly_its_table_privileges(part: str, table: str, captures: CaptureActions) -> None:
    every = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
    query = "select has_table_privilege(%s, %s, %s)"
    role, name = getattr(Names(), part), f"schedule_ingest.{table}"
    assert {right for right in every if captures.one(query, role, name, right)} == RIGHTS[part][table]


@pytest.mark.parametrize(("part", "right"), COLUMNS)
def test_the_api_creates_and_closes_sessions_and_a_worker_only_further_days(
    part: str, right: str, captures: CaptureActions
) -> None:
    columns = captures.values(
        "select attname from pg_attribute where attrelid = 'schedule_ingest.capture_session'::regclass and attnum > 0"
    )
    query = "select has_column_privilege(%s, 'schedule_ingest.capture_session', %s, %s)"
    granted = {column for column in columns if captures.one(query, getattr(Names(), part), column, right)}
    assert granted == COLUMNS[part, right]


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("part", ROLES)
def test_no_role_may_update_current_version_or_history(part: str, database: str) -> None:
    with psycopg.connect(make_conninfo(database, user=getattr(Names(), part)), autocommit=True) as connection:
        for statement in (
            "update schedule_ingest.day_schedule set current_version = 2",
            "insert into schedule_ingest.day_schedule values (7, '2026-02-10', 1)",
            "delete from schedule_ingest.day_schedule",
            "update schedule_ingest.schedule_version set payload = '{}'",
            "delete from schedule_ingest.schedule_version",
            "update schedule_ingest.schedule_event set event_type = 'shift_added'",
            "delete from schedule_ingest.capture_image",
            "alter table schedule_ingest.schedule_version disable trigger all",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement)


async def test_session_of_another_user_is_not_found(captures: CaptureActions, seen: UUID) -> None:
    assert await SessionTables().find_session(captures.api, ANNA, seen) is None
    assert not await SessionTables().lock_open_session(captures.api, ANNA, seen)
    assert not await SessionTables().close_session(captures.api, ANNA, seen)
    assert captures.one("select closed_at from schedule_ingest.capture_session where id = %s", seen) is None
