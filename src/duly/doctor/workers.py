"""Workers: the heartbeat settings, and workers that are alive."""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext
from duly.doctor.finding import MAX_NAMED, Note, bad, ok, warn
from duly.formatting import format_duration

SQL = load_queries(__file__, "workers.sql")


def check_heartbeat(context: CheckContext) -> Sequence[Note]:
    """Check that leases are renewed in time: two heartbeats may be late before another worker claims the row."""
    settings = context.settings
    lease, heartbeat = settings.lease_timeout_seconds, settings.lease_heartbeat_seconds
    if not settings.enable_lease_heartbeat:
        found = f"ENABLE_LEASE_HEARTBEAT=false: work longer than LEASE_TIMEOUT_SECONDS={lease:g} loses its lease"
        return [warn(found, "set ENABLE_LEASE_HEARTBEAT=true, or LEASE_TIMEOUT_SECONDS above the longest work")]
    found = f"LEASE_HEARTBEAT_SECONDS={heartbeat:g}, a third of LEASE_TIMEOUT_SECONDS={lease:g} is {lease / 3:g}"
    if heartbeat >= lease / 3:
        return [bad(found, f"set LEASE_HEARTBEAT_SECONDS below {lease / 3:g}, or raise LEASE_TIMEOUT_SECONDS")]
    return [ok(found)]


def check_workers(context: CheckContext) -> Sequence[Note]:
    """Check that workers are alive."""
    limits = context.limits
    workers = list_workers(context)
    alive = [worker for worker in workers if worker["unseen_seconds"] <= limits.worker_seconds]
    vanished = [worker for worker in workers if worker["unseen_seconds"] > limits.worker_seconds]
    types = ", ".join(sorted({name for worker in alive for name in worker["work_types"]})) or "none"
    found = f"{len(alive)} alive with {sum(sum(worker['slots'].values()) for worker in alive)} slots, for: {types}"
    notes = [ok(found)] if alive else [warn("none alive: no work is done", "start one: duly worker")]
    if vanished:
        names = ", ".join(
            f"{worker['worker_id']} on {worker['host']} (pid {worker['pid']}, "
            f"{format_duration(worker['unseen_seconds'])} ago)"
            for worker in vanished[:MAX_NAMED]
        )
        lost = f"{len(alive)} alive, {len(vanished)} vanished without stopping: {names}"
        notes.append(warn(lost, "read its log there; its rows are recovered when their leases expire"))
    return notes


def list_workers(context: CheckContext) -> Sequence[Row]:
    """Return workers that did not stop, the last seen first, as the worker role."""
    forgotten = context.limits.worker_forgotten_seconds
    return context.query(SQL.list_workers, role=context.settings.worker_role, forgotten_seconds=forgotten)
