"""Locks: sessions that wait for a lock, and the sessions that block them."""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext, Limits
from duly.doctor.finding import MAX_NAMED, Note, grade, ok, warn, worst_notes
from duly.doctor.formatting import summarize_query
from duly.formatting import format_duration
from duly.verify.access import quote_identifier

SQL = load_queries(__file__, "locks.sql")
PREPARED_PID = 0  # the pid of a prepared transaction


def check_locks(context: CheckContext) -> Sequence[Note]:
    """Check for sessions that wait for a lock, and name those that block them."""
    waits = list_waits_for_locks(context)
    if not waits:
        return [ok(f"no session has waited for more than {format_duration(context.limits.lock_warn_seconds)}")]
    # Blockers that do not wait themselves come first, then those with the longest wait.
    ordered = sorted(waits, key=lambda wait: wait["blocker_waits"])
    blockers = dict.fromkeys(wait["blocker_pid"] for wait in ordered)
    notes = worst_notes(
        [note_blocker([w for w in waits if w["blocker_pid"] == pid], context.limits) for pid in blockers]
    )
    if any("hidden" in (summarize_query(wait["query"]), blocker_query(wait)) for wait in waits):
        grant = f"grant pg_read_all_stats to {quote_identifier(context.login)}"
        notes.append(warn(f"queries of other roles are hidden from {context.login}", grant))
    return notes


def list_waits_for_locks(context: CheckContext) -> Sequence[Row]:
    """Return long lock waits, one row per blocking session, the longest wait first."""
    return context.query(SQL.list_waits_for_locks, seconds=context.limits.lock_warn_seconds)


def note_blocker(waits: Sequence[Row], limits: Limits) -> Note:
    """Describe a blocking session, the sessions that wait for it, and the fix."""
    first = waits[0]
    verdict = grade(first["waited_seconds"], limits.lock_warn_seconds, limits.lock_bad_seconds)
    waiting = ", ".join(
        f"pid {wait['pid']} ({wait['application'] or 'no name'}, {summarize_query(wait['query'])})"
        f" for {format_duration(wait['waited_seconds'])}"
        for wait in waits[:MAX_NAMED]
    )
    more = f", and {len(waits) - MAX_NAMED} more" if len(waits) > MAX_NAMED else ""
    return Note(
        verdict, f"{name_blocker(first)} keeps {len(waits)} waiting: {waiting}{more}", suggest_unblocking(first)
    )


def name_blocker(wait: Row) -> str:
    """Describe a blocking session."""
    if wait["blocker_pid"] == PREPARED_PID:
        return "a prepared transaction"
    details = [wait["blocker_application"] or "no name", wait["blocker_state"], blocker_query(wait)]
    session = f"pid {wait['blocker_pid']} ({', '.join(each for each in details if each)})"
    return f"{session}, which waits itself," if wait["blocker_waits"] else session


def blocker_query(wait: Row) -> str:
    """Return the current or last query of a blocking session, or that it has ended."""
    exists = wait["blocker_application"] is not None
    return summarize_query(wait["blocker_query"]) if exists else "gone"


def suggest_unblocking(wait: Row) -> str | None:
    """Return the fix; terminating a blocking session that waits itself would not help."""
    if wait["blocker_pid"] == PREPARED_PID:
        return "see prepared transactions"
    return None if wait["blocker_waits"] else f"select pg_terminate_backend({wait['blocker_pid']})"
