-- What the measurements of the scheduler ask of a database beside what is measured.

-- Making --------------------------------------------------------------------------------------------------------------

-- name: disable_triggers
-- Rows that were there before are written as a restore writes them: without guards, logs and checks of keys.
set session_replication_role = replica;

-- name: enable_triggers
-- From now on everything is checked and logged again.
set session_replication_role = origin;

-- name: add_people
-- Whose schedules these are: a hundred each.
with made as (
    insert into duly.person (uid, user_id) select 'user' || n, n from generate_series(1, %(people)s) as n
    returning user_id
)
insert into "user".users (id) select user_id from made;

-- name: add_schedules
-- Schedules that fire once a month, planned, none of them due for a week.
with made as (
    insert into scheduler.jobs (user_id, name, rule, first_run_at, revision, channel)
    select u.user_id, 'schedule ' || n, 'cron: 0 10 1 * *', duly.now() - interval '40 days', 1, 'console'
    from generate_series(1, %(schedules)s) as n
    join duly.person as u on u.uid = 'user' || (1 + n %% %(people)s)
    returning id
)
insert into scheduler.job_plans (job_id, plan_at, planned_until, next_at)
select
    id, duly.now() + interval '7 days' + id * interval '1 second', duly.now() - interval '9 days',
    duly.now() + interval '8 days' + id * interval '1 second'
from made;

-- name: add_runs
-- Runs of the past, four minutes from each other, all confirmed; none is due.
insert into scheduler.job_runs (job_id, period_key, scheduled_at, status, revision)
select
    (select min(id) from scheduler.jobs), 'past ' || n,
    duly.now() - n * (interval '600 days' / %(runs)s), 'confirmed', 1
from generate_series(1, %(runs)s) as n;

-- name: create_partitions
-- The months that these runs lie in.
select scheduler.create_months((duly.now() - make_interval(days => 28 * 23))::date);

-- name: make_due
-- Of these schedules so many, evenly spread, are to be planned now: they fire every hour.
with due as (
    update scheduler.jobs set rule = 'cron: 0 * * * *', first_run_at = duly.now() + interval '1 minute'
    where id %% (select greatest(1, count(*) / %(due)s) from scheduler.jobs) = 0
        and id <= %(due)s * (select greatest(1, count(*) / %(due)s) from scheduler.jobs)
    returning id
)
update scheduler.job_plans set plan_at = duly.now(), planned_until = null, next_at = null
where job_id in (select id from due);

-- name: make_remindable
-- The runs that were just planned are due.
update scheduler.job_runs set remind_at = duly.now() where status = 'pending' and remind_at is not null;

-- name: add_messages
-- Messages that are due, each to another recipient.
insert into duly.outbox (channel, recipient, kind, payload)
select 'bench', 'user' || n, 'bench.word', jsonb_build_object('text', 'something to say', 'n', n)
from generate_series(1, %(messages)s) as n;

-- name: vacuum
-- As autovacuum would have left it.
vacuum (analyze);

-- Looking -------------------------------------------------------------------------------------------------------------

-- name: find_due
-- The contract's own query, word by word.
select id, job_id, scheduled_at
from scheduler.job_runs
where status = 'pending' and scheduled_at <= now()
order by scheduled_at
limit 100;

-- name: explain_due
-- How the server answers it.
explain (analyze, format json)
select id, job_id, scheduled_at
from scheduler.job_runs
where status = 'pending' and scheduled_at <= now()
order by scheduled_at
limit 100;

-- A bare program ------------------------------------------------------------------------------------------------------

-- name: bare_claim
-- Some messages become ours: the plain statement.
update duly.outbox set status = 'sending', lease_owner = 'bare', starts = starts + 1, called_at = clock_timestamp(),
    lease_expires_at = clock_timestamp() + interval '1 minute'
where id in (
    select id from duly.outbox where status = 'pending' and channel = 'bench' and due_at <= now()
    order by due_at limit %(limit)s for update skip locked
)
returning *;

-- name: bare_settle
-- They are sent.
update duly.outbox set status = 'sent', receipt = 'ok', lease_owner = null, lease_expires_at = null, settled_by = 'bare'
where id = any (%(keys)s) and lease_owner = 'bare';
