-- Ingest tables that a backend owns, as lines of the contract; names of constraints and additional columns do not
-- count.

-- name: is_owned_by_backend
-- Whether a table of sessions exists that duly did not create. Needs no privileges on the schema.
select exists (
    select
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(in_schema)s and c.relname = 'capture_session' and c.relkind in ('r', 'p')
        and not exists (
            select
            from pg_catalog.pg_proc as f
            where f.pronamespace = n.oid and f.proname = 'capture_session_guard'
        )
) as is_so;

-- name: is_migrated
-- Whether duly was migrated in this database too.
select exists (
    select
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = 'duly' and c.relname = 'orgs'
) as is_so;

-- name: find_owner
-- The owner of the table of sessions.
select pg_get_userbyid(c.relowner)::text as name
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %(in_schema)s and c.relname = 'capture_session';

-- name: list_lines
-- The existing objects as lines of the contract; a column has two lines, with and without its nullability.
with here as (
    select c.oid, c.relname::text as name
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(in_schema)s and c.relkind in ('r', 'p')
),
keyed as (
    select i.indexrelid, i.indrelid, array_agg(a.attname::text order by place.nth) as columns
    from here
    inner join pg_catalog.pg_index as i on i.indrelid = here.oid and i.indisunique and i.indpred is null
    cross join lateral unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) with ordinality as place (attnum, nth)
    inner join pg_catalog.pg_attribute as a on a.attrelid = i.indrelid and a.attnum = place.attnum
    group by i.indexrelid, i.indrelid
)
select format('table %%s', name) as line from here
union all
select format(
    'column %%s.%%s %%s%%s', here.name, a.attname,
    case when t.typtype = 'e' then t.typname::text else format_type(a.atttypid, a.atttypmod) end, form.suffix
)
from here
inner join pg_catalog.pg_attribute as a on a.attrelid = here.oid and a.attnum > 0 and not a.attisdropped
inner join pg_catalog.pg_type as t on t.oid = a.atttypid
cross join lateral (values (''), (case when a.attnotnull then ' not null' else ' null' end)) as form (suffix)
union all
select format('key %%s (%%s)', here.name, (
    select string_agg(each, ', ' order by each) from unnest(keyed.columns) as each
))
from keyed
inner join here on here.oid = keyed.indrelid
union all
select format(
    'reference %%s (%%s) to %%s (%%s)', here.name,
    (
        select string_agg(a.attname::text, ', ' order by a.attname)
        from pg_catalog.pg_attribute as a
        where a.attrelid = k.conrelid and a.attnum = any (k.conkey)
    ),
    other.name,
    (
        select string_agg(a.attname::text, ', ' order by a.attname)
        from pg_catalog.pg_attribute as a
        where a.attrelid = k.confrelid and a.attnum = any (k.confkey)
    )
)
from here
inner join pg_catalog.pg_constraint as k on k.conrelid = here.oid and k.contype = 'f'
inner join here as other on other.oid = k.confrelid
union all
select format('trigger %%s on %%s', t.tgname, here.name)
from here
inner join pg_catalog.pg_trigger as t on t.tgrelid = here.oid and t.tgenabled in ('O', 'A')
union all
select format('state %%s', e.enumlabel)
from here
inner join pg_catalog.pg_attribute as a on a.attrelid = here.oid and a.attname = 'state'
inner join pg_catalog.pg_enum as e on e.enumtypid = a.atttypid
where here.name = 'capture_session';

-- name: list_required_columns
-- Columns, of the tables that a worker inserts into, that are not null and have no default.
select c.relname::text as table_name, a.attname::text as column_name
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
inner join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where n.nspname = %(in_schema)s
    and c.relname in ('schedule_version', 'day_snapshot', 'schedule_event', 'schedule_notification')
    and a.attnotnull and not a.atthasdef and a.attidentity = '' and a.attgenerated = ''
order by c.relname, a.attname;
