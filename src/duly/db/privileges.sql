-- Privileges of a login.

-- name: find_missing_privileges
-- The numbers of the privileges that the current user lacks; one on an object that does not exist is not missing.
select p.nth::integer as nth, quote_ident(current_user) as login
from unnest(
    %(object_types)s::text[], %(schemas)s::text[], %(names)s::text[], %(actions)s::text[], %(columns)s::text[]
) with ordinality as p (object_type, schema_name, name, action, column_name, nth)
inner join pg_catalog.pg_namespace as n on n.nspname = p.schema_name
left join pg_catalog.pg_class as c
    on c.relnamespace = n.oid and c.relname = p.name and p.object_type in ('table', 'column')
left join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attname = p.column_name and p.object_type = 'column'
left join pg_catalog.pg_proc as f on f.pronamespace = n.oid and f.proname = p.name and p.object_type = 'function'
where not case p.object_type
    when 'schema' then has_schema_privilege(n.oid, p.action)
    when 'column' then has_column_privilege(c.oid, a.attnum, p.action)
    when 'function' then has_function_privilege(f.oid, p.action)
    else
        case p.action when 'delete' then has_table_privilege(c.oid, 'delete')
            else has_any_column_privilege(c.oid, p.action) end
end
order by p.nth;
