-- Queries about jobs for tests.

-- name: list_candidate_jobs
-- Jobs of an org, those most like the expected one first, each with the number of matching jobs: of this type, queued,
-- with a payload that contains this one and, if one is given, with this idempotency key. The tenant is set by the query
-- itself, before any row is read: `offset 0` keeps the planner from reading them first.
select j.type, j.status, j.payload, j.idempotency_key, j.found
from (select set_config('app.current_org_id', %(org)s::text, true)::uuid as org offset 0) as tenant
cross join lateral (
    select
        t.type, t.status::text as status, t.payload::text as payload, t.idempotency_key,
        count(*) filter (
            where t.type = p.type and t.status = 'queued' and t.payload @> p.payload
                and (p.idempotency_key is null or t.idempotency_key = p.idempotency_key)
        ) over () as found,
        row_number() over (order by t.type = p.type desc, t.status = 'queued' desc, t.created_at, t.id) as nth
    from ledger.job as t
    cross join (
        select %(type)s::text as type, %(payload)s::text::jsonb as payload, %(key)s::text as idempotency_key
    ) as p
    where t.org_id = tenant.org
    order by nth
    limit %(limit)s::text::bigint
) as j
order by j.nth;

-- name: find_next_retry
-- Seconds until the first retry of these jobs. Jobs that wait for another reason do not count, nor those that were due
-- at the last poll of a worker and were not claimed.
select extract(epoch from min(run_at) - duly.clock())::float8
from ledger.job
where id = any (%(job_ids)s) and status = 'queued' and event_detail ->> 'reason' = 'retry' and run_at > %(polled_at)s;
