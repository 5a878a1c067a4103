-- Why a job does not run: everything that could be the reason, in one statement.

-- name: find_situation
-- One statement, one snapshot: all parts of the result are consistent. A job of another org is not visible. Counts include
-- what the role may see: as the worker's role the jobs of all orgs, as the API's those of this one. A worker is alive when
-- it was seen recently and is neither stopping nor stopped; it lists each type that it handles as ledger:<queue>/<type>.
-- Whether a claim would return the job now is answered by the claim itself, for roles that may claim.
with job as materialized (
    select *
    from ledger.job
    where org_id = %(org)s and id = %(job_id)s
),
present as materialized (
    select w.worker_id, w.slots, w.kinds, w.stopping_at
    from duly.workers as w
    where w.stopped_at is null
        and abs(extract(epoch from duly.now() - w.seen_at)) <= %(alive_seconds)s
),
alive as (
    select p.worker_id, p.slots, p.kinds from present as p where p.stopping_at is null
),
held as (
    select substring(j.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$') as worker_id, count(*) as jobs
    from ledger.job as j
    where j.status = 'running' and j.lease_expires_at >= duly.now()
    group by 1
),
handler as (
    select a.worker_id, a.kinds, coalesce((a.slots ->> 'ledger')::bigint, 0) as slots
    from job
    join alive as a on 'ledger:' || job.queue || '/' || job.type = any (a.kinds)
),
named as (
    select h.worker_id, sum(h.slots)::bigint as slots, coalesce(max(held.jobs), 0) as busy
    from handler as h
    left join held using (worker_id)
    group by h.worker_id
),
kind as (
    select h.kinds, h.is_free, left(k.name, p.position - 1) as queue, substr(k.name, p.position + 1) as type
    from (
        select handler.kinds, bool_or(n.busy < n.slots) as is_free
        from handler
        join named as n using (worker_id)
        group by handler.kinds
    ) as h
    cross join lateral (
        select substr(u.kind, 8) as name from unnest(h.kinds) as u (kind) where starts_with(u.kind, 'ledger:')
    ) as k
    cross join lateral generate_series(1, length(k.name)) as p (position)
    where substr(k.name, p.position, 1) = '/'
),
line as (
    select k.kinds, bool_or(k.is_free) as is_free, least(sum(first.jobs), %(ahead_limit)s)::bigint as ahead
    from job
    cross join kind as k
    cross join lateral (
        select
            min(j.run_at) filter (where (j.queue, j.type) = (k.queue, k.type)) as theirs,
            min(j.run_at) filter (where (j.queue, j.type) = (job.queue, job.type)) as ours
        from (
            (
                select j.queue, j.type, j.run_at
                from ledger.job as j
                where j.status = 'queued' and j.queue = k.queue and j.type = k.type and j.priority = job.priority
                order by j.run_at
                limit 1
            )
            union all
            (
                select j.queue, j.type, j.run_at
                from ledger.job as j
                where j.status = 'queued' and j.queue = job.queue and j.type = job.type and j.priority = job.priority
                order by j.run_at
                limit 1
            )
        ) as j
    ) as head
    cross join lateral (
        select count(*) as jobs
        from (
            select
            from ledger.job as j
            where job.status = 'queued' and j.status = 'queued' and j.queue = k.queue and j.type = k.type
                and j.run_at <= duly.now()
                and (j.priority > job.priority or (j.priority = job.priority and case
                    when (k.queue, k.type) = (job.queue, job.type) then (j.run_at, j.id) < (job.run_at, job.id)
                    else (head.theirs, k.queue, k.type) < (head.ours, job.queue, job.type::text)
                end))
            limit %(ahead_limit)s
        ) as earlier
    ) as first
    where not exists (
        select
        from ledger.job_limit as l
        where l.queue in (k.queue, '*') and l.type in (k.type, '*') and (l.paused_at is not null or l.most <= (
            select count(*) from ledger.job as j where j.status = 'running' and j.type = k.type
        ))
    )
    group by k.kinds
),
pause as (
    select l.queue, l.type, l.paused_at, l.paused_by
    from job
    join ledger.job_limit as l on l.queue in (job.queue, '*') and l.type in (job.type, '*')
    where l.paused_at is not null
)
select
    job.id, job.org_id, job.status, job.queue, job.type, job.priority, job.starts, job.max_attempts, job.snoozes, job.run_at,
    job.lease_owner, job.lease_expires_at, job.cancel_requested_at, job.stage, job.progress, job.finished_at,
    job.last_error_code, job.last_error_message,
    duly.now() as observed_at,
    last.reason as last_reason,
    last.ts as last_at,
    (
        select e.ts
        from ledger.job_event as e
        where e.job_id = job.id and e.prev_status = 'queued' and e.next_status = 'running'
        order by e.seq desc
        limit 1
    ) as claimed_at,
    (
        select e.detail_json ->> 'actor'
        from ledger.job_event as e
        where job.cancel_requested_at is not null and e.job_id = job.id and e.detail_json ->> 'reason' = 'cancel_requested'
        order by e.seq desc
        limit 1
    ) as asked_by,
    (
        select max(w.seen_at)
        from duly.workers as w
        where w.worker_id = substring(job.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$')
        having not bool_or(w.worker_id in (select p.worker_id from present as p))
    ) as holder_gone_at,
    array(select p.queue from pause as p order by p.queue, p.type) as paused_queues,
    array(select p.type from pause as p order by p.queue, p.type) as paused_types,
    array(select p.paused_at from pause as p order by p.queue, p.type) as paused_ats,
    array(select p.paused_by from pause as p order by p.queue, p.type) as paused_bys,
    (select l.most from ledger.job_limit as l where l.queue = '*' and l.type = job.type) as "limit",
    running.jobs as running,
    running.expired,
    (select count(*) from alive) as workers,
    array(select distinct p.worker_id from present as p where p.stopping_at is not null order by p.worker_id) as stopping,
    (select count(*) from alive as a where 'ledger' = any (a.kinds)) as sweepers,
    array(select n.worker_id from named as n order by n.busy >= n.slots, n.worker_id) as handlers,
    (select coalesce(sum(n.slots), 0)::bigint from named as n) as slots,
    (select coalesce(sum(n.busy), 0)::bigint from named as n) as busy,
    (select count(*) from named as n where n.busy < n.slots) as free_handlers,
    coalesce((select l.ahead from line as l order by l.is_free desc, l.ahead limit 1), 0) as ahead,
    (job.status = 'queued' or (job.status = 'running' and job.lease_expires_at < duly.now()))
        and ledger.is_locked(job.org_id, job.id) as is_locked,
    case when job.status = 'queued' and job.run_at <= duly.now() and has_any_column_privilege('ledger.job', 'update') then
        exists (
            select
            from kind as k
            where k.is_free
            group by k.kinds
            having ledger.find_next(array_agg(k.queue), array_agg(k.type)) = job.id
        )
    end as is_next
from job
cross join lateral (
    select count(*) as jobs, count(*) filter (where j.lease_expires_at < duly.now()) as expired
    from ledger.job as j
    where j.status = 'running' and j.type = job.type
) as running
left join lateral (
    select e.detail_json ->> 'reason' as reason, e.ts
    from ledger.job_event as e
    where e.job_id = job.id and e.seq = job.revision
) as last on true;
