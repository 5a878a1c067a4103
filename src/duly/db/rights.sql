-- Privileges of a login.

-- name: find_missing_rights
-- The numbers of the rights that the current user lacks; a right on an object that does not exist is not missing.
select w.nth::integer as nth, quote_ident(current_user) as login
from unnest(
    %(kinds)s::text[], %(schemas)s::text[], %(names)s::text[], %(privileges)s::text[], %(columns)s::text[]
) with ordinality as w (kind, home, name, privilege, column_name, nth)
inner join pg_catalog.pg_namespace as n on n.nspname = w.home
left join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = w.name and w.kind in ('table', 'column')
left join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attname = w.column_name and w.kind = 'column'
left join pg_catalog.pg_proc as f on f.pronamespace = n.oid and f.proname = w.name and w.kind = 'function'
where not case w.kind
    when 'schema' then has_schema_privilege(n.oid, w.privilege)
    when 'column' then has_column_privilege(c.oid, a.attnum, w.privilege)
    when 'function' then has_function_privilege(f.oid, w.privilege)
    else
        case w.privilege when 'delete' then has_table_privilege(c.oid, 'delete')
            else has_any_column_privilege(c.oid, w.privilege) end
end
order by w.nth;
