-- Histories that are in order, in bulk.

-- name: silence_triggers
-- Rows are written as a restore writes them: without guards, logs and checks of keys.
set session_replication_role = replica;

-- name: mind_triggers
-- From now on everything is judged and logged again.
set session_replication_role = origin;

-- name: make_months
-- The months that runs of the past lie in.
select scheduler.make_partition((duly.now() - make_interval(days => 28 * m))::date) from generate_series(1, 14) as m;

-- name: add_people
-- Whose everything is.
insert into "user".users (uid) select 'user' || n from generate_series(0, %(people)s - 1) as n;

-- name: add_jobs
-- Of twenty jobs one was tried twice, one handed back, and one still waits; the others succeeded at once. What is made
-- together lies together.
insert into ledger.job (
    id, org_id, type, status, attempt, starts, created_at, run_at, started_at, finished_at, retain_until, settled_by, revision
)
select
    (lpad(to_hex(1760000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
    '00000000-0000-0000-0000-000000000001', 'work', kind.status::ledger.job_status, greatest(kind.starts - 1, 0), kind.starts,
    made.at, made.at, case when kind.starts > 0 then made.at end, case when kind.starts > 0 then made.at end,
    case when kind.starts > 0 then made.at + interval '30 days' end, 'worker-1/' || n || '.' || kind.claim, kind.revision
from generate_series(1, %(jobs)s) as n
cross join lateral (select duly.now() - interval '20 days' + n * interval '1 millisecond' as at) as made
join (
    values (0, 'succeeded', 2, 5, 6), (1, 'succeeded', 1, 4, 5), (2, 'queued', 0, null, 1), (3, 'succeeded', 1, 2, 3)
) as kind (nth, status, starts, claim, revision) on kind.nth = least(mod(n, 20), 3);

-- name: add_job_events
-- What happened to each job, between what happened to its neighbours.
insert into ledger.job_event (id, job_id, org_id, seq, ts, prev_status, next_status, detail_json)
select
    duly.new_id(), j.id, j.org_id, step.seq, j.created_at + step.seq * interval '1 second', step.before, step.after,
    case when step.after = 'running'
        then jsonb_build_object('actor', regexp_replace(coalesce(j.settled_by, ''), '[0-9]+$', step.seq::text),
            'start', step.start) end
from ledger.job as j
join (
    values
    (1, 1, null, 'queued', null),
    (3, 1, null, 'queued', null), (3, 2, 'queued', 'running', 1), (3, 3, 'running', 'succeeded', null),
    (5, 1, null, 'queued', null), (5, 2, 'queued', 'running', 1), (5, 3, 'running', 'queued', null),
    (5, 4, 'queued', 'running', 1), (5, 5, 'running', 'succeeded', null),
    (6, 1, null, 'queued', null), (6, 2, 'queued', 'running', 1), (6, 3, 'running', 'failed', null),
    (6, 4, 'failed', 'queued', null), (6, 5, 'queued', 'running', 2), (6, 6, 'running', 'succeeded', null)
) as step (revision, seq, before, after, start) on step.revision = j.revision
order by j.created_at + step.seq * interval '1 second';

-- name: add_schedules
-- Schedules that fire once a month, planned; half of them have something to book.
with made as (
    insert into scheduler.jobs (id, user_id, name, rule, first_run_at, created_at, updated_at, revision, channel)
    select
        n, u.id, 'schedule ' || n, 'cron: 0 10 1 * *', duly.now() - interval '400 days', duly.now() - interval '400 days',
        duly.now() - interval '400 days', 1, 'console'
    from generate_series(1, %(schedules)s) as n
    join "user".users as u on u.uid = 'user' || mod(n, (select count(*) from "user".users))
    returning id
),
booked as (
    insert into scheduler.expense_templates (job_id, amount, currency) select id, 5, 'EUR' from made where mod(id, 2) = 0
)
insert into scheduler.job_plans (job_id, plan_at, planned_until, next_at)
select id, duly.now() + interval '7 days', duly.now() - interval '9 days', duly.now() + interval '8 days' from made;

-- name: add_runs
-- Runs of the past year, each sent and confirmed, four of each schedule, with their keys and reminders.
with made as (
    insert into scheduler.job_runs (id, job_id, period_key, scheduled_at, sent_at, status, reminder_id, revision)
    select
        n, 1 + (n - 1) / 4, 'period ' || mod(n, 4), at.scheduled, at.scheduled, 'confirmed', md5('message' || n)::uuid, 3
    from generate_series(1, %(runs)s) as n
    cross join lateral (select duly.now() - interval '1 day' - n * (interval '360 days' / %(runs)s) as scheduled) as at
    returning id, job_id, period_key, scheduled_at
),
reminded as (
    insert into scheduler.reminders (job_run_id, sent_at, payload)
    select id, scheduled_at, jsonb_build_object('run', id, 'channel', 'console') from made
)
insert into scheduler.job_run_keys (job_run_id, job_id, period_key, scheduled_at)
select id, job_id, period_key, scheduled_at from made;

-- name: add_answers
-- The answer to each run, and what is booked for it.
with answered as (
    insert into scheduler.confirmations (job_run_id, action, confirmed_at, idempotency_key)
    select id, 'complete', scheduled_at + interval '1 minute', 'tap' from scheduler.job_runs
    returning job_run_id, confirmed_at
)
insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)
select j.user_id, j.name, 5, 'EUR', a.confirmed_at, 'scheduler:' || k.job_id || ':' || k.period_key
from answered as a
join scheduler.job_runs as k on k.id = a.job_run_id
join scheduler.jobs as j on j.id = k.job_id
where mod(k.job_id, 2) = 0;

-- name: add_messages
-- The message about each run, sent at the first try, and of twenty one at the second.
insert into duly.outbox (
    id, channel, recipient, kind, payload, dedupe_key, status, due_at, created_at, called_at, sent_at, starts, settled_by, revision
)
select
    r.reminder_id, 'console', u.uid, 'reminder.due', jsonb_build_object('run', r.id), 'reminder:' || r.id, 'sent',
    r.scheduled_at, r.scheduled_at, r.scheduled_at, r.scheduled_at, tries.starts,
    'worker-1/' || r.id || '.' || tries.revision - 1, tries.revision
from scheduler.job_runs as r
join scheduler.jobs as j on j.id = r.job_id
join "user".users as u on u.id = j.user_id
cross join lateral (
    select case when mod(r.id, 20) = 0 then 2 else 1 end as starts, case when mod(r.id, 20) = 0 then 5 else 3 end as revision
) as tries;

-- name: add_posts
-- Posts of the past, one for each person and day, each released, with its lock and its request.
with made as (
    insert into posts.posts (
        id, author_id, status, release_time, created_at, updated_at, daily_key, version, request_id, process_attempts, image_url,
        released_at, settled_by, revision
    )
    select
        (lpad(to_hex(1760000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
        who.author, 'RELEASED', at.made + interval '6 hours', at.made, at.made + interval '7 hours',
        posts.daily_key(who.author, at.made), 3, md5('request' || n)::uuid, 1, 'posts/00/' || n || '.jpg',
        at.made + interval '7 hours', 'worker-1/' || n, 3
    from (select count(*) as people from "user".users) as they
    cross join generate_series(1, %(posts)s) as n
    cross join lateral (select 'user' || mod(n, they.people) as author) as who
    cross join lateral (select date_trunc('day', duly.now(), 'UTC') - make_interval(days => 2 + (n / they.people)::int) as made)
        as at
    returning id, author_id, request_id, daily_key, created_at
),
locked as (
    insert into posts.daily_locks (id, created_at, post_id) select daily_key || '_UTC', created_at, id from made
)
insert into posts.idempotency_keys (author_id, request_id, request_digest, post_id, answer, created_at, expires_at)
select
    author_id, request_id, sha256(''), id, jsonb_build_object('postId', id), created_at, created_at + interval '24 hours'
from made;

-- name: add_captures
-- Two sessions of each day: the first shows two shifts, the second takes one away, moves one and brings one.
insert into schedule_ingest.capture_session (id, user_id, state, created_at, closed_at, settled_by, starts, revision, result)
select
    (lpad(to_hex(1760000000000 + 2 * d + s), 12, '0') || '7' || substr(md5(d::text), 1, 3) || '8'
        || substr(md5(d::text), 4, 15))::uuid,
    day.person, 'done', duly.now() - interval '9 days', duly.now() - interval '9 days', 'worker-1/' || d || '.' || s, 1, 3,
    jsonb_build_object('outcome', 'changed', 'version', s, 'schedule_date', day.date)
from generate_series(1, %(days)s) as d
cross join generate_series(1, 2) as s
cross join lateral (select 1 + mod(d, 1000) as person, date '2020-01-01' + d / 1000 as date) as day
order by d, s;

-- name: add_days
-- What came of these sessions: versions, events, snapshots.
with session as (
    select
        s.id, s.user_id, (s.result ->> 'schedule_date')::date as schedule_date, (s.result ->> 'version')::integer as version,
        s.settled_by
    from schedule_ingest.capture_session as s
),
shift as (
    select
        jsonb_build_object('start', '08:00', 'end', '12:00', 'title', 'A') as a,
        jsonb_build_object('start', '13:00', 'end', '15:00', 'title', 'B') as b,
        jsonb_build_object('start', '14:00', 'end', '16:00', 'title', 'B') as later_b,
        jsonb_build_object('start', '18:00', 'end', '20:00', 'title', 'C') as c
),
versions as (
    insert into schedule_ingest.schedule_version (
        user_id, schedule_date, version, session_id, payload, payload_hash, canonicalizer
    )
    select user_id, schedule_date, version, id, '{}', md5(version::text), 1 from session order by settled_by
),
days as (
    insert into schedule_ingest.day_schedule (user_id, schedule_date, current_version)
    select user_id, schedule_date, 2 from session where version = 2
),
snapshots as (
    insert into schedule_ingest.day_snapshot (
        user_id, schedule_date, snapshot_payload, source_session_id, canonicalizer, events
    )
    select s.user_id, s.schedule_date, jsonb_build_array(shift.later_b, shift.c), s.id, 1, 5
    from session as s, shift
    where s.version = 2
)
insert into schedule_ingest.schedule_event (
    event_id, user_id, schedule_date, event_type, location_fingerprint, customer_fingerprint, old_value_hash, new_value_hash,
    old_value, new_value, source_session_id, seq
)
select
    md5(s.id::text || step.seq)::uuid, s.user_id, s.schedule_date, step.kind, 'place ' || step.seq, 'customer', 'before', 'after',
    case step.seq when 3 then shift.a when 4 then shift.b end,
    case step.seq when 1 then shift.a when 2 then shift.b when 4 then shift.later_b when 5 then shift.c end, s.id, step.seq
from session as s
join (
    values (1, 1, 'shift_added'), (1, 2, 'shift_added'), (2, 3, 'shift_removed'), (2, 4, 'shift_time_changed'), (2, 5, 'shift_added')
) as step (version, seq, kind) on step.version = s.version
cross join shift;

-- name: add_notifications
-- What the person was told of each first session.
insert into schedule_ingest.schedule_notification (
    notification_id, user_id, schedule_date, source_session_id, status, notification_type, message, event_ids, sent_at, delivery,
    called_at, starts, settled_by, revision
)
select
    'notification ' || s.id, s.user_id, (s.result ->> 'schedule_date')::date, s.id, 'sent', 'summary', 'Two shifts.',
    jsonb_build_array(md5(s.id::text || 1)::uuid, md5(s.id::text || 2)::uuid), duly.now(), 'sent', duly.now(), 1,
    s.settled_by, 3
from schedule_ingest.capture_session as s
where s.result ->> 'version' = '1';

-- name: add_transitions
-- The log of everything but jobs, in the order of time.
insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
select machine, key, seq, at + seq * interval '1 second', before, after, actor, detail
from (
    select
        'schedule' as machine, id::text as key, 1 as seq, created_at as at, null as before, status as after, null as actor,
        jsonb_build_object('rule', rule) as detail
    from scheduler.jobs
    union all
    select 'run', r.id::text, step.seq, r.scheduled_at, step.before, step.after, null, jsonb_build_object('job', r.job_id)
    from scheduler.job_runs as r
    cross join (values (1, null, 'pending'), (2, 'pending', 'sent'), (3, 'sent', 'confirmed')) as step (seq, before, after)
    union all
    select
        'outbox', o.id::text, step.seq, o.created_at, step.before, step.after,
        case when step.claim is not null then regexp_replace(o.settled_by, '[0-9]+$', step.claim::text) end,
        jsonb_build_object('starts', step.starts)
    from duly.outbox as o
    join (
        values
        (3, 1, null, 'pending', null, 0), (3, 2, 'pending', 'sending', 2, 1), (3, 3, 'sending', 'sent', 2, 1),
        (5, 1, null, 'pending', null, 0), (5, 2, 'pending', 'sending', 2, 1), (5, 3, 'sending', 'pending', null, 1),
        (5, 4, 'pending', 'sending', 4, 2), (5, 5, 'sending', 'sent', 4, 2)
    ) as step (revision, seq, before, after, claim, starts) on step.revision = o.revision
    union all
    select
        'post', p.id::text, step.seq, p.release_time, step.before, step.after, case when step.seq > 1 then p.settled_by end,
        jsonb_build_object('version', step.seq, 'attempts', step.attempts)
    from posts.posts as p
    cross join (
        values (1, null, 'PENDING', 0), (2, 'PENDING', 'PROCESSING', 1), (3, 'PROCESSING', 'RELEASED', 1)
    ) as step (seq, before, after, attempts)
    union all
    select
        'capture', s.id::text, step.seq, s.created_at, step.before, step.after, case when step.seq > 1 then s.settled_by end,
        jsonb_build_object('starts', step.starts)
    from schedule_ingest.capture_session as s
    cross join (
        values (1, null, 'pending', 0), (2, 'pending', 'processing', 1), (3, 'processing', 'done', 1)
    ) as step (seq, before, after, starts)
    union all
    select
        'notification', n.notification_id, step.seq, n.created_at, step.before, step.after,
        case when step.seq > 1 then n.settled_by end, jsonb_build_object('starts', step.starts)
    from schedule_ingest.schedule_notification as n
    cross join (
        values (1, null, 'pending', 0), (2, 'pending', 'sending', 1), (3, 'sending', 'sent', 1)
    ) as step (seq, before, after, starts)
) as told (machine, key, seq, at, before, after, actor, detail)
order by at + seq * interval '1 second';

-- name: count_events
-- What the laws are to read.
select
    (select count(*) from ledger.job_event) + (select count(*) from duly.transition)
    + (select count(*) from schedule_ingest.schedule_event);

-- name: vacuum
-- As autovacuum would have left it.
vacuum (analyze);
