-- Before every migration, in its transaction: one migrator at a time, the roles, the schemas that are taken.
-- Conditions are decided here, by the database, so that the compiled SQL is the same program.

set local lock_timeout = '3s';
set local client_min_messages = warning;
select pg_advisory_xact_lock({'lock'});

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
            ({'owner'}, 'DULY_OWNER_ROLE'),
            ({'worker'}, 'DULY_WORKER_ROLE'),
            ({'api'}, 'DULY_API_ROLE'),
            ({'readonly'}, 'DULY_READONLY_ROLE')
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
    if not pg_has_role({'worker'}, {'api'}, 'member') then
        begin
            execute format(
                case when current_setting('server_version_num')::int >= 160000
                    then 'grant %I to %I with inherit false, set true' else 'grant %I to %I' end,
                {'api'}, {'worker'}
            );
        exception when insufficient_privilege then
            null;  -- the roles existed before: a worker that needs it names the missing grant
        end;
    end if;
    if not pg_has_role(
        current_user, {'owner'},
        case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
    ) then
        begin
            execute format('grant %I to %I', {'owner'}, current_user);
        exception when insufficient_privilege then
            raise exception '"%" may not act as the role "%", which owns what duly makes', current_user, {'owner'}
                using errcode = 'insufficient_privilege', hint = format(
                    'ask an administrator to run: grant %I to %I; or name a role of yours in DULY_OWNER_ROLE',
                    {'owner'}, current_user
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
    where n.nspname = any ({'schemas'}::text[])
        and not has_schema_privilege({'owner'}, n.oid, 'create')
        and not exists (
            select from pg_catalog.pg_class as c
            where c.relnamespace = n.oid
                and (n.nspname, c.relname) in (({'ingest'}, 'capture_session'), ('user', 'users'))
        );
    if taken is not null then
        raise exception 'duly needs schemas that exist and do not belong to "%": %', {'owner'}, taken
            using errcode = 'duplicate_schema', hint = format(
                'use another database for duly, or rename the schema: alter schema %s rename to another_name; or, if '
                'it was made for duly: alter schema %s owner to %I; or leave an application out that needs it: '
                'duly migrate --apps%s',
                first_taken, first_taken, {'owner'},
                case
                    when first_taken = quote_ident({'ingest'}) then '; or set DB_SCHEMA to another name'
                    else ''
                end
            );
    end if;
end
$prelude$;
