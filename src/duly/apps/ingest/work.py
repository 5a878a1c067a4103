"""Capture sessions as a work type: claim what is due, read what it shows, record it.

    outside any transaction        read, give the day its canonical form
    in one transaction             record (`recording.py`)

A session that cannot be read fails with an error text for its person, and nothing is written of any day; the person who
sent screenshots is notified. Where photographs show several days, the session keeps the first, and each other day
becomes a session that is given as data.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from duly.apps.ingest.infrastructure_errors import InfrastructureRetriesExhausted, retry_infrastructure_errors
from duly.apps.ingest.model import MAX_IMAGES
from duly.apps.ingest.notifications import capture_failed
from duly.apps.ingest.pages import format_dates
from duly.apps.ingest.permission import TablePermission
from duly.apps.ingest.reading import CaptureInput, CaptureReading, Input, Reader, read_capture
from duly.apps.ingest.recording import CaptureRecorder, CaptureToRecord, log_fields
from duly.apps.ingest.repository import SessionTables
from duly.apps.ingest.session_reports import LEASE_LOST, RELEASED, SessionReport, SessionReports
from duly.apps.ingest.settlement import SettlementTables
from duly.apps.ingest.states import DEFAULT_SCHEMA, States, capture_lease_table
from duly.apps.ingest.table_support import check_states, find_table_support
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import InvalidArgument
from duly.executors.call import Call
from duly.lease.crash_isolation import CrashIsolation
from duly.lease.operations import Lease, claim_expired_rows, claim_rows, quarantine_rows, release_rows, settle_rows
from duly.lease.work import LeaseOutcome, StopSignal, Tuning, Work
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp, Released, clean_text

MAX_ERROR_LENGTH = 4000
MAX_SHARED_STARTS = 3  # from then on a session is not run together with another that was started as often
IDLE_CHECK_SECONDS = 1.0  # idle sessions are looked for at most this often
MAX_CLOSED = 1000

log = get_log("duly.ingest")


@dataclass(frozen=True)
class CaptureOptions:
    """How an installation processes its sessions."""

    schema: str = DEFAULT_SCHEMA
    states: States = field(default_factory=States)
    due: str = "closed_at"  # the timestamp column that makes a session due
    idle_seconds: float = 25.0  # a session is closed this long after its last image
    summary_threshold: int = 3  # from this many changes on, one summary replaces the notifications
    simulated_seconds: float = 0.0
    read_seconds: float = 600.0  # timeout for a reader that does not limit its own time
    infrastructure_retry_seconds: float = 60.0  # then a session that hits infrastructure errors is released
    idle_log_every: int = 12  # iterations
    is_one_cycle: bool = False  # a missing privilege ends the run, and the result of every session is kept


class CaptureWork(Work):
    """Claims, reads and settles capture sessions."""

    name = "ingest"

    def __init__(self, reader: Reader, tuning: Tuning, options: CaptureOptions) -> None:
        self.reader = reader
        self.tuning = tuning
        self.options = options
        self.table = capture_lease_table(
            options.schema, options.states, due=options.due, lease_seconds=tuning.lease_seconds
        )
        # Without a heartbeat the lease is not renewed while we retry.
        self.retry_seconds = min(options.infrastructure_retry_seconds, tuning.lease_seconds / 2)
        self.crash_isolation = CrashIsolation(
            max_shared_starts=MAX_SHARED_STARTS,
            max_starts=tuning.max_starts,
            timeout_seconds=tuning.lease_seconds + self.reading_seconds,
        )
        self.reports = SessionReports(is_one_cycle=options.is_one_cycle, idle_log_every=options.idle_log_every)
        self.sessions = SessionTables(options.schema, options.states)
        settlement = SettlementTables(options.schema, options.states)
        self.recorder = CaptureRecorder(settlement, self.reports.record, summary_threshold=options.summary_threshold)
        self.permission = TablePermission(options.schema, is_one_cycle=options.is_one_cycle)
        self.release_reasons: dict[UUID, SessionReport] = {}  # of sessions that will be released
        self.idle_check_at = 0.0  # monotonic clock: when to look for idle sessions again
        self.pool: Pool | None = None

    def use_handler_pool(self, pool: Pool) -> None:
        """Keep the connections for reading the names of images."""
        self.pool = pool

    async def close(self) -> None:
        """Close the reader."""
        await self.reader.close()

    @property
    def reading_seconds(self) -> float:
        """How long reading a session may take, the simulated delay of tests included."""
        return self.options.simulated_seconds + self.options.read_seconds

    async def prepare(self, connection: Connection) -> None:
        """Check tables, privileges and state names before the first claim."""
        self.recorder.support = await find_table_support(connection, self.options.schema)
        self.permission.needs_event_reads = self.recorder.support.has_contract_event_key
        if await self.permission.check(connection):
            await check_states(connection, self.options.schema, self.options.states)

    # Claiming ---------------------------------------------------------------------------------------------------------

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Close idle sessions, then claim closed ones."""
        with self.permission.recording_refusals():
            if not await self.permission.can_claim(connection):
                return []
            await self.close_idle(connection)
            leases = await claim_rows(
                connection, self.table, worker_id, lease_seconds=self.tuning.lease_seconds, limit=limit, keys=keys
            )
        self.reports.start(leases, is_only_work=self.is_only_work)
        return leases

    async def close_idle(self, connection: Connection) -> None:
        """Close sessions whose last image is idle; not more than once a second, nor where open ones are claimed."""
        if self.options.due == "closed_at" and time.monotonic() >= self.idle_check_at:
            self.idle_check_at = time.monotonic() + min(self.tuning.poll_seconds, IDLE_CHECK_SECONDS)
            await self.sessions.close_idle(connection, idle_seconds=self.options.idle_seconds, limit=MAX_CLOSED)

    async def claim_expired(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Claim expired sessions; those that were started often one at a time, to find the one that kills workers."""
        with self.permission.recording_refusals():
            if not await self.permission.can_claim(connection):
                return []
            claimed = await claim_expired_rows(
                connection,
                self.table,
                worker_id,
                lease_seconds=self.tuning.lease_seconds,
                max_starts=self.tuning.max_starts,
                limit=limit,
                keys=keys,
            )
            kept, deferred = self.crash_isolation.split(claimed)
            if deferred:
                await release_rows(connection, deferred)
        if kept:
            self.reports.start(kept, is_only_work=self.is_only_work)
        return kept

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Fail sessions that were started too often, and notify the people who sent them."""
        with self.permission.recording_refusals():
            if not await self.permission.can_claim(connection):
                return 0
            rows = await quarantine_rows(connection, self.table, max_starts=self.tuning.max_starts, keys=keys)
            await self.recorder.notify(connection, [capture_failed(row["id"], row["error"]) for row in rows])
        for row in rows:
            self.reports.record_swept(row["id"], SessionReport(f"failed: {row['error']}"))
        return len(rows)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
        """Release sessions unread; their starts are not counted."""
        released = await release_rows(connection, leases)
        for lease in leases:
            if lease.key in released:
                self.reports.record(lease, self.release_reasons.pop(lease.key, RELEASED))
        self.reports.iterations.finish(leases)
        self.crash_isolation.note_ended([lease.key for lease in leases])
        return released

    # Reading ----------------------------------------------------------------------------------------------------------

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:  # noqa: ARG002
        """Return the call that reads a session, with a timeout unless the reader limits its own time."""
        capture, payload = CaptureInput(lease.key, lease.row["user_id"]), lease.row.get("payload")
        is_timed = payload is None and not self.reader.has_limits
        return Call(self.perform, (capture, payload), timeout_seconds=self.reading_seconds if is_timed else None)

    async def perform(self, capture: CaptureInput, payload: dict[str, Any] | None) -> CaptureReading | Released:
        """Read a session; released when infrastructure errors persist."""
        try:
            if self.options.simulated_seconds:
                await asyncio.sleep(self.options.simulated_seconds)
            read = partial(self.read, capture, payload)
            return await retry_infrastructure_errors(read, self.retry_seconds, session_id=str(capture.id))
        except InfrastructureRetriesExhausted as error:
            if self.options.is_one_cycle:
                self.release_reasons[capture.id] = SessionReport(f"released: {error}", is_settled=False)
            return Released()
        except asyncio.CancelledError:  # the lease may be lost, and then neither settle nor release is called
            self.crash_isolation.note_ended([capture.id])
            raise

    async def read(self, capture: CaptureInput, payload: dict[str, Any] | None) -> CaptureReading:
        """Return what a session shows; InvalidArgument when it cannot be recorded here."""
        if payload is None and self.reader.input is Input.PHOTOGRAPHS:
            capture = replace(capture, images=await self.list_image_names(capture.id))
        reading = await read_capture(self.reader, capture, payload)
        if reading.further_days and not self.recorder.support.can_add_sessions:
            raise InvalidArgument(
                f"schedule_date: the photographs show several days, {format_dates(reading.dates)}; a session here "
                "accepts one day, so send each day by itself"
            )
        return reading

    async def list_image_names(self, session_id: UUID) -> tuple[str, ...]:
        """Return the object names of a session's images, in order."""
        assert self.pool, "the worker calls use_handler_pool before the first handler runs"
        async with self.pool.transaction() as connection:
            images = await self.sessions.list_images(connection, session_id, MAX_IMAGES)
        return tuple(image.r2_key for image in images)

    # Settling ---------------------------------------------------------------------------------------------------------

    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[UUID]:
        """Record what was read, fail what could not be, and release what an earlier settle had no privilege for."""
        refused = [lease for lease, _ in finished if lease.owner in self.permission.refused_owners]
        rest = [each for each in finished if each.lease.owner not in self.permission.refused_owners]
        read = [CaptureToRecord(lease, outcome) for lease, outcome in rest if isinstance(outcome, CaptureReading)]
        unread = [(lease, outcome) for lease, outcome in rest if not isinstance(outcome, CaptureReading)]
        settled = frozenset[UUID]()
        with self.permission.recording_refusals(lease for lease, _ in finished):
            if refused:
                settled |= await self.release_refused(connection, refused)
            if read:
                settled |= await self.recorder.record(connection, read)
            if unread:
                settled |= await self.fail(connection, unread)
        if rest:
            self.permission.reset_backoff()
        self.reports.iterations.finish(lease for lease, _ in finished)
        self.crash_isolation.note_ended([lease.key for lease, _ in finished])
        return settled

    async def release_refused(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
        """Release what could not be settled because a privilege is missing; where that fails too, the lease expires."""
        reason = await self.permission.explain(connection, len(leases))
        releasable = [lease for lease in leases if lease.owner not in self.permission.unreleasable_owners]
        released = await release_rows(connection, releasable) if releasable else frozenset[UUID]()
        self.permission.forget(leases)
        for lease in leases:
            action = "released" if lease.key in released else "left until its lease expires"
            self.reports.record(lease, SessionReport(f"{action}: {reason}", is_settled=False), "released")
        return released

    async def fail(self, connection: Connection, unread: Sequence[tuple[Lease, object]]) -> frozenset[UUID]:
        """Fail sessions with an error text, and notify the people who sent them; no day is changed."""
        errors = [clean_text(failure_text(outcome), MAX_ERROR_LENGTH) for _, outcome in unread]
        settled = await settle_rows(
            connection, [lease for lease, _ in unread], self.table.statements.settle_failed, error=errors
        )
        failed = [(lease, error) for (lease, _), error in zip(unread, errors, strict=True) if lease.key in settled]
        await self.recorder.notify(connection, [capture_failed(lease.key, error) for lease, error in failed])
        for lease, _ in unread:
            if lease.key not in settled:
                self.reports.record(lease, LEASE_LOST)
        for lease, error in failed:
            self.reports.record(lease, SessionReport(f"failed: {error}"), "failed")
            log.warning("session.failed", **log_fields(lease), reason=error)
        return settled


def failure_text(outcome: object) -> str:
    """Return why a session could not be read, for its person."""
    if not isinstance(outcome, Failed | GiveUp):
        return f"It ended as {type(outcome).__name__}; check the worker's log, then send the day again."
    message = outcome.message or outcome.code
    if outcome.code == "TIMEOUT":
        return f"Reading it {message}. Send the day again."
    if outcome.is_unexpected:  # a defect of ours or of a reader: the message was not written for people
        return f"It could not be processed, and that is not your fault ({message}). Send the day again."
    return message
