-- Compiled from the Alembic revision 0001_foundation by duly; do not edit.

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

-- The foundation: the clocks, tenants, people, keys, workers, and the log of transitions.

-- The clocks -----------------------------------------------------------------------------------------------------------
-- Every default, trigger and predicate of duly reads the time through these two. Plain SQL, so the planner inlines them; a
-- test database replaces their bodies and moves the time.

create function duly.clock() returns timestamptz
    language sql volatile parallel safe
    return clock_timestamp();
comment on function duly.clock() is 'The time now: for stamps. A statement that waited must not write an old time.';

create function duly.now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();
comment on function duly.now() is 'The time at the start of the statement: for predicates that an index must serve.';

create function duly.new_id() returns uuid
    language sql volatile parallel safe
    return encode(
        -- Six bytes of milliseconds before a random uuid, whose version 4 becomes a 7 by two bits.
        set_bit(set_bit(overlay(
            uuid_send(gen_random_uuid())
            placing substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3)
            from 1
        ), 52, 1), 53, 1),
        'hex'
    )::uuid;
comment on function duly.new_id() is
    'A UUIDv7: what is made together lies together, in every index that begins with it.';

create function duly.is_time_zone(zone text) returns boolean
    language plpgsql immutable parallel safe
    as $$
begin
    perform timestamptz 'epoch' at time zone zone;
    return zone ~ '^[A-Za-z]';  -- a bare offset has no summer time and is not a zone
exception when invalid_parameter_value then
    return false;
end
$$;

create function duly.touch() returns trigger
    language plpgsql
    as $$
begin
    new.updated_at := duly.clock();
    return new;
end
$$;
comment on function duly.touch() is 'updated_at is the database''s word, not the caller''s.';

-- Append-only tables ---------------------------------------------------------------------------------------------------
-- The privilege is the lock: DELETE and TRUNCATE are granted to nobody. This is the safety catch, which retention lifts for
-- its own transaction.

create function duly.refuse_change() returns trigger
    language plpgsql
    as $$
begin
    if tg_op = 'DELETE' and current_setting('duly.retention', true) = 'on' then
        return old;
    end if;
    raise exception '%.% is append-only: % refused', tg_table_schema, tg_table_name, tg_op
        using errcode = 'restrict_violation';
end
$$;

-- Tenants --------------------------------------------------------------------------------------------------------------

create table duly.orgs (
    id uuid not null default gen_random_uuid(),
    name text not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_orgs primary key (id),
    constraint uq_orgs__name unique (name),
    constraint ck_orgs__name check (
        name = btrim(name) and char_length(name) between 1 and 200 and name !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
    )
);
comment on table duly.orgs is 'A tenant: whose jobs and keys these are.';

-- People ---------------------------------------------------------------------------------------------------------------

create table "user".users (
    id bigint not null generated always as identity,
    uid text not null,
    telegram_id bigint,
    zone text not null default 'UTC',
    language text not null default 'en',
    currency text not null default 'EUR',
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_users primary key (id),
    constraint uq_users__uid unique (uid),
    constraint uq_users__telegram_id unique (telegram_id),
    constraint ck_users__uid check (uid ~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$'),
    constraint ck_users__zone check (char_length(zone) <= 64 and duly.is_time_zone(zone)),
    constraint ck_users__language check (language ~ '^[a-z]{2,3}$'),
    constraint ck_users__currency check (currency ~ '^[A-Z]{3}$')
);
comment on table "user".users is 'The one table of people: who a Telegram id, an author id, a scheduler''s user is.';
create trigger users_touch before update on "user".users for each row execute function duly.touch();

-- Keys -----------------------------------------------------------------------------------------------------------------

create table duly.api_keys (
    id uuid not null default gen_random_uuid(),
    name text not null,
    prefix text not null,
    secret_sha256 bytea not null,
    scopes text[] not null,
    org_id uuid,
    user_id bigint,
    created_at timestamptz not null default duly.clock(),
    expires_at timestamptz,
    revoked_at timestamptz,
    constraint pk_api_keys primary key (id),
    constraint uq_api_keys__prefix unique (prefix),
    constraint fk_api_keys_orgs_org_id foreign key (org_id) references duly.orgs (id) on delete restrict,
    constraint fk_api_keys_users_user_id foreign key (user_id) references "user".users (id) on delete restrict,
    constraint ck_api_keys__name check (
        name = btrim(name) and char_length(name) between 1 and 200 and name !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
    ),
    constraint ck_api_keys__prefix check (prefix ~ '^duly_[a-z0-9]{12}$'),
    constraint ck_api_keys__secret_sha256 check (octet_length(secret_sha256) = 32),
    constraint ck_api_keys__scopes check (cardinality(scopes) between 1 and 32 and array_position(scopes, null) is null),
    constraint ck_api_keys__holder check (num_nonnulls(org_id, user_id) >= 1),
    constraint ck_api_keys__expires_at check (expires_at > created_at)
);
comment on table duly.api_keys is 'A key is shown once; here lie its prefix, for finding it, and its hash, for proving it.';
create index idx_api_keys__org_id on duly.api_keys (org_id);
create index idx_api_keys__user_id on duly.api_keys (user_id);

-- Workers --------------------------------------------------------------------------------------------------------------

create table duly.workers (
    id uuid not null,
    worker_id text not null,
    host text not null,
    pid bigint not null,
    version text not null,
    kinds text[] not null,
    slots jsonb not null,
    started_at timestamptz not null default duly.clock(),
    seen_at timestamptz not null default duly.clock(),
    stopping_at timestamptz,
    stopped_at timestamptz,
    constraint pk_workers primary key (id),
    constraint ck_workers__worker_id check (char_length(worker_id) between 1 and 200),
    constraint ck_workers__slots check (jsonb_typeof(slots) = 'object')
) with (fillfactor = 50);
comment on column duly.workers.slots is 'How many rows of each kind of work it takes at once.';
comment on column duly.workers.stopping_at is 'From then on it takes nothing new, and only finishes what it has.';
comment on table duly.workers is 'Worker processes, living and lately gone: for people and `explain`; no decision rests on it.';
create index idx_workers__started_at on duly.workers (started_at);

-- Transitions ----------------------------------------------------------------------------------------------------------

create table duly.transition (
    machine text not null,
    key text not null,
    seq bigint not null,
    ts timestamptz not null default duly.clock(),
    prev_status text,
    next_status text not null,
    actor text,
    detail_json jsonb,
    constraint pk_transition primary key (machine, key, seq),
    constraint ck_transition__seq check (seq > 0),
    constraint ck_transition__first check ((seq = 1) = (prev_status is null))
);
comment on table duly.transition is 'One row per transition of posts, captures and runs, in order, written by their triggers.';
create index idx_transition__ts on duly.transition (ts);
create trigger transition_is_append_only before update or delete on duly.transition
    for each row execute function duly.refuse_change();
create trigger transition_is_not_emptied before truncate on duly.transition
    for each statement execute function duly.refuse_change();

-- Who may do what ------------------------------------------------------------------------------------------------------

revoke all on all functions in schema duly from public;
grant usage on schema duly, "user" to "duly_worker", "duly_api", "duly_readonly";
grant execute on all functions in schema duly to "duly_worker", "duly_api", "duly_readonly";
grant select on duly.orgs, duly.workers, duly.transition, "user".users to "duly_worker", "duly_api", "duly_readonly";
grant insert, update on duly.workers to "duly_worker";
grant delete on duly.workers to "duly_worker";
grant select on duly.api_keys to "duly_api";
grant select (id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at) on duly.api_keys to "duly_readonly";

-- A worker on tables that a backend owns uses the clocks and the list of workers as the login it is. Whoever could use
-- the small schema that the lease migration made, and the prelude removed, can use this one.
do $guests$
declare
    guest record;
begin
    for guest in
        select coalesce(quote_ident(g.name), 'public') as name, g.object, g.privilege
        from jsonb_to_recordset(coalesce(nullif(current_setting('duly.guests', true), ''), '[]')::jsonb)
            as g (name text, object text, privilege text)
    loop
        if guest.object = 'schema' then
            execute format('grant usage on schema duly to %s', guest.name);
            execute format('grant execute on function duly.clock(), duly.now() to %s', guest.name);
        elsif guest.privilege in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') then
            execute format('grant %s on duly.workers to %s', guest.privilege, guest.name);
        end if;
    end loop;
end
$guests$;

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
