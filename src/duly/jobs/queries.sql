-- Jobs: claim, settle and release, control, read.
--
-- Settling works on batches and is fenced by the owner, in the form of lease/lease.sql: each row is looked up by its key,
-- in the order of the keys; lease_expires_at, which no other index has, tells that it is leased. A job with a cancel
-- request never goes back to the queue: it is canceled instead.

-- Claim -----------------------------------------------------------------------------------------------------------------

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

-- Settle and release ----------------------------------------------------------------------------------------------------

-- name: settle_done
-- The jobs succeeded and their results are stored. A cancel request that came meanwhile was too late.
select done as key from ledger.done(%(keys)s::uuid[], %(owners)s::text[], %(results)s::jsonb[]);

-- name: complete
-- The same in a handler's own transaction, which acts as the API's role: this statement acts as the worker's.
select ledger.complete(%(key)s, %(owner)s, %(result)s::jsonb, %(worker)s);

-- name: requeue
-- Unfinished jobs go back to the queue and their start is not counted. Without seconds a job is released, due as before;
-- with seconds its handler returned Later, and a snooze is counted: a job with too many is left alone here, and fails.
with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(seconds)s::float8[]))
        as g (key, owner, seconds)
    order by g.key
),
ours as (
    select given.*, held.stop
    from given
    cross join lateral (
        select t.cancel_requested_at is not null as stop
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.lease_expires_at is not null
            and (given.seconds is null or t.snoozes < %(max_snoozes)s)
        for no key update
    ) as held
),
settled as (
    update ledger.job as t
    set
        status = case when ours.stop then 'canceled' else 'queued' end::ledger.job_status,
        settled_by = ours.owner, lease_owner = null, lease_expires_at = null,
        starts = case when ours.stop then t.starts else t.starts - 1 end,
        snoozes = t.snoozes + case when ours.seconds is null then 0 else 1 end,
        run_at = coalesce(duly.clock() + make_interval(secs => ours.seconds), t.run_at),
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', ours.owner, 'reason', case when ours.seconds is null then 'handed_back' else 'later' end,
            'seconds', ours.seconds
        ))
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
    select given.*, held.stop
    from given
    cross join lateral (
        select t.cancel_requested_at is not null as stop
        from ledger.job as t
        where t.id = given.key and t.lease_owner = given.owner and t.lease_expires_at is not null
        for no key update
    ) as held
),
settled as (
    update ledger.job as t
    set
        status = case when ours.stop then 'canceled' else 'failed' end::ledger.job_status,
        settled_by = ours.owner, lease_owner = case when not ours.stop then ours.owner end, lease_expires_at = null,
        last_error_code = ours.code, last_error_message = left(ours.message, 2048),
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', ours.owner, 'code', ours.code, 'message', left(ours.message, 2048), 'traceback', ours.traceback
        ))
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;

-- name: mark_expired
-- First transition of jobs with expired leases: to failed, or to canceled after a cancel request. Locked rows are
-- skipped. settled_by is not set: an owner that comes back finds its lease lost.
select key, owner, type, queue, attempt, max_attempts from ledger.mark_expired(%(keys)s::uuid[], %(limit)s);

-- name: retry_or_dead_letter
-- Second transition of a failure, fenced by the owner that the first one kept: to queued after a delay, or, when it was
-- given up or max_attempts is reached, to dead_letter. The delay is that of backoff.py.
with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[])) as g (key, owner)
    order by g.key
),
ours as (
    select given.*, held.*
    from given
    cross join lateral (
        select
            %(give_up)s::boolean or t.starts >= t.max_attempts as dead,
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
    ) as held
),
settled as (
    update ledger.job as t
    set
        status = case when ours.dead then 'dead_letter' else 'queued' end::ledger.job_status,
        lease_owner = null,
        run_at = case when ours.dead then t.run_at else duly.clock() + make_interval(secs => ours.wait_seconds) end,
        event_detail = case
            when %(give_up)s::boolean then jsonb_build_object('reason', 'gave_up')
            when ours.dead then jsonb_build_object('reason', 'exhausted', 'starts', t.starts)
            else jsonb_build_object('reason', 'retry', 'wait_seconds', round(ours.wait_seconds::numeric, 3))
        end
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;

-- Control ---------------------------------------------------------------------------------------------------------------

-- name: cancel_job
-- A queued job is canceled at once. A running one gets a cancel request and keeps its lease until it is settled; with
-- `now` it is canceled at once, and its worker finds the lease lost. release_key frees its idempotency key.
select ledger.cancel(%(org)s, %(job_id)s, %(actor)s, now => %(now)s, release_key => %(release_key)s);

-- name: requeue_dead_letter
-- Redrive one: a dead letter goes back to the queue with all its attempts; the event records who did it.
select ledger.retry(%(org)s, %(job_id)s, %(actor)s);

-- name: count_dead_letters
-- How many dead letters a redrive with this filter would put back in the queue.
select count(*)
from ledger.job
where org_id = %(org)s and status = 'dead_letter'
    and (%(type)s::text is null or type = %(type)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(code)s::text is null or last_error_code = %(code)s::text)
    and (%(finished_from)s::timestamptz is null or finished_at >= %(finished_from)s::timestamptz)
    and (%(finished_before)s::timestamptz is null or finished_at < %(finished_before)s::timestamptz);

-- name: requeue_dead_letters
-- Redrive many: matching dead letters go back to the queue, oldest first, up to the limit; locked rows are skipped.
select redrive as id from ledger.redrive(
    %(org)s, %(limit)s, %(actor)s, type => %(type)s, queue => %(queue)s, code => %(code)s,
    finished_from => %(finished_from)s, finished_before => %(finished_before)s
);

-- name: wake_workers
-- A hint that a job is due; workers also poll.
select ledger.wake();

-- name: purge
-- Finished jobs are deleted with their events once their retention is over.
select ledger.retain(%(limit)s);

-- name: erase_job
-- One finished job is deleted early, with its events; only the owner of the tables may, and the audit log records it.
select ledger.erase(%(org)s, %(job_id)s, %(actor)s, %(reason)s);

-- name: set_tenant
-- Until the end of the transaction, only this org's jobs are visible.
select set_config('app.current_org_id', %(org)s::text, true);

-- Read ------------------------------------------------------------------------------------------------------------------

-- name: list_job_ids
-- The jobs of an org whose ids have a prefix, as a range of the primary key.
select id, concat_ws('  ', type, status) as label
from ledger.job
where org_id = %(org)s and id between %(first)s and %(last)s
order by id
limit %(limit)s;

-- name: find_job
-- A job of another org is not visible.
select
    id, org_id, type, queue, status, attempt, max_attempts, backoff_policy, backoff_base_seconds, backoff_cap_seconds,
    priority, idempotency_key, requested_by, payload, result, run_at, timeout_seconds, starts, snoozes, lease_owner,
    lease_expires_at, cancel_requested_at, stage, progress, created_at, updated_at, started_at, finished_at,
    last_error_code, last_error_message, retain_until, revision
from ledger.job
where org_id = %(org)s and id = %(job_id)s;

-- name: list_jobs
-- Newest first, after a cursor; without payloads and results, each of which may be a mebibyte.
select
    id, org_id, type, queue, status, attempt, max_attempts, backoff_policy, backoff_base_seconds, backoff_cap_seconds,
    priority, idempotency_key, requested_by, run_at, timeout_seconds, starts, snoozes, lease_owner,
    lease_expires_at, cancel_requested_at, stage, progress, created_at, updated_at, started_at, finished_at,
    last_error_code, last_error_message, retain_until, revision
from ledger.job
where org_id = %(org)s
    and (%(status)s::ledger.job_status is null or status = %(status)s::ledger.job_status)
    and (%(type)s::text is null or type = %(type)s::text)
    and (%(queue)s::text is null or queue = %(queue)s::text)
    and (%(finished_from)s::timestamptz is null or finished_at >= %(finished_from)s::timestamptz)
    and (%(finished_before)s::timestamptz is null or finished_at < %(finished_before)s::timestamptz)
    and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
limit %(limit)s;

-- name: find_traceback
-- The traceback of a job's last failure; null when that one has none, even if earlier ones do.
select detail_json ->> 'traceback'
from ledger.job_event
where org_id = %(org)s and job_id = %(job_id)s and detail_json ? 'code'
order by seq desc
limit 1;

-- name: list_events
-- The events of a job, in order, after a cursor.
select id, job_id, seq, ts, prev_status, next_status, detail_json
from ledger.job_event
where org_id = %(org)s and job_id = %(job_id)s and seq > %(after_seq)s
order by seq
limit %(limit)s;
