"""Who is in whose way: sessions that wait for a lock, and those that have it."""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case, Limits
from duly.doctor.finding import MAX_NAMED, Note, foremost, graded, ok, warn
from duly.doctor.words import first_words, quoted, span

__all__ = ["check_locks"]

SQL = load_queries(__file__, "locks.sql")
NOBODY = 0  # the pid of a prepared transaction


def check_locks(case: Case) -> Sequence[Note]:
    """Does somebody wait for a lock, and for whom?"""
    waits = list_waits_for_locks(case)
    if not waits:
        return [ok(f"nobody has waited for one for more than {span(case.limits.lock_warn_seconds)}")]
    in_turn = sorted(
        waits, key=lambda wait: wait["blocker_waits"]
    )  # who waits for nobody first, then by the longest wait
    blockers = dict.fromkeys(wait["blocker_pid"] for wait in in_turn)
    notes = foremost([note_blocker([w for w in waits if w["blocker_pid"] == pid], case.limits) for pid in blockers])
    if any("hidden" in (first_words(wait["query"]), blocker_words(wait)) for wait in waits):
        grant = f"grant pg_read_all_stats to {quoted(case.login)}"
        notes.append(warn(f"what other roles are doing is hidden from {case.login}", grant))
    return notes


def list_waits_for_locks(case: Case) -> Sequence[Row]:
    """Everybody who waits for too long, once for each who is in the way; the longest wait first."""
    return case.ask(SQL.list_waits_for_locks, seconds=case.limits.lock_warn_seconds)


def note_blocker(waits: Sequence[Row], limits: Limits) -> Note:
    """Who it is, whom it keeps waiting, and how to end that."""
    first = waits[0]
    verdict = graded(first["waited_seconds"], limits.lock_warn_seconds, limits.lock_bad_seconds)
    named = ", ".join(
        f"pid {wait['pid']} ({wait['application'] or 'no name'}, {first_words(wait['query'])})"
        f" for {span(wait['waited_seconds'])}"
        for wait in waits[:MAX_NAMED]
    )
    more = f", and {len(waits) - MAX_NAMED} more" if len(waits) > MAX_NAMED else ""
    return Note(verdict, f"{name_blocker(first)} keeps {len(waits)} waiting: {named}{more}", remedy_of(first))


def name_blocker(wait: Row) -> str:
    """Who is in the way."""
    if wait["blocker_pid"] == NOBODY:
        return "a prepared transaction"
    does = [wait["blocker_application"] or "no name", wait["blocker_state"], blocker_words(wait)]
    who = f"pid {wait['blocker_pid']} ({', '.join(word for word in does if word)})"
    return f"{who}, which waits itself," if wait["blocker_waits"] else who


def blocker_words(wait: Row) -> str:
    """What whoever is in the way does, or did last; a session that ended meanwhile does nothing."""
    is_there = wait["blocker_application"] is not None
    return first_words(wait["blocker_query"]) if is_there else "gone"


def remedy_of(wait: Row) -> str | None:
    """How the way is cleared; ending somebody in the middle of a line would not do it."""
    if wait["blocker_pid"] == NOBODY:
        return "end it as said under prepared transactions"
    return None if wait["blocker_waits"] else f"select pg_terminate_backend({wait['blocker_pid']})"
