-- Compiled from the Alembic revision 0009_voices by duly; do not edit.

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

-- Other voices: where else a person is reached, what signs the links they answer by, and which promises are broken.

-- Where a person's messages go besides ---------------------------------------------------------------------------------

create table "user".apprise_addresses (
    user_id bigint not null,
    url text not null,
    service text not null generated always as (split_part(url, '://', 1)) stored,
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_apprise_addresses primary key (user_id),
    constraint fk_apprise_addresses_users_user_id foreign key (user_id) references "user".users (id) on delete cascade,
    constraint ck_apprise_addresses__url check (url ~ '^[a-z][a-z0-9_+.-]{0,31}://.' and char_length(url) <= 2048)
);
comment on table "user".apprise_addresses is
    'Where messages by apprise go. The address holds passwords: only who sends may read it, everybody else its service.';
create trigger apprise_addresses_touch before update on "user".apprise_addresses
    for each row execute function duly.touch();

-- What signs links -----------------------------------------------------------------------------------------------------

create table duly.link_keys (
    id bigint not null generated always as identity,
    secret bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    created_at timestamptz not null default duly.clock(),
    constraint pk_link_keys primary key (id),
    constraint ck_link_keys__secret check (octet_length(secret) between 32 and 64)
);
comment on table duly.link_keys is 'What signs the links in messages: the newest signs, every one that is here is honoured.';
insert into duly.link_keys default values;

-- Which promises are broken --------------------------------------------------------------------------------------------

create table posts.objectives (
    name text not null,
    looked_at timestamptz not null default '-infinity',
    breached_at timestamptz,
    breaches bigint not null default 0,
    constraint pk_objectives primary key (name),
    constraint ck_objectives__name check (name ~ '^[a-z][a-z0-9_]{0,31}$'),
    constraint ck_objectives__breaches check (breaches >= case when breached_at is null then 0 else 1 end)
);
comment on table posts.objectives is
    'One row a promise: whoever holds it looks how it stands; a breach begins here, once, and is told under its number.';
comment on column posts.objectives.breached_at is 'Since when it is broken; null while it is kept.';
comment on column posts.objectives.breaches is 'How often it was broken so far.';
insert into posts.objectives (name) values ('intents'), ('lag'), ('stuck');

-- Who may do what ------------------------------------------------------------------------------------------------------

grant select on "user".apprise_addresses to "duly_worker";
grant select (user_id, service, created_at, updated_at) on "user".apprise_addresses to "duly_api", "duly_readonly";
grant select on duly.link_keys to "duly_worker", "duly_api";
grant select on posts.objectives to "duly_worker", "duly_api", "duly_readonly";
grant update (looked_at, breached_at, breaches) on posts.objectives to "duly_worker";

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
