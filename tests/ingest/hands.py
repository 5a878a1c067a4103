"""What tests of captures do all the time: bring days, hold sessions, let a worker see them, let time pass, look."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql

from duly.ingest import store
from duly.ingest.diff import replay
from duly.ingest.reading import Captured, FixtureReader, Reader, observed
from duly.ingest.shift import Shift, read_shift
from duly.ingest.work import CaptureWork, Rules
from duly.kernel.canonical import Json
from duly.kernel.lease import Lease
from duly.kernel.outcome import failure_of
from duly.kernel.work import Finished, Pace
from duly.launcher import ROOT
from duly.testing import move_clock
from duly.verify import check

__all__ = ["ANNA", "LEASE", "SCHEMA", "Admin", "Connection", "Hands", "see"]

Admin = psycopg.Connection[Any]
Connection = AsyncConnection[Any]
SCHEMA = "schedule_ingest"
LEASE = 60.0
ANNA = 42
SAMPLE = ROOT / "fixtures" / "sample_schedule.json"


class Hands:
    """A test's own hand, the API's, and a worker's."""

    def __init__(self, admin: Admin, api: Connection, worker: Connection) -> None:
        self.admin = admin
        self.api = api
        self.worker = worker

    def work(self, reader: Reader | None = None, **rules: Any) -> CaptureWork:
        """A worker's work, which takes any pending session."""
        rules.setdefault("due", "created_at")
        return CaptureWork(
            reader or FixtureReader(SAMPLE), Pace(lease_seconds=LEASE, heartbeat_seconds=LEASE / 4), Rules(**rules)
        )

    async def bring(self, *days: Mapping[str, Json], user: int = ANNA) -> list[UUID]:
        """Sessions that were given as data, a day each."""
        return [(await store.add_session(self.api, SCHEMA, user, day)).id for day in days]

    async def open(self, user: int = ANNA) -> UUID:
        """A session that waits for images."""
        return (await store.add_session(self.api, SCHEMA, user)).id

    async def hold(self, work: CaptureWork | None = None, most: int = 1, name: str = "worker-1") -> list[Lease]:
        """Claim as the worker that every container calls itself."""
        return await (work or self.work()).claim(self.worker, name, most)

    async def finish(self, leases: Sequence[Lease], work: CaptureWork | None = None) -> frozenset[UUID]:
        """See what these sessions show and write it down, in one transaction."""
        mine = work or self.work()
        finished = [Finished(lease, await see(mine, lease)) for lease in leases]
        async with self.worker.transaction():
            return await mine.settle(self.worker, finished)

    async def capture(self, *days: Mapping[str, Json], user: int = ANNA) -> list[Mapping[str, Any] | None]:
        """Bring days one after another, each seen before the next; what came of each."""
        results: list[Mapping[str, Any] | None] = []
        for day in days:
            (key,) = await self.bring(day, user=user)
            await self.finish(await self.hold())
            results.append(self.one("select result from schedule_ingest.capture_session where id = %s", key))
        return results

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What a statement answers."""
        return self.admin.execute(statement.encode(), values).fetchall()

    def one(self, statement: str, *values: object) -> Any:
        """The one value that it answers."""
        ((value,),) = self.rows(statement, *values)
        return value

    def values(self, statement: str, *values: object) -> list[Any]:
        """Its first column."""
        return [row[0] for row in self.rows(statement, *values)]

    def count(self, table: str) -> int:
        """How many rows a table of captures has."""
        asked = sql.SQL("select count(*) from {}").format(sql.Identifier(SCHEMA, table))
        ((found,),) = self.admin.execute(asked).fetchall()
        return found

    def counts(self) -> dict[str, int]:
        """How many rows there are of what a capture may write."""
        tables = ("schedule_version", "schedule_event", "schedule_notification", "day_snapshot", "day_schedule")
        return {table: self.count(table) for table in tables}

    def path(self, key: UUID) -> list[str]:
        """Where a session has been."""
        asked = "select next_status from duly.transition where machine = 'capture' and key = %s order by seq"
        return self.values(asked, str(key))

    def rebuilt(self, user: int = ANNA) -> tuple[list[Shift], list[Shift]]:
        """A person's only day as its events make it, and as it is known."""
        events = self.rows(
            "select old_value, new_value from schedule_ingest.schedule_event where user_id = %s order by seq", user
        )
        snapshot = self.one("select snapshot_payload from schedule_ingest.day_snapshot where user_id = %s", user)
        return replay((old, new) for old, new in events), sorted(map(read_shift, snapshot), key=lambda each: each.order)

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass."""
        move_clock(self.admin, seconds)

    def verify(self) -> None:
        """Nothing breaks a law."""
        assert check(self.admin, ("duly", SCHEMA)) == []


async def see(work: CaptureWork, lease: Lease) -> object:
    """What a handler makes of a session: what it shows, or why not."""
    try:
        return await observed(work.reader, Captured(lease.key, lease.row["user_id"]), lease.row["payload"])
    except Exception as error:
        return failure_of(error)
