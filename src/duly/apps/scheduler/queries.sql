-- The scheduler. Statements of a request are limited to the schedules of one user; with a null user_id, an operator
-- sees all. Planning and reminding are for all schedules. The tables call a schedule's id job_id; the columns returned
-- to Python call it schedule_id.

-- Schedules -----------------------------------------------------------------------------------------------------------

-- name: create_schedule
-- The unique idempotency_key decides who created it; no row returned means that it existed. It starts now by default.
insert into scheduler.jobs
    (user_id, name, description, rule, first_run_at, advance_minutes, channel, catch_up, idempotency_key,
    request_digest)
values (
    %(user_id)s, %(name)s, %(description)s, %(rule)s, coalesce(%(first_run_at)s::timestamptz, duly.now()),
    %(advance_minutes)s, %(channel)s, %(catch_up)s, %(idempotency_key)s, %(digest)s
)
on conflict (user_id, idempotency_key) do nothing
returning id;

-- name: put_expense_template
-- Set the expense that confirming a run books from now on.
insert into scheduler.expense_templates as t (job_id, amount, currency, category, merchant, note)
select j.id, %(amount)s, %(currency)s, %(category)s, %(merchant)s, %(note)s
from scheduler.jobs as j
where j.id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
on conflict (job_id) do update
set amount = excluded.amount, currency = excluded.currency, category = excluded.category, merchant = excluded.merchant,
    note = excluded.note;

-- name: drop_expense_template
-- Book no expense from now on.
delete from scheduler.expense_templates as t
using scheduler.jobs as j
where t.job_id = %(schedule_id)s and j.id = t.job_id and (%(user_id)s::bigint is null or j.user_id = %(user_id)s);

-- name: find_by_idempotency_key
-- The schedule that a request created, with the digest of that request.
select id, request_digest from scheduler.jobs where user_id = %(user_id)s and idempotency_key = %(idempotency_key)s;

-- name: change_schedule
-- A null parameter leaves its column unchanged; triggers update the runs.
update scheduler.jobs
set name = coalesce(%(name)s::text, name),
    description = nullif(coalesce(%(description)s::text, description), ''),
    rule = coalesce(%(rule)s::text, rule),
    first_run_at = coalesce(%(first_run_at)s::timestamptz, first_run_at),
    advance_minutes = coalesce(%(advance_minutes)s::int, advance_minutes),
    channel = coalesce(%(channel)s::text, channel),
    catch_up = coalesce(%(catch_up)s::text, catch_up)
where id = %(schedule_id)s and (%(user_id)s::bigint is null or user_id = %(user_id)s) and status <> 'archived'
returning id;

-- name: set_schedule_status
-- Pause, resume or archive: the state machine rejects illegal transitions. A schedule in that state is not updated,
-- unless it is stuck: to resume it is to plan it again.
update scheduler.jobs as j set status = %(to)s
where j.id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s) and (
    j.status <> %(to)s
    or exists (
        select from scheduler.job_plans as p where p.job_id = j.id and p.state = 'stuck' and j.status = 'active'
    )
)
returning j.id;

-- name: find_schedule
-- One schedule of this user.
select
    j.id, j.user_id, person.uid, person.zone, j.name, j.description, j.rule, j.first_run_at, j.advance_minutes,
    j.channel, j.status, j.catch_up, j.created_at, j.updated_at, p.next_at, p.last_error as plan_error,
    (
        select jsonb_strip_nulls(jsonb_build_object(
            'amount', trim_scale(t.amount)::text, 'currency', t.currency, 'category', t.category,
            'merchant', t.merchant, 'note', t.note
        ))
        from scheduler.expense_templates as t
        where t.job_id = j.id
    ) as expense
from scheduler.jobs as j
join duly.person as person on person.user_id = j.user_id
left join scheduler.job_plans as p on p.job_id = j.id
where j.id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s);

-- name: list_schedules
-- A page of this user's schedules after a cursor, the oldest first.
select
    j.id, j.user_id, person.uid, person.zone, j.name, j.description, j.rule, j.first_run_at, j.advance_minutes,
    j.channel, j.status, j.catch_up, j.created_at, j.updated_at, p.next_at, p.last_error as plan_error,
    (
        select jsonb_strip_nulls(jsonb_build_object(
            'amount', trim_scale(t.amount)::text, 'currency', t.currency, 'category', t.category,
            'merchant', t.merchant, 'note', t.note
        ))
        from scheduler.expense_templates as t
        where t.job_id = j.id
    ) as expense
from scheduler.jobs as j
join duly.person as person on person.user_id = j.user_id
left join scheduler.job_plans as p on p.job_id = j.id
where j.id > %(after)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
    and (%(status)s::text is null or j.status = %(status)s)
order by j.id
limit %(limit)s;

-- name: add_manual_run
-- A run outside of the rule, due now; at most one per minute.
insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)
select j.id, 'fired-' || to_char(duly.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), duly.now(), duly.now()
from scheduler.jobs as j
where j.id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s) and j.status <> 'archived'
    and not exists (
        select from scheduler.job_run_keys as k
        where k.job_id = j.id
            and k.period_key = 'fired-' || to_char(duly.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"')
    )
returning id;

-- name: find_manual_run
-- The run outside of the rule of this minute.
select k.job_run_id as id
from scheduler.job_run_keys as k
join scheduler.jobs as j on j.id = k.job_id
where k.job_id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
    and k.period_key = 'fired-' || to_char(duly.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"');

-- Runs ----------------------------------------------------------------------------------------------------------------

-- name: find_run
-- One run of this user; job_run_keys has the monthly partition it is in.
select r.id, r.job_id as schedule_id, j.name, r.period_key, r.scheduled_at, r.status, r.remind_at, r.sent_at, r.reason,
    r.created_at, r.updated_at
from scheduler.job_run_keys as k
join scheduler.jobs as j on j.id = k.job_id
join scheduler.job_runs as r on r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
where k.job_run_id = %(run_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s);

-- name: list_runs
-- A page of runs of this user's schedules before a cursor, the latest first; the bounds prune monthly partitions.
select r.id, r.job_id as schedule_id, j.name, r.period_key, r.scheduled_at, r.status, r.remind_at, r.sent_at, r.reason,
    r.created_at, r.updated_at
from scheduler.job_runs as r
join scheduler.jobs as j on j.id = r.job_id
where (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
    and (%(schedule_id)s::bigint is null or r.job_id = %(schedule_id)s)
    and (%(status)s::text is null or r.status = %(status)s)
    and r.scheduled_at >= %(from_at)s and r.scheduled_at < %(to_at)s
    and (r.scheduled_at, r.id) < (%(before_at)s, %(before_id)s)
order by r.scheduled_at desc, r.id desc
limit %(limit)s;

-- name: list_upcoming
-- Open runs and next firings of this user, the soonest first.
select user_id, job_id as schedule_id, name, channel, job_run_id, period_key, scheduled_at, remind_at, status
from scheduler.upcoming
where (%(user_id)s::bigint is null or user_id = %(user_id)s)
order by scheduled_at, job_id
limit %(limit)s;

-- name: list_reminders
-- The messages that were sent about a run.
select m.id, m.job_run_id, m.sent_at, m.payload
from scheduler.reminders as m
join scheduler.job_run_keys as k on k.job_run_id = m.job_run_id
join scheduler.jobs as j on j.id = k.job_id
where m.job_run_id = %(run_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
order by m.sent_at, m.id
limit %(limit)s;

-- Answers -------------------------------------------------------------------------------------------------------------

-- name: answer_run
-- Accept one answer per run and apply its effects in one transaction; errors are reported by SQLSTATE.
select is_new, receipt from scheduler.answer(%(user_id)s, %(run_id)s, %(action)s, %(key)s, %(payload)s);

-- name: list_receipts
-- The answers to a run, in order; of more than the limit the latest, so that the final answer is among them.
select scheduler.build_receipt(latest.id) as receipt
from (
    select c.id
    from scheduler.confirmations as c
    join scheduler.job_run_keys as k on k.job_run_id = c.job_run_id
    join scheduler.jobs as j on j.id = k.job_id
    where c.job_run_id = %(run_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
    order by c.id desc
    limit %(limit)s
) as latest
order by latest.id;

-- name: reverse_expense
-- Reverse a booked expense by a second one; the run stays confirmed.
select is_new, expense_id from scheduler.reverse_expense(%(user_id)s, %(run_id)s, make_interval(secs => %(seconds)s));

-- name: list_expenses
-- A page of this user's expenses after a cursor, in the order of their ids.
select id, user_id, name, amount, currency, category, merchant, note, occurred_at, source_ref, reverses, created_at
from expense.expenses
where id > %(after)s and (%(user_id)s::bigint is null or user_id = %(user_id)s)
    and occurred_at >= %(from_at)s and occurred_at < %(to_at)s
order by id
limit %(limit)s;

-- name: find_expense
-- One expense of this user.
select id, user_id, name, amount, currency, category, merchant, note, occurred_at, source_ref, reverses, created_at
from expense.expenses
where id = %(expense_id)s and (%(user_id)s::bigint is null or user_id = %(user_id)s);

-- Planning ------------------------------------------------------------------------------------------------------------

-- name: find_planning_inputs
-- The inputs for planning these schedules.
select j.id as schedule_id, j.rule, person.zone, j.first_run_at as not_before, j.advance_minutes, p.planned_until,
    p.paused_at, p.resumed_at, duly.now() as now,
    (
        select count(*)
        from (
            select
            from scheduler.job_runs as r
            where r.job_id = given.job_id and r.status = 'pending'
            limit (select l.max_pending_runs from scheduler.limits() as l)
        ) as bounded
    ) as pending_runs
from unnest((select %(schedule_ids)s::bigint[])) as given (job_id)
cross join lateral (select * from scheduler.jobs as t where t.id = given.job_id limit 1) as j
cross join lateral (select * from scheduler.job_plans as t where t.job_id = given.job_id limit 1) as p
cross join lateral (select * from duly.person as t where t.user_id = j.user_id limit 1) as person;

-- name: add_runs
-- Insert runs for periods that have none; ordered by key, so that concurrent planners cannot deadlock.
insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)
select distinct on (g.job_id, g.period_key) g.job_id, g.period_key, g.scheduled_at, g.remind_at
from unnest(
    (select %(schedules)s::bigint[]), (select %(periods)s::text[]), (select %(scheduled)s::timestamptz[]),
    (select %(reminds)s::timestamptz[])
) as g (job_id, period_key, scheduled_at, remind_at)
where not exists (
    select from scheduler.job_run_keys as k where k.job_id = g.job_id and k.period_key = g.period_key
)
order by g.job_id, g.period_key, g.scheduled_at
returning id, job_id as schedule_id, period_key, scheduled_at;

-- name: find_existing_runs
-- The runs at other instants that already have the period keys of these firings.
select
    g.job_id as schedule_id, g.period_key, g.scheduled_at,
    k.job_run_id as existing_run_id, k.scheduled_at as existing_at
from unnest((select %(schedules)s::bigint[]), (select %(periods)s::text[]), (select %(scheduled)s::timestamptz[]))
    as g (job_id, period_key, scheduled_at)
join scheduler.job_run_keys as k
    on k.job_id = g.job_id and k.period_key = g.period_key and k.scheduled_at <> g.scheduled_at
order by g.job_id, g.scheduled_at;

-- name: note_runs
-- Write a note on pending runs.
update scheduler.job_runs as r set reason = g.note
from unnest((select %(ids)s::bigint[]), (select %(scheduled)s::timestamptz[]), (select %(notes)s::text[]))
    as g (id, scheduled_at, note)
where r.id = g.id and r.scheduled_at = g.scheduled_at and r.status = 'pending';

-- name: add_missed
-- Store missed firings that get no run as ranges.
insert into scheduler.missed_ranges (job_id, from_at, until_at, rule, zone, first_run_at, reason)
select g.job_id, g.from_at, g.until_at, g.rule, g.zone, g.first_run_at, g.reason
from unnest(
    (select %(schedules)s::bigint[]), (select %(from_at)s::timestamptz[]), (select %(until_at)s::timestamptz[]),
    (select %(rules)s::text[]), (select %(zones)s::text[]), (select %(not_before)s::timestamptz[]),
    (select %(reasons)s::text[])
) as g (job_id, from_at, until_at, rule, zone, first_run_at, reason)
order by g.job_id, g.from_at;

-- name: list_missed_ranges
-- The missed ranges of this user's schedule that end after an instant, the earliest first.
select m.job_id as schedule_id, m.from_at, m.until_at, m.rule, m.zone, m.first_run_at as not_before, m.reason
from scheduler.missed_ranges as m
join scheduler.jobs as j on j.id = m.job_id
where m.job_id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s)
    and m.until_at > %(ended_by)s
order by m.from_at
limit %(limit)s;

-- name: cancel_archived_runs
-- Cancel the next batch of open runs of an archived schedule.
select scheduler.cancel_archived_runs();

-- name: close_missed_runs
-- The status of a missed run is `skipped`, as after that answer; its reason, a code, precedes the note it may have.
update scheduler.job_runs as r set status = 'skipped', reason = left(concat_ws('; ', g.reason, r.reason), 500)
from unnest((select %(ids)s::bigint[]), (select %(scheduled)s::timestamptz[]), (select %(reasons)s::text[]))
    as g (id, scheduled_at, reason)
where r.id = g.id and r.scheduled_at = g.scheduled_at and r.status = 'pending';

-- Reminding -----------------------------------------------------------------------------------------------------------

-- name: find_due
-- Lock runs whose reminder is due (view scheduler.due_runs), skipping those locked by other workers.
select
    r.id, r.job_id as schedule_id, r.scheduled_at, r.remind_at, r.period_key, j.name, j.description, j.channel,
    person.uid, person.zone, person.language,
    duly.after_quiet(duly.now(), person.zone, person.quiet_from, person.quiet_until) as send_at,
    r.missed_reason,
    (
        select jsonb_build_object('amount', trim_scale(t.amount)::text, 'currency', t.currency)
        from scheduler.expense_templates as t
        where t.job_id = r.job_id
    ) as expense
from (
    select d.id, d.job_id, d.scheduled_at, d.remind_at, d.period_key, d.missed_reason
    from scheduler.due_runs as d
    order by d.remind_at, d.id
    limit %(limit)s
    for no key update skip locked
) as r
cross join lateral (select * from scheduler.jobs as t where t.id = r.job_id limit 1) as j
cross join lateral (select * from duly.person as t where t.user_id = j.user_id limit 1) as person
order by r.remind_at, r.id;

-- name: supersede_reminders
-- These schedules send a reminder now. When the message of an earlier run still waits for a channel that is not
-- configured, and a later run is due, fail that message and close its run as missed. The sender (outbox/sender.py)
-- stored the reason for waiting in last_error.
with superseded as (
    select o.id as message, r.id, r.scheduled_at
    from unnest((select %(schedules)s::bigint[])) as g (job_id)
    join scheduler.jobs as j on j.id = g.job_id and j.catch_up <> 'all'
    join scheduler.job_runs as r
        on r.job_id = g.job_id and r.status = 'pending' and r.scheduled_at < duly.now() and r.message_id is not null
    join duly.outbox as o
        on o.id = r.message_id and o.status = 'pending' and starts_with(o.last_error, %(waiting)s || ': ')
    where exists (
        select
        from scheduler.job_runs as later
        where later.job_id = g.job_id and later.scheduled_at > r.scheduled_at and later.scheduled_at <= duly.now()
    )
    order by o.id
    for no key update of o, r skip locked
),
withdrawn as (
    update duly.outbox as o set status = 'failed', last_error = %(reason)s::text
    where o.id in (select s.message from superseded as s)
)
update scheduler.job_runs as r
set status = 'skipped', reason = left(concat_ws('; ', %(reason)s::text, r.reason), 500)
from superseded as s
where r.id = s.id and r.scheduled_at = s.scheduled_at;

-- name: queue_reminders
-- Insert the messages and mark their runs in one statement: one message for each time that a run is due. When a message
-- is sent, the trigger outbox_note_sent finds its run in the payload, writes scheduler.reminders and makes the run
-- `sent`.
with given as (
    select g.run, g.scheduled_at, g.channel, g.recipient, g.payload, g.key, g.due_at, gen_random_uuid() as message
    from unnest(
        (select %(runs)s::bigint[]), (select %(scheduled)s::timestamptz[]), (select %(channels)s::text[]),
        (select %(recipients)s::text[]), (select %(payloads)b::jsonb[]), (select %(keys)s::text[]),
        (select %(due)s::timestamptz[])
    ) as g (run, scheduled_at, channel, recipient, payload, key, due_at)
),
queued as (
    insert into duly.outbox (id, channel, recipient, kind, payload, dedupe_key, due_at)
    select g.message, g.channel, g.recipient, 'reminder.due', g.payload, g.key, g.due_at
    from given as g
    order by g.due_at, g.run
)
update scheduler.job_runs as r set remind_at = null, message_id = g.message
from given as g
where r.id = g.run and r.scheduled_at = g.scheduled_at;

-- name: ensure_partitions
-- Create the partitions of the coming months.
select scheduler.ensure_partitions();
