-- Invariants of jobs; verify/invariants.sql says what an invariant is, and why subqueries end with `offset 0`.

-- name: job_events_have_no_gap_and_are_linked
-- The events of a job are numbered 1, 2, 3, and each begins in the state in which the previous one ended.
select format('job %%s: event %%s begins at %%s; before it came %%s, which ended at %%s', job_id, seq,
    coalesce(prev_status, 'nothing'), coalesce(before, 0), coalesce(ended, 'nothing')) as offender
from (
    select job_id, seq, prev_status, lag(seq) over log as before, lag(next_status) over log as ended
    from ledger.job_event
    window log as (partition by job_id order by seq)
) as numbered
where seq <> coalesce(before, 0) + 1 or prev_status is distinct from ended
order by job_id, seq
limit %(limit)s;

-- name: jobs_match_the_end_of_their_log
-- Every job has events, and the last one has its status and revision.
select offender
from (
    select format('job %%s is %%s at revision %%s, its log ends at %%s with event %%s', j.id, j.status, j.revision,
        coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0)) as offender
    from ledger.job as j
    left join (
        select distinct on (e.job_id) e.job_id, e.seq, e.next_status
        from ledger.job_event as e
        order by e.job_id desc, e.seq desc
    ) as newest on newest.job_id = j.id
    where (newest.next_status, newest.seq) is distinct from (j.status::text, j.revision)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: jobs_are_leased_exactly_while_running
-- A job has a lease owner and a lease expiry while it is running; a failed one keeps its owner for the transition that
-- follows; no other has either. The owner is the one in the event of its last start.
select format('job %%s is %%s, held by %%s until %%s', id, status, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from ledger.job
where (lease_owner is not null) <> (status in ('running', 'failed'))
    or (lease_expires_at is not null) <> (status = 'running')
union all
select format('job %%s is held by %%s, and was started by %%s', j.id, j.lease_owner, claim.actor)
from ledger.job as j
cross join lateral (
    select e.detail_json ->> 'actor' as actor
    from ledger.job_event as e
    where e.job_id = j.id and e.prev_status = 'queued' and e.next_status = 'running'
    order by e.seq desc
    limit 1
) as claim
where j.status = 'running' and claim.actor <> j.lease_owner
order by 1
limit %(limit)s;

-- name: expired_leases_of_jobs_are_recovered
-- While a worker for jobs is alive, an expired lease of a job is recovered within 15 minutes.
select format('job %%s was held by %%s until %%s, and was not recovered', j.id, j.lease_owner, j.lease_expires_at)
    as offender
from ledger.job as j
where j.status = 'running' and j.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'ledger' = any (w.work_types) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by j.id
limit %(limit)s;

-- name: job_events_are_legal
-- Every event is an edge of the state machine; progress, a request to cancel and the release of a key keep the state.
select format(
    'job %%s: event %%s goes from %%s to %%s',
    e.job_id, e.seq, coalesce(e.prev_status, 'nothing'), e.next_status
) as offender
from ledger.job_event as e
where (coalesce(e.prev_status, ''), e.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'job'
)
order by e.job_id, e.seq
limit %(limit)s;

-- name: starts_of_jobs_match_their_log
-- Every start is counted, also one that ended in a crash, and none is above the limit. A release and a snooze subtract
-- their start; a redrive resets the count.
select offender
from (
    select format('job %%s counts %%s starts of %%s, its log tells of %%s', j.id, j.starts, j.max_attempts,
        coalesce(logged.starts, 0)) as offender
    from ledger.job as j
    left join (
        select e.job_id,
            count(*) filter (where e.prev_status = 'queued')
            - count(*) filter (where e.prev_status = 'running') as starts
        from ledger.job_event as e
        left join (
            select r.job_id, max(r.seq) as seq
            from ledger.job_event as r
            where r.prev_status = 'dead_letter'
            group by r.job_id
        ) as redriven on redriven.job_id = e.job_id
        where (e.prev_status, e.next_status) in (('queued', 'running'), ('running', 'queued'))
            and e.seq > coalesce(redriven.seq, 0)
        group by e.job_id
    ) as logged on logged.job_id = j.id
    where j.starts <> coalesce(logged.starts, 0) or j.starts > j.max_attempts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: jobs_are_finished_by_their_lease_owner
-- A run is ended by the owner that claimed the job, whether it is done, failed, canceled or released; for an expired
-- lease the event of the sweep names that owner. A run that was canceled at once is not checked, nor one whose event
-- has no actor, unless the job is done.
select offender
from (
    select format('job %%s is %%s, settled by %%s and in the log by %%s, last claimed by %%s', j.id, j.status,
        coalesce(j.settled_by, 'none'), coalesce(last.ended_by, 'an unknown owner'), coalesce(last.claimed_by, 'none'))
        as offender
    from ledger.job as j
    join (
        select e.job_id, e.prev_status, e.next_status, e.detail_json ->> 'reason' as reason,
            e.detail_json ->> 'holder' as swept_from,
            coalesce(e.detail_json ->> 'holder', e.detail_json ->> 'actor') as ended_by,
            lag(e.detail_json ->> 'actor') over log as claimed_by, lead(e.seq) over log is null as is_last
        from ledger.job_event as e
        where (e.prev_status = 'running') <> (e.next_status = 'running')
        window log as (partition by e.job_id order by e.seq)
    ) as last on last.job_id = j.id and last.is_last and last.prev_status = 'running'
    where last.reason is distinct from 'cancel_requested' and (
        last.ended_by <> last.claimed_by
        or (j.settled_by is distinct from last.claimed_by and last.swept_from is null
            and (last.ended_by is not null or last.next_status = 'succeeded'))
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: no_job_stays_failed
-- A failure is two transitions in one transaction: no other transaction ever sees a job in between.
select format('job %%s is failed, held by %%s', id, lease_owner) as offender
from ledger.job
where status = 'failed'
order by id
limit %(limit)s;

-- name: keys_identify_one_job
-- An org and an idempotency key identify one job.
select format('the key %%s of org %%s stands for %%s jobs', idempotency_key, org_id, count(*)) as offender
from ledger.job
where idempotency_key is not null
group by org_id, idempotency_key
having count(*) > 1
order by 1
limit %(limit)s;

-- name: job_events_are_of_their_jobs_org
-- The events of a job have its org, so that a job and its log are visible to the same callers.
select offender
from (
    select format('job %%s is of org %%s, its event %%s of org %%s', j.id, j.org_id, e.seq, e.org_id) as offender
    from ledger.job_event e
    join ledger.job j on j.id = e.job_id
    where e.org_id <> j.org_id
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: job_events_have_their_job
-- A job is deleted with its full log: no event is left.
select offender
from (
    select format('event %%s is of job %%s, which is not there', e.seq, e.job_id) as offender
    from ledger.job_event as e
    left join ledger.job as j on j.id = e.job_id
    where j.id is null
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: times_of_jobs_match_their_log
-- The first start and the end of a job are at the time of their events: both are written by one statement, with a
-- tolerance of five minutes; a key that is released later does not end the job again. Jobs that were migrated from
-- another table are not checked.
select offender
from (
    select format('job %%s was started at %%s and finished at %%s, its log tells of %%s and %%s', j.id,
        coalesce(j.started_at::text, 'no time'), coalesce(j.finished_at::text, 'no time'),
        coalesce(first.ts::text, 'no time'), coalesce(ended.ts::text, 'no time')) as offender
    from ledger.job as j
    left join (
        select e.job_id, min(e.ts) as ts
        from ledger.job_event as e
        where e.prev_status = 'queued' and e.next_status = 'running'
        group by e.job_id
    ) as first on first.job_id = j.id
    left join (
        select distinct on (e.job_id) e.job_id, e.ts
        from ledger.job_event as e
        where e.next_status in ('succeeded', 'canceled', 'dead_letter') and e.prev_status is distinct from e.next_status
        order by e.job_id, e.seq desc
    ) as ended on ended.job_id = j.id
    where j.type <> 'carried_over' and (
        abs(extract(epoch from first.ts - j.started_at)) > 300
        or abs(extract(epoch from ended.ts - j.finished_at)) > 300
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: keys_match_their_request
-- The digest of an idempotency key is that of the job's request. The requested time or delay is part of it and is not
-- stored, so only jobs that are still due at the time of their creation are checked.
select offender
from (
    select format(
        'job %%s of org %%s: its key %%s stands for another request',
        j.id, j.org_id, j.idempotency_key
    ) as offender
    from ledger.job as j
    where j.idempotency_key is not null and j.run_at = j.created_at and j.request_digest not in (
        ledger.request_digest(j.type, j.queue, j.payload, null, null),
        ledger.request_digest(j.type, j.queue, j.payload, j.run_at, null)
    )
    offset 0
) as found
order by offender
limit %(limit)s;
