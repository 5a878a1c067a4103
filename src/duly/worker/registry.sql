-- Worker processes, listed for people, `duly doctor` and the commands `explain`: no decision of a worker depends on
-- them.

-- name: register
-- Adds a worker that starts, and removes those that have been gone for a week.
with forgotten as (
    delete from duly.workers where coalesce(stopped_at, seen_at) < duly.now() - interval '7 days'
)
insert into duly.workers (id, worker_id, host, pid, version, work_types, slots)
values (%(id)s, %(worker_id)s, %(host)s, %(pid)s, %(version)s, %(work_types)s, %(slots)s);

-- name: note_seen
-- The worker is alive. A row that was deleted comes back only when the worker starts again.
update duly.workers set seen_at = duly.clock() where id = %(id)s;

-- name: note_stopping
-- The worker claims nothing new.
update duly.workers set seen_at = duly.clock(), stopping_at = duly.clock() where id = %(id)s;

-- name: note_stopped
-- The worker has stopped.
update duly.workers set seen_at = duly.clock(), stopped_at = duly.clock() where id = %(id)s;
