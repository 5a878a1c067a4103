-- Compiled from the Alembic revision 0003_ledger by duly; do not edit.

-- Before every migration, in its transaction: one migrator at a time, the roles, the schemas; then go on as the owner.
-- Conditions are decided here, by the database, so that the compiled SQL is the same program.

set lock_timeout = '3s';
set client_min_messages = warning;
select pg_advisory_xact_lock('7238811244850407282');

do $prelude$
declare
    wanted record;
    of_script oid;
    guests jsonb;
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
                -- Nobody may keep a transaction open and idle: it would hold back vacuum, and locks.
                execute format('alter role %I set idle_in_transaction_session_timeout = %L', wanted.name, '1min');
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
    -- A handler's own transaction steps down from the worker to the API; it gains nothing by being able to.
    if not pg_has_role('duly_worker', 'duly_api', 'member') then
        begin
            execute format(
                case when current_setting('server_version_num')::int >= 160000
                    then 'grant %I to %I with inherit false, set true' else 'grant %I to %I' end,
                'duly_api', 'duly_worker'
            );
        exception when insufficient_privilege then
            null;  -- roles that were here before us: who needs it is told which grant is missing
        end;
    end if;
    if not pg_has_role(
        current_user, 'duly_owner', case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
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
        -- Whoever could use it, can use what comes in its place: the first migration grants it to them again.
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
    -- A schema of one of our names that belongs to others; the ingest tables of a backend are used as they are.
    select
        string_agg(format('%I (owner %I)', n.nspname, pg_get_userbyid(n.nspowner)), ', ' order by n.nspname),
        min(quote_ident(n.nspname))
    into taken, first_taken
    from pg_catalog.pg_namespace as n
    where n.nspname in ('duly', 'user', 'ledger', 'posts', 'scheduler', 'expense', 'schedule_ingest')
        and not has_schema_privilege('duly_owner', n.oid, 'create')
        and not (n.nspname = 'schedule_ingest' and exists (
            select from pg_catalog.pg_class as c where c.relnamespace = n.oid and c.relname = 'capture_session'
        ));
    if taken is not null then
        raise exception 'duly needs schemas that exist and do not belong to "%": %', 'duly_owner', taken
            using errcode = 'duplicate_schema', hint = format(
                'use another database for duly, or rename the schema: alter schema %s rename to another_name; or, if it '
                'was made for duly: alter schema %s owner to %I%s', first_taken, first_taken, 'duly_owner',
                case when first_taken = quote_ident('schedule_ingest') then '; or set DB_SCHEMA to another name' else '' end
            );
    end if;
end
$prelude$;

create schema if not exists duly authorization "duly_owner";
create schema if not exists "user" authorization "duly_owner";
create schema if not exists ledger authorization "duly_owner";
create schema if not exists posts authorization "duly_owner";
create schema if not exists scheduler authorization "duly_owner";
create schema if not exists expense authorization "duly_owner";
create schema if not exists "schedule_ingest" authorization "duly_owner";
set role "duly_owner";

-- The ledger: jobs, the log of everything that happened to them, how many of a kind may run, and the functions that any
-- language may call.

create sequence duly.wake_ledger as bigint;
comment on sequence duly.wake_ledger is 'The last window of 50 ms in which the workers of jobs were woken.';

create type ledger.job_status as enum ('queued', 'running', 'succeeded', 'failed', 'canceled', 'dead_letter');
create type ledger.job_backoff_policy as enum ('none', 'fixed', 'exp');

-- Jobs -----------------------------------------------------------------------------------------------------------------
-- The first sixteen columns are the contract's; what follows them is ours.

create table ledger.job (
    id uuid not null default gen_random_uuid(),
    org_id uuid not null,
    -- squawk-ignore prefer-text-field
    type varchar(100) not null,
    status ledger.job_status not null default 'queued',
    -- squawk-ignore prefer-bigint-over-int
    attempt integer not null default 0,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer not null default 5,
    backoff_policy ledger.job_backoff_policy not null default 'exp',
    -- squawk-ignore prefer-bigint-over-int
    priority integer not null default 0,
    -- squawk-ignore prefer-text-field
    idempotency_key varchar(255),
    -- squawk-ignore prefer-text-field
    requested_by varchar(255),
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    started_at timestamptz,
    finished_at timestamptz,
    -- squawk-ignore prefer-text-field
    last_error_code varchar(64),
    -- squawk-ignore prefer-text-field
    last_error_message varchar(2048),
    queue text not null default 'default',
    payload jsonb not null default '{}',
    result jsonb,
    run_at timestamptz not null default duly.clock(),
    timeout_seconds double precision,
    backoff_base_seconds double precision not null default 15,
    backoff_cap_seconds double precision not null default 600,
    starts bigint not null default 0,
    snoozes bigint not null default 0,
    lease_owner text,
    lease_expires_at timestamptz,
    settled_by text,
    cancel_requested_at timestamptz,
    stage text,
    progress bigint,
    progressed_at timestamptz,
    request_digest bytea,
    retain_for interval not null default '30 days',
    retain_until timestamptz,
    said jsonb,
    revision bigint not null default 0,
    moved_from text,
    constraint pk_job primary key (id),
    constraint ck_job__status_finished_at_consistency check (
        (finished_at is not null) = (status in ('succeeded', 'canceled', 'dead_letter'))
    )
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table ledger.job is 'A job: what is to be done, for whom, how hard to try, who holds it, and what came of it.';
comment on column ledger.job.attempt is 'Retries so far: 0 = the first attempt. Always starts - 1, written by the guard.';
comment on column ledger.job.max_attempts is 'So many starts, then dead_letter.';
comment on column ledger.job.started_at is 'When it was first started.';
comment on column ledger.job.starts is 'Claims that count; a hand-back and a snooze give theirs back, a redrive begins anew.';
comment on column ledger.job.snoozes is 'How often a handler said "later"; at 1000 that becomes a failure.';
comment on column ledger.job.lease_owner is 'Who holds it: the fence. A failed job keeps it for the move that follows.';
comment on column ledger.job.settled_by is 'Who last let go of it, so that a repeated settle knows its own.';
comment on column ledger.job.progressed_at is 'When progress was last written into the log, which is not every time.';
comment on column ledger.job.request_digest is 'What the key stands for: the same key with another request is refused.';
comment on column ledger.job.retain_until is 'When it may be removed and its key is free again: retain_for after it finished.';
comment on column ledger.job.said is 'What the statement that moved it wanted its event to say.';

create index idx_job__job_org_id on ledger.job (org_id);
create index idx_job__org_id_created_at_desc on ledger.job (org_id, created_at desc);
create unique index idx_job__org_id_idempotency_key on ledger.job (org_id, idempotency_key)
    where idempotency_key is not null;
create index idx_job__status_created_at on ledger.job (status, created_at);
-- What is claimed: neither a job that is due later nor one of another kind ever lies between two that are wanted.
create index idx_job__queue_type_priority_run_at_id on ledger.job (queue, type, priority desc, run_at, id)
    where status = 'queued';
create index idx_job__retain_until on ledger.job (retain_until) where retain_until is not null;
-- Lists by status: equality of enums is not leakproof, so under a policy only a partial index helps. The one of running
-- jobs, of which there are never many, is also how the sweep finds them and how those of a type are counted.
create index idx_job__org_id_created_at_id_queued on ledger.job (org_id, created_at desc, id desc)
    where status = 'queued';
create index idx_job__org_id_created_at_id_running on ledger.job (org_id, created_at desc, id desc)
    where status = 'running';
create index idx_job__org_id_created_at_id_succeeded on ledger.job (org_id, created_at desc, id desc)
    where status = 'succeeded';
create index idx_job__org_id_created_at_id_failed on ledger.job (org_id, created_at desc, id desc)
    where status = 'failed';
create index idx_job__org_id_created_at_id_canceled on ledger.job (org_id, created_at desc, id desc)
    where status = 'canceled';
create index idx_job__org_id_created_at_id_dead_letter on ledger.job (org_id, created_at desc, id desc)
    where status = 'dead_letter';

-- Events ---------------------------------------------------------------------------------------------------------------

create table ledger.job_event (
    id uuid not null default gen_random_uuid(),
    job_id uuid not null,
    ts timestamptz not null default duly.clock(),
    -- squawk-ignore prefer-text-field
    prev_status varchar(50),
    -- squawk-ignore prefer-text-field
    next_status varchar(50) not null,
    detail_json jsonb,
    seq bigint not null,
    org_id uuid not null,
    constraint pk_job_event primary key (id),
    constraint uq_job_event__job_id_seq unique (job_id, seq),
    constraint fk_job_event_job_job_id foreign key (job_id) references ledger.job (id) on delete cascade
);
comment on table ledger.job_event is 'One row per transition of a job, in order, written by its triggers and by nobody else.';
comment on column ledger.job_event.id is 'Derived from job_id and seq, so that a job has one event of each number.';
comment on column ledger.job_event.seq is 'The revision of the job that this brought about: 1, 2, 3.';
create index idx_job_event__job_id_ts on ledger.job_event (job_id, ts);
create index idx_job_event__ts on ledger.job_event (ts);
select duly.protect('ledger.job_event');

create function ledger.event_id(job uuid, seq bigint) returns uuid
    language sql immutable parallel safe
    return encode(
        -- The first half of the job's id, so that its events lie together, and 62 bits of a hash; two bits are a UUID's own.
        set_bit(set_bit(
            overlay(uuid_send(job) placing int8send(uuid_hash_extended(job, seq)) from 9), 70, 0
        ), 71, 1),
        'hex'
    )::uuid;
comment on function ledger.event_id(uuid, bigint) is 'The id of the event that a job has under a number.';

-- Pauses and limits ----------------------------------------------------------------------------------------------------

create table ledger.job_limit (
    queue text not null default '*',
    type text not null default '*',
    most bigint,
    paused_at timestamptz,
    paused_by text,
    constraint pk_job_limit primary key (queue, type),
    constraint ck_job_limit__queue check (queue ~ '^([*]|[A-Za-z0-9][A-Za-z0-9_.:/-]*)$' and char_length(queue) <= 100),
    constraint ck_job_limit__type check (type ~ '^([*]|[A-Za-z0-9][A-Za-z0-9_.:/-]*)$' and char_length(type) <= 100),
    constraint ck_job_limit__something check (queue <> '*' or type <> '*'),
    constraint ck_job_limit__most check (most between 1 and 1000000 and (most is null or (queue = '*' and type <> '*'))),
    constraint ck_job_limit__paused_by check (char_length(paused_by) <= 255 and (paused_at is not null or paused_by is null))
);
comment on table ledger.job_limit is 'Which queues and types rest, and how many jobs of a type may run at once; * is any.';

-- What follows is rendered from JOB_MACHINE in duly/jobs/states.py; a test compares.

create function "ledger"."job_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['queued'])) then
            raise exception '% cannot begin as %', 'job', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'job', old."id" using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not ((old."status"::text = 'running' and new."lease_owner" is distinct from old."lease_owner") or (new.progressed_at is distinct from old.progressed_at or (old.cancel_requested_at is null and new.cancel_requested_at is not null) or new.idempotency_key is distinct from old.idempotency_key)) then
        new.revision := old.revision;
        new.moved_from := null;
        new.said := null;
        new.updated_at := duly.clock();
    elsif new."status" is distinct from old."status" and not (case old."status"::text when 'queued' then new."status"::text = any (array['running', 'canceled']) when 'running' then new."status"::text = any (array['succeeded', 'failed', 'canceled', 'queued']) when 'failed' then new."status"::text = any (array['queued', 'dead_letter']) when 'dead_letter' then new."status"::text = any (array['queued']) else false end) then
        raise exception '% % cannot go from % to %', 'job', old."id", old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."status"::text;
        if new.idempotency_key is distinct from old.idempotency_key
            and (new.idempotency_key is not null or new.status <> 'canceled')
        then
            raise exception 'the key of job % stays its own until it is canceled and the key released', old.id
                using errcode = 'DU001';
        end if;
        if new.said is not distinct from old.said and new.progressed_at is not distinct from old.progressed_at then
            new.said := null;
        end if;
        new.updated_at := duly.clock();
        new.attempt := greatest(new.starts - 1, 0);
        new.started_at := case when new.status = 'running' then coalesce(old.started_at, new.updated_at) else old.started_at end;
        if new.status in ('succeeded', 'canceled', 'dead_letter') then
            new.finished_at := coalesce(old.finished_at, new.updated_at);
            new.retain_until := new.finished_at + new.retain_for;
        else
            new.finished_at := null;
            new.retain_until := null;
        end if;
    end if;
    if not (coalesce(new.revision > 1 or new.type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$', true) and coalesce(new.revision > 1 or (char_length(new.queue) <= 100 and new.queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$'), true) and coalesce(new.attempt = greatest(new.starts - 1, 0), true) and coalesce(new.max_attempts between 1 and 1000, true) and coalesce(new.starts between 0 and new.max_attempts - case when new.status = 'queued' then 1 else 0 end, true) and coalesce(new.snoozes between 0 and 1000, true) and coalesce(new.priority between -100 and 100, true) and coalesce(new.idempotency_key <> '', true) and coalesce(case when new.idempotency_key is null then new.request_digest is null else octet_length(new.request_digest) = 32 end, true) and coalesce(jsonb_typeof(new.payload) = 'object' and pg_column_size(new.payload) <= 1048576, true) and coalesce(pg_column_size(new.result) <= 1048576, true) and coalesce(new.timeout_seconds > 0 and new.timeout_seconds <= 31622400, true) and coalesce(new.backoff_base_seconds >= 0 and new.backoff_base_seconds <= new.backoff_cap_seconds and new.backoff_cap_seconds <= 31622400, true) and coalesce(case new.status when 'running' then new.lease_owner is not null and new.lease_expires_at is not null when 'failed' then new.lease_owner is not null and new.lease_expires_at is null else new.lease_owner is null and new.lease_expires_at is null end, true) and coalesce(char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300, true) and coalesce(new.last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (new.status not in ('failed', 'dead_letter') or new.last_error_code is not null), true) and coalesce(new.progress between 0 and 100 and char_length(new.stage) between 1 and 200, true) and coalesce(new.retain_for between interval '1 day' and interval '3660 days', true) and coalesce((new.finished_at is null) = (new.retain_until is null), true) and coalesce(jsonb_typeof(new.said) = 'object' and pg_column_size(new.said) <= 65536, true) and coalesce(date_part('epoch', least(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at, new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at, new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) < 7258118400, true)) then
        raise exception '% % breaks the rule %', 'job', new."id", case when (new.revision > 1 or new.type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$') is false then 'ck_job__type' when (new.revision > 1 or (char_length(new.queue) <= 100 and new.queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$')) is false then 'ck_job__queue' when (new.attempt = greatest(new.starts - 1, 0)) is false then 'ck_job__attempt' when (new.max_attempts between 1 and 1000) is false then 'ck_job__max_attempts' when (new.starts between 0 and new.max_attempts - case when new.status = 'queued' then 1 else 0 end) is false then 'ck_job__starts' when (new.snoozes between 0 and 1000) is false then 'ck_job__snoozes' when (new.priority between -100 and 100) is false then 'ck_job__priority' when (new.idempotency_key <> '') is false then 'ck_job__idempotency_key' when (case when new.idempotency_key is null then new.request_digest is null else octet_length(new.request_digest) = 32 end) is false then 'ck_job__request_digest' when (jsonb_typeof(new.payload) = 'object' and pg_column_size(new.payload) <= 1048576) is false then 'ck_job__payload' when (pg_column_size(new.result) <= 1048576) is false then 'ck_job__result' when (new.timeout_seconds > 0 and new.timeout_seconds <= 31622400) is false then 'ck_job__timeout_seconds' when (new.backoff_base_seconds >= 0 and new.backoff_base_seconds <= new.backoff_cap_seconds and new.backoff_cap_seconds <= 31622400) is false then 'ck_job__backoff' when (case new.status when 'running' then new.lease_owner is not null and new.lease_expires_at is not null when 'failed' then new.lease_owner is not null and new.lease_expires_at is null else new.lease_owner is null and new.lease_expires_at is null end) is false then 'ck_job__lease' when (char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_job__owners' when (new.last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (new.status not in ('failed', 'dead_letter') or new.last_error_code is not null)) is false then 'ck_job__last_error' when (new.progress between 0 and 100 and char_length(new.stage) between 1 and 200) is false then 'ck_job__progress' when (new.retain_for between interval '1 day' and interval '3660 days') is false then 'ck_job__retain_for' when ((new.finished_at is null) = (new.retain_until is null)) is false then 'ck_job__retain_until' when (jsonb_typeof(new.said) = 'object' and pg_column_size(new.said) <= 65536) is false then 'ck_job__said' when (date_part('epoch', least(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at, new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at, new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) < 7258118400) is false then 'ck_job__years_2000_to_2200' end
            using errcode = 'check_violation', constraint = case when (new.revision > 1 or new.type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$') is false then 'ck_job__type' when (new.revision > 1 or (char_length(new.queue) <= 100 and new.queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$')) is false then 'ck_job__queue' when (new.attempt = greatest(new.starts - 1, 0)) is false then 'ck_job__attempt' when (new.max_attempts between 1 and 1000) is false then 'ck_job__max_attempts' when (new.starts between 0 and new.max_attempts - case when new.status = 'queued' then 1 else 0 end) is false then 'ck_job__starts' when (new.snoozes between 0 and 1000) is false then 'ck_job__snoozes' when (new.priority between -100 and 100) is false then 'ck_job__priority' when (new.idempotency_key <> '') is false then 'ck_job__idempotency_key' when (case when new.idempotency_key is null then new.request_digest is null else octet_length(new.request_digest) = 32 end) is false then 'ck_job__request_digest' when (jsonb_typeof(new.payload) = 'object' and pg_column_size(new.payload) <= 1048576) is false then 'ck_job__payload' when (pg_column_size(new.result) <= 1048576) is false then 'ck_job__result' when (new.timeout_seconds > 0 and new.timeout_seconds <= 31622400) is false then 'ck_job__timeout_seconds' when (new.backoff_base_seconds >= 0 and new.backoff_base_seconds <= new.backoff_cap_seconds and new.backoff_cap_seconds <= 31622400) is false then 'ck_job__backoff' when (case new.status when 'running' then new.lease_owner is not null and new.lease_expires_at is not null when 'failed' then new.lease_owner is not null and new.lease_expires_at is null else new.lease_owner is null and new.lease_expires_at is null end) is false then 'ck_job__lease' when (char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_job__owners' when (new.last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (new.status not in ('failed', 'dead_letter') or new.last_error_code is not null)) is false then 'ck_job__last_error' when (new.progress between 0 and 100 and char_length(new.stage) between 1 and 200) is false then 'ck_job__progress' when (new.retain_for between interval '1 day' and interval '3660 days') is false then 'ck_job__retain_for' when ((new.finished_at is null) = (new.retain_until is null)) is false then 'ck_job__retain_until' when (jsonb_typeof(new.said) = 'object' and pg_column_size(new.said) <= 65536) is false then 'ck_job__said' when (date_part('epoch', least(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at, new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at, new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) < 7258118400) is false then 'ck_job__years_2000_to_2200' end;
    end if;
    return new;
end
$guard$;

create trigger "job_guard" before insert or update on "ledger"."job"
    for each row execute function "ledger"."job_guard"();

create function "ledger"."job_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $timeline$
begin
    insert into ledger.job_event (id, job_id, org_id, seq, prev_status, next_status, detail_json)
    select ledger.event_id("id", revision), "id", org_id, revision, moved_from, "status"::text, case when said is null and status = 'running' then jsonb_build_object('actor', lease_owner, 'start', starts) when moved_from = 'running' and status <> 'running' and num_nonnulls(stage, progress) > 0 then coalesce(said, jsonb_build_object()) || jsonb_strip_nulls(jsonb_build_object('stage', stage, 'progress', progress)) else said end
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "job_timeline_insert" after insert on "ledger"."job"
    referencing new table as moved
    for each statement execute function "ledger"."job_timeline"();

create trigger "job_timeline_update" after update on "ledger"."job"
    referencing new table as moved
    for each statement execute function "ledger"."job_timeline"();

-- Enqueue --------------------------------------------------------------------------------------------------------------
-- Plain SQL that any language may call in its own transaction: nothing exists unless that commits. It runs as its owner,
-- for whom every row is visible; so it asks itself whether the caller may act for this org.

create function ledger.refuse_other_tenant(org uuid) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
begin
    if org <> nullif(current_setting('app.current_org_id', true), '')::uuid then
        raise exception 'this transaction acts for another org than %', org using errcode = 'insufficient_privilege';
    end if;
end
$$;
comment on function ledger.refuse_other_tenant(uuid) is 'A tenant that is set may act for itself only.';

create function ledger.require_tenant(org uuid) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
begin
    if org is distinct from nullif(current_setting('app.current_org_id', true), '')::uuid then
        raise exception 'this transaction does not act for org %', org using errcode = 'insufficient_privilege',
            hint = format('select set_config(''app.current_org_id'', ''%s'', true)', org);
    end if;
end
$$;
comment on function ledger.require_tenant(uuid) is
    'Whoever steers a job acts for its org: the functions that do run as their owner, for whom every row is visible.';

create function ledger.origin_of(actor text, requested_by text) returns jsonb
    language sql immutable parallel safe
    return nullif(jsonb_strip_nulls(jsonb_build_object(
        'actor', coalesce(actor, requested_by), 'requested_by', case when requested_by <> actor then requested_by end
    )), '{}');
comment on function ledger.origin_of(text, text) is
    'What the first event tells: who asked, and on whose behalf if that is somebody else by their word.';

create function ledger.digest_of(
    type text, queue text, payload jsonb, run_at timestamptz, delay_seconds double precision
) returns bytea
    language sql immutable parallel safe
    return sha256(convert_to(
        jsonb_build_array(type, queue, payload, extract(epoch from run_at), delay_seconds)::text, 'UTF8'
    ));
comment on function ledger.digest_of(text, text, jsonb, timestamptz, double precision) is
    'What a key stands for: what is to be done, and when; not how hard to try. The text of a jsonb has one order of keys, no '
    'duplicates and no spare blanks, which is canonical enough, and the same for every language; 1.0 and 1.00 differ.';

create function ledger.refuse_other_request(
    held uuid, key text, type text, queue text, payload jsonb, run_at timestamptz, delay_seconds double precision
) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
declare
    first ledger.job;
    differences text;
begin
    select j.* into first from ledger.job j where j.id = held;
    differences := concat_ws(', ',
        case when first.type <> refuse_other_request.type
            then format('type %s, not %s', first.type, refuse_other_request.type) end,
        case when first.queue <> refuse_other_request.queue
            then format('queue %s, not %s', first.queue, refuse_other_request.queue) end,
        case when first.payload::text <> refuse_other_request.payload::text then 'another payload' end,
        case when first.request_digest
                <> ledger.digest_of(first.type, first.queue, first.payload, refuse_other_request.run_at, delay_seconds)
            then 'another due time' end
    );
    raise exception 'key "%" already belongs to job % (%), asked for with %', key, held,
        coalesce(first.status::text, 'removed'), coalesce(nullif(differences, ''), 'other arguments')
        using errcode = 'DU002', hint = case
            when first.status = 'canceled' then format('to free the key: duly jobs cancel %s --release-key', held)
            else 'use a key of its own for every request'
        end;
end
$$;
comment on function ledger.refuse_other_request(
    uuid, text, text, text, jsonb, timestamptz, double precision
) is 'Refuse a request whose key another one has: which job that is, its status, and in what the two differ; no contents.';

create function ledger.enqueue(
    org uuid,
    type text,
    payload jsonb default '{}',
    key text default null,
    queue text default 'default',
    -- squawk-ignore prefer-bigint-over-int
    priority integer default 0,
    run_at timestamptz default null,
    delay_seconds double precision default null,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer default 5,
    backoff_policy ledger.job_backoff_policy default 'exp',
    backoff_base_seconds double precision default 15,
    backoff_cap_seconds double precision default 600,
    timeout_seconds double precision default null,
    retain_for interval default '30 days',
    requested_by text default null,
    actor text default null,
    out id uuid,
    out outcome text
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    digest constant bytea := case when key is not null
        then ledger.digest_of(type, queue, payload, run_at, delay_seconds) end;
    now constant timestamptz := duly.clock();
    due constant timestamptz := coalesce(run_at, now + make_interval(secs => coalesce(delay_seconds, 0)));
    held bytea;
begin
    perform ledger.refuse_other_tenant(org);
    if num_nonnulls(run_at, delay_seconds) = 2 then
        raise exception 'a job runs at a time or after a delay, not both' using errcode = 'invalid_parameter_value';
    end if;
    for _ in 1..3 loop
        insert into ledger.job as made (
            id, org_id, type, payload, idempotency_key, request_digest, queue, priority, run_at, max_attempts, backoff_policy,
            backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by, created_at, updated_at, said
        ) values (
            duly.new_id(), org, enqueue.type, enqueue.payload, key, digest, enqueue.queue, enqueue.priority, due,
            enqueue.max_attempts, enqueue.backoff_policy, enqueue.backoff_base_seconds, enqueue.backoff_cap_seconds,
            enqueue.timeout_seconds, enqueue.retain_for, enqueue.requested_by, now, now,
            ledger.origin_of(enqueue.actor, enqueue.requested_by)
        )
        on conflict (org_id, idempotency_key) where idempotency_key is not null do nothing
        returning made.id into enqueue.id;
        if found then
            outcome := 'created';
            if due <= now then
                perform ledger.wake();
            end if;
            return;
        end if;
        -- In a statement of its own, which sees what was committed while the insert waited.
        select j.id, j.request_digest into enqueue.id, held
        from ledger.job j
        where j.org_id = org and j.idempotency_key = key;
        if found then
            if held <> digest then
                perform ledger.refuse_other_request(
                    enqueue.id, key, enqueue.type, enqueue.queue, enqueue.payload, enqueue.run_at, enqueue.delay_seconds
                );
            end if;
            outcome := 'existing';
            return;
        end if;
    end loop;
    raise exception 'a job was there for every insert and gone for every look' using errcode = 'internal_error';
end
$$;
comment on function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) is 'Make a job, or find the one that the same request made: "created" or "existing". Another request under its key: DU002.';

create function ledger.wake() returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- The window is looked at first, and here, because most calls end with that.
    if pg_sequence_last_value('duly.wake_ledger') is distinct from duly.this_window() then
        perform duly.wake('ledger');
    end if;
end
$$;
comment on function ledger.wake() is 'Tell the workers that a job is due, at most once per 50 ms.';

create function ledger.enqueue_many(
    org uuid,
    type text,
    payloads jsonb[],
    keys text[] default null,
    queue text default 'default',
    -- squawk-ignore prefer-bigint-over-int
    priorities integer[] default null,
    run_ats timestamptz[] default null,
    delay_seconds double precision default null,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer default 5,
    backoff_policy ledger.job_backoff_policy default 'exp',
    backoff_base_seconds double precision default 15,
    backoff_cap_seconds double precision default 600,
    timeout_seconds double precision default null,
    retain_for interval default '30 days',
    requested_by text default null,
    actor text default null
) returns table (nth bigint, id uuid, outcome text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    number constant bigint := cardinality(payloads);
    now constant timestamptz := duly.clock();
    due constant timestamptz := now + make_interval(secs => coalesce(delay_seconds, 0));
    origin constant jsonb := ledger.origin_of(actor, requested_by);
    ids constant uuid[] := array(select duly.new_id() from generate_series(1, number) order by 1);
    digests bytea[];
    other record;
    made bigint;
begin
    perform ledger.refuse_other_tenant(org);
    if number > 10000 or number <> any (array[
        coalesce(cardinality(keys), number), coalesce(cardinality(priorities), number),
        coalesce(cardinality(run_ats), number)
    ]) then
        raise exception 'at most 10000 jobs at a time, and as many keys, priorities and times as payloads, or none'
            using errcode = 'invalid_parameter_value';
    end if;
    if num_nonnulls(run_ats, delay_seconds) = 2 then
        raise exception 'a job runs at a time or after a delay, not both' using errcode = 'invalid_parameter_value';
    end if;
    if keys is not null then
        digests := array(
            select case when g.key is not null
                then ledger.digest_of(enqueue_many.type, enqueue_many.queue, g.payload, g.run_at, delay_seconds) end
            from unnest(payloads, keys, run_ats) with ordinality as g (payload, key, run_at, nth)
            order by g.nth
        );
    end if;
    -- In the order of the keys, so that two such calls never wait in a circle.
    insert into ledger.job (
        id, org_id, type, payload, idempotency_key, request_digest, queue, priority, run_at, max_attempts, backoff_policy,
        backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by, created_at, updated_at, said
    )
    select
        g.id, org, enqueue_many.type, g.payload, g.key, g.digest, enqueue_many.queue, coalesce(g.priority, 0),
        coalesce(g.run_at, due), enqueue_many.max_attempts, enqueue_many.backoff_policy,
        enqueue_many.backoff_base_seconds, enqueue_many.backoff_cap_seconds, enqueue_many.timeout_seconds,
        enqueue_many.retain_for, enqueue_many.requested_by, now, now, origin
    from unnest(ids, payloads, keys, digests, priorities, run_ats) as g (id, payload, key, digest, priority, run_at)
    order by g.key
    on conflict (org_id, idempotency_key) where idempotency_key is not null do nothing;
    get diagnostics made = row_count;
    if made > 0 and least(due, (select min(u.at) from unnest(run_ats) as u (at))) <= now then
        perform ledger.wake();
    end if;
    if made = number then
        return query select g.nth, g.id, 'created' from unnest(ids) with ordinality as g (id, nth);
        return;
    end if;
    -- In a statement of its own, which sees what was committed while the insert waited.
    return query
        select g.nth, j.id, case when j.id = g.id then 'created' else 'existing' end
        from unnest(ids, keys) with ordinality as g (id, key, nth)
        cross join lateral (
            select h.id from ledger.job h where h.org_id = org and h.idempotency_key = g.key
            union all
            select g.id where g.key is null
        ) as j
        order by g.nth;
    get diagnostics made = row_count;
    if made <> number then
        raise exception 'a job of this batch was removed this instant: ask again' using errcode = 'serialization_failure';
    end if;
    select j.id, g.key, g.payload, g.run_at into other
    from unnest(keys, digests, payloads, run_ats) as g (key, digest, payload, run_at)
    join ledger.job j on j.org_id = org and j.idempotency_key = g.key and j.request_digest <> g.digest
    limit 1;
    if found then
        perform ledger.refuse_other_request(
            other.id, other.key, enqueue_many.type, enqueue_many.queue, other.payload, other.run_at,
            enqueue_many.delay_seconds
        );
    end if;
end
$$;
comment on function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) is 'Make up to 10000 jobs of one type in one statement, all or none; the answers come in the order of the payloads.';

-- Claim ----------------------------------------------------------------------------------------------------------------

create function ledger.room_for(type text) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' set enable_seqscan = off set jit = off
    as $$
declare
    room bigint;
begin
    -- Locked until the claim commits, in a statement of its own: what is counted afterwards includes what others took.
    begin
        select l.most into room
        from ledger.job_limit l
        where l.queue = '*' and l.type = room_for.type
        for no key update;
    exception when lock_not_available then
        return 0;  -- whoever has it is slow, or gone: the other types must not wait for that
    end;
    if room is null then
        return null;
    end if;
    return greatest(room - (select count(*) from ledger.job j where j.type = room_for.type and j.status = 'running'), 0);
end
$$;
comment on function ledger.room_for(text) is
    'How many more jobs of a type may start; null is any number. Whoever asks holds the limit until the transaction ends.';

create function ledger.claim(
    queues text[],
    types text[],
    owner text,
    lease_seconds double precision,
    most bigint,
    -- squawk-ignore prefer-bigint-over-int
    floor_priorities integer[] default null,
    floor_run_ats timestamptz[] default null,
    floor_ids uuid[] default null
) returns setof ledger.job
    -- Plans are kept, and may be older than the table is large: only the order of the index will do. Up to PostgreSQL 17 a
    -- disabled step makes a plan look so expensive that every call would be compiled, which takes longer than the claim.
    language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_sort = off set jit = off
    as $$
declare
    now constant timestamptz := duly.now();
    rest bigint := most;
    rooms jsonb := '{}';
    room bigint;
    took bigint;
    heads record;
    spot record;
begin
    -- One probe per kind and priority, however long the queues are: each finds the head of the next group.
    with recursive kind as (
        select k.queue, k.type, k.floor_priority, k.floor_run_at, k.floor_id
        from unnest(queues, types, floor_priorities, floor_run_ats, floor_ids)
            as k (queue, type, floor_priority, floor_run_at, floor_id)
        where not exists (
            select from ledger.job_limit l
            where l.paused_at is not null and l.queue in (k.queue, '*') and l.type in (k.type, '*')
        )
    ),
    span as (
        select k.queue, k.type, 101 as above, coalesce(k.floor_priority, -101) as below from kind k
        union all
        select k.queue, k.type, k.floor_priority, -101 from kind k where k.floor_priority is not null
    ),
    head as (
        select s.queue, s.type, s.below, h.priority, h.run_at
        from span s
        cross join lateral (
            select j.priority, j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = s.queue and j.type = s.type
                and j.priority < s.above and j.priority > s.below
            order by j.priority desc, j.run_at, j.id
            limit 1
        ) as h
        union all
        select p.queue, p.type, p.below, h.priority, h.run_at
        from head p
        cross join lateral (
            select j.priority, j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = p.queue and j.type = p.type
                and j.priority < p.priority and j.priority > p.below
            order by j.priority desc, j.run_at, j.id
            limit 1
        ) as h
    )
    select
        array_agg(g.queue) as queues, array_agg(g.type) as types, array_agg(g.priority) as priorities,
        array_agg(g.run_at) as run_ats, array_agg(g.floor_run_at) as floor_run_ats, array_agg(g.floor_id) as floor_ids
    into heads
    from (
        select
            h.queue, h.type, h.priority, h.run_at, '-infinity'::timestamptz as floor_run_at,
            '00000000-0000-0000-0000-000000000000'::uuid as floor_id
        from head h
        union all
        select k.queue, k.type, k.floor_priority, h.run_at, k.floor_run_at, k.floor_id
        from kind k
        cross join lateral (
            select j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = k.queue and j.type = k.type and j.priority = k.floor_priority
                and (j.run_at, j.id) >= (k.floor_run_at, k.floor_id)
            order by j.run_at, j.id
            limit 1
        ) as h
    ) as g
    where g.run_at <= now;
    if heads.queues is null then
        return;
    end if;
    set local enable_sort = on;  -- no longer than this function lasts, because it sets enable_sort itself
    for spot in
        select g.queue, g.type, g.priority, g.floor_run_at, g.floor_id, l.most is not null as limited
        from unnest(
            heads.queues, heads.types, heads.priorities, heads.run_ats, heads.floor_run_ats, heads.floor_ids
        ) as g (queue, type, priority, run_at, floor_run_at, floor_id)
        left join ledger.job_limit l on l.queue = '*' and l.type = g.type
        order by g.priority desc, g.run_at, g.queue, g.type
    loop
        room := rest;
        if spot.limited then
            if not rooms ? spot.type then
                rooms := rooms || jsonb_build_object(spot.type, coalesce(ledger.room_for(spot.type), rest));
            end if;
            room := least(rest, (rooms ->> spot.type)::bigint);
        end if;
        continue when room <= 0;
        set local enable_sort = off;
        return query
            update ledger.job as t
            set status = 'running', lease_owner = claim.owner, starts = t.starts + 1,
                lease_expires_at = duly.clock() + make_interval(secs => lease_seconds),
                stage = null, progress = null, said = null
            where t.id = any (array(
                select j.id
                from ledger.job j
                where j.status = 'queued' and j.queue = spot.queue and j.type = spot.type and j.priority = spot.priority
                    and (j.run_at, j.id) >= (spot.floor_run_at, spot.floor_id) and j.run_at <= now
                order by j.run_at, j.id
                limit room
                for no key update skip locked
            ))
            returning t.*;
        get diagnostics took = row_count;
        rest := rest - took;
        exit when rest <= 0;
        if spot.limited then
            rooms := rooms || jsonb_build_object(spot.type, (rooms ->> spot.type)::bigint - took);
        end if;
    end loop;
end
$$;
comment on function ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[]) is
    'Hold up to so many due jobs of these kinds: higher priority first, then what has waited longest. Claimers never wait for '
    'each other. A floor lets a claimer that has been here pass over what it took before, where the dead cannot be cleared.';

-- Done -----------------------------------------------------------------------------------------------------------------
-- How nearly every job ends, so it is worth a function, which has its plan in hand: each row by its key, in the order of
-- the keys, and found once. An array of one key can be looked up and not joined by, so that besides the lookups there is
-- only the scan of the table, which is switched off: no statistics can turn the two sides round.

create function ledger.done(keys uuid[], owners text[], results jsonb[]) returns setof uuid
    language plpgsql set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set jit = off
    as $$
begin
    -- A lease without an end is no lease: said of the end, so that nothing but the key is looked up.
    return query
        update ledger.job as t
        set status = 'succeeded', settled_by = given.owner, lease_owner = null, lease_expires_at = null,
            result = given.result, last_error_code = null, last_error_message = null, said = null
        from (
            select g.key, g.owner, g.result
            from unnest(keys, owners, results) as g (key, owner, result)
            order by g.key
        ) as given
        where t.id = any (array[given.key]) and t.lease_owner = given.owner and t.lease_expires_at is not null
        returning t.id;
end
$$;
comment on function ledger.done(uuid[], text[], jsonb[]) is
    'Jobs that these owners hold are done, with these results; which they are. Whoever asked to cancel meanwhile was too late.';

-- Expired leases -------------------------------------------------------------------------------------------------------
-- Under a policy the planner may not use what it knows of an enum, so it cannot know that few jobs are running, and would
-- read the whole table. With that switched off only the index of running jobs is left: no other serves this filter or order.

create function ledger.mark_expired(keys uuid[], max_jobs bigint)
    returns table (key uuid, owner text, type text, queue text, attempt integer, max_attempts integer)
    language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $$
begin
    return query
        update ledger.job as t
        set
            status = case when t.cancel_requested_at is null then 'failed' else 'canceled' end::ledger.job_status,
            lease_owner = case when t.cancel_requested_at is null then t.lease_owner end,
            lease_expires_at = null,
            last_error_code = 'CRASHED',
            last_error_message = 'the lease ended without a word from its holder',
            said = jsonb_build_object(
                'actor', 'sweep', 'holder', t.lease_owner, 'code', 'CRASHED',
                'message', 'the lease ended without a word from its holder'
            )
        where t.id = any (array(
            select r.id
            from ledger.job r
            where r.status = 'running' and r.lease_expires_at < duly.now() and (keys is null or r.id = any (keys))
            order by r.created_at, r.id
            limit max_jobs
            for no key update skip locked
        ))
        returning t.id, t.lease_owner, t.type::text, t.queue, t.attempt, t.max_attempts;
end
$$;
comment on function ledger.mark_expired(uuid[], bigint) is
    'Up to so many jobs, or those of them with these ids, whose leases expired become failed, or canceled if that was asked; '
    'which they are, and whose they were. Locked ones are passed over.';

-- A handler's own transaction -------------------------------------------------------------------------------------------

create function ledger.fence(key uuid, owner text, role text) returns boolean
    language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
    as $$
declare
    org uuid;
begin
    select j.org_id into org
    from ledger.job j
    where j.id = fence.key and j.lease_owner = fence.owner and j.status = 'running'
    for no key update;
    if org is null then
        return false;
    end if;
    perform set_config('app.current_org_id', org::text, true), set_config('role', fence.role, true);
    return true;
end
$$;
comment on function ledger.fence(uuid, text, text) is
    'Lock a job that this owner holds until the transaction ends, act for its org and as this role; false when it is lost.';

create function ledger.complete(key uuid, owner text, result jsonb, worker text) returns boolean
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    stepped_down_to constant text := current_setting('role');
    is_done boolean;
begin
    -- Only a worker settles; a login that is none may not become one.
    perform set_config('role', complete.worker, true);
    is_done := exists (select from ledger.done(
        array[complete.key], array[complete.owner], case when complete.result is not null then array[complete.result] end
    ));
    perform set_config('role', stepped_down_to, true);
    return is_done;
end
$$;
comment on function ledger.complete(uuid, text, jsonb, text) is
    'Inside the transaction that fence() began: as the worker, the job is done, with this result; then on as before.';

-- Looking --------------------------------------------------------------------------------------------------------------

create function ledger.is_locked(org uuid, job uuid) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform ledger.require_tenant(org);
    perform from ledger.job as t where t.org_id = is_locked.org and t.id = is_locked.job for no key update skip locked;
    return not found;
end
$$;
comment on function ledger.is_locked(uuid, uuid) is
    'Has another transaction locked this job, so that claims pass over it? Only trying to lock it as they do tells.';

create function ledger.find_next(queues text[], types text[]) returns uuid
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    key uuid;
begin
    -- The claim itself, rolled back: nothing else knows its order, its pauses, its limits and its locks.
    select c.id into key from ledger.claim(find_next.queues, find_next.types, 'explain', 1, 1) as c;
    raise exception 'rolled back' using errcode = 'DU000';
exception when sqlstate 'DU000' then
    return key;
end
$$;
comment on function ledger.find_next(text[], text[]) is
    'Which job would a claim of these kinds with one free slot take this instant? It stays where it is.';

-- Cancelling -----------------------------------------------------------------------------------------------------------

create function ledger.release_key(org uuid, job uuid, actor text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    is_status ledger.job_status;
begin
    perform ledger.require_tenant(org);
    update ledger.job as t
    set idempotency_key = null, request_digest = null,
        said = jsonb_strip_nulls(jsonb_build_object(
            'actor', release_key.actor, 'reason', 'key_released', 'released_key', t.idempotency_key
        ))
    where t.org_id = release_key.org and t.id = release_key.job
        and t.status = 'canceled' and t.idempotency_key is not null
    returning t.status into is_status;
    return is_status;
end
$$;
comment on function ledger.release_key(uuid, uuid, text) is
    'Free the key of a canceled job for another request, and write that into its log; null when there was nothing to free.';

create function ledger.cancel(
    org uuid, job uuid, actor text default null, now boolean default false, release_key boolean default false
) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    is_status ledger.job_status;
begin
    perform ledger.require_tenant(org);
    update ledger.job as t
    set status = case when t.status = 'queued' or cancel.now then 'canceled' else t.status end,
        lease_owner = case when t.status = 'running' and not cancel.now then t.lease_owner end,
        lease_expires_at = case when t.status = 'running' and not cancel.now then t.lease_expires_at end,
        cancel_requested_at = coalesce(t.cancel_requested_at, duly.clock()),
        said = jsonb_strip_nulls(jsonb_build_object('actor', cancel.actor, 'reason', 'cancel_requested'))
    where t.org_id = cancel.org and t.id = cancel.job
        and (t.status = 'queued' or (t.status = 'running' and (cancel.now or not cancel.release_key)))
    returning t.status into is_status;
    if cancel.release_key then
        is_status := coalesce(ledger.release_key(org, job, actor), is_status);
    end if;
    return is_status;
end
$$;
comment on function ledger.cancel(uuid, uuid, text, boolean, boolean) is
    'Cancel a waiting job, ask a running one to stop or, now, cancel it too; release the key of a canceled one if that is '
    'wanted. The status it has then; null when nothing was changed.';

-- Dead letters again ---------------------------------------------------------------------------------------------------

create function ledger.retry(org uuid, job uuid, actor text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    is_status ledger.job_status;
begin
    perform ledger.require_tenant(org);
    update ledger.job as t
    set status = 'queued', starts = 0, snoozes = 0, run_at = duly.clock(), cancel_requested_at = null,
        said = jsonb_strip_nulls(jsonb_build_object('actor', retry.actor, 'reason', 'redriven'))
    where t.org_id = retry.org and t.id = retry.job and t.status = 'dead_letter'
    returning t.status into is_status;
    return is_status;
end
$$;
comment on function ledger.retry(uuid, uuid, text) is
    'A dead letter waits again as though it were new; who wanted that is written down. Null when it was none.';

create function ledger.redrive(
    org uuid,
    max_jobs bigint,
    actor text default null,
    type text default null,
    queue text default null,
    code text default null,
    finished_from timestamptz default null,
    finished_before timestamptz default null
) returns setof uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan
    as $$
begin
    perform ledger.require_tenant(org);
    return query
        update ledger.job as t
        set status = 'queued', starts = 0, snoozes = 0, run_at = duly.clock(), cancel_requested_at = null,
            said = jsonb_strip_nulls(jsonb_build_object('actor', redrive.actor, 'reason', 'redriven'))
        where t.org_id = redrive.org and t.id = any (array(
            select d.id
            from ledger.job d
            where d.org_id = redrive.org and d.status = 'dead_letter'
                and (redrive.type is null or d.type = redrive.type)
                and (redrive.queue is null or d.queue = redrive.queue)
                and (redrive.code is null or d.last_error_code = redrive.code)
                and (redrive.finished_from is null or d.finished_at >= redrive.finished_from)
                and (redrive.finished_before is null or d.finished_at < redrive.finished_before)
            order by d.created_at, d.id
            limit redrive.max_jobs
            for no key update skip locked
        ))
        returning t.id;
end
$$;
comment on function ledger.redrive(uuid, bigint, text, text, text, text, timestamptz, timestamptz) is
    'So many dead letters that match wait again, the oldest first; what somebody else is looking at is left to them.';

-- Retention and erasure ------------------------------------------------------------------------------------------------
-- The only ways a job and its log leave. EXECUTE is the lock; the flag they set, for as long as they run, is the catch.

create function ledger.retain(most bigint, out jobs bigint)
    -- The events of a job are found by its key, also by a plan made when there were few: the cascade is planned in here.
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $$
begin
    if most is null or most not between 1 and 10000 then
        raise exception 'retention takes 1 to 10000 jobs at a time, not %', coalesce(most::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    perform set_config('duly.retention', 'on', true);
    delete from ledger.job j
    where j.id = any (array(
        select r.id
        from ledger.job r
        where r.retain_until < duly.now()
        order by r.retain_until
        limit most
        for update skip locked
    ));
    get diagnostics jobs = row_count;
    perform set_config('duly.retention', '', true);
end
$$;
comment on function ledger.retain(bigint) is
    'Remove up to so many finished jobs whose time is over, the oldest first, with their events; returns how many went.';

create function ledger.erase(org uuid, job uuid, actor text, reason text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    gone record;
begin
    perform set_config('duly.retention', 'on', true);
    delete from ledger.job t
    where t.org_id = erase.org and t.id = erase.job and t.status in ('succeeded', 'canceled', 'dead_letter')
    returning t.type, t.queue, t.status, t.created_at, t.revision into gone;
    if found then
        insert into duly.transition (machine, key, seq, next_status, actor, detail_json)
        values ('job_erasure', erase.job::text, 1, 'erased', erase.actor, jsonb_strip_nulls(jsonb_build_object(
            'org_id', erase.org, 'type', gone.type, 'queue', gone.queue, 'status', gone.status,
            'created_at', gone.created_at, 'events', gone.revision, 'reason', erase.reason
        )));
    end if;
    perform set_config('duly.retention', '', true);
    return gone.status;
end
$$;
comment on function ledger.erase(uuid, uuid, text, text) is
    'Remove one finished job with its events before its time; a line of duly.transition says who did, never what was in it. '
    'The status it had; null when there is no such job, or it has not finished.';

-- Whose jobs these are -------------------------------------------------------------------------------------------------
-- The tenant is set for a transaction: set_config('app.current_org_id', ..., true). Without one there is nothing to see.

alter table ledger.job enable row level security;
alter table ledger.job force row level security;
alter table ledger.job_event enable row level security;
alter table ledger.job_event force row level security;
create policy job_of_tenant on ledger.job to "duly_api", "duly_readonly"
    using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);
create policy job_event_of_tenant on ledger.job_event to "duly_api", "duly_readonly"
    using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);
create policy job_of_any_tenant on ledger.job to "duly_owner", "duly_worker" using (true) with check (true);
create policy job_event_of_any_tenant on ledger.job_event to "duly_owner", "duly_worker" using (true) with check (true);

-- On Supabase, signed-in users may be let in by their token. Its claims are read where PostgREST puts them and auth.jwt()
-- finds them: the owner of these tables has no right to use schema auth there, and nobody there may grant it.
do $supabase$
begin
    if to_regrole('authenticated') is not null and exists (  -- asked so that it needs no right to the schema
        select from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = 'auth' and f.proname = 'jwt'
    ) then
        create policy job_of_jwt on ledger.job for select to authenticated using (org_id = (
            select coalesce(claims -> 'app_metadata' ->> 'org_id', claims ->> 'org_id')::uuid
            from (select nullif(current_setting('request.jwt.claims', true), '')::jsonb) as token (claims)
        ));
        create policy job_event_of_jwt on ledger.job_event for select to authenticated using (org_id = (
            select coalesce(claims -> 'app_metadata' ->> 'org_id', claims ->> 'org_id')::uuid
            from (select nullif(current_setting('request.jwt.claims', true), '')::jsonb) as token (claims)
        ));
    end if;
end
$supabase$;

-- Who may do what ------------------------------------------------------------------------------------------------------

revoke all on all functions in schema ledger from public;
grant usage on schema ledger to "duly_worker", "duly_api", "duly_readonly";
grant select on ledger.job, ledger.job_event, ledger.job_limit to "duly_worker", "duly_api", "duly_readonly";
grant insert, update on ledger.job_limit to "duly_worker";  -- they bind every org
-- Only workers move jobs. What a job is and was asked to be, nobody changes. The API steers by functions, for one org.
grant update (
    status, run_at, starts, snoozes, lease_owner, lease_expires_at, settled_by, cancel_requested_at, result, stage, progress,
    progressed_at, last_error_code, last_error_message, said
) on ledger.job to "duly_worker";
grant execute on function ledger.digest_of(text, text, jsonb, timestamptz, double precision) to "duly_worker", "duly_api", "duly_readonly";
grant execute on function ledger.refuse_other_tenant(uuid), ledger.wake() to "duly_worker", "duly_api";
grant execute on function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) to "duly_worker", "duly_api";
grant execute on function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) to "duly_worker", "duly_api";
grant execute on function ledger.complete(uuid, text, jsonb, text), ledger.cancel(uuid, uuid, text, boolean, boolean),
    ledger.release_key(uuid, uuid, text), ledger.retry(uuid, uuid, text), ledger.is_locked(uuid, uuid),
    ledger.find_next(text[], text[]),
    ledger.redrive(uuid, bigint, text, text, text, text, timestamptz, timestamptz) to "duly_worker", "duly_api";
grant execute on function ledger.done(uuid[], text[], jsonb[]), ledger.fence(uuid, text, text), ledger.room_for(text), ledger.mark_expired(uuid[], bigint),
    ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[]), ledger.retain(bigint)
    to "duly_worker";

-- The table that the ledger replaces -----------------------------------------------------------------------------------
-- A table public.jobs of exactly the old columns is carried over and dropped; any other public.jobs is somebody else's. Its
-- jobs had no tenant, no type and no payload: they are found under the org 00000000-0000-0000-0000-000000000001, as
-- carried_over in the queue carried_over. What was running there cannot be resumed and waits.

do $carry$
declare
    place constant regclass := to_regclass('public.jobs');
    holder constant text := '0003_ledger/carried_over';
    zone constant text := current_setting('timezone');
    unknown text;
    first_unknown text;
begin
    if place is null or (
        select array_agg(a.attname::text || case
            when a.attname = 'id' then ' ' || a.atttypid::regtype::text
            when a.attname = 'result' then ' ' || a.atttypid::regtype::text
            else ' ' || y.typcategory::text
        end order by a.attname)
        from pg_catalog.pg_attribute a
        join pg_catalog.pg_type y on y.oid = a.atttypid
        where a.attrelid = place and a.attnum > 0 and not a.attisdropped
    ) is distinct from array[
        'created_at D', 'error S', 'id uuid', 'progress N', 'result jsonb', 'stage S', 'status S', 'updated_at D'
    ] then
        return;
    end if;
    -- It is not ours, so this is done as whoever runs the migration.
    set local role none;
    if not (select pg_has_role(c.relowner, 'usage') from pg_catalog.pg_class c where c.oid = place) then
        raise warning 'public.jobs is left as it is: "%" does not own it', current_user;
        set local role "duly_owner";
        return;
    end if;
    lock table public.jobs in access exclusive mode;
    select string_agg(format('%L (%s)', status, jobs), ', ' order by jobs desc, status), min(status)
    into unknown, first_unknown
    from (
        select left(o.status, 50) as status, count(*) as jobs
        from public.jobs as o
        where o.status not in ('pending', 'processing', 'completed', 'failed', 'canceled', 'cancelled')
        group by 1 order by 2 desc, 1 limit 10
    ) as counted;
    if unknown is not null then
        raise exception 'table public.jobs has jobs of an unknown status (number of jobs): %', unknown
            using hint = format(
                'known are pending, processing, completed, failed and canceled; change them first, for example: '
                'update public.jobs set status = ''failed'' where status = %L; or keep the table out of the ledger: '
                'alter table public.jobs rename to jobs_before_duly', first_unknown
            );
    end if;
    set local timezone = 'UTC';  -- a time without a zone was written in UTC
    insert into ledger.job (id, org_id, type, queue, created_at, run_at, result, stage, progress, said)
    select
        id, '00000000-0000-0000-0000-000000000001', 'carried_over', 'carried_over',
        coalesce(created_at::timestamptz, duly.clock()), coalesce(created_at::timestamptz, duly.clock()), result,
        left(nullif(stage, ''), 200), least(greatest(progress, 0), 100),
        jsonb_strip_nulls(jsonb_build_object(
            'actor', holder, 'reason', 'carried_over', 'status', status, 'stage', left(stage, 200), 'progress', progress
        ))
    from public.jobs;
    update ledger.job t set status = 'canceled' from public.jobs o where t.id = o.id and o.status in ('canceled', 'cancelled');
    update ledger.job t
    set status = 'running', lease_owner = holder, lease_expires_at = duly.clock(), starts = 1, said = null
    from public.jobs o
    where t.id = o.id and o.status in ('completed', 'failed');
    update ledger.job t
    set status = 'succeeded', settled_by = holder, lease_owner = null, lease_expires_at = null
    from public.jobs o
    where t.id = o.id and o.status = 'completed';
    update ledger.job t
    set status = 'failed', settled_by = holder, lease_expires_at = null, last_error_code = 'UNKNOWN_ERROR',
        last_error_message = left(o.error, 2048),
        said = jsonb_strip_nulls(jsonb_build_object(
            'actor', holder, 'code', 'UNKNOWN_ERROR', 'message', left(o.error, 2048)
        ))
    from public.jobs o
    where t.id = o.id and o.status = 'failed';
    update ledger.job t
    set status = 'dead_letter', lease_owner = null, said = jsonb_build_object('reason', 'carried_over')
    from public.jobs o
    where t.id = o.id and o.status = 'failed';
    -- When they began is not known; when they ended is.
    update ledger.job t
    set started_at = null, finished_at = coalesce(o.updated_at::timestamptz, t.finished_at)
    from public.jobs o
    where t.id = o.id and t.finished_at is not null;
    drop table public.jobs;
    perform set_config('timezone', zone, true);
    set local role "duly_owner";
end
$carry$;

do $closing$
declare
    found record;
begin
    for found in
        select r.rolname as guest, n.nspname as home
        from pg_catalog.pg_roles as r
        cross join pg_catalog.pg_namespace as n
        where r.rolname in ('anon', 'authenticated')
            and n.nspname in ('duly', 'ledger', 'posts', 'scheduler', 'expense', 'user', 'schedule_ingest')
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
