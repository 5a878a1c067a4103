-- Drops the functions of a branch's schemas that nothing depends on, whatever their order.

do $drop$
declare
    routine regprocedure;
    is_progress boolean;
begin
    loop
        is_progress := false;
        for routine in
            select f.oid
            from pg_catalog.pg_proc as f
            inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
            where n.nspname = any ({'schemas'}::text[]) and pg_get_userbyid(f.proowner) = current_user
        loop
            begin
                execute format('drop routine %s', routine);
                is_progress := true;
            exception when dependent_objects_still_exist then
                null;  -- a trigger, a view, a default or another function needs it: once that is gone
            end;
        end loop;
        exit when not is_progress;
    end loop;
end
$drop$;
