-- What tests ask about jobs.

-- name: list_asked
-- What an org's jobs are, the likeliest first, and how many in all are what is looked for: of this type, waiting, with a
-- payload that contains this one and, if one is given, under this key.
select
    type, status, payload, idempotency_key,
    count(*) filter (
        where type = %(type)s and status = 'queued' and payload @> %(payload)s
            and (%(key)s::text is null or idempotency_key = %(key)s::text)
    ) over () as found
from ledger.job
where org_id = %(org)s
order by type = %(type)s desc, status = 'queued' desc, created_at, id
limit %(limit)s;

-- name: find_next_retry
-- In how many seconds the first of these jobs is to be tried again. Those that wait for another reason do not count, nor
-- those that were due when a worker last looked and were left alone: they rest.
select extract(epoch from min(run_at) - duly.clock())::float8
from ledger.job
where id = any (%(keys)s) and status = 'queued' and said ->> 'reason' = 'retry' and run_at > %(looked_at)s;
