-- Enqueue one job. The function checks every value; nothing is enqueued unless the transaction commits.

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
