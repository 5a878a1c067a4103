"""Every table that is held, with two rows of it: what the statements of the lease are tried on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import LiteralString

from duly.lease.operations import LeaseTable
from tests.support.conformance.tables import (
    CAPTURES,
    JOBS,
    MESSAGE,
    NOTIFICATION,
    PARCEL,
    PLANS,
    POSTS,
    VISIT,
    Shape,
)


@dataclass(frozen=True)
class ClaimableTable:
    """A table that is held, and how two due rows get into it."""

    shape: Shape
    insert_statement: LiteralString

    @property
    def table(self) -> LeaseTable:
        """The table."""
        return self.shape.table


CLAIMABLE_TABLES: Mapping[str, ClaimableTable] = {
    "parcel": ClaimableTable(PARCEL, "insert into conformance.parcel select from generate_series(1, 2)"),
    "visit": ClaimableTable(VISIT, "insert into conformance.visit select from generate_series(1, 2)"),
    "job": ClaimableTable(
        JOBS,
        "select ledger.enqueue('00000000-0000-0000-0000-00000000000a', 'work', backoff_policy => 'none')"
        " from generate_series(1, 2)",
    ),
    "message": ClaimableTable(
        replace(MESSAGE, channel="test"),
        "insert into duly.outbox (channel, recipient, kind, payload)"
        " select 'test', 'anna ' || nth, 'test.word', '{}' from generate_series(1, 2) as nth",
    ),
    "post": ClaimableTable(
        POSTS,
        "insert into posts.posts (author_id, legacy, release_time) select 'anna', '{}', duly.clock()"
        " from generate_series(1, 2)",
    ),
    "capture": ClaimableTable(
        CAPTURES,
        "insert into schedule_ingest.capture_session (user_id, closed_at) select 42, duly.clock()"
        " from generate_series(1, 2)",
    ),
    "plan": ClaimableTable(
        PLANS,
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select p.user_id, 'Rent', 'cron: 0 10 1 * *', duly.clock() from duly.person as p, generate_series(1, 2)",
    ),
    # Last, for it brings a session that is no capture of these.
    "notification": ClaimableTable(
        NOTIFICATION,
        "with session as (insert into schedule_ingest.capture_session (user_id) values (42) returning id)"
        " insert into schedule_ingest.schedule_notification"
        " (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids)"
        " select nth::text, nth, '2026-01-01', id, 'summary', 'a day', '[]' from session, generate_series(1, 2) as nth",
    ),
}
