"""A twin of the table of jobs whose guard is called for every row: what passes without a call must equal its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.jobs.actions import Admin

ORG = "'00000000-0000-0000-0000-00000000000a'"
ID = "'01990000-0000-7000-8000-000000000001'"
LEASE = "interval '1 minute'"
Columns = Mapping[str, str]  # SQL by column; an update names the row `t`, the time of the statement is `given.now`

# What our functions write, which is exactly what the guard would write.
ENQUEUED: Columns = {
    "id": ID, "org_id": ORG, "type": "'work'", "queue": "'default'", "priority": "0", "payload": "'{}'",
    "run_at": "given.now", "max_attempts": "5", "retain_for": "interval '30 days'", "created_at": "given.now",
    "idempotency_key": "'k'", "request_digest": "sha256('k')", "updated_at": "given.now",
    "event_detail": """'{"actor": "anna"}'""", "revision": "1",
}  # fmt: skip
CLAIMED: Columns = {
    "status": "'running'", "lease_owner": "'me/1'", "starts": "t.starts + 1",
    "lease_expires_at": f"given.now + {LEASE}", "stage": "null", "progress": "null", "event_detail": "null",
    "revision": "t.revision + 1", "transition_from": "'queued'", "updated_at": "given.now", "attempt": "t.starts",
    "started_at": "coalesce(t.started_at, given.now)",
}  # fmt: skip
DONE: Columns = {
    "status": "'succeeded'", "settled_by": "'me/1'", "lease_owner": "null", "lease_expires_at": "null",
    "result": "'1'", "last_error_code": "null", "last_error_message": "null", "event_detail": "null",
    "revision": "t.revision + 1", "transition_from": "'running'", "updated_at": "given.now",
    "finished_at": "given.now", "retain_until": "given.now + t.retain_for",
}  # fmt: skip

INSERT = "insert"
EXACT = {INSERT: ENQUEUED, "queued": CLAIMED, "running": DONE}  # by the status of the row, where it is an update

LONG = "repeat('x', 2000)"
TIMES = (
    "null", "given.now", "given.now - interval '1 hour'", "given.now + interval '1 hour'", "timestamptz '1999-01-01Z'",
    "timestamptz '2300-01-01Z'", "'infinity'",
)  # fmt: skip
NUMBERS = ("null", "-1", "0", "1", "2", "5", "6", "101", "2000")
DOCUMENTS = ("null", "'[]'", """'{"a": 1}'""", "jsonb_build_object('a', repeat('x', 1100000))")
NAMES = ("null", "''", "'a'", "'no blanks'", LONG)
UUIDS = ("null", "'01990000-0000-7000-8000-00000000000b'")
# Other values for each column: some of them right, some wrong.
DEVIATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("created_at", "updated_at", "started_at", "finished_at", "run_at", "lease_expires_at", "cancel_requested_at",
         "progressed_at", "retain_until"),
        TIMES,
    ),
    **dict.fromkeys(
        ("priority", "max_attempts", "starts", "snoozes", "attempt", "revision", "progress", "timeout_seconds",
         "backoff_base_seconds", "backoff_cap_seconds"),
        NUMBERS,
    ),
    **dict.fromkeys(("payload", "result", "event_detail"), DOCUMENTS),
    **dict.fromkeys(
        ("queue", "lease_owner", "settled_by", "stage", "last_error_message", "requested_by", "idempotency_key"), NAMES
    ),
    **dict.fromkeys(("id", "org_id"), UUIDS),
    "type": ("null", "''", "'a'", "'no blanks'"),
    "last_error_code": ("null", "'OOPS'", "'no'"),
    "status": ("'queued'", "'running'", "'succeeded'", "'failed'", "'canceled'", "'dead_letter'"),
    "transition_from": ("null", "'queued'", "'running'", "'succeeded'", "'nowhere'"),
    "request_digest": ("null", "sha256('a')", "'a'"),
    "retain_for": ("null", "interval '1 hour'", "interval '1 day'", "interval '20 years'"),
    "backoff_policy": ("null", "'none'"),
}  # fmt: skip

DERIVED_TIMES = ("started_at", "finished_at", "retain_until")
HALF_HOUR = timedelta(minutes=30)  # longer than a test
# Of rows with two mistakes the guard names one, and a constraint, which comes before the log, may name the other.
CONSTRAINTS = {("23502", None), ("23514", "ck_job__status_finished_at_consistency")}
CALLS = "select coalesce(pg_stat_get_xact_function_calls('ledger.job_guard()'::regprocedure), 0)"


@dataclass(frozen=True)
class Result:
    """What became of a statement: its row, or why it was refused."""

    row: Mapping[str, Any] | None
    refusal: tuple[str | None, str | None] | None = None
    guarded: bool = True


class GuardTwin:
    """Runs one statement on the table of jobs and on its twin, and compares; nothing of it stays."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.passed = self.guarded = self.refused = 0
        admin.execute("set track_functions = 'pl'")
        admin.execute("create temp table twin (like ledger.job including defaults including constraints)")
        admin.execute("create trigger guard before insert or update on twin for each row"
                      " execute function ledger.job_guard()")  # fmt: skip

    def add_rows(self) -> None:
        """Give the twin the rows that the table has."""
        self.admin.execute("alter table twin disable trigger guard")
        self.admin.execute("insert into twin select * from ledger.job")
        self.admin.execute("alter table twin enable trigger guard")

    def add_every_status(self, insert: str) -> None:
        """Insert a row of every status into both tables, past every trigger."""
        self.admin.execute("set local session_replication_role = 'replica'")
        self.admin.execute(insert.encode())
        self.admin.execute("insert into ledger.job select * from twin")
        self.admin.execute("set local session_replication_role = 'origin'")

    def compare_change(self, status: str, columns: Columns) -> Result:
        """Insert a row into both tables, or update one of this status in both."""
        if status == INSERT:
            return self.compare(
                f"insert into TABLE ({', '.join(columns)}) "
                f"select {', '.join(columns.values())} from (select clock_timestamp() as now) as given returning *"
            )
        assignments = ", ".join(f"{column} = {value}" for column, value in columns.items())
        return self.compare(
            f"update TABLE as t set {assignments} from (select clock_timestamp() as now offset 0) as given"
            f" where t.status = '{status}' returning t.*"
        )

    def compare(self, statement: str) -> Result:
        """Run a statement on both tables; fail unless the results are equal."""
        ours, theirs = self.run(statement, "ledger.job"), self.run(statement, "twin")
        if not (ours.refusal and theirs.refusal and {ours.refusal, theirs.refusal} & CONSTRAINTS):
            assert ours.refusal == theirs.refusal, statement
        assert ours.row == theirs.row, statement
        self.refused += ours.refusal is not None
        self.passed += ours.refusal is None and not ours.guarded
        self.guarded += ours.refusal is None and ours.guarded
        return ours

    def run(self, statement: str, table: str) -> Result:
        """Run a statement on one table, look, and take it back."""
        calls = self.count_calls()
        try:
            with self.admin.transaction(force_rollback=True):
                before = self.clock()
                named = statement.replace("TABLE", table, 1)
                row = self.admin.cursor(row_factory=dict_row).execute(named.encode()).fetchone()
                found = None if row is None else dict(as_compared(row, before))
        except psycopg.Error as error:
            return Result(None, (error.sqlstate, error.diag.constraint_name), self.count_calls() > calls)
        return Result(found, None, self.count_calls() > calls)

    def clock(self) -> datetime:
        """Return the time."""
        ((now,),) = self.admin.execute("select clock_timestamp()").fetchall()
        return now

    def count_calls(self) -> int:
        """Count the calls of the guard in this transaction."""
        ((calls,),) = self.admin.execute(CALLS).fetchall()
        return calls


def as_compared(row: Mapping[str, Any], before: datetime) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a row, times near this statement's as what they are to it and to the row's own time."""
    for column, found in row.items():
        value = found - row["retain_for"] if column == "retain_until" and found else found
        if isinstance(value, datetime) and is_of_statement(value, before):
            is_stamp = column in DERIVED_TIMES and value == row["updated_at"]
            yield column, (round((value - before) / timedelta(seconds=10)), is_stamp)
        else:
            yield column, value


def is_of_statement(value: datetime, before: datetime) -> bool:
    """Tell whether a statement that began then has computed this time, and not an earlier one of the test."""
    return before <= value < before + timedelta(hours=2) or before - timedelta(hours=2) < value < before - HALF_HOUR
