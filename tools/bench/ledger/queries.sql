-- What the measurements ask of the server and of each side's tables. The sides' own work goes through their own code.

-- name: unfinished_of_duly
-- Is anything of ours still to be done, or being done? Jobs that are due later are not.
select exists (
    select from ledger.job
    where status = 'queued' and queue = 'default' and type = 'noop' and priority = 0 and run_at <= clock_timestamp()
) or exists (select from ledger.job where status = 'running');

-- name: unfinished_of_pgqueuer
-- What is done has left this table.
select exists (select from pgqueuer);

-- name: unfinished_of_procrastinate
-- What is done stays, under another status.
select exists (select from procrastinate_jobs where status = 'todo')
    or exists (select from procrastinate_jobs where status = 'doing');

-- name: hold_snapshot
-- From now on this transaction sees the database as it is, and nothing that dies later can be cleared away.
select count(*) from ledger.job_limit;

-- name: silence_triggers
-- Rows that were there before are written as a restore writes them: without guards, logs and wake-ups.
set session_replication_role = replica;

-- name: add_backlog
-- Jobs that wait and are not ours to take: a third of another type in our queue, a third in another queue, and a third of
-- our own kind that are due in a year.
insert into ledger.job (id, org_id, type, queue, run_at, payload, revision)
select
    gen_random_uuid(), '00000000-0000-0000-0000-000000000002', case when n %% 3 = 0 then 'other' else 'noop' end,
    case when n %% 3 = 1 then 'elsewhere' else 'default' end,
    clock_timestamp() + case when n %% 3 = 2 then interval '1 year' else interval '0' end, '{"n": 0}', 1
from generate_series(1, %(jobs)s::bigint) as n;

-- name: add_finished
-- Jobs of our own kind that have been done within the last day.
insert into ledger.job (
    id, org_id, type, queue, status, starts, run_at, created_at, updated_at, started_at, finished_at, retain_until, payload,
    settled_by, revision, moved_from
)
select
    gen_random_uuid(), '00000000-0000-0000-0000-000000000001', 'noop', 'default', 'succeeded', 1, at, at, at, at, at,
    at + interval '30 days', '{"n": 0}', 'worker-1/bench', 3, 'running'
from (
    select clock_timestamp() - interval '1 day' * n / %(jobs)s::bigint as at
    from generate_series(1, %(jobs)s::bigint) as n
) as done;

-- name: add_events
-- The log of what is there: one line for what waits, three for what is done.
insert into ledger.job_event (job_id, org_id, ts, seq, prev_status, next_status, detail_json)
select
    j.id, j.org_id, j.updated_at, seq, case seq when 2 then 'queued' when 3 then 'running' end,
    (array['queued', 'running', 'succeeded'])[seq], case seq when 2 then '{"actor": "worker-1/bench", "start": 1}'::jsonb end
from ledger.job j
cross join lateral generate_series(1, j.revision) as seq;

-- name: vacuum
-- As a table that has stood for a while: its statistics are known and its pages are marked.
vacuum (analyze) ledger.job, ledger.job_event;
