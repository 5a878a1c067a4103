-- The lease on jobs: claim, renew, settle, release and what brings back expired rows.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes. What decides among
-- orgs, types and limits, and what runs for every single job, are functions of the schema `ledger`: \sf ledger.claim
-- shows one in psql.
--
-- A job with a cancel request never goes back to the queue: it is canceled instead. A failure is two statements in one
-- transaction: the first marks the job as failed, the second, fenced by the same owner, puts it back in the queue or
-- makes it a dead letter.
--
-- Rows are settled and released in the order of their keys, so that two batches never deadlock. Each row is looked up
-- by its key in a lateral join: the planner would choose a plain join by statistics from a time when few rows had an
-- owner. In a settle, `select %(keys)s` hides the length of the arrays from the planner; for a long one it would scan
-- the table. Where a settle tests lease_expires_at and not status, that is for the plan too: no index has that column,
-- so only the primary key fits.

-- name: claim
-- Due jobs of the handled types get a new lease owner. Each claim counts as a start, so a crash counts.
select
    id, org_id, type, queue, priority, payload, attempt, max_attempts, starts, timeout_seconds, idempotency_key,
    snoozes, requested_by, created_at, run_at, started_at
from ledger.claim(
    queues => %(queues)s::text[], types => %(types)s::text[], owner => %(owner)s, lease_seconds => %(lease_seconds)s,
    max_jobs => %(limit)s, floor_priorities => %(floor_priorities)s::integer[],
    floor_run_ats => %(floor_run_ats)s::timestamptz[], floor_ids => %(floor_ids)s::uuid[]
);

-- name: find_expired
-- Rows whose lease has expired, except these, without locking: used when one of them cannot be swept or claimed.
select id as key
from ledger.job
where status = 'running' and lease_expires_at < duly.now()
    and not (id = any (%(excluded_keys)s::uuid[]))
order by id
limit %(limit)s;

-- name: mark_expired
-- First transition of jobs with expired leases: to failed, or to canceled after a cancel request. Locked rows are
-- skipped. settled_by is not set: an owner that comes back finds its lease lost.
select job as key, owner, type, queue, attempt, max_attempts from ledger.mark_expired(%(keys)s::uuid[], %(limit)s);

-- name: renew
-- Every lease that is still ours is extended, and nothing here waits for a lock. A locked row is skipped and read
-- back: if it is still ours, our own transaction has locked it and the next heartbeat renews it; otherwise it is lost.
-- A heartbeat does not extend an expired lease. Its owner may still settle it, until a sweep takes it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.id
    from given
    cross join lateral (
        select t.id
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'running'
            and t.lease_expires_at >= duly.clock()
        for no key update skip locked
    ) as ours
),
renewed as (
    update ledger.job as t
    set lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t.id = any (array(select id from free))
    returning t.id as key
)
select
    given.key,
    given.owner,
    given.key in (select key from renewed) as renewed,
    now.ours is true as ours,
    now.cancelled
from given
left join lateral (
    select
        t.status = 'running' and t.lease_owner = given.owner and t.lease_expires_at >= duly.clock() as ours,
        t.cancel_requested_at is not null as cancelled
    from ledger.job as t
    where t.id = given.key
    limit 1
) as now on true;

-- name: fence
-- A handler's own transaction: locks the job, so that it cannot be claimed before this ends, and sets its org.
select ledger.fence(%(key)s, %(owner)s, %(role)s);

-- name: record_progress
-- The row always has the latest progress; the log gets at most one event per second, and the event that ends the run
-- has the last.
update ledger.job as t
set
    stage = coalesce(%(stage)s::text, t.stage),
    progress = coalesce(%(progress)s::bigint, t.progress),
    progressed_at = case
        when t.progressed_at between duly.clock() - interval '1 second' and duly.clock() then t.progressed_at
        else duly.clock()
    end,
    event_detail = jsonb_strip_nulls(jsonb_build_object(
        'stage', coalesce(%(stage)s::text, t.stage), 'progress', coalesce(%(progress)s::bigint, t.progress)
    ))
where t.id = %(key)s and t.lease_owner = %(owner)s and t.status = 'running'
returning t.id;

-- name: settle_done
-- The jobs succeeded and their results are stored. A cancel request that came meanwhile was too late.
select done as key from ledger.done(%(keys)s::uuid[], %(owners)s::text[], %(results)s::jsonb[]);

-- name: complete
-- The same in a handler's own transaction, which acts as the API's role: this statement acts as the worker's.
select ledger.complete(%(key)s, %(owner)s, %(result)s::jsonb, %(worker)s);

-- name: settle_cancelled
-- The handlers stopped after a cancel request.
with given as (
    select *
    from unnest(
        (select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(details)b::jsonb[])
    ) as g (key, owner, details)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'running'
        for no key update
    ) as locked
),
settled as (
    update ledger.job as t
    set
        status = 'canceled',
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        event_detail = ours.details
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;

-- name: mark_failed
-- First transition of a failure: to failed. The job keeps its owner, which fences the second one in this transaction.
with given as (
    select *
    from unnest(
        (select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(codes)s::text[]),
        (select %(messages)s::text[]), (select %(tracebacks)s::text[])
    ) as g (key, owner, code, message, traceback)
    order by g.key
),
ours as (
    select given.*, locked.is_cancel_requested
    from given
    cross join lateral (
        select t.cancel_requested_at is not null as is_cancel_requested
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.lease_expires_at is not null
        for no key update
    ) as locked
),
settled as (
    update ledger.job as t
    set
        status = case when ours.is_cancel_requested then 'canceled' else 'failed' end::ledger.job_status,
        settled_by = ours.owner, lease_owner = case when not ours.is_cancel_requested then ours.owner end,
        lease_expires_at = null,
        last_error_code = ours.code, last_error_message = left(ours.message, 2048),
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', ours.owner, 'code', ours.code, 'message', left(ours.message, 2048), 'traceback', ours.traceback
        ))
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;

-- name: retry_or_dead_letter
-- Second transition of a failure, fenced by the owner that the first one kept: to queued after a delay, or, when it
-- was given up or max_attempts is reached, to dead_letter. The delay is that of backoff.py: its jitter comes after the
-- cap, so that the longest wait is 1.2 times the cap.
with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[])) as g (key, owner)
    order by g.key
),
ours as (
    select given.*, locked.*
    from given
    cross join lateral (
        select
            %(give_up)s::boolean or t.starts >= t.max_attempts as is_dead,
            case t.backoff_policy
                when 'none' then 0
                when 'fixed' then t.backoff_base_seconds
                when 'exp' then (0.8 + 0.4 * random()) * least(
                    t.backoff_cap_seconds, t.backoff_base_seconds * power(2::float8, least(t.attempt, 60))
                )
            end as wait_seconds
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'failed'
        for no key update
    ) as locked
),
settled as (
    update ledger.job as t
    set
        status = case when ours.is_dead then 'dead_letter' else 'queued' end::ledger.job_status,
        lease_owner = null,
        run_at = case when ours.is_dead then t.run_at else duly.clock() + make_interval(secs => ours.wait_seconds) end,
        event_detail = case
            when %(give_up)s::boolean then jsonb_build_object('reason', 'gave_up')
            when ours.is_dead then jsonb_build_object('reason', 'exhausted', 'starts', t.starts)
            else jsonb_build_object('reason', 'retry', 'wait_seconds', round(ours.wait_seconds::numeric, 3))
        end
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;

-- name: find_settled
-- A settle that is repeated after its answer was lost finds nothing to do, and is no loss: the rows say that we
-- settled them. A statement of its own, because it must see what was committed while the settle waited.
select given.key
from unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from ledger.job as t where t.id = given.key and t.settled_by = given.owner limit 1
) as ours;

-- name: release
-- Unfinished jobs go back to the queue and their start is not counted. Without seconds a job is released, due as
-- before; with seconds its handler returned Later, and a snooze is counted: a job with too many is left alone here,
-- and fails.
with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(seconds)s::float8[]))
        as g (key, owner, seconds)
    order by g.key
),
ours as (
    select given.*, locked.is_cancel_requested
    from given
    cross join lateral (
        select t.cancel_requested_at is not null as is_cancel_requested
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.lease_expires_at is not null
            and (given.seconds is null or t.snoozes < %(max_snoozes)s)
        for no key update
    ) as locked
),
settled as (
    update ledger.job as t
    set
        status = case when ours.is_cancel_requested then 'canceled' else 'queued' end::ledger.job_status,
        settled_by = ours.owner, lease_owner = null, lease_expires_at = null,
        starts = case when ours.is_cancel_requested then t.starts else t.starts - 1 end,
        snoozes = t.snoozes + case when ours.seconds is null then 0 else 1 end,
        run_at = coalesce(duly.clock() + make_interval(secs => ours.seconds), t.run_at),
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', ours.owner, 'reason', case when ours.seconds is null then 'released' else 'later' end,
            'seconds', ours.seconds
        ))
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;
