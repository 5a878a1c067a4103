-- Before the grants of a branch: takes from PUBLIC and from duly's own roles what they may do with its objects, so that
-- a right that is no longer granted is gone. What an administrator granted to others stays.

do $revoke$
declare
    of_duly constant text := format('%I, %I, %I', {'worker'}, {'api'}, {'readonly'});
    thing record;
begin
    for thing in
        select
            case c.relkind when 'S' then 'sequence' else 'table' end as kind, c.oid::regclass::text as name,
            true as is_new
        from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = any ({'schemas'}::text[])
            and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
            and pg_get_userbyid(c.relowner) = current_user
        union all
        select 'routine', f.oid::regprocedure::text, f.proacl is null
        from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = any ({'schemas'}::text[]) and pg_get_userbyid(f.proowner) = current_user
    loop
        execute format('revoke all on %s %s from %s', thing.kind, thing.name, of_duly);
        if thing.is_new or thing.name not in ('duly.clock()', 'duly.now()') then
            -- The clocks may have been opened to all by an administrator; of the rest nothing is for PUBLIC.
            execute format('revoke all on %s %s from public', thing.kind, thing.name);
        end if;
    end loop;
end
$revoke$;
