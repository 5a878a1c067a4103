-- The monthly partitions of scheduler.job_runs. `{partition}` is the name of one partition.

-- name: list_partitions
-- Every partition, the earliest first; the open-ended ones have no bound on one side.
select p.name, nullif(p.first_at, '-infinity') as first_at, nullif(p.end_at, 'infinity') as end_at
from scheduler.list_partitions() as p;

-- name: find_foreign_owner
-- The owner of a partition that does not belong to our role, for example one created by hand.
select pg_get_userbyid(c.relowner) as owner, current_user as ours
from pg_catalog.pg_class as c
where c.oid = to_regclass(%(partition)s) and not pg_has_role(c.relowner, 'usage');

-- name: measure_partition
-- Count the runs of a partition and the open ones; for very large partitions use PostgreSQL's estimate.
select
    case
        when (select c.reltuples from pg_catalog.pg_class as c where c.oid = %(partition)s::regclass) > %(limit)s
            then (select c.reltuples::bigint from pg_catalog.pg_class as c where c.oid = %(partition)s::regclass)
        else (select count(*) from scheduler.{partition})
    end as runs,
    (select c.reltuples from pg_catalog.pg_class as c where c.oid = %(partition)s::regclass) > %(limit)s as is_estimate,
    (select count(*) from scheduler.{partition} as r where r.status in ('pending', 'sent', 'snoozed')) as open_runs;

-- name: find_month
-- Is the month over, does its partition exist, and which month is the first?
select
    %(end_at)s::timestamptz <= duly.now() as is_over,
    coalesce(bool_or('scheduler.' || p.name = %(partition)s), false) as is_present,
    (array_agg(p.name order by p.first_at))[1] as first_partition
from scheduler.list_partitions() as p
where isfinite(p.first_at) and isfinite(p.end_at);

-- name: create_months
-- Create the month of a day and those between it and the existing ones, with the runs of an open-ended one in them.
select scheduler.create_months(%(day)s::date);

-- name: create_partitions_ahead
-- Create the partitions of this month and of a number of coming months.
select scheduler.ensure_partitions(%(ahead)s);

-- name: use_snapshot
-- Everything that is written to the file comes from one snapshot.
set transaction isolation level repeatable read, read only;

-- name: set_utc_timezone
-- Return times in UTC, whatever the session's zone.
select set_config('timezone', 'UTC', true);

-- name: list_runs
-- A page of the runs of a month after a cursor.
select r.id, r.scheduled_at, to_jsonb(r) as run
from scheduler.{partition} as r
where (r.scheduled_at, r.id) > (%(after_at)s, %(after_id)s)
order by r.scheduled_at, r.id
limit %(limit)s;

-- name: lock_partitions
-- Wait at most five seconds, in short tries: other sessions queue behind a request that waits.
select scheduler.lock_partitions();

-- name: drop_partition
-- Drop the first month with its runs; the past partition takes its place.
select scheduler.drop_month(%(day)s::date);
