"""Record what sessions show, in the transaction that settles them: all of it or nothing.

    prove the lease, lock the days, compare with what is known
    settle and write the version in one statement
    write further days, events, captured, notifications

Sessions about the same day in one batch are recorded one after another: each sees the day as the previous one left it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.errors import SerializationFailure

from duly.apps.ingest.day import Day, DayChange, DayKey, apply_capture
from duly.apps.ingest.model import CaptureOutcome
from duly.apps.ingest.notifications import CaptureNotification, capture_unchanged, several_days_captured
from duly.apps.ingest.pages import further_session_id, keep_uncovered_entries
from duly.apps.ingest.reading import CaptureReading, Input
from duly.apps.ingest.session_reports import LEASE_LOST, SessionReport, report_recorded
from duly.apps.ingest.settlement import SettledCapture, SettlementTables
from duly.apps.ingest.table_support import TableSupport
from duly.db.rows import Connection
from duly.errors import Conflict
from duly.lease.operations import Lease, fence_rows, find_settled
from duly.logging import get_log

Report = Callable[[Lease, SessionReport, str | None], None]  # called with a session's report and outcome

log = get_log("duly.ingest")


class CaptureToRecord(NamedTuple):
    """A session we hold, and what its reader returned."""

    lease: Lease
    reading: CaptureReading
    uncovered: int = 0  # how many known shifts the photographs do not cover

    @property
    def day_key(self) -> DayKey:
        """The person and the day that the session is about."""
        return self.lease.row["user_id"], self.reading.day.schedule_date


class CaptureRecorder:
    """Writes what sessions show, as far as the tables of an installation support it."""

    def __init__(self, tables: SettlementTables, report: Report, *, summary_threshold: int) -> None:
        self.tables = tables
        self.support = TableSupport()
        self.report = report
        self.summary_threshold = summary_threshold

    async def record(self, connection: Connection, captures: Sequence[CaptureToRecord]) -> frozenset[UUID]:
        """Record sessions, all or none; return those that are, or were before, settled by us."""
        leases = [each.lease for each in captures]
        ours = await fence_rows(connection, leases)
        settled_before = frozenset[UUID]() if len(ours) == len(leases) else await find_settled(connection, leases)
        for lease in leases:
            if lease.key not in ours | settled_before:
                self.report(lease, LEASE_LOST, None)
        held = sorted(
            (each for each in captures if each.lease.key in ours),
            key=lambda each: (each.lease.row["created_at"], each.lease.key),
        )
        if held:
            days = await self._lock_and_find_days(connection, held)
            for turn in _split_turns(held):
                await self._record_turn(connection, turn, days)
        return ours | settled_before

    async def notify(self, connection: Connection, notifications: Sequence[CaptureNotification]) -> None:
        """Queue messages to the people who sent screenshots, where duly delivers notifications."""
        if self.support.has_delivery:
            await self.tables.notify_senders(connection, notifications)

    async def _lock_and_find_days(
        self, connection: Connection, captures: Sequence[CaptureToRecord]
    ) -> dict[DayKey, Day]:
        """Become the only writer of these days, and return what is known of them."""
        keys = list(dict.fromkeys(each.day_key for each in captures))
        partial = {each.day_key for each in captures if each.reading.coverage is not None}
        await self.tables.lock_days(connection, keys)
        find = self.tables.find_days if self.support.has_events else self.tables.find_days_by_version
        return await find(connection, keys, with_payload=partial)

    async def _record_turn(
        self, connection: Connection, turn: Sequence[CaptureToRecord], days: dict[DayKey, Day]
    ) -> None:
        """Record at most one session per day; `days` is updated to what is known afterwards."""
        completed = [_complete_day(days, capture) for capture in turn]
        existing = await self._find_existing_events(connection, days, completed)
        settled: list[SettledCapture] = []
        for capture in completed:
            change, reading = self._compare(days, capture, existing), capture.reading
            days[capture.day_key] = change.after
            result = build_result(capture.lease.key, change, reading, capture.uncovered)
            settled.append(SettledCapture(capture.lease, change, reading.day.payload, result, reading.further_days))
        has_version = await self.tables.settle_captures(connection, settled)
        assert len(has_version) == len(settled), "the rows are locked, so every settle succeeds"
        for each in settled:
            if each.change.has_new_version and not has_version[each.lease.key]:
                await self._raise_version_conflict(connection, each)
        await self.tables.add_further_days(connection, settled)
        if self.support.has_events:
            await self._write_events(connection, settled)
        await self.notify(
            connection, [_build_notification(each) for each in settled if each.further_days or _is_silent(each)]
        )
        for each in settled:
            self.report(each.lease, report_recorded(each.result), each.result["outcome"])
            log.debug("session.processed", **log_fields(each.lease), **each.result)

    async def _write_events(self, connection: Connection, settled: Sequence[SettledCapture]) -> None:
        """Write events, day snapshots and notifications."""
        count = await self.tables.add_events(connection, settled)
        if self.support.has_contract_event_key and count != sum(len(each.change.events) for each in settled):
            raise SerializationFailure("another program wrote one of these events just now")
        await self.tables.put_day_snapshots(connection, settled)
        if self.support.has_notifications:
            user_ids = [each.day.user_id for each in settled if each.change.notifications]
            is_translated = bool(user_ids) and self.support.has_delivery
            languages = await self.tables.find_languages(connection, user_ids) if is_translated else {}
            await self.tables.add_notifications(connection, settled, languages)

    async def _find_existing_events(
        self, connection: Connection, days: Mapping[DayKey, Day], captures: Sequence[CaptureToRecord]
    ) -> frozenset[UUID]:
        """Return the events that the contract's key would reject, because the same change was written before."""
        if not self.support.has_contract_event_key:
            return frozenset()
        events = [(*capture.day_key, event) for capture in captures for event in self._compare(days, capture).events]
        return await self.tables.find_existing_events(connection, events)

    def _compare(
        self, days: Mapping[DayKey, Day], capture: CaptureToRecord, existing_events: frozenset[UUID] = frozenset()
    ) -> DayChange:
        """Return what a session changes in its day, as far as the tables support it."""
        return apply_capture(
            days[capture.day_key],
            capture.lease.key,
            capture.reading.day,
            summary_threshold=self.summary_threshold,
            existing_events=existing_events,
            has_events=self.support.has_events,
            has_notifications=self.support.has_notifications,
        )

    async def _raise_version_conflict(self, connection: Connection, capture: SettledCapture) -> None:
        """Raise for a version that another program wrote: Conflict if it is this session's own, else retryable."""
        if await self.tables.has_version(connection, capture.lease.key):
            raise Conflict("another program wrote a version of this session before it was done; send the day again")
        raise SerializationFailure(
            f"version {capture.day.version} of {capture.day.schedule_date} was written by another program"
        )


def _complete_day(days: Mapping[DayKey, Day], capture: CaptureToRecord) -> CaptureToRecord:
    """Return the capture with the known entries that its photographs do not cover."""
    reading = capture.reading
    day, uncovered = keep_uncovered_entries(days[capture.day_key].payload, reading.day, reading.coverage)
    return CaptureToRecord(capture.lease, replace(reading, day=day), uncovered)


def _split_turns(captures: Sequence[CaptureToRecord]) -> list[list[CaptureToRecord]]:
    """Split sessions into turns, in order, each with at most one session per day."""
    turns: list[list[CaptureToRecord]] = []
    used: dict[DayKey, int] = {}
    for capture in captures:
        turn = used.get(capture.day_key, 0)
        used[capture.day_key] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(capture)
    return turns


def build_result(session_id: UUID, change: DayChange, reading: CaptureReading, uncovered: int) -> dict[str, Any]:
    """Build the `result` column of a session.

    For photographs it has their number and how many known shifts they do not cover; where they show other days, the
    session that each became, and the days without a shift.
    """
    photographs = {"images": reading.images, "uncovered": uncovered} if reading.input is Input.PHOTOGRAPHS else {}
    further = [
        {
            "schedule_date": day.schedule_date.isoformat(),
            "session_id": str(further_session_id(session_id, day.schedule_date)),
        }
        for day in reading.further_days
    ]
    empty = [day.isoformat() for day in reading.empty_days]
    return {
        "outcome": CaptureOutcome.CHANGED if change.has_new_version else CaptureOutcome.UNCHANGED,
        "input": reading.input,
        "schedule_date": change.after.schedule_date.isoformat(),
        "version": change.after.version,
        "events": len(change.events),
        "notifications": len(change.notifications),
        **photographs,
        **({"further_days": further} if further else {}),
        **({"empty_days": empty} if empty else {}),
        **({"notes": list(reading.notes)} if reading.notes else {}),
    }


def _is_silent(capture: SettledCapture) -> bool:
    """Return whether photographs led to no notification about their day."""
    return capture.result["input"] is Input.PHOTOGRAPHS and not capture.change.notifications


def _build_notification(capture: SettledCapture) -> CaptureNotification:
    """Build the notification that photographs were read: which days they show, or that nothing changed."""
    if capture.further_days:
        dates = [capture.day.schedule_date, *(day.schedule_date for day in capture.further_days)]
        return several_days_captured(capture.lease.key, dates)
    return capture_unchanged(capture.lease.key, capture.day.schedule_date)


def log_fields(lease: Lease) -> dict[str, Any]:
    """Return the fields that identify a session in log lines."""
    key = str(lease.key)
    return {"session_id": key, "user_id": lease.row["user_id"], "correlation_id": key}
