"""What is in the way: who holds locks and dead rows, whether those pile up, and how far off the last number is."""

import math
from collections.abc import Sequence

from psycopg import sql

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case, Limits
from duly.doctor.finding import MAX_NAMED, Note, Verdict, foremost, graded, ok, warn, worst
from duly.doctor.words import quoted, span

__all__ = [
    "check_prepared_transactions",
    "check_replication_slots",
    "check_transaction_ids",
    "check_transactions",
    "check_vacuum",
]

SQL = load_queries(__file__, "obstacles.sql")


def check_transactions(case: Case) -> Sequence[Note]:
    """Does somebody sit on a transaction, so that rows stay locked and dead rows stay?"""
    sessions = list_open_transactions(case)
    hidden = count_hidden_sessions(case)
    notes = foremost([note for session in sessions if (note := note_session(session, case.limits))])
    if hidden:
        grant = f"grant pg_read_all_stats to {quoted(case.login)}"
        notes.append(warn(f"{hidden} sessions of other roles are hidden from {case.login}", grant))
    if not sessions and not notes:
        return [ok("none open")]
    oldest = max((session["open_seconds"] for session in sessions), default=0.0)
    snapshot = max((session["snapshot_age"] for session in sessions), default=0)
    return notes or [
        ok(f"{len(sessions)} open, the oldest for {span(oldest)}, its snapshot {snapshot} transactions old")
    ]


def list_open_transactions(case: Case) -> Sequence[Row]:
    """Sessions that hold a transaction or a snapshot, the oldest first."""
    return case.ask(SQL.list_open_transactions)


def count_hidden_sessions(case: Case) -> int:
    """How many sessions this login sees nothing of."""
    return case.get(SQL.count_hidden_sessions)["hidden"]


def note_session(session: Row, limits: Limits) -> Note | None:
    """Who it is and how to end it, if it is too old."""
    verdict = worst(
        graded(session["open_seconds"], limits.transaction_warn_seconds, limits.transaction_bad_seconds),
        graded(session["snapshot_age"], limits.snapshot_warn_age, limits.snapshot_bad_age),
        graded(session["idle_seconds"], limits.idle_warn_seconds, math.inf),
    )
    if verdict is Verdict.OK:
        return None
    who = f"pid {session['pid']} ({session['application'] or 'no name'}, {session['state']})"
    since = f"open for {span(session['open_seconds'])}"
    idle = f", idle for {span(session['idle_seconds'])}" if session["idle_seconds"] else ""
    snapshot = f", its snapshot {session['snapshot_age']} transactions old" if session["snapshot_age"] else ""
    return Note(verdict, f"{who}: {since}{idle}{snapshot}", f"select pg_terminate_backend({session['pid']})")


def check_prepared_transactions(case: Case) -> Sequence[Note]:
    """Was a two-phase commit left half done?"""
    prepared = list_prepared_transactions(case)
    notes: list[Note] = []
    for row in prepared:
        verdict = graded(row["open_seconds"], case.limits.transaction_warn_seconds, case.limits.transaction_bad_seconds)
        if verdict is not Verdict.OK:
            gid = sql.Literal(row["gid"]).as_string(None)
            found = f"{gid} was prepared {span(row['open_seconds'])} ago"
            notes.append(Note(verdict, found, f"rollback prepared {gid}, or commit prepared {gid}"))
    return foremost(notes) or [ok(f"{len(prepared)} in this database")]


def list_prepared_transactions(case: Case) -> Sequence[Row]:
    """Two-phase commits of this database that wait for their second phase, the oldest first."""
    return case.ask(SQL.list_prepared_transactions)


def check_replication_slots(case: Case) -> Sequence[Note]:
    """Does a replica, or one that is gone, hold dead rows back?"""
    slots = list_replication_slots(case)
    notes: list[Note] = []
    for row in slots:
        verdict = graded(row["snapshot_age"], case.limits.snapshot_warn_age, case.limits.snapshot_bad_age)
        if verdict is Verdict.OK and row["is_active"]:
            continue
        name = sql.Literal(row["slot"]).as_string(None)
        held = f"slot {row['slot']} ({'in use' if row['is_active'] else 'used by nobody'}) holds rows back"
        verdict = Verdict.WARN if verdict is Verdict.OK else verdict
        found = f"{held} for {row['snapshot_age']} transactions"
        notes.append(Note(verdict, found, f"bring its reader back, or: select pg_drop_replication_slot({name})"))
    return foremost(notes) or [ok(f"{len(slots)} hold rows back")]


def list_replication_slots(case: Case) -> Sequence[Row]:
    """Slots that hold rows back, the furthest behind first."""
    return case.ask(SQL.list_replication_slots)


def check_vacuum(case: Case) -> Sequence[Note]:
    """Do our tables get rid of their dead rows?"""
    limits = case.limits
    return [
        warn(
            f"{row['table']} has {row['dead']} dead rows beside {row['live']}"
            if row["dead"] > limits.dead_rows
            else f"{row['table']} has {row['live']} rows and was never vacuumed",
            f"vacuum (analyze) {row['table']}",
        )
        for row in list_tables_to_vacuum(case)[:MAX_NAMED]
    ] or [ok(f"no table of ours has more than {limits.dead_rows} dead rows that make up {limits.dead_share:.0%}")]


def list_tables_to_vacuum(case: Case) -> Sequence[Row]:
    """Tables of ours that a vacuum would do good, the worst first."""
    limits = case.limits
    return case.ask(
        SQL.list_tables_to_vacuum,
        schemas=case.schemas,
        dead_rows=limits.dead_rows,
        dead_share=limits.dead_share,
        large_rows=limits.large_rows,
    )


def check_transaction_ids(case: Case) -> Sequence[Note]:
    """Is the server far from the day it refuses to write?"""
    oldest = get_oldest_database(case)
    verdict = graded(oldest["age"], case.limits.database_warn_age, case.limits.database_bad_age)
    found = f"the oldest of database {oldest['name']} is {oldest['age']} transactions ago; at 2 billion writing stops"
    if verdict is Verdict.OK:
        return [ok(found)]
    return [
        Note(verdict, found, f"end what holds rows back, then in database {quoted(oldest['name'])}: vacuum (freeze)")
    ]


def get_oldest_database(case: Case) -> Row:
    """The database of this server that needs a freeze first."""
    return case.get(SQL.get_oldest_database)
