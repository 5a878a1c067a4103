"""Actions of tests of jobs: enqueue, claim, fail, sweep, read events."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from duly.jobs import repository
from duly.jobs.model import DeadLetterFilter, TypeInQueue
from duly.lease.operations import Lease
from tests.support.actions import Actions, Admin, Connection

__all__ = ["JOB_TYPE", "LEASE", "ORG", "OTHER_ORG", "Admin", "Connection", "JobActions"]

ORG = UUID("00000000-0000-0000-0000-00000000000a")
OTHER_ORG = UUID("00000000-0000-0000-0000-00000000000b")
JOB_TYPE = TypeInQueue("default", "work")
LEASE = 60.0
T = TypeVar("T")


class JobActions(Actions):
    """Actions on jobs, as administrator and as worker."""

    schemas = ("ledger",)
    table = "ledger.job"
    summary = ("type", "status", "stage")

    def enqueue(self, type: str = "work", rows: int = 1, **options: Any) -> list[UUID]:  # noqa: A002
        """Enqueue equal jobs, each in a call of its own; return their ids."""
        given = {"org": ORG, "type": type} | options
        given = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in given.items()}
        call = sql.SQL("select id from ledger.enqueue({})").format(
            sql.SQL(", ").join(
                sql.SQL("{} => {}").format(sql.Identifier(each), sql.Placeholder(each)) for each in given
            )
        )
        return [key for _ in range(rows) for (key,) in self.admin.execute(call, given)]

    async def claim(self, *job_types: TypeInQueue, limit: int = 1, lease_seconds: float = LEASE) -> list[Lease]:
        """Claim under the name that every container gives its worker."""
        return await repository.claim_jobs(
            self.worker, "worker-1", job_types or (JOB_TYPE,), lease_seconds=lease_seconds, limit=limit
        )

    async def fail(self, *leases: Lease, code: str = "OOPS", message: str = "because") -> frozenset[UUID]:
        """Fail jobs, in one transaction."""
        async with self.worker.transaction():
            return await repository.settle_failed(self.worker, leases, [code] * len(leases), [message] * len(leases))

    async def sweep(self, **options: Any) -> int:
        """Take back jobs whose leases expired, in one transaction."""
        async with self.worker.transaction():
            return len(await repository.sweep_jobs(self.worker, **options))

    async def steer(
        self, act: Callable[..., Awaitable[T]], which: UUID | DeadLetterFilter, *arguments: object, **options: object
    ) -> T:
        """Cancel or retry, in one transaction that acts for the org of these jobs."""
        async with self.worker.transaction():
            await repository.set_org(self.worker, which if isinstance(which, UUID) else which.org)
            return await act(self.worker, which, *arguments, **options)

    def events(self, key: UUID) -> list[tuple[str | None, str, Any]]:
        """Return the former status, the next one and the details of every event of a job."""
        statement = "select prev_status, next_status, detail_json from ledger.job_event where job_id = %s order by seq"
        return self.admin.execute(statement, [key]).fetchall()

    def path(self, key: object) -> list[str]:
        """Return every status that a job has had; its events are its transitions."""
        return self.values("select next_status from ledger.job_event where job_id = %s order by seq", key)
