"""What the ingest tables refuse, whoever asks: as the owner, as each role, and two at once."""

import asyncio
import json
import subprocess
from collections.abc import Generator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.ingest import store
from duly.kernel.machine import ILLEGAL_MOVE
from duly.testing import TestDatabases
from tests.ingest.hands import ANNA, SAMPLE, SCHEMA, Hands
from tests.ingest.strategies import payload
from tests.support.locks import wait_until_blocked
from tests.support.processes import PYTHON, plain_environment

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
MISCONFIGURED = 78


@pytest.fixture
async def seen(hands: Hands) -> UUID:
    """A session that left something in every table; and one more, which still takes images."""
    await hands.capture(A)
    key = await hands.open(user=7)
    await store.add_image(hands.api, SCHEMA, key, "screenshots/1.png", telegram_message_id=1)
    return key


def refused(hands: Hands, statement: str, *values: object) -> psycopg.Error:
    """The error of a statement that is refused."""
    with pytest.raises(psycopg.Error) as refusal:
        hands.admin.execute(statement.encode(), values)
    return refusal.value


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
def test_a_value_that_breaks_a_rule_is_refused_by_name(rule: str, hands: Hands) -> None:
    """A row like the one that is there, with one column as it must not be, and no trigger to say so first."""
    table, column, value = CHECKS[rule].split(" ", 2)
    name = column.strip("()")
    hands.admin.execute("set session_replication_role = replica")
    columns = hands.values(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
        " and attgenerated = '' and attidentity = ''",
        f"schedule_ingest.{table}",
    )
    like = ", ".join(value if each == name else each for each in columns)
    error = refused(
        hands,
        f"insert into schedule_ingest.{table} ({', '.join(columns)}) select {like} from schedule_ingest.{table}",
    )
    assert isinstance(error, errors.CheckViolation)
    assert error.diag.constraint_name == rule


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("kind", ["added", "removed", "time_changed", "relocated", "retitled", "reclassified"])
def test_the_six_types_of_an_event_have_the_sides_that_they_need(kind: str, hands: Hands) -> None:
    for old, new in (("'{}'", "'{}'"), ("null", "'{}'"), ("'{}'", "null"), ("null", "null")):
        fits = (old == "null", new == "null") == (kind == "added", kind == "removed")
        insert = (
            "insert into schedule_ingest.schedule_event (event_id, user_id, schedule_date, event_type,"
            " location_fingerprint, customer_fingerprint, old_value_hash, new_value_hash, old_value, new_value,"
            " source_session_id) select gen_random_uuid(), user_id, schedule_date, %s, 'l', 'c', 'o', 'n',"
            f" {old}, {new}, source_session_id from schedule_ingest.day_snapshot"
        )
        if fits:
            hands.admin.execute(insert.encode(), [f"shift_{kind}"])
            continue
        error = refused(hands, insert, f"shift_{kind}")
        assert error.diag.constraint_name == "ck_schedule_event__values"


def test_images_are_numbered_from_one_and_named_once(hands: Hands, seen: UUID) -> None:
    for sequence, name, rule in (
        ("0", "'zero'", "ck_capture_image__sequence"),
        ("-1", "'minus'", "ck_capture_image__sequence"),
        ("1", "'again'", "uq_capture_image__session_id_sequence"),
        ("2", "'screenshots/1.png'", "uq_capture_image__r2_key"),
        ("2", "''", "ck_capture_image__r2_key"),
    ):
        assert refused(hands, IMAGE.format(sequence, name), seen).diag.constraint_name == rule
    hands.admin.execute(IMAGE.format("2", "'screenshots/2.png'").encode(), [seen])


def test_an_image_belongs_to_a_session(hands: Hands) -> None:
    error = refused(hands, IMAGE.format("1", "'x'"), UUID(int=1))
    assert error.diag.constraint_name == "fk_capture_image_capture_session_session_id"


async def test_the_same_message_of_a_bot_brings_one_image(hands: Hands, seen: UUID) -> None:
    assert await store.add_image(hands.api, SCHEMA, seen, "screenshots/2.png", telegram_message_id=1) is None
    assert hands.count("capture_image") == 1


# What stays -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("table", ["capture_image", "schedule_version", "schedule_event"])
@pytest.mark.parametrize("change", ["update {0} set {1} = {1}", "delete from {0}", "truncate {0} cascade"])
@pytest.mark.parametrize("role", ["", Names().owner])
def test_images_versions_and_events_are_immutable(table: str, change: str, role: str, hands: Hands) -> None:
    column = {"capture_image": "r2_key", "schedule_version": "payload", "schedule_event": "event_type"}[table]
    if role:
        hands.admin.execute(f"set role {role}".encode())
    error = refused(hands, change.format(f"schedule_ingest.{table}", column))
    assert "is append-only" in str(error)
    hands.admin.execute("reset role")
    assert hands.count(table) == 1


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("table", ["day_schedule", "day_snapshot"])
@pytest.mark.parametrize("change", ["delete from {}", "truncate {}"])
def test_a_day_is_not_forgotten(table: str, change: str, hands: Hands) -> None:
    assert "is append-only" in str(refused(hands, change.format(f"schedule_ingest.{table}")))


def test_a_session_that_left_something_stays(hands: Hands, seen: UUID) -> None:
    error = refused(hands, "delete from schedule_ingest.capture_session where id = %s", seen)
    assert isinstance(error, errors.ForeignKeyViolation | errors.RestrictViolation)


@pytest.mark.parametrize(
    "how",
    [
        "closed_at = duly.clock()",
        "state = 'processing', locked_by = 'me/1', locked_at = duly.clock()",
        "state = 'failed', error = 'because'",
    ],
)
def test_no_image_comes_after_a_session_was_closed_or_taken(how: str, hands: Hands, seen: UUID) -> None:
    hands.admin.execute(f"update schedule_ingest.capture_session set {how} where id = %s".encode(), [seen])
    error = refused(hands, IMAGE.format("2", "'late'"), seen)
    assert (error.sqlstate, "takes no more images" in str(error)) == (ILLEGAL_MOVE, True)


async def test_whoever_closes_a_session_waits_for_the_image_that_is_on_its_way(
    hands: Hands, seen: UUID, database: str
) -> None:
    close = "update schedule_ingest.capture_session set closed_at = duly.clock() where id = %s"
    async with hands.api.transaction():
        await store.add_image(hands.api, SCHEMA, seen, "screenshots/2.png")
        closing = asyncio.create_task(asyncio.to_thread(hands.admin.execute, close.encode(), [seen]))
        await asyncio.to_thread(wait_until_blocked, database)
    await closing
    created, closed = hands.rows(
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


async def held(hands: Hands, user: int = ANNA) -> UUID:
    """A session that a worker holds."""
    await hands.open(user)
    (lease,) = await hands.hold()
    return lease.key


def pointer(hands: Hands) -> list[int]:
    """Where the days point."""
    return hands.values("select current_version from schedule_ingest.day_schedule")


@pytest.mark.lawless
async def test_versions_have_no_gap_and_move_the_pointer(hands: Hands) -> None:
    for version in (1, 2, 3):
        for wrong in {0, version + 1, version + 2}:
            error = refused(hands, VERSION, wrong, await held(hands))
            assert error.sqlstate in (ILLEGAL_MOVE, "23514")
        hands.admin.execute(VERSION.encode(), [version, await held(hands)])
        assert pointer(hands) == [version]
    for taken in (1, 2, 3):
        assert isinstance(refused(hands, VERSION, taken, await held(hands)), errors.UniqueViolation)


@pytest.mark.lawless
async def test_a_session_makes_one_version(hands: Hands) -> None:
    key = await held(hands)
    hands.admin.execute(VERSION.encode(), [1, key])
    assert refused(hands, VERSION, 2, key).diag.constraint_name == "uq_schedule_version__session_id"


@pytest.mark.lawless
async def test_several_versions_in_one_statement_count_like_several_statements(hands: Hands) -> None:
    for user in (1, 2):
        await held(hands, user)
    hands.admin.execute(VERSION.replace("%s", "1", 1).split(" where ")[0].encode())
    assert pointer(hands) == [1, 1]
    for user in (1, 2):
        await held(hands, user)
    error = refused(hands, VERSION.replace("%s", "3", 1).split(" where ")[0] + " where state = 'processing' limit 2")
    assert isinstance(error, errors.UniqueViolation) or error.sqlstate == ILLEGAL_MOVE
    assert pointer(hands) == [1, 1]


@pytest.mark.parametrize("state", ["pending", "failed", "another's"])
async def test_a_version_comes_of_a_session_that_is_being_processed_and_of_the_same_person(
    state: str, hands: Hands
) -> None:
    key = await hands.open() if state == "pending" else await held(hands)
    if state == "failed":
        hands.admin.execute(
            "update schedule_ingest.capture_session set state = 'failed', error = 'because', locked_by = null,"
            " locked_at = null, lease_seconds = null"
        )
    statement = VERSION.replace("select user_id", "select 7") if state == "another's" else VERSION
    error = refused(hands, statement, 1, key)
    assert (error.sqlstate, "no version can come of it" in str(error)) == (ILLEGAL_MOVE, True)
    assert pointer(hands) == []


async def insert_version(connection: AsyncConnection[Any], version: int, key: UUID) -> None:
    """A version, as a worker that minds no lock would write it."""
    await connection.execute(VERSION.encode(), [version, key])


@pytest.mark.lawless
@pytest.mark.parametrize("is_committed", [True, False])
async def test_of_two_who_write_the_same_version_at_once_one_wins(
    is_committed: bool, hands: Hands, database: str
) -> None:
    one, two = await held(hands), await held(hands)
    async with await connect(make_conninfo(database, user=Names().worker)) as other:
        async with hands.worker.transaction(force_rollback=not is_committed):
            await insert_version(hands.worker, 1, one)
            second = asyncio.create_task(insert_version(other, 1, two))
            await asyncio.to_thread(wait_until_blocked, database)
        if is_committed:
            with pytest.raises(errors.UniqueViolation):
                await second
        else:
            await second
    assert pointer(hands) == [1]
    assert hands.values("select session_id from schedule_ingest.schedule_version") == [one if is_committed else two]


@pytest.mark.lawless
async def test_nobody_writes_the_next_version_before_the_last_is_there(hands: Hands, database: str) -> None:
    one, two = await held(hands), await held(hands)
    async with await connect(make_conninfo(database, user=Names().worker)) as other, hands.worker.transaction():
        await insert_version(hands.worker, 1, one)
        with pytest.raises(psycopg.Error, match="versions of a day have no gap") as refusal:
            await insert_version(other, 2, two)
    assert refusal.value.sqlstate == ILLEGAL_MOVE
    assert pointer(hands) == [1]


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
def test_the_pointer_is_moved_by_versions_alone(statement: str, role: str, hands: Hands) -> None:
    if role:
        hands.admin.execute(f"set role {role}".encode())
    error = refused(hands, statement)
    assert (error.sqlstate, "a pointer that no version moves refused" in str(error)) == (ILLEGAL_MOVE, True)


def test_not_even_a_trigger_moves_the_pointer_but_to_the_next_version(hands: Hands, seen: UUID) -> None:
    hands.admin.execute(
        "create function schedule_ingest.meddle() returns trigger language plpgsql as $$ begin"
        " update schedule_ingest.day_schedule set current_version = current_version + 2; return null; end $$;"
        "create trigger meddle after insert on schedule_ingest.capture_image"
        " for each row execute function schedule_ingest.meddle()"
    )
    assert "a step that is not to the next version refused" in str(refused(hands, IMAGE.format("2", "'x'"), seen))


# Snapshots and events -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("seen")
def test_a_session_writes_its_snapshot_once(hands: Hands) -> None:
    error = refused(hands, "update schedule_ingest.day_snapshot set updated_at = duly.clock()")
    assert (error.sqlstate, "a second snapshot of one session" in str(error)) == (ILLEGAL_MOVE, True)


@pytest.mark.lawless
@pytest.mark.usefixtures("seen")
async def test_an_event_is_known_by_its_session_too(hands: Hands) -> None:
    again = (
        "insert into schedule_ingest.schedule_event select gen_random_uuid(), user_id, schedule_date, event_type,"
        " location_fingerprint, customer_fingerprint, old_value_hash, new_value_hash, old_value, new_value,"
        " detected_at, {}, seq + {} from schedule_ingest.schedule_event"
    )
    error = refused(hands, again.format("source_session_id", 1))
    assert error.diag.constraint_name == "uq_schedule_event__dedupe"
    other = f"'{await hands.open()}'"
    assert refused(hands, again.format(other, 0)).diag.constraint_name == "uq_schedule_event__user_id_schedule_date_seq"
    hands.admin.execute(again.format(other, 1).encode())
    assert hands.count("schedule_event") == 2


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("table", ["day_snapshot", "schedule_event", "schedule_notification"])
def test_what_a_session_left_names_a_session_that_is_there(table: str, hands: Hands) -> None:
    foreign = hands.values(
        "select conname from pg_constraint where conrelid = %s::regclass and contype = 'f'", f"schedule_ingest.{table}"
    )
    assert foreign == [f"fk_{table}_capture_session_source_session_id"]


# Who may do what ------------------------------------------------------------------------------------------------------

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
COLUMNS_OF_API = {"insert": {"id", "user_id", "payload", "given_at", "closed_at"}, "update": {"closed_at"}}


@pytest.mark.parametrize("part", ROLES)
@pytest.mark.parametrize("table", TABLES)
def test_each_role_has_the_rights_it_needs_and_no_other(part: str, table: str, hands: Hands) -> None:
    every = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
    asked = "select has_table_privilege(%s, %s, %s)"
    role, name = getattr(Names(), part), f"schedule_ingest.{table}"
    assert {right for right in every if hands.one(asked, role, name, right)} == RIGHTS[part][table]


@pytest.mark.parametrize("right", COLUMNS_OF_API)
def test_the_api_begins_and_closes_sessions_and_does_nothing_else_to_them(right: str, hands: Hands) -> None:
    columns = hands.values(
        "select attname from pg_attribute where attrelid = 'schedule_ingest.capture_session'::regclass and attnum > 0"
    )
    asked = "select has_column_privilege(%s, 'schedule_ingest.capture_session', %s, %s)"
    granted = {column for column in columns if hands.one(asked, Names().api, column, right)}
    assert granted == COLUMNS_OF_API[right]


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("part", ROLES)
def test_no_role_moves_the_pointer_or_rewrites_the_past(part: str, database: str) -> None:
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


async def test_another_persons_session_is_not_there(hands: Hands, seen: UUID) -> None:
    assert await store.find_session(hands.api, SCHEMA, ANNA, seen) is None
    assert not await store.lock_open_session(hands.api, SCHEMA, ANNA, seen)
    assert not await store.close_session(hands.api, SCHEMA, ANNA, seen)
    assert hands.one("select closed_at from schedule_ingest.capture_session where id = %s", seen) is None


# Another schema -------------------------------------------------------------------------------------------------------


@pytest.fixture
def empty(server: str, worker_id: str) -> Generator[str, None, None]:
    """The address of an empty database."""
    databases = TestDatabases(server, f"duly_test_schema_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn:
        yield dsn


def duly(dsn: str, schema: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that is told of another schema."""
    environment = plain_environment(DATABASE_URL=dsn, DB_SCHEMA=schema, FIXTURE_PAYLOAD_PATH=str(SAMPLE))
    command = [*PYTHON, "-m", "duly", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_everything_works_in_a_schema_of_another_name(empty: str) -> None:
    def run(*arguments: str) -> str:
        done = duly(empty, "rota_2", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("migrate")
    with psycopg.connect(empty, autocommit=True) as admin:
        assert admin.execute("select to_regnamespace('schedule_ingest')").fetchone() == (None,)
        admin.execute("insert into rota_2.capture_session (user_id) values (42)")
        assert json.loads(run("worker", "--only", "ingest", "--once", "--json")) == {"rows": 1}
        assert admin.execute("select state::text from rota_2.capture_session").fetchone() == ("done",)
        assert admin.execute("select current_version from rota_2.day_schedule").fetchone() == (1,)
        assert "0 differences, 0 offences" in run("verify")
        run("migrate", "--to", "0004_posts")
        assert admin.execute("select to_regclass('rota_2.capture_session')").fetchone() == (None,)
        run("migrate")
        assert "0 differences, 0 offences" in run("verify")


@pytest.mark.parametrize(
    "schema",
    [
        'x"; drop schema duly cascade; --',
        "duly",
        "user",
        "posts",
        "pg_catalog",
        "information_schema",
        "Rota",
        "x" * 64,
    ],
)
def test_a_hostile_name_of_a_schema_is_refused_by_its_setting(schema: str, empty: str) -> None:
    refusal = duly(empty, schema, "migrate")
    assert refusal.returncode == MISCONFIGURED
    assert "DB_SCHEMA" in refusal.stderr
    with psycopg.connect(empty) as admin:
        assert admin.execute("select to_regnamespace('duly')").fetchone() == (None,)


def test_a_schema_that_the_database_was_not_migrated_with_is_said_to_be_so(database: str) -> None:
    refusal = duly(database, "rota", "worker", "--only", "ingest", "--once")
    assert refusal.returncode == MISCONFIGURED
    assert "DB_SCHEMA=rota: there is no table capture_session" in refusal.stderr
