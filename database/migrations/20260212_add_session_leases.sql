-- What the ingest worker of duly needs on tables that a backend owns, and does not find there. Run it once, as the owner of
-- the tables; running it again changes nothing:
--
--     psql "$DATABASE_URL" -f database/migrations/20260212_add_session_leases.sql
--     psql "$DATABASE_URL" -v schema=another -f database/migrations/20260212_add_session_leases.sql
--
-- It adds columns, indexes and one trigger, replaces the key that told two equal changes of a day for one, and makes a small
-- schema `duly` for the worker's clock and the list of workers. What the owner made otherwise (triggers, states, checks)
-- stays as it is. All of it happens in one transaction, or nothing.

\set ON_ERROR_STOP on
\if :{?schema}
\else
    \set schema schedule_ingest
\endif

begin;
set local lock_timeout = '10s';
set local client_min_messages = warning;
select set_config('duly.ingest', :'schema', true) as schema \gset

do $tables$
declare
    home constant text := current_setting('duly.ingest');
    missing text;
    old_key record;
begin
    select string_agg(wanted.name, ', ' order by wanted.name)
    into missing
    from unnest(array[
        'capture_session', 'capture_image', 'day_schedule', 'schedule_version', 'day_snapshot', 'schedule_event',
        'schedule_notification'
    ]) as wanted (name)
    where not exists (
        select from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = home and c.relname = wanted.name and c.relkind in ('r', 'p')
    );
    if missing is not null then
        raise exception 'the schema "%" has no table %', home, missing
            using errcode = 'undefined_table', hint =
                'Name the schema that has them: psql -v schema=NAME. Where no backend makes them, duly does: duly migrate.';
    end if;
    if to_regproc(format('%I.capture_session_guard', home)) is not null then
        return;  -- duly made these tables: they have all of it
    end if;

    -- How a session is held, what it was given, and what came of it.
    execute format(
        'alter table %I.capture_session'
        ' add column if not exists locked_at timestamptz,'
        ' add column if not exists locked_by text,'
        ' add column if not exists closed_at timestamptz,'
        ' add column if not exists given_at timestamptz,'
        ' add column if not exists payload jsonb,'
        ' add column if not exists result jsonb,'
        ' add column if not exists lease_seconds double precision,'
        ' add column if not exists starts bigint not null default 0,'
        ' add column if not exists settled_by text',
        home
    );
    -- Which canonicaliser wrote a day, and the order of its events.
    execute format('alter table %I.schedule_version add column if not exists canonicalizer integer', home);
    execute format(
        'alter table %I.day_snapshot add column if not exists canonicalizer integer,'
        ' add column if not exists events bigint not null default 0',
        home
    );
    execute format('alter table %I.schedule_event add column if not exists seq bigint', home);

    -- What is ready is called differently here and there, so these begin with the state.
    execute format(
        'create index if not exists idx_capture_session__state_created_at_id'
        ' on %I.capture_session (state, created_at, id)', home
    );
    execute format(
        'create index if not exists idx_capture_session__state_closed_at_id'
        ' on %I.capture_session (state, closed_at, id)', home
    );
    execute format(
        'create index if not exists idx_capture_session__state_given_at_id'
        ' on %I.capture_session (state, given_at, id) where given_at is not null', home
    );
    execute format(
        'create unique index if not exists uq_schedule_event__user_id_schedule_date_seq'
        ' on %I.schedule_event (user_id, schedule_date, seq)', home
    );

    -- A day that goes there, back and there again has three changes: the session belongs into the key of an event. The key
    -- without it is known by its columns, whatever it is called and however it was made.
    for old_key in
        select c.relname as name, k.conname as of_constraint
        from pg_catalog.pg_index as i
        inner join pg_catalog.pg_class as c on c.oid = i.indexrelid
        left join pg_catalog.pg_constraint as k on k.conindid = i.indexrelid and k.contype = 'u'
        where i.indrelid = format('%I.schedule_event', home)::regclass and i.indisunique and not i.indisprimary
            and (
                select array_agg(a.attname::text order by a.attname)
                from pg_catalog.pg_attribute as a
                where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])
            ) = array[
                'event_type', 'location_fingerprint', 'new_value_hash', 'old_value_hash', 'schedule_date', 'user_id'
            ]
    loop
        if old_key.of_constraint is not null then
            execute format('alter table %I.schedule_event drop constraint %I', home, old_key.of_constraint);
        else
            execute format('drop index %I.%I', home, old_key.name);
        end if;
    end loop;
    execute format(
        'create unique index if not exists uq_schedule_event__dedupe on %I.schedule_event ('
        'user_id, schedule_date, location_fingerprint, event_type, old_value_hash, new_value_hash, source_session_id)', home
    );

    -- A version moves the pointer of its day. Where the owner has a trigger that does so, this one, which comes after it,
    -- finds nothing to do. It acts as the owner, so a worker needs no right to write the pointer.
    execute format(
        'create or replace function %I.advance_day() returns trigger'
        ' language plpgsql security definer set search_path = pg_catalog, pg_temp as %L',
        home,
        $function$
declare
    is_there boolean;
begin
    execute format(
        'select true from %I.day_schedule where user_id = $1 and schedule_date = $2 and current_version >= $3',
        tg_table_schema
    ) into is_there using new.user_id, new.schedule_date, new.version;
    if is_there is null then
        execute format(
            'insert into %I.day_schedule as d (user_id, schedule_date, current_version) values ($1, $2, $3)'
            ' on conflict (user_id, schedule_date) do update'
            ' set current_version = greatest(d.current_version, excluded.current_version)',
            tg_table_schema
        ) using new.user_id, new.schedule_date, new.version;
    end if;
    return null;
end
$function$
    );
    execute format('revoke all on function %I.advance_day() from public', home);
    execute format('drop trigger if exists zz_duly_advances_the_day on %I.schedule_version', home);
    execute format(
        'create trigger zz_duly_advances_the_day after insert on %1$I.schedule_version'
        ' for each row execute function %1$I.advance_day()', home
    );
end
$tables$;

do $duly$
declare
    home constant text := current_setting('duly.ingest');
    mark constant text := 'Made by add_session_leases for the ingest worker; "duly migrate" replaces it.';
    guest text;
begin
    if to_regnamespace('duly') is null then
        create schema duly;
        execute format('comment on schema duly is %L', mark);
    end if;
    if obj_description(to_regnamespace('duly'), 'pg_namespace') is distinct from mark then
        return;  -- duly migrated this database: it has all of it
    end if;

    create or replace function duly.clock() returns timestamptz
        language sql volatile parallel safe
        return clock_timestamp();
    create or replace function duly.now() returns timestamptz
        language sql stable parallel safe
        return statement_timestamp();
    create table if not exists duly.workers (
        id uuid not null,
        worker_id text not null,
        host text not null,
        pid bigint not null,
        version text not null,
        kinds text[] not null,
        slots jsonb not null,
        started_at timestamptz not null default duly.clock(),
        seen_at timestamptz not null default duly.clock(),
        stopped_at timestamptz,
        constraint pk_workers primary key (id),
        constraint ck_workers__worker_id check (char_length(worker_id) between 1 and 200),
        constraint ck_workers__slots check (jsonb_typeof(slots) = 'object')
    ) with (fillfactor = 50);
    create index if not exists idx_workers__started_at on duly.workers (started_at);

    -- Whoever may work on sessions may use it.
    for guest in
        select distinct case when g.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end
        from pg_catalog.pg_class as c
        cross join lateral aclexplode(c.relacl) as g
        where c.oid = format('%I.capture_session', home)::regclass and g.privilege_type = 'UPDATE'
            and g.grantee <> c.relowner
    loop
        execute format('grant usage on schema duly to %s', guest);
        execute format('grant execute on function duly.clock(), duly.now() to %s', guest);
        execute format('grant select, insert, update, delete on duly.workers to %s', guest);
    end loop;
end
$duly$;

commit;
