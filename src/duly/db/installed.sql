-- Which parts of duly a database has.

-- name: list_existing_tables
-- Of these tables, whichever program made them; a query that needs no right to their schemas.
select n.nspname || '.' || c.relname
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname || '.' || c.relname = any (%(tables)s) and c.relkind in ('r', 'p');
