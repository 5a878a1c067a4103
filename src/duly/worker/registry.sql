-- Worker processes, for people and `explain`: no decision rests on them.

-- name: register
-- A worker says that it is there, and forgets those that have been gone for a week.
with forgotten as (
    delete from duly.workers where coalesce(stopped_at, seen_at) < duly.now() - interval '7 days'
)
insert into duly.workers (id, worker_id, host, pid, version, kinds, slots)
values (%(id)s, %(worker_id)s, %(host)s, %(pid)s, %(version)s, %(kinds)s, %(slots)s);

-- name: note_seen
-- It is still there; a row that somebody removed comes back with the next start.
update duly.workers set seen_at = duly.clock() where id = %(id)s;

-- name: note_stopping
-- It takes nothing new any more.
update duly.workers set seen_at = duly.clock(), stopping_at = duly.clock() where id = %(id)s;

-- name: note_stopped
-- It went in peace.
update duly.workers set seen_at = duly.clock(), stopped_at = duly.clock() where id = %(id)s;
