-- Why a run is in its state: everything that could be the reason, in one query.

-- name: find_situation
-- One statement, one snapshot: the parts of the result are consistent. `seen_worker` has the workers whose heartbeat is
-- recent; those that are not stopping are alive, and `sender` adds up those of them that send. Locks are tested the way
-- workers and senders acquire them. A worker's id is what precedes the token in a lease owner (lease/owner.py); an
-- expense refers to its period as in the function scheduler.answer.
with seen_worker as materialized (
    select w.worker_id, w.work_types, w.stopping_at, (w.slots ->> 'outbox')::bigint as slots
    from duly.workers as w
    where w.stopped_at is null and abs(extract(epoch from duly.now() - w.seen_at)) <= %(alive_seconds)s
),
sender as (
    select w.worker_id, count(*) as workers, sum(w.slots)::bigint as slots, (
        select count(*)
        from duly.outbox as h
        where h.status = 'sending' and h.lease_expires_at >= duly.now()
            and substring(h.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$') = w.worker_id
    ) as sending
    from seen_worker as w
    where w.stopping_at is null and 'outbox' = any (w.work_types)
    group by w.worker_id
)
select
    r.id, r.status, r.scheduled_at, r.remind_at, r.sent_at, r.reason, j.id as schedule_id,
    j.status as schedule_status, j.channel,
    o.status as message_status, o.due_at as message_due_at, o.last_error as message_error, o.id as message_id,
    o.starts as message_starts, o.is_in_line as message_is_in_line, o.created_at as message_created_at,
    o.called_at as message_called_at, o.lease_owner as message_owner, o.lease_expires_at as message_lease_expires_at,
    (
        select max(w.seen_at)
        from duly.workers as w
        where w.worker_id = substring(o.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$')
        having not bool_or(w.worker_id in (select n.worker_id from seen_worker as n))
    ) as sender_gone_at,
    o.status = 'pending' and exists (
        select
        from duly.outbox as b
        where b.channel = o.channel and b.recipient = o.recipient and b.seq < o.seq
            and b.status in ('pending', 'sending')
            and (b.status = 'sending' or b.starts > 0 or b.is_in_line or b.due_at <= duly.now())
    ) as message_is_behind,
    (
        select count(*)
        from (
            select
            from duly.outbox as b
            where o.status = 'pending' and b.status = 'pending' and b.due_at <= duly.now() and b.seq < o.seq
            limit %(ahead_limit)s
        ) as earlier
    ) as messages_ahead,
    case when o.status = 'pending' or o.lease_expires_at < duly.now() then duly.is_locked(o.id) else false end
        as message_is_locked,
    case when o.status = 'pending' and o.due_at <= duly.now() then duly.find_next_message() = o.id else false end
        as message_is_next,
    answer.action as answer, answer.confirmed_at as answered_at,
    (
        select undone.occurred_at
        from expense.expenses as booked
        join expense.expenses as undone on undone.reverses = booked.id
        where booked.source_ref = 'scheduler:' || j.id || ':' || k.period_key
    ) as reversed_at,
    (select max(m.sent_at) from scheduler.reminders as m where m.job_run_id = r.id) as reminded_at,
    due.id is not null as is_due,
    due.missed_reason,
    plan.is_closing,
    (
        select count(*)
        from (
            select
            from scheduler.due_runs as d
            where due.id is not null and (d.remind_at, d.id) < (r.remind_at, r.id)
            limit %(ahead_limit)s
        ) as earlier
    ) as ahead,
    case when r.remind_at <= duly.now() then scheduler.is_locked(r.id, r.scheduled_at) else false end as is_locked,
    duly.now() as observed_at,
    (
        select count(*) from seen_worker as a where a.stopping_at is null and 'scheduler' = any (a.work_types)
    ) as schedulers,
    (select coalesce(sum(s.workers), 0)::bigint from sender as s) as senders,
    (select coalesce(sum(s.slots), 0)::bigint from sender as s) as slots,
    (select coalesce(sum(s.sending), 0)::bigint from sender as s) as messages_sending,
    exists (select from sender as s where s.sending < s.slots) as has_free_slot,
    array(
        select distinct a.worker_id from seen_worker as a where a.stopping_at is not null order by a.worker_id
    ) as stopping
from scheduler.job_run_keys as k
join scheduler.jobs as j on j.id = k.job_id
join scheduler.job_runs as r on r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
left join scheduler.job_plans as plan on plan.job_id = j.id
left join scheduler.due_runs as due on due.id = r.id and due.scheduled_at = r.scheduled_at
left join duly.outbox as o on o.id = r.message_id
left join lateral (
    select c.action, c.confirmed_at
    from scheduler.confirmations as c
    where c.job_run_id = r.id
    order by c.id desc
    limit 1
) as answer on true
where k.job_run_id = %(run_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s);
