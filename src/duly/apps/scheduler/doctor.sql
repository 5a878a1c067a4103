-- Partitioned tables.

-- name: list_partitions
-- Every partition of duly's partitioned tables, ordered by lower bound; a bound is a timestamp where the key begins
-- with a time, and null where it is unbounded.
select
    n.nspname as schema,
    t.relname as table,
    c.relname as partition,
    quote_ident(n.nspname) as schema_name,
    format('%%I.%%I', n.nspname, t.relname) as full_name,
    quote_ident(n.nspname) || '.' || quote_ident(c.relname) as partition_name,
    key.is_time as is_by_time,
    bound = 'DEFAULT' as is_default,
    case when key.is_time
        then nullif(substring(bound from 'FROM \(''([^'']*)'''), '-infinity')::timestamptz end as from_at,
    case when key.is_time
        then nullif(substring(bound from 'TO \(''([^'']*)'''), 'infinity')::timestamptz end as to_at,
    coalesce(has_table_privilege(c.oid, 'select') and not row_security_active(c.oid), false) as is_readable,
    coalesce(pg_stat_get_live_tuples(c.oid), 0) as estimated_rows,
    duly.now() as now_at
from pg_catalog.pg_partitioned_table p
join pg_catalog.pg_class t on t.oid = p.partrelid
join pg_catalog.pg_namespace n on n.oid = t.relnamespace
left join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum = p.partattrs[0] and a.attnum > 0
cross join lateral (
    select p.partstrat = 'r'
        and coalesce(a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype), false) as is_time
) as key
left join pg_catalog.pg_inherits i on i.inhparent = t.oid
left join pg_catalog.pg_class c on c.oid = i.inhrelid
left join lateral pg_get_expr(c.relpartbound, c.oid) as bound on true
where n.nspname = any(%(schemas)s) and not t.relispartition
order by n.nspname, t.relname, from_at nulls first, c.relname;

-- name: count_rows
-- The number of rows, counted up to a limit.
select count(*) as rows from (select from {schema}.{table} limit %(limit)s) as counted;
