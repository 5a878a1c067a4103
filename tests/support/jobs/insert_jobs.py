"""Many jobs in one statement, on a connection of a test or of a benchmark."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from psycopg import sql

from duly.canonical_json import Json
from duly.db.rows import Connection, Row, get_rows
from duly.jobs.enqueue import insert_parameters
from duly.jobs.model import JobRequest

INSERT_JOBS = sql.SQL("""
    select id, outcome from ledger.enqueue_many(
        org => %(org)s, type => %(type)s, payloads => array(select jsonb_array_elements(%(payloads)s::text::jsonb)),
        keys => %(idempotency_keys)s::text[], queue => %(queue)s,
        priorities => %(priorities)s::integer[], run_ats => %(run_ats)s::timestamptz[],
        delay_seconds => %(delay_seconds)s, max_attempts => %(max_attempts)s, backoff_policy => %(backoff_policy)s,
        backoff_base_seconds => %(backoff_base_seconds)s, backoff_cap_seconds => %(backoff_cap_seconds)s,
        timeout_seconds => %(timeout_seconds)s, retain_for => make_interval(secs => %(retain_seconds)s),
        requested_by => %(requested_by)s, actor => %(actor)s
    )
    order by nth
""")


async def insert_jobs(
    connection: Connection,
    request: JobRequest,
    payloads: Sequence[Mapping[str, Json]],
    idempotency_keys: Sequence[str | None] | None = None,
    run_ats: Sequence[datetime] | None = None,
) -> Sequence[Row]:
    """Insert jobs that differ from this request in payload, key and time; return rows in the order of the payloads."""
    parameters = insert_parameters(request) | {
        "payloads": json.dumps(payloads),  # as one text: binding them one by one is slower
        "idempotency_keys": None if idempotency_keys is None else list(idempotency_keys),
        "run_ats": None if run_ats is None else list(run_ats),
        "priorities": [request.options.priority] * len(payloads) if request.options.priority else None,
    }
    return await get_rows(connection, INSERT_JOBS, **parameters)
