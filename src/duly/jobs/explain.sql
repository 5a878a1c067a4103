-- Why a job does not run: everything that could be the reason, in one statement.

-- name: find_situation
-- One statement, one snapshot: all parts of the result are consistent. A job of another org is not visible. Counts
-- include what the role may see: as the worker's role the jobs of all orgs, as the API's those of this one.
--
-- A worker is alive when it was seen recently and is neither stopping nor stopped. It registers each type that it
-- handles as a work type, ledger:<queue>/<type>; names may contain slashes, so `handled_type` has all possible splits.
-- Several processes may have one worker id: `handler` adds them up. `waiting_line` counts due jobs that go first, in
-- the order of ledger.claim: keep the two alike. `would_be_claimed` asks the claim itself, for roles that may claim.
with job as materialized (
    select *
    from ledger.job
    where org_id = %(org)s and id = %(job_id)s
),
present_worker as materialized (
    select w.worker_id, w.slots, w.work_types, w.stopping_at
    from duly.workers as w
    where w.stopped_at is null
        and abs(extract(epoch from duly.now() - w.seen_at)) <= %(alive_seconds)s
),
live_worker as (
    select p.worker_id, p.slots, p.work_types from present_worker as p where p.stopping_at is null
),
leased as (
    select substring(j.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$') as worker_id, count(*) as jobs
    from ledger.job as j
    where j.status = 'running' and j.lease_expires_at >= duly.now()
    group by 1
),
handler_process as (
    select w.worker_id, w.work_types, coalesce((w.slots ->> 'ledger')::bigint, 0) as slots
    from job
    join live_worker as w on 'ledger:' || job.queue || '/' || job.type = any (w.work_types)
),
handler as (
    select h.worker_id, sum(h.slots)::bigint as slots, coalesce(max(leased.jobs), 0) as busy
    from handler_process as h
    left join leased using (worker_id)
    group by h.worker_id
),
handled_type as (
    select h.work_types, h.is_free, left(t.name, p.position - 1) as queue, substr(t.name, p.position + 1) as type
    from (
        select handler_process.work_types, bool_or(handler.busy < handler.slots) as is_free
        from handler_process
        join handler using (worker_id)
        group by handler_process.work_types
    ) as h
    cross join lateral (
        select substr(u.work_type, length('ledger:') + 1) as name
        from unnest(h.work_types) as u (work_type)
        where starts_with(u.work_type, 'ledger:')
    ) as t
    cross join lateral generate_series(1, length(t.name)) as p (position)
    where substr(t.name, p.position, 1) = '/'
),
waiting_line as (
    select t.work_types, bool_or(t.is_free) as is_free, least(sum(earlier.jobs), %(ahead_limit)s)::bigint as ahead
    from job
    cross join handled_type as t
    cross join lateral (
        select
            min(j.run_at) filter (where (j.queue, j.type) = (t.queue, t.type)) as of_handled_type,
            min(j.run_at) filter (where (j.queue, j.type) = (job.queue, job.type)) as of_this_type
        from (
            (
                select j.queue, j.type, j.run_at
                from ledger.job as j
                where j.status = 'queued' and j.queue = t.queue and j.type = t.type and j.priority = job.priority
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
    ) as oldest_run_at
    cross join lateral (
        select count(*) as jobs
        from (
            select
            from ledger.job as j
            where job.status = 'queued' and j.status = 'queued' and j.queue = t.queue and j.type = t.type
                and j.run_at <= duly.now()
                and (j.priority > job.priority or (j.priority = job.priority and case
                    when (t.queue, t.type) = (job.queue, job.type) then (j.run_at, j.id) < (job.run_at, job.id)
                    else (oldest_run_at.of_handled_type, t.queue, t.type)
                        < (oldest_run_at.of_this_type, job.queue, job.type::text)
                end))
            limit %(ahead_limit)s
        ) as bounded
    ) as earlier
    where not exists (
        select
        from ledger.job_limit as l
        where l.queue in (t.queue, '*') and l.type in (t.type, '*') and (l.paused_at is not null or l.max_running <= (
            select count(*) from ledger.job as j where j.status = 'running' and j.type = t.type
        ))
    )
    group by t.work_types
),
pause as (
    select l.queue, l.type, l.paused_at, l.paused_by
    from job
    join ledger.job_limit as l on l.queue in (job.queue, '*') and l.type in (job.type, '*')
    where l.paused_at is not null
)
select
    job.id, job.org_id, job.status, job.queue, job.type, job.priority, job.starts, job.max_attempts, job.snoozes,
    job.run_at, job.lease_owner, job.lease_expires_at, job.cancel_requested_at, job.stage, job.progress,
    job.finished_at, job.last_error_code, job.last_error_message,
    duly.now() as observed_at,
    last.reason as last_event_reason,
    last.ts as last_event_at,
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
        where job.cancel_requested_at is not null and e.job_id = job.id
            and e.detail_json ->> 'reason' = 'cancel_requested'
        order by e.seq desc
        limit 1
    ) as cancel_requested_by,
    (
        select max(w.seen_at)
        from duly.workers as w
        where w.worker_id = substring(job.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$')
        having not bool_or(w.worker_id in (select p.worker_id from present_worker as p))
    ) as holder_last_seen_at,
    array(select p.queue from pause as p order by p.queue, p.type) as paused_queues,
    array(select p.type from pause as p order by p.queue, p.type) as paused_types,
    array(select p.paused_at from pause as p order by p.queue, p.type) as paused_ats,
    array(select p.paused_by from pause as p order by p.queue, p.type) as paused_bys,
    (select l.max_running from ledger.job_limit as l where l.queue = '*' and l.type = job.type) as concurrency,
    running.jobs as running_jobs,
    running.expired as expired_leases,
    (select count(*) from live_worker) as live_workers,
    array(
        select distinct p.worker_id from present_worker as p where p.stopping_at is not null order by p.worker_id
    ) as stopping_workers,
    (select count(*) from live_worker as w where 'ledger' = any (w.work_types)) as sweepers,
    array(select h.worker_id from handler as h order by h.busy >= h.slots, h.worker_id) as capable_workers,
    (select coalesce(sum(h.slots), 0)::bigint from handler as h) as slots,
    (select coalesce(sum(h.busy), 0)::bigint from handler as h) as busy_slots,
    (select count(*) from handler as h where h.busy < h.slots) as free_capable_workers,
    coalesce((select l.ahead from waiting_line as l order by l.is_free desc, l.ahead limit 1), 0) as jobs_ahead,
    (job.status = 'queued' or (job.status = 'running' and job.lease_expires_at < duly.now()))
        and ledger.is_locked(job.org_id, job.id) as is_locked,
    case
        when job.status = 'queued' and job.run_at <= duly.now() and has_any_column_privilege('ledger.job', 'update')
        then exists (
            select
            from handled_type as t
            where t.is_free
            group by t.work_types
            having ledger.find_next(array_agg(t.queue), array_agg(t.type)) = job.id
        )
    end as would_be_claimed
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
