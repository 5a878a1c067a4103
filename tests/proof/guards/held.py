"""Every table that is held, with two rows of it: what the statements of the lease are tried on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString

from duly.apps.ingest.states import capture_session
from duly.apps.posts.states import POST
from duly.apps.scheduler.states import PLAN
from duly.jobs import JOB
from duly.lease.operations import LeaseTable
from duly.outbox import OUTBOX
from duly.outbox.states import notification_table
from tests.support.conformance.tables import PARCEL, VISIT


@dataclass(frozen=True)
class Held:
    """A table that is held: how two due rows get into it, and an end that a holder may bring them to."""

    table: LeaseTable
    put: LiteralString
    end: str


HELD: Mapping[str, Held] = {
    "parcel": Held(PARCEL.table, "insert into conformance.parcel select from generate_series(1, 2)", PARCEL.end),
    "visit": Held(VISIT.table, "insert into conformance.visit select from generate_series(1, 2)", VISIT.end),
    "job": Held(
        JOB,
        "select ledger.enqueue('00000000-0000-0000-0000-00000000000a', 'work') from generate_series(1, 2)",
        "succeeded",
    ),
    "message": Held(
        OUTBOX,
        "insert into duly.outbox (channel, recipient, kind, payload)"
        " select 'test', 'anna ' || nth, 'test.word', '{}' from generate_series(1, 2) as nth",
        "sent",
    ),
    "post": Held(
        POST,
        "insert into posts.posts (author_id, legacy, release_time) select 'anna', '{}', duly.clock()"
        " from generate_series(1, 2)",
        "RELEASED",
    ),
    "capture": Held(
        capture_session(),
        "insert into schedule_ingest.capture_session (user_id, closed_at) select 42, duly.clock()"
        " from generate_series(1, 2)",
        "done",
    ),
    "plan": Held(
        PLAN,
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select u.id, 'Rent', 'cron: 0 10 1 * *', duly.clock() from \"user\".users as u, generate_series(1, 2)",
        "waiting",
    ),
    # Last, for it brings a session that is no capture of these.
    "notification": Held(
        notification_table(),
        "with session as (insert into schedule_ingest.capture_session (user_id) values (42) returning id)"
        " insert into schedule_ingest.schedule_notification"
        " (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids)"
        " select nth::text, nth, '2026-01-01', id, 'summary', 'a day', '[]' from session, generate_series(1, 2) as nth",
        "sent",
    ),
}
