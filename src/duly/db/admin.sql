-- Whole databases, on a server that lets us.

-- name: create_database
-- The name decides who made it; the one who comes second is told so.
create database {name};

-- name: clone_database
-- A copy of a database that nobody is connected to; copying files is the quickest way for a small one.
create database {name} template {template} strategy file_copy;

-- name: rename_database
-- A database that nobody is connected to gets another name; it is complete under the one or under the other.
alter database {name} rename to {new_name};

-- name: drop_database
-- Whatever is still connected to it goes as well; one that is not there is no loss.
drop database if exists {name} with (force);

-- name: has_database
-- By its exact name.
select exists (select from pg_catalog.pg_database where datname = %(name)s);

-- name: list_databases
-- Those whose names begin so, letter by letter: an underscore is no wildcard here.
select datname from pg_catalog.pg_database
where starts_with(datname::text, %(prefix)s)
order by datname;

-- name: works_as_login
-- duly's own tables have a guard, and its worker's role works on them. On others the login does, unless the role was
-- granted the sessions and the login may take it; likewise where there is no such table, which it is told.
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
