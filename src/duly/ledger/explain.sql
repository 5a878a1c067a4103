-- Why a job does not run: everything that could be the reason, in one look.

-- name: find_situation
-- One statement, one snapshot: nothing moves between two parts of the answer. Another org's job is not there. What is
-- counted is what the role may see: as a worker the jobs of every org, as the API those of this one. A worker is alive
-- when it was seen lately and did not say goodbye, and lists each kind that it handles as ledger:<queue>/<type>.
with job as materialized (
    select *
    from ledger.job
    where org_id = %(org)s and id = %(key)s
),
alive as (
    select w.worker_id, w.slots, w.kinds
    from duly.workers as w
    where w.stopped_at is null and w.seen_at >= duly.now() - make_interval(secs => %(alive_seconds)s)
),
handler as (
    select a.worker_id, (a.slots ->> 'ledger')::bigint as slots
    from job
    join alive as a on 'ledger:' || job.queue || '/' || job.type = any (a.kinds)
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
    duly.now() as looked_at,
    (
        select e.detail_json ->> 'reason'
        from ledger.job_event as e
        where e.job_id = job.id and e.seq = job.revision
    ) as last_reason,
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
    array(select p.queue from pause as p order by p.queue, p.type) as paused_queues,
    array(select p.type from pause as p order by p.queue, p.type) as paused_types,
    array(select p.paused_at from pause as p order by p.queue, p.type) as paused_ats,
    array(select p.paused_by from pause as p order by p.queue, p.type) as paused_bys,
    (select l.most from ledger.job_limit as l where l.queue = '*' and l.type = job.type) as most,
    (select count(*) from ledger.job as j where j.status = 'running' and j.type = job.type) as running,
    (select count(*) from alive) as workers,
    (select count(*) from alive as a where 'ledger' = any (a.kinds)) as sweepers,
    array(select distinct h.worker_id from handler as h order by h.worker_id) as handlers,
    (select coalesce(sum(h.slots), 0)::bigint from handler as h) as slots,
    (
        select count(*)
        from ledger.job as j
        where j.status = 'running' and j.lease_expires_at >= duly.now()
            and substring(j.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$') in (select h.worker_id from handler as h)
    ) as busy,
    (
        select count(*)
        from (
            select
            from ledger.job as j
            where j.status = 'queued' and j.queue = job.queue and j.type = job.type and j.run_at <= duly.now()
                and (j.priority > job.priority
                    or (j.priority = job.priority and (j.run_at, j.id) < (job.run_at, job.id)))
            limit %(most_counted)s
        ) as first
    ) as ahead,
    job.status = 'queued' and not ledger.is_locked(job.org_id, job.id) as is_free
from job;
