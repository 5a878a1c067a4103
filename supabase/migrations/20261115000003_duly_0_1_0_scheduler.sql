-- duly 0.1.0, scheduler: compiled from the migrations and functions of duly; do not edit.

-- Before every migration, in its transaction: one migrator at a time, the roles, the schemas that are taken.
-- Conditions are decided here, by the database, so that the compiled SQL is the same program.

set lock_timeout = '3s';
set client_min_messages = warning;
select pg_advisory_xact_lock('7238811244850407282');

do $prelude$
declare
    wanted record;
    of_script oid;
    guests jsonb;
    new_roles text;
    taken text;
    first_taken text;
begin
    for wanted in
        select * from (values
            ('duly_owner', 'DULY_OWNER_ROLE'),
            ('duly_worker', 'DULY_WORKER_ROLE'),
            ('duly_api', 'DULY_API_ROLE'),
            ('duly_readonly', 'DULY_READONLY_ROLE')
        ) as roles (name, setting)
    loop
        if not exists (select from pg_catalog.pg_roles where rolname = wanted.name) then
            begin
                execute format('create role %I nologin noinherit', wanted.name);
                -- An idle open transaction would hold back vacuum, and locks.
                execute format('alter role %I set idle_in_transaction_session_timeout = %L', wanted.name, '1min');
                new_roles := concat_ws(',', new_roles, wanted.name);
            exception
                when duplicate_object or unique_violation then
                    null;  -- roles belong to the whole server: a migration of another database made it this instant
                when insufficient_privilege then
                    raise exception 'the role "%" does not exist and "%" may not create it', wanted.name, current_user
                        using errcode = 'insufficient_privilege', hint = format(
                            'ask an administrator to run: create role %I; or name an existing role in %s',
                            wanted.name, wanted.setting
                        );
            end;
        end if;
    end loop;
    perform set_config('duly.new_roles', coalesce(new_roles, ''), true);
    -- A handler's own transaction steps down from the worker to the API; it gains nothing by being able to.
    if not pg_has_role('duly_worker', 'duly_api', 'member') then
        begin
            execute format(
                case when current_setting('server_version_num')::int >= 160000
                    then 'grant %I to %I with inherit false, set true' else 'grant %I to %I' end,
                'duly_api', 'duly_worker'
            );
        exception when insufficient_privilege then
            null;  -- the roles existed before: a worker that needs it names the missing grant
        end;
    end if;
    if not pg_has_role(
        current_user, 'duly_owner',
        case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
    ) then
        begin
            execute format('grant %I to %I', 'duly_owner', current_user);
        exception when insufficient_privilege then
            raise exception '"%" may not act as the role "%", which owns what duly makes', current_user, 'duly_owner'
                using errcode = 'insufficient_privilege', hint = format(
                    'ask an administrator to run: grant %I to %I; or name a role of yours in DULY_OWNER_ROLE',
                    'duly_owner', current_user
                );
        end;
    end if;
    -- The little schema that `database/migrations/` makes beside a backend's tables gives way to ours.
    select n.oid into of_script from pg_catalog.pg_namespace as n
    where n.nspname = 'duly' and starts_with(obj_description(n.oid, 'pg_namespace'), 'Made by add_session_leases');
    if of_script is not null then
        -- Roles that could use it may use what replaces it: engine_0001.data.sql grants it to them again.
        select jsonb_agg(jsonb_build_object(
            'name', case when g.role <> 0 then pg_get_userbyid(g.role) end, 'object', g.object, 'privilege', g.privilege
        ))
        into guests
        from (
            select acl.grantee as role, 'schema' as object, acl.privilege_type as privilege
            from pg_catalog.pg_namespace as n
            cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) as acl
            where n.oid = of_script and acl.privilege_type = 'USAGE'
            union
            select acl.grantee, c.relname::text, acl.privilege_type
            from pg_catalog.pg_class as c
            cross join lateral aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) as acl
            where c.relnamespace = of_script and c.relname = 'workers'
                and acl.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
        ) as g;
        perform set_config('duly.guests', guests::text, true);
        begin
            drop table if exists duly.workers;
            drop function if exists duly.clock();
            drop function if exists duly.now();
            drop schema duly;
        exception when insufficient_privilege then
            raise exception '"%" may not replace the schema duly that add_session_leases made', current_user
                using errcode = 'insufficient_privilege', hint = format(
                    'migrate as the role "%s", which made it',
                    (select pg_get_userbyid(nspowner) from pg_catalog.pg_namespace where oid = of_script)
                );
        end;
    end if;
    -- A schema of one of our names that belongs to others; a backend's ingest tables and users are used as they are.
    select
        string_agg(format('%I (owner %I)', n.nspname, pg_get_userbyid(n.nspowner)), ', ' order by n.nspname),
        min(quote_ident(n.nspname))
    into taken, first_taken
    from pg_catalog.pg_namespace as n
    where n.nspname = any ('{"scheduler","expense","user"}'::text[])
        and not has_schema_privilege('duly_owner', n.oid, 'create')
        and not exists (
            select from pg_catalog.pg_class as c
            where c.relnamespace = n.oid
                and (n.nspname, c.relname) in (('schedule_ingest', 'capture_session'), ('user', 'users'))
        );
    if taken is not null then
        raise exception 'duly needs schemas that exist and do not belong to "%": %', 'duly_owner', taken
            using errcode = 'duplicate_schema', hint = format(
                'use another database for duly, or rename the schema: alter schema %s rename to another_name; or, if '
                'it was made for duly: alter schema %s owner to %I; or leave an application out that needs it: '
                'duly migrate --apps%s',
                first_taken, first_taken, 'duly_owner',
                case
                    when first_taken = quote_ident('schedule_ingest') then '; or set DB_SCHEMA to another name'
                    else ''
                end
            );
    end if;
end
$prelude$;

create schema if not exists "scheduler" authorization "duly_owner";
create schema if not exists "expense" authorization "duly_owner";
create schema if not exists "user" authorization "duly_owner";
-- From here on as the owner of what is created.
set role "duly_owner";

create table if not exists duly.schema_object (
    branch text not null,
    object text not null,
    sha256 text not null,
    constraint pk_schema_object primary key (branch, object)
);
comment on table duly.schema_object is
    'The hash of each function, trigger, policy and view, and of the grants of a branch, as they were applied last.';

-- The scheduler: recurring reminders, their runs month by month, answers, and the expenses that these book.

-- Users ---------------------------------------------------------------------------------------------------------------
-- "user".users is created where it is missing. Where it exists it is used as it is, and never written to.

do $users$
declare
    existing record;
    needed text;
begin
    select c.oid, c.relkind, pg_get_userbyid(c.relowner) as owner into existing
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where (n.nspname, c.relname) = ('user', 'users');
    if not found then
        create table "user".users (
            id bigint not null default nextval('duly.person_id_seq'),
            constraint pk_users primary key (id)
        );
        comment on table "user".users is 'Created by duly: users of the scheduler, one for each row of duly.person.';
        grant usage on schema "user" to "duly_worker", "duly_api", "duly_readonly";
        grant select on "user".users to "duly_worker", "duly_api", "duly_readonly";
        return;
    end if;
    if existing.relkind not in ('r', 'p') or not exists (
        select
        from pg_catalog.pg_index as i
        inner join pg_catalog.pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        where i.indrelid = existing.oid and i.indisunique and i.indnkeyatts = 1 and i.indpred is null
            and a.attname = 'id' and a.atttypid = 'bigint'::regtype
    ) then
        raise exception '"user".users (owner %) has no unique column "id" of type bigint', existing.owner
            using errcode = 'undefined_column', hint =
                'schedules reference it; use another database for duly, or leave the scheduler out: '
                'duly migrate --apps posts,ingest';
    end if;
    needed := concat_ws(
        '; ',
        case when not has_schema_privilege('duly_owner', 'user', 'usage')
            then format('grant usage on schema "user" to %I', 'duly_owner') end,
        case when not (has_column_privilege('duly_owner', existing.oid, 'id', 'select')
                and has_column_privilege('duly_owner', existing.oid, 'id', 'references'))
            then format('grant select, references on "user".users to %I', 'duly_owner') end
    );
    if needed <> '' then
        raise exception '"user".users (owner %) exists, and "%" may not reference it', existing.owner, 'duly_owner'
            using errcode = 'insufficient_privilege', hint = concat(
                'ask an administrator to run: ',
                -- What this migration created is gone when it fails.
                case when 'duly_owner' = any (string_to_array(current_setting('duly.new_roles', true), ','))
                    then format('create role %I nologin noinherit; ', 'duly_owner') end,
                needed
            );
    end if;
end
$users$;

-- Schedules -----------------------------------------------------------------------------------------------------------

create table scheduler.jobs (
    id bigint not null generated by default as identity,
    user_id bigint not null,
    name text not null,
    description text,
    rule text not null,
    first_run_at timestamptz not null,
    -- squawk-ignore prefer-bigint-over-int
    advance_minutes int not null default 0,
    channel text not null default 'telegram',
    status text not null default 'active',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    catch_up text not null default 'latest',
    idempotency_key text,
    request_digest bytea,
    revision bigint not null default 0,
    transition_from text,
    constraint pk_jobs primary key (id),
    constraint fk_jobs_users_user_id foreign key (user_id) references "user".users (id) on delete restrict,
    constraint fk_jobs_person_user_id foreign key (user_id) references duly.person (user_id) deferrable,
    constraint uq_jobs__user_id_idempotency_key unique (user_id, idempotency_key),
    constraint ck_jobs__status check (status in ('active', 'paused', 'archived')),
    constraint ck_jobs__advance check (advance_minutes between 0 and 10080),
    constraint ck_jobs__name check (char_length(name) between 1 and 120),
    constraint ck_jobs__description check (char_length(description) <= 500),
    constraint ck_jobs__rule check (char_length(rule) between 1 and 200),
    constraint ck_jobs__channel check (channel ~ '^[a-z][a-z0-9_]{0,31}$'),
    constraint ck_jobs__catch_up check (catch_up in ('latest', 'all', 'none')),
    constraint ck_jobs__request check (
        num_nonnulls(idempotency_key, request_digest) in (0, 2)
        and char_length(idempotency_key) between 1 and 120 and octet_length(request_digest) = 32
    ),
    constraint ck_jobs__years_2000_to_2200 check (
        date_part('epoch', first_run_at) >= 946684800 and date_part('epoch', first_run_at) < 7258118400
    )
);
comment on table scheduler.jobs is 'Schedules: person, rule, how long before they are reminded, and by which channel.';
comment on column scheduler.jobs.rule is
    '`cron:` and five fields, or JSON; in its own zone, else the person''s, else UTC.';
comment on column scheduler.jobs.catch_up is
    'Which periods that were missed while no worker planned are reminded of: the latest, all (at most a hundred) or '
    'none. Those of a pause never are.';
create index idx_jobs__user_id on scheduler.jobs (user_id);

create table scheduler.expense_templates (
    job_id bigint not null,
    amount numeric(20, 6) not null,
    currency text not null,
    category text,
    merchant text,
    note text,
    constraint pk_expense_templates primary key (job_id),
    constraint fk_expense_templates_jobs_job_id foreign key (job_id) references scheduler.jobs (id) on delete cascade,
    constraint ck_expense_templates__amount check (amount >= 0 and amount < 1e14),
    constraint ck_expense_templates__currency check (currency ~ '^[A-Z]{3}$'),
    constraint ck_expense_templates__texts check (
        char_length(category) between 1 and 120 and char_length(merchant) between 1 and 120
        and char_length(note) between 1 and 500
    )
);
comment on table scheduler.expense_templates is 'What is booked when a run of a schedule is confirmed.';

-- Plans: when the runs of a schedule are created, and by which worker -------------------------------------------------

create table scheduler.job_plans (
    job_id bigint not null,
    state text not null default 'waiting',
    plan_at timestamptz,
    planned_until timestamptz,
    next_at timestamptz,
    paused_at timestamptz,
    resumed_at timestamptz,
    last_error text,
    starts bigint not null default 0,
    lease_owner text,
    lease_expires_at timestamptz,
    settled_by text,
    is_closing boolean not null default false,
    constraint pk_job_plans primary key (job_id),
    constraint fk_job_plans_jobs_job_id foreign key (job_id) references scheduler.jobs (id) on delete cascade,
    constraint ck_job_plans__state check (state in ('waiting', 'planning', 'stuck')),
    constraint ck_job_plans__lease check (
        num_nonnulls(lease_owner, lease_expires_at) = case when state = 'planning' then 2 else 0 end
    ),
    constraint ck_job_plans__last_error check (
        char_length(last_error) between 1 and 2048 and (state <> 'stuck' or last_error is not null)
    ),
    constraint ck_job_plans__owners check (
        char_length(lease_owner) between 1 and 300 and char_length(settled_by) <= 300
    ),
    constraint ck_job_plans__starts check (starts >= 0)
) with (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table scheduler.job_plans is
    'How far the runs of a schedule are created, and when the next are: what planners lease.';
comment on column scheduler.job_plans.plan_at is
    'When more runs are to be created; null while it is paused, and at its end.';
comment on column scheduler.job_plans.planned_until is
    'Every firing up to this instant has its run, or lies in scheduler.missed_ranges.';
comment on column scheduler.job_plans.is_closing is 'It is archived, and a worker still has to cancel open runs.';
comment on column scheduler.job_plans.next_at is 'The first firing that has no run yet.';
comment on column scheduler.job_plans.paused_at is 'When it was paused last.';
comment on column scheduler.job_plans.resumed_at is
    'When it was resumed last: firings before this were missed, from paused_at on because it was paused.';
create index idx_job_plans__plan_at_job_id on scheduler.job_plans (plan_at, job_id) where state = 'waiting';
create index idx_job_plans__job_id on scheduler.job_plans (job_id) where state = 'planning';
create index idx_job_plans__is_closing on scheduler.job_plans (job_id) where is_closing;

create table scheduler.missed_ranges (
    job_id bigint not null,
    from_at timestamptz not null,
    until_at timestamptz not null,
    rule text not null,
    zone text not null,
    first_run_at timestamptz not null,
    reason text not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_missed_ranges primary key (job_id, from_at),
    constraint fk_missed_ranges_jobs_job_id foreign key (job_id) references scheduler.jobs (id) on delete cascade,
    constraint ck_missed_ranges__from_until check (from_at < until_at),
    constraint ck_missed_ranges__texts check (
        char_length(rule) between 1 and 200 and char_length(zone) between 1 and 64
        and char_length(reason) between 1 and 500
    )
);
comment on table scheduler.missed_ranges is
    'Missed firings that have no run of their own, because very many were missed: all of the rule from from_at to '
    'before until_at. The rule, the person''s zone and first_run_at are as they were then, from which the periods '
    'follow.';

-- Runs, month by month ------------------------------------------------------------------------------------------------
-- A unique constraint of a partitioned table must hold its partition key, so (job, period) is unique in a table of
-- keys, written before the run by a trigger. Keys outlive months that are dropped: a period never runs twice.

create table scheduler.job_run_keys (
    job_run_id bigint not null,
    job_id bigint not null,
    period_key text not null,
    scheduled_at timestamptz not null,
    constraint pk_job_run_keys primary key (job_run_id),
    constraint uq_job_runs__job_period unique (job_id, period_key),
    constraint fk_job_run_keys_jobs_job_id foreign key (job_id) references scheduler.jobs (id) on delete cascade
);
comment on table scheduler.job_run_keys is 'Which run a schedule has in which period, and in which month it lies.';

create table scheduler.dropped_months (
    month date not null,
    runs bigint not null,
    dropped_at timestamptz not null default duly.clock(),
    constraint pk_dropped_months primary key (month)
);
comment on table scheduler.dropped_months is 'Months whose runs were dropped with their partition; the keys stay.';

create table scheduler.job_runs (
    id bigint not null generated by default as identity,
    job_id bigint not null,
    period_key text not null,
    scheduled_at timestamptz not null,
    sent_at timestamptz,
    status text not null default 'pending',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    remind_at timestamptz,
    message_id uuid,
    reason text,
    revision bigint not null default 0,
    transition_from text,
    constraint pk_job_runs primary key (id, scheduled_at),
    constraint fk_job_runs_jobs_job_id foreign key (job_id) references scheduler.jobs (id) on delete cascade,
    constraint ck_job_runs__status
        check (status in ('pending', 'sent', 'confirmed', 'skipped', 'snoozed', 'cancelled')),
    constraint ck_job_runs__period_key check (char_length(period_key) between 1 and 120),
    constraint ck_job_runs__reason check (char_length(reason) between 1 and 500)
) partition by range (scheduled_at);
comment on table scheduler.job_runs is
    'One period of a schedule: when it is, when the reminder was sent, and how it ended.';
comment on column scheduler.job_runs.remind_at is
    'When to remind of it; null once its message is written (message_id), and when no reminder is due. '
    'An insert without it gets scheduled_at less the advance_minutes of its schedule.';
comment on column scheduler.job_runs.message_id is 'The latest message about it, in duly.outbox.';
comment on column scheduler.job_runs.reason is 'Why it was skipped or cancelled without an answer.';
create index idx_job_runs__job_scheduled on scheduler.job_runs (job_id, scheduled_at);
create index idx_job_runs__scheduled_at on scheduler.job_runs (scheduled_at) where status = 'pending';
create index idx_job_runs__job_id_status on scheduler.job_runs (job_id, status)
    where status in ('pending', 'sent', 'snoozed');
create index idx_job_runs__remind_at_id on scheduler.job_runs (remind_at, id) where remind_at is not null;

create table scheduler.reminders (
    id bigint not null generated by default as identity,
    job_run_id bigint not null,
    sent_at timestamptz not null,
    payload jsonb,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint pk_reminders primary key (id),
    constraint fk_reminders_job_run_keys_job_run_id foreign key (job_run_id)
        references scheduler.job_run_keys (job_run_id) on delete cascade
);
comment on table scheduler.reminders is 'Every message sent about a run: when, by which channel, and its text.';
create index idx_reminders__job_run_id on scheduler.reminders (job_run_id, sent_at);

create table scheduler.confirmations (
    id bigint not null generated by default as identity,
    job_run_id bigint not null,
    action text not null,
    confirmed_at timestamptz not null,
    idempotency_key text not null,
    payload jsonb,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint pk_confirmations primary key (id),
    constraint fk_confirmations_job_run_keys_job_run_id foreign key (job_run_id)
        references scheduler.job_run_keys (job_run_id) on delete cascade,
    constraint ck_confirmations__action check (action in ('complete', 'skip', 'snooze', 'cancel')),
    constraint ck_confirmations__idempotency_key check (char_length(idempotency_key) between 1 and 120),
    constraint ck_confirmations__payload check (jsonb_typeof(payload) = 'object' and pg_column_size(payload) <= 8192),
    constraint ck_confirmations__minutes check (
        action <> 'snooze' or coalesce((payload ->> 'minutes')::numeric between 1 and 10080, true)
    ),
    constraint uq_confirmations__run_idem unique (job_run_id, idempotency_key)
);
comment on table scheduler.confirmations is 'Answers with their keys: the same key is the same answer.';
create index idx_confirmations__run_confirmed on scheduler.confirmations (job_run_id, confirmed_at desc);

-- Expenses ------------------------------------------------------------------------------------------------------------

create table expense.expenses (
    id bigint not null generated by default as identity,
    user_id bigint not null,
    name text not null,
    amount numeric(20, 6) not null,
    currency text not null,
    category text,
    merchant text,
    note text,
    occurred_at timestamptz not null,
    source_ref text not null,
    reverses bigint,
    created_at timestamptz not null default duly.clock(),
    constraint pk_expenses primary key (id),
    constraint uq_expenses__source_ref unique (source_ref),
    constraint uq_expenses__reverses unique (reverses),
    constraint fk_expenses_users_user_id foreign key (user_id) references "user".users (id) on delete restrict,
    constraint fk_expenses_expenses_reverses foreign key (reverses) references expense.expenses (id) on delete restrict,
    -- NaN is greater than every number: an upper bound refuses it.
    constraint ck_expenses__amount check (
        case when reverses is null then amount >= 0 and amount < 1e14 else amount <= 0 and amount > -1e14 end
    ),
    constraint ck_expenses__currency check (currency ~ '^[A-Z]{3}$'),
    constraint ck_expenses__texts check (
        char_length(name) between 1 and 120 and char_length(category) between 1 and 120
        and char_length(merchant) between 1 and 120 and char_length(note) between 1 and 500
        and char_length(source_ref) between 1 and 300
    )
);
comment on table expense.expenses is 'Expenses, once per source; a wrong one is reversed by another.';
create index idx_expenses__user_id_occurred_at on expense.expenses (user_id, occurred_at, id);

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

-- Guard and timeline of schedule and run. Generated by `python -m tools.generate`; do not edit.

create or replace function "scheduler"."jobs_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['active', 'paused'])) then
            raise exception '% cannot begin as %', 'schedule', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'schedule', old."id"
            using errcode = 'DU001';
    elsif (
        new."user_id", new."created_at", new."idempotency_key", new."request_digest"
    ) is distinct from (
        old."user_id", old."created_at", old."idempotency_key", old."request_digest"
    ) then
        raise exception 'of % % these stay as they are: %', 'schedule', old."id",
            'user_id, created_at, idempotency_key, request_digest'
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        ((new.rule, new.first_run_at) is distinct from (old.rule, old.first_run_at))
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'active' then new."status"::text = any (array['paused', 'archived'])
        when 'paused' then new."status"::text = any (array['active', 'archived'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'schedule', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create or replace trigger "jobs_guard"
    before insert or update on "scheduler"."jobs"
    for each row execute function "scheduler"."jobs_guard"();

create or replace function "scheduler"."jobs_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'schedule', "id"::text, revision, duly.clock(), transition_from, "status"::text, null::text,
            jsonb_build_object('rule', rule)
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "jobs_timeline_insert"
    after insert on "scheduler"."jobs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."jobs_timeline"();

create or replace trigger "jobs_timeline_update"
    after update on "scheduler"."jobs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."jobs_timeline"();

create or replace function "scheduler"."job_runs_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'run', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
        new.sent_at := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'run', old."id"
            using errcode = 'DU001';
    elsif (
        new."job_id", new."period_key", new."scheduled_at", new."created_at"
    ) is distinct from (
        old."job_id", old."period_key", old."scheduled_at", old."created_at"
    ) then
        raise exception 'of % % these stay as they are: %', 'run', old."id",
            'job_id, period_key, scheduled_at, created_at'
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        false
    ) then
        new.revision := old.revision;
        new.transition_from := null;
        if new.status not in ('pending', 'sent', 'snoozed') and new.remind_at is not null then
            raise exception 'run % is % and gets no reminder', old.id, old.status using errcode = 'DU001';
        end if;
        new.sent_at := old.sent_at;
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'pending' then new."status"::text = any (array['sent', 'confirmed', 'skipped', 'cancelled'])
        when 'sent' then new."status"::text = any (array['confirmed', 'skipped', 'snoozed', 'cancelled'])
        when 'snoozed' then new."status"::text = any (array['sent', 'confirmed', 'skipped', 'cancelled'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'run', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
        new.sent_at := case when new.status = 'sent' then coalesce(old.sent_at, duly.clock()) else old.sent_at end;
        new.remind_at := case when new.status = 'snoozed' then new.remind_at end;
    end if;
    return new;
end
$guard$;

create or replace trigger "job_runs_guard"
    before insert or update on "scheduler"."job_runs"
    for each row execute function "scheduler"."job_runs_guard"();

create or replace function "scheduler"."job_runs_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'run', "id"::text, revision, duly.clock(), transition_from, "status"::text, null::text,
            jsonb_strip_nulls(jsonb_build_object('job_id', job_id, 'period_key', period_key, 'remind_at', remind_at,
            'reason', reason))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "job_runs_timeline_insert"
    after insert on "scheduler"."job_runs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."job_runs_timeline"();

create or replace trigger "job_runs_timeline_update"
    after update on "scheduler"."job_runs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."job_runs_timeline"();

-- Before the grants of a branch: takes from PUBLIC and from duly's own roles what they may do with its objects, so that
-- a right that is no longer granted is gone. What an administrator granted to others stays.

do $revoke$
declare
    of_duly constant text := format('%I, %I, %I', 'duly_worker', 'duly_api', 'duly_readonly');
    thing record;
begin
    for thing in
        select
            case c.relkind when 'S' then 'sequence' else 'table' end as kind, c.oid::regclass::text as name,
            true as is_new
        from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = any ('{"scheduler","expense"}'::text[])
            and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
            and pg_get_userbyid(c.relowner) = current_user
        union all
        select 'routine', f.oid::regprocedure::text, f.proacl is null
        from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = any ('{"scheduler","expense"}'::text[]) and pg_get_userbyid(f.proowner) = current_user
    loop
        execute format('revoke all on %s %s from %s', thing.kind, thing.name, of_duly);
        if thing.is_new or thing.name not in ('duly.clock()', 'duly.now()') then
            -- The clocks may have been opened to all by an administrator; of the rest nothing is for PUBLIC.
            execute format('revoke all on %s %s from public', thing.kind, thing.name);
        end if;
    end loop;
end
$revoke$;

-- Grants --------------------------------------------------------------------------------------------------------------
-- Answers and expenses are written by functions only; no role may delete them.

grant usage on schema scheduler, expense to "duly_worker", "duly_api", "duly_readonly";

grant select on scheduler.jobs, scheduler.expense_templates, scheduler.job_plans, scheduler.missed_ranges,
    scheduler.job_run_keys, scheduler.dropped_months, scheduler.job_runs, scheduler.reminders,
    scheduler.confirmations, scheduler.upcoming, scheduler.due_runs, expense.expenses
    to "duly_worker", "duly_api", "duly_readonly";

grant insert (
    user_id, name, description, rule, first_run_at, advance_minutes, channel, status, catch_up, idempotency_key,
    request_digest
) on scheduler.jobs to "duly_api";

grant update (name, description, rule, first_run_at, advance_minutes, channel, status, catch_up)
    on scheduler.jobs to "duly_api";

grant insert, update on scheduler.expense_templates to "duly_api";

grant delete on scheduler.expense_templates to "duly_api";

grant insert (job_id, period_key, scheduled_at, remind_at) on scheduler.job_runs to "duly_api", "duly_worker";

grant update (status, remind_at, message_id, reason) on scheduler.job_runs to "duly_worker";

grant update (remind_at) on scheduler.due_runs to "duly_worker";

-- to lock its rows
grant update on scheduler.job_plans to "duly_worker";

grant insert (job_id, from_at, until_at, rule, zone, first_run_at, reason) on scheduler.missed_ranges to "duly_worker";

grant execute on function scheduler.limits(), scheduler.owns_users() to "duly_worker", "duly_api", "duly_readonly";

grant execute on function scheduler.is_locked(bigint, timestamptz) to "duly_worker", "duly_api";

grant execute on function scheduler.ensure_partitions(int) to "duly_worker";

grant execute on function scheduler.ensure_run(bigint, text, timestamptz) to "duly_worker", "duly_api";

grant execute on function scheduler.cancel_archived_runs(int) to "duly_worker";

grant execute on function scheduler.build_receipt(bigint) to "duly_api", "duly_readonly";

grant execute on function scheduler.answer(bigint, bigint, text, text, jsonb) to "duly_api";

grant execute on function scheduler.reverse_expense(bigint, bigint, interval) to "duly_api";

-- One row per object; its hash is that of the text it has now.
insert into duly.schema_object (branch, object, sha256)
select 'scheduler', applied.object, applied.sha256
from unnest(
     E'{"trigger is_append_only on expense.expenses",
"trigger is_not_emptied on expense.expenses",
"function scheduler.owns_users",
"function scheduler.set_user_id",
"trigger person_user_id on duly.person",
"function scheduler.add_user",
"trigger person_user on duly.person",
"function scheduler.link_user",
"trigger person_link_user on duly.person",
"function scheduler.ensure_person",
"trigger jobs_person on scheduler.jobs",
"function scheduler.tg_set_updated_at",
"trigger trg_jobs__upd on scheduler.jobs",
"function scheduler.limits",
"function scheduler.check_schedule_limits",
"trigger jobs_limits_insert on scheduler.jobs",
"trigger jobs_limits_update on scheduler.jobs",
"trigger trg_job_runs__upd on scheduler.job_runs",
"function scheduler.write_run_key",
"trigger job_runs_key on scheduler.job_runs",
"function scheduler.fill_remind_at",
"trigger job_runs_remind_at on scheduler.job_runs",
"function scheduler.delete_run_key",
"trigger job_runs_delete_key on scheduler.job_runs",
"function scheduler.check_run_limits",
"trigger job_runs_limits on scheduler.job_runs",
"trigger trg_reminders__upd on scheduler.reminders",
"trigger trg_confirmations__upd on scheduler.confirmations",
"function expense.check_reversal",
"trigger expenses_reversal on expense.expenses",
"function scheduler.add_partition_triggers",
"function scheduler.list_partitions",
"function scheduler.lock_partitions",
"function scheduler.attach_partition",
"function scheduler.create_months",
"function scheduler.ensure_partitions",
"function scheduler.drop_month",
"function scheduler.withdraw_runs",
"function scheduler.end_rule",
"function scheduler.cancel_open_runs",
"function scheduler.cancel_archived_runs",
"function scheduler.create_plan",
"trigger jobs_create_plan on scheduler.jobs",
"function scheduler.change_plan",
"trigger jobs_change_plan on scheduler.jobs",
"function scheduler.follow_zone",
"trigger person_follow_zone on duly.person",
"function scheduler.ensure_run",
"function scheduler.note_sent",
"trigger outbox_note_sent on duly.outbox",
"function scheduler.build_receipt",
"function scheduler.answer",
"function scheduler.reverse_expense",
"view scheduler.upcoming",
"view scheduler.due_runs",
"function scheduler.is_locked",
"function \\"scheduler\\".\\"jobs_guard\\"",
"trigger \\"jobs_guard\\" on \\"scheduler\\".\\"jobs\\"",
"function \\"scheduler\\".\\"jobs_timeline\\"",
"trigger \\"jobs_timeline_insert\\" on \\"scheduler\\".\\"jobs\\"",
"trigger \\"jobs_timeline_update\\" on \\"scheduler\\".\\"jobs\\"",
"function \\"scheduler\\".\\"job_runs_guard\\"",
"trigger \\"job_runs_guard\\" on \\"scheduler\\".\\"job_runs\\"",
"function \\"scheduler\\".\\"job_runs_timeline\\"",
"trigger \\"job_runs_timeline_insert\\" on \\"scheduler\\".\\"job_runs\\"",
"trigger \\"job_runs_timeline_update\\" on \\"scheduler\\".\\"job_runs\\"",
"grants"}'::text[],
    '{"879d5dc1e2e5b136974b1227606ced60d335894dc7755c42f4dd55229689eae5",
"6d5b2d665a50cb4d028801a2fd64c4d23e3d6997354ad2e7dd5bab106ada9752",
"ac7e5d50c92735552e327732d0531976acd04e7930224f6a37d361adf979fb26",
"08ec7a9b0a8c53935a7f95ce00ff535262064229c8582974967d40b9c1f28e3b",
"e53df645cfcf5ca868b3a6fee8bf5677f35e1d69fdb951ed1cf159db2df3dc52",
"3d989e1870d0f2d4b76ef3f3984a7e1a8fa87249de88bcefcd64b3d9ff1a5ea9",
"9b927fb33547aa530628a42675e2f826822e6cd825788d51a925fcbf68b61142",
"cc6981d4ec9b13b8d9c5a01eab179a048173a046a481fba72bce7ad3589df4b9",
"826a924b5e6b0c1b6f084a25c1cf8f87efd6a18e0aaf5584eae948244154f1a7",
"3d27d9649581432a4cea91411dbbdf36e68f14002e3420a6ee726ddce640c879",
"491169f1c1d95d0dd22338886f50eaadf3deed4520d261e4f8a303c4b1647d2f",
"61bb8aa907cefd1d6c828c320db3a721e1ace183367977310f9c77a768a0fade",
"b0a38a3adc85e7c76880f6bcd1b61b75675c5ea253d6a364678a1547bd4af56f",
"a8885ad6c1f65b8457583c09dc7dcc647a171fccd4a344cd1611f302dc8f98e5",
"d3e0cda5c96fe5b7ddca26ccde6a04e7847cc13111b63086044942d5da0c90b7",
"317581a387e3e11a56623f5c2e3e5e7f143ce07cfa50e2d8f9ea1c9092ae7c00",
"8e3194d61856a0c9e599175d57d7d8acc66ad22baf75faee79fe6c209fd0453a",
"04ef3cb8bc6f6564f94a6d09271fd629717ddf545725eaccf7f7366cf232c120",
"80870393311032261f28ed029b4dbf107ce3d5701964c8c9389317470af41eae",
"3393be82e57326519238b080693b9e86ac877c2930920b8f8ee3dca05bb43387",
"2b29d466f6cb35f71a10bab92936eda73ff2621abcdbe8ac9f6cdadec57cd61d",
"084de821118744fe8c5653d920d4f0205f175b99c28672cc795c1e1dc72528bf",
"991bdfa250dce5fcc5da9faa1ca3d728d93637bde4c2ea63cf1f73aa6a83e7e3",
"c3c2e1a0715ba379fd61fd07f4aa4b2a222a85d787790f927c8a48a226d34d42",
"c5620cc0b36acaa3ca5c28d5ef92e4b693fc9ece64dd18671f10c8d6471f4eaf",
"8ffe9d35f9d13481c17294aa6323116ba56311eaf3d3b0328c05f9a89bc6ee33",
"16ee85d48a67b78a90f9d47b51cbe695f51250e9bc62011dd34570b8ec9da68f",
"756edfaff6bf7c1c2eb1712bb3efa8fa97190f19bb7bf36bc2f2d077371efd26",
"61f9e6b57cf2f03af087c659bbfdbedd0484b5a71530fa418a429155ad35f683",
"03ff0bf7eb6a6a9d76d262b4da4c14150be766454534e77fd4a56747611ee79a",
"af9f88fec66be4bc02fb69341446e86a7997084242279791f46e46f0df53ca43",
"61c1abc1fdf7ae9319e0a3ad4e8c7310a19f2c006ee0d3c140916e1b027a92e8",
"ca90f468ec7658e040cb3c96dba082d7b52daf49df64fd314b1f8af6a0af4be5",
"8a3ae3f0138100bf72518d556f9357b327b206d58f9371167a0ce888d287ebeb",
"371926056aabc32977af27b8ad2c98f161459e536fd444040e75751d76a83746",
"477ac94ac8d8b5c1f1ad13e6be4acab41bb97ece7bf869e3fde6a6a08da114eb",
"027ec508737c5166c403940376334e3b409767e21a79b4d39e6c8279613e0a87",
"f5c1a2b8cffa58f51c25a74f34ccbf28aaf43875e88ab0886a3c6c166227fb22",
"d25da9dad4b17a3e906866dd995cd29c52e8f90886019d34f54dc1ce7bbaf875",
"a5eb5fd918679a4d08ff66faf1b391a1d4aed214ac2a2137d72e487c9d3ce6a0",
"2a43b02bb96ef5da56109fa7a6bb31d4b8963382fc0a63e8a2fd60e60118a2bc",
"8602b466f5de87a6c4f3450b927872709a23bd15d166a77add55e72532e5124b",
"3f98ab123de2faba1db38d33f424d0a05044c999bcdf80a6a51a8c0ba10b190b",
"b1910dee640afa72c1c840351798cc1a6fcaf1de6a0695704e89468baa3db540",
"9d23bb5cf6a73711256690291cf3df38aba1d1f5f7208438e7cdd0640423283c",
"e15cc9efc2816e8f3a94bc120cd878c5b5a891b5c2ba8e6c6f156b6479eef638",
"7630e849ea20695585e021298e460aaea6b1a1d84229828967a4f1124971e4d6",
"6b1ceedd5ca4124847779c5cfdb79db4a65d08f9b41de424a7a3666bba6a77aa",
"f1a0a3ad2eeab9bca5d47a91c976955cce15e84f775c441f1794f5fc0e09365a",
"b813fd1b940a3a46d05cbc71d66a533a5e0ffe2882a7ea62918a10b393b6a1ed",
"f5043888def8a4d94eb1946446af8d4f7ea392913afd49f129c6c11cbb6238d7",
"64546f1c08b93fcc6ef43991f12e6269854852c1ff2fab08b760fd78ad0a0a79",
"b530b7c824a9a42de6faa862e9173f5e6cbd5270bddce36e509133a74402f7d5",
"aff11bb37c30186a772bf11db728b449a2c1d030e4568ba6e1c78fc16b3ed919",
"b368b46b7938b31e84879a5fbc1df684dd5751665b4dd767d23d2bec8a1f0883",
"63a619ec4e4781b05ffe73dff5b9d351682eed5a5ce735522245aa2706eb36c4",
"235d36cf9c01cdf319e2f2c6c8b8ef27be8a050493065c0e20a1412108de471a",
"cb6660094e5a1f70847c98045c19c3a74254c8b4fc696645a5114db185cdd541",
"875fb8d7c0f47a2641b905021abe3abbb4ad8156b24660fd2aed3b2a493e832e",
"c1e83e7430c56c0445e0b832e22b9321dcb81d59c8f5ad2186a23c74a9693502",
"4dc7cd1c50c34f24a5baaf40e4c2745db10bb6678bde26955154f5ec546dff5b",
"a050beed02bd992146038323273dcffaa9512cb0f20988277beb61054bc37d31",
"5cf1c7b8d0e1cd671254c8577d736a4cdba557d9451b9d77f5783b6f6670db5f",
"ae749588cca05b9c2dff3f073dcab3e565c4638d42b24cb33ca9e7652040e442",
"583302b73a89d41960f161b20b7f3f956918c50b3acb870c3f6990c7dff8cbab",
"91c395930101762213c8cf531fcff28732530976c792e477c3b9a6c6240d67e4",
"d1517dbf8a5804aadccb47767622954d30b68083420d7d470465cc261c92e96c"}'::text[]
) as applied (object, sha256)
on conflict (branch, object) do update set sha256 = excluded.sha256;

-- What the scheduler writes once, when its functions and guards are there.

-- Numbers -------------------------------------------------------------------------------------------------------------
-- After going down and up again the log of before is still there: no id in it is used twice.

select setval(pg_get_serial_sequence('scheduler.jobs', 'id'), max(t.key::bigint))
from duly.transition as t
where t.machine = 'schedule'
having count(*) > 0;
select setval(pg_get_serial_sequence('scheduler.job_runs', 'id'), max(t.key::bigint))
from duly.transition as t
where t.machine = 'run'
having count(*) > 0;

-- Users ---------------------------------------------------------------------------------------------------------------
-- Links to users that are gone are removed; where duly created "user".users, the people there are get a row each.

update duly.person as p set user_id = null
where p.user_id is not null and not exists (select from "user".users as u where u.id = p.user_id);
do $users$
begin
    if scheduler.owns_users() then
        insert into "user".users (id) select p.id from duly.person as p;
        update duly.person set user_id = id;
    end if;
end
$users$;

-- Partitions ----------------------------------------------------------------------------------------------------------
-- Two edges that meet at the beginning of this month; the months are taken off them.

create table scheduler.job_runs_past partition of scheduler.job_runs
    for values from (minvalue) to (date_trunc('month', duly.now(), 'UTC'));
create table scheduler.job_runs_future partition of scheduler.job_runs
    for values from (date_trunc('month', duly.now(), 'UTC')) to (maxvalue);
select scheduler.add_partition_triggers('scheduler.job_runs_past');
select scheduler.add_partition_triggers('scheduler.job_runs_future');
select scheduler.ensure_partitions();

do $closing$
declare
    found record;
begin
    for found in
        select r.rolname as guest, n.nspname as home
        from pg_catalog.pg_roles as r
        cross join pg_catalog.pg_namespace as n
        where r.rolname in ('anon', 'authenticated')
            and n.nspname = any ('{"scheduler","expense","user"}'::text[])
            and pg_get_userbyid(n.nspowner) = current_user  -- a backend's schema is a backend's
    loop
        execute format('revoke all on schema %I from %I', found.home, found.guest);
        execute format('revoke all on all tables in schema %I from %I', found.home, found.guest);
        execute format('revoke all on all sequences in schema %I from %I', found.home, found.guest);
        execute format('revoke all on all routines in schema %I from %I', found.home, found.guest);
    end loop;
end
$closing$;

reset role;
reset lock_timeout;
reset client_min_messages;
