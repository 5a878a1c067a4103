-- Enqueue: one job, or many of one type. The functions check every value; nothing is enqueued unless the transaction
-- commits.

-- name: insert_job
-- The unique index on (org, idempotency key) decides between concurrent requests; `outcome` is created or existing.
select id, outcome from ledger.enqueue(
    org => %(org)s, type => %(type)s, payload => %(payload)s, key => %(idempotency_key)s, queue => %(queue)s,
    priority => %(priority)s, run_at => %(run_at)s, delay_seconds => %(delay_seconds)s,
    max_attempts => %(max_attempts)s, backoff_policy => %(backoff_policy)s,
    backoff_base_seconds => %(backoff_base_seconds)s, backoff_cap_seconds => %(backoff_cap_seconds)s,
    timeout_seconds => %(timeout_seconds)s, retain_for => make_interval(secs => %(retain_seconds)s),
    requested_by => %(requested_by)s, actor => %(actor)s
);

-- name: insert_jobs
-- Many jobs of one type in one statement, all or none; rows come in the order of the payloads.
select id, outcome from ledger.enqueue_many(
    org => %(org)s, type => %(type)s, payloads => %(payloads)s::jsonb[], keys => %(idempotency_keys)s::text[],
    queue => %(queue)s, priorities => %(priorities)s::integer[], run_ats => %(run_ats)s::timestamptz[],
    delay_seconds => %(delay_seconds)s, max_attempts => %(max_attempts)s, backoff_policy => %(backoff_policy)s,
    backoff_base_seconds => %(backoff_base_seconds)s, backoff_cap_seconds => %(backoff_cap_seconds)s,
    timeout_seconds => %(timeout_seconds)s, retain_for => make_interval(secs => %(retain_seconds)s),
    requested_by => %(requested_by)s, actor => %(actor)s
)
order by nth;
