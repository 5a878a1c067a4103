-- Queries about jobs for tests.

-- name: list_candidate_jobs
-- Jobs of an org, those most like the expected one first, each with the number of matching jobs: of this type, queued,
-- with a payload that contains this one and, if one is given, with this idempotency key.
select
    type, status, payload, idempotency_key,
    count(*) filter (
        where type = %(type)s and status = 'queued' and payload @> %(payload)s
            and (%(idempotency_key)s::text is null or idempotency_key = %(idempotency_key)s::text)
    ) over () as found
from ledger.job
where org_id = %(org)s
order by type = %(type)s desc, status = 'queued' desc, created_at, id
limit %(limit)s;

-- name: find_next_retry
-- Seconds until the first retry of these jobs. Jobs that wait for another reason do not count, nor those that were due
-- at the last poll of a worker and were not claimed.
select extract(epoch from min(run_at) - duly.clock())::float8
from ledger.job
where id = any (%(job_ids)s) and status = 'queued' and event_detail ->> 'reason' = 'retry' and run_at > %(polled_at)s;
