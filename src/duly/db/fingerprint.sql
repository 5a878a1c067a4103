-- The catalogue of a database, as lines of text.

-- name: describe_catalogue
-- Everything that affects behaviour: Alembic compares tables only, and a dropped trigger or grant matters more than a
-- column. The transitions of a state machine are read from the body of the installed guard, so that a guard which
-- allows more, or less, differs by the name of that transition.
with ours as (
    select oid, nspname from pg_catalog.pg_namespace where nspname = any(%(schemas)s)
),
relation as (
    select c.oid, c.relname, n.nspname, c.relkind, c.relacl, c.relrowsecurity, c.relforcerowsecurity, c.relowner,
        c.reloptions
    from pg_catalog.pg_class c
    join ours n on n.oid = c.relnamespace
    where not c.relispartition and c.relname not in ('alembic_version', 'schema_object')
),
guard as (  -- the triggers that check rows before they are written, without comments; a WHEN is in their definition
    select r.nspname, r.relname, t.tgtype, body
    from relation r
    join pg_catalog.pg_trigger t on t.tgrelid = r.oid
    join pg_catalog.pg_proc f on f.oid = t.tgfoid,
    lateral (
        select regexp_replace(regexp_replace(f.prosrc, '--[^\n]*', '', 'g'), '/\*.*?\*/', '', 'g') as body
    ) as plain
    where t.tgenabled in ('O', 'A') and cardinality(t.tgattr::int2[]) = 0
        and t.tgtype & 3 = 3  -- before, each row
)
select line from (
    select format('schema %%I owner %%I', nspname, pg_get_userbyid(nspowner)) as line
    from pg_catalog.pg_namespace where oid in (select oid from ours)
    union all
    select format('%%s %%I.%%I owner %%I%%s%%s%%s%%s',
        case relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'v' then 'view' else 'sequence' end,
        nspname, relname, pg_get_userbyid(relowner),
        case when relrowsecurity then ' row security' else '' end,
        case when relforcerowsecurity then ' forced' else '' end,
        ' ' || array_to_string(reloptions, ' '),
        ' as ' || case
            when body ~ ' JOIN ' then body
            else regexp_replace(body, '\m[a-z]\.', '', 'g')  -- the alias of a lone table: PostgreSQL 15 prints it
        end)
    from relation,
    lateral (
        select case relkind when 'v' then btrim(regexp_replace(pg_get_viewdef(oid), '\s+', ' ', 'g'), ' ;') end as body
    ) as shown
    where relkind in ('r', 'p', 'v', 'S')
    union all
    select format('column %%I.%%I.%%I %%s%%s%%s%%s', r.nspname, r.relname, a.attname,
        format_type(a.atttypid, a.atttypmod),
        case when a.attnotnull then ' not null' else '' end,
        ' default ' || pg_get_expr(d.adbin, d.adrelid),
        case a.attidentity when 'a' then ' identity always' when 'd' then ' identity' else '' end)
    from relation r
    join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_catalog.pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
    where r.relkind in ('r', 'p', 'v')
    union all
    select format('constraint %%I.%%I.%%I %%s', r.nspname, r.relname, k.conname,
        regexp_replace(pg_get_constraintdef(k.oid), '\s*\n\s*', ' ', 'g'))
    from relation r join pg_catalog.pg_constraint k on k.conrelid = r.oid
    where k.contype <> 'n'
    union all
    select format('index %%s', pg_get_indexdef(i.indexrelid))
    from relation r join pg_catalog.pg_index i on i.indrelid = r.oid
    union all
    select format('trigger %%s%%s', regexp_replace(pg_get_triggerdef(t.oid), '\s*\n\s*', ' ', 'g'),
        case t.tgenabled when 'O' then '' else ' not enabled' end)
    from relation r join pg_catalog.pg_trigger t on t.tgrelid = r.oid
    where not t.tgisinternal
    union all
    select format('begin %%I.%%I.%%I %%s', nspname, relname, drawn[1], replace(state[1], '''''', ''''))
    from guard,
    lateral regexp_matches(body, 'not \(new\."([^"]+)"::text = any \(array\[([^]]*)\]\)\)', 'g') as drawn,
    lateral regexp_matches(drawn[2], '''((?:[^'']|'''')*)''', 'g') as state
    where tgtype & 4 = 4  -- insert
    union all
    select format('edge %%I.%%I.%%I %%s -> %%s', nspname, relname, drawn[2],
        replace(drawn[1], '''''', ''''), replace(state[1], '''''', ''''))
    from guard,
    lateral regexp_matches(
        body, 'when ''((?:[^'']|'''')*)'' then new\."([^"]+)"::text = any \(array\[([^]]*)\]\)', 'g'
    ) as drawn,
    lateral regexp_matches(drawn[3], '''((?:[^'']|'''')*)''', 'g') as state
    where tgtype & 16 = 16  -- update
    union all
    select format('policy %%I.%%I.%%I%%s %%s to %%s using %%s check %%s', r.nspname, r.relname, p.polname,
        case when p.polpermissive then '' else ' restrictive' end, p.polcmd,
        (select string_agg(case when role = 0 then 'public' else pg_get_userbyid(role)::text end, ', ')
            from unnest(p.polroles) as role),
        coalesce(pg_get_expr(p.polqual, p.polrelid), '-'), coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '-'))
    from relation r join pg_catalog.pg_policy p on p.polrelid = r.oid
    union all
    select format('enum %%I.%%I %%s', n.nspname, y.typname, string_agg(e.enumlabel, ' ' order by e.enumsortorder))
    from pg_catalog.pg_type y join ours n on n.oid = y.typnamespace join pg_catalog.pg_enum e on e.enumtypid = y.oid
    group by n.nspname, y.typname
    union all
    select format('function %%s', regexp_replace(pg_get_functiondef(f.oid), '\s+', ' ', 'g'))
    from pg_catalog.pg_proc f join ours n on n.oid = f.pronamespace
    where f.prokind in ('f', 'p')
    union all
    select format('grant %%s on %%s to %%s', lower(g.privilege_type), what, grantee_name) from (
        -- Rights that were never granted nor revoked are not stored: they are the owner's and PUBLIC's by default.
        select format('%%s %%I.%%I', case relkind when 'S' then 'sequence' else 'table' end, nspname, relname) as what,
            coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner)) as acl
        from relation where relkind in ('r', 'p', 'v', 'S')
        union all
        select format('schema %%I', n.nspname), coalesce(n.nspacl, acldefault('n', n.nspowner))
        from pg_catalog.pg_namespace n where n.oid in (select oid from ours)
        union all
        select format('function %%s', f.oid::regprocedure), coalesce(f.proacl, acldefault('f', f.proowner))
        from pg_catalog.pg_proc f join ours n on n.oid = f.pronamespace
        union all
        select format('column %%I.%%I.%%I', r.nspname, r.relname, a.attname), a.attacl
        from relation r join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attacl is not null
    ) as things,
    lateral aclexplode(acl) as g,
    lateral (
        select case when g.grantee = 0 then 'public' else pg_get_userbyid(g.grantee)::text end as grantee_name
    ) as named
    where g.privilege_type <> 'MAINTAIN'
) as lines (line)
order by line collate "C";
