"""What tests of the ledger do all the time: ask for jobs, hold them, let time pass, look."""

from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from duly.kernel.lease import Lease
from duly.ledger import store
from duly.ledger.model import Kind
from duly.testing import move_clock
from duly.verify import check

__all__ = ["KIND", "LEASE", "ORG", "OTHER_ORG", "Admin", "Connection", "Hands"]

Admin = psycopg.Connection[Any]
Connection = AsyncConnection[Any]
ORG = UUID("00000000-0000-0000-0000-00000000000a")
OTHER_ORG = UUID("00000000-0000-0000-0000-00000000000b")
KIND = Kind("default", "work")
LEASE = 60.0


class Hands:
    """A test's own hand, and a worker's."""

    def __init__(self, admin: Admin, worker: Connection) -> None:
        self.admin = admin
        self.worker = worker

    def put(self, type: str = "work", rows: int = 1, **options: Any) -> list[UUID]:  # noqa: A002
        """Ask for equal jobs, each in a call of its own; their ids."""
        given = {"org": ORG, "type": type} | options
        given = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in given.items()}
        call = sql.SQL("select id from ledger.enqueue({})").format(
            sql.SQL(", ").join(
                sql.SQL("{} => {}").format(sql.Identifier(each), sql.Placeholder(each)) for each in given
            )
        )
        return [key for _ in range(rows) for (key,) in self.admin.execute(call, given)]

    async def hold(self, *kinds: Kind, most: int = 1, seconds: float = LEASE) -> list[Lease]:
        """Claim as the worker that every container calls itself."""
        return await store.claim(self.worker, "worker-1", kinds or (KIND,), lease_seconds=seconds, most=most)

    async def fail(self, *leases: Lease, code: str = "OOPS", message: str = "because") -> frozenset[UUID]:
        """Fail, in one transaction."""
        async with self.worker.transaction():
            return await store.failed(self.worker, leases, [code] * len(leases), [message] * len(leases))

    async def sweep(self, **options: Any) -> int:
        """Take from the dead, in one transaction."""
        async with self.worker.transaction():
            return await store.sweep(self.worker, **options)

    def look(self, *columns: str) -> list[Any]:
        """These columns of every job, in the order they were made; of one column, its values."""
        asked = sql.SQL("select {} from ledger.job order by created_at, id")
        rows = self.admin.execute(asked.format(sql.SQL(", ").join(map(sql.Identifier, columns)))).fetchall()
        return [row[0] for row in rows] if len(columns) == 1 else rows

    def log(self, key: UUID) -> list[tuple[str | None, str, Any]]:
        """From, to and details of every event of a job."""
        asked = "select prev_status, next_status, detail_json from ledger.job_event where job_id = %s order by seq"
        return self.admin.execute(asked, [key]).fetchall()

    def path(self, key: UUID) -> list[str]:
        """Where a job has been."""
        return [after for _, after, _ in self.log(key)]

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass."""
        move_clock(self.admin, seconds)

    def verify(self) -> None:
        """Nothing breaks a law."""
        assert check(self.admin, ("duly", "ledger")) == []
