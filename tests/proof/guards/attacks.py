"""For every guard of the catalogue an attack that this guard alone withstands.

An attack is given the guard that it is about, and a connection that may do anything, in a transaction that is rolled
back. Where the guard does its part, the attack ends quietly; where it does not, it raises `Unguarded`. Anything else
that is raised means that something other than this guard stood in the way, and that the attack has to be a better one.

Some guards stand behind another: they are the second line. `behind` names those that an attack lifts first.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import psycopg
from psycopg.types.json import Jsonb

from duly.db.migrations import Names
from tests.proof.guards.catalogue import Guard, list_guards
from tests.proof.guards.sample_rows import ORG

Connection = psycopg.Connection[Any]
ILLEGAL_TRANSITION = "DU001"
LIMIT = "DU010"
PARTITIONS = " (partitions)"
LONG_AGO = "2001-01-01"


class Unguarded(AssertionError):
    """The attack succeeded: nothing guards this."""


@dataclass(frozen=True)
class Attack:
    """What is tried, in words and in deed, and which guards are lifted first, so that it meets this one alone."""

    description: str
    perform: Callable[[Connection, Guard], None]
    behind: tuple[str, ...] = ()


def attack(connection: Connection, guard: Guard) -> None:
    """Attack a guard; quietly over when it stood."""
    chosen = ATTACKS[str(guard)]
    if chosen.behind:
        for first in (each for each in list_guards(connection) if str(each) in chosen.behind):
            connection.execute(text(first.removal))
    chosen.perform(connection, guard)


# What attacks are made of ---------------------------------------------------------------------------------------------


def text(statement: str) -> LiteralString:
    """A statement of this file, or one that was made from the catalogue."""
    return cast("LiteralString", statement)


def value(connection: Connection, query: str, *given: object) -> Any:
    """The one value that this asks for."""
    row = connection.execute(text(query), given).fetchone()
    assert row is not None, query
    return row[0]


def refused(connection: Connection, by: Callable[[psycopg.Error], bool], statement: str, *given: object) -> None:
    """This statement is refused, and by the right one."""
    try:
        with connection.transaction():
            connection.execute(text(statement), given or None)
    except psycopg.Error as error:
        if not by(error):
            raise
        return
    raise Unguarded(f"not refused: {statement}")


def coded(state: str) -> Callable[[psycopg.Error], bool]:
    """Is it this error?"""
    return lambda error: error.sqlstate == state


def holds(condition: bool, otherwise: str) -> None:
    """What the guard sees to is so."""
    if not condition:
        raise Unguarded(otherwise)


# A second row of the same key -----------------------------------------------------------------------------------------

EXAMPLES: Mapping[str, str] = {  # which row is copied, where any would not do
    "schedule_ingest.capture_session": "state = 'pending'",
    "unique uq_expenses__reverses of expense.expenses": "reverses is not null",
    "expense.expenses": "source_ref = 'right'",
    "scheduler.job_runs": "period_key = 'this month'",
}
FREE: Mapping[str, str] = {  # by which column a copy becomes another, where it is not the last of the key
    "schedule_ingest.schedule_version": "schedule_date",
    "scheduler.job_runs": "id",
}
FRESH: Mapping[str, Callable[[], object]] = {  # of columns that cannot be just anything
    "prefix": lambda: f"duly_{secrets.token_hex(6)}",
    "schedule_date": lambda: f"{2100 + secrets.randbelow(80)}-01-01",
}
# The last column of every other unique index of a table, and what it refers to.
OTHER_KEYS: LiteralString = """
select a.attname, format_type(a.atttypid, a.atttypmod), f.confrelid::regclass::text, parent.attname
from pg_index as i
join pg_class as x on x.oid = i.indexrelid
join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
left join pg_constraint as f on f.contype = 'f' and f.conrelid = i.indrelid and f.conkey = array[a.attnum]
left join pg_attribute as parent on parent.attrelid = f.confrelid and parent.attnum = f.confkey[1]
where i.indisunique and i.indrelid = %(table)s::text::regclass and x.relname <> %(same)s
    and a.attname = (
        select l.attname from pg_attribute as l
        where l.attrelid = i.indrelid and l.attnum = any (i.indkey)
        order by l.attname = %(free)s desc, array_position(i.indkey::smallint[], l.attnum) desc
        limit 1
    )
"""


def fresh(column: str, kind: str) -> object:
    """A value that no row has."""
    if column in FRESH:
        return FRESH[column]()
    if kind == "uuid":
        return f"00000000-0000-4000-8000-{secrets.token_hex(6)}"
    if kind in ("bigint", "integer"):
        return 1_000_000 + secrets.randbelow(1_000_000)
    if kind == "bytea":
        return f"\\x{secrets.token_hex(32)}"
    return secrets.token_hex(8)


def anew(connection: Connection, table: str, same: str = "") -> dict[str, object]:
    """What makes a copy another row by every unique index of a table, but for one."""
    given = {"table": table, "same": same, "free": FREE.get(table, "")}
    changes: dict[str, object] = {}
    for column, kind, parent, its in connection.execute(OTHER_KEYS, given).fetchall():
        unused = f"select {its} from {parent} except select {column} from {table} limit 1"
        changes[column] = str(value(connection, unused)) if parent else fresh(column, kind)
    return changes


def copied(
    connection: Connection, table: str, changes: Mapping[str, object], where: str, into: str | None = None
) -> Any:
    """Insert what an existing row says, changed in these columns where it says anything there; the new row."""
    columns = value(
        connection,
        "select string_agg(quote_ident(attname), ', ') from pg_attribute where attrelid = %s::text::regclass"
        " and attnum > 0 and not attisdropped and attgenerated = ''",
        table,
    )
    before = value(connection, f"select to_jsonb(t) from {table} as t where {where} limit 1")
    after = before | {column: changed for column, changed in changes.items() if before.get(column) is not None}
    statement = (
        f"insert into {into or table} as made ({columns}) overriding system value select {columns}"
        f" from jsonb_populate_record(null::{table}, %s) as copy returning to_jsonb(made)"
    )
    return value(connection, statement, Jsonb(after))


def example_row(guard: Guard) -> str:
    """Which row is copied."""
    table = guard.table.removesuffix(PARTITIONS)
    return EXAMPLES.get(str(guard), EXAMPLES.get(table, "true"))


def second_row(connection: Connection, guard: Guard) -> None:
    """A row that is like another in the columns of this index, and in no other unique column."""
    try:
        with connection.transaction():
            copied(connection, guard.table, anew(connection, guard.table, guard.called), example_row(guard))
    except psycopg.errors.UniqueViolation as error:
        if parent_index(connection, error.diag.constraint_name or "") != guard.called:
            raise
        return
    raise Unguarded(f"{guard.table} has two rows of one key")


def parent_index(connection: Connection, index: str) -> str:
    """The index that this is the part of in a partition; itself in a table without any."""
    query = (
        "select coalesce(min(whole.relname), %s) from pg_class as part join pg_inherits as i on i.inhrelid = part.oid"
        " join pg_class as whole on whole.oid = i.inhparent where part.relname = %s"
    )
    return value(connection, query, index, index)


SECOND_ROW = Attack("a second row of the same key", second_row)


# Logs that only grow --------------------------------------------------------------------------------------------------


def refuses(operation: str) -> Callable[[psycopg.Error], bool]:
    """Is it the word of the catch?"""
    return lambda error: error.sqlstate == "23001" and f"append-only: {operation} refused" in str(error)


def removable_row(connection: Connection, table: str) -> str:
    """Where to find a row that no other row needs."""
    where = "reverses is not null" if table == "expense.expenses" else "true"
    return value(connection, f"select format('ctid = %%L', ctid) from {table} where {where} limit 1")


def change_row(connection: Connection, guard: Guard) -> None:
    """An update that changes nothing, and a delete."""
    where = removable_row(connection, guard.table)
    column = value(
        connection,
        "select quote_ident(attname) from pg_attribute where attrelid = %s::text::regclass and attnum = 1",
        guard.table,
    )
    refused(connection, refuses("UPDATE"), f"update {guard.table} set {column} = {column} where {where}")
    refused(connection, refuses("DELETE"), f"delete from {guard.table} where {where}")


def delete_row(connection: Connection, guard: Guard) -> None:
    """A delete."""
    where = removable_row(connection, guard.table)
    refused(connection, refuses("DELETE"), f"delete from {guard.table} where {where}")


def empty_table(connection: Connection, guard: Guard) -> None:
    """A truncate."""
    refused(connection, refuses("TRUNCATE"), f"truncate {guard.table}")


CHANGE = Attack("an update and a delete by a superuser", change_row)
DELETE = Attack("a delete by a superuser", delete_row)
TRUNCATE = Attack("a truncate by a superuser", empty_table)


# Machines -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateMachine:
    """A state machine as an attack sees it: a row, a move that is drawn, and one that is not."""

    key: str
    log: str  # finds the lines of one row, by its key
    legal: str
    illegal: str
    where: str = "true"
    first: str = ""  # what brings the row to where the illegal move begins


BY_TRANSITION = "duly.transition where machine = '{}' and key = %s::text"
JOB = StateMachine(
    "id",
    "ledger.job_event where job_id = %s::text::uuid",
    "status = 'running', starts = 1, lease_owner = 'worker-1/b', lease_expires_at = duly.clock() + interval '1 minute'",
    "status = 'succeeded', finished_at = duly.clock(), retain_until = duly.clock()",
)
MESSAGE = StateMachine(
    "id",
    BY_TRANSITION.format("outbox"),
    "status = 'sending', starts = 1, lease_owner = 'worker-1/b', lease_expires_at = duly.clock() + interval '1 minute'",
    "status = 'uncertain', called_at = duly.clock()",
)
POST = StateMachine(
    "id",
    BY_TRANSITION.format("post"),
    "status = 'PROCESSING', lease_owner = 'worker-1/b', lease_expires_at = duly.clock() + interval '1 minute'",
    "status = 'RELEASED'",
)
CAPTURE = StateMachine(
    "id",
    BY_TRANSITION.format("capture"),
    "state = 'processing', locked_by = 'worker-1/b', locked_at = duly.clock(), lease_seconds = 60",
    "state = 'done'",
    "state = 'pending'",
)
NOTIFICATION = StateMachine(
    "notification_id",
    BY_TRANSITION.format("notification"),
    "delivery = 'sending', starts = 1, lease_owner = 'worker-1/b',"
    " lease_expires_at = duly.clock() + interval '1 minute'",
    "delivery = 'uncertain', called_at = duly.clock()",
)
RUN = StateMachine("id", BY_TRANSITION.format("run"), "status = 'cancelled'", "status = 'snoozed'")
SCHEDULE = StateMachine(
    "id", BY_TRANSITION.format("schedule"), "status = 'paused'", "status = 'active'", first="status = 'archived'"
)


def illegal_move(of: StateMachine) -> Attack:
    """A move that is not drawn, and a revision of the caller's own."""

    def perform(connection: Connection, guard: Guard) -> None:
        key, _ = one_row(connection, of, guard.table)
        update = f"update {guard.table} set {{}} where {of.key}::text = '{key}'"
        if of.first:
            connection.execute(text(update.format(of.first)))
        before = one_row(connection, of, guard.table)
        refused(connection, coded(ILLEGAL_TRANSITION), update.format(of.illegal))
        connection.execute(text(update.format("revision = revision + 7")))
        holds(one_row(connection, of, guard.table) == before, "the caller wrote the revision")

    return Attack("a move that is not drawn, and a revision of the caller's own", perform)


def start_as_running(connection: Connection, guard: Guard) -> None:
    """A new row that begins where none may, whether or not it looks as if it had been checked."""
    for revision in (0, 1):
        refused(
            connection,
            coded(ILLEGAL_TRANSITION),
            f"insert into {guard.table} (org_id, type, status, starts, lease_owner, lease_expires_at, revision)"
            " select org_id, type, 'running', 1, 'worker-1/b', duly.clock(), %s from ledger.job limit 1",
            revision,
        )


def claim_with_another_payload(connection: Connection, guard: Guard) -> None:
    """A claim as ledger.claim writes it, which also writes what no claim does."""
    key, _ = one_row(connection, JOB, guard.table)
    refused(
        connection,
        coded("23514"),
        f"update {guard.table} as t set status = 'running', starts = 1, lease_owner = 'worker-1/b',"
        " lease_expires_at = given.now + interval '1 minute', event_detail = null, revision = t.revision + 1,"
        " transition_from = 'queued', updated_at = given.now, attempt = 0, started_at = given.now, payload = '[]'"
        " from (select clock_timestamp() as now offset 0) as given where id::text = %s",
        key,
    )


EXACT_MOVE_OF_ANOTHER_ROW = Attack("a claim that also writes a payload", claim_with_another_payload)
RUNNING_FROM_THE_START = Attack("a new row that begins as running", start_as_running)


def one_row(connection: Connection, of: StateMachine, table: str) -> tuple[str, int]:
    """Key and revision of the row that an attack is about."""
    query = f"select {of.key}::text, revision from {table} where {of.where} order by 1 limit 1"
    row = connection.execute(text(query)).fetchone()
    assert row is not None
    return row


def unlogged_insert(of: StateMachine, part: bool = False) -> Attack:
    """A new row without a line in the log."""

    def perform(connection: Connection, guard: Guard) -> None:
        table = guard.table.removesuffix(PARTITIONS)
        changes = anew(connection, table) | {"period_key": "another"}
        made = copied(connection, table, changes, example_row(guard), into=partition_name(connection) if part else None)
        lines = value(connection, f"select count(*) from {of.log} and seq = 1", str(made[of.key]))
        holds(lines == 1, "a row began without a line in the log")

    return Attack("a new row must be in the log" + (", whichever partition is named" if part else ""), perform)


def unlogged_move(of: StateMachine, part: bool = False) -> Attack:
    """A move without a line in the log."""

    def perform(connection: Connection, guard: Guard) -> None:
        table = guard.table.removesuffix(PARTITIONS)
        key, revision = one_row(connection, of, table)
        table = partition_name(connection) if part else table
        connection.execute(text(f"update {table} set {of.legal} where {of.key}::text = '{key}'"))
        lines = value(connection, f"select count(*) from {of.log} and seq = {revision + 1}", key)
        holds(lines == 1, "a row moved without a line in the log")

    return Attack("a move must be in the log" + (", whichever partition is named" if part else ""), perform)


def partition_name(connection: Connection) -> str:
    """The partition that the run lies in."""
    return value(connection, "select tableoid::regclass::text from scheduler.job_runs limit 1")


# What the database writes for itself ----------------------------------------------------------------------------------


def write_updated_at(connection: Connection, guard: Guard) -> None:
    """A time of change that the caller invents."""
    where = removable_row(connection, guard.table)
    statement = f"update {guard.table} set updated_at = '{LONG_AGO}' where {where} returning updated_at"
    holds(value(connection, statement).year > 2001, "the caller wrote updated_at")


TOUCH = Attack("a time of change that the caller invents", write_updated_at)


def send(connection: Connection, *more: str) -> None:
    """Bring the message from waiting to sent."""
    connection.execute(text(f"update duly.outbox set {MESSAGE.legal}, called_at = duly.clock()"))
    settled = ", ".join(("status = 'sent'", "lease_owner = null", "lease_expires_at = null", *more))
    connection.execute(text(f"update duly.outbox set {settled}"))


def invent_sent_at(connection: Connection, guard: Guard) -> None:
    """A time of sending that the caller invents."""
    send(connection, f"sent_at = '{LONG_AGO}'")
    holds(value(connection, "select sent_at from duly.outbox").year > 2001, "the caller wrote sent_at")


def send_unnoted(connection: Connection, guard: Guard) -> None:
    """A reminder that goes out, and whose run does not know."""
    before = value(connection, "select count(*) from scheduler.reminders")
    send(connection, f"sent_at = '{LONG_AGO}'")
    holds(value(connection, "select count(*) from scheduler.reminders") == before + 1, "a reminder was not noted")
    holds(value(connection, "select status from scheduler.job_runs") == "sent", "its run does not know")


def write_unheard(connection: Connection, guard: Guard) -> None:
    """Insert a message and expect a wake-up."""
    connection.execute("select setval('duly.wake_outbox', 1)")
    copied(connection, "duly.outbox", anew(connection, "duly.outbox"), "true")
    holds(value(connection, "select last_value from duly.wake_outbox") > 1, "no listener was woken")


def run_without_key(connection: Connection, guard: Guard) -> None:
    """A second run of one period."""
    with connection.transaction():
        made = copied(connection, guard.table, {"id": fresh("id", "bigint"), "period_key": "another"}, "true")
        written = "select count(*) from scheduler.job_run_keys where job_run_id = %s"
        holds(value(connection, written, made["id"]) == 1, "a run has no key")
    try:
        with connection.transaction():
            copied(connection, guard.table, {"id": fresh("id", "bigint")}, "period_key = 'this month'")
    except psycopg.errors.UniqueViolation as error:
        holds(error.diag.constraint_name == "uq_job_runs__job_period", str(error))
        return
    raise Unguarded("a period has two runs")


def run_without_reminder(connection: Connection, guard: Guard) -> None:
    """Insert a run as another program would, and expect a reminder of it."""
    made = copied(
        connection, guard.table, {"id": fresh("id", "bigint"), "period_key": "another", "remind_at": None}, "true"
    )
    remind_at = value(connection, "select remind_at from scheduler.job_runs where id = %s", made["id"])
    holds(remind_at is not None, "a run has no time to remind at")


def delete_partly(connection: Connection, guard: Guard) -> None:
    """A run that is deleted, and whose key and reminders stay."""
    connection.execute("delete from scheduler.job_runs")
    holds(value(connection, "select count(*) from scheduler.job_run_keys") == 0, "the key of a deleted run stayed")
    holds(value(connection, "select count(*) from scheduler.reminders") == 0, "its reminders stayed")


def add_unplanned(connection: Connection, guard: Guard) -> None:
    """Insert a schedule and expect its plan."""
    made = copied(connection, guard.table, anew(connection, guard.table), "true")
    planned = value(connection, "select count(*) from scheduler.job_plans where job_id = %s", made["id"])
    holds(planned == 1, "a schedule has no plan")


def pause_planned(connection: Connection, guard: Guard) -> None:
    """A schedule that rests and is planned on."""
    connection.execute("update scheduler.jobs set status = 'paused'")
    holds(value(connection, "select plan_at from scheduler.job_plans") is None, "a paused schedule is planned on")


def crowd(connection: Connection, guard: Guard) -> None:
    """More pending runs of one schedule than the limit, into the whole table or into a part of it."""
    table_name = "scheduler.job_runs"
    if guard.table.endswith(PARTITIONS):
        table_name = value(connection, "select tableoid::regclass::text from scheduler.job_runs limit 1")
    refused(
        connection,
        coded(LIMIT),
        f"insert into {table_name} (job_id, period_key, scheduled_at) select j.id, 'p' || n, r.scheduled_at"
        " from scheduler.jobs as j, scheduler.job_runs as r, generate_series(1, 2001) as n",
    )


def hoard(connection: Connection, guard: Guard) -> None:
    """More schedules of one person than the limit."""
    refused(
        connection,
        coded(LIMIT),
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select user_id, name, rule, first_run_at from scheduler.jobs, generate_series(1, 201)",
    )


def go_far_back(connection: Connection, guard: Guard) -> None:
    """A beginning that lies further back than the limit."""
    refused(connection, coded("23514"), "update scheduler.jobs set first_run_at = first_run_at - interval '11 years'")


def change_zone(connection: Connection, guard: Guard) -> None:
    """Change a user's zone and expect their schedules to follow."""
    connection.execute("update scheduler.job_plans set plan_at = '2100-01-01'")
    connection.execute("update duly.person set zone = 'Europe/Stockholm'")
    holds(value(connection, "select plan_at from scheduler.job_plans").year < 2100, "they are not planned again")


def add_person(connection: Connection, guard: Guard) -> None:
    """Add a person and expect a user of theirs, whose schedules they can have."""
    user = value(connection, "insert into duly.person (uid) values ('cia') returning user_id")
    there = value(connection, 'select count(*) from "user".users where id = %s', user)
    holds(there == 1, "the person has no user")


def link_to_missing_user(connection: Connection, guard: Guard) -> None:
    """Link a person to a user who does not exist."""
    refused(connection, coded("DU005"), "update duly.person set user_id = 1000 where uid = 'ben'")


def schedule_for_unlinked_user(connection: Connection, guard: Guard) -> None:
    """Add a schedule for a user whom another system added."""
    connection.execute('insert into "user".users (id) values (1000)')
    try:
        connection.execute(
            "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
            " values (1000, 'Rent', 'cron: 0 10 1 * *', duly.clock())"
        )
    except psycopg.errors.ForeignKeyViolation as error:
        raise Unguarded("a user without a person cannot have a schedule") from error


def change_status_only(connection: Connection, guard: Guard) -> None:
    """Another program that writes the contract's status, and nothing of ours."""
    connection.execute(text(f"update {guard.table} set status = 'sent', sent_at = duly.clock()"))
    holds(value(connection, f"select delivery from {guard.table}") == "sent", "it would be sent again")


# What makes no sense --------------------------------------------------------------------------------------------------


def reverse_partly(connection: Connection, guard: Guard) -> None:
    """A reversal of a part."""
    right = value(connection, "select id from expense.expenses where source_ref = 'right'")
    partly = "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref, reverses)"
    refused(
        connection,
        lambda error: error.diag.constraint_name == "ck_expenses__reverses",
        f"{partly} select user_id, name, -1, currency, occurred_at, 'partly', id from expense.expenses where id = %s",
        right,
    )


def late_image(connection: Connection, guard: Guard) -> None:
    """An image for a session that is being read."""
    refused(
        connection,
        coded(ILLEGAL_TRANSITION),
        f"insert into {guard.table} (session_id, sequence, r2_key)"
        " values ('00000000-0000-0000-0000-0000000000c2', 2, 'late')",
    )


def leave_gap(connection: Connection, guard: Guard) -> None:
    """A version that is not the next."""
    refused(
        connection,
        coded(ILLEGAL_TRANSITION),
        f"insert into {guard.table} (user_id, schedule_date, version, session_id, payload, payload_hash)"
        " values (42, '2026-01-01', 3, '00000000-0000-0000-0000-0000000000c3', '{}', 'hash')",
    )


def step(by: int) -> Callable[[Connection, Guard], None]:
    """A pointer that is moved by hand."""

    def perform(connection: Connection, guard: Guard) -> None:
        refused(
            connection, coded(ILLEGAL_TRANSITION), f"update {guard.table} set current_version = current_version + {by}"
        )

    return perform


def put_again(connection: Connection, guard: Guard) -> None:
    """A second snapshot of one session."""
    refused(connection, coded(ILLEGAL_TRANSITION), f"update {guard.table} set events = events + 1")


# Tenants --------------------------------------------------------------------------------------------------------------


def seen(connection: Connection, role: str, table: str, org: str = "") -> set[str]:
    """Of which orgs this role, acting for this org, sees rows of the table."""
    with connection.transaction(force_rollback=True):
        connection.execute(
            "select set_config('app.current_org_id', %s, true), set_config('role', %s, true)", [org, role]
        )
        return {str(each) for (each,) in connection.execute(text(f"select distinct org_id from {table}"))}


def read_as_tenant(connection: Connection, guard: Guard) -> None:
    """A tenant that does not see its own rows, or sees another's."""
    for role in (Names().api, Names().readonly):
        holds(seen(connection, role, guard.table, ORG) == {ORG}, f"{role} does not see just its own")


def read_without_tenant(connection: Connection, guard: Guard) -> None:
    """Read rows as no tenant, or as another."""
    for role in (Names().api, Names().readonly):
        holds(seen(connection, role, guard.table) == set(), f"{role} sees rows without being a tenant")
        another = "00000000-0000-0000-0000-00000000000c"
        holds(seen(connection, role, guard.table, another) == set(), f"{role} sees rows of others")


def read_as_worker(connection: Connection, guard: Guard) -> None:
    """A worker, or the owner, that does not see every row."""
    every = seen(connection, "postgres", guard.table)
    for role in (Names().worker, Names().owner):
        holds(seen(connection, role, guard.table) == every, f"{role} does not see every row")


def read_as_owner(connection: Connection, guard: Guard) -> None:
    """The owner of the table, without a policy for it."""
    holds(seen(connection, Names().owner, guard.table) == set(), "no policy binds the owner")


TENANT = Attack("a tenant sees its own rows and no others", read_as_tenant)
STRANGER = Attack("a connection without a tenant sees no row", read_without_tenant)
WORKER = Attack("workers and the owner see every row", read_as_worker)


# The table ------------------------------------------------------------------------------------------------------------

SECOND_ROWS = """
duly.apprise_addresses pk_apprise_addresses, duly.link_keys pk_link_keys, posts.objectives pk_objectives,
duly.calendars pk_calendars, duly.calendars uq_calendars__token_sha256, duly.person pk_person,
duly.person uq_person__telegram_id, duly.person uq_person__uid, duly.person uq_person__user_id, "user".users pk_users,
duly.webhooks pk_webhooks,
duly.alembic_version alembic_version_pkc, duly.api_keys pk_api_keys, duly.api_keys uq_api_keys__prefix,
duly.orgs pk_orgs, duly.orgs uq_orgs__name, duly.outbox uq_outbox__dedupe_key, duly.schema_object pk_schema_object,
duly.transition pk_transition, duly.workers pk_workers, expense.expenses pk_expenses,
expense.expenses uq_expenses__reverses, expense.expenses uq_expenses__source_ref,
ledger.job idx_job__org_id_idempotency_key, ledger.job_event pk_job_event,
ledger.job_event uq_job_event__job_id_seq, ledger.job_limit pk_job_limit, posts.daily_locks pk_daily_locks,
posts.idempotency_keys pk_idempotency_keys, posts.intent_minutes pk_intent_minutes,
posts.uploads pk_uploads, schedule_ingest.capture_image pk_capture_image,
schedule_ingest.capture_image uq_capture_image__r2_key,
schedule_ingest.capture_image uq_capture_image__session_id_sequence,
schedule_ingest.capture_image uq_capture_image__session_id_telegram_message_id,
schedule_ingest.day_snapshot pk_day_snapshot,
schedule_ingest.schedule_event pk_schedule_event, schedule_ingest.schedule_event uq_schedule_event__dedupe,
schedule_ingest.schedule_event uq_schedule_event__user_id_schedule_date_seq,
schedule_ingest.schedule_version uq_schedule_version__session_id, scheduler.confirmations pk_confirmations,
scheduler.confirmations uq_confirmations__run_idem, scheduler.dropped_months pk_dropped_months,
scheduler.expense_templates pk_expense_templates,
scheduler.job_plans pk_job_plans, scheduler.job_run_keys pk_job_run_keys,
scheduler.job_run_keys uq_job_runs__job_period, scheduler.missed_ranges pk_missed_ranges,
scheduler.jobs uq_jobs__user_id_idempotency_key,
scheduler.reminders pk_reminders
"""

# Keys behind which another guard stands, or before which one does: with it lifted, the key still refuses.
ALONE = (
    ("duly.outbox", "pk_outbox", "outbox_timeline_insert"),
    ("ledger.job", "pk_job", "job_timeline_insert"),
    ("posts.posts", "pk_posts", "posts_timeline_insert"),
    ("schedule_ingest.capture_session", "pk_capture_session", "capture_session_timeline_insert"),
    ("schedule_ingest.schedule_notification", "pk_schedule_notification", "schedule_notification_timeline_insert"),
    ("schedule_ingest.day_schedule", "pk_day_schedule", "day_schedule_follows_its_versions"),
    ("schedule_ingest.schedule_version", "pk_schedule_version", "schedule_version_advances"),
    ("scheduler.job_runs", "pk_job_runs", "job_runs_key", "job_runs_timeline_insert"),
    ("scheduler.jobs", "pk_jobs", "jobs_timeline_insert", "jobs_create_plan"),
)

ATTACKS: Mapping[str, Attack] = {
    # Who sees what
    "policy job_of_any_tenant of ledger.job": WORKER,
    "policy job_of_tenant of ledger.job": TENANT,
    "policy job_event_of_any_tenant of ledger.job_event": WORKER,
    "policy job_event_of_tenant of ledger.job_event": TENANT,
    "policy condition job_of_tenant of ledger.job": TENANT,
    "policy condition job_event_of_tenant of ledger.job_event": TENANT,
    "row security enabled of ledger.job": STRANGER,
    "row security enabled of ledger.job_event": STRANGER,
    "row security forced of ledger.job": Attack(
        "the owner sees what a policy lets it see", read_as_owner, behind=("policy job_of_any_tenant of ledger.job",)
    ),
    "row security forced of ledger.job_event": Attack(
        "the owner sees what a policy lets it see",
        read_as_owner,
        behind=("policy job_event_of_any_tenant of ledger.job_event",),
    ),
    # How rows may move, and what is written down of it
    "trigger job_guard_insert of ledger.job": RUNNING_FROM_THE_START,
    "trigger job_guard_update of ledger.job": illegal_move(JOB),
    "trigger job_guard_columns of ledger.job": EXACT_MOVE_OF_ANOTHER_ROW,
    "trigger job_timeline_insert of ledger.job": unlogged_insert(JOB),
    "trigger job_timeline_update of ledger.job": unlogged_move(JOB),
    "trigger outbox_guard of duly.outbox": illegal_move(MESSAGE),
    "trigger outbox_timeline_insert of duly.outbox": unlogged_insert(MESSAGE),
    "trigger outbox_timeline_update of duly.outbox": unlogged_move(MESSAGE),
    "trigger posts_guard of posts.posts": illegal_move(POST),
    "trigger posts_timeline_insert of posts.posts": unlogged_insert(POST),
    "trigger posts_timeline_update of posts.posts": unlogged_move(POST),
    "trigger capture_session_guard of schedule_ingest.capture_session": illegal_move(CAPTURE),
    "trigger capture_session_timeline_insert of schedule_ingest.capture_session": unlogged_insert(CAPTURE),
    "trigger capture_session_timeline_update of schedule_ingest.capture_session": unlogged_move(CAPTURE),
    "trigger schedule_notification_guard of schedule_ingest.schedule_notification": illegal_move(NOTIFICATION),
    "trigger schedule_notification_timeline_insert of schedule_ingest.schedule_notification": unlogged_insert(
        NOTIFICATION
    ),
    "trigger schedule_notification_timeline_update of schedule_ingest.schedule_notification": unlogged_move(
        NOTIFICATION
    ),
    "trigger job_runs_guard of scheduler.job_runs": illegal_move(RUN),
    "trigger job_runs_timeline_insert of scheduler.job_runs": unlogged_insert(RUN),
    "trigger job_runs_timeline_update of scheduler.job_runs": unlogged_move(RUN),
    "trigger job_runs_timeline_insert of scheduler.job_runs (partitions)": unlogged_insert(RUN, part=True),
    "trigger job_runs_timeline_update of scheduler.job_runs (partitions)": unlogged_move(RUN, part=True),
    "trigger jobs_guard of scheduler.jobs": illegal_move(SCHEDULE),
    "trigger jobs_timeline_insert of scheduler.jobs": unlogged_insert(SCHEDULE),
    "trigger jobs_timeline_update of scheduler.jobs": unlogged_move(SCHEDULE),
    # What only grows
    "trigger transition_is_append_only of duly.transition": CHANGE,
    "trigger transition_is_not_emptied of duly.transition": TRUNCATE,
    "trigger is_append_only of expense.expenses": CHANGE,
    "trigger is_not_emptied of expense.expenses": TRUNCATE,
    "trigger is_append_only of ledger.job_event": CHANGE,
    "trigger is_not_emptied of ledger.job_event": TRUNCATE,
    "trigger capture_image_is_append_only of schedule_ingest.capture_image": CHANGE,
    "trigger capture_image_is_not_emptied of schedule_ingest.capture_image": TRUNCATE,
    "trigger day_schedule_stays of schedule_ingest.day_schedule": DELETE,
    "trigger day_schedule_is_not_emptied of schedule_ingest.day_schedule": TRUNCATE,
    "trigger day_snapshot_stays of schedule_ingest.day_snapshot": DELETE,
    "trigger day_snapshot_is_not_emptied of schedule_ingest.day_snapshot": TRUNCATE,
    "trigger schedule_event_is_append_only of schedule_ingest.schedule_event": CHANGE,
    "trigger schedule_event_is_not_emptied of schedule_ingest.schedule_event": TRUNCATE,
    "trigger schedule_version_is_append_only of schedule_ingest.schedule_version": CHANGE,
    "trigger schedule_version_is_not_emptied of schedule_ingest.schedule_version": TRUNCATE,
    # What the database writes for itself
    "trigger apprise_addresses_touch of duly.apprise_addresses": TOUCH,
    "trigger person_touch of duly.person": TOUCH,
    "trigger webhooks_touch of duly.webhooks": TOUCH,
    "trigger trg_confirmations__upd of scheduler.confirmations": TOUCH,
    "trigger trg_job_runs__upd of scheduler.job_runs": TOUCH,
    "trigger trg_jobs__upd of scheduler.jobs": TOUCH,
    "trigger trg_reminders__upd of scheduler.reminders": TOUCH,
    "trigger person_follow_zone of duly.person": Attack("schedules follow the zone of their user", change_zone),
    "trigger person_user_id of duly.person": Attack("a new person has a user", add_person),
    "trigger person_user of duly.person": Attack("a new person has a user", add_person),
    "trigger person_link_user of duly.person": Attack("a link to a user who does not exist", link_to_missing_user),
    "trigger jobs_person of scheduler.jobs": Attack("a user without a person", schedule_for_unlinked_user),
    "trigger outbox_note_sent of duly.outbox": Attack("a reminder that went out is noted with its run", send_unnoted),
    "trigger outbox_stamp_sent of duly.outbox": Attack("a time of sending that the caller invents", invent_sent_at),
    "trigger outbox_wake of duly.outbox": Attack("a new message wakes the senders", write_unheard),
    "trigger job_runs_key of scheduler.job_runs": Attack("a second run of one period", run_without_key),
    "trigger job_runs_remind_at of scheduler.job_runs": Attack(
        "a run inserted by plain SQL is reminded of", run_without_reminder
    ),
    "trigger job_runs_delete_key of scheduler.job_runs": Attack("a run is deleted with all of it", delete_partly),
    "trigger jobs_create_plan of scheduler.jobs": Attack("a new schedule has a plan", add_unplanned),
    "trigger jobs_limits_insert of scheduler.jobs": Attack("more schedules of one person than the limit", hoard),
    "trigger jobs_limits_update of scheduler.jobs": Attack("a beginning too far back", go_far_back),
    "trigger job_runs_limits of scheduler.job_runs": Attack("more pending runs than the limit", crowd),
    "trigger job_runs_limits of scheduler.job_runs (partitions)": Attack("more pending runs than the limit", crowd),
    "trigger jobs_change_plan of scheduler.jobs": Attack("a paused schedule is not planned on", pause_planned),
    "trigger schedule_notification_follow of schedule_ingest.schedule_notification": Attack(
        "what another program delivered is not sent again", change_status_only
    ),
    # What makes no sense
    "trigger expenses_reversal of expense.expenses": Attack("a reversal of a part", reverse_partly),
    "trigger capture_image_checks_session of schedule_ingest.capture_image": Attack(
        "an image that comes too late", late_image
    ),
    "trigger schedule_version_advances of schedule_ingest.schedule_version": Attack(
        "a version that is not the next", leave_gap
    ),
    "trigger day_schedule_follows_its_versions of schedule_ingest.day_schedule": Attack(
        "a pointer that no version moves", step(1)
    ),
    "trigger day_schedule_to_next_version of schedule_ingest.day_schedule": Attack(
        "a pointer that leaves out a version",
        step(5),
        behind=("trigger day_schedule_follows_its_versions of schedule_ingest.day_schedule",),
    ),
    "trigger day_snapshot_is_put_once of schedule_ingest.day_snapshot": Attack(
        "a second snapshot of one session", put_again
    ),
    # A second row of the same key
    **{"unique {1} of {0}".format(*each.split()): SECOND_ROW for each in SECOND_ROWS.split(",")},
    **{
        f"unique {key} of {table}": Attack(SECOND_ROW.description, second_row, behind=behind)
        for table, key, *behind in ALONE
        for behind in [tuple(f"trigger {each} of {table}" for each in behind)]
    },
}
