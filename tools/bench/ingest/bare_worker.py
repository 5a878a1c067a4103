"""A minimal worker: `python -m tools.bench.ingest.bare_worker <address> <sessions> <stored>`. Claim, write, again.

The same statements, tables, triggers, transactions and batches as ours. Nothing is read, compared or worked out: what
each session will write is prepared before the first is claimed. No runtime, heartbeat, sweep, handler, retry or stop:
one connection, one loop.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from duly.apps.ingest import settlement
from duly.apps.ingest.canonical import CANONICALIZER, canonicalize
from duly.apps.ingest.day import Day, apply_capture
from duly.apps.ingest.reading import CaptureReading, Input
from duly.apps.ingest.recording import build_result
from duly.apps.ingest.repository import to_json
from duly.apps.ingest.states import capture_lease_table
from duly.db.advisory import advisory_key
from duly.lease.owner import new_owner
from duly.settings import load_settings
from tools.bench.ingest.content import Known, shown
from tools.bench.ingest.worker import BATCH

REST_SECONDS = 0.05
SCHEMA = "schedule_ingest"
OF = capture_lease_table()
STATEMENTS = settlement.SQL.using(schema=SCHEMA)
CLAIM = OF.statements.claim
FENCE = OF.statements.fence
SETTLE = OF.statements.settle_done
OF_SETTLE = ["result", "user_id", "schedule_date", "version", "payload", "payload_hash"]
OF_SNAPSHOT = ["user_ids", "schedule_dates", "snapshots", "session_ids", "canonicalizers", "events"]
OF_EVENTS = [
    *("event_ids", "user_ids", "schedule_dates", "event_types", "locations", "customers", "old_hashes", "new_hashes"),
    *("old_values", "new_values", "session_ids", "seqs"),
]
OF_NOTICES = ["ids", "user_ids", "schedule_dates", "session_ids", "types", "messages", "event_ids"]
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a session writes, as parameters of the statements."""

    lock: int
    settle: Values
    snapshot: Values
    events: Sequence[Values]
    notices: Sequence[Values]


def main() -> None:
    """Prepare, then work until killed."""
    dsn, sessions, stored = sys.argv[1:]
    prepared = prepare(int(sessions), int(stored))
    with psycopg.connect(make_conninfo(dsn, user=load_settings().worker_role)) as connection:
        while True:
            if not drain_some(connection, prepared):
                time.sleep(REST_SECONDS)


def drain_some(connection: Connection[Any], prepared: Mapping[UUID, Prepared]) -> bool:
    """Finish a batch, if any is due."""
    owner = new_owner("bare")
    with connection.transaction():
        given = {"owner": owner, "lease_seconds": load_settings().lease_timeout_seconds, "limit": BATCH, "keys": None}
        keys = [row[0] for row in connection.execute(CLAIM, given).fetchall()]
    if not keys:
        return False
    rows = [prepared[key] for key in sorted(keys)]
    held = {"keys": sorted(keys), "owners": [owner] * len(keys)}
    with connection.transaction():
        connection.execute(FENCE, held).fetchall()
        connection.execute(STATEMENTS.lock_days, {"keys": [row.lock for row in rows]}).fetchall()
        settled = turned(OF_SETTLE, [row.settle for row in rows])
        days = {"user_ids": settled["user_id"], "schedule_dates": settled["schedule_date"]}
        connection.execute(
            STATEMENTS.find_days,
            {**days, "canonicalizer": CANONICALIZER, "with_payload": [False] * len(days["user_ids"])},
        ).fetchall()
        connection.execute(SETTLE, {**held, **settled, "canonicalizer": CANONICALIZER}).fetchall()
        connection.execute(STATEMENTS.add_events, turned(OF_EVENTS, [each for row in rows for each in row.events]))
        connection.execute(STATEMENTS.put_day_snapshots, turned(OF_SNAPSHOT, [row.snapshot for row in rows]))
        connection.execute(
            STATEMENTS.add_notifications, turned(OF_NOTICES, [each for row in rows for each in row.notices])
        )
    return True


def turned(names: Sequence[str], rows: Sequence[Values]) -> dict[str, list[Any]]:
    """Transpose rows to columns."""
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}


# Preparing ------------------------------------------------------------------------------------------------------------


def prepare(sessions: int, stored: int) -> dict[UUID, Prepared]:
    """Compute what every session will write, in their order."""
    days: dict[tuple[int, Any], Day] = {}
    prepared: dict[UUID, Prepared] = {}
    for number in range(sessions):
        session = shown(number, stored)
        result = CaptureReading(canonicalize(session.payload), Input.GIVEN)
        place = session.user_id, result.day.schedule_date
        before = days.get(place) or day_of(session.user_id, result, session.known)
        step = apply_capture(before, session.key, result.day, summary_threshold=load_settings().summary_threshold)
        days[place] = step.after
        prepared[session.key] = prepared_of(session.key, step, result)
    return prepared


def day_of(user_id: int, result: CaptureReading, known: Known | None) -> Day:
    """Return a day as it is before the first session of this run."""
    day = result.day.schedule_date
    if known is None:
        return Day(user_id, day)
    return Day(user_id, day, 1, known.seen.payload_hash, known.seen.shifts, len(known.seen.shifts))


def prepared_of(key: UUID, step: Any, result: CaptureReading) -> Prepared:
    """Build a session's rows."""
    day, whose = step.after, (step.after.user_id, step.after.schedule_date)
    payload = to_json(result.day.payload)
    version = (day.version, payload) if step.has_new_version else (None, None)
    shifts = "[" + ",".join(shift.json_text for shift in day.shifts) + "]"
    return Prepared(
        lock=advisory_key("ingest.day", SCHEMA, *whose),
        settle=(to_json(build_result(key, step, result, 0)), *whose, *version, day.payload_hash),
        snapshot=(*whose, shifts, key, day.canonicalizer, day.events),
        events=[event_row(key, whose, step.before.events + nth, event) for nth, event in enumerate(step.events, 1)],
        notices=[
            (each.id, *whose, key, each.type.value, each.text(), to_json(list(map(str, each.event_ids))))
            for each in step.notifications
        ],
    )


def event_row(key: UUID, whose: Values, seq: int, event: Any) -> Values:
    """Build one event's values."""
    change = event.change
    values = (change.old.json_text if change.old else None, change.new.json_text if change.new else None)
    prints = (change.shift.location_fingerprint, change.shift.customer_fingerprint)
    hashes = (event.old_value_hash, event.new_value_hash)
    return (event.id, *whose, change.type.value, *prints, *hashes, *values, key, seq)


if __name__ == "__main__":
    main()
