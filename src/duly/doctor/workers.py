"""Who works: is a lease renewed in time, and is anybody there?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.finding import MAX_NAMED, Note, bad, ok, warn
from duly.doctor.words import span

__all__ = ["check_heartbeat", "check_workers"]

SQL = load_queries(__file__, "workers.sql")


def check_heartbeat(case: Case) -> Sequence[Note]:
    """Is a lease renewed in time? Two beats may be late before another worker takes the row."""
    settings = case.settings
    lease, beat = settings.lease_timeout_seconds, settings.lease_heartbeat_seconds
    if not settings.enable_lease_heartbeat:
        found = f"ENABLE_LEASE_HEARTBEAT=false: work longer than LEASE_TIMEOUT_SECONDS={lease:g} loses its lease"
        return [warn(found, "set ENABLE_LEASE_HEARTBEAT=true, or LEASE_TIMEOUT_SECONDS above the longest work")]
    found = f"LEASE_HEARTBEAT_SECONDS={beat:g}, a third of LEASE_TIMEOUT_SECONDS={lease:g} is {lease / 3:g}"
    if beat >= lease / 3:
        return [bad(found, f"set LEASE_HEARTBEAT_SECONDS below {lease / 3:g}, or raise LEASE_TIMEOUT_SECONDS")]
    return [ok(found)]


def check_workers(case: Case) -> Sequence[Note]:
    """Is anybody there to do it?"""
    limits = case.limits
    workers = list_workers(case)
    alive = [worker for worker in workers if worker["unseen_seconds"] <= limits.worker_seconds]
    vanished = [worker for worker in workers if worker["unseen_seconds"] > limits.worker_seconds]
    kinds = ", ".join(sorted({kind for worker in alive for kind in worker["kinds"]})) or "none"
    found = f"{len(alive)} alive with {sum(sum(worker['slots'].values()) for worker in alive)} slots, for: {kinds}"
    notes = [ok(found)] if alive else [warn("none alive: nothing will be worked on", "start one: duly worker")]
    if vanished:
        who = ", ".join(
            f"{worker['worker_id']} on {worker['host']} (pid {worker['pid']}, {span(worker['unseen_seconds'])} ago)"
            for worker in vanished[:MAX_NAMED]
        )
        lost = f"{len(alive)} alive, {len(vanished)} vanished without a word: {who}"
        notes.append(warn(lost, "read its log there; its rows come back when their leases lapse"))
    return notes


def list_workers(case: Case) -> Sequence[Row]:
    """Workers that did not say goodbye, the last seen first; asked as the worker, who may see them."""
    forgotten = case.limits.worker_forgotten_seconds
    return case.ask(SQL.list_workers, role=case.settings.worker_role, forgotten_seconds=forgotten)
