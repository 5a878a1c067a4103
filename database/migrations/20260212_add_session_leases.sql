-- What the ingest worker of duly needs on tables that a backend owns, and does not find there. Run it once, as the
-- owner of the tables; running it again changes nothing:
--
--     psql "$DATABASE_URL" -f database/migrations/20260212_add_session_leases.sql
--
--     -v schema=NAME          the schema of the tables; schedule_ingest by default
--     -v worker=NAME          the worker's login, for the grants that are printed at the end; ocr_worker by default
--     -v event_key=replace    also replace the key of schedule_event, which tells two equal changes of a day for one
--
-- It adds columns, indexes and one trigger, and makes a small schema `duly` for the worker's clock and the list of
-- workers. What the owner made (triggers, states, checks, keys) stays as it is. The tables of Phase 9 (day_snapshot,
-- schedule_event) and of Phase 12 (schedule_notification) may be missing: then only versions are written. Run it again
-- when they have come. All of it happens in one transaction, or nothing. At the end it prints the grants that the
-- worker's login needs.

\set ON_ERROR_STOP on
\set QUIET on
\if :{?schema}
\else
    \set schema schedule_ingest
\endif
\if :{?worker}
\else
    \set worker ocr_worker
\endif
\if :{?event_key}
\else
    \set event_key keep
\endif

begin;
set local lock_timeout = '10s';
set local client_min_messages = warning;
\set mark 'Made by add_session_leases for the ingest worker; "duly migrate" replaces it.'
select
    set_config('duly.ingest', :'schema', true) as schema,
    set_config('duly.event_key', :'event_key', true) as event_key,
    set_config('duly.mark', :'mark', true) as mark
\gset

-- What is there -------------------------------------------------------------------------------------------------------
-- Decided here, once; what follows is plain SQL under these conditions.

do $refuse$
declare
    home constant text := current_setting('duly.ingest');
    schema_duly constant oid := to_regnamespace('duly');
    present text[];
    needed text[] := array['capture_session', 'capture_image', 'day_schedule', 'schedule_version'];
    missing text;
begin
    if current_setting('duly.event_key') not in ('keep', 'replace') then
        raise exception 'event_key=%: write -v event_key=replace, or leave it out', current_setting('duly.event_key')
            using errcode = 'invalid_parameter_value';
    end if;
    select array_agg(c.relname::text)
    into present
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = home and c.relkind in ('r', 'p');
    -- The tables of Phase 9 come together, and those of Phase 12 after them.
    if present && array['day_snapshot', 'schedule_event', 'schedule_notification'] then
        needed := needed || array['day_snapshot', 'schedule_event'];
    end if;
    select string_agg(wanted.name, ', ' order by wanted.name)
    into missing
    from unnest(needed) as wanted (name)
    where wanted.name <> all (coalesce(present, '{}'));
    if missing is not null then
        raise exception 'the schema "%" has no table %', home, missing
            using errcode = 'undefined_table', hint = 'Name the schema that has them: psql -v schema=NAME. '
                'Where no backend makes them, duly does: duly migrate.';
    end if;
    if schema_duly is not null
        and obj_description(schema_duly, 'pg_namespace') is distinct from current_setting('duly.mark')
        and not exists (select from pg_catalog.pg_proc as f where f.pronamespace = schema_duly and f.proname = 'clock')
    then
        raise exception 'the schema "duly" is not duly''s: it has no function clock()'
            using errcode = 'duplicate_schema', hint = 'Rename it; the worker needs a schema of this name.';
    end if;
end
$refuse$;

select
    to_regproc(format('%I.capture_session_guard', :'schema')) is not null as is_dulys,  -- then they have all of it
    exists (
        select from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = :'schema' and c.relname = 'day_snapshot' and c.relkind in ('r', 'p')
    ) as has_days,
    to_regnamespace('duly') is null as is_without_duly
\gset

\if :is_dulys
\else

-- The tables ----------------------------------------------------------------------------------------------------------

-- How a session is held, what it was given, and what came of it.
alter table :"schema".capture_session
    add column if not exists locked_at timestamptz,
    add column if not exists locked_by text,
    add column if not exists closed_at timestamptz,
    add column if not exists given_at timestamptz,
    add column if not exists payload jsonb,
    add column if not exists result jsonb,
    add column if not exists lease_seconds double precision,
    add column if not exists starts bigint not null default 0,
    add column if not exists settled_by text;

-- What is ready is called differently here and there, so these begin with the state.
create index if not exists idx_capture_session__state_created_at_id
    on :"schema".capture_session (state, created_at, id);
create index if not exists idx_capture_session__state_closed_at_id
    on :"schema".capture_session (state, closed_at, id);
create index if not exists idx_capture_session__state_given_at_id
    on :"schema".capture_session (state, given_at, id) where given_at is not null;

-- Which canonicaliser wrote a day, and the order of its events.
alter table :"schema".schedule_version add column if not exists canonicalizer integer;

\set old_keys ''
\if :has_days
alter table :"schema".day_snapshot
    add column if not exists canonicalizer integer,
    add column if not exists events bigint not null default 0;
alter table :"schema".schedule_event add column if not exists seq bigint;
create unique index if not exists uq_schedule_event__user_id_schedule_date_seq
    on :"schema".schedule_event (user_id, schedule_date, seq);

-- A day that goes there, back and there again has three changes: only with the session in the key of an event does the
-- third one get its event. The owner's key, without it, is known by its columns, whatever it is called and however it
-- was made. It is the owner's, and is replaced when that is asked for.
select
    string_agg(format('%I', c.relname), ', ' order by c.relname) as old_keys,
    string_agg(
        case
            when k.conname is null then format('drop index %I.%I', :'schema', c.relname)
            else format('alter table %I.schedule_event drop constraint %I', :'schema', k.conname)
        end, '; '
    ) as drop_old_keys,
    count(*) = 0 or :'event_key' = 'replace' as is_event_key_ours,
    count(*) > 0 and :'event_key' = 'replace' as is_event_key_replaced
from pg_catalog.pg_index as i
inner join pg_catalog.pg_class as c on c.oid = i.indexrelid
left join pg_catalog.pg_constraint as k on k.conindid = i.indexrelid and k.contype = 'u'
where i.indrelid = format('%I.schedule_event', :'schema')::regclass and i.indisunique and not i.indisprimary
    and (
        select array_agg(a.attname::text order by a.attname)
        from pg_catalog.pg_attribute as a
        where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    ) = array['event_type', 'location_fingerprint', 'new_value_hash', 'old_value_hash', 'schedule_date', 'user_id']
\gset
\if :is_event_key_replaced
:drop_old_keys;
\endif
\if :is_event_key_ours
create unique index if not exists uq_schedule_event__dedupe on :"schema".schedule_event (
    user_id, schedule_date, location_fingerprint, event_type, old_value_hash, new_value_hash, source_session_id
);
\set old_keys ''
\endif
\endif

-- A version moves the pointer of its day. Where the owner has a trigger that does so, this one, which comes after it,
-- finds nothing to do. It acts as the owner, so a worker needs no right to write the pointer.
create or replace function :"schema".advance_day() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $function$
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
$function$;
revoke all on function :"schema".advance_day() from public;
drop trigger if exists zz_duly_advances_the_day on :"schema".schedule_version;
create trigger zz_duly_advances_the_day after insert on :"schema".schedule_version
    for each row execute function :"schema".advance_day();

-- The clock and the list of workers -----------------------------------------------------------------------------------
-- In a little schema of ours, unless duly was migrated here.

\if :is_without_duly
create schema duly;
comment on schema duly is :'mark';
\endif
select obj_description(to_regnamespace('duly'), 'pg_namespace') is not distinct from :'mark' as is_of_script \gset
\if :is_of_script
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
    work_types text[] not null,
    slots jsonb not null,
    started_at timestamptz not null default duly.clock(),
    seen_at timestamptz not null default duly.clock(),
    stopping_at timestamptz,
    stopped_at timestamptz,
    constraint pk_workers primary key (id),
    constraint ck_workers__worker_id check (char_length(worker_id) between 1 and 200),
    constraint ck_workers__slots check (jsonb_typeof(slots) = 'object')
) with (fillfactor = 50);
alter table duly.workers add column if not exists stopping_at timestamptz;  -- an earlier version had none
create index if not exists idx_workers__started_at on duly.workers (started_at);
\endif

-- Every role that may work on sessions by now may use it. Where duly was migrated, its owner grants that: see below.
do $grants$
declare
    home constant text := current_setting('duly.ingest');
    guest text;
begin
    for guest in
        select quote_ident(pg_get_userbyid(c.relowner))
        from pg_catalog.pg_class as c
        where c.oid = format('%I.capture_session', home)::regclass
        union
        select case when g.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end
        from (
            select c.relacl as acl
            from pg_catalog.pg_class as c
            where c.oid = format('%I.capture_session', home)::regclass
            union all
            select a.attacl
            from pg_catalog.pg_attribute as a
            where a.attrelid = format('%I.capture_session', home)::regclass
        ) as granted
        cross join lateral aclexplode(granted.acl) as g
        where g.privilege_type = 'UPDATE'
    loop
        begin
            execute format('grant usage on schema duly to %s', guest);
            execute format('grant execute on function duly.clock(), duly.now() to %s', guest);
            execute format('grant select, insert, update, delete on duly.workers to %s', guest);
        exception when insufficient_privilege then
            null;
        end;
    end loop;
end
$grants$;
\endif

-- What the worker's login needs ---------------------------------------------------------------------------------------
-- Everything that a worker does, and nothing else; and what the owner's triggers do when the worker writes, as far as
-- their text tells, unless they are SECURITY DEFINER.

\t on
\pset format unaligned
\if :is_dulys
select format('-- duly made the tables of the schema "%s": nothing is to be added.', :'schema');
\else
select format('-- The login "%s" needs these grants, and no others (another login: -v worker=NAME):', :'worker');
with here as (
    select c.oid, c.relname::text as name
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = :'schema' and c.relkind in ('r', 'p')
),
needs (name, privilege) as (
    values
    ('capture_session', 'select'),
    (
        'capture_session',
        'update (state, error, locked_at, locked_by, closed_at, result, lease_seconds, starts, settled_by)'
    ),
    ('capture_image', 'select'),
    ('day_schedule', 'select'),
    ('schedule_version', 'select'), ('schedule_version', 'insert'),
    ('day_snapshot', 'select'), ('day_snapshot', 'insert'), ('day_snapshot', 'update'),
    ('schedule_event', 'insert'),
    ('schedule_notification', 'insert')
    union
    select 'schedule_event', 'select'  -- to know what the owner's key would refuse
    where not exists (
        select from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = :'schema' and c.relname = 'uq_schedule_event__dedupe'
    )
    union
    select used.name, verb.privilege
    from here as written
    inner join pg_catalog.pg_trigger as t
        on t.tgrelid = written.oid and not t.tgisinternal and t.tgenabled in ('O', 'A')
    inner join pg_catalog.pg_proc as f on f.oid = t.tgfoid and not f.prosecdef
    cross join here as used
    cross join (
        values
        ('select', '(?:from|join)', ''), ('insert', 'insert\s+into', ''), ('update', 'update', ''),
        ('update', 'insert\s+into', '\mdo\s+update\M'), ('delete', 'delete\s+from', '')
    ) as verb (privilege, words, besides)
    where written.name in (
            'capture_session', 'schedule_version', 'day_snapshot', 'schedule_event', 'schedule_notification'
        )
        and f.prosrc ~* verb.besides
        and f.prosrc ~* ('\m' || verb.words || '\s+(?:only\s+)?(?:"?\w+"?\.)?"?' || used.name || '\M')
),
grants (nth, privileges, object) as (
    select 1, 'usage', format('schema %I', :'schema')
    union all
    select
        2 + array_position(
            array[
                'capture_session', 'capture_image', 'day_schedule', 'schedule_version', 'day_snapshot',
                'schedule_event', 'schedule_notification'
            ], here.name
        ),
        string_agg(needs.privilege, ', ' order by array_position(array['s', 'i', 'u', 'd'], left(needs.privilege, 1))),
        format('%I.%I', :'schema', here.name)
    from here
    inner join needs on needs.name = here.name
    group by here.name
    union all
    values
    (11, 'usage', 'schema duly'),
    (12, 'execute', 'function duly.clock(), duly.now()'),
    (13, 'select, insert, update, delete', 'duly.workers')
)
select format('grant %s on %s to %I;', privileges, object, :'worker')
from grants
order by nth, object;
select format(
    '-- The key %s of schedule_event stays: a change that comes again (there, back, and there again) gets no second'
    ' event and no second message. To replace the key: -v event_key=replace', :'old_keys'
)
where :'old_keys' <> '';
\endif

commit;
