-- Queries of the migration command.

-- name: become_owner
-- Until the transaction ends.
set local role {owner};

-- name: list_tables
-- Without monthly partitions; `is_owned` says whether the table belongs to duly.
select n.nspname, c.relname, pg_get_userbyid(c.relowner) = %(owner)s as is_owned
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p') and not c.relispartition;

-- name: count_rows
-- Rows of all tenants: this runs as the owner, to whom no policy applies.
select count(*) from {schema}.{table};

-- name: has_sessions
-- Whether there is a table of capture sessions, whichever program made it; a query that needs no right to the schema.
select exists (
    select from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema)s and c.relname = 'capture_session'
);
