-- What the ingest tables of an installation look like, from the catalogue of PostgreSQL.

-- name: find_columns
-- The columns of each table of a schema, read from the catalogue because that needs no privilege on the schema.
select c.relname::text as table_name, array_agg(a.attname::text) as columns
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
inner join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where n.nspname = %(schema)s and c.relkind in ('r', 'p')
group by c.relname;

-- name: find_session_schemas
-- The schemas of this database that have a table capture_session.
select array_agg(n.nspname::text order by n.nspname)
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where c.relname = 'capture_session' and c.relkind in ('r', 'p');

-- name: has_contract_event_key
-- Whether events have the contract's unique key, without the session. It is recognized by its columns.
select exists (
    select
    from pg_catalog.pg_index as i
    inner join pg_catalog.pg_class as c on c.oid = i.indrelid
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema)s and c.relname = 'schedule_event' and i.indisunique and not i.indisprimary
        and (
            select array_agg(a.attname::text order by a.attname)
            from pg_catalog.pg_attribute as a
            where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])
        ) = array['event_type', 'location_fingerprint', 'new_value_hash', 'old_value_hash', 'schedule_date', 'user_id']
);

-- name: find_state_names
-- The states of the enum in this database; null when the table does not exist.
select array_agg(e.enumlabel::text order by e.enumsortorder) as labels
from pg_catalog.pg_attribute as a
inner join pg_catalog.pg_enum as e on e.enumtypid = a.atttypid
where a.attrelid = to_regclass(%(table)s) and a.attname = 'state';
