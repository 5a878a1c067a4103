-- Pauses, and limits on the running jobs of a type; * is any queue or type.

-- name: put_pause
-- No job of this queue, type or both is claimed until it is resumed; running jobs go on. A second pause changes
-- nothing.
insert into ledger.job_limit as l (queue, type, paused_at, paused_by)
values (%(queue)s, %(type)s, duly.clock(), %(actor)s)
on conflict (queue, type) do update
set paused_at = coalesce(l.paused_at, excluded.paused_at),
    paused_by = case when l.paused_at is null then excluded.paused_by else l.paused_by end
returning l.paused_at;

-- name: drop_pause
-- Returns no row when it was not paused.
update ledger.job_limit
set paused_at = null, paused_by = null
where queue = %(queue)s and type = %(type)s and paused_at is not null
returning queue, type;

-- name: set_concurrency
-- How many jobs of a type may run at once, over all workers (the column `max_running`); null lifts the limit, and adds
-- no row for a type without one. It applies to claims that begin after this commits.
insert into ledger.job_limit (type, max_running)
select %(type)s, %(concurrency)s::bigint
where %(concurrency)s::bigint is not null or exists (select from ledger.job_limit where queue = '*' and type = %(type)s)
on conflict (queue, type) do update set max_running = excluded.max_running
where job_limit.max_running is distinct from excluded.max_running;

-- name: fetch_limits
-- All pauses and limits.
select queue, type, max_running as concurrency, paused_at, paused_by
from ledger.job_limit
where paused_at is not null or max_running is not null
order by queue, type
limit %(limit)s;
