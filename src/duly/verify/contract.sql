-- Which parts of duly a database has.

-- name: has_test_clock
-- In a database for tests the columns whose default is now() follow the clock that tests move.
select to_regclass('duly.test_clock') is not null;

-- name: has_users_of_others
-- The comment of a table that duly created says so, as in scheduler.owns_users().
select exists (
    select
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where (n.nspname, c.relname) = ('user', 'users')
        and starts_with(obj_description(c.oid, 'pg_class'), 'Created by duly') is not true
);

-- name: list_schemas_with_functions
-- Of these schemas. Every part of duly has functions, and a trigger of one part may call a function of another.
select distinct n.nspname
from pg_catalog.pg_proc as f
inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
where n.nspname = any(%(schemas)s);
