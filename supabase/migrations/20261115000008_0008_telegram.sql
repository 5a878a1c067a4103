-- Compiled from the Alembic revision 0008_telegram by duly; do not edit.

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

-- Telegram: whom the bot meets, whom a link binds, and sessions under a name of the bot's own.

-- One Telegram id is one person: the unique key decides. The bot makes and binds people by these functions alone.

create function "user".meet_telegram(telegram bigint, spoken text) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into "user".users (uid, telegram_id, language) values ('telegram:' || telegram, telegram, spoken)
    on conflict do nothing;
    if found then
        return true;
    end if;
    -- Somebody whose Telegram id was taken off them, and who comes back.
    update "user".users as u set telegram_id = telegram
    where u.uid = 'telegram:' || telegram and u.telegram_id is null
        and not exists (select from "user".users as o where o.telegram_id = telegram);
    return found;
end
$$;
comment on function "user".meet_telegram(bigint, text) is
    'Somebody writes to the bot for the first time: they become a person, once. False when they are one.';

create function "user".link_telegram(person bigint, telegram bigint) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    update "user".users as u set telegram_id = telegram
    where u.id = person and (u.telegram_id is null or u.telegram_id = telegram);
    return found;
end
$$;
comment on function "user".link_telegram(bigint, bigint) is
    'Bind a Telegram id to somebody who has none; again is no error. False when they have another, or are not there.';

revoke all on function "user".meet_telegram(bigint, text), "user".link_telegram(bigint, bigint) from public;
grant execute on function "user".meet_telegram(bigint, text), "user".link_telegram(bigint, bigint) to "duly_api";

-- A command that comes twice begins one session: its id is made of the message that began it.
-- Only where the table is ours: what a backend owns is begun by the backend.

do $ingest$
begin
if not exists (  -- asked so that it needs no right to the schema
    select from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = 'schedule_ingest' and f.proname = 'capture_session_guard'
) then
    return;
end if;
execute $make$
grant insert (id) on "schedule_ingest".capture_session to "duly_api";
$make$;
end
$ingest$;

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
