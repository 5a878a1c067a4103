"""Record what sessions show, in the transaction that settles them: all of it or nothing.

    prove the lease, lock the days, compare with what is known
    settle and write the version in one statement
    write further days, events, snapshots, notifications

Sessions about the same day in one batch are recorded one after another: each sees the day as the previous one left it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.errors import SerializationFailure

from duly.apps.ingest import settlement
from duly.apps.ingest.canonical import Snapshot
from duly.apps.ingest.capture_notices import CaptureNotification, capture_unchanged, several_days_captured
from duly.apps.ingest.coverage import keep_uncovered_entries
from duly.apps.ingest.day import Day, DayChange, apply_snapshot
from duly.apps.ingest.model import CaptureOutcome
from duly.apps.ingest.options import CaptureOptions
from duly.apps.ingest.pages import further_session_id
from duly.apps.ingest.reading import CaptureResult, Input
from duly.apps.ingest.session_results import LEASE_LOST, SessionResult, recorded_result
from duly.apps.ingest.settlement import SettledCapture
from duly.apps.ingest.table_support import TableSupport
from duly.db.rows import Connection
from duly.errors import Conflict
from duly.lease.operations import Lease, fence_rows, find_settled
from duly.logging import get_log

DayKey = tuple[int, date]  # user_id, schedule_date
Report = Callable[[Lease, SessionResult, str | None], None]  # called with what came of a session, and its outcome

log = get_log("duly.ingest")


class ReadCapture(NamedTuple):
    """A session we hold, and what its reader returned."""

    lease: Lease
    result: CaptureResult

    @property
    def day_key(self) -> DayKey:
        """The person and the day that the session is about."""
        return self.lease.row["user_id"], self.result.snapshot.schedule_date


class CaptureRecorder:
    """Writes what sessions show, as far as the tables of an installation support it."""

    def __init__(self, options: CaptureOptions, tables: TableSupport, report: Report) -> None:
        self.options = options
        self.schema = options.schema
        self.tables = tables
        self.report = report

    async def record(self, connection: Connection, captures: Sequence[ReadCapture]) -> frozenset[UUID]:
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
        if self.tables.has_delivery:
            await settlement.notify_senders(connection, self.schema, notifications)

    async def _lock_and_find_days(self, connection: Connection, captures: Sequence[ReadCapture]) -> dict[DayKey, Day]:
        """Become the only writer of these days, and return what is known of them."""
        keys = list(dict.fromkeys(each.day_key for each in captures))
        partial = {each.day_key for each in captures if each.result.coverage is not None}
        await settlement.lock_days(connection, self.schema, keys)
        find = settlement.find_days if self.tables.has_events else settlement.find_days_by_version
        return await find(connection, self.schema, keys, with_payload=partial)

    async def _record_turn(self, connection: Connection, turn: Sequence[ReadCapture], days: dict[DayKey, Day]) -> None:
        """Record at most one session per day; `days` is updated to what is known afterwards."""
        completed = [_complete_snapshot(days, capture) for capture in turn]
        existing = await self._find_existing_events(connection, days, turn, [snapshot for snapshot, _ in completed])
        settled: list[SettledCapture] = []
        for capture, (snapshot, uncovered) in zip(turn, completed, strict=True):
            change = self._apply(days, capture.lease, snapshot, existing)
            days[capture.day_key] = change.after
            result = build_result(capture.lease.key, change, capture.result, uncovered)
            settled.append(SettledCapture(capture.lease, change, snapshot.payload, result, capture.result.further_days))
        has_version = await settlement.settle_captures(connection, settled)
        assert len(has_version) == len(settled), "the rows are locked, so every settle succeeds"
        for each in settled:
            if each.change.has_new_version and not has_version[each.lease.key]:
                await self._raise_version_conflict(connection, each)
        await settlement.add_further_days(connection, self.schema, settled)
        if self.tables.has_events:
            await self._write_events(connection, settled)
        await self.notify(
            connection, [_build_notification(each) for each in settled if each.further_days or _is_silent(each)]
        )
        for each in settled:
            self.report(each.lease, recorded_result(each.result), each.result["outcome"])
            log.debug("session.processed", **log_fields(each.lease), **each.result)

    async def _write_events(self, connection: Connection, settled: Sequence[SettledCapture]) -> None:
        """Write events, snapshots and notifications."""
        count = await settlement.add_events(connection, self.schema, settled)
        if self.tables.has_contract_event_key and count != sum(len(each.change.events) for each in settled):
            raise SerializationFailure("another program wrote one of these events just now")
        await settlement.put_day_snapshots(connection, self.schema, settled)
        if self.tables.has_notifications:
            user_ids = [each.day.user_id for each in settled if each.change.notifications]
            is_translated = bool(user_ids) and self.tables.has_delivery
            languages = await settlement.find_languages(connection, user_ids) if is_translated else {}
            await settlement.add_notifications(connection, self.schema, settled, languages)

    async def _find_existing_events(
        self,
        connection: Connection,
        days: Mapping[DayKey, Day],
        turn: Sequence[ReadCapture],
        snapshots: Sequence[Snapshot],
    ) -> frozenset[UUID]:
        """Return the events that the contract's key would reject, because the same change was written before."""
        if not self.tables.has_contract_event_key:
            return frozenset()
        changes = [
            self._apply(days, capture.lease, snapshot) for capture, snapshot in zip(turn, snapshots, strict=True)
        ]
        events = [
            (change.after.user_id, change.after.schedule_date, event) for change in changes for event in change.events
        ]
        return await settlement.find_existing_events(connection, self.schema, events)

    def _apply(
        self,
        days: Mapping[DayKey, Day],
        lease: Lease,
        snapshot: Snapshot,
        existing_events: frozenset[UUID] = frozenset(),
    ) -> DayChange:
        """Return what a session changes in its day, as far as the tables support it."""
        return apply_snapshot(
            days[lease.row["user_id"], snapshot.schedule_date],
            lease.key,
            snapshot,
            summary_threshold=self.options.summary_threshold,
            existing_events=existing_events,
            has_events=self.tables.has_events,
            has_notifications=self.tables.has_notifications,
        )

    async def _raise_version_conflict(self, connection: Connection, capture: SettledCapture) -> None:
        """Raise for a version that another program wrote: Conflict if it is this session's own, else retryable."""
        if await settlement.has_version(connection, self.schema, capture.lease.key):
            raise Conflict("another program wrote a version of this session before it was done; send the day again")
        raise SerializationFailure(
            f"version {capture.day.version} of {capture.day.schedule_date} was written by another program"
        )


def _complete_snapshot(days: Mapping[DayKey, Day], capture: ReadCapture) -> tuple[Snapshot, int]:
    """Return the snapshot with the known entries that the photographs do not cover, and how many those are."""
    known = days[capture.day_key].payload
    return keep_uncovered_entries(known, capture.result.snapshot, capture.result.coverage)


def _split_turns(captures: Sequence[ReadCapture]) -> list[list[ReadCapture]]:
    """Split sessions into turns, in order, each with at most one session per day."""
    turns: list[list[ReadCapture]] = []
    used: dict[DayKey, int] = {}
    for capture in captures:
        turn = used.get(capture.day_key, 0)
        used[capture.day_key] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(capture)
    return turns


def build_result(session_id: UUID, change: DayChange, capture: CaptureResult, uncovered: int) -> dict[str, Any]:
    """Build the `result` column of a session.

    For photographs it has their number and how many known shifts they do not cover; where they show other days, the
    session that each became, and the days without a shift.
    """
    photographs = {"images": capture.images, "unseen": uncovered} if capture.input is Input.PHOTOGRAPHS else {}
    further = [
        {
            "schedule_date": day.schedule_date.isoformat(),
            "session_id": str(further_session_id(session_id, day.schedule_date)),
        }
        for day in capture.further_days
    ]
    empty = [day.isoformat() for day in capture.empty_days]
    return {
        "outcome": CaptureOutcome.CHANGED if change.has_new_version else CaptureOutcome.UNCHANGED,
        "input": capture.input,
        "schedule_date": change.after.schedule_date.isoformat(),
        "version": change.after.version,
        "events": len(change.events),
        "notifications": len(change.notifications),
        **photographs,
        **({"further_days": further} if further else {}),
        **({"empty_days": empty} if empty else {}),
        **({"notes": list(capture.notes)} if capture.notes else {}),
    }


def _is_silent(capture: SettledCapture) -> bool:
    """Check whether photographs led to no notification about their day."""
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
