-- What the measurements ask the server and each system's tables. The systems' own work goes through their own code.

-- name: unfinished_of_duly
-- Is any job of the benchmark's types due or running? Jobs that are due later do not count.
select exists (
    select from ledger.job
    where status = 'queued' and queue = 'default' and priority = 0 and run_at <= clock_timestamp()
        and type in ('noop', 'retry', 'fail', 'later', 'progress', 'wait')
) or exists (select from ledger.job where status in ('running', 'failed'));

-- name: unfinished_of_pgqueuer
-- Finished jobs have left this table.
select exists (select from pgqueuer);

-- name: unfinished_of_procrastinate
-- Finished jobs stay, under another status.
select exists (select from procrastinate_jobs where status = 'todo')
    or exists (select from procrastinate_jobs where status = 'doing');

-- name: unfinished_of_dbos
-- Finished workflows stay, under another status.
select exists (select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING'));

-- name: unfinished_of_oban
-- Finished jobs stay, under another state.
select exists (select from oban_jobs where state in ('available', 'executing', 'scheduled', 'retryable'));

-- name: hold_snapshot
-- From now on this transaction sees the database as it is, and nothing that dies later can be vacuumed.
select count(*) from ledger.job_limit;

-- name: vacuum
-- As a table that has stood for a while: its statistics are known and its pages are marked.
vacuum (analyze) ledger.job, ledger.job_event;

-- name: create_statement_counters
-- pg_stat_statements, loaded by the server of every benchmark.
create extension if not exists pg_stat_statements;

-- name: count_statements
-- Every statement of later connections to this database is counted, also those inside functions and triggers.
do $$ begin execute format('alter database %I set pg_stat_statements.track = ''all''', current_database()); end $$;

-- name: reset_counters
-- Forget what was counted.
select pg_stat_statements_reset();

-- name: read_counters
-- Statements at every depth; WAL and buffers of the outermost ones, which include those inside.
select json_build_object(
    'statements', coalesce(sum(calls), 0)::float8,
    'wal_bytes', coalesce(sum(wal_bytes) filter (where toplevel), 0)::float8,
    'wal_records', coalesce(sum(wal_records) filter (where toplevel), 0)::float8,
    'buffers', coalesce(sum(shared_blks_hit + shared_blks_read) filter (where toplevel), 0)::float8
)::text
from pg_stat_statements
where dbid = (select oid from pg_database where datname = current_database());

-- name: read_sizes
-- Heaps with their TOAST tables and maps, and all indexes.
select json_build_object(
    'heap_bytes', sum(pg_table_size(c.oid))::float8, 'index_bytes', sum(pg_indexes_size(c.oid))::float8
)::text
from pg_class c
where c.oid in ('ledger.job'::regclass, 'ledger.job_event'::regclass);
