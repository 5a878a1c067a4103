-- Lock waits.

-- name: list_waits_for_locks
-- Sessions of this database that have waited too long for a lock, one row per blocking session: the holder, or one
-- before them in the wait queue. The longest wait first. A prepared transaction has no session: its pid is 0.
select
    waiting.pid,
    extract(epoch from clock_timestamp() - wish.waitstart)::float8 as waited_seconds,
    waiting.application_name as application,
    waiting.query,
    blocker.pid as blocker_pid,
    holding.application_name as blocker_application,
    holding.state as blocker_state,
    holding.query as blocker_query,
    exists (select from pg_catalog.pg_locks as l where l.pid = blocker.pid and not l.granted) as blocker_waits
from pg_catalog.pg_locks as wish
join pg_catalog.pg_stat_activity as waiting on waiting.pid = wish.pid and waiting.datname = current_database()
cross join lateral (select distinct unnest(pg_blocking_pids(wish.pid)) as pid) as blocker
left join pg_catalog.pg_stat_activity as holding on holding.pid = blocker.pid
where not wish.granted and wish.waitstart < clock_timestamp() - make_interval(secs => %(seconds)s)
order by wish.waitstart, waiting.pid, blocker.pid;
