"""Transactions: what keeps locks and dead rows, dead rows themselves, and transaction id wraparound."""

import math
from collections.abc import Sequence

from psycopg import sql

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext, Limits
from duly.doctor.finding import MAX_NAMED, Note, Verdict, grade, ok, warn, worst_notes, worst_verdict
from duly.formatting import format_duration
from duly.verify.access import quote_identifier

SQL = load_queries(__file__, "transactions.sql")


def check_transactions(context: CheckContext) -> Sequence[Note]:
    """Check that no transaction is open for so long that rows stay locked or dead rows cannot be removed."""
    sessions = list_open_transactions(context)
    hidden = count_hidden_sessions(context)
    notes = worst_notes([note for session in sessions if (note := note_session(session, context.limits))])
    if hidden:
        grant = f"grant pg_read_all_stats to {quote_identifier(context.login)}"
        notes.append(warn(f"{hidden} sessions of other roles are hidden from {context.login}", grant))
    if not sessions and not notes:
        return [ok("none open")]
    oldest = max((session["open_seconds"] for session in sessions), default=0.0)
    snapshot = max((session["snapshot_age"] for session in sessions), default=0)
    return notes or [
        ok(f"{len(sessions)} open, the oldest for {format_duration(oldest)}, its snapshot {snapshot} transactions old")
    ]


def list_open_transactions(context: CheckContext) -> Sequence[Row]:
    """Return sessions with an open transaction or snapshot, the oldest first."""
    return context.query(SQL.list_open_transactions)


def count_hidden_sessions(context: CheckContext) -> int:
    """Return the number of sessions whose state is hidden from this login."""
    return context.query_one(SQL.count_hidden_sessions)["hidden"]


def note_session(session: Row, limits: Limits) -> Note | None:
    """Describe a session whose transaction is too old, with the fix; None for any other."""
    verdict = worst_verdict(
        grade(session["open_seconds"], limits.transaction_warn_seconds, limits.transaction_bad_seconds),
        grade(session["snapshot_age"], limits.snapshot_warn_age, limits.snapshot_bad_age),
        grade(session["idle_seconds"], limits.idle_warn_seconds, math.inf),
    )
    if verdict is Verdict.OK:
        return None
    name = f"pid {session['pid']} ({session['application'] or 'no name'}, {session['state']})"
    since = f"open for {format_duration(session['open_seconds'])}"
    idle = f", idle for {format_duration(session['idle_seconds'])}" if session["idle_seconds"] else ""
    snapshot = f", its snapshot {session['snapshot_age']} transactions old" if session["snapshot_age"] else ""
    return Note(verdict, f"{name}: {since}{idle}{snapshot}", f"select pg_terminate_backend({session['pid']})")


def check_prepared_transactions(context: CheckContext) -> Sequence[Note]:
    """Check that every prepared transaction was committed or rolled back."""
    prepared = list_prepared_transactions(context)
    notes: list[Note] = []
    for row in prepared:
        verdict = grade(
            row["open_seconds"], context.limits.transaction_warn_seconds, context.limits.transaction_bad_seconds
        )
        if verdict is not Verdict.OK:
            gid = sql.Literal(row["gid"]).as_string(None)
            found = f"{gid} was prepared {format_duration(row['open_seconds'])} ago"
            notes.append(Note(verdict, found, f"rollback prepared {gid}, or commit prepared {gid}"))
    return worst_notes(notes) or [ok(f"{len(prepared)} in this database")]


def list_prepared_transactions(context: CheckContext) -> Sequence[Row]:
    """Return the prepared transactions of this database, the oldest first."""
    return context.query(SQL.list_prepared_transactions)


def check_replication_slots(context: CheckContext) -> Sequence[Note]:
    """Check that no replication slot keeps dead rows from being removed."""
    slots = list_replication_slots(context)
    notes: list[Note] = []
    for row in slots:
        verdict = grade(row["snapshot_age"], context.limits.snapshot_warn_age, context.limits.snapshot_bad_age)
        if verdict is Verdict.OK and row["is_active"]:
            continue
        name = sql.Literal(row["slot"]).as_string(None)
        held = f"slot {row['slot']} ({'in use' if row['is_active'] else 'not in use'}) holds rows back"
        verdict = Verdict.WARN if verdict is Verdict.OK else verdict
        found = f"{held} for {row['snapshot_age']} transactions"
        notes.append(Note(verdict, found, f"bring its reader back, or: select pg_drop_replication_slot({name})"))
    return worst_notes(notes) or [ok(f"{len(slots)} hold rows back")]


def list_replication_slots(context: CheckContext) -> Sequence[Row]:
    """Return the slots that hold rows back, the furthest behind first."""
    return context.query(SQL.list_replication_slots)


def check_vacuum(context: CheckContext) -> Sequence[Note]:
    """Check that the dead rows of duly's tables are vacuumed."""
    limits = context.limits
    return [
        warn(
            f"{row['table']} has {row['dead']} dead rows beside {row['live']}"
            if row["dead"] > limits.dead_rows
            else f"{row['table']} has {row['live']} rows and was never vacuumed",
            f"vacuum (analyze) {row['table']}",
        )
        for row in list_tables_to_vacuum(context)[:MAX_NAMED]
    ] or [ok(f"no table of duly has more than {limits.dead_rows} dead rows that make up {limits.dead_share:.0%}")]


def list_tables_to_vacuum(context: CheckContext) -> Sequence[Row]:
    """Return tables of duly that need a vacuum, the worst first."""
    limits = context.limits
    return context.query(
        SQL.list_tables_to_vacuum,
        schemas=context.schemas,
        dead_rows=limits.dead_rows,
        dead_share=limits.dead_share,
        large_rows=limits.large_rows,
    )


def check_transaction_ids(context: CheckContext) -> Sequence[Note]:
    """Check that the server is far from transaction id wraparound, when it refuses writes."""
    oldest = get_oldest_database(context)
    verdict = grade(oldest["age"], context.limits.database_warn_age, context.limits.database_bad_age)
    found = f"the oldest of database {oldest['name']} is {oldest['age']} transactions ago; at 2 billion writing stops"
    if verdict is Verdict.OK:
        return [ok(found)]
    return [
        Note(
            verdict,
            found,
            f"end what holds rows back, then in database {quote_identifier(oldest['name'])}: vacuum (freeze)",
        )
    ]


def get_oldest_database(context: CheckContext) -> Row:
    """Return the database of this server with the oldest unfrozen transaction id."""
    return context.query_one(SQL.get_oldest_database)
