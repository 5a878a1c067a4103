-- What a migration finds.

-- name: become_owner
-- For the rest of the transaction.
set local role {owner};

-- name: list_tables
-- Whole tables, not the partitions that come and go with the months; and whether they are ours.
select n.nspname, c.relname, pg_get_userbyid(c.relowner) = %(owner)s as is_owned
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p') and not c.relispartition;

-- name: count_rows
-- Every row, of whichever tenant: this is asked as the owner, whom no policy binds.
select count(*) from {schema}.{table};
