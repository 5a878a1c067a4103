-- Jobs: control, read. The statements of their lease are in lease.sql.

-- Control -------------------------------------------------------------------------------------------------------------

-- name: cancel_job
-- A queued job is canceled at once. A running one gets a cancel request and keeps its lease until it is settled; with
-- `now` it is canceled at once, and its worker finds the lease lost. release_key frees its idempotency key.
select ledger.cancel(%(org)s, %(job_id)s, %(actor)s, now => %(now)s, release_key => %(release_key)s);

-- name: redrive
-- A dead letter goes back to the queue, its attempts counted from zero; the event records who did it.
select ledger.redrive(%(org)s, %(job_id)s, %(actor)s);

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

-- name: redrive_many
-- Matching dead letters go back to the queue, oldest first, up to the limit; locked rows are skipped.
select redrive_many as id from ledger.redrive_many(
    %(org)s, %(limit)s, %(actor)s, type => %(type)s, queue => %(queue)s, code => %(code)s,
    finished_from => %(finished_from)s, finished_before => %(finished_before)s
);

-- name: wake_workers
-- A hint that a job is due, which the caller that made it due sends; workers also poll.
select ledger.wake();

-- name: purge
-- Finished jobs are deleted with their events once their retention is over.
select ledger.purge(%(limit)s);

-- name: erase_job
-- One finished job is deleted early, with its events; only the owner of the tables may, and the audit log records it.
select ledger.erase(%(org)s, %(job_id)s, %(actor)s, %(reason)s);

-- name: set_org
-- Until the end of the transaction, only this org's jobs are visible.
select set_config('app.current_org_id', %(org)s::text, true);

-- Read ----------------------------------------------------------------------------------------------------------------

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
