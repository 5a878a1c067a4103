-- The functions of the scheduler and of the expenses.
--
-- duly.now() is when the statement began, and is compared with due times; duly.clock() is the current time, and is
-- written. Both are in db/functions.sql.
--
-- Triggers, beside those of guards.sql (state machine and timeline) and those that set updated_at:
--   scheduler.jobs        jobs_person, jobs_limits_insert, jobs_limits_update, jobs_create_plan, jobs_change_plan
--   scheduler.job_runs    job_runs_key, job_runs_remind_at, job_runs_delete_key, job_runs_limits
--   expense.expenses      is_append_only, is_not_emptied, expenses_reversal
--   duly.person           person_user_id, person_user, person_link_user, person_follow_zone
--   duly.outbox           outbox_note_sent
--
-- Errors, which db/error_table.py translates: DU001 illegal transition (guards.sql), DU002 key reused, DU005 no such
-- run, DU006 answered already, DU007 closed without an answer, DU008 nothing to reverse, DU009 reminder not sent, DU010
-- limit reached.

create or replace trigger is_append_only before update or delete on expense.expenses
    for each row execute function duly.refuse_change();
create or replace trigger is_not_emptied before truncate on expense.expenses
    for each statement execute function duly.refuse_change();

-- Users ---------------------------------------------------------------------------------------------------------------
-- A schedule belongs to a row of "user".users, and each such row to a person. Where duly created that table, a person
-- gets a row in it; where it belongs to others, nothing is written to it, and a user who gets a schedule before
-- `duly people link` becomes the person user:<id>.

create or replace function scheduler.owns_users() returns boolean
    language sql stable set search_path = pg_catalog, pg_temp
    as $$
    select exists (
        select
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        where (n.nspname, c.relname) = ('user', 'users')
            and starts_with(obj_description(c.oid, 'pg_class'), 'Created by duly')
    )
    $$;
comment on function scheduler.owns_users() is 'Whether duly created "user".users; its comment says so.';

create or replace function scheduler.set_user_id() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    if scheduler.owns_users() then
        new.user_id := new.id;
        while exists (select from duly.person as p where p.user_id = new.user_id) loop
            new.user_id := nextval('duly.person_id_seq');
        end loop;
    end if;
    return new;
end
$$;
comment on function scheduler.set_user_id() is 'A new person has a user of the same id, unless that one is taken.';
create or replace trigger person_user_id before insert on duly.person
    for each row when (new.user_id is null) execute function scheduler.set_user_id();

create or replace function scheduler.add_user() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    if scheduler.owns_users() then
        insert into "user".users (id) values (new.user_id) on conflict do nothing;
    end if;
    return null;
end
$$;
comment on function scheduler.add_user() is 'Adds the user of a new person to the table that duly created.';
create or replace trigger person_user after insert on duly.person
    for each row when (new.user_id is not null) execute function scheduler.add_user();

create or replace function scheduler.link_user() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    if not exists (select from "user".users as u where u.id = new.user_id) then
        raise exception 'there is no user % in "user".users', new.user_id using errcode = 'DU005';
    end if;
    -- The person that a schedule created for this user gives way; messages that still wait go to the new one.
    set constraints scheduler.fk_jobs_person_user_id deferred;
    delete from duly.person as p where p.uid = 'user:' || new.user_id and p.user_id = new.user_id and p.id <> new.id;
    if found then
        update duly.outbox as o set recipient = new.uid
        where o.recipient = 'user:' || new.user_id and o.status = 'pending';
    end if;
    return new;
end
$$;
comment on function scheduler.link_user() is
    'A person can be linked to a user that exists, and takes the place of the person user:<id>. DU005 no such user.';
create or replace trigger person_link_user before update of user_id on duly.person
    for each row when (new.user_id is distinct from old.user_id and new.user_id is not null)
    execute function scheduler.link_user();

create or replace function scheduler.ensure_person() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into duly.person (uid, user_id)
    select 'user:' || u.id, u.id
    from "user".users as u
    where u.id = new.user_id and not exists (select from duly.person as p where p.user_id = u.id)
    on conflict (uid) do update set user_id = excluded.user_id where person.user_id is null;
    return new;
end
$$;
comment on function scheduler.ensure_person() is
    'A user who gets a schedule and belongs to no person becomes the person user:<id>.';
create or replace trigger jobs_person before insert on scheduler.jobs
    for each row execute function scheduler.ensure_person();

-- Schedules -----------------------------------------------------------------------------------------------------------
create or replace function scheduler.tg_set_updated_at() returns trigger
    language plpgsql
    as $$
begin
    new.updated_at := duly.clock();
    return new;
end
$$;
comment on function scheduler.tg_set_updated_at() is 'Sets updated_at, whatever the caller wrote.';
create or replace trigger trg_jobs__upd before update on scheduler.jobs
    for each row execute function scheduler.tg_set_updated_at();

-- Limits: how much one person, or one schedule, may store -------------------------------------------------------------

create or replace function scheduler.limits(out max_pending_runs int, out max_schedules int, out max_past_years int)
    language sql immutable parallel safe
    as $$ select 2000, 200, 10 $$;
comment on function scheduler.limits() is
    'Pending runs of a schedule, schedules of a person that are not archived, and years that first_run_at may lie '
    'back.';

create or replace function scheduler.check_schedule_limits() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    limits record;
begin
    select * into limits from scheduler.limits();
    if new.first_run_at < duly.now() - make_interval(years => limits.max_past_years) then
        -- The table has no constraint of this name: the error table of Python reads it (db/error_table.py).
        raise exception 'first_run_at: may lie at most % years back, not at %', limits.max_past_years, new.first_run_at
            using errcode = 'check_violation', constraint = 'ck_jobs__first_run_at';
    end if;
    if tg_op = 'UPDATE' then
        return null;
    end if;
    -- Requests of one person wait for each other here, so that two cannot both create the last one allowed.
    perform pg_advisory_xact_lock(hashtextextended('scheduler.jobs of ' || new.user_id, 0));
    if limits.max_schedules < (
        select count(*) from scheduler.jobs as j where j.user_id = new.user_id and j.status <> 'archived'
    ) then
        raise exception 'person % has % schedules, which is the limit', new.user_id, limits.max_schedules
            using errcode = 'DU010', hint = 'archive one that is no longer needed';
    end if;
    return null;
end
$$;
comment on function scheduler.check_schedule_limits() is
    'A person has a limited number of schedules, and none begins longer ago than the limit. DU010 at the limit.';
create or replace trigger jobs_limits_insert after insert on scheduler.jobs
    for each row execute function scheduler.check_schedule_limits();
create or replace trigger jobs_limits_update after update on scheduler.jobs
    for each row when (new.first_run_at < old.first_run_at) execute function scheduler.check_schedule_limits();
create or replace trigger trg_job_runs__upd before update on scheduler.job_runs
    for each row execute function scheduler.tg_set_updated_at();

create or replace function scheduler.write_run_key() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into scheduler.job_run_keys (job_run_id, job_id, period_key, scheduled_at)
    values (new.id, new.job_id, new.period_key, new.scheduled_at);
    return new;
end
$$;
comment on function scheduler.write_run_key() is
    'Writes a run''s key before the run: a second run of a period is refused.';
create or replace trigger job_runs_key before insert on scheduler.job_runs
    for each row execute function scheduler.write_run_key();

create or replace function scheduler.fill_remind_at() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    select new.scheduled_at - make_interval(mins => j.advance_minutes) into new.remind_at
    from scheduler.jobs as j
    where j.id = new.job_id and j.status <> 'archived';
    return new;
end
$$;
comment on function scheduler.fill_remind_at() is
    'A run inserted without remind_at gets scheduled_at less advance_minutes; none if its schedule is archived.';
create or replace trigger job_runs_remind_at before insert on scheduler.job_runs
    for each row when (new.remind_at is null) execute function scheduler.fill_remind_at();

create or replace function scheduler.delete_run_key() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    delete from scheduler.job_run_keys as k where k.job_run_id = old.id;
    if old.message_id is not null then
        with unsent as (
            select o.id from duly.outbox as o
            where o.id = old.message_id and o.status = 'pending'
            for update skip locked
        )
        update duly.outbox as o set status = 'failed', last_error = 'its run was deleted before it was sent'
        where o.id in (select id from unsent);
    end if;
    return null;
end
$$;
comment on function scheduler.delete_run_key() is
    'Deleting a run deletes its key, and by the foreign keys its reminders and confirmations; an unsent message is '
    'withdrawn.';
create or replace trigger job_runs_delete_key after delete on scheduler.job_runs
    for each row execute function scheduler.delete_run_key();

create or replace function scheduler.check_run_limits() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    max_pending_runs constant int := (select l.max_pending_runs from scheduler.limits() as l);
    full_schedule bigint;
begin
    select j.job_id into full_schedule
    from (select distinct m.job_id from new_rows as m) as j
    cross join lateral (
        select count(*) as pending
        from (
            select
            from scheduler.job_runs as r
            where r.job_id = j.job_id and r.status = 'pending'
            limit max_pending_runs + 1
        ) as bounded
    ) as counted
    where counted.pending > max_pending_runs
    limit 1;
    if found then
        raise exception 'schedule % has more than % pending runs, which is the limit', full_schedule, max_pending_runs
            using errcode = 'DU010', hint = 'start a worker that reminds of them: duly worker --only scheduler,outbox';
    end if;
    return null;
end
$$;
comment on function scheduler.check_run_limits() is
    'A schedule has a limited number of pending runs. DU010 at the limit.';
create or replace trigger job_runs_limits after insert on scheduler.job_runs
    referencing new table as new_rows
    for each statement execute function scheduler.check_run_limits();
create or replace trigger trg_reminders__upd before update on scheduler.reminders
    for each row execute function scheduler.tg_set_updated_at();
create or replace trigger trg_confirmations__upd before update on scheduler.confirmations
    for each row execute function scheduler.tg_set_updated_at();

create or replace function expense.check_reversal() returns trigger
    language plpgsql
    as $$
begin
    if not exists (
        select from expense.expenses as e
        where e.id = new.reverses and e.reverses is null and e.amount = -new.amount
            and (e.user_id, e.currency) = (new.user_id, new.currency)
    ) then
        -- The table has no constraint of this name: it tells callers what was refused.
        raise exception 'a reversal of expense % has its user and currency and its amount negated, and reverses no '
            'reversal', new.reverses
            using errcode = 'check_violation', constraint = 'ck_expenses__reverses';
    end if;
    return new;
end
$$;
comment on function expense.check_reversal() is 'A reversal cancels exactly one expense, in full.';
create or replace trigger expenses_reversal before insert on expense.expenses
    for each row when (new.reverses is not null) execute function expense.check_reversal();

create or replace function scheduler.add_partition_triggers(part regclass) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
begin
    execute format('create trigger job_runs_timeline_insert after insert on %s referencing new table as new_rows'
        ' for each statement execute function scheduler.job_runs_timeline()', part);
    execute format('create trigger job_runs_timeline_update after update on %s referencing new table as new_rows'
        ' for each statement execute function scheduler.job_runs_timeline()', part);
    execute format('create trigger job_runs_limits after insert on %s referencing new table as new_rows'
        ' for each statement execute function scheduler.check_run_limits()', part);
end
$$;
comment on function scheduler.add_partition_triggers(regclass) is
    'Give a partition the statement triggers of job_runs, which do not fire for a statement that names the partition.';

-- Partitions: every instant has one. The months follow each other without a gap, between two open-ended partitions: the
-- past partition has what is before the first month, the future partition what is after the last. So no run is ever
-- refused for its time. A month is split off one of the two, and the past partition takes its place when it is dropped,
-- in one transaction that locks job_runs for a moment.

create or replace function scheduler.list_partitions(
    out name text, out first_at timestamptz, out end_at timestamptz
) returns setof record
    language sql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO'
    as $$
    select c.relname, bounds.texts[1]::timestamptz, bounds.texts[2]::timestamptz
    from pg_inherits as i
    join pg_class as c on c.oid = i.inhrelid
    left join lateral regexp_match(
        replace(replace(pg_get_expr(c.relpartbound, c.oid), 'MINVALUE', '''-infinity'''), 'MAXVALUE', '''infinity'''),
        'FROM \(''(.+)''\) TO \(''(.+)''\)'
    ) as bounds (texts) on true
    where i.inhparent = 'scheduler.job_runs'::regclass
    order by 2, 1
    $$;
comment on function scheduler.list_partitions() is
    'The partitions of job_runs in order: the past one from -infinity, the months, the future one to infinity.';

create or replace function scheduler.lock_partitions() returns void
    language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
    as $$
begin
    -- Whatever reads or writes runs queues behind a lock that waits: each try is short, and pauses after it.
    for nth in 1..15 loop
        begin
            -- In the order in which a change of a schedule locks, so that there is no deadlock.
            lock table scheduler.jobs in share row exclusive mode;
            lock table only scheduler.job_runs in access exclusive mode;
            return;
        exception when lock_not_available then
            if nth = 15 then
                raise;
            end if;
        end;
        perform pg_sleep(0.1);
    end loop;
end
$$;
comment on function scheduler.lock_partitions() is
    'Lock job_runs for a change of its partitions within five seconds, or fail with lock_not_available.';

create or replace function scheduler.attach_partition(part text, first_at timestamptz, end_at timestamptz) returns void
    language plpgsql set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '3s'
    as $$
begin
    execute format(
        'alter table scheduler.job_runs attach partition scheduler.%I for values from (%s) to (%s)', part,
        case when isfinite(first_at) then quote_literal(first_at) else 'minvalue' end,
        case when isfinite(end_at) then quote_literal(end_at) else 'maxvalue' end
    );
end
$$;

create or replace function scheduler.create_months(month date) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '3s'
    as $$
declare
    max_months constant int := 120;
    wanted_at constant timestamptz := date_trunc('month', month::timestamp) at time zone 'UTC';
    open_ended record;
    first_at timestamptz;
    end_at timestamptz;
    month_at timestamptz;
    part text;
    dropped date;
    made int := 0;
begin
    for nth in 1..2 loop  -- without a lock, and again with it: another transaction may have made the month meanwhile
        select * into open_ended
        from scheduler.list_partitions() as p
        where p.first_at <= wanted_at and p.end_at > wanted_at;
        if isfinite(open_ended.first_at) and isfinite(open_ended.end_at) then
            return 0;  -- the month exists
        end if;
        if nth = 1 then
            perform scheduler.lock_partitions();
        end if;
    end loop;
    if open_ended.name is null then  -- a gap, where a month was dropped by hand
        select max(p.end_at) filter (where p.end_at <= wanted_at), min(p.first_at) filter (where p.first_at > wanted_at)
        into first_at, end_at
        from scheduler.list_partitions() as p;
    elsif isfinite(open_ended.end_at) then
        first_at := wanted_at;
        end_at := open_ended.end_at;
    else
        first_at := open_ended.first_at;
        end_at := wanted_at + interval '1 month';
    end if;
    if (first_at + make_interval(months => max_months) < end_at) is not false then
        raise exception 'more than % months lie between % and the existing months', max_months,
            to_char(wanted_at, 'YYYY-MM') using errcode = 'invalid_parameter_value';
    end if;
    select d.month into dropped from scheduler.dropped_months as d where d.month >= first_at::date order by 1 limit 1;
    if found then
        raise exception 'the month % was dropped, and its periods cannot run again', to_char(dropped, 'YYYY-MM')
            using errcode = 'invalid_parameter_value';
    end if;
    if open_ended.name is not null then
        execute format('alter table scheduler.job_runs detach partition scheduler.%I', open_ended.name);
    end if;
    for month_at in select generate_series(first_at, end_at - interval '1 month', interval '1 month') loop
        part := 'job_runs_' || to_char(month_at, 'YYYY_MM');
        execute format(
            'create table scheduler.%I (like scheduler.job_runs including defaults including constraints)', part
        );
        if open_ended.name is not null then
            -- Neither table has the triggers of job_runs at this moment: moving a run is no transition.
            execute format('with moved as (delete from scheduler.%I as r'
                ' where r.scheduled_at >= $1 and r.scheduled_at < $2 returning *)'
                ' insert into scheduler.%I select * from moved', open_ended.name, part)
                using month_at, month_at + interval '1 month';
        end if;
        perform scheduler.attach_partition(part, month_at, month_at + interval '1 month');
        perform scheduler.add_partition_triggers(('scheduler.' || quote_ident(part))::regclass);
        made := made + 1;
    end loop;
    if isfinite(open_ended.end_at) then
        perform scheduler.attach_partition(open_ended.name, open_ended.first_at, first_at);
    elsif open_ended.name is not null then
        perform scheduler.attach_partition(open_ended.name, end_at, open_ended.end_at);
    end if;
    return made;
end
$$;
comment on function scheduler.create_months(date) is
    'Create the UTC month of this day and those between it and the existing months, with the runs of an open-ended '
    'partition that lie in them; return how many.';

create or replace function scheduler.ensure_partitions(ahead int default 3) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
    as $$
declare
    last_at constant timestamptz := date_trunc('month', duly.now()) + make_interval(months => ahead);
    gap record;
    future_at timestamptz;
    made int := 0;
begin
    if ahead is null or ahead not between 0 and 120 then
        raise exception 'partitions are created for 0 to 120 months ahead, not %', coalesce(ahead::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    for gap in
        select p.next_at - interval '1 month' as last_at
        from (
            select q.end_at, lead(q.first_at) over (order by q.first_at) as next_at
            from scheduler.list_partitions() as q
        ) as p
        where p.next_at > p.end_at  -- a month was dropped by hand
    loop
        made := made + scheduler.create_months(gap.last_at::date);
    end loop;
    select p.first_at into future_at from scheduler.list_partitions() as p where p.end_at = 'infinity';
    -- After a jump of the clock by more than ten years runs lie in the future partition: no months are made for it.
    if future_at <= last_at and last_at < future_at + interval '10 years' then
        made := made + scheduler.create_months(last_at::date);
    end if;
    return made;
end
$$;
comment on function scheduler.ensure_partitions(int) is
    'Create the missing months up to this one and the next ones; return how many.';

create or replace function scheduler.drop_month(month date) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '3s'
    as $$
declare
    past record;
    dropped record;
    runs bigint;
begin
    perform scheduler.lock_partitions();
    select * into past from scheduler.list_partitions() as p where p.first_at = '-infinity';
    select * into dropped from scheduler.list_partitions() as p where p.first_at = past.end_at and isfinite(p.end_at);
    if dropped.first_at is distinct from date_trunc('month', month::timestamp) at time zone 'UTC' then
        raise exception '% is not the first month', to_char(month, 'YYYY-MM')
            using errcode = 'invalid_parameter_value', hint = 'months are dropped from the first one on';
    end if;
    execute format('select count(*) from scheduler.%I', dropped.name) into runs;
    insert into scheduler.dropped_months (month, runs) values (dropped.first_at::date, runs);
    execute format('alter table scheduler.job_runs detach partition scheduler.%I', dropped.name);
    execute format('drop table scheduler.%I', dropped.name);
    execute format('alter table scheduler.job_runs detach partition scheduler.%I', past.name);
    perform scheduler.attach_partition(past.name, past.first_at, dropped.end_at);
    return runs;
end
$$;
comment on function scheduler.drop_month(date) is
    'Drop the first month with its runs, whose keys stay, and return how many; the past partition takes its place.';

-- Runs of a schedule that is changed ----------------------------------------------------------------------------------
-- Any change, by any program. A worker that is planning the schedule loses its lease.

create or replace function scheduler.withdraw_runs(schedule_id bigint, reason text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    ids bigint[];
    earliest timestamptz;
begin
    select array_agg(o.id), min(o.scheduled_at) into ids, earliest from (
        select r.id, r.scheduled_at
        from scheduler.job_runs as r
        where r.job_id = withdraw_runs.schedule_id and r.status = 'pending' and r.remind_at > duly.now()
        order by r.id
        for update
    ) as o;
    if ids is null then
        return;
    end if;
    -- The log keeps the run; its period is free for another, because no reminder was sent.
    update scheduler.job_runs as r set status = 'cancelled', reason = withdraw_runs.reason
    where r.id = any (ids) and r.scheduled_at >= earliest;
    delete from scheduler.job_runs as r where r.id = any (ids) and r.scheduled_at >= earliest;
    update scheduler.job_plans as p
    set planned_until = least(p.planned_until, earliest - interval '1 microsecond'),
        next_at = least(p.next_at, earliest)
    where p.job_id = withdraw_runs.schedule_id;
end
$$;
comment on function scheduler.withdraw_runs(bigint, text) is
    'Delete the pending runs of a schedule whose reminders are not due yet.';

create or replace function scheduler.end_rule(
    schedule_id bigint, rule text, first_run_at timestamptz, is_paused boolean
) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into scheduler.missed_ranges (job_id, from_at, until_at, rule, zone, first_run_at, reason)
    select
        plan.job_id, greatest(part.from_at, plan.from_at), least(part.until_at, duly.now()), end_rule.rule, plan.zone,
        end_rule.first_run_at, part.reason
    from (
        select
            p.job_id, person.zone,
            coalesce(p.planned_until + interval '1 microsecond', end_rule.first_run_at) as from_at,
            coalesce(p.paused_at, '-infinity') as paused_at,
            case when end_rule.is_paused then 'infinity' else coalesce(p.resumed_at, '-infinity') end as resumed_at
        from scheduler.job_plans as p
        join scheduler.jobs as j on j.id = p.job_id
        join duly.person as person on person.user_id = j.user_id
        where p.job_id = end_rule.schedule_id and (p.next_at <= duly.now() or p.next_at is null)
    ) as plan
    cross join lateral (
        values
            ('-infinity', plan.paused_at, 'DUE_BEFORE_PAUSE'),
            (plan.paused_at, plan.resumed_at, 'PAUSED'),
            (plan.resumed_at, 'infinity', 'RULE_CHANGED')
    ) as part (from_at, until_at, reason)
    where greatest(part.from_at, plan.from_at) < least(part.until_at, duly.now());
    update scheduler.job_plans as p
    set planned_until = duly.now() - interval '1 microsecond', next_at = null
    where p.job_id = end_rule.schedule_id;
end
$$;
comment on function scheduler.end_rule(bigint, text, timestamptz, boolean) is
    'A former rule fires no more: those of its firings that no worker has planned are recorded as missed ranges.';

create or replace function scheduler.cancel_open_runs(schedule_id bigint, reason text, batch int) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    ids bigint[];
    messages uuid[];
    earliest timestamptz;
begin
    select array_agg(o.id), array_agg(o.message_id), min(o.scheduled_at) into ids, messages, earliest from (
        select r.id, r.scheduled_at, r.message_id
        from scheduler.job_runs as r
        where r.job_id = cancel_open_runs.schedule_id and r.status in ('pending', 'sent', 'snoozed')
        limit batch
        for no key update
    ) as o;
    if ids is null then
        return 0;
    end if;
    with unsent as (
        select o.id from duly.outbox as o where o.status = 'pending' and o.id = any (messages) for update skip locked
    )
    update duly.outbox as o set status = 'failed', last_error = cancel_open_runs.reason
    where o.id in (select id from unsent);
    update scheduler.job_runs as r set status = 'cancelled', reason = cancel_open_runs.reason
    where r.id = any (ids) and r.scheduled_at >= earliest and r.status in ('pending', 'sent', 'snoozed');
    return cardinality(ids);
end
$$;
comment on function scheduler.cancel_open_runs(bigint, text, int) is
    'Cancel open runs of a schedule, at most batch, and withdraw their unsent messages; return how many.';

create or replace function scheduler.cancel_archived_runs(batch int default 500) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    schedule_id bigint;
    cancelled int;
begin
    select p.job_id into schedule_id
    from scheduler.job_plans as p
    where p.is_closing
    order by p.job_id
    limit 1
    for update skip locked;
    if not found then
        return 0;
    end if;
    cancelled := scheduler.cancel_open_runs(schedule_id, 'ARCHIVED', batch);
    if cancelled < batch then
        update scheduler.job_plans as p set is_closing = false where p.job_id = schedule_id;
    end if;
    return greatest(cancelled, 1);  -- of this schedule there was none; another may have some: call again
end
$$;
comment on function scheduler.cancel_archived_runs(int) is
    'Cancel the next open runs of an archived schedule, at most batch; 0 if there are none.';

create or replace function scheduler.create_plan() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into scheduler.job_plans (job_id, plan_at)
    values (new.id, case when new.status = 'active' then duly.now() end);
    return null;
end
$$;
comment on function scheduler.create_plan() is 'Every new schedule is planned at once.';
create or replace trigger jobs_create_plan after insert on scheduler.jobs
    for each row execute function scheduler.create_plan();

create or replace function scheduler.change_plan() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- First the plan itself, so that no worker goes on to plan the former schedule.
    update scheduler.job_plans as p
    set state = 'waiting', lease_owner = null, lease_expires_at = null, starts = 0, last_error = null,
        plan_at = case when new.status = 'active' then duly.now() end,
        paused_at = case when old.status = 'active' and new.status = 'paused' then duly.now() else p.paused_at end,
        resumed_at = case
            when old.status = 'paused' and new.status = 'active' then duly.now() else p.resumed_at
        end
    where p.job_id = new.id;
    if new.status = 'archived' then
        -- One batch at once, which is all of nearly every schedule; a worker cancels the rest.
        if scheduler.cancel_open_runs(new.id, 'ARCHIVED', 500) = 500 then
            update scheduler.job_plans as p set is_closing = true where p.job_id = new.id;
        end if;
        return null;
    end if;
    if new.status = 'paused' and old.status = 'active' then
        perform scheduler.withdraw_runs(new.id, 'PAUSED');
    end if;
    if (new.rule, new.first_run_at) is distinct from (old.rule, old.first_run_at) then
        perform scheduler.withdraw_runs(new.id, 'RULE_CHANGED');
        perform scheduler.end_rule(new.id, old.rule, old.first_run_at, new.status = 'paused');
    end if;
    if new.advance_minutes <> old.advance_minutes then
        update scheduler.job_runs as r
        set remind_at = r.scheduled_at - make_interval(mins => new.advance_minutes)
        where r.job_id = new.id and r.status = 'pending' and r.remind_at is not null;
    end if;
    return null;
end
$$;
comment on function scheduler.change_plan() is
    'Paused: runs whose reminder is not due yet are deleted. Resumed: planned on, missed firings are skipped. '
    'Archived: open runs are cancelled. A changed rule holds from its next firing. In any case, also when nothing is '
    'different, an active schedule is planned again: so one that is stuck is tried again.';
create or replace trigger jobs_change_plan after update of status, rule, first_run_at, advance_minutes
    on scheduler.jobs
    for each row execute function scheduler.change_plan();

create or replace function scheduler.follow_zone() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- Like every change of a plan this ends the lease: a worker that has begun to plan uses the old zone.
    update scheduler.job_plans as p
    set state = 'waiting', lease_owner = null, lease_expires_at = null, starts = 0, last_error = null,
        plan_at = duly.now()
    from scheduler.jobs as j
    where j.user_id = new.user_id and j.status = 'active' and p.job_id = j.id and p.plan_at is not null;
    return null;
end
$$;
comment on function scheduler.follow_zone() is 'Plan a person''s schedules again when their time zone changes.';
create or replace trigger person_follow_zone after update of zone, user_id on duly.person
    for each row when ((new.zone, new.user_id) is distinct from (old.zone, old.user_id))
    execute function scheduler.follow_zone();

-- Create or find the run of a period ----------------------------------------------------------------------------------
-- ON CONFLICT cannot work on job_runs: the unique constraint of (job, period) is on the table of keys.

create or replace function scheduler.ensure_run(
    job_id bigint, period_key text, scheduled_at timestamptz, out job_run_id bigint, out is_new boolean
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    violated text;
begin
    for _ in 1..10 loop
        select k.job_run_id into ensure_run.job_run_id
        from scheduler.job_run_keys as k
        where k.job_id = ensure_run.job_id and k.period_key = ensure_run.period_key;
        if found then
            is_new := false;
            return;
        end if;
        begin
            insert into scheduler.job_runs as r (job_id, period_key, scheduled_at, created_at, updated_at)
            values (
                ensure_run.job_id, ensure_run.period_key, ensure_run.scheduled_at, duly.clock(), duly.clock()
            )
            returning r.id into ensure_run.job_run_id;
            is_new := true;
            return;
        exception when unique_violation then
            get stacked diagnostics violated = constraint_name;
            if violated <> 'uq_job_runs__job_period' then
                raise;
            end if;
            -- Another transaction created it meanwhile; the next statement sees it.
        end;
    end loop;
    raise exception 'the run of schedule % in period % was created by another transaction that this one cannot see',
        ensure_run.job_id, ensure_run.period_key
        using errcode = 'serialization_failure', hint = 'Try again, or use isolation level READ COMMITTED.';
end
$$;
comment on function scheduler.ensure_run(bigint, text, timestamptz) is
    'Create the run of a period, or return the existing one unchanged; is_new says which. For other programs: duly '
    'itself plans many runs in one statement.';

-- Sent reminders ------------------------------------------------------------------------------------------------------

create or replace function scheduler.note_sent() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    if not exists (
        select from new_rows as m where m.kind = 'reminder.due' and m.status = 'sent' and m.transition_from is not null
    ) then
        return null;
    end if;
    insert into scheduler.reminders (job_run_id, sent_at, created_at, updated_at, payload)
    select k.job_run_id, m.sent_at, duly.clock(), duly.clock(), m.payload || jsonb_strip_nulls(jsonb_build_object(
        'channel', m.channel, 'message_id', m.id, 'receipt', m.receipt
    ))
    from new_rows as m
    join scheduler.job_run_keys as k on k.job_run_id = (m.payload ->> 'job_run_id')::bigint
    where m.kind = 'reminder.due' and m.status = 'sent' and m.transition_from is not null
    order by k.job_run_id;
    with sent as (
        select r.id, r.scheduled_at
        from new_rows as m
        join scheduler.job_run_keys as k on k.job_run_id = (m.payload ->> 'job_run_id')::bigint
        join scheduler.job_runs as r on r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
        where m.kind = 'reminder.due' and m.status = 'sent' and m.transition_from is not null
            and r.status in ('pending', 'snoozed') and r.message_id = m.id
        order by r.id
        for no key update of r
    )
    update scheduler.job_runs as r set status = 'sent'
    from sent
    where r.id = sent.id and r.scheduled_at = sent.scheduled_at and r.status in ('pending', 'snoozed');
    return null;
end
$$;
comment on function scheduler.note_sent() is
    'Records a sent reminder with its run, in the transaction that settles the message.';
create or replace trigger outbox_note_sent after update on duly.outbox
    referencing new table as new_rows
    for each statement execute function scheduler.note_sent();

-- Answers -------------------------------------------------------------------------------------------------------------

create or replace function scheduler.build_receipt(confirmation_id bigint) returns jsonb
    language sql stable security definer set search_path = pg_catalog, pg_temp
    as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'confirmation_id', c.id,
        'job_run_id', c.job_run_id,
        'job_id', k.job_id,
        'period_key', k.period_key,
        'action', c.action,
        'idempotency_key', c.idempotency_key,
        'confirmed_at', c.confirmed_at,
        'remind_at', case when c.action = 'snooze'
            then c.confirmed_at + make_interval(mins => coalesce((c.payload ->> 'minutes')::int, 60)) end,
        'expense', (
            select jsonb_build_object('id', e.id, 'amount', trim_scale(e.amount)::text, 'currency', e.currency)
            from expense.expenses as e
            where c.action = 'complete' and e.source_ref = 'scheduler:' || k.job_id || ':' || k.period_key
        )
    ))
    from scheduler.confirmations as c
    join scheduler.job_run_keys as k on k.job_run_id = c.job_run_id
    where c.id = build_receipt.confirmation_id
    $$;
comment on function scheduler.build_receipt(bigint) is
    'The result of an answer; repeating the answer returns the same.';

create or replace function scheduler.answer(
    user_id bigint, run_id bigint, action text, idempotency_key text, payload jsonb,
    out is_new boolean, out receipt jsonb
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    schedule record;
    run scheduler.job_runs;
    earlier scheduler.confirmations;
    confirmation_id bigint;
    answered_at timestamptz;
    unbooked text;
begin
    select k.job_id, k.period_key, k.scheduled_at, j.user_id, j.name, j.status into schedule
    from scheduler.job_run_keys as k
    join scheduler.jobs as j on j.id = k.job_id
    where k.job_run_id = answer.run_id and (answer.user_id is null or j.user_id = answer.user_id);
    if not found then
        raise exception 'there is no run %', answer.run_id using errcode = 'DU005';
    end if;
    -- One answer at a time: the second sees what the first did.
    select * into run
    from scheduler.job_runs as r
    where r.id = answer.run_id and r.scheduled_at = schedule.scheduled_at
    for no key update;
    select * into earlier
    from scheduler.confirmations as c
    where c.job_run_id = answer.run_id and c.idempotency_key = answer.idempotency_key;
    if found then
        if earlier.action <> answer.action or earlier.payload is distinct from answer.payload then
            raise exception 'the key % belongs to another answer to run %: %',
                answer.idempotency_key, answer.run_id, earlier.action
                using errcode = 'DU002', hint = 'use a key of its own for every answer';
        end if;
        is_new := false;
        receipt := scheduler.build_receipt(earlier.id);
        return;
    end if;
    if run.id is null then
        raise exception 'run % lies in a month that was dropped', answer.run_id using errcode = 'DU007';
    elsif run.status in ('confirmed', 'skipped', 'cancelled') then
        select * into earlier
        from scheduler.confirmations as c
        where c.job_run_id = answer.run_id and c.action <> 'snooze'
        order by c.id
        limit 1;
        if found then
            raise exception 'run % was answered already: %, at %', answer.run_id, earlier.action, earlier.confirmed_at
                using errcode = 'DU006', detail = scheduler.build_receipt(earlier.id)::text;
        end if;
        raise exception 'run % is % and cannot be answered', answer.run_id, run.status
            using errcode = 'DU007', detail = coalesce(run.reason, '');
    elsif schedule.status = 'archived' then
        raise exception 'run % cannot be answered', answer.run_id using errcode = 'DU007', detail = 'ARCHIVED';
    elsif run.status = 'pending' and answer.action = 'snooze' then
        raise exception 'run % has no sent reminder to snooze', answer.run_id using errcode = 'DU009';
    end if;
    -- A currency alone would turn the template's amount into another one; without a template nothing would be booked.
    select min(given.field) into unbooked
    from jsonb_object_keys(answer.payload) as given (field)
    where answer.action = 'complete' and not answer.payload ? 'amount' and (
        given.field = 'currency'
        or not exists (select from scheduler.expense_templates as t where t.job_id = schedule.job_id)
    );
    if unbooked is not null then
        raise exception 'payload.%: needs payload.amount%', unbooked, case when unbooked <> 'currency'
            then format(', because schedule %s books no expense', schedule.job_id) else '' end
            using errcode = 'invalid_parameter_value';
    end if;
    answered_at := duly.clock();
    insert into scheduler.confirmations
        (job_run_id, action, confirmed_at, idempotency_key, payload, created_at, updated_at)
    values (
        answer.run_id, answer.action, answered_at, answer.idempotency_key, answer.payload, answered_at, answered_at
    )
    returning id into confirmation_id;
    update scheduler.job_runs as r
    set status = case answer.action
            when 'complete' then 'confirmed' when 'skip' then 'skipped' when 'snooze' then 'snoozed' else 'cancelled'
        end,
        remind_at = case when answer.action = 'snooze'
            then answered_at + make_interval(mins => coalesce((answer.payload ->> 'minutes')::int, 60)) end,
        -- A message that is being sent goes out, but no longer counts as the reminder that a snooze waits for.
        message_id = case when answer.action <> 'snooze' then r.message_id end
    where r.id = answer.run_id and r.scheduled_at = schedule.scheduled_at;
    -- A message that still waits is withdrawn.
    with unsent as (
        select o.id from duly.outbox as o where o.id = run.message_id and o.status = 'pending' for update skip locked
    )
    update duly.outbox as o set status = 'failed', last_error = 'it was answered before it was sent'
    where o.id in (select id from unsent);
    if answer.action = 'complete' then
        insert into expense.expenses
            (user_id, name, amount, currency, category, merchant, note, occurred_at, source_ref)
        select
            schedule.user_id, schedule.name,
            coalesce((answer.payload ->> 'amount')::numeric, t.amount),
            coalesce(answer.payload ->> 'currency', t.currency, person.currency),
            coalesce(answer.payload ->> 'category', t.category),
            coalesce(answer.payload ->> 'merchant', t.merchant),
            coalesce(answer.payload ->> 'note', t.note),
            answered_at,
            'scheduler:' || schedule.job_id || ':' || schedule.period_key
        from duly.person as person
        left join scheduler.expense_templates as t on t.job_id = schedule.job_id
        where person.user_id = schedule.user_id and (t.job_id is not null or answer.payload ? 'amount')
        on conflict (source_ref) do nothing;  -- the run was deleted and created again: a period is booked once
    end if;
    is_new := true;
    receipt := scheduler.build_receipt(confirmation_id);
end
$$;
comment on function scheduler.answer(bigint, bigint, text, text, jsonb) is
    'Answer a run, once: confirmation, status and expense together. DU002 the key belongs to another answer, DU005 no '
    'such run, DU006 answered already (the first receipt is in the detail), DU007 closed without an answer, DU009 '
    'snoozed before its reminder was sent, 22023 the payload cannot be booked.';

create or replace function scheduler.reverse_expense(
    user_id bigint, run_id bigint, within interval, out is_new boolean, out expense_id bigint
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    run record;
    booked expense.expenses;
begin
    select k.job_id, k.period_key into run
    from scheduler.job_run_keys as k
    join scheduler.jobs as j on j.id = k.job_id
    where k.job_run_id = reverse_expense.run_id
        and (reverse_expense.user_id is null or j.user_id = reverse_expense.user_id);
    if not found then
        raise exception 'there is no run %', reverse_expense.run_id using errcode = 'DU005';
    end if;
    select * into booked
    from expense.expenses as e
    where e.source_ref = 'scheduler:' || run.job_id || ':' || run.period_key;
    if not found then
        raise exception 'nothing was booked for run %', reverse_expense.run_id using errcode = 'DU008';
    end if;
    if booked.occurred_at + within < duly.clock() and not exists (
        select from expense.expenses as e where e.reverses = booked.id
    ) then
        raise exception 'run % was confirmed at %: its expense can be reversed for % and no longer',
            reverse_expense.run_id, booked.occurred_at, within
            using errcode = 'DU008';
    end if;
    insert into expense.expenses
        (user_id, name, amount, currency, category, merchant, note, occurred_at, source_ref, reverses)
    values (
        booked.user_id, booked.name, -booked.amount, booked.currency, booked.category, booked.merchant, booked.note,
        duly.clock(), 'reversal:' || booked.source_ref, booked.id
    )
    on conflict do nothing
    returning id into expense_id;
    is_new := expense_id is not null;
    if not is_new then
        select e.id into expense_id from expense.expenses as e where e.reverses = booked.id;
    end if;
end
$$;
comment on function scheduler.reverse_expense(bigint, bigint, interval) is
    'Reverse the expense of a run by a second expense; the run stays confirmed. DU005 no such run, DU008 nothing was '
    'booked or it is too late.';

-- Upcoming runs -------------------------------------------------------------------------------------------------------

create or replace view scheduler.upcoming with (security_invoker = true) as
select
    j.user_id, j.id as job_id, j.name, j.channel, r.id as job_run_id, r.period_key, r.scheduled_at, r.remind_at,
    r.status
from scheduler.job_runs as r
join scheduler.jobs as j on j.id = r.job_id
where r.status in ('pending', 'sent', 'snoozed') and j.status <> 'archived'
union all
select
    j.user_id, j.id, j.name, j.channel, null, null, p.next_at, p.next_at - make_interval(mins => j.advance_minutes),
    null
from scheduler.job_plans as p
join scheduler.jobs as j on j.id = p.job_id
where j.status = 'active' and p.next_at is not null;
comment on view scheduler.upcoming is
    'Every run that is open, and the next firing of each schedule that has no run yet.';

-- Due reminders -------------------------------------------------------------------------------------------------------

create or replace view scheduler.due_runs with (security_invoker = true) as
select d.id, d.job_id, d.scheduled_at, d.remind_at, d.period_key, d.status, (
    select case
        when d.status <> 'pending' or d.scheduled_at > duly.now() then null
        when j.catch_up = 'none' and d.scheduled_at < duly.now() - interval '10 minutes'
            then 'TOO_LATE'
        when j.catch_up = 'latest' and exists (
            select
            from scheduler.job_runs as later
            where later.job_id = d.job_id and later.scheduled_at > d.scheduled_at and later.scheduled_at <= duly.now()
        ) then 'SUPERSEDED'
        when j.catch_up = 'all' and exists (
            select
            from scheduler.job_runs as later
            where later.job_id = d.job_id and later.scheduled_at > d.scheduled_at and later.scheduled_at <= duly.now()
            order by later.scheduled_at
            offset 99  -- MAX_MISSED_RUNS of limits.py, less one
            limit 1
        ) then 'TOO_MANY'
    end
    from scheduler.jobs as j
    where j.id = d.job_id
) as missed_reason
from scheduler.job_runs as d
where d.remind_at <= duly.now() and d.remind_at is not null
    -- No reminder is due more than a week ahead (advance_minutes): later partitions are pruned.
    and d.scheduled_at < duly.now() + interval '8 days'
    and coalesce((
        select not p.is_closing
            and (d.status <> 'pending' or p.next_at > duly.now() or p.plan_at is null or p.state = 'stuck')
        from scheduler.job_plans as p
        where p.job_id = d.job_id
    ), true);
comment on view scheduler.due_runs is
    'Runs whose reminder is due; with a missed_reason no reminder is sent, and the run is closed for that reason. Runs '
    'of a schedule that is not planned up to now wait for that, because its latest missed run is not known yet; while '
    'it is paused nothing more is planned, and they do not wait. A snoozed run is reminded of again whatever was '
    'missed. Runs of an archived schedule are not due.';

create or replace function scheduler.is_locked(run bigint, run_scheduled_at timestamptz) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform
    from scheduler.job_runs as r
    where r.id = run and r.scheduled_at = run_scheduled_at
    for no key update skip locked;
    return not found;
end
$$;
comment on function scheduler.is_locked(bigint, timestamptz) is
    'Whether another transaction has locked this run, so that reminders skip it; only trying to lock it shows that.';

-- Grants --------------------------------------------------------------------------------------------------------------
-- Answers and expenses are written by functions only; no role may delete them.

grant usage on schema scheduler, expense to {worker}, {api}, {readonly};
grant select on scheduler.jobs, scheduler.expense_templates, scheduler.job_plans, scheduler.missed_ranges,
    scheduler.job_run_keys, scheduler.dropped_months, scheduler.job_runs, scheduler.reminders,
    scheduler.confirmations, scheduler.upcoming, scheduler.due_runs, expense.expenses
    to {worker}, {api}, {readonly};
grant insert (
    user_id, name, description, rule, first_run_at, advance_minutes, channel, status, catch_up, idempotency_key,
    request_digest
) on scheduler.jobs to {api};
grant update (name, description, rule, first_run_at, advance_minutes, channel, status, catch_up)
    on scheduler.jobs to {api};
grant insert, update on scheduler.expense_templates to {api};
grant delete on scheduler.expense_templates to {api};
grant insert (job_id, period_key, scheduled_at, remind_at) on scheduler.job_runs to {api}, {worker};
grant update (status, remind_at, message_id, reason) on scheduler.job_runs to {worker};
grant update (remind_at) on scheduler.due_runs to {worker};  -- to lock its rows
grant update on scheduler.job_plans to {worker};
grant insert (job_id, from_at, until_at, rule, zone, first_run_at, reason) on scheduler.missed_ranges to {worker};
grant execute on function scheduler.limits(), scheduler.owns_users() to {worker}, {api}, {readonly};
grant execute on function scheduler.is_locked(bigint, timestamptz) to {worker}, {api};
grant execute on function scheduler.ensure_partitions(int) to {worker};
grant execute on function scheduler.ensure_run(bigint, text, timestamptz) to {worker}, {api};
grant execute on function scheduler.cancel_archived_runs(int) to {worker};
grant execute on function scheduler.build_receipt(bigint) to {api}, {readonly};
grant execute on function scheduler.answer(bigint, bigint, text, text, jsonb) to {api};
grant execute on function scheduler.reverse_expense(bigint, bigint, interval) to {api};
