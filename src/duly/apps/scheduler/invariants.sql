-- Invariants of the scheduler; verify/invariants.sql says what an invariant is, and why subqueries end with `offset 0`.

-- name: runs_have_their_key
-- Every run has its key, with the same schedule, period and time.
select offender
from (
    select format('the key of run %%s is missing, or has another schedule, period or time', r.id) as offender
    from scheduler.job_runs as r
    left join scheduler.job_run_keys as k on k.job_run_id = r.id
    where (k.job_id, k.period_key, k.scheduled_at) is distinct from (r.job_id, r.period_key, r.scheduled_at)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: keys_have_their_run
-- Every key has its run, unless the partition of its month was dropped.
select format('the key of run %%s has no run', k.job_run_id) as offender
from scheduler.job_run_keys as k
where not exists (
        select from scheduler.job_runs as r where r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
    )
    and not exists (
        select from scheduler.dropped_months as d
        where d.month = date_trunc('month', k.scheduled_at at time zone 'UTC')
    )
order by 1
limit %(limit)s;

-- name: periods_have_one_run
-- A schedule has at most one run in a period.
select format('schedule %%s has %%s runs in %%s', job_id, count(*), period_key) as offender
from scheduler.job_runs
group by job_id, period_key
having count(*) > 1
order by 1
limit %(limit)s;

-- name: runs_match_the_end_of_their_log
-- The last transition of a run has its status and revision, and the log has `sent` exactly if the run was sent. A log
-- may be without a run in three cases: the run was withdrawn, so that its log ends with `cancelled`; its month was
-- dropped, so that only its key is left; or the log is older than every run.
select format(
    'run %%s is %%s at revision %%s, its log ends at %%s with transition %%s',
    coalesce(r.id::text, logged.key), coalesce(r.status, 'not there'), coalesce(r.revision, 0),
    coalesce(logged.next_status, 'nothing'), coalesce(logged.seq, 0)
) as offender
from scheduler.job_runs as r
full join (
    select newest.key, newest.seq, newest.next_status, newest.ts, newest.was_sent
    from (
        select t.key, t.seq, t.next_status, t.ts, lead(t.seq) over log is null as is_last,
            bool_or(t.next_status = 'sent') over log as was_sent
        from duly.transition as t
        where t.machine = 'run'
        window log as (partition by t.key order by t.seq)
    ) as newest
    where newest.is_last
) as logged on logged.key = r.id::text
where case when r.id is not null
    then (logged.seq, logged.next_status, logged.was_sent)
        is distinct from (r.revision, r.status, r.sent_at is not null)
    else logged.next_status <> 'cancelled'
        and logged.ts > (select min(there.created_at) from scheduler.job_runs as there)
        and not exists (select from scheduler.job_run_keys as k where k.job_run_id = logged.key::bigint)
end
order by 1
limit %(limit)s;

-- name: runs_follow_their_state_machine
-- Every transition of a run is an edge of its state machine.
select format(
    'run %%s: transition %%s goes from %%s to %%s',
    t.key, t.seq, coalesce(t.prev_status, 'nothing'), t.next_status
) as offender
from duly.transition as t
where t.machine = 'run' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'run'
)
order by t.key, t.seq
limit %(limit)s;

-- name: schedules_match_the_end_of_their_log
-- Every schedule has transitions, and the last one has its status, revision and rule. No schedule is missing that still
-- has a log, except from before the oldest existing one.
select format(
    'schedule %%s is %%s at revision %%s by the rule %%s, its log ends at %%s with transition %%s by the rule %%s',
    coalesce(j.id::text, newest.key), coalesce(j.status, 'not there'), coalesce(j.revision, 0),
    coalesce(j.rule, 'none'), coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0),
    coalesce(newest.rule, 'none')
) as offender
from scheduler.jobs as j
full join (
    select distinct on (t.key) t.key, t.seq, t.next_status, t.ts, t.detail_json ->> 'rule' as rule
    from duly.transition as t
    where t.machine = 'schedule'
    order by t.key desc, t.seq desc
) as newest on newest.key = j.id::text
where (newest.next_status, newest.seq, newest.rule) is distinct from (j.status, j.revision, j.rule)
    and (j.id is not null or newest.ts > (select min(there.created_at) from scheduler.jobs as there))
order by 1
limit %(limit)s;

-- name: schedules_follow_their_state_machine
-- Every transition of a schedule is an edge of its state machine; a change of the rule keeps the state.
select format('schedule %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'schedule' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'schedule'
)
order by t.key, t.seq
limit %(limit)s;

-- name: plans_are_leased_exactly_while_planning
-- A plan has a lease owner and a lease expiry exactly while it is being computed.
select format('the plan of schedule %%s is %%s, held by %%s until %%s', job_id, state, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from scheduler.job_plans
where num_nonnulls(lease_owner, lease_expires_at) <> case when state = 'planning' then 2 else 0 end
order by job_id
limit %(limit)s;

-- name: expired_leases_of_plans_are_recovered
-- While a worker that plans is alive, an expired lease of a plan is recovered within 15 minutes.
select format('the plan of schedule %%s was held by %%s until %%s, and was not recovered', p.job_id, p.lease_owner,
    p.lease_expires_at) as offender
from scheduler.job_plans as p
where p.state = 'planning' and p.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'scheduler' = any (w.work_types) and w.stopped_at is null
        and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by p.job_id
limit %(limit)s;

-- name: schedules_are_planned
-- Every schedule has a plan. That of an active schedule has a time, is being computed, is stuck, or its rule has ended;
-- that of another schedule has no time, unless it is stuck.
select format('the plan of schedule %%s, which is %%s, is missing or has a wrong time', j.id, j.status) as offender
from scheduler.jobs as j
left join scheduler.job_plans as p on p.job_id = j.id
where p.job_id is null
    or (j.status <> 'active' and p.plan_at is not null and p.state <> 'stuck')
    or (j.status = 'active' and p.state = 'waiting' and p.plan_at is null and p.next_at is not null)
order by 1
limit %(limit)s;

-- name: missed_ranges_do_not_overlap
-- A missed period is recorded once: the missed ranges of a schedule do not overlap.
select format(
    'schedule %%s: the missed range from %%s overlaps the one that ends at %%s',
    job_id, from_at, before
) as offender
from (
    select job_id, from_at, max(until_at) over log as before
    from scheduler.missed_ranges
    window log as (partition by job_id order by from_at rows between unbounded preceding and 1 preceding)
) as ordered
where from_at < before
order by job_id, from_at
limit %(limit)s;

-- name: answers_match_their_run
-- A run with a final answer is in the state of that answer.
select format('run %%s was answered %%s and is %%s', c.job_run_id, c.action, r.status) as offender
from scheduler.confirmations as c
join scheduler.job_run_keys as k on k.job_run_id = c.job_run_id
join scheduler.job_runs as r on r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
where r.status is distinct from case c.action
    when 'complete' then 'confirmed' when 'skip' then 'skipped' when 'cancel' then 'cancelled' else r.status
end
order by 1
limit %(limit)s;

-- name: confirmed_runs_have_an_answer
-- Every confirmed run has an answer.
select offender
from (
    select format('run %%s is confirmed, and no answer confirmed it', r.id) as offender
    from scheduler.job_runs as r
    where r.status = 'confirmed' and not exists (
        select from scheduler.confirmations as c where c.job_run_id = r.id and c.action = 'complete'
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: runs_are_answered_once
-- A run has at most one final answer.
select format('run %%s was answered %%s times', c.job_run_id, count(*)) as offender
from scheduler.confirmations as c
where c.action <> 'snooze'
group by c.job_run_id
having count(*) > 1
order by 1
limit %(limit)s;

-- name: answers_are_booked
-- An answer with an amount, or to a schedule with an expense, has an expense. Answers from before the last change
-- of the schedule are not checked, with a tolerance of one minute for concurrent changes.
select offender
from (
    select format(
        'run %%s was completed at %%s, and nothing was booked for it',
        c.job_run_id, c.confirmed_at
    ) as offender
    from scheduler.confirmations as c
    join scheduler.job_run_keys as k on k.job_run_id = c.job_run_id
    join scheduler.jobs as j on j.id = k.job_id
    left join scheduler.expense_templates as t on t.job_id = j.id
    where c.action = 'complete'
        and (c.payload ->> 'amount' is not null
            or (t.job_id is not null and c.confirmed_at > j.updated_at + interval '1 minute'))
        and not exists (
            select from expense.expenses as e where e.source_ref = 'scheduler:' || k.job_id || ':' || k.period_key
        )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: expenses_are_booked_once
-- A source has one expense, and an expense one reversal. No other expense has the user, time, amount and currency of an
-- answer's expense.
select format('%%s was booked %%s times', source_ref, count(*)) as offender
from expense.expenses
group by source_ref
having count(*) > 1
union all
select format('expense %%s was reversed %%s times', reverses, count(*))
from expense.expenses
where reverses is not null
group by reverses
having count(*) > 1
union all
select format(
    'expense %%s of %%s repeats expense %%s of %%s',
    again.id, again.source_ref, e.id, e.source_ref
)
from expense.expenses as e
join expense.expenses as again on (again.user_id, again.occurred_at, again.amount, again.currency)
    = (e.user_id, e.occurred_at, e.amount, e.currency)
where e.source_ref like 'scheduler:%%' and again.reverses is null and again.source_ref not like 'scheduler:%%'
order by 1
limit %(limit)s;

-- name: expenses_match_their_answer
-- An expense matches its answer: the user of the schedule, the time of the answer, and the amount and currency of
-- the answer, if it has them; else those of the schedule, unless it was changed since, with a tolerance of one minute
-- for concurrent changes. No amount is NaN.
select offender
from (
    select format(
        'expense %%s of %%s is %%s %%s of person %%s, and was answered as %%s by person %%s',
        e.id, e.source_ref, trim_scale(e.amount), e.currency, e.user_id, coalesce(c.payload::text, 'it is'), j.user_id
    ) as offender
    from expense.expenses as e
    join scheduler.job_run_keys as k on e.source_ref = 'scheduler:' || k.job_id || ':' || k.period_key
    join scheduler.jobs as j on j.id = k.job_id
    join scheduler.confirmations as c on c.job_run_id = k.job_run_id and c.action = 'complete'
    left join scheduler.expense_templates as t
        on t.job_id = j.id and c.confirmed_at > j.updated_at + interval '1 minute'
    where e.reverses is null and (
        e.user_id <> j.user_id or e.occurred_at <> c.confirmed_at or e.amount = 'NaN'
        or e.amount <> coalesce((c.payload ->> 'amount')::numeric, t.amount)
        or e.currency <> coalesce(c.payload ->> 'currency', t.currency)
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: expenses_have_their_answer
-- Every expense of a schedule has the answer that it was booked for.
select offender
from (
    select format('expense %%s was booked for no answer', e.id) as offender
    from expense.expenses as e
    where e.source_ref like 'scheduler:%%' and not exists (
        select
        from scheduler.job_run_keys as k
        join scheduler.confirmations as c on c.job_run_id = k.job_run_id and c.action = 'complete'
        where k.job_id = split_part(e.source_ref, ':', 2)::bigint
            and k.period_key = substr(e.source_ref, length('scheduler:' || split_part(e.source_ref, ':', 2)) + 2)
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: reversals_cancel_their_expense
-- A reversed expense and its reversal add up to zero.
select format('expense %%s does not reverse %%s completely', e.id, b.id) as offender
from expense.expenses as e
join expense.expenses as b on b.id = e.reverses
where e.amount + b.amount <> 0 or (e.user_id, e.currency) is distinct from (b.user_id, b.currency)
order by 1
limit %(limit)s;

-- name: sent_runs_have_a_reminder
-- Every run that was sent has a message that was sent.
select offender
from (
    select format('run %%s was sent, and has no reminder', r.id) as offender
    from scheduler.job_runs as r
    where r.sent_at is not null and not exists (select from scheduler.reminders as m where m.job_run_id = r.id)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: reminders_go_to_their_user
-- A reminder of a run, as long as the run has its key, is addressed to the person whose user_id its schedule has, or to
-- user:<id> where that user had no person yet.
select offender
from (
    select format('message %%s about run %%s is for %%s, and the schedule is of %%s', o.id, o.payload ->> 'job_run_id',
        o.recipient, p.uid) as offender
    from duly.outbox as o
    join scheduler.job_run_keys as k on k.job_run_id = (o.payload ->> 'job_run_id')::bigint
    join scheduler.jobs as j on j.id = k.job_id
    join duly.person as p on p.user_id = j.user_id
    where o.kind = 'reminder.due' and o.recipient not in (p.uid, 'user:' || j.user_id)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: no_run_of_this_month_is_in_the_future_partition
-- A run of this month or the next lies in the partition of its month, not in the open-ended one for the future. (That
-- for the past ends where the first month begins: see partitions_cover_all_time.)
select format('run %%s of %%s lies in the future partition', r.id, r.scheduled_at) as offender
from scheduler.job_runs_future as r
where r.scheduled_at >= date_trunc('month', duly.now(), 'UTC')
    and r.scheduled_at < date_trunc('month', duly.now(), 'UTC') + interval '2 months'
order by 1
limit %(limit)s;

-- name: partitions_cover_all_time
-- Each partition begins where the one before it ends, from the past one to the future one; between them is every month
-- in UTC by its name. Each has the triggers that log and limit runs.
select format('the partition %%s (from %%s to %%s) %%s', coalesce(p.name, 'after the last'), p.first_at, p.end_at, case
    when p.end_at is null then 'is no range of time'
    when p.nth = 1 and (p.first_at <> '-infinity' or p.name <> 'job_runs_past') then 'is not the past partition'
    when p.nth = p.parts and (p.end_at <> 'infinity' or p.name <> 'job_runs_future') then 'is not the future partition'
    when p.first_at is distinct from p.before_at then 'leaves a gap before it'
    when p.triggers <> 3 then 'lacks a trigger'
    else 'is not a month'
end) as offender
from (
    select q.name, q.first_at, q.end_at, row_number() over parts as nth, count(*) over () as parts,
        coalesce(lag(q.end_at) over parts, '-infinity') as before_at,
        (
            select count(*) from pg_catalog.pg_trigger as t
            where t.tgrelid = to_regclass('scheduler.' || quote_ident(q.name)) and t.tgenabled in ('O', 'A')
                and t.tgname in ('job_runs_timeline_insert', 'job_runs_timeline_update', 'job_runs_limits')
        ) as triggers
    from scheduler.list_partitions() as q
    window parts as (order by q.first_at, q.name)
) as p
where p.end_at is null or p.first_at <> p.before_at or p.triggers <> 3 or not case
    when p.nth = 1 then p.name = 'job_runs_past' and p.first_at = '-infinity'
    when p.nth = p.parts then p.name = 'job_runs_future' and p.end_at = 'infinity'
    else p.name = 'job_runs_' || to_char(p.first_at at time zone 'UTC', 'YYYY_MM')
        and p.first_at = date_trunc('month', p.first_at, 'UTC')
        and p.end_at at time zone 'UTC' = p.first_at at time zone 'UTC' + interval '1 month'
end
order by 1
limit %(limit)s;
