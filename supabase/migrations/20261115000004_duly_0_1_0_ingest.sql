-- duly 0.1.0, ingest: compiled from the migrations and functions of duly; do not edit.

-- Before every migration, in its transaction: one migrator at a time, the roles, the schemas that are taken.
-- Conditions are decided here, by the database, so that the compiled SQL is the same program.

set lock_timeout = '3s';
set client_min_messages = warning;
select pg_advisory_xact_lock('7238811244850407282');

do $prelude$
declare
    wanted record;
    of_script oid;
    guests jsonb;
    new_roles text;
    taken text;
    first_taken text;
begin
    for wanted in
        select * from (values
            ('duly_owner', 'DULY_OWNER_ROLE'),
            ('duly_worker', 'DULY_WORKER_ROLE'),
            ('duly_api', 'DULY_API_ROLE'),
            ('duly_readonly', 'DULY_READONLY_ROLE')
        ) as roles (name, setting)
    loop
        if not exists (select from pg_catalog.pg_roles where rolname = wanted.name) then
            begin
                execute format('create role %I nologin noinherit', wanted.name);
                -- An idle open transaction would hold back vacuum, and locks.
                execute format('alter role %I set idle_in_transaction_session_timeout = %L', wanted.name, '1min');
                new_roles := concat_ws(',', new_roles, wanted.name);
            exception
                when duplicate_object or unique_violation then
                    null;  -- roles belong to the whole server: a migration of another database made it this instant
                when insufficient_privilege then
                    raise exception 'the role "%" does not exist and "%" may not create it', wanted.name, current_user
                        using errcode = 'insufficient_privilege', hint = format(
                            'ask an administrator to run: create role %I; or name an existing role in %s',
                            wanted.name, wanted.setting
                        );
            end;
        end if;
    end loop;
    perform set_config('duly.new_roles', coalesce(new_roles, ''), true);
    -- A handler's own transaction steps down from the worker to the API; it gains nothing by being able to.
    if not pg_has_role('duly_worker', 'duly_api', 'member') then
        begin
            execute format(
                case when current_setting('server_version_num')::int >= 160000
                    then 'grant %I to %I with inherit false, set true' else 'grant %I to %I' end,
                'duly_api', 'duly_worker'
            );
        exception when insufficient_privilege then
            null;  -- the roles existed before: a worker that needs it names the missing grant
        end;
    end if;
    if not pg_has_role(
        current_user, 'duly_owner',
        case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
    ) then
        begin
            execute format('grant %I to %I', 'duly_owner', current_user);
        exception when insufficient_privilege then
            raise exception '"%" may not act as the role "%", which owns what duly makes', current_user, 'duly_owner'
                using errcode = 'insufficient_privilege', hint = format(
                    'ask an administrator to run: grant %I to %I; or name a role of yours in DULY_OWNER_ROLE',
                    'duly_owner', current_user
                );
        end;
    end if;
    -- The little schema that `database/migrations/` makes beside a backend's tables gives way to ours.
    select n.oid into of_script from pg_catalog.pg_namespace as n
    where n.nspname = 'duly' and starts_with(obj_description(n.oid, 'pg_namespace'), 'Made by add_session_leases');
    if of_script is not null then
        -- Roles that could use it may use what replaces it: engine_0001.data.sql grants it to them again.
        select jsonb_agg(jsonb_build_object(
            'name', case when g.role <> 0 then pg_get_userbyid(g.role) end, 'object', g.object, 'privilege', g.privilege
        ))
        into guests
        from (
            select acl.grantee as role, 'schema' as object, acl.privilege_type as privilege
            from pg_catalog.pg_namespace as n
            cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) as acl
            where n.oid = of_script and acl.privilege_type = 'USAGE'
            union
            select acl.grantee, c.relname::text, acl.privilege_type
            from pg_catalog.pg_class as c
            cross join lateral aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) as acl
            where c.relnamespace = of_script and c.relname = 'workers'
                and acl.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
        ) as g;
        perform set_config('duly.guests', guests::text, true);
        begin
            drop table if exists duly.workers;
            drop function if exists duly.clock();
            drop function if exists duly.now();
            drop schema duly;
        exception when insufficient_privilege then
            raise exception '"%" may not replace the schema duly that add_session_leases made', current_user
                using errcode = 'insufficient_privilege', hint = format(
                    'migrate as the role "%s", which made it',
                    (select pg_get_userbyid(nspowner) from pg_catalog.pg_namespace where oid = of_script)
                );
        end;
    end if;
    -- A schema of one of our names that belongs to others; a backend's ingest tables and users are used as they are.
    select
        string_agg(format('%I (owner %I)', n.nspname, pg_get_userbyid(n.nspowner)), ', ' order by n.nspname),
        min(quote_ident(n.nspname))
    into taken, first_taken
    from pg_catalog.pg_namespace as n
    where n.nspname = any ('{"schedule_ingest"}'::text[])
        and not has_schema_privilege('duly_owner', n.oid, 'create')
        and not exists (
            select from pg_catalog.pg_class as c
            where c.relnamespace = n.oid
                and (n.nspname, c.relname) in (('schedule_ingest', 'capture_session'), ('user', 'users'))
        );
    if taken is not null then
        raise exception 'duly needs schemas that exist and do not belong to "%": %', 'duly_owner', taken
            using errcode = 'duplicate_schema', hint = format(
                'use another database for duly, or rename the schema: alter schema %s rename to another_name; or, if '
                'it was made for duly: alter schema %s owner to %I; or leave an application out that needs it: '
                'duly migrate --apps%s',
                first_taken, first_taken, 'duly_owner',
                case
                    when first_taken = quote_ident('schedule_ingest') then '; or set DB_SCHEMA to another name'
                    else ''
                end
            );
    end if;
end
$prelude$;

create schema if not exists "schedule_ingest" authorization "duly_owner";
-- From here on as the owner of what is created.
set role "duly_owner";

create table if not exists duly.schema_object (
    branch text not null,
    object text not null,
    sha256 text not null,
    constraint pk_schema_object primary key (branch, object)
);
comment on table duly.schema_object is
    'The hash of each function, trigger, policy and view, and of the grants of a branch, as they were applied last.';

-- Ingest: photographed day schedules become versions, semantic events and notifications.

-- A backend that has a table of sessions owns its schema: nothing is made there. `duly migrate` leaves ingest out of
-- such a database by itself; asking for it by name is refused with the reason.
do $backend$
begin
    if exists (  -- asked so that it needs no right to the schema
        select from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = 'schedule_ingest' and c.relname = 'capture_session'
    ) then
        raise exception
            'schema % has a table capture_session that duly did not make: a backend owns it', 'schedule_ingest'
            using errcode = 'duplicate_table', hint =
                'leave ingest out, and run database/migrations/20260212_add_session_leases.sql for its worker; '
                'or set DB_SCHEMA to another name';
    end if;
end
$backend$;

-- Sessions ------------------------------------------------------------------------------------------------------------
-- The first seven columns are the contract's; what follows them is ours.

create type "schedule_ingest".capture_session_state as enum ('pending', 'processing', 'done', 'failed');

create table "schedule_ingest".capture_session (
    id uuid not null default duly.new_id(),
    user_id bigint not null,
    state "schedule_ingest".capture_session_state not null default 'pending',
    created_at timestamptz not null default duly.clock(),
    error text,
    locked_at timestamptz,
    locked_by text,
    closed_at timestamptz,
    given_at timestamptz,
    payload jsonb,
    result jsonb,
    lease_seconds double precision,
    starts bigint not null default 0,
    settled_by text,
    revision bigint not null default 0,
    transition_from text,
    constraint pk_capture_session primary key (id)
) with (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table "schedule_ingest".capture_session is 'Captures of one day: person, state, lease and result.';
comment on column "schedule_ingest".capture_session.user_id is 'The person''s Telegram id.';
comment on column "schedule_ingest".capture_session.closed_at is
    'When it was complete: no image is accepted after that.';
comment on column "schedule_ingest".capture_session.payload is
    'The day as data, where it was given and needs no reading.';
comment on column "schedule_ingest".capture_session.given_at is 'When the payload was given.';
comment on column "schedule_ingest".capture_session.result is
    'The result: changed or not, from which input, which version.';
comment on column "schedule_ingest".capture_session.lease_seconds is
    'The length of the lease; a holder that writes none has LEASE_TIMEOUT_SECONDS.';
comment on column "schedule_ingest".capture_session.starts is 'Counted claims; releases are not counted.';

create index idx_capture_session__created_at_id on "schedule_ingest".capture_session (created_at, id)
    where state = 'pending';
create index idx_capture_session__closed_at_id on "schedule_ingest".capture_session (closed_at, id)
    where state = 'pending';
create index idx_capture_session__given_at_id on "schedule_ingest".capture_session (given_at, id)
    where state = 'pending' and given_at is not null;
create index idx_capture_session__id on "schedule_ingest".capture_session (id) where state = 'processing';
create index idx_capture_session__user_id_created_at_id
    on "schedule_ingest".capture_session (user_id, created_at desc, id desc);

-- Images --------------------------------------------------------------------------------------------------------------

create table "schedule_ingest".capture_image (
    id uuid not null default duly.new_id(),
    session_id uuid not null,
    -- squawk-ignore prefer-bigint-over-int
    sequence integer not null,
    r2_key text not null,
    telegram_message_id bigint,
    created_at timestamptz not null default duly.clock(),
    constraint pk_capture_image primary key (id),
    constraint uq_capture_image__r2_key unique (r2_key),
    constraint uq_capture_image__session_id_sequence unique (session_id, sequence),
    constraint fk_capture_image_capture_session_session_id foreign key (session_id)
        references "schedule_ingest".capture_session (id) on delete restrict,
    constraint ck_capture_image__sequence check (sequence > 0),
    constraint ck_capture_image__r2_key check (char_length(r2_key) between 1 and 1024)
);
comment on table "schedule_ingest".capture_image is
    'Photographs of a session; the image is in the object store under r2_key.';
create unique index uq_capture_image__session_id_telegram_message_id
    on "schedule_ingest".capture_image (session_id, telegram_message_id) where telegram_message_id is not null;

-- Days and their versions ---------------------------------------------------------------------------------------------

create table "schedule_ingest".day_schedule (
    user_id bigint not null,
    schedule_date date not null,
    -- squawk-ignore prefer-bigint-over-int
    current_version integer not null,
    constraint pk_day_schedule primary key (user_id, schedule_date),
    constraint ck_day_schedule__current_version check (current_version > 0)
) with (fillfactor = 80);
comment on table "schedule_ingest".day_schedule is
    'The current version of a person''s day, written by the trigger of the versions only.';

create table "schedule_ingest".schedule_version (
    user_id bigint not null,
    schedule_date date not null,
    -- squawk-ignore prefer-bigint-over-int
    version integer not null,
    session_id uuid not null,
    payload jsonb not null,
    payload_hash text not null,
    created_at timestamptz not null default duly.clock(),
    -- squawk-ignore prefer-bigint-over-int
    canonicalizer integer,
    constraint pk_schedule_version primary key (user_id, schedule_date, version),
    constraint uq_schedule_version__session_id unique (session_id),
    constraint fk_schedule_version_capture_session_session_id foreign key (session_id)
        references "schedule_ingest".capture_session (id) on delete restrict,
    constraint ck_schedule_version__version check (version > 0),
    constraint ck_schedule_version__payload check (jsonb_typeof(payload) = 'object'),
    constraint ck_schedule_version__payload_hash check (char_length(payload_hash) between 1 and 128)
);
comment on table "schedule_ingest".schedule_version is
    'Versions of a person''s day in canonical form: 1, 2, 3, without a gap and never changed.';
comment on column "schedule_ingest".schedule_version.canonicalizer is
    'The version of the canonicaliser; null when another program wrote it.';

-- What is known of a day ----------------------------------------------------------------------------------------------

create table "schedule_ingest".day_snapshot (
    user_id bigint not null,
    schedule_date date not null,
    snapshot_payload jsonb not null,
    source_session_id uuid not null,
    updated_at timestamptz not null default duly.clock(),
    -- squawk-ignore prefer-bigint-over-int
    canonicalizer integer,
    events bigint not null default 0,
    constraint pk_day_snapshot primary key (user_id, schedule_date),
    constraint fk_day_snapshot_capture_session_source_session_id foreign key (source_session_id)
        references "schedule_ingest".capture_session (id) on delete restrict,
    constraint ck_day_snapshot__snapshot_payload check (jsonb_typeof(snapshot_payload) = 'array'),
    constraint ck_day_snapshot__events check (events >= 0)
) with (fillfactor = 80);
comment on table "schedule_ingest".day_snapshot is
    'The current canonical shifts of a person''s day: the baseline of the next diff.';
comment on column "schedule_ingest".day_snapshot.events is 'How many events led to it.';

create table "schedule_ingest".schedule_event (
    event_id uuid not null,
    user_id bigint not null,
    schedule_date date not null,
    event_type text not null,
    location_fingerprint text not null,
    customer_fingerprint text not null,
    old_value_hash text not null,
    new_value_hash text not null,
    old_value jsonb,
    new_value jsonb,
    detected_at timestamptz not null default duly.clock(),
    source_session_id uuid not null,
    seq bigint,
    constraint pk_schedule_event primary key (event_id),
    constraint uq_schedule_event__dedupe unique (
        user_id, schedule_date, location_fingerprint, event_type, old_value_hash, new_value_hash, source_session_id
    ),
    constraint uq_schedule_event__user_id_schedule_date_seq unique (user_id, schedule_date, seq),
    constraint fk_schedule_event_capture_session_source_session_id foreign key (source_session_id)
        references "schedule_ingest".capture_session (id) on delete restrict,
    constraint ck_schedule_event__event_type check (event_type in (
        'shift_added', 'shift_removed', 'shift_time_changed', 'shift_relocated', 'shift_retitled', 'shift_reclassified'
    )),
    constraint ck_schedule_event__values check (
        (old_value is null) = (event_type = 'shift_added') and (new_value is null) = (event_type = 'shift_removed')
    ),
    constraint ck_schedule_event__seq check (seq > 0)
);
comment on table "schedule_ingest".schedule_event is
    'Changes of a day, shift by shift: replayed from the first they rebuild the snapshot.';
comment on column "schedule_ingest".schedule_event.seq is 'Its number among the events of its day: 1, 2, 3.';

-- Notifications -------------------------------------------------------------------------------------------------------

create table "schedule_ingest".schedule_notification (
    notification_id text not null,
    user_id bigint not null,
    schedule_date date not null,
    source_session_id uuid not null,
    status text not null default 'pending',
    notification_type text not null,
    message text not null,
    event_ids jsonb not null,
    created_at timestamptz not null default duly.clock(),
    sent_at timestamptz,
    channel text not null default 'telegram',
    recipient text not null generated always as (user_id::text) stored,
    kind text not null generated always as ('schedule.' || notification_type) stored,
    delivery text not null default 'pending',
    due_at timestamptz not null default duly.clock(),
    called_at timestamptz,
    starts bigint not null default 0,
    last_error text,
    receipt text,
    lease_owner text,
    lease_expires_at timestamptz,
    settled_by text,
    seq bigint not null generated always as identity,
    is_in_line boolean not null default false,
    revision bigint not null default 0,
    transition_from text,
    constraint pk_schedule_notification primary key (notification_id),
    constraint fk_schedule_notification_capture_session_source_session_id foreign key (source_session_id)
        references "schedule_ingest".capture_session (id) on delete restrict,
    constraint ck_schedule_notification__notification_id check (char_length(notification_id) between 1 and 200),
    constraint ck_schedule_notification__status check (status in ('pending', 'sent', 'failed')),
    constraint ck_schedule_notification__notification_type check (notification_type in ('event', 'summary')),
    constraint ck_schedule_notification__message check (char_length(message) between 1 and 4096),
    constraint ck_schedule_notification__event_ids check (jsonb_typeof(event_ids) = 'array'),
    constraint ck_schedule_notification__sent_at check ((status = 'sent') = (sent_at is not null))
) with (fillfactor = 80);
comment on table "schedule_ingest".schedule_notification is
    'Messages about a day, waiting for delivery in the order of created_at.';
create index idx_schedule_notification__created_at_notification_id
    on "schedule_ingest".schedule_notification (created_at, notification_id) where status = 'pending';
create index idx_schedule_notification__user_id_schedule_date
    on "schedule_ingest".schedule_notification (user_id, schedule_date, created_at, notification_id);
comment on column "schedule_ingest".schedule_notification.delivery is
    'The state of the delivery; the contract''s status is pending, sent or failed.';
create index idx_schedule_notification__channel_due_at on "schedule_ingest".schedule_notification
    (channel, due_at, notification_id) where delivery = 'pending';
create index idx_schedule_notification__channel_recipient_seq
    on "schedule_ingest".schedule_notification (channel, recipient, seq)
    where delivery in ('pending', 'sending');
create index idx_schedule_notification__notification_id on "schedule_ingest".schedule_notification (notification_id)
    where delivery = 'sending';
create index idx_schedule_notification__seq on "schedule_ingest".schedule_notification (seq)
    where delivery = 'uncertain';

-- The functions and triggers of the ingest tables.

create or replace function "schedule_ingest".check_accepts_images() returns trigger
    language plpgsql
    as $trigger$
declare
    is_open boolean;
begin
    execute format(
        'select state = ''pending'' and closed_at is null from %I.capture_session where id = $1 for no key update',
        tg_table_schema
    ) into is_open using new.session_id;
    if is_open is false then
        raise exception 'capture % accepts no more images', new.session_id using errcode = 'DU001';
    end if;
    return new;
end
$trigger$;

comment on function "schedule_ingest".check_accepts_images() is
    'Images are accepted while a session is pending and not closed; a worker that closes it waits.';

create or replace trigger capture_image_checks_session before insert on "schedule_ingest".capture_image
    for each row execute function "schedule_ingest".check_accepts_images();

create or replace trigger capture_image_is_append_only before update or delete on "schedule_ingest".capture_image
    for each row execute function duly.refuse_change();

create or replace trigger capture_image_is_not_emptied before truncate on "schedule_ingest".capture_image
    for each statement execute function duly.refuse_change();

create or replace function "schedule_ingest".advance_days() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $trigger$
declare
    versions bigint;
    created_days bigint;
    advanced_days bigint;
    wrong_session uuid;
begin
    select count(*) into versions from added;
    if versions = 0 then
        return null;
    end if;
    execute format(
        'select a.session_id from added as a'
        ' left join %I.capture_session as s on s.id = a.session_id and s.user_id = a.user_id'
        ' and s.state in (''processing'', ''done'') where s.id is null limit 1',
        tg_table_schema
    ) into wrong_session;
    if wrong_session is not null then
        raise exception 'capture % is not being processed, or is another person''s: it cannot write a version',
            wrong_session
            using errcode = 'DU001';
    end if;
    execute format(
        'insert into %I.day_schedule (user_id, schedule_date, current_version)'
        ' select user_id, schedule_date, 1 from added where version = 1 on conflict do nothing',
        tg_table_schema
    );
    get diagnostics created_days = row_count;
    execute format(
        'update %I.day_schedule as d set current_version = a.version from added as a'
        ' where d.user_id = a.user_id and d.schedule_date = a.schedule_date and a.version > 1'
        ' and d.current_version = a.version - 1',
        tg_table_schema
    );
    get diagnostics advanced_days = row_count;
    if created_days + advanced_days <> versions then
        raise exception 'versions of a day have no gap: the next is one more than the current one'
            using errcode = 'DU001';
    end if;
    return null;
end
$trigger$;

comment on function "schedule_ingest".advance_days() is
    'A version follows the current one of its day, is written by a session being processed, and becomes current.';

create or replace trigger schedule_version_advances after insert on "schedule_ingest".schedule_version
    referencing new table as added
    for each statement execute function "schedule_ingest".advance_days();

create or replace trigger schedule_version_is_append_only before update or delete on "schedule_ingest".schedule_version
    for each row execute function duly.refuse_change();

create or replace trigger schedule_version_is_not_emptied before truncate on "schedule_ingest".schedule_version
    for each statement execute function duly.refuse_change();

create or replace function "schedule_ingest".refuse_day_change() returns trigger
    language plpgsql
    as $trigger$
begin
    raise exception '%.%: %', tg_table_schema, tg_table_name, tg_argv[0] using errcode = 'DU001';
end
$trigger$;

create or replace trigger day_schedule_follows_its_versions before insert or update on "schedule_ingest".day_schedule
    for each row when (pg_trigger_depth() = 0)
    execute function "schedule_ingest".refuse_day_change('current_version changes only with a new version');

create or replace trigger day_schedule_to_next_version before update on "schedule_ingest".day_schedule
    for each row when (
        (new.user_id, new.schedule_date) is distinct from (old.user_id, old.schedule_date)
        or new.current_version <> old.current_version + 1
    ) execute function "schedule_ingest".refuse_day_change('current_version changes only to the next version');

create or replace trigger day_schedule_stays before delete on "schedule_ingest".day_schedule
    for each row execute function duly.refuse_change();

create or replace trigger day_schedule_is_not_emptied before truncate on "schedule_ingest".day_schedule
    for each statement execute function duly.refuse_change();

create or replace trigger day_snapshot_is_put_once before update on "schedule_ingest".day_snapshot
    for each row when (new.source_session_id = old.source_session_id)
    execute function "schedule_ingest".refuse_day_change('a session writes one snapshot of a day');

create or replace trigger day_snapshot_stays before delete on "schedule_ingest".day_snapshot
    for each row execute function duly.refuse_change();

create or replace trigger day_snapshot_is_not_emptied before truncate on "schedule_ingest".day_snapshot
    for each statement execute function duly.refuse_change();

create or replace trigger schedule_event_is_append_only before update or delete on "schedule_ingest".schedule_event
    for each row execute function duly.refuse_change();

create or replace trigger schedule_event_is_not_emptied before truncate on "schedule_ingest".schedule_event
    for each statement execute function duly.refuse_change();

create or replace function "schedule_ingest".follow_status() returns trigger
    language plpgsql
    as $$
begin
    if new.status is distinct from old.status and new.delivery is not distinct from old.delivery then
        new.delivery := new.status;
        new.lease_owner := null;
        new.lease_expires_at := null;
        new.called_at := case when new.status <> 'pending' then old.called_at end;
        new.last_error := case
            when new.status = 'failed' then coalesce(new.last_error, 'another program set status to failed')
        end;
    end if;
    return new;
end
$$;

comment on function "schedule_ingest".follow_status() is
    'A program that writes only the contract''s status has delivered the message, so our sender does not.';

create or replace trigger schedule_notification_follow before update on "schedule_ingest".schedule_notification
    for each row execute function "schedule_ingest".follow_status();

-- Guard and timeline of capture and notification. Generated by `python -m tools.generate`; do not edit.

create or replace function "schedule_ingest"."capture_session_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."state"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'capture', new."state" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'capture', old."id"
            using errcode = 'DU001';
    elsif (
        new."user_id", new."created_at", new."given_at", new."payload"
    ) is distinct from (
        old."user_id", old."created_at", old."given_at", old."payload"
    ) then
        raise exception 'of % % these stay as they are: %', 'capture', old."id",
            'user_id, created_at, given_at, payload'
            using errcode = 'DU001';
    elsif new."state" is not distinct from old."state" and not (
        (old."state"::text = 'processing' and new."locked_by" is distinct from old."locked_by")
            or (new.closed_at is distinct from old.closed_at)
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."state" is distinct from old."state" and not (case old."state"::text
        when 'pending' then new."state"::text = any (array['processing', 'failed'])
        when 'processing' then new."state"::text = any (array['done', 'failed'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'capture', old."id",
            old."state", new."state" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."state"::text;
        if old.closed_at is not null and new.closed_at is distinct from old.closed_at then
            raise exception 'capture % is closed since %; closed_at cannot change', old.id, old.closed_at
                using errcode = 'DU001';
        elsif old.state = 'processing' and new.state = 'processing'
            and not (old.locked_at < duly.clock() - make_interval(secs => coalesce(old.lease_seconds, new.lease_seconds,
            300))) then
            raise exception 'capture % is leased by %', old.id, old.locked_by using errcode = 'DU001';
        end if;
    end if;
    broken_rule := case
        when ((new.state = 'failed') = (new.error is not null)) is false then 'ck_capture_session__error'
        when (char_length(new.error) between 1 and 4000) is false then 'ck_capture_session__error_text'
        when (
            num_nonnulls(new.locked_at, new.locked_by) = case when new.state = 'processing' then 2 else 0 end
        ) is false then 'ck_capture_session__lease'
        when (
            new.lease_seconds is null or (new.state = 'processing' and new.lease_seconds > 0)
        ) is false then 'ck_capture_session__lease_seconds'
        when (
            char_length(new.locked_by) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_capture_session__owners'
        when (new.starts >= 0) is false then 'ck_capture_session__starts'
        when (
            num_nonnulls(new.payload, new.given_at) in (0, 2) and (new.payload is null or new.revision > 1
                or (jsonb_typeof(new.payload) = 'object' and octet_length(new.payload::text) <= 2097152))
        ) is false then 'ck_capture_session__payload'
        when (
            new.result is null or (new.state = 'done' and jsonb_typeof(new.result) = 'object'
                and pg_column_size(new.result) <= 65536)
        ) is false then 'ck_capture_session__result'
        when (
            date_part('epoch', least(new.created_at, new.closed_at, new.given_at, new.locked_at)) >= 946684800
                and date_part('epoch', greatest(new.created_at, new.closed_at, new.given_at,
                new.locked_at)) < 7258118400
        ) is false then 'ck_capture_session__years_2000_to_2200'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'capture', new."id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "capture_session_guard"
    before insert or update on "schedule_ingest"."capture_session"
    for each row execute function "schedule_ingest"."capture_session_guard"();

create or replace function "schedule_ingest"."capture_session_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'capture', "id"::text, revision, duly.clock(), transition_from, "state"::text, case
            when state = 'processing' then locked_by when state in ('done', 'failed') then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('closedAt', case when state = 'pending' then closed_at end, 'starts',
            nullif(starts, 0), 'error', error, 'result', result))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "capture_session_timeline_insert"
    after insert on "schedule_ingest"."capture_session"
    referencing new table as new_rows
    for each statement execute function "schedule_ingest"."capture_session_timeline"();

create or replace trigger "capture_session_timeline_update"
    after update on "schedule_ingest"."capture_session"
    referencing new table as new_rows
    for each statement execute function "schedule_ingest"."capture_session_timeline"();

create or replace function "schedule_ingest"."schedule_notification_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."delivery"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'notification', new."delivery" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."notification_id" is distinct from old."notification_id" then
        raise exception 'the primary key of % % cannot change', 'notification', old."notification_id"
            using errcode = 'DU001';
    elsif (
        new."user_id", new."schedule_date", new."source_session_id", new."notification_type", new."message",
            new."event_ids"
    ) is distinct from (
        old."user_id", old."schedule_date", old."source_session_id", old."notification_type", old."message",
            old."event_ids"
    ) then
        raise exception 'of % % these stay as they are: %', 'notification', old."notification_id",
            'user_id, schedule_date, source_session_id, notification_type, message, event_ids'
            using errcode = 'DU001';
    elsif new."delivery" is not distinct from old."delivery" and not (
        (old."delivery"::text = 'sending' and new."lease_owner" is distinct from old."lease_owner")
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."delivery" is distinct from old."delivery" and not (case old."delivery"::text
        when 'pending' then new."delivery"::text = any (array['sending', 'sent', 'failed'])
        when 'sending' then new."delivery"::text = any (array['sent', 'pending', 'failed', 'uncertain'])
        when 'uncertain' then new."delivery"::text = any (array['sent', 'pending', 'failed'])
        when 'failed' then new."delivery"::text = any (array['pending', 'sent'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'notification', old."notification_id",
            old."delivery", new."delivery" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."delivery"::text;
        new.status := case when new.delivery in ('sent', 'failed') then new.delivery else 'pending' end;
        if new.delivery <> 'sent' then
            new.sent_at := null;
        elsif old.delivery = 'uncertain' and old.called_at is not null then
            new.sent_at := old.called_at;
        elsif new.sent_at is null then
            new.sent_at := duly.clock();
        end if;
    end if;
    broken_rule := case
        when (
            new.delivery in ('pending', 'sending', 'sent', 'failed', 'uncertain')
        ) is false then 'ck_schedule_notification__delivery'
        when (
            num_nonnulls(new.lease_owner, new.lease_expires_at) = case when new.delivery = 'sending' then 2 else 0 end
        ) is false then 'ck_schedule_notification__lease'
        when (
            case new.delivery when 'pending' then new.called_at is null when 'uncertain' then new.called_at is not null
                else true end
        ) is false then 'ck_schedule_notification__called_at'
        when (char_length(new.last_error) between 1 and 2048) is false then 'ck_schedule_notification__last_error'
        when (char_length(new.receipt) <= 2048) is false then 'ck_schedule_notification__receipt'
        when (
            char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_schedule_notification__owners'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'notification', new."notification_id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "schedule_notification_guard"
    before insert or update on "schedule_ingest"."schedule_notification"
    for each row execute function "schedule_ingest"."schedule_notification_guard"();

create or replace function "schedule_ingest"."schedule_notification_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'notification', "notification_id"::text, revision, duly.clock(), transition_from, "delivery"::text, case
            when delivery = 'sending' then lease_owner when transition_from = 'sending' then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at, 'error', case
            when delivery in ('pending', 'failed', 'uncertain') then last_error end))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "schedule_notification_timeline_insert"
    after insert on "schedule_ingest"."schedule_notification"
    referencing new table as new_rows
    for each statement execute function "schedule_ingest"."schedule_notification_timeline"();

create or replace trigger "schedule_notification_timeline_update"
    after update on "schedule_ingest"."schedule_notification"
    referencing new table as new_rows
    for each statement execute function "schedule_ingest"."schedule_notification_timeline"();

-- Before the grants of a branch: takes from PUBLIC and from duly's own roles what they may do with its objects, so that
-- a right that is no longer granted is gone. What an administrator granted to others stays.

do $revoke$
declare
    of_duly constant text := format('%I, %I, %I', 'duly_worker', 'duly_api', 'duly_readonly');
    thing record;
begin
    for thing in
        select
            case c.relkind when 'S' then 'sequence' else 'table' end as kind, c.oid::regclass::text as name,
            true as is_new
        from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = any ('{"schedule_ingest"}'::text[])
            and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
            and pg_get_userbyid(c.relowner) = current_user
        union all
        select 'routine', f.oid::regprocedure::text, f.proacl is null
        from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = any ('{"schedule_ingest"}'::text[]) and pg_get_userbyid(f.proowner) = current_user
    loop
        execute format('revoke all on %s %s from %s', thing.kind, thing.name, of_duly);
        if thing.is_new or thing.name not in ('duly.clock()', 'duly.now()') then
            -- The clocks may have been opened to all by an administrator; of the rest nothing is for PUBLIC.
            execute format('revoke all on %s %s from public', thing.kind, thing.name);
        end if;
    end loop;
end
$revoke$;

-- Grants --------------------------------------------------------------------------------------------------------------

grant usage on schema "schedule_ingest" to "duly_worker", "duly_api", "duly_readonly";

grant select on
    "schedule_ingest".capture_session, "schedule_ingest".capture_image,
    "schedule_ingest".day_schedule, "schedule_ingest".schedule_version, "schedule_ingest".day_snapshot,
    "schedule_ingest".schedule_event, "schedule_ingest".schedule_notification
    to "duly_worker", "duly_api", "duly_readonly";

grant update, insert (id, user_id, payload, given_at, closed_at) on "schedule_ingest".capture_session to "duly_worker";

grant insert on "schedule_ingest".schedule_version to "duly_worker";

grant insert on "schedule_ingest".schedule_event to "duly_worker";

grant insert on "schedule_ingest".schedule_notification to "duly_worker";

grant insert, update on "schedule_ingest".day_snapshot to "duly_worker";

-- A command of the bot that is delivered twice creates one session, whose id is derived from the message.
grant insert (id, user_id, payload, given_at, closed_at) on "schedule_ingest".capture_session to "duly_api";

grant update (closed_at) on "schedule_ingest".capture_session to "duly_api";

grant insert on "schedule_ingest".capture_image to "duly_api";

grant update (
    delivery, channel, due_at, is_in_line, called_at, starts, last_error, receipt, lease_owner, lease_expires_at,
    settled_by
) on "schedule_ingest".schedule_notification to "duly_worker";

-- One row per object; its hash is that of the text it has now.
insert into duly.schema_object (branch, object, sha256)
select 'ingest', applied.object, applied.sha256
from unnest(
     E'{"function \\"schedule_ingest\\".check_accepts_images",
"trigger capture_image_checks_session on \\"schedule_ingest\\".capture_image",
"trigger capture_image_is_append_only on \\"schedule_ingest\\".capture_image",
"trigger capture_image_is_not_emptied on \\"schedule_ingest\\".capture_image",
"function \\"schedule_ingest\\".advance_days",
"trigger schedule_version_advances on \\"schedule_ingest\\".schedule_version",
"trigger schedule_version_is_append_only on \\"schedule_ingest\\".schedule_version",
"trigger schedule_version_is_not_emptied on \\"schedule_ingest\\".schedule_version",
"function \\"schedule_ingest\\".refuse_day_change",
"trigger day_schedule_follows_its_versions on \\"schedule_ingest\\".day_schedule",
"trigger day_schedule_to_next_version on \\"schedule_ingest\\".day_schedule",
"trigger day_schedule_stays on \\"schedule_ingest\\".day_schedule",
"trigger day_schedule_is_not_emptied on \\"schedule_ingest\\".day_schedule",
"trigger day_snapshot_is_put_once on \\"schedule_ingest\\".day_snapshot",
"trigger day_snapshot_stays on \\"schedule_ingest\\".day_snapshot",
"trigger day_snapshot_is_not_emptied on \\"schedule_ingest\\".day_snapshot",
"trigger schedule_event_is_append_only on \\"schedule_ingest\\".schedule_event",
"trigger schedule_event_is_not_emptied on \\"schedule_ingest\\".schedule_event",
"function \\"schedule_ingest\\".follow_status",
"trigger schedule_notification_follow on \\"schedule_ingest\\".schedule_notification",
"function \\"schedule_ingest\\".\\"capture_session_guard\\"",
"trigger \\"capture_session_guard\\" on \\"schedule_ingest\\".\\"capture_session\\"",
"function \\"schedule_ingest\\".\\"capture_session_timeline\\"",
"trigger \\"capture_session_timeline_insert\\" on \\"schedule_ingest\\".\\"capture_session\\"",
"trigger \\"capture_session_timeline_update\\" on \\"schedule_ingest\\".\\"capture_session\\"",
"function \\"schedule_ingest\\".\\"schedule_notification_guard\\"",
"trigger \\"schedule_notification_guard\\" on \\"schedule_ingest\\".\\"schedule_notification\\"",
"function \\"schedule_ingest\\".\\"schedule_notification_timeline\\"",
"trigger \\"schedule_notification_timeline_insert\\" on \\"schedule_ingest\\".\\"schedule_notification\\"",
"trigger \\"schedule_notification_timeline_update\\" on \\"schedule_ingest\\".\\"schedule_notification\\"",
"grants"}'::text[],
    '{"b29873f8eeb6f3949f4949475ce50350e2b71a352720e002c8e2a4cb94c77251",
"69b83db9213a8f23817b19fdf7254f1e20e705933a65bed6850d19bf6aeca3ff",
"074e7e81f8d4c1692451d0027574df5f323a02fc729e561275751f110a8bebe4",
"3876c2b2a8631ccc1d39512547dbe0144cb6eeafd39b1d9abc6a2c97810a5ce4",
"19b68d1883f111653181c9c687a421c0f662e0cbc7a28b419c30c90ea665f0fe",
"a8998c431aa2cef53e8ef295e37c22f66d015b6f45572d48ff8f723bdfed5f4c",
"012bc93db965ee56ab7712159488a7d3ee75db19ac2f9512c9285590526de4d0",
"0f95b16b5ef549a4d90689b813a8e263749b4a95fcf1e9a3ad6e56ebbbc72f1f",
"4e0f5f8b5d43a3c9553d0ad47e2294ec26c465713d1c7a06123b5397301bbf4a",
"e50bf3515450aae31e138ca967281e81103ac0ad9a4c32d133f0d9a071b0eaba",
"ecced3433ec3659f71fb449c87d543009965914168d34b69ac2f24ed938efac5",
"086536b5d8c130f30e5b0e3f8aa6b1f0551c0ea6526b7155a9c4e0573868fd4e",
"a1995a700478ed6470884eb434a9c0e70c1186598b1924988a9fc88bb9fc1ac8",
"13b9b7cda3ffcf83357102697d7ae05ed25f3a3bf2dc175fdeda8ae1a8cf9d7f",
"bec8ccf76561b7bd67b1199e129a6a6d831b8c73888106759c90499037d51d11",
"dce3ad3af190b65e9b57af165fa45cb4f13390dd5d88a19fa7ffa8482ccbc5f0",
"1724600f91879551dae347a20ba466ad4b344a9cb0a211eae2388cbaa80df039",
"ecf1b7eadcd616c6e91182da24db3006d362f8075cc920df2eff518609c89de0",
"ecc3cc298062f180c7cf5e31857866985fc085e24f9b21094c36f9720836cbdd",
"a4fe0e6397e777a97bd279a6b6b619e14c1cea20497d18135a717e9a7722d3d9",
"01f3d17b1e6d0f1c4e5da3745201b62426f7069c80fdfa117c8d8424718494f1",
"3631f1c491794e37ff550090620b7e7d9c3e492ee0c574e12c974b694ba858ed",
"fdb61ebc430ead1209586c5ab2bda1131587ebc5530c4932ae29d3a3cda83652",
"ae9594612f3e5f76ac162b3c16d35829921d071ade67d46949a9e766a75e332a",
"85cd16cfc7ebc0a851c7a3ee285e371cd36b27ec00dd27a7b37aa6e9d5e67d2f",
"2ee7c4e1c1318b283a22586216b950d2957d9aef7826184a8abc366b08f4b062",
"d1e38a8bcb1533f78b7ce0e57edd174c95fc38c0f277b3b8db83e6609427a683",
"bc9502ecf81b6c7864eaa9c35d5479f239953445fec1a02f85d9fc616990b3a9",
"7d8b3d7e2ab6f9fb46af000636d9a32a8344889836c91c6ebedef9308e8acbba",
"623607c549903c601b085d2dd71839386841ddd060a4636a851ba67ed7a45998",
"033216924a545b98a173e6495037662d60dee3dc152e12bef2b57b117a152bb6"}'::text[]
) as applied (object, sha256)
on conflict (branch, object) do update set sha256 = excluded.sha256;

do $closing$
declare
    found record;
begin
    for found in
        select r.rolname as guest, n.nspname as home
        from pg_catalog.pg_roles as r
        cross join pg_catalog.pg_namespace as n
        where r.rolname in ('anon', 'authenticated')
            and n.nspname = any ('{"schedule_ingest"}'::text[])
            and pg_get_userbyid(n.nspowner) = current_user  -- a backend's schema is a backend's
    loop
        execute format('revoke all on schema %I from %I', found.home, found.guest);
        execute format('revoke all on all tables in schema %I from %I', found.home, found.guest);
        execute format('revoke all on all sequences in schema %I from %I', found.home, found.guest);
        execute format('revoke all on all routines in schema %I from %I', found.home, found.guest);
    end loop;
end
$closing$;

reset role;
reset lock_timeout;
reset client_min_messages;
