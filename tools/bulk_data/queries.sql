-- Rows of every table of ours with the history that the invariants ask for. Nothing else in
-- tools/ writes jobs in bulk.

-- name: disable_triggers
-- Rows are written as a restore writes them: without guards, logs and checks of keys.
set session_replication_role = replica;

-- name: enable_triggers
-- From now on every rule is checked and every transition logged again.
set session_replication_role = origin;

-- name: create_partitions
-- The partitions that runs of the past lie in.
select scheduler.create_months((duly.now() - make_interval(days => 28 * 14))::date);

-- name: add_people
-- The people that runs, messages and posts belong to.
with made as (
    insert into duly.person (uid, user_id) select 'user' || n, 1 + n from generate_series(0, %(people)s - 1) as n
    returning user_id
)
insert into "user".users (id) select user_id from made;

-- name: create_drafts
-- Temporary tables that jobs are drawn up in. A shape is a history that a job may have: where it ends, and its steps. A
-- step is an event; a claim's owner is named after its step.
create temporary table shape (
    name text primary key, status ledger.job_status, max_attempts integer, starts integer, snoozes integer,
    revision integer, transition_from text, last_claim integer
);
insert into shape values
    ('waiting', 'queued', 5, 0, 0, 1, null, null),
    ('due_later', 'queued', 5, 0, 0, 1, null, null),
    ('retrying', 'queued', 5, 1, 0, 4, 'failed', 2),
    ('redriven', 'queued', 1, 0, 0, 5, 'dead_letter', 2),
    ('running', 'running', 5, 1, 0, 2, 'queued', 2),
    ('done', 'succeeded', 5, 1, 0, 3, 'running', 2),
    ('retried', 'succeeded', 5, 2, 0, 6, 'running', 5),
    ('released', 'succeeded', 5, 1, 0, 5, 'running', 4),
    ('later', 'succeeded', 5, 1, 1, 5, 'running', 4),
    ('progressed', 'succeeded', 5, 1, 0, 4, 'running', 2),
    ('dead', 'dead_letter', 2, 2, 0, 7, 'failed', 5),
    ('gave_up', 'dead_letter', 5, 1, 0, 4, 'failed', 2),
    ('canceled', 'canceled', 5, 0, 0, 2, 'queued', null),
    ('stopped', 'canceled', 5, 1, 0, 4, 'running', 2);
create temporary table step (shape text, seq integer, before text, after text, cause text, primary key (shape, seq));
insert into step select name, 1, null, 'queued', null from shape;
insert into step select name, 2, 'queued', 'running', 'claim' from shape where last_claim is not null;
insert into step values
    ('done', 3, 'running', 'succeeded', null),
    ('retrying', 3, 'running', 'failed', 'failure'), ('retrying', 4, 'failed', 'queued', 'retry'),
    ('redriven', 3, 'running', 'failed', 'failure'), ('redriven', 4, 'failed', 'dead_letter', 'exhausted'),
    ('redriven', 5, 'dead_letter', 'queued', 'redriven'),
    ('retried', 3, 'running', 'failed', 'failure'), ('retried', 4, 'failed', 'queued', 'retry'),
    ('retried', 5, 'queued', 'running', 'claim'), ('retried', 6, 'running', 'succeeded', null),
    ('released', 3, 'running', 'queued', 'released'), ('released', 4, 'queued', 'running', 'claim'),
    ('released', 5, 'running', 'succeeded', null),
    ('later', 3, 'running', 'queued', 'later'), ('later', 4, 'queued', 'running', 'claim'),
    ('later', 5, 'running', 'succeeded', null),
    ('progressed', 3, 'running', 'running', 'progress'), ('progressed', 4, 'running', 'succeeded', null),
    ('dead', 3, 'running', 'failed', 'failure'), ('dead', 4, 'failed', 'queued', 'retry'),
    ('dead', 5, 'queued', 'running', 'claim'), ('dead', 6, 'running', 'failed', 'failure'),
    ('dead', 7, 'failed', 'dead_letter', 'exhausted'),
    ('gave_up', 3, 'running', 'failed', 'failure'), ('gave_up', 4, 'failed', 'dead_letter', 'gave_up'),
    ('canceled', 2, 'queued', 'canceled', 'cancel'),
    ('stopped', 3, 'running', 'running', 'cancel_requested'), ('stopped', 4, 'running', 'canceled', null);
create temporary table draft (
    n bigint, id uuid, org_id uuid, shape text, type text, queue text, is_handled boolean, payload jsonb, key text,
    created_at timestamptz, pace interval, owner text
);

-- name: drop_drafts
-- The connection may build again.
drop table draft, step, shape;

-- name: count_steps
-- How many events a job of each shape has.
select name, revision from shape;

-- name: draw_jobs
-- Draw up jobs: which shape, type and org number n has is a hash of n. A few orgs have most of the jobs. Ids and times
-- of creation ascend with n, over so many days that end an hour ago; a step takes 0.1 to 2 s.
insert into draft
select
    n,
    (lpad(to_hex((extract(epoch from made.at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8'
        || substr(hash, 4, 15))::uuid,
    ('00000000-0000-0000-0000-' || lpad(to_hex(1 + floor(%(orgs)s::bigint * power(draw.org, 3))::bigint), 12, '0'))
        ::uuid,
    drawn.name, kind.type, kind.queue, kind.type = any (%(handled)s::text[]),
    jsonb_build_object(
        'order', 'order-' || n, 'customer', 'customer-' || n %% 5000, 'amount', (n %% 100000) / 100.0,
        'note', substr(repeat(hash, 12), 1, 20 + (draw.size * 360)::integer)
    ),
    case when n %% 10 < 3 then 'order-' || n end, made.at, (1 + n %% 20) * interval '100 milliseconds',
    'worker-' || n %% 8 || '/' || substr(hash, 1, 16)
from generate_series(%(first)s::bigint, %(last)s::bigint) as n
cross join lateral (select md5(n::text) as hash) as hashed
cross join lateral (
    select
        (hashint8extended(n, 1) & 2147483647) / 2147483648.0::float8 as shape,
        (hashint8extended(n, 2) & 2147483647) / 2147483648.0::float8 as type,
        (hashint8extended(n, 3) & 2147483647) / 2147483648.0::float8 as org,
        (hashint8extended(n, 4) & 2147483647) / 2147483648.0::float8 as size
) as draw
cross join lateral (
    select duly.now() - interval '1 hour' - make_interval(days => %(days)s)
        + make_interval(days => %(days)s) * ((n - %(begin)s::bigint)::float8 / %(jobs)s::bigint) as at
) as made
join unnest(%(shapes)s::text[], %(above)s::float8[], %(below)s::float8[]) as drawn (name, above, below)
    on draw.shape >= drawn.above and draw.shape < drawn.below
cross join lateral (
    select
        (%(types)s::text[])[1 + floor(draw.type * cardinality(%(types)s::text[]))::integer] as type,
        (%(queues)s::text[])[1 + floor(draw.type * cardinality(%(types)s::text[]))::integer] as queue
) as kind;

-- name: add_jobs
-- The jobs as their last step left them. What a worker handles and would find due is due in a year.
insert into ledger.job (
    id, org_id, type, status, attempt, max_attempts, priority, idempotency_key, requested_by, created_at, updated_at,
    started_at, finished_at, last_error_code, last_error_message, queue, payload, result, run_at, starts, snoozes,
    lease_owner, lease_expires_at, settled_by, cancel_requested_at, stage, progress, progressed_at, request_digest,
    retain_until, revision, transition_from
)
select
    d.id, d.org_id, d.type, s.status, greatest(s.starts - 1, 0), s.max_attempts,
    case mod(d.n, 20) when 0 then 10 when 1 then -10 else 0 end, d.key,
    case when mod(d.n, 2) = 0 then 'user-' || mod(d.n, 1000) end, d.created_at, ended.at,
    case when s.last_claim is not null then d.created_at + d.pace end,
    case when s.status in ('succeeded', 'canceled', 'dead_letter') then ended.at end,
    failed.code, case when failed.code is not null then 'the service did not answer in 5 s' end, d.queue, d.payload,
    case when s.status = 'succeeded' and mod(d.n, 5) < 2 then jsonb_build_object('sent', true, 'number', d.n) end,
    case
        when d.is_handled and s.status = 'queued' then duly.now() + interval '1 year'
        when d.shape = 'due_later' then duly.now() + make_interval(days => 1 + (mod(d.n, 30))::integer)
        when d.shape = 'retrying' then duly.now() + make_interval(mins => 1 + (mod(d.n, 60))::integer)
        when d.shape = 'redriven' then ended.at
        else d.created_at
    end,
    s.starts, s.snoozes, case when s.status = 'running' then d.owner || '.' || s.last_claim end,
    case when s.status = 'running' then duly.now() + interval '1 day' end,
    case when s.status <> 'running' then d.owner || '.' || s.last_claim end,
    case when d.shape = 'stopped' then d.created_at + 2 * d.pace end,
    case when d.shape = 'progressed' then 'halfway' end, case when d.shape = 'progressed' then 50 end,
    case when d.shape = 'progressed' then d.created_at + 2 * d.pace end,
    case when d.key is not null then ledger.request_digest(d.type, d.queue, d.payload, null, null) end,
    case when s.status in ('succeeded', 'canceled', 'dead_letter') then ended.at + interval '30 days' end,
    s.revision, s.transition_from
from draft as d
join shape as s on s.name = d.shape
cross join lateral (select d.created_at + (s.revision - 1) * d.pace as at) as ended
cross join lateral (
    select case when d.shape in ('retrying', 'redriven', 'dead', 'gave_up') then 'TIMEOUT' end as code
) as failed
order by d.n;

-- name: add_job_events
-- Every step of every job, with the detail that the triggers would have written.
insert into ledger.job_event (id, job_id, org_id, seq, ts, prev_status, next_status, detail_json)
select
    ledger.event_id(d.id, t.seq), d.id, d.org_id, t.seq, d.created_at + (t.seq - 1) * d.pace, t.before, t.after,
    case t.cause
        when 'claim' then jsonb_build_object(
            'actor', d.owner || '.' || t.seq,
            'start', case when d.shape in ('retried', 'dead') and t.seq = 5 then 2 else 1 end
        )
        when 'failure' then jsonb_build_object(
            'actor', d.owner || '.' || t.seq - 1, 'code', 'TIMEOUT', 'message', 'the service did not answer in 5 s'
        )
        when 'retry' then jsonb_build_object('reason', 'retry', 'wait_seconds', 15)
        when 'exhausted' then jsonb_build_object('reason', 'exhausted', 'starts', s.max_attempts)
        when 'gave_up' then jsonb_build_object('reason', 'gave_up')
        when 'redriven' then jsonb_build_object('actor', 'user-1', 'reason', 'redriven')
        when 'released' then jsonb_build_object('actor', d.owner || '.' || t.seq - 1, 'reason', 'released')
        when 'later' then jsonb_build_object('actor', d.owner || '.' || t.seq - 1, 'reason', 'later', 'seconds', 0)
        when 'progress' then jsonb_build_object('stage', 'halfway', 'progress', 50)
        when 'cancel' then jsonb_build_object('actor', 'user-1')
        when 'cancel_requested' then jsonb_build_object('actor', 'user-1', 'reason', 'cancel_requested')
    end
from draft as d
join shape as s on s.name = d.shape
join step as t on t.shape = d.shape
order by d.n, t.seq;

-- name: clear_drafts
-- The next chunk begins anew.
truncate draft;

-- name: list_indexes
-- Indexes that no constraint needs: filling a table and indexing it afterwards takes a fraction of the time.
select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
from pg_index as i
where i.indrelid in ('ledger.job'::regclass, 'ledger.job_event'::regclass)
    and not exists (select from pg_constraint as c where c.conindid = i.indexrelid)
order by 1;

-- name: use_memory
-- Indexes are sorted in memory.
set maintenance_work_mem = '512MB';

-- name: add_schedules
-- Schedules that fire once a month, planned; half of them have something to book.
with made as (
    insert into scheduler.jobs (id, user_id, name, rule, first_run_at, created_at, updated_at, revision, channel)
    select
        n, u.user_id, 'schedule ' || n, 'cron: 0 10 1 * *', duly.now() - interval '400 days',
        duly.now() - interval '400 days',
        duly.now() - interval '400 days', 1, 'console'
    from generate_series(1, %(schedules)s) as n
    join duly.person as u on u.uid = 'user' || mod(n, (select count(*) from duly.person))
    returning id
),
booked as (
    insert into scheduler.expense_templates (job_id, amount, currency)
    select id, 5, 'EUR' from made where mod(id, 2) = 0
)
insert into scheduler.job_plans (job_id, plan_at, planned_until, next_at)
select id, duly.now() + interval '7 days', duly.now() - interval '9 days', duly.now() + interval '8 days' from made;

-- name: add_runs
-- Runs of the past year, each sent and confirmed, four of each schedule, with their keys and reminders.
with made as (
    insert into scheduler.job_runs (id, job_id, period_key, scheduled_at, sent_at, status, message_id, revision)
    select
        n, 1 + (n - 1) / 4, 'period ' || mod(n, 4), at.scheduled, at.scheduled, 'confirmed',
        md5('message' || n)::uuid, 3
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
    id, channel, recipient, kind, payload, dedupe_key, status, due_at, created_at, called_at, sent_at, starts,
    settled_by, revision
)
select
    r.message_id, 'console', u.uid, 'reminder.due', jsonb_build_object('job_run_id', r.id), 'reminder:' || r.id, 'sent',
    r.scheduled_at, r.scheduled_at, r.scheduled_at, r.scheduled_at, tries.starts,
    'worker-1/' || r.id || '.' || tries.revision - 1, tries.revision
from scheduler.job_runs as r
join scheduler.jobs as j on j.id = r.job_id
join duly.person as u on u.user_id = j.user_id
cross join lateral (
    select
        case when mod(r.id, 20) = 0 then 2 else 1 end as starts,
        case when mod(r.id, 20) = 0 then 5 else 3 end as revision
) as tries;

-- name: add_posts
-- Posts of the past, one for each person and day, each released, with its lock and its request.
with made as (
    insert into posts.posts (
        id, author_id, status, release_time, created_at, updated_at, daily_key, version, request_id,
        process_attempts, image_url,
        released_at, settled_by, revision
    )
    select
        (lpad(to_hex(1760000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
            || substr(md5(n::text), 4, 15))::uuid,
        who.author, 'RELEASED', at.made + interval '6 hours', at.made, at.made + interval '7 hours',
        posts.daily_key(who.author, at.made), 3, md5('request' || n)::uuid, 1, 'posts/00/' || n || '.jpg',
        at.made + interval '7 hours', 'worker-1/' || n, 3
    from (select count(*) as people from duly.person) as they
    cross join generate_series(1, %(posts)s) as n
    cross join lateral (select 'user' || mod(n, they.people) as author) as who
    cross join lateral (
        select date_trunc('day', duly.now(), 'UTC') - make_interval(days => 2 + (n / they.people)::int) as made
    )
        as at
    returning id, author_id, request_id, daily_key, created_at
),
locked as (
    insert into posts.daily_locks (id, created_at, post_id) select daily_key || '_UTC', created_at, id from made
)
insert into posts.idempotency_keys (author_id, request_id, request_digest, post_id, answer, created_at, expires_at)
select
    author_id, request_id, sha256(''), id, jsonb_build_object('postId', id), created_at,
    created_at + interval '24 hours'
from made;

-- name: add_captures
-- Two sessions of each day: the first shows two shifts, the second takes one away, moves one and brings one.
insert into schedule_ingest.capture_session (id, user_id, state, created_at, closed_at, settled_by, starts,
    revision, result)
select
    (lpad(to_hex(1760000000000 + 2 * d + s), 12, '0') || '7' || substr(md5(d::text), 1, 3) || '8'
        || substr(md5(d::text), 4, 15))::uuid,
    day.person, 'done', duly.now() - interval '9 days', duly.now() - interval '9 days', 'worker-1/' || d || '.' || s,
    1, 3,
    jsonb_build_object('outcome', 'changed', 'version', s, 'schedule_date', day.date)
from generate_series(1, %(days)s) as d
cross join generate_series(1, 2) as s
cross join lateral (select 1 + mod(d, 1000) as person, date '2020-01-01' + d / 1000 as date) as day
order by d, s;

-- name: add_days
-- What came of these sessions: versions, events, snapshots.
with session as (
    select
        s.id, s.user_id, (s.result ->> 'schedule_date')::date as schedule_date,
        (s.result ->> 'version')::integer as version,
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
    select
        user_id, schedule_date, version, id, jsonb_build_object('version', version),
        encode(sha256(convert_to('{"version":' || version || '}', 'UTF8')), 'hex'), 1
    from session
    order by settled_by
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
    event_id, user_id, schedule_date, event_type, location_fingerprint, customer_fingerprint, old_value_hash,
    new_value_hash,
    old_value, new_value, source_session_id, seq
)
select
    md5(s.id::text || step.seq)::uuid, s.user_id, s.schedule_date, step.kind, 'place ' || step.seq, 'customer',
    'before', 'after',
    case step.seq when 3 then shift.a when 4 then shift.b end,
    case step.seq when 1 then shift.a when 2 then shift.b when 4 then shift.later_b when 5 then shift.c end, s.id,
    step.seq
from session as s
join (
    values (1, 1, 'shift_added'), (1, 2, 'shift_added'), (2, 3, 'shift_removed'), (2, 4, 'shift_time_changed'),
        (2, 5, 'shift_added')
) as step (version, seq, kind) on step.version = s.version
cross join shift;

-- name: add_notifications
-- The notification of each first session.
insert into schedule_ingest.schedule_notification (
    notification_id, user_id, schedule_date, source_session_id, status, notification_type, message, event_ids,
    sent_at, delivery,
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
        'schedule' as machine, id::text as key, 1 as seq, created_at as at, null as before, status as after,
        null as actor,
        jsonb_build_object('rule', rule) as detail
    from scheduler.jobs
    union all
    select
        'run', r.id::text, step.seq, r.scheduled_at, step.before, step.after, null, jsonb_build_object('job', r.job_id)
    from scheduler.job_runs as r
    cross join (values (1, null, 'pending'), (2, 'pending', 'sent'), (3, 'sent', 'confirmed'))
        as step (seq, before, after)
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
        'post', p.id::text, step.seq, p.release_time, step.before, step.after,
        case when step.seq > 1 then p.settled_by end,
        jsonb_build_object('version', step.seq, 'attempts', step.attempts)
    from posts.posts as p
    cross join (
        values (1, null, 'PENDING', 0), (2, 'PENDING', 'PROCESSING', 1), (3, 'PROCESSING', 'RELEASED', 1)
    ) as step (seq, before, after, attempts)
    union all
    select
        'capture', s.id::text, step.seq, s.created_at, step.before, step.after,
        case when step.seq > 1 then s.settled_by end,
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
) as logged (machine, key, seq, at, before, after, actor, detail)
order by at + seq * interval '1 second';

-- name: count_events
-- How many events the invariants read.
select
    (select count(*) from ledger.job_event) + (select count(*) from duly.transition)
    + (select count(*) from schedule_ingest.schedule_event);

-- name: vacuum
-- As autovacuum would have left it.
vacuum (analyze);
