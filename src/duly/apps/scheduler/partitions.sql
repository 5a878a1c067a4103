-- The months of scheduler.job_runs. `{part}` is the name of one partition.

-- name: list_parts
-- Every partition, by name; the default one has no bounds and comes last.
select c.relname as part, pg_get_expr(c.relpartbound, c.oid) as bounds
from pg_catalog.pg_inherits as i
join pg_catalog.pg_class as c on c.oid = i.inhrelid
where i.inhparent = 'scheduler.job_runs'::regclass
order by c.relname;

-- name: find_foreign_owner
-- Who owns a partition, when it is not one of ours: somebody made it by hand.
select pg_get_userbyid(c.relowner) as owner, current_user as ours
from pg_catalog.pg_class as c
where c.oid = to_regclass(%(part)s) and not pg_has_role(c.relowner, 'usage');

-- name: measure_part
-- How much lies in a partition, and how much of it is open: of very large ones the server's own estimate will do.
select
    case
        when (select c.reltuples from pg_catalog.pg_class as c where c.oid = %(part)s::regclass) > %(limit)s
            then (select c.reltuples::bigint from pg_catalog.pg_class as c where c.oid = %(part)s::regclass)
        else (select count(*) from scheduler.{part})
    end as runs,
    (select c.reltuples from pg_catalog.pg_class as c where c.oid = %(part)s::regclass) > %(limit)s as is_estimate,
    (select count(*) from scheduler.{part} as r where r.status in ('pending', 'sent', 'snoozed')) as open_runs;

-- name: find_month
-- Is the month over, is its partition there, and are there keys in it whose runs are gone?
select
    %(end_at)s::timestamptz <= duly.now() as is_over,
    coalesce(i.inhparent = 'scheduler.job_runs'::regclass, false) as is_here,
    not coalesce(i.inhparent = 'scheduler.job_runs'::regclass, false) and exists (
        select
        from scheduler.job_run_keys as k
        where k.scheduled_at >= %(first_at)s and k.scheduled_at < %(end_at)s and not exists (
            select from scheduler.job_runs as r where r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
        )
    ) as was_dropped
from (select to_regclass(%(part)s) as part) as named
left join pg_catalog.pg_inherits as i on i.inhrelid = named.part;

-- name: make_partition
-- The month has its place, with the rows that waited for it in the default partition.
select scheduler.make_partition(%(day)s::date);

-- name: make_ahead
-- This month and so many to come have their place.
select scheduler.ensure_partitions(%(ahead)s);

-- name: wait_shortly
-- Whoever is in the way stays there, and we go: a queue behind us would stop everybody.
select set_config('lock_timeout', '3s', true);

-- name: take_snapshot
-- Everything that is written to the file is of one moment.
set transaction isolation level repeatable read, read only;

-- name: speak_utc
-- Times are told in UTC, whatever the session's zone.
select set_config('timezone', 'UTC', true);

-- name: list_runs
-- The runs of a month as they are, in order, from a place onwards.
select r.id, r.scheduled_at, to_jsonb(r) as run
from scheduler.{part} as r
where (r.scheduled_at, r.id) > (%(after_at)s, %(after_id)s)
order by r.scheduled_at, r.id
limit %(limit)s;

-- name: hold_table
-- For this one we wait in line, holding nothing else.
lock table only scheduler.job_runs in access exclusive mode;

-- name: hold_part
-- Nobody writes into the month any more, and its foreign key can go. Not waited for: while we hold the table, whoever has
-- one of these may be waiting for us.
lock table scheduler.{part}, scheduler.jobs in access exclusive mode nowait;

-- name: detach
-- The month leaves the table; the keys of its runs stay, so that no period comes twice.
alter table scheduler.job_runs detach partition scheduler.{part};

-- name: drop_part
-- And is gone.
drop table scheduler.{part};
