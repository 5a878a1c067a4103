-- What a downgrade would take away.

-- name: become_owner
-- For the rest of the transaction.
set local role {owner};

-- name: list_owned_tables
-- Of these tables the ones that are there and belong to our owner: a backend's own tables are never dropped.
select n.nspname, c.relname
from unnest(%(schemas)s::text[], %(tables)s::text[]) with ordinality as wanted (nspname, relname, nth)
inner join pg_catalog.pg_namespace as n using (nspname)
inner join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = wanted.relname
where c.relkind in ('r', 'p') and pg_get_userbyid(c.relowner) = %(owner)s
order by wanted.nth;

-- name: count_rows
-- Every row, of whichever tenant: this is asked as the owner, whom no policy binds.
select count(*) from {schema}.{table};
