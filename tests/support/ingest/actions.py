"""Actions of capture tests: create sessions, claim them, finish them, replay their events."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duly.apps.ingest.diff import replay
from duly.apps.ingest.reading import CaptureInput, FixtureReader, Reader, read_capture
from duly.apps.ingest.repository import SessionTables
from duly.apps.ingest.shift import Shift, shift_from_json
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.canonical_json import Json
from duly.launcher import ROOT
from duly.lease.operations import Lease
from duly.lease.work import LeaseOutcome, Tuning
from duly.outcomes import failure_from_exception
from tests.support.actions import Actions, Admin, Connection

__all__ = ["ANNA", "LEASE", "SCHEMA", "Admin", "CaptureActions", "Connection", "read_session"]

SCHEMA = "schedule_ingest"
TOO_MANY_STARTS = (
    "It was started too often: each time the worker ended before the session did. Check the workers' logs, then "
    "send the day again."
)
LEASE = 60.0
ANNA = 42
SAMPLE = ROOT / "fixtures" / "sample_schedule.json"
WRITTEN = ("schedule_version", "schedule_event", "schedule_notification", "day_snapshot", "day_schedule")


class CaptureActions(Actions):
    """Actions on capture sessions, as administrator, worker and API."""

    schemas = (SCHEMA,)
    table = f"{SCHEMA}.capture_session"
    machine = "capture"
    summary = ("user_id", "state", "starts", "error")

    def __init__(self, admin: Admin, worker: Connection, api: Connection) -> None:
        super().__init__(admin, worker)
        self.api = api

    def work(self, reader: Reader | None = None, **rules: Any) -> CaptureWork:
        """Return a worker's work, which claims any pending session."""
        rules.setdefault("due", "created_at")
        return CaptureWork(
            reader or FixtureReader(SAMPLE),
            Tuning(lease_seconds=LEASE, heartbeat_seconds=LEASE / 4),
            CaptureOptions(**rules),
        )

    async def create(self, *days: Mapping[str, Json], user: int = ANNA) -> list[UUID]:
        """Create a session for each day, which is given as data; return their ids."""
        return [(await SessionTables().add_session(self.api, user, day)).id for day in days]

    async def open(self, user: int = ANNA) -> UUID:
        """Open a session that waits for images; return its id."""
        return (await SessionTables().add_session(self.api, user)).id

    async def claim(self, work: CaptureWork | None = None, limit: int = 1, owner: str = "worker-1") -> list[Lease]:
        """Claim under the name that every container gives its worker."""
        return await (work or self.work()).claim(self.worker, owner, limit)

    async def finish(self, leases: Sequence[Lease], work: CaptureWork | None = None) -> frozenset[UUID]:
        """Read these sessions and settle them, in one transaction."""
        capture_work = work or self.work()
        finished = [LeaseOutcome(lease, await read_session(capture_work, lease)) for lease in leases]
        async with self.worker.transaction():
            return await capture_work.settle(self.worker, finished)

    async def capture(self, *days: Mapping[str, Json], user: int = ANNA) -> list[Mapping[str, Any] | None]:
        """Create sessions one after another, each finished before the next; return their results."""
        results: list[Mapping[str, Any] | None] = []
        for day in days:
            (key,) = await self.create(day, user=user)
            await self.finish(await self.claim())
            results.append(self.one("select result from schedule_ingest.capture_session where id = %s", key))
        return results

    def counts(self) -> dict[str, int]:
        """Count the rows of every table that a capture may write to."""
        return {table: self.count(f"{SCHEMA}.{table}") for table in WRITTEN}

    def rebuilt(self, user: int = ANNA) -> tuple[list[Shift], list[Shift]]:
        """Return a user's only day as replaying its events makes it, and as its snapshot has it."""
        events = self.rows(
            "select old_value, new_value from schedule_ingest.schedule_event where user_id = %s order by seq", user
        )
        snapshot = self.one("select snapshot_payload from schedule_ingest.day_snapshot where user_id = %s", user)
        return replay((old, new) for old, new in events), sorted(
            map(shift_from_json, snapshot), key=lambda each: each.sort_key
        )


async def read_session(work: CaptureWork, lease: Lease) -> object:
    """Return what a handler makes of a session: what it shows, or the failure."""
    try:
        return await read_capture(work.reader, CaptureInput(lease.key, lease.row["user_id"]), lease.row["payload"])
    except Exception as error:
        return failure_from_exception(error)
