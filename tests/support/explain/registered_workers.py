"""Workers in every condition, locks, and an empty database: shared by the random states of all packages."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from psycopg import sql
from psycopg.types.json import Jsonb

from tests.support.actions import Admin

NAMES = ("day", "night")
TABLES = (
    *("duly.workers", "duly.outbox", "duly.transition", "ledger.job", "ledger.job_event", "ledger.job_limit"),
    *("posts.posts", "posts.uploads", "scheduler.jobs", "scheduler.job_runs", "scheduler.job_run_keys"),
    *("schedule_ingest.capture_session", "schedule_ingest.schedule_version", "expense.expenses"),
)
ADD = (
    "insert into duly.workers (id, worker_id, host, pid, version, work_types, slots, seen_at, stopping_at, stopped_at)"
    " values (gen_random_uuid(), %s, 'h', 1, '1', %s, %s, duly.clock() - make_interval(secs => %s),"
    " case when %s then duly.clock() end, case when %s then duly.clock() end)"
)
LOCKS = ("for share", "for no key update", "for update", "for key share")


class RegisteredWorker(NamedTuple):
    """A worker as registered in duly.workers."""

    name: str
    job_types: Sequence[str]
    slots: int
    is_live: bool  # and takes new work


def delete_all_rows(admin: Admin) -> None:
    """Remove every row of the packages that explain."""
    admin.execute("set session_replication_role = replica")
    admin.execute(f"truncate {', '.join(TABLES)} cascade".encode())
    admin.execute("set session_replication_role = origin")


def register_workers(random: Random, admin: Admin, work: str, *more: str) -> list[RegisteredWorker]:
    """Register up to two workers: live, stopping, stopped, silent, or of another work type."""
    registered: list[RegisteredWorker] = []
    for name in random.sample(NAMES, random.choice([0, 1, 1, 2])):
        own = work if random.random() < 0.9 else "other"
        job_types = [own, *(each for each in more if random.random() < 0.8)]
        slots, condition = (
            random.randint(1, 3),
            random.choice(["live", "live", "live", "stopping", "stopped", "silent"]),
        )
        is_seen = condition != "silent"
        given = [name, job_types, Jsonb({work: slots}), 0 if is_seen else 3600]
        admin.execute(ADD, [*given, condition == "stopping", condition == "stopped"])
        registered.append(RegisteredWorker(name, job_types, slots, condition == "live" and own == work))
    return registered


def workers_with_free_slot(registered: Sequence[RegisteredWorker], owners: Sequence[str]) -> list[RegisteredWorker]:
    """Return the live workers with a free slot, given the owners of running leases."""
    return [
        each for each in registered if each.is_live and sum(o.startswith(f"{each.name}/") for o in owners) < each.slots
    ]


@contextmanager
def lock_some_rows(random: Random, admin: Admin, table: str, key: str = "id") -> Generator[set[object], None, None]:
    """Lock some rows in another transaction, in different modes; return those that claims skip."""
    name = sql.Identifier(*table.split("."))
    keys = [row for (row,) in admin.execute(sql.SQL("select {} from {}").format(sql.Identifier(key), name)).fetchall()]
    locked: set[object] = set()
    with admin.transaction():
        for each in keys:
            if random.random() < 0.2:
                lock = random.choice(LOCKS)
                admin.execute(f"select from {table} where {key} = %s {lock}".encode(), [each])
                locked |= {each} if lock != "for key share" else set()
        yield locked
