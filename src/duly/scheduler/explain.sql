-- Why a run is where it is: everything that could be the reason, in one look.

-- name: find_situation
-- One statement, one snapshot: nothing moves between two parts of the answer. A worker is alive when it was seen lately and
-- did not say goodbye.
with alive as (
    select w.kinds
    from duly.workers as w
    where w.stopped_at is null and w.seen_at >= duly.now() - make_interval(secs => %(alive_seconds)s)
)
select
    r.id, r.status, r.scheduled_at, r.remind_at, r.sent_at, r.reason, j.id as job_id, j.status as schedule_status, j.channel,
    o.status as message_status, o.due_at as message_due_at, o.last_error as message_error, o.id as message_id,
    o.starts as message_starts, o.is_in_line as message_is_in_line,
    (select c.action from scheduler.confirmations as c where c.job_run_id = r.id order by c.id desc limit 1) as answer,
    (
        select c.confirmed_at from scheduler.confirmations as c where c.job_run_id = r.id order by c.id desc limit 1
    ) as answered_at,
    duly.now() as looked_at,
    (select count(*) from alive as a where 'scheduler' = any (a.kinds)) as schedulers,
    (select count(*) from alive as a where 'outbox' = any (a.kinds)) as senders
from scheduler.job_run_keys as k
join scheduler.jobs as j on j.id = k.job_id
join scheduler.job_runs as r on r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
left join duly.outbox as o on o.id = r.reminder_id
where k.job_run_id = %(run_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s);
