-- What the engine writes once, when its functions and guards are there.

-- A worker on tables that a backend owns uses the clocks and the list of workers as the login it is. A role that could
-- use the small schema that the lease migration made, and the prelude removed, can use this one.
do $guests$
declare
    guest record;
begin
    for guest in
        select coalesce(quote_ident(g.name), 'public') as name, g.object, g.privilege
        from jsonb_to_recordset(coalesce(nullif(current_setting('duly.guests', true), ''), '[]')::jsonb)
            as g (name text, object text, privilege text)
    loop
        if guest.object = 'schema' then
            execute format('grant usage on schema duly to %s', guest.name);
            execute format('grant execute on function duly.clock(), duly.now() to %s', guest.name);
        elsif guest.privilege in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') then
            execute format('grant %s on duly.workers to %s', guest.privilege, guest.name);
        end if;
    end loop;
end
$guests$;

-- The table that the ledger replaces ----------------------------------------------------------------------------------
-- A table public.jobs of exactly the old columns is carried over and dropped; any other public.jobs is left alone.
-- Its jobs had no tenant, no type and no payload: they are found under the org 00000000-0000-0000-0000-000000000001, as
-- carried_over in the queue carried_over. What was running there cannot be resumed and waits.

do $carry$
declare
    place constant regclass := to_regclass('public.jobs');
    holder constant text := 'engine_0001/carried_over';
    zone constant text := current_setting('timezone');
    unknown text;
    first_unknown text;
begin
    if place is null or (
        select array_agg(a.attname::text || case
            when a.attname = 'id' then ' ' || a.atttypid::regtype::text
            when a.attname = 'result' then ' ' || a.atttypid::regtype::text
            else ' ' || y.typcategory::text
        end order by a.attname)
        from pg_catalog.pg_attribute a
        join pg_catalog.pg_type y on y.oid = a.atttypid
        where a.attrelid = place and a.attnum > 0 and not a.attisdropped
    ) is distinct from array[
        'created_at D', 'error S', 'id uuid', 'progress N', 'result jsonb', 'stage S', 'status S', 'updated_at D'
    ] then
        return;
    end if;
    -- It is not ours, so this runs as the login that migrates.
    set local role none;
    if not (select pg_has_role(c.relowner, 'usage') from pg_catalog.pg_class c where c.oid = place) then
        raise warning 'public.jobs is left as it is: "%" does not own it', current_user;
        set local role {owner};
        return;
    end if;
    lock table public.jobs in access exclusive mode;
    select string_agg(format('%L (%s)', status, jobs), ', ' order by jobs desc, status), min(status)
    into unknown, first_unknown
    from (
        select left(o.status, 50) as status, count(*) as jobs
        from public.jobs as o
        where o.status not in ('pending', 'processing', 'completed', 'failed', 'canceled', 'cancelled')
        group by 1 order by 2 desc, 1 limit 10
    ) as counted;
    if unknown is not null then
        raise exception 'table public.jobs has jobs of an unknown status (number of jobs): %', unknown
            using hint = format(
                'known are pending, processing, completed, failed and canceled; change them first, for example: '
                'update public.jobs set status = ''failed'' where status = %L; or keep the table out of the ledger: '
                'alter table public.jobs rename to jobs_before_duly', first_unknown
            );
    end if;
    set local timezone = 'UTC';  -- a time without a zone was written in UTC
    insert into ledger.job (
        id, org_id, type, queue, created_at, updated_at, run_at, result, stage, progress, event_detail
    )
    select
        id, '00000000-0000-0000-0000-000000000001', 'carried_over', 'carried_over',
        coalesce(created_at::timestamptz, duly.clock()), duly.clock(),
        coalesce(created_at::timestamptz, duly.clock()), result,
        left(nullif(stage, ''), 200), least(greatest(progress, 0), 100),
        jsonb_strip_nulls(jsonb_build_object(
            'actor', holder, 'reason', 'carried_over', 'status', status, 'stage', left(stage, 200), 'progress', progress
        ))
    from public.jobs;
    update ledger.job t set status = 'canceled'
    from public.jobs o
    where t.id = o.id and o.status in ('canceled', 'cancelled');
    update ledger.job t
    set status = 'running', lease_owner = holder, lease_expires_at = duly.clock(), starts = 1, event_detail = null
    from public.jobs o
    where t.id = o.id and o.status in ('completed', 'failed');
    update ledger.job t
    set status = 'succeeded', settled_by = holder, lease_owner = null, lease_expires_at = null
    from public.jobs o
    where t.id = o.id and o.status = 'completed';
    update ledger.job t
    set status = 'failed', settled_by = holder, lease_expires_at = null, last_error_code = 'UNKNOWN_ERROR',
        last_error_message = left(o.error, 2048),
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', holder, 'code', 'UNKNOWN_ERROR', 'message', left(o.error, 2048)
        ))
    from public.jobs o
    where t.id = o.id and o.status = 'failed';
    update ledger.job t
    set status = 'dead_letter', lease_owner = null, event_detail = jsonb_build_object('reason', 'carried_over')
    from public.jobs o
    where t.id = o.id and o.status = 'failed';
    -- When they began is not known; when they ended is.
    update ledger.job t
    set started_at = null, finished_at = coalesce(o.updated_at::timestamptz, t.finished_at)
    from public.jobs o
    where t.id = o.id and t.finished_at is not null;
    drop table public.jobs;
    perform set_config('timezone', zone, true);
    set local role {owner};
end
$carry$;
