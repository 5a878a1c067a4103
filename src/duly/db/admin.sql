-- Administration of databases.

-- name: create_database
-- The unique name decides between concurrent callers; the second gets an error.
create database {name};

-- name: clone_database
-- The template must have no connections; copying files is the fastest strategy for a small database.
create database {name} template {template} strategy file_copy;

-- name: rename_database
-- The database must have no connections; it is always complete under one of the two names.
alter database {name} rename to {new_name};

-- name: drop_database
-- Closes its connections; a database that does not exist is no error.
drop database if exists {name} with (force);

-- name: has_database
-- By its exact name.
select exists (select from pg_catalog.pg_database where datname = %(name)s);

-- name: list_databases
-- By literal prefix: an underscore is no wildcard here.
select datname from pg_catalog.pg_database
where starts_with(datname::text, %(prefix)s)
order by datname;

-- name: works_as_login
-- duly's own tables have a guard function, and the worker sets its role for them. For a backend's tables it keeps its
-- login, unless the role was granted the sessions and the login may set it; also where there is no such table.
select not exists (
    select
    from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = %(schema)s and f.proname = 'capture_session_guard'
) and not exists (
    select
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    cross join pg_catalog.pg_roles as r
    where n.nspname = %(schema)s and c.relname = 'capture_session' and r.rolname = %(role)s
        and has_schema_privilege(r.oid, n.oid, 'usage') and has_any_column_privilege(r.oid, c.oid, 'update')
        and pg_has_role(
            session_user, r.oid,
            case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
        )
);
