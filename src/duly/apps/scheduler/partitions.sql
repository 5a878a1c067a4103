-- The monthly partitions of scheduler.job_runs. `{partition}` is the name of one partition.

-- name: list_partitions
-- Every partition, by name; the default one has no bounds and comes last.
select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds
from pg_catalog.pg_inherits as i
join pg_catalog.pg_class as c on c.oid = i.inhrelid
where i.inhparent = 'scheduler.job_runs'::regclass
order by c.relname;

-- name: find_foreign_owner
-- The owner of a partition that does not belong to our role, for example one created by hand.
select pg_get_userbyid(c.relowner) as owner, current_user as ours
from pg_catalog.pg_class as c
where c.oid = to_regclass(%(partition)s) and not pg_has_role(c.relowner, 'usage');

-- name: measure_partition
-- Count the runs of a partition and the open ones; for very large partitions use the planner's estimate.
select
    case
        when (select c.reltuples from pg_catalog.pg_class as c where c.oid = %(partition)s::regclass) > %(limit)s
            then (select c.reltuples::bigint from pg_catalog.pg_class as c where c.oid = %(partition)s::regclass)
        else (select count(*) from scheduler.{partition})
    end as runs,
    (select c.reltuples from pg_catalog.pg_class as c where c.oid = %(partition)s::regclass) > %(limit)s as is_estimate,
    (select count(*) from scheduler.{partition} as r where r.status in ('pending', 'sent', 'snoozed')) as open_runs;

-- name: find_month
-- Is the month over, does its partition exist, and are there keys whose runs were dropped?
select
    %(end_at)s::timestamptz <= duly.now() as is_over,
    coalesce(i.inhparent = 'scheduler.job_runs'::regclass, false) as is_present,
    not coalesce(i.inhparent = 'scheduler.job_runs'::regclass, false) and exists (
        select
        from scheduler.job_run_keys as k
        where k.scheduled_at >= %(first_at)s and k.scheduled_at < %(end_at)s and not exists (
            select from scheduler.job_runs as r where r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
        )
    ) as was_dropped
from (select to_regclass(%(partition)s) as partition) as named
left join pg_catalog.pg_inherits as i on i.inhrelid = named.partition;

-- name: create_partition
-- Create the partition of a month, and move its rows there from the default partition.
select scheduler.make_partition(%(day)s::date);

-- name: create_partitions_ahead
-- Create the partitions of this month and of a number of coming months.
select scheduler.ensure_partitions(%(ahead)s);

-- name: set_lock_timeout
-- Give up when a lock is not granted in time: other sessions would queue behind our request.
select set_config('lock_timeout', '3s', true);

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

-- name: lock_table
-- This lock is waited for, while no other is held.
lock table only scheduler.job_runs in access exclusive mode;

-- name: lock_partition
-- Stop writes to the month, so that its foreign key can be dropped. Not waited for: while we lock the table, a session
-- that has one of these locks may be waiting for us.
lock table scheduler.{partition}, scheduler.jobs in access exclusive mode nowait;

-- name: detach_partition
-- Detach the month; the keys of its runs stay, so that no period gets a second run.
alter table scheduler.job_runs detach partition scheduler.{partition};

-- name: drop_partition
-- Drop the detached month.
drop table scheduler.{partition};
