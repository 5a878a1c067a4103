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

-- name: may_use
-- What a schema grants to a role; where there is no such schema yet, whoever makes it will grant.
select coalesce(
    (
        select n.oid is null or has_schema_privilege(r.oid, n.oid, 'usage')
        from pg_catalog.pg_roles as r
        left join pg_catalog.pg_namespace as n on n.nspname = %(schema)s
        where r.rolname = %(role)s
    ),
    not exists (select from pg_catalog.pg_namespace where nspname = %(schema)s)
);
