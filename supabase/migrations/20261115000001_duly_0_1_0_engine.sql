-- duly 0.1.0, engine: compiled from the migrations and functions of duly; do not edit.

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
    where n.nspname = any ('{"duly","ledger"}'::text[])
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

create schema if not exists "duly" authorization "duly_owner";
create schema if not exists "ledger" authorization "duly_owner";
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

-- What every schema of duly is built on: the clocks, ids, checks, append-only tables and wake-ups. It is created before
-- the tables, because their defaults and checks call it; nothing here may read a table.

-- The clocks ----------------------------------------------------------------------------------------------------------
-- Every default, trigger and predicate of duly reads the time through these two. Plain SQL, so the planner inlines
-- them; a test database replaces their bodies and moves the time.

create or replace function duly.clock() returns timestamptz
    language sql volatile parallel safe
    return clock_timestamp();

comment on function duly.clock() is
    'The current time, for timestamps that are written: a statement that waited must not write an old one.';

create or replace function duly.now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();

comment on function duly.now() is 'The time at the start of the statement, for conditions that an index must serve.';

create or replace function duly.new_id() returns uuid
    language sql volatile parallel safe
    return encode(
        -- Six bytes of milliseconds before a random uuid, whose version 4 becomes a 7 by two bits.
        set_bit(set_bit(overlay(
            uuid_send(gen_random_uuid())
            placing substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3)
            from 1
        ), 52, 1), 53, 1),
        'hex'
    )::uuid;

comment on function duly.new_id() is 'A UUIDv7: rows created together lie together in every index that begins with it.';

create or replace function duly.new_ids(many bigint) returns uuid[]
    language sql volatile parallel safe
    return array(
        -- Six bytes of milliseconds; 14 bits that count, beside the version 7 and a UUID's own two; 60 bits of a hash.
        select encode(
            seed.milliseconds
            || int2send((28672 + n / 4)::int2)
            || int8send(
                (uuid_hash_extended(seed.random, n) & 1152921504606846975) | ((n & 3) << 60) | (-9223372036854775808)
            ),
            'hex'
        )::uuid
        from (
            select
                gen_random_uuid() as random,
                substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3) as milliseconds
            offset 0  -- read once
        ) as seed
        cross join generate_series(0, many - 1) as n
        order by n
    );

comment on function duly.new_ids(bigint) is
    'Ascending UUIDv7, at most 16384, from one random number, which is all that keeps them apart from others.';

create or replace function duly.is_time_zone(zone text) returns boolean
    language plpgsql immutable parallel safe
    as $$
begin
    perform timestamptz 'epoch' at time zone zone;
    return zone ~ '^[A-Za-z]';  -- a bare offset has no summer time and is not a zone
exception when invalid_parameter_value then
    return false;
end
$$;

create or replace function duly.touch() returns trigger
    language plpgsql
    as $$
begin
    new.updated_at := duly.clock();
    return new;
end
$$;

comment on function duly.touch() is 'Sets updated_at, whatever the caller wrote.';

-- Append-only tables --------------------------------------------------------------------------------------------------
-- No role is granted DELETE or TRUNCATE. This trigger refuses them to the owner too, except to retention in its own
-- transaction.

create or replace function duly.refuse_change() returns trigger
    language plpgsql
    as $$
begin
    if tg_op = 'DELETE' and current_setting('duly.retention', true) = 'on' then
        return old;
    end if;
    raise exception '%.% is append-only: % refused', tg_table_schema, tg_table_name, tg_op
        using errcode = 'restrict_violation';
end
$$;

create or replace function duly.refuse_row(machine text, key text, broken_rule text) returns boolean
    language plpgsql
    as $$
begin
    raise exception '% % breaks the rule %', machine, key, broken_rule
        using errcode = 'check_violation', constraint = broken_rule;
end
$$;

comment on function duly.refuse_row(text, text, text) is
    'Refuses a row that breaks a rule of its state machine, as a CHECK constraint of this name would; returns nothing.';

create or replace function duly.this_window() returns bigint
    language sql volatile parallel safe
    return floor(date_part('epoch', clock_timestamp()) * 20)::bigint;

comment on function duly.this_window() is 'The number of the current 50 ms by the real clock, which no test moves.';

create or replace function duly.wake(channel text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    last_window constant regclass := to_regclass(format('duly.%I', 'wake_' || channel));
    this_window constant bigint := duly.this_window();
begin
    if last_window is null then
        raise exception 'cannot wake workers on channel "%": there is no sequence duly.wake_%', channel, channel
            using errcode = 'undefined_object';
    end if;
    -- A window more than a second ahead was written before the clock was set back: it must not keep us silent until
    -- then.
    if pg_sequence_last_value(last_window) between this_window and this_window + 20 then
        return;
    end if;
    perform setval(last_window, this_window);
    perform pg_notify('duly_' || channel, '');
end
$$;

comment on function duly.wake(text) is
    'Notify the workers of a channel when this transaction commits; at most once per 50 ms.';

create or replace function duly.wake_workers() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- The window is checked first, and here, because most statements end with that, and a call costs time.
    if pg_sequence_last_value(('duly.wake_' || tg_argv[0])::regclass) is distinct from duly.this_window()
        and exists (select from new_rows) then
        perform duly.wake(tg_argv[0]);
    end if;
    return null;
end
$$;

comment on function duly.wake_workers() is
    'AFTER INSERT, REFERENCING NEW TABLE AS new_rows: notify the given channel if rows were inserted.';

-- Logs that only grow, on every partition -----------------------------------------------------------------------------
-- A row trigger of a partitioned table is cloned to its partitions; a trigger against TRUNCATE is not. Call this after
-- creating a partition of such a log, for the partition or for the full log: existing triggers stay.

create or replace function duly.protect(log regclass) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    part regclass;
begin
    for part in
        select coalesce(tree.relid, log)
        from (select) as itself left join pg_partition_tree(log) as tree on true
        order by tree.level
    loop
        if not exists (select from pg_trigger where tgrelid = part and tgname = 'is_append_only') then
            execute format('create trigger is_append_only before update or delete on %s'
                ' for each row execute function duly.refuse_change()', part);
        end if;
        if not exists (select from pg_trigger where tgrelid = part and tgname = 'is_not_emptied') then
            execute format('create trigger is_not_emptied before truncate on %s'
                ' for each statement execute function duly.refuse_change()', part);
        end if;
    end loop;
end
$$;

comment on function duly.protect(regclass) is
    'Make a table, and each partition it has now, refuse UPDATE, DELETE and TRUNCATE.';

-- The engine's tables: tenants, people, keys, workers, the log of transitions, the outbox and the ledger.

-- Tenants -------------------------------------------------------------------------------------------------------------

create table duly.orgs (
    id uuid not null default gen_random_uuid(),
    name text not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_orgs primary key (id),
    constraint uq_orgs__name unique (name),
    constraint ck_orgs__name check (
        name = btrim(name) and char_length(name) between 1 and 200
        and name !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
    )
);
comment on table duly.orgs is 'Tenants: the owners of jobs and keys.';

-- People --------------------------------------------------------------------------------------------------------------

create table duly.person (
    id bigint not null generated always as identity,
    uid text not null,
    telegram_id bigint,
    user_id bigint,
    zone text not null default 'UTC',
    language text not null default 'en',
    currency text not null default 'EUR',
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    quiet_from time,
    quiet_until time,
    constraint pk_person primary key (id),
    constraint uq_person__uid unique (uid),
    constraint uq_person__telegram_id unique (telegram_id),
    constraint uq_person__user_id unique (user_id),
    constraint ck_person__uid check (uid ~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$'),
    constraint ck_person__zone check (char_length(zone) <= 64 and duly.is_time_zone(zone)),
    constraint ck_person__language check (language ~ '^[a-z]{2,3}$'),
    constraint ck_person__currency check (currency ~ '^[A-Z]{3}$'),
    constraint ck_person__quiet check (num_nonnulls(quiet_from, quiet_until) in (0, 2) and quiet_from <> quiet_until)
);
comment on table duly.person is 'People: one row for a uid, a Telegram id and a user of the scheduler.';
comment on column duly.person.user_id is 'Their id in "user".users, which the scheduler uses.';
comment on column duly.person.quiet_from is 'No reminders from this time of their day until quiet_until.';

create table duly.calendars (
    person_id bigint not null,
    token_sha256 bytea not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_calendars primary key (person_id),
    constraint uq_calendars__token_sha256 unique (token_sha256),
    constraint fk_calendars_person_person_id foreign key (person_id) references duly.person (id) on delete cascade,
    constraint ck_calendars__token_sha256 check (octet_length(token_sha256) = 32)
);
comment on table duly.calendars is 'The token that opens a person''s calendar; a new one replaces the old.';

create table duly.webhooks (
    person_id bigint not null,
    url text not null,
    secret text not null,
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_webhooks primary key (person_id),
    constraint fk_webhooks_person_person_id foreign key (person_id) references duly.person (id) on delete cascade,
    constraint ck_webhooks__url check (url ~ '^https?://' and char_length(url) <= 2048),
    constraint ck_webhooks__secret check (secret ~ '^whsec_[A-Za-z0-9+/=]{32,100}$')
);
comment on table duly.webhooks is 'Where messages by webhook go, and the secret that signs them.';

create table duly.apprise_addresses (
    person_id bigint not null,
    url text not null,
    service text not null generated always as (split_part(url, '://', 1)) stored,
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_apprise_addresses primary key (person_id),
    constraint fk_apprise_addresses_person_person_id foreign key (person_id)
        references duly.person (id) on delete cascade,
    constraint ck_apprise_addresses__url check (url ~ '^[a-z][a-z0-9_+.-]{0,31}://.' and char_length(url) <= 2048)
);
comment on table duly.apprise_addresses is
    'Where messages by apprise go. The address contains passwords: only senders may read it, others see the service.';

-- Keys ----------------------------------------------------------------------------------------------------------------

create table duly.api_keys (
    id uuid not null default gen_random_uuid(),
    name text not null,
    prefix text not null,
    secret_sha256 bytea not null,
    scopes text[] not null,
    org_id uuid,
    person_id bigint,
    created_at timestamptz not null default duly.clock(),
    expires_at timestamptz,
    revoked_at timestamptz,
    constraint pk_api_keys primary key (id),
    constraint uq_api_keys__prefix unique (prefix),
    constraint fk_api_keys_orgs_org_id foreign key (org_id) references duly.orgs (id) on delete restrict,
    constraint fk_api_keys_person_person_id foreign key (person_id) references duly.person (id) on delete restrict,
    constraint ck_api_keys__name check (
        name = btrim(name) and char_length(name) between 1 and 200
        and name !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
    ),
    constraint ck_api_keys__prefix check (prefix ~ '^duly_[a-z0-9]{12}$'),
    constraint ck_api_keys__secret_sha256 check (octet_length(secret_sha256) = 32),
    constraint ck_api_keys__scopes check (
        cardinality(scopes) between 1 and 32 and array_position(scopes, null) is null
    ),
    constraint ck_api_keys__holder check (num_nonnulls(org_id, person_id) >= 1),
    constraint ck_api_keys__expires_at check (expires_at > created_at)
);
comment on table duly.api_keys is
    'API keys: a key is shown once; stored are its prefix, to find it, and its hash, to check it.';
create index idx_api_keys__org_id on duly.api_keys (org_id);
create index idx_api_keys__person_id on duly.api_keys (person_id);

-- What signs links ----------------------------------------------------------------------------------------------------

create table duly.link_keys (
    id bigint not null generated always as identity,
    secret bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    created_at timestamptz not null default duly.clock(),
    constraint pk_link_keys primary key (id),
    constraint ck_link_keys__secret check (octet_length(secret) between 32 and 64)
);
comment on table duly.link_keys is 'Keys that sign links in messages: the newest signs, all of them are accepted.';
insert into duly.link_keys default values;

-- Workers -------------------------------------------------------------------------------------------------------------

create table duly.workers (
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
comment on column duly.workers.slots is 'How many rows of each work type it runs at once.';
comment on column duly.workers.stopping_at is 'From then on it claims nothing new and finishes what it has.';
comment on table duly.workers is
    'Worker processes, running and recent: for people and `explain`; no decision depends on them.';
create index idx_workers__started_at on duly.workers (started_at);

-- Transitions ---------------------------------------------------------------------------------------------------------

create table duly.transition (
    machine text not null,
    key text not null,
    seq bigint not null,
    ts timestamptz not null default duly.clock(),
    prev_status text,
    next_status text not null,
    actor text,
    detail_json jsonb,
    constraint pk_transition primary key (machine, key, seq),
    constraint ck_transition__seq check (seq > 0),
    constraint ck_transition__first check ((seq = 1) = (prev_status is null))
);
comment on table duly.transition is
    'One row per transition of posts, captures, runs and messages, in order, written by their triggers.';
create index idx_transition__ts on duly.transition (ts);

-- The outbox, wake-ups for workers, logs that only grow on every partition, and retention.

-- Wake-ups ------------------------------------------------------------------------------------------------------------
-- A notification costs every commit that sends one, so at most one goes out per window of 50 ms and channel. The
-- channel's sequence holds the last window in which one was sent: sequences know no transactions, so no session waits
-- for another, and a window claimed by a transaction that rolls back is over in 50 ms all the same. A hint, never more:
-- workers also poll.

create sequence duly.wake_outbox as bigint;
comment on sequence duly.wake_outbox is 'The last window of 50 ms in which the senders were woken.';

-- The outbox ----------------------------------------------------------------------------------------------------------
-- There is no updated_at: a heartbeat would have to write it, and the log knows better.

create table duly.outbox (
    id uuid not null default gen_random_uuid(),
    channel text not null,
    recipient text not null,
    kind text not null,
    payload jsonb not null,
    dedupe_key text,
    status text not null default 'pending',
    due_at timestamptz not null default duly.clock(),
    created_at timestamptz not null default duly.clock(),
    called_at timestamptz,
    sent_at timestamptz,
    starts bigint not null default 0,
    last_error text,
    receipt text,
    lease_owner text,
    lease_expires_at timestamptz,
    settled_by text,
    revision bigint not null default 0,
    transition_from text,
    seq bigint not null generated always as identity,
    is_in_line boolean not null default false,
    constraint pk_outbox primary key (id),
    constraint uq_outbox__dedupe_key unique (dedupe_key),
    constraint ck_outbox__channel check (channel ~ '^[a-z][a-z0-9_]{0,31}$'),
    constraint ck_outbox__recipient check (octet_length(recipient) between 1 and 1024),
    constraint ck_outbox__kind check (kind ~ '^[a-z][a-z0-9_.]{0,63}$'),
    constraint ck_outbox__payload check (jsonb_typeof(payload) = 'object' and pg_column_size(payload) <= 65536),
    constraint ck_outbox__dedupe_key check (octet_length(dedupe_key) between 1 and 512),
    constraint ck_outbox__status check (status in ('pending', 'sending', 'sent', 'failed', 'uncertain')),
    constraint ck_outbox__lease check (
        num_nonnulls(lease_owner, lease_expires_at) = case when status = 'sending' then 2 else 0 end
    ),
    constraint ck_outbox__called_at check (
        case status when 'pending' then called_at is null when 'uncertain' then called_at is not null else true end
    ),
    constraint ck_outbox__sent_at check ((status = 'sent') = (sent_at is not null)),
    constraint ck_outbox__last_error check (
        char_length(last_error) between 1 and 2048 and (status <> 'failed' or last_error is not null)
    ),
    constraint ck_outbox__receipt check (char_length(receipt) <= 2048),
    constraint ck_outbox__owners check (char_length(lease_owner) between 1 and 300 and char_length(settled_by) <= 300),
    constraint ck_outbox__starts check (starts >= 0),
    constraint ck_outbox__years_2000_to_2200 check (
        extract(epoch from least(due_at, created_at, called_at, sent_at, lease_expires_at)) >= 946684800
        and extract(epoch from greatest(due_at, created_at, called_at, sent_at, lease_expires_at)) < 7258118400
    )
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table duly.outbox is
    'Messages to people and systems outside, written in the transaction that causes them; senders lease them.';
comment on column duly.outbox.id is 'The id of the message for every transport, at every try.';
comment on column duly.outbox.dedupe_key is 'A retried transaction writes one message; retention frees the key.';
comment on column duly.outbox.called_at is
    'Set just before the transport is called: if the lease then expires, the outcome is uncertain.';
comment on column duly.outbox.receipt is 'The id that the transport gave the message.';
create index idx_outbox__id on duly.outbox (id) where status = 'sending';
comment on column duly.outbox.is_in_line is 'It was due, and waits behind an earlier message to the same recipient.';
comment on column duly.outbox.seq is 'The order in which messages were written: one recipient gets them in this order.';
create index idx_outbox__channel_due_at_id on duly.outbox (channel, due_at, id) where status = 'pending';
create index idx_outbox__channel_recipient_seq on duly.outbox (channel, recipient, seq)
    where status in ('pending', 'sending');
create index idx_outbox__seq_failed on duly.outbox (seq) where status = 'failed';
create index idx_outbox__seq_uncertain on duly.outbox (seq) where status = 'uncertain';
create index idx_outbox__seq on duly.outbox (seq);

-- The ledger: jobs, the log of everything that happened to them, how many of a type may run, and the functions that any
-- language may call.

create sequence duly.wake_ledger as bigint;
comment on sequence duly.wake_ledger is 'The last window of 50 ms in which the workers of jobs were woken.';

create type ledger.job_status as enum ('queued', 'running', 'succeeded', 'failed', 'canceled', 'dead_letter');
create type ledger.job_backoff_policy as enum ('none', 'fixed', 'exp');

-- Jobs ----------------------------------------------------------------------------------------------------------------
-- The first sixteen columns are the contract's; what follows them is ours.

create table ledger.job (
    id uuid not null default gen_random_uuid(),
    org_id uuid not null,
    -- squawk-ignore prefer-text-field
    type varchar(100) not null,
    status ledger.job_status not null default 'queued',
    -- squawk-ignore prefer-bigint-over-int
    attempt integer not null default 0,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer not null default 5,
    backoff_policy ledger.job_backoff_policy not null default 'exp',
    -- squawk-ignore prefer-bigint-over-int
    priority integer not null default 0,
    -- squawk-ignore prefer-text-field
    idempotency_key varchar(255),
    -- squawk-ignore prefer-text-field
    requested_by varchar(255),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    -- squawk-ignore prefer-text-field
    last_error_code varchar(64),
    -- squawk-ignore prefer-text-field
    last_error_message varchar(2048),
    queue text not null default 'default',
    payload jsonb not null default '{}',
    result jsonb,
    run_at timestamptz not null default duly.clock(),
    timeout_seconds double precision,
    backoff_base_seconds double precision not null default 15,
    backoff_cap_seconds double precision not null default 600,
    starts bigint not null default 0,
    snoozes bigint not null default 0,
    lease_owner text,
    lease_expires_at timestamptz,
    settled_by text,
    cancel_requested_at timestamptz,
    stage text,
    progress bigint,
    progressed_at timestamptz,
    request_digest bytea,
    retain_for interval not null default '30 days',
    retain_until timestamptz,
    event_detail jsonb,
    revision bigint not null default 0,
    transition_from text,
    constraint pk_job primary key (id),
    constraint ck_job__status_finished_at_consistency check (
        (finished_at is not null) = (status in ('succeeded', 'canceled', 'dead_letter'))
    )
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table ledger.job is 'A job: its type and payload, its org, its retries, its lease and its result.';
comment on column ledger.job.attempt is
    'Retries so far: 0 = the first attempt. Always starts - 1, written by the guard.';
comment on column ledger.job.max_attempts is 'Starts after which a failed job becomes a dead letter.';
comment on column ledger.job.started_at is 'When it was first started.';
comment on column ledger.job.starts is 'Counted claims; releases and snoozes are not counted, a redrive resets it.';
comment on column ledger.job.snoozes is 'How often a handler returned Later; at 1000 it becomes a failure.';
comment on column ledger.job.lease_owner is
    'The holder: the fence. A failed job keeps it for the transition that follows.';
comment on column ledger.job.settled_by is 'The last holder, so that a repeated settle recognises its own.';
comment on column ledger.job.progressed_at is 'When progress was last logged, which is not every time.';
comment on column ledger.job.request_digest is 'What the key stands for: the same key with another request is refused.';
comment on column ledger.job.retain_until is
    'From then on it may be removed, which frees its key: retain_for after it finished.';
comment on column ledger.job.event_detail is 'Detail that a statement adds to the event of its transition.';

create index idx_job__job_org_id on ledger.job (org_id);
create index idx_job__org_id_created_at_desc on ledger.job (org_id, created_at desc);
create unique index idx_job__org_id_idempotency_key on ledger.job (org_id, idempotency_key)
    where idempotency_key is not null;
create index idx_job__status_created_at on ledger.job (status, created_at);
-- What is claimed: neither a job that is due later nor one of another type ever lies between two that are wanted.
create index idx_job__queue_type_priority_run_at_id on ledger.job (queue, type, priority desc, run_at, id)
    where status = 'queued';
create index idx_job__retain_until on ledger.job (retain_until) where retain_until is not null;
-- Lists by status: equality of enums is not leakproof, so under a policy only a partial index helps. The one of running
-- jobs, of which there are never many, is also how the sweep finds them and how those of a type are counted.
create index idx_job__org_id_created_at_id_queued on ledger.job (org_id, created_at desc, id desc)
    where status = 'queued';
create index idx_job__org_id_created_at_id_running on ledger.job (org_id, created_at desc, id desc)
    where status = 'running';
create index idx_job__org_id_created_at_id_succeeded on ledger.job (org_id, created_at desc, id desc)
    where status = 'succeeded';
create index idx_job__org_id_created_at_id_failed on ledger.job (org_id, created_at desc, id desc)
    where status = 'failed';
create index idx_job__org_id_created_at_id_canceled on ledger.job (org_id, created_at desc, id desc)
    where status = 'canceled';
create index idx_job__org_id_created_at_id_dead_letter on ledger.job (org_id, created_at desc, id desc)
    where status = 'dead_letter';

-- Events --------------------------------------------------------------------------------------------------------------

create table ledger.job_event (
    id uuid not null default gen_random_uuid(),
    job_id uuid not null,
    ts timestamptz not null default now(),
    -- squawk-ignore prefer-text-field
    prev_status varchar(50),
    -- squawk-ignore prefer-text-field
    next_status varchar(50) not null,
    detail_json jsonb,
    seq bigint not null,
    org_id uuid not null,
    constraint pk_job_event primary key (id),
    constraint uq_job_event__job_id_seq unique (job_id, seq),
    constraint fk_job_event_job_job_id foreign key (job_id) references ledger.job (id) on delete cascade
);
comment on table ledger.job_event is 'One row per transition of a job, in order, written by its triggers only.';
comment on column ledger.job_event.id is 'Derived from job_id and seq, so that a job has one event of each number.';
comment on column ledger.job_event.seq is 'The revision of the job that this transition made: 1, 2, 3.';
create index idx_job_event__job_id_ts on ledger.job_event (job_id, ts);
create index idx_job_event__ts on ledger.job_event (ts);

-- Pauses and limits ---------------------------------------------------------------------------------------------------

create table ledger.job_limit (
    queue text not null default '*',
    type text not null default '*',
    max_running bigint,
    paused_at timestamptz,
    paused_by text,
    constraint pk_job_limit primary key (queue, type),
    constraint ck_job_limit__queue check (queue ~ '^([*]|[A-Za-z0-9][A-Za-z0-9_.:/-]*)$' and char_length(queue) <= 100),
    constraint ck_job_limit__type check (type ~ '^([*]|[A-Za-z0-9][A-Za-z0-9_.:/-]*)$' and char_length(type) <= 100),
    constraint ck_job_limit__something check (queue <> '*' or type <> '*'),
    constraint ck_job_limit__max_running check (
        max_running between 1 and 1000000 and (max_running is null or (queue = '*' and type <> '*'))
    ),
    constraint ck_job_limit__paused_by check (
        char_length(paused_by) <= 255 and (paused_at is not null or paused_by is null)
    )
);
comment on table ledger.job_limit is 'Paused queues and types, and how many jobs of a type may run at once; * is any.';

-- What every schema of duly is built on: the clocks, ids, checks, append-only tables and wake-ups. It is created before
-- the tables, because their defaults and checks call it; nothing here may read a table.

-- The clocks ----------------------------------------------------------------------------------------------------------
-- Every default, trigger and predicate of duly reads the time through these two. Plain SQL, so the planner inlines
-- them; a test database replaces their bodies and moves the time.

create or replace function duly.clock() returns timestamptz
    language sql volatile parallel safe
    return clock_timestamp();

comment on function duly.clock() is
    'The current time, for timestamps that are written: a statement that waited must not write an old one.';

create or replace function duly.now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();

comment on function duly.now() is 'The time at the start of the statement, for conditions that an index must serve.';

create or replace function duly.new_id() returns uuid
    language sql volatile parallel safe
    return encode(
        -- Six bytes of milliseconds before a random uuid, whose version 4 becomes a 7 by two bits.
        set_bit(set_bit(overlay(
            uuid_send(gen_random_uuid())
            placing substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3)
            from 1
        ), 52, 1), 53, 1),
        'hex'
    )::uuid;

comment on function duly.new_id() is 'A UUIDv7: rows created together lie together in every index that begins with it.';

create or replace function duly.new_ids(many bigint) returns uuid[]
    language sql volatile parallel safe
    return array(
        -- Six bytes of milliseconds; 14 bits that count, beside the version 7 and a UUID's own two; 60 bits of a hash.
        select encode(
            seed.milliseconds
            || int2send((28672 + n / 4)::int2)
            || int8send(
                (uuid_hash_extended(seed.random, n) & 1152921504606846975) | ((n & 3) << 60) | (-9223372036854775808)
            ),
            'hex'
        )::uuid
        from (
            select
                gen_random_uuid() as random,
                substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3) as milliseconds
            offset 0  -- read once
        ) as seed
        cross join generate_series(0, many - 1) as n
        order by n
    );

comment on function duly.new_ids(bigint) is
    'Ascending UUIDv7, at most 16384, from one random number, which is all that keeps them apart from others.';

create or replace function duly.is_time_zone(zone text) returns boolean
    language plpgsql immutable parallel safe
    as $$
begin
    perform timestamptz 'epoch' at time zone zone;
    return zone ~ '^[A-Za-z]';  -- a bare offset has no summer time and is not a zone
exception when invalid_parameter_value then
    return false;
end
$$;

create or replace function duly.touch() returns trigger
    language plpgsql
    as $$
begin
    new.updated_at := duly.clock();
    return new;
end
$$;

comment on function duly.touch() is 'Sets updated_at, whatever the caller wrote.';

-- Append-only tables --------------------------------------------------------------------------------------------------
-- No role is granted DELETE or TRUNCATE. This trigger refuses them to the owner too, except to retention in its own
-- transaction.

create or replace function duly.refuse_change() returns trigger
    language plpgsql
    as $$
begin
    if tg_op = 'DELETE' and current_setting('duly.retention', true) = 'on' then
        return old;
    end if;
    raise exception '%.% is append-only: % refused', tg_table_schema, tg_table_name, tg_op
        using errcode = 'restrict_violation';
end
$$;

create or replace function duly.refuse_row(machine text, key text, broken_rule text) returns boolean
    language plpgsql
    as $$
begin
    raise exception '% % breaks the rule %', machine, key, broken_rule
        using errcode = 'check_violation', constraint = broken_rule;
end
$$;

comment on function duly.refuse_row(text, text, text) is
    'Refuses a row that breaks a rule of its state machine, as a CHECK constraint of this name would; returns nothing.';

create or replace function duly.this_window() returns bigint
    language sql volatile parallel safe
    return floor(date_part('epoch', clock_timestamp()) * 20)::bigint;

comment on function duly.this_window() is 'The number of the current 50 ms by the real clock, which no test moves.';

create or replace function duly.wake(channel text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    last_window constant regclass := to_regclass(format('duly.%I', 'wake_' || channel));
    this_window constant bigint := duly.this_window();
begin
    if last_window is null then
        raise exception 'cannot wake workers on channel "%": there is no sequence duly.wake_%', channel, channel
            using errcode = 'undefined_object';
    end if;
    -- A window more than a second ahead was written before the clock was set back: it must not keep us silent until
    -- then.
    if pg_sequence_last_value(last_window) between this_window and this_window + 20 then
        return;
    end if;
    perform setval(last_window, this_window);
    perform pg_notify('duly_' || channel, '');
end
$$;

comment on function duly.wake(text) is
    'Notify the workers of a channel when this transaction commits; at most once per 50 ms.';

create or replace function duly.wake_workers() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- The window is checked first, and here, because most statements end with that, and a call costs time.
    if pg_sequence_last_value(('duly.wake_' || tg_argv[0])::regclass) is distinct from duly.this_window()
        and exists (select from new_rows) then
        perform duly.wake(tg_argv[0]);
    end if;
    return null;
end
$$;

comment on function duly.wake_workers() is
    'AFTER INSERT, REFERENCING NEW TABLE AS new_rows: notify the given channel if rows were inserted.';

-- Logs that only grow, on every partition -----------------------------------------------------------------------------
-- A row trigger of a partitioned table is cloned to its partitions; a trigger against TRUNCATE is not. Call this after
-- creating a partition of such a log, for the partition or for the full log: existing triggers stay.

create or replace function duly.protect(log regclass) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    part regclass;
begin
    for part in
        select coalesce(tree.relid, log)
        from (select) as itself left join pg_partition_tree(log) as tree on true
        order by tree.level
    loop
        if not exists (select from pg_trigger where tgrelid = part and tgname = 'is_append_only') then
            execute format('create trigger is_append_only before update or delete on %s'
                ' for each row execute function duly.refuse_change()', part);
        end if;
        if not exists (select from pg_trigger where tgrelid = part and tgname = 'is_not_emptied') then
            execute format('create trigger is_not_emptied before truncate on %s'
                ' for each statement execute function duly.refuse_change()', part);
        end if;
    end loop;
end
$$;

comment on function duly.protect(regclass) is
    'Make a table, and each partition it has now, refuse UPDATE, DELETE and TRUNCATE.';

-- People: when they may be written to, whom the bot meets, and whom a link binds.

create or replace trigger person_touch before update on duly.person for each row execute function duly.touch();

create or replace trigger webhooks_touch before update on duly.webhooks for each row execute function duly.touch();

create or replace trigger apprise_addresses_touch before update on duly.apprise_addresses
    for each row execute function duly.touch();

create or replace function duly.after_quiet(at timestamptz, zone text, quiet_from time, quiet_until time)
    returns timestamptz
    language sql stable parallel safe
    return case
        when quiet_from is null then at
        when quiet_from < quiet_until and (at at time zone zone)::time >= quiet_from
            and (at at time zone zone)::time < quiet_until
            then greatest(at, ((at at time zone zone)::date + quiet_until) at time zone zone)
        when quiet_from > quiet_until and (at at time zone zone)::time >= quiet_from
            then greatest(at, ((at at time zone zone)::date + 1 + quiet_until) at time zone zone)
        when quiet_from > quiet_until and (at at time zone zone)::time < quiet_until
            then greatest(at, ((at at time zone zone)::date + quiet_until) at time zone zone)
        else at
    end;

comment on function duly.after_quiet(timestamptz, text, time, time) is
    'When a person may be notified: at once, or at the end of the quiet hours that this time lies in.';

-- One Telegram id is one person: the unique key decides. The bot makes and binds people by these functions alone.

create or replace function duly.meet_telegram(telegram bigint, spoken text) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into duly.person (uid, telegram_id, language) values ('telegram:' || telegram, telegram, spoken)
    on conflict do nothing;
    if found then
        return true;
    end if;
    -- A person whose Telegram id was unlinked, and who writes again.
    update duly.person as p set telegram_id = telegram
    where p.uid = 'telegram:' || telegram and p.telegram_id is null
        and not exists (select from duly.person as o where o.telegram_id = telegram);
    return found;
end
$$;

comment on function duly.meet_telegram(bigint, text) is
    'Create the person of a Telegram id on their first message to the bot; false if there is one.';

create or replace function duly.link_telegram(person bigint, telegram bigint) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    update duly.person as p set telegram_id = telegram
    where p.id = person and (p.telegram_id is null or p.telegram_id = telegram);
    return found;
end
$$;

comment on function duly.link_telegram(bigint, bigint) is
    'Link a Telegram id to a person without one; repeating it is no error. False if they have another, or do not '
    'exist.';

-- The log of transitions refuses every change.

create or replace trigger transition_is_append_only before update or delete on duly.transition
    for each row execute function duly.refuse_change();

create or replace trigger transition_is_not_emptied before truncate on duly.transition
    for each statement execute function duly.refuse_change();

-- The outbox: time stamps, retention, resend and resolve, privileges.

create or replace function duly.stamp_sent_message() returns trigger
    language plpgsql
    as $$
begin
    new.sent_at := case old.status when 'uncertain' then old.called_at else duly.clock() end;
    return new;
end
$$;

comment on function duly.stamp_sent_message() is
    'Sets sent_at; for an uncertain message that did arrive it is the time at which its transport was called.';

create or replace trigger outbox_stamp_sent before update on duly.outbox
    for each row when (new.status = 'sent' and old.status <> 'sent') execute function duly.stamp_sent_message();

create or replace trigger outbox_wake after insert on duly.outbox
    referencing new table as new_rows
    for each statement execute function duly.wake_workers('outbox');

-- Retention -----------------------------------------------------------------------------------------------------------
-- The only way a row leaves a log. EXECUTE decides which role may; the flag that it sets while it runs keeps every
-- other delete from succeeding by mistake.

create or replace function duly.is_finished(machine text, status text) returns boolean
    language sql immutable parallel safe
    return case machine when 'outbox' then status in ('sent', 'failed') else false end;

comment on function duly.is_finished(text, text) is
    'Whether a history may end in this status; only then retention removes it.';

create or replace function duly.purge_messages(
    older_than interval, max_histories bigint, out messages bigint, out transitions bigint
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
    as $$
declare
    cutoff constant timestamptz := duly.now() - older_than;
    machines text[];
    keys text[];
    seqs bigint[];
begin
    if cutoff is null or cutoff > duly.now() - interval '1 day' then
        raise exception 'retention keeps at least 1 day, not %', coalesce(older_than::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if max_histories is null or max_histories not between 1 and 10000 then
        raise exception 'retention takes 1 to 10000 histories at a time, not %', coalesce(max_histories::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    -- Full histories, the oldest first, by their newest line: the numbers of what stays have no gap.
    select array_agg(e.machine), array_agg(e.key), array_agg(e.seq) into machines, keys, seqs from (
        select t.machine, t.key, t.seq
        from duly.transition t
        where t.ts < cutoff and duly.is_finished(t.machine, t.next_status) and not exists (
            select from duly.transition later
            where later.machine = t.machine and later.key = t.key and later.seq > t.seq
        )
        order by t.ts, t.machine, t.key
        limit max_histories
    ) as e;
    perform set_config('duly.retention', 'on', true);
    -- A message is deleted with its history. One that changes meanwhile is locked, or has a later revision: it stays.
    with finished as (
        select o.id
        from duly.outbox o
        join unnest(machines, keys, seqs) as e (machine, key, seq)
            on o.id = case e.machine when 'outbox' then e.key::uuid end and o.revision = e.seq
        order by o.id
        for update of o skip locked
    )
    delete from duly.outbox o using finished where o.id = finished.id;
    get diagnostics messages = row_count;
    delete from duly.transition t
    using unnest(machines, keys) as e (machine, key)
    where t.machine = e.machine and t.key = e.key and not exists (
        select from duly.outbox o where o.id = case e.machine when 'outbox' then e.key::uuid end
    );
    get diagnostics transitions = row_count;
    perform set_config('duly.retention', '', true);
end
$$;

comment on function duly.purge_messages(interval, bigint) is
    'Remove histories that ended longer ago than this, at most max_histories, with their messages; return how many '
    'rows.';

-- Resend and resolve --------------------------------------------------------------------------------------------------

create or replace function duly.resend(message uuid) returns text
    language sql security definer set search_path = pg_catalog, pg_temp
    begin atomic
        update duly.outbox as o
        set status = 'pending', called_at = null, starts = 0, due_at = duly.clock(), last_error = null
        where o.id = message and o.status in ('failed', 'uncertain')
        returning o.status;
    end;

comment on function duly.resend(uuid) is
    'Put a failed or uncertain message back in the queue under the same id; null if it is neither.';

create or replace function duly.resolve(message uuid, was_sent boolean) returns text
    language sql security definer set search_path = pg_catalog, pg_temp
    begin atomic
        update duly.outbox as o
        set status = case when was_sent then 'sent' else 'failed' end,
            last_error = case
                when was_sent then o.last_error
                else coalesce(o.last_error, 'an operator recorded that it did not arrive')
            end
        where o.id = message and o.status = 'uncertain'
        returning o.status;
    end;

comment on function duly.resolve(uuid, boolean) is 'Settle an uncertain message as sent or as failed.';

-- Explain -------------------------------------------------------------------------------------------------------------

create or replace function duly.is_locked(message uuid) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform from duly.outbox as o where o.id = message for no key update skip locked;
    return not found;
end
$$;

comment on function duly.is_locked(uuid) is
    'Whether another transaction has locked this message, so that senders skip it; only trying to lock it shows that.';

create or replace function duly.find_next_message() returns uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    next_message uuid;
begin
    -- The same as `claim` of outbox/lease.sql, which serves two tables; a test compares. A message of a channel that is
    -- not configured has the reason in last_error.
    with due as (
        select t.id, t.channel, t.recipient, t.seq
        from duly.outbox as t
        where t.status = 'pending' and t.due_at <= duly.now()
            and not starts_with(coalesce(t.last_error, ''), 'CHANNEL_NOT_CONFIGURED: ')
        order by t.due_at, t.id
        limit 500
        for no key update skip locked
    )
    select due.id into next_message
    from due
    where not exists (
        select
        from duly.outbox as b
        where b.channel = due.channel and b.recipient = due.recipient and b.seq < due.seq
            and b.status in ('pending', 'sending')
            and (b.status = 'sending' or b.starts > 0 or b.is_in_line or b.due_at <= duly.now())
            and b.id <> all (array(select d.id from due as d))
    )
    order by due.seq
    limit 1;
    raise exception 'rolled back' using errcode = 'DU000';  -- and with it the locks
exception when sqlstate 'DU000' then
    return next_message;
end
$$;

comment on function duly.find_next_message() is 'The message that a sender with one free slot would claim now.';

-- Guard and timeline of outbox. Generated by `python -m tools.generate`; do not edit.

create or replace function "duly"."outbox_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'outbox', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'outbox', old."id"
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        (old."status"::text = 'sending' and new."lease_owner" is distinct from old."lease_owner")
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'pending' then new."status"::text = any (array['sending', 'failed'])
        when 'sending' then new."status"::text = any (array['sent', 'pending', 'failed', 'uncertain'])
        when 'uncertain' then new."status"::text = any (array['sent', 'pending', 'failed'])
        when 'failed' then new."status"::text = any (array['pending'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'outbox', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create or replace trigger "outbox_guard"
    before insert or update on "duly"."outbox"
    for each row execute function "duly"."outbox_guard"();

create or replace function "duly"."outbox_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'outbox', "id"::text, revision, duly.clock(), transition_from, "status"::text, case
            when status = 'sending' then lease_owner when transition_from = 'sending' then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at, 'error', case
            when status in ('pending', 'failed', 'uncertain') then last_error end))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "outbox_timeline_insert"
    after insert on "duly"."outbox"
    referencing new table as new_rows
    for each statement execute function "duly"."outbox_timeline"();

create or replace trigger "outbox_timeline_update"
    after update on "duly"."outbox"
    referencing new table as new_rows
    for each statement execute function "duly"."outbox_timeline"();

-- The functions of the ledger, which any language may call. The tables are in db/migrations/sql/engine_0001.up.sql.
--
-- Errors of our own have these SQLSTATEs: DU000 rolls find_next back and never leaves it, DU001 a transition that the
-- state machine does not have (guards.sql), DU002 a key that belongs to another request.
--
-- A time that is written comes from duly.clock(), the time of the call; a time in a condition from duly.now(), the
-- start of the statement, because an index serves only that.

create or replace trigger is_append_only before update or delete on ledger.job_event
    for each row execute function duly.refuse_change();

create or replace trigger is_not_emptied before truncate on ledger.job_event
    for each statement execute function duly.refuse_change();

create or replace function ledger.event_id(job uuid, seq bigint) returns uuid
    language sql immutable parallel safe
    return encode(
        -- The first half of the job's id, so that its events lie together, and 62 bits of a hash; two bits are a UUID's
        -- own.
        set_bit(set_bit(
            overlay(uuid_send(job) placing int8send(uuid_hash_extended(job, seq)) from 9), 70, 0
        ), 71, 1),
        'hex'
    )::uuid;

comment on function ledger.event_id(uuid, bigint) is 'The id of a job''s event with this number.';

-- Enqueue -------------------------------------------------------------------------------------------------------------
-- Plain SQL that any language may call in its own transaction: nothing exists unless that commits. It runs as its
-- owner, for whom every row is visible; so it checks whether the caller may act for this org: a transaction that has
-- set an org may enqueue for that one, and one that has set none for any. "In a statement of its own" is meant for READ
-- COMMITTED, where each statement sees what was committed before it began.

create or replace function ledger.require_org_if_set(org uuid) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
begin
    if org <> nullif(current_setting('app.current_org_id', true), '')::uuid then
        raise exception 'this transaction acts for another org than %', org using errcode = 'insufficient_privilege';
    end if;
end
$$;

comment on function ledger.require_org_if_set(uuid) is
    'A transaction that has set an org must act for that one; without one it may act for any.';

create or replace function ledger.require_org(org uuid) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
begin
    if org is distinct from nullif(current_setting('app.current_org_id', true), '')::uuid then
        raise exception 'this transaction does not act for org %', org using errcode = 'insufficient_privilege',
            hint = format('select set_config(''app.current_org_id'', ''%s'', true)', org);
    end if;
end
$$;

comment on function ledger.require_org(uuid) is
    'The transaction must have set this org: functions that change jobs run as their owner, for whom every row is '
    'visible.';

create or replace function ledger.first_event_detail(actor text, requested_by text) returns jsonb
    language sql immutable parallel safe
    return nullif(jsonb_strip_nulls(jsonb_build_object(
        'actor', actor, 'requested_by', case when requested_by is distinct from actor then requested_by end
    )), '{}');

comment on function ledger.first_event_detail(text, text) is
    'The detail of a job''s first event: who enqueued it, if the entry point knows that, and for whom, if for another.';

create or replace function ledger.request_digest(
    type text, queue text, payload jsonb, run_at timestamptz, delay_seconds double precision
) returns bytea
    language sql immutable parallel safe
    return sha256(convert_to(
        jsonb_build_array(type, queue, payload, extract(epoch from run_at), nullif(delay_seconds, 0))::text, 'UTF8'
    ));

comment on function ledger.request_digest(text, text, jsonb, timestamptz, double precision) is
    'What an idempotency key stands for: what is to be done and when, not how often to retry. A caller that computes '
    'run_at anew makes another request. The text of a jsonb has one order of keys, no duplicates and no spare blanks, '
    'which is canonical enough and the same for every language; 1.0 and 1.00 differ.';

create or replace function ledger.refuse_other_request(
    existing_id uuid, key text, type text, queue text, payload jsonb, run_at timestamptz, delay_seconds double precision
) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
declare
    existing ledger.job;
    differences text;
begin
    select j.* into existing from ledger.job j where j.id = existing_id;
    differences := concat_ws(', ',
        case when existing.type <> refuse_other_request.type
            then format('type %s, not %s', existing.type, refuse_other_request.type) end,
        case when existing.queue <> refuse_other_request.queue
            then format('queue %s, not %s', existing.queue, refuse_other_request.queue) end,
        case when existing.payload::text <> refuse_other_request.payload::text then 'another payload' end,
        case when existing.request_digest
                <> ledger.request_digest(
                    existing.type, existing.queue, existing.payload, refuse_other_request.run_at, delay_seconds
                )
            then 'another due time' end
    );
    raise exception 'key "%" already belongs to job % (%), asked for with %', key, existing_id,
        coalesce(existing.status::text, 'removed'), coalesce(nullif(differences, ''), 'other arguments')
        using errcode = 'DU002', hint = case
            when existing.status = 'canceled'
                then format('to free the key: duly jobs cancel %s --release-key', existing_id)
            else 'use a key of its own for every request'
        end;
end
$$;

comment on function ledger.refuse_other_request(
    uuid, text, text, text, jsonb, timestamptz, double precision
) is
    'Refuse a request whose key another one has: which job that is, its status, and in what the two differ; no '
    'contents.';

create or replace function ledger.enqueue(
    org uuid,
    type text,
    payload jsonb default '{}',
    key text default null,
    queue text default 'default',
    -- squawk-ignore prefer-bigint-over-int
    priority integer default 0,
    run_at timestamptz default null,
    delay_seconds double precision default null,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer default 5,
    backoff_policy ledger.job_backoff_policy default 'exp',
    backoff_base_seconds double precision default 15,
    backoff_cap_seconds double precision default 600,
    timeout_seconds double precision default null,
    retain_for interval default '30 days',
    requested_by text default null,
    actor text default null,
    out id uuid,
    out outcome text
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    digest constant bytea := case when key is not null
        then ledger.request_digest(type, queue, payload, run_at, delay_seconds) end;
    now constant timestamptz := duly.clock();
    due constant timestamptz := coalesce(run_at, now + make_interval(secs => coalesce(delay_seconds, 0)));
    existing_digest bytea;
begin
    perform ledger.require_org_if_set(org);
    if num_nonnulls(run_at, delay_seconds) = 2 then
        raise exception 'a job runs at a time or after a delay, not both' using errcode = 'invalid_parameter_value';
    end if;
    for _ in 1..3 loop
        insert into ledger.job as new_job (
            id, org_id, type, payload, idempotency_key, request_digest, queue, priority, run_at, max_attempts,
            backoff_policy, backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by,
            created_at, updated_at, event_detail, revision
        ) values (
            duly.new_id(), org, enqueue.type, enqueue.payload, key, digest, enqueue.queue, enqueue.priority, due,
            enqueue.max_attempts, enqueue.backoff_policy, enqueue.backoff_base_seconds, enqueue.backoff_cap_seconds,
            enqueue.timeout_seconds, enqueue.retain_for, enqueue.requested_by, now, now,
            ledger.first_event_detail(enqueue.actor, enqueue.requested_by), 1
        )
        on conflict (org_id, idempotency_key) where idempotency_key is not null do nothing
        returning new_job.id into enqueue.id;
        if found then
            outcome := 'created';
            if due <= now then
                perform ledger.wake();
            end if;
            return;
        end if;
        -- In a statement of its own, which sees what was committed while the insert waited.
        select j.id, j.request_digest into enqueue.id, existing_digest
        from ledger.job j
        where j.org_id = org and j.idempotency_key = key;
        if found then
            if existing_digest <> digest then
                perform ledger.refuse_other_request(
                    enqueue.id, key, enqueue.type, enqueue.queue, enqueue.payload, enqueue.run_at, enqueue.delay_seconds
                );
            end if;
            outcome := 'existing';
            return;
        end if;
    end loop;
    raise exception 'the job of this key was deleted meanwhile; retry' using errcode = 'serialization_failure';
end
$$;

comment on function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) is
    'Make a job, or find the one that the same request made: "created" or "existing". Another request under its key: '
    'DU002. A key is remembered until its job is deleted.';

create or replace function ledger.wake() returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- Most calls fall into 50 ms that were notified already: they return without calling the slower function.
    if pg_sequence_last_value('duly.wake_ledger') is distinct from duly.this_window() then
        perform duly.wake('ledger');
    end if;
end
$$;

comment on function ledger.wake() is 'Notify the workers that a job is due, at most once per 50 ms.';

create or replace function ledger.enqueue_many(
    org uuid,
    type text,
    payloads jsonb[],
    keys text[] default null,
    queue text default 'default',
    -- squawk-ignore prefer-bigint-over-int
    priorities integer[] default null,
    run_ats timestamptz[] default null,
    delay_seconds double precision default null,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer default 5,
    backoff_policy ledger.job_backoff_policy default 'exp',
    backoff_base_seconds double precision default 15,
    backoff_cap_seconds double precision default 600,
    timeout_seconds double precision default null,
    retain_for interval default '30 days',
    requested_by text default null,
    actor text default null
) returns table (nth bigint, id uuid, outcome text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    max_batch constant bigint := 10000;
    number constant bigint := cardinality(payloads);
    now constant timestamptz := duly.clock();
    due constant timestamptz := now + make_interval(secs => coalesce(delay_seconds, 0));
    origin constant jsonb := ledger.first_event_detail(actor, requested_by);
    ids constant uuid[] := duly.new_ids(number);
    digests bytea[];
    other record;
    made bigint;
begin
    perform ledger.require_org_if_set(org);
    if number > max_batch or number <> any (array[
        coalesce(cardinality(keys), number), coalesce(cardinality(priorities), number),
        coalesce(cardinality(run_ats), number)
    ]) then
        raise exception
            'at most % jobs at a time, and as many keys, priorities and times as payloads, or none', max_batch
            using errcode = 'invalid_parameter_value';
    end if;
    if num_nonnulls(run_ats, delay_seconds) = 2 then
        raise exception 'a job runs at a time or after a delay, not both' using errcode = 'invalid_parameter_value';
    end if;
    if keys is not null then
        digests := array(
            select case when g.key is not null
                then ledger.request_digest(enqueue_many.type, enqueue_many.queue, g.payload, g.run_at, delay_seconds)
            end
            from unnest(payloads, keys, run_ats) with ordinality as g (payload, key, run_at, nth)
            order by g.nth
        );
    end if;
    if keys is null then
        insert into ledger.job (
            id, org_id, type, payload, queue, priority, run_at, max_attempts,
            backoff_policy, backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by,
            created_at, updated_at, event_detail, revision
        )
        select
            g.id, org, enqueue_many.type, g.payload, enqueue_many.queue, coalesce(g.priority, 0),
            coalesce(g.run_at, due), enqueue_many.max_attempts, enqueue_many.backoff_policy,
            enqueue_many.backoff_base_seconds, enqueue_many.backoff_cap_seconds, enqueue_many.timeout_seconds,
            enqueue_many.retain_for, enqueue_many.requested_by, now, now, origin, 1
        from unnest(ids, payloads, priorities, run_ats) as g (id, payload, priority, run_at);
    else
        -- In the order of the keys, so that two such calls never wait in a circle.
        insert into ledger.job (
            id, org_id, type, payload, idempotency_key, request_digest, queue, priority, run_at, max_attempts,
            backoff_policy, backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by,
            created_at, updated_at, event_detail, revision
        )
        select
            g.id, org, enqueue_many.type, g.payload, g.key, g.digest, enqueue_many.queue, coalesce(g.priority, 0),
            coalesce(g.run_at, due), enqueue_many.max_attempts, enqueue_many.backoff_policy,
            enqueue_many.backoff_base_seconds, enqueue_many.backoff_cap_seconds, enqueue_many.timeout_seconds,
            enqueue_many.retain_for, enqueue_many.requested_by, now, now, origin, 1
        from unnest(ids, payloads, keys, digests, priorities, run_ats) as g (id, payload, key, digest, priority, run_at)
        order by g.key
        on conflict (org_id, idempotency_key) where idempotency_key is not null do nothing;
    end if;
    get diagnostics made = row_count;
    if made > 0 and least(due, (select min(u.at) from unnest(run_ats) as u (at))) <= now then
        perform ledger.wake();
    end if;
    if made = number then
        return query select g.nth, g.id, 'created' from unnest(ids) with ordinality as g (id, nth);
        return;
    end if;
    -- In a statement of its own, which sees what was committed while the insert waited.
    return query
        select g.nth, j.id, case when j.id = g.id then 'created' else 'existing' end
        from unnest(ids, keys) with ordinality as g (id, key, nth)
        cross join lateral (
            select h.id from ledger.job h where h.org_id = org and h.idempotency_key = g.key
            union all
            select g.id where g.key is null
        ) as j
        order by g.nth;
    get diagnostics made = row_count;
    if made <> number then
        raise exception 'a job of this batch was deleted meanwhile; retry'
            using errcode = 'serialization_failure';
    end if;
    select j.id, g.key, g.payload, g.run_at into other
    from unnest(keys, digests, payloads, run_ats) as g (key, digest, payload, run_at)
    join ledger.job j on j.org_id = org and j.idempotency_key = g.key and j.request_digest <> g.digest
    limit 1;
    if found then
        perform ledger.refuse_other_request(
            other.id, other.key, enqueue_many.type, enqueue_many.queue, other.payload, other.run_at,
            enqueue_many.delay_seconds
        );
    end if;
end
$$;

comment on function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) is 'Make many jobs of one type in one statement, all or none; the answers come in the order of the payloads.';

-- Claim ---------------------------------------------------------------------------------------------------------------

create or replace function ledger.remaining_capacity(type text) returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' set enable_seqscan = off set jit = off
    as $$
declare
    capacity bigint;
begin
    -- Locked until the claim commits. The count below is a statement of its own, so it includes what other claims took.
    begin
        select l.max_running into capacity
        from ledger.job_limit l
        where l.queue = '*' and l.type = remaining_capacity.type
        for no key update;
    exception when lock_not_available then
        return 0;  -- its holder is slow or gone: the other types must not wait for it
    end;
    if capacity is null then
        return null;
    end if;
    return greatest(
        capacity
            - (select count(*) from ledger.job j where j.type = remaining_capacity.type and j.status = 'running'),
        0
    );
end
$$;

comment on function ledger.remaining_capacity(text) is
    'How many more jobs of a type may start; null means any number. The caller locks the limit until its transaction '
    'ends.';

create or replace function ledger.claim(
    queues text[],
    types text[],
    owner text,
    lease_seconds double precision,
    max_jobs bigint,
    -- squawk-ignore prefer-bigint-over-int
    floor_priorities integer[] default null,
    floor_run_ats timestamptz[] default null,
    floor_ids uuid[] default null
) returns setof ledger.job
    -- plpgsql caches plans, perhaps from when the table was small, so the scan in the order of the index is forced. Up
    -- to PostgreSQL 17 the cost that a disabled node adds would start JIT on every call, which takes longer than the
    -- claim.
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_sort = off set jit = off
    as $$
declare
    now constant timestamptz := duly.now();
    claimed_at constant timestamptz := duly.clock();
    remaining bigint := max_jobs;
    capacities jsonb := '{}';
    capacity bigint;
    claimed bigint;
    due_groups record;
    due_group record;
begin
    -- One probe per type and priority, however long the queues are: each finds the head of the next group.
    with recursive handled as (
        select k.queue, k.type, k.floor_priority, k.floor_run_at, k.floor_id
        from unnest(queues, types, floor_priorities, floor_run_ats, floor_ids)
            as k (queue, type, floor_priority, floor_run_at, floor_id)
        where not exists (
            select from ledger.job_limit l
            where l.paused_at is not null and l.queue in (k.queue, '*') and l.type in (k.type, '*')
        )
    ),
    priority_range as (
        select k.queue, k.type, 2147483647 as upper, coalesce(k.floor_priority, -2147483647) as lower from handled k
        union all
        select k.queue, k.type, k.floor_priority, -2147483647 from handled k where k.floor_priority is not null
    ),
    head as (
        select s.queue, s.type, s.lower, h.priority, h.run_at
        from priority_range s
        cross join lateral (
            select j.priority, j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = s.queue and j.type = s.type
                and j.priority < s.upper and j.priority > s.lower
            order by j.priority desc, j.run_at, j.id
            limit 1
        ) as h
        union all
        select p.queue, p.type, p.lower, h.priority, h.run_at
        from head p
        cross join lateral (
            select j.priority, j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = p.queue and j.type = p.type
                and j.priority < p.priority and j.priority > p.lower
            order by j.priority desc, j.run_at, j.id
            limit 1
        ) as h
    )
    select
        array_agg(g.queue) as queues, array_agg(g.type) as types, array_agg(g.priority) as priorities,
        array_agg(g.run_at) as run_ats, array_agg(g.floor_run_at) as floor_run_ats, array_agg(g.floor_id) as floor_ids
    into due_groups
    from (
        select
            h.queue, h.type, h.priority, h.run_at, '-infinity'::timestamptz as floor_run_at,
            '00000000-0000-0000-0000-000000000000'::uuid as floor_id
        from head h
        union all
        select k.queue, k.type, k.floor_priority, h.run_at, k.floor_run_at, k.floor_id
        from handled k
        cross join lateral (
            select j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = k.queue and j.type = k.type and j.priority = k.floor_priority
                and (j.run_at, j.id) >= (k.floor_run_at, k.floor_id)
            order by j.run_at, j.id
            limit 1
        ) as h
    ) as g
    where g.run_at <= now;
    if due_groups.queues is null then
        return;
    end if;
    set local enable_sort = on;  -- until the function returns: its SET clause restores it
    for due_group in
        select g.queue, g.type, g.priority, g.floor_run_at, g.floor_id, l.max_running is not null as limited
        from unnest(
            due_groups.queues, due_groups.types, due_groups.priorities, due_groups.run_ats,
            due_groups.floor_run_ats, due_groups.floor_ids
        ) as g (queue, type, priority, run_at, floor_run_at, floor_id)
        left join ledger.job_limit l on l.queue = '*' and l.type = g.type
        order by g.priority desc, g.run_at, g.queue, g.type
    loop
        capacity := remaining;
        if due_group.limited then
            if not capacities ? due_group.type then
                capacities := capacities || jsonb_build_object(
                    due_group.type, coalesce(ledger.remaining_capacity(due_group.type), remaining)
                );
            end if;
            capacity := least(remaining, (capacities ->> due_group.type)::bigint);
        end if;
        continue when capacity <= 0;
        set local enable_sort = off;
        return query
            update ledger.job as t
            set status = 'running', lease_owner = claim.owner, starts = t.starts + 1,
                lease_expires_at = claimed_at + make_interval(secs => lease_seconds),
                stage = null, progress = null, event_detail = null,
                revision = t.revision + 1, transition_from = 'queued', updated_at = claimed_at, attempt = t.starts,
                started_at = coalesce(t.started_at, claimed_at)
            where t.id = any (array(
                select j.id
                from ledger.job j
                where j.status = 'queued' and j.queue = due_group.queue and j.type = due_group.type
                    and j.priority = due_group.priority
                    and (j.run_at, j.id) >= (due_group.floor_run_at, due_group.floor_id) and j.run_at <= now
                order by j.run_at, j.id
                limit capacity
                for no key update skip locked
            ))
            returning t.*;
        get diagnostics claimed = row_count;
        remaining := remaining - claimed;
        exit when remaining <= 0;
        if due_group.limited then
            capacities := capacities
                || jsonb_build_object(due_group.type, (capacities ->> due_group.type)::bigint - claimed);
        end if;
    end loop;
end
$$;

comment on function ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[]) is
    'Claim due jobs of these queues and types, at most max_jobs: higher priority first, then the type whose oldest '
    'job is due longest. Claims never wait for a job; those of a limited type wait for each other, at most 100 ms. A '
    'floor, the position up to which the claimer has claimed, skips dead index entries of jobs claimed before: vacuum '
    'cannot remove them while an old transaction is open.';

-- Done ----------------------------------------------------------------------------------------------------------------
-- Nearly every job ends here, so it is a function, whose plan is cached, and it writes what the guard would write. One
-- lookup by id per row, in the order of the ids: `= any (array[job])` rules out hash and merge joins, and scans of the
-- table are disabled, so no statistics lead to another plan.

create or replace function ledger.done(jobs uuid[], owners text[], results jsonb[]) returns setof uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set jit = off
    as $$
declare
    now constant timestamptz := duly.clock();
begin
    -- Tests lease_expires_at, not status, so that no index but the primary key fits. A row that was locked may have
    -- changed after this began, and is not stamped earlier than that.
    return query
        update ledger.job as t
        set status = 'succeeded', settled_by = given.owner, lease_owner = null, lease_expires_at = null,
            result = given.result, last_error_code = null, last_error_message = null, event_detail = null,
            revision = t.revision + 1, transition_from = 'running', updated_at = greatest(now, t.updated_at),
            finished_at = greatest(now, t.updated_at), retain_until = greatest(now, t.updated_at) + t.retain_for
        from (
            select g.job, g.owner, g.result
            from unnest(jobs, owners, results) as g (job, owner, result)
            order by g.job
        ) as given
        where t.id = any (array[given.job]) and t.lease_owner = given.owner and t.lease_expires_at is not null
        returning t.id;
end
$$;

comment on function ledger.done(uuid[], text[], jsonb[]) is
    'Settle jobs that these owners hold as succeeded, with these results; return their ids. A cancel request that '
    'came meanwhile was too late.';

-- Expired leases ------------------------------------------------------------------------------------------------------
-- With row level security, statistics are ignored for operators that are not leakproof, such as equality of an enum. So
-- the planner does not know that few jobs are running, and would scan the table. With scans disabled it uses the index
-- of running jobs: no other serves this filter or order.

create or replace function ledger.mark_expired(jobs uuid[], max_jobs bigint)
    returns table (job uuid, owner text, type text, queue text, attempt integer, max_attempts integer)
    language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $$
begin
    return query
        update ledger.job as t
        set
            status = case when t.cancel_requested_at is null then 'failed' else 'canceled' end::ledger.job_status,
            lease_owner = case when t.cancel_requested_at is null then t.lease_owner end,
            lease_expires_at = null,
            last_error_code = 'CRASHED',
            last_error_message = 'lease expired: its holder stopped renewing it',
            event_detail = jsonb_build_object(
                'actor', 'sweep', 'holder', t.lease_owner, 'code', 'CRASHED',
                'message', 'lease expired: its holder stopped renewing it'
            )
        where t.id = any (array(
            select r.id
            from ledger.job r
            where r.status = 'running' and r.lease_expires_at < duly.now() and (jobs is null or r.id = any (jobs))
            order by r.created_at, r.id
            limit max_jobs
            for no key update skip locked
        ))
        returning t.id, t.lease_owner, t.type::text, t.queue, t.attempt, t.max_attempts;
end
$$;

comment on function ledger.mark_expired(uuid[], bigint) is
    'Settle jobs whose leases expired, at most max_jobs, as failed, or as canceled if that was requested; return them '
    'with their owners. Locked jobs are skipped.';

-- A handler's own transaction -----------------------------------------------------------------------------------------

create or replace function ledger.fence(job uuid, owner text, role text) returns boolean
    language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
    as $$
declare
    org uuid;
begin
    select j.org_id into org
    from ledger.job j
    where j.id = fence.job and j.lease_owner = fence.owner and j.status = 'running'
    for no key update;
    if org is null then
        return false;
    end if;
    perform set_config('app.current_org_id', org::text, true), set_config('role', fence.role, true);
    return true;
end
$$;

comment on function ledger.fence(uuid, text, text) is
    'Lock a job that this owner holds until the transaction ends, and act for its org in this role; false if the '
    'lease was lost.';

create or replace function ledger.complete(job uuid, owner text, result jsonb, worker text) returns boolean
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    caller_role constant text := current_setting('role');
    is_done boolean;
begin
    -- Works only if the login is a member of the worker's role; that of the API is not.
    perform set_config('role', complete.worker, true);
    is_done := exists (select from ledger.done(
        array[complete.job], array[complete.owner],
        case when complete.result is not null then array[complete.result] end
    ));
    perform set_config('role', caller_role, true);
    return is_done;
end
$$;

comment on function ledger.complete(uuid, text, jsonb, text) is
    'In the transaction of fence(): settle the job as succeeded, acting as the worker; the role is restored after it.';

-- Explain -------------------------------------------------------------------------------------------------------------

create or replace function ledger.is_locked(org uuid, job uuid) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform ledger.require_org(org);
    perform from ledger.job as t where t.org_id = is_locked.org and t.id = is_locked.job for no key update skip locked;
    return not found;
end
$$;

comment on function ledger.is_locked(uuid, uuid) is
    'Whether another transaction has locked this job, so that claims skip it: tries to lock it as they do.';

create or replace function ledger.find_next(queues text[], types text[]) returns uuid
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    next_job uuid;
begin
    -- The claim itself, rolled back: its order, pauses, limits and locks are written nowhere else. The API may execute
    -- this function because PostgreSQL checks EXECUTE in branches of explain.sql that are not taken; called, it fails.
    select c.id into next_job from ledger.claim(find_next.queues, find_next.types, 'explain', 1, 1) as c;
    raise exception 'rolled back' using errcode = 'DU000';
exception when sqlstate 'DU000' then
    return next_job;
end
$$;

comment on function ledger.find_next(text[], text[]) is
    'The id of the job that a claim of these queues and types with one free slot would return now; claims nothing.';

-- Cancelling ----------------------------------------------------------------------------------------------------------

create or replace function ledger.release_key(org uuid, job uuid, actor text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_status ledger.job_status;
begin
    perform ledger.require_org(org);
    update ledger.job as t
    set idempotency_key = null, request_digest = null,
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', release_key.actor, 'reason', 'key_released', 'released_key', t.idempotency_key
        ))
    where t.org_id = release_key.org and t.id = release_key.job
        and t.status = 'canceled' and t.idempotency_key is not null
    returning t.status into new_status;
    return new_status;
end
$$;

comment on function ledger.release_key(uuid, uuid, text) is
    'Free the key of a canceled job for another request and log that; null if there was nothing to free.';

create or replace function ledger.cancel(
    org uuid, job uuid, actor text default null, now boolean default false, release_key boolean default false
) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_status ledger.job_status;
begin
    perform ledger.require_org(org);
    update ledger.job as t
    set status = case when t.status = 'queued' or cancel.now then 'canceled' else t.status end,
        lease_owner = case when t.status = 'running' and not cancel.now then t.lease_owner end,
        lease_expires_at = case when t.status = 'running' and not cancel.now then t.lease_expires_at end,
        cancel_requested_at = coalesce(t.cancel_requested_at, duly.clock()),
        event_detail = jsonb_strip_nulls(jsonb_build_object('actor', cancel.actor, 'reason', 'cancel_requested'))
    where t.org_id = cancel.org and t.id = cancel.job
        and (t.status = 'queued' or (t.status = 'running' and (cancel.now or not cancel.release_key)))
    returning t.status into new_status;
    if cancel.release_key then
        new_status := coalesce(ledger.release_key(org, job, actor), new_status);
    end if;
    return new_status;
end
$$;

comment on function ledger.cancel(uuid, uuid, text, boolean, boolean) is
    'Cancel a queued job; request a running one to stop, or cancel it at once if now; release the key of a canceled '
    'one if wanted. Returns the status afterwards; null if nothing was changed.';

-- Redrive dead letters ------------------------------------------------------------------------------------------------

create or replace function ledger.redrive(org uuid, job uuid, actor text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_status ledger.job_status;
begin
    perform ledger.require_org(org);
    update ledger.job as t
    set status = 'queued', starts = 0, snoozes = 0, run_at = duly.clock(), cancel_requested_at = null,
        event_detail = jsonb_strip_nulls(jsonb_build_object('actor', redrive.actor, 'reason', 'redriven'))
    where t.org_id = redrive.org and t.id = redrive.job and t.status = 'dead_letter'
    returning t.status into new_status;
    if found then
        perform ledger.wake();
    end if;
    return new_status;
end
$$;

comment on function ledger.redrive(uuid, uuid, text) is
    'Put a dead letter back in the queue with its starts reset, and log the actor; null if the job is none.';

create or replace function ledger.redrive_many(
    org uuid,
    max_jobs bigint,
    actor text default null,
    type text default null,
    queue text default null,
    code text default null,
    finished_from timestamptz default null,
    finished_before timestamptz default null
) returns setof uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan
    as $$
begin
    perform ledger.require_org(org);
    return query
        update ledger.job as t
        set status = 'queued', starts = 0, snoozes = 0, run_at = duly.clock(), cancel_requested_at = null,
            event_detail = jsonb_strip_nulls(jsonb_build_object('actor', redrive_many.actor, 'reason', 'redriven'))
        where t.org_id = redrive_many.org and t.id = any (array(
            select d.id
            from ledger.job d
            where d.org_id = redrive_many.org and d.status = 'dead_letter'
                and (redrive_many.type is null or d.type = redrive_many.type)
                and (redrive_many.queue is null or d.queue = redrive_many.queue)
                and (redrive_many.code is null or d.last_error_code = redrive_many.code)
                and (redrive_many.finished_from is null or d.finished_at >= redrive_many.finished_from)
                and (redrive_many.finished_before is null or d.finished_at < redrive_many.finished_before)
            order by d.created_at, d.id
            limit redrive_many.max_jobs
            for no key update skip locked
        ))
        returning t.id;
    if found then
        perform ledger.wake();
    end if;
end
$$;

comment on function ledger.redrive_many(uuid, bigint, text, text, text, text, timestamptz, timestamptz) is
    'Put matching dead letters back in the queue, at most max_jobs, the oldest first; locked ones are skipped.';

-- Retention and erasure -----------------------------------------------------------------------------------------------
-- The only ways a job and its log are deleted. Workers may execute purge (see the privileges below), only the owner
-- erase: revoke.sql of the migrations takes EXECUTE on every function from PUBLIC. The flag that both set while they
-- run keeps other statements from deleting by mistake.

create or replace function ledger.purge(max_jobs bigint, out jobs bigint)
    -- The cascade to the events runs under these settings too, so it looks them up by the job's id even by a plan that
    -- was cached when there were few.
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $$
begin
    if max_jobs is null or max_jobs not between 1 and 10000 then
        raise exception 'retention takes 1 to 10000 jobs at a time, not %', coalesce(max_jobs::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    perform set_config('duly.retention', 'on', true);
    delete from ledger.job j
    where j.id = any (array(
        select r.id
        from ledger.job r
        where r.retain_until < duly.now()
        order by r.retain_until
        limit max_jobs
        for update skip locked
    ));
    get diagnostics jobs = row_count;
    perform set_config('duly.retention', '', true);
end
$$;

comment on function ledger.purge(bigint) is
    'Remove finished jobs whose retain_until is past, at most max_jobs, the oldest first, with their events; return '
    'how many.';

create or replace function ledger.erase(org uuid, job uuid, actor text, reason text default null)
    returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    gone record;
begin
    perform set_config('duly.retention', 'on', true);
    delete from ledger.job t
    where t.org_id = erase.org and t.id = erase.job and t.status in ('succeeded', 'canceled', 'dead_letter')
    returning t.type, t.queue, t.status, t.created_at, t.revision into gone;
    if found then
        insert into duly.transition (machine, key, seq, next_status, actor, detail_json)
        values ('job_erasure', erase.job::text, 1, 'erased', erase.actor, jsonb_strip_nulls(jsonb_build_object(
            'org_id', erase.org, 'type', gone.type, 'queue', gone.queue, 'status', gone.status,
            'created_at', gone.created_at, 'events', gone.revision, 'reason', erase.reason
        )));
    end if;
    perform set_config('duly.retention', '', true);
    return gone.status;
end
$$;

comment on function ledger.erase(uuid, uuid, text, text) is
    'Remove one finished job with its events early; duly.transition records the actor, and nothing of its contents. '
    'Returns the status it had; null if there is no such job, or it has not finished.';

-- Row level security --------------------------------------------------------------------------------------------------
-- The tenant is set for a transaction: set_config('app.current_org_id', ..., true). Without one no row is visible.

alter table ledger.job enable row level security;

alter table ledger.job force row level security;

alter table ledger.job_event enable row level security;

alter table ledger.job_event force row level security;

drop policy if exists job_of_tenant on ledger.job;

create policy job_of_tenant on ledger.job to "duly_api", "duly_readonly"
    using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);

drop policy if exists job_event_of_tenant on ledger.job_event;

create policy job_event_of_tenant on ledger.job_event to "duly_api", "duly_readonly"
    using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);

drop policy if exists job_of_any_tenant on ledger.job;

create policy job_of_any_tenant on ledger.job to "duly_owner", "duly_worker" using (true) with check (true);

drop policy if exists job_event_of_any_tenant on ledger.job_event;

create policy job_event_of_any_tenant on ledger.job_event to "duly_owner", "duly_worker" using (true) with check (true);

-- On Supabase, signed-in users may be let in by their token. Its claims are read where PostgREST puts them and
-- auth.jwt() finds them: the owner of these tables has no right to use schema auth there, and no role there may grant
-- it.
do $supabase$
begin
    if to_regrole('authenticated') is not null and exists (  -- asked so that it needs no right to the schema
        select from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = 'auth' and f.proname = 'jwt'
    ) then
        drop policy if exists job_of_jwt on ledger.job;
        create policy job_of_jwt on ledger.job for select to authenticated using (org_id = (
            select coalesce(claims -> 'app_metadata' ->> 'org_id', claims ->> 'org_id')::uuid
            from (select nullif(current_setting('request.jwt.claims', true), '')::jsonb) as token (claims)
        ));
        drop policy if exists job_event_of_jwt on ledger.job_event;
        create policy job_event_of_jwt on ledger.job_event for select to authenticated using (org_id = (
            select coalesce(claims -> 'app_metadata' ->> 'org_id', claims ->> 'org_id')::uuid
            from (select nullif(current_setting('request.jwt.claims', true), '')::jsonb) as token (claims)
        ));
    end if;
end
$supabase$;

-- Guard and timeline of job. Generated by `python -m tools.generate`; do not edit.

create or replace function "ledger"."job_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['queued'])) then
            raise exception '% cannot begin as %', 'job', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'job', old."id"
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        (old."status"::text = 'running' and new."lease_owner" is distinct from old."lease_owner")
            or (new.progressed_at is distinct from old.progressed_at or (old.cancel_requested_at is null
            and new.cancel_requested_at is not null) or new.idempotency_key is distinct from old.idempotency_key)
    ) then
        new.revision := old.revision;
        new.transition_from := null;
        new.event_detail := null;
        new.updated_at := duly.clock();
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'queued' then new."status"::text = any (array['running', 'canceled'])
        when 'running' then new."status"::text = any (array['succeeded', 'failed', 'canceled', 'queued'])
        when 'failed' then new."status"::text = any (array['queued', 'dead_letter'])
        when 'dead_letter' then new."status"::text = any (array['queued'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'job', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
        if new.idempotency_key is distinct from old.idempotency_key
            and (new.idempotency_key is not null or new.status <> 'canceled')
        then
            raise exception 'the idempotency key of job % can change only by its release, once the job is canceled',
                old.id using errcode = 'DU001';
        end if;
        new.event_detail := case when new.event_detail is distinct from old.event_detail
            or new.progressed_at is distinct from old.progressed_at then new.event_detail end;
        new.updated_at := duly.clock();
        new.attempt := greatest(new.starts - 1, 0);
        new.started_at := case when new.status = 'running' then coalesce(old.started_at, new.updated_at)
            else old.started_at end;
        new.finished_at := case when new.status in ('succeeded', 'canceled',
            'dead_letter') then coalesce(old.finished_at, new.updated_at) end;
        new.retain_until := new.finished_at + new.retain_for;
    end if;
    broken_rule := case
        when (new.revision > 1 or new.type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$') is false then 'ck_job__type'
        when (
            new.revision > 1 or (char_length(new.queue) <= 100 and new.queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$')
        ) is false then 'ck_job__queue'
        when (new.attempt = greatest(new.starts - 1, 0)) is false then 'ck_job__attempt'
        when (new.max_attempts between 1 and 1000) is false then 'ck_job__max_attempts'
        when (
            new.starts between 0 and new.max_attempts - case when new.status = 'queued' then 1 else 0 end
        ) is false then 'ck_job__starts'
        when (new.snoozes between 0 and 1000) is false then 'ck_job__snoozes'
        when (new.priority between -100 and 100) is false then 'ck_job__priority'
        when (new.idempotency_key <> '') is false then 'ck_job__idempotency_key'
        when (
            case when new.idempotency_key is null then new.request_digest is null
                else octet_length(new.request_digest) = 32 end
        ) is false then 'ck_job__request_digest'
        when (
            jsonb_typeof(new.payload) = 'object' and pg_column_size(new.payload) <= 1048576
        ) is false then 'ck_job__payload'
        when (pg_column_size(new.result) <= 1048576) is false then 'ck_job__result'
        when (new.timeout_seconds > 0 and new.timeout_seconds <= 31622400) is false then 'ck_job__timeout_seconds'
        when (
            new.backoff_base_seconds >= 0 and new.backoff_base_seconds <= new.backoff_cap_seconds
                and new.backoff_cap_seconds <= 31622400
        ) is false then 'ck_job__backoff'
        when (
            case new.status when 'running' then new.lease_owner is not null and new.lease_expires_at is not null
                when 'failed' then new.lease_owner is not null and new.lease_expires_at is null
                else new.lease_owner is null and new.lease_expires_at is null end
        ) is false then 'ck_job__lease'
        when (
            char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_job__owners'
        when (
            new.last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (new.status not in ('failed', 'dead_letter')
                or new.last_error_code is not null)
        ) is false then 'ck_job__last_error'
        when (
            new.progress between 0 and 100 and char_length(new.stage) between 1 and 200
        ) is false then 'ck_job__progress'
        when (new.retain_for between interval '1 days' and interval '3660 days') is false then 'ck_job__retain_for'
        when ((new.finished_at is null) = (new.retain_until is null)) is false then 'ck_job__retain_until'
        when (
            jsonb_typeof(new.event_detail) = 'object' and pg_column_size(new.event_detail) <= 65536
        ) is false then 'ck_job__event_detail'
        when (
            date_part('epoch', least(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at,
                new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) >= 946684800 and date_part('epoch',
                greatest(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at,
                new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) < 7258118400
        ) is false then 'ck_job__years_2000_to_2200'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'job', new."id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "job_guard_insert"
    before insert on "ledger"."job"
    for each row when ((
        new."status" in ('queued')
        and new.revision = 1
        and new.transition_from is null
        and char_length(new.queue) <= 100
    ) is not true)
    execute function "ledger"."job_guard"();

create or replace trigger "job_guard_update"
    before update on "ledger"."job"
    for each row when ((
        (
            old."status" = 'queued' and new."status" = 'running'
            and new.transition_from = 'queued'
            and char_length(new.lease_owner) between 1 and 300
            and new.lease_expires_at >= new.updated_at and date_part('epoch', new.lease_expires_at) < 7258118400
            or old."status" = 'running' and new."status" = 'succeeded'
            and new.transition_from = 'running'
            and num_nonnulls(new.lease_owner, new.lease_expires_at) = 0
        )
        and new.revision = old.revision + 1
        and new.event_detail is null
        and new.updated_at between statement_timestamp() and clock_timestamp()
        and new.attempt is not distinct from greatest(new.starts - 1, 0)
        and new.started_at is not distinct from case when new.status = 'running' then coalesce(old.started_at,
            new.updated_at) else old.started_at end
        and new.finished_at is not distinct from case when new.status in ('succeeded', 'canceled',
            'dead_letter') then coalesce(old.finished_at, new.updated_at) end
        and new.retain_until is not distinct from new.finished_at + new.retain_for
        and new.starts between 0 and new.max_attempts
        and coalesce(char_length(new.settled_by), 0) <= 300
        and coalesce(pg_column_size(new.result), 0) <= 1048576
        and (new.last_error_code is null or new.last_error_code = old.last_error_code)
        and (new.stage is null or new.stage = old.stage)
        and (new.progress is null or new.progress = old.progress)
    ) is not true)
    execute function "ledger"."job_guard"();

create or replace trigger "job_guard_columns"
    before update of
        "id", "org_id", "type", "queue", "priority", "payload", "idempotency_key", "request_digest", "max_attempts",
            "backoff_policy", "backoff_base_seconds", "backoff_cap_seconds", "timeout_seconds", "retain_for",
            "requested_by", "created_at", "run_at", "snoozes", "cancel_requested_at", "progressed_at"
    on "ledger"."job"
    for each row when (
        (old."status" = 'queued' and new."status" = 'running')
        or (old."status" = 'running' and new."status" = 'succeeded')
    )
    execute function "ledger"."job_guard"();

create or replace function "ledger"."job_timeline_insert"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $timeline$
begin
    insert into ledger.job_event (id, job_id, org_id, seq, ts, prev_status, next_status, detail_json)
    select
        ledger.event_id("id", revision), "id", org_id, revision, duly.clock(), transition_from, "status"::text, case
            when event_detail is null and status = 'running' then jsonb_build_object('actor', lease_owner, 'start',
            starts) when transition_from = 'running' and status <> 'running' and num_nonnulls(stage,
            progress) > 0 then coalesce(event_detail,
            jsonb_build_object()) || jsonb_strip_nulls(jsonb_build_object('stage', stage, 'progress', progress))
            else event_detail end
    from (
        select *, case
            when (revision > 1 or type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$') is false then 'ck_job__type'
            when (
                revision > 1 or (char_length(queue) <= 100 and queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$')
            ) is false then 'ck_job__queue'
            when (attempt = greatest(starts - 1, 0)) is false then 'ck_job__attempt'
            when (max_attempts between 1 and 1000) is false then 'ck_job__max_attempts'
            when (
                starts between 0 and max_attempts - case when status = 'queued' then 1 else 0 end
            ) is false then 'ck_job__starts'
            when (snoozes between 0 and 1000) is false then 'ck_job__snoozes'
            when (priority between -100 and 100) is false then 'ck_job__priority'
            when (idempotency_key <> '') is false then 'ck_job__idempotency_key'
            when (
                case when idempotency_key is null then request_digest is null else octet_length(request_digest) = 32 end
            ) is false then 'ck_job__request_digest'
            when (
                jsonb_typeof(payload) = 'object' and pg_column_size(payload) <= 1048576
            ) is false then 'ck_job__payload'
            when (pg_column_size(result) <= 1048576) is false then 'ck_job__result'
            when (timeout_seconds > 0 and timeout_seconds <= 31622400) is false then 'ck_job__timeout_seconds'
            when (
                backoff_base_seconds >= 0 and backoff_base_seconds <= backoff_cap_seconds
                    and backoff_cap_seconds <= 31622400
            ) is false then 'ck_job__backoff'
            when (
                case status when 'running' then lease_owner is not null and lease_expires_at is not null
                    when 'failed' then lease_owner is not null and lease_expires_at is null else lease_owner is null
                    and lease_expires_at is null end
            ) is false then 'ck_job__lease'
            when (
                char_length(lease_owner) between 1 and 300 and char_length(settled_by) <= 300
            ) is false then 'ck_job__owners'
            when (
                last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (status not in ('failed', 'dead_letter')
                    or last_error_code is not null)
            ) is false then 'ck_job__last_error'
            when (progress between 0 and 100 and char_length(stage) between 1 and 200) is false then 'ck_job__progress'
            when (retain_for between interval '1 days' and interval '3660 days') is false then 'ck_job__retain_for'
            when ((finished_at is null) = (retain_until is null)) is false then 'ck_job__retain_until'
            when (
                jsonb_typeof(event_detail) = 'object' and pg_column_size(event_detail) <= 65536
            ) is false then 'ck_job__event_detail'
            when (
                date_part('epoch', least(created_at, updated_at, started_at, finished_at, run_at, lease_expires_at,
                    cancel_requested_at, progressed_at)) >= 946684800 and date_part('epoch', greatest(created_at,
                    updated_at, started_at, finished_at, run_at, lease_expires_at, cancel_requested_at,
                    progressed_at)) < 7258118400
            ) is false then 'ck_job__years_2000_to_2200'
        end as broken_rule
        from new_rows
        offset 0  -- the rules are evaluated once
    ) as logged
    where broken_rule is null or duly.refuse_row('job', "id"::text, broken_rule);
    return null;
end
$timeline$;

create or replace function "ledger"."job_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $timeline$
begin
    insert into ledger.job_event (id, job_id, org_id, seq, ts, prev_status, next_status, detail_json)
    select
        ledger.event_id("id", revision), "id", org_id, revision, duly.clock(), transition_from, "status"::text, case
            when event_detail is null and status = 'running' then jsonb_build_object('actor', lease_owner, 'start',
            starts) when transition_from = 'running' and status <> 'running' and num_nonnulls(stage,
            progress) > 0 then coalesce(event_detail,
            jsonb_build_object()) || jsonb_strip_nulls(jsonb_build_object('stage', stage, 'progress', progress))
            else event_detail end
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "job_timeline_insert"
    after insert on "ledger"."job"
    referencing new table as new_rows
    for each statement execute function "ledger"."job_timeline_insert"();

create or replace trigger "job_timeline_update"
    after update on "ledger"."job"
    referencing new table as new_rows
    for each statement execute function "ledger"."job_timeline"();

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
        where n.nspname = any ('{"duly","ledger"}'::text[])
            and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
            and pg_get_userbyid(c.relowner) = current_user
        union all
        select 'routine', f.oid::regprocedure::text, f.proacl is null
        from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = any ('{"duly","ledger"}'::text[]) and pg_get_userbyid(f.proowner) = current_user
    loop
        execute format('revoke all on %s %s from %s', thing.kind, thing.name, of_duly);
        if thing.is_new or thing.name not in ('duly.clock()', 'duly.now()') then
            -- The clocks may have been opened to all by an administrator; of the rest nothing is for PUBLIC.
            execute format('revoke all on %s %s from public', thing.kind, thing.name);
        end if;
    end loop;
end
$revoke$;

-- Privileges ----------------------------------------------------------------------------------------------------------

grant usage on schema duly to "duly_worker", "duly_api", "duly_readonly";

grant execute on function duly.clock(), duly.now(), duly.new_id(), duly.is_time_zone(text), duly.touch(),
    duly.refuse_change()
    to "duly_worker", "duly_api", "duly_readonly";

grant execute on function duly.wake(text) to "duly_worker", "duly_api";

-- Privileges ----------------------------------------------------------------------------------------------------------

grant select on duly.orgs, duly.person to "duly_worker", "duly_api", "duly_readonly";

grant select on duly.api_keys to "duly_api";

grant select (id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at)
    on duly.api_keys to "duly_readonly";

grant select on duly.link_keys to "duly_worker", "duly_api";

grant select on duly.webhooks to "duly_worker";

grant select (person_id, url, created_at, updated_at) on duly.webhooks to "duly_api", "duly_readonly";

grant select on duly.apprise_addresses to "duly_worker";

grant select (person_id, service, created_at, updated_at) on duly.apprise_addresses to "duly_api", "duly_readonly";

grant select, insert, update, delete on duly.calendars to "duly_api";

grant execute on function duly.after_quiet(timestamptz, text, time, time)
    to "duly_worker", "duly_api", "duly_readonly";

grant execute on function duly.meet_telegram(bigint, text), duly.link_telegram(bigint, bigint) to "duly_api";

-- Privileges ----------------------------------------------------------------------------------------------------------

grant select on duly.transition to "duly_worker", "duly_api", "duly_readonly";

-- No functions, only rights on the list of workers: they write it, every role may read it.

grant select on duly.workers to "duly_worker", "duly_api", "duly_readonly";

grant insert, update, delete on duly.workers to "duly_worker";

-- Privileges ----------------------------------------------------------------------------------------------------------

grant select on duly.outbox to "duly_worker", "duly_api", "duly_readonly";

grant insert on duly.outbox to "duly_worker", "duly_api";

grant update on duly.outbox to "duly_worker";

grant execute on function duly.purge_messages(interval, bigint) to "duly_worker";

grant execute on function duly.is_locked(uuid), duly.find_next_message() to "duly_worker", "duly_api";

grant execute on function duly.resend(uuid), duly.resolve(uuid, boolean) to "duly_api";

-- Privileges ----------------------------------------------------------------------------------------------------------

grant usage on schema ledger to "duly_worker", "duly_api", "duly_readonly";

grant select on ledger.job, ledger.job_event, ledger.job_limit to "duly_worker", "duly_api", "duly_readonly";

grant insert, update on ledger.job_limit to "duly_worker";

-- they bind every org
-- Only workers update jobs, and never what a job is. The API changes jobs by functions, for one org.
grant update (
    status, run_at, starts, snoozes, lease_owner, lease_expires_at, settled_by, cancel_requested_at, result, stage,
    progress, progressed_at, last_error_code, last_error_message, event_detail
) on ledger.job to "duly_worker";

grant execute on function ledger.request_digest(text, text, jsonb, timestamptz, double precision)
    to "duly_worker", "duly_api", "duly_readonly";

grant execute on function ledger.require_org_if_set(uuid), ledger.wake() to "duly_worker", "duly_api";

grant execute on function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) to "duly_worker", "duly_api";

grant execute on function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) to "duly_worker", "duly_api";

grant execute on function ledger.complete(uuid, text, jsonb, text), ledger.cancel(uuid, uuid, text, boolean, boolean),
    ledger.release_key(uuid, uuid, text), ledger.redrive(uuid, uuid, text), ledger.is_locked(uuid, uuid),
    ledger.find_next(text[], text[]),
    ledger.redrive_many(uuid, bigint, text, text, text, text, timestamptz, timestamptz) to "duly_worker", "duly_api";

grant execute on function ledger.done(uuid[], text[], jsonb[]), ledger.fence(uuid, text, text),
    ledger.remaining_capacity(text), ledger.mark_expired(uuid[], bigint), ledger.purge(bigint),
    ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[])
    to "duly_worker";

-- One row per object; its hash is that of the text it has now.
insert into duly.schema_object (branch, object, sha256)
select 'engine', applied.object, applied.sha256
from unnest(
     E'{"function duly.clock",
"function duly.now",
"function duly.new_id",
"function duly.new_ids",
"function duly.is_time_zone",
"function duly.touch",
"function duly.refuse_change",
"function duly.refuse_row",
"function duly.this_window",
"function duly.wake",
"function duly.wake_workers",
"function duly.protect",
"trigger person_touch on duly.person",
"trigger webhooks_touch on duly.webhooks",
"trigger apprise_addresses_touch on duly.apprise_addresses",
"function duly.after_quiet",
"function duly.meet_telegram",
"function duly.link_telegram",
"trigger transition_is_append_only on duly.transition",
"trigger transition_is_not_emptied on duly.transition",
"function duly.stamp_sent_message",
"trigger outbox_stamp_sent on duly.outbox",
"trigger outbox_wake on duly.outbox",
"function duly.is_finished",
"function duly.purge_messages",
"function duly.resend",
"function duly.resolve",
"function duly.is_locked",
"function duly.find_next_message",
"function \\"duly\\".\\"outbox_guard\\"",
"trigger \\"outbox_guard\\" on \\"duly\\".\\"outbox\\"",
"function \\"duly\\".\\"outbox_timeline\\"",
"trigger \\"outbox_timeline_insert\\" on \\"duly\\".\\"outbox\\"",
"trigger \\"outbox_timeline_update\\" on \\"duly\\".\\"outbox\\"",
"trigger is_append_only on ledger.job_event",
"trigger is_not_emptied on ledger.job_event",
"function ledger.event_id",
"function ledger.require_org_if_set",
"function ledger.require_org",
"function ledger.first_event_detail",
"function ledger.request_digest",
"function ledger.refuse_other_request",
"function ledger.enqueue",
"function ledger.wake",
"function ledger.enqueue_many",
"function ledger.remaining_capacity",
"function ledger.claim",
"function ledger.done",
"function ledger.mark_expired",
"function ledger.fence",
"function ledger.complete",
"function ledger.is_locked",
"function ledger.find_next",
"function ledger.release_key",
"function ledger.cancel",
"function ledger.redrive",
"function ledger.redrive_many",
"function ledger.purge",
"function ledger.erase",
"table ledger.job",
"table ledger.job_event",
"policy job_of_tenant on ledger.job",
"policy job_event_of_tenant on ledger.job_event",
"policy job_of_any_tenant on ledger.job",
"policy job_event_of_any_tenant on ledger.job_event",
"block supabase",
"function \\"ledger\\".\\"job_guard\\"",
"trigger \\"job_guard_insert\\" on \\"ledger\\".\\"job\\"",
"trigger \\"job_guard_update\\" on \\"ledger\\".\\"job\\"",
"trigger \\"job_guard_columns\\" on \\"ledger\\".\\"job\\"",
"function \\"ledger\\".\\"job_timeline_insert\\"",
"function \\"ledger\\".\\"job_timeline\\"",
"trigger \\"job_timeline_insert\\" on \\"ledger\\".\\"job\\"",
"trigger \\"job_timeline_update\\" on \\"ledger\\".\\"job\\"",
"grants"}'::text[],
    '{"ca658f40d7c629eb967c4a69a3f0bdd9260a67ea0eb993f8dfca7782418630c4",
"0d99c6727a0f93b61afd33ef4df4945d96f505591b277825efdae40d8ee1cf43",
"df904782e54579b6596fa1783ecf81f784577068fa878439e01a441e7f5338af",
"da4741ebe5780d6643c9bb259b0b22ac4222706b86491bfeedd95d61926df1e0",
"f7455ee68859eaf6d8df1edc2caae5d0b1df40952715fa917c7dcdd30f6a565a",
"905fa4ec7e8071b3cb4dbd52ba7479c98d996b446a65290aec43882781c4a7bc",
"d324f82b2f339d2e4c971dfc6dc7a5abdc4d34d015a2b7145e84553f1002be3c",
"12cec96511b7ca7876baba28f60bf59ecedcb384f19421efe0ac183441ef3e2a",
"bdc907d6f28a0bb0f66015956c7c2314c93100d4c8087b0ec565bb40c0eaef94",
"4c908c9721e7bb10a61435fb266b297c975aff1547487d38d1c910b235d73161",
"bd040314028ba50f651cd669c5c395a01a09281db06abd11152f70413bab2611",
"3c7137c057a36bf16bb271f3035a36964520c35a31bb5fcb17e32fb04b5b77ae",
"027715727e1ff39e210476f048f53fdafc697017d3b0e1f7c6fdb2c3ed720a2a",
"8bdce31116cdfa7276398471c96b3debf8976c07b5bee522bc94055aa859a444",
"3d8f525dd5f3342bbbab45ad55c4f86d46c043b25da4fa60cfd1c29f57462cba",
"ec8c244274401afba75ff124be0924194fcecacaec6cad0b698db5b5ad96342d",
"3efdcec17877efb3f5fe7c83640b7de1a3e7508bf67bb7f118aafee570c4856b",
"2ee8f6da80fae7ba2bbfc4c681868142eda4900a4b34f2c98de38de32f93dd6a",
"9fe3d4f5331010bdd69bb16ea9bc0b22ee59a7a2a1a9af943afd00ea98650429",
"e3617560d1725b3823f298f4fa7ca129dccc8c8a580f593698234b23c7c1d3b8",
"f9bbce31252eb03fdea5d95aa4a7228290f94304170e2208fa00444ec2742e0b",
"770ff49528734f67a4db509f4723d808f5e8ba4aa48679f762e27a697f9d9907",
"f1a55960cd782b1f7c6b26fe19f30572a1189bd54900b98cce2f7f055ca6155d",
"624578649c808dc5854273b0b8cd8afb7e325160365ec3613c8ec59bef927ab7",
"3dcc027d0bc1140e45347eee3a08cff28d795d1a6b1cf84385e2c519c902e6ec",
"b11a2410f7b2a34012bc05088134b8e79bd812c596a4db469b15e00bf4bec5c2",
"68dd9d09203289401ffcf32d11f09f4e1fc589f9e5bf77eb51ffb5138e9e3519",
"827d23fda9e632debffb5b23d77d346a638003580f1d4ad3cc05ff5f875029da",
"9ce500682ae45aca1fa9640d83ac71dcd2e96492daa8d32fd68879d89d67077e",
"59f2bb447be4b11469b2c557508e42411f6378ffa95c173718b4baf4e003d629",
"b493163b6a68e818fa30606cb3dae56e481d3202f0f2043a7d341eb05213aaad",
"6e3137841a8d6b229d328fd0666a7bf81be877c2c072c22f587ef0e28f22948e",
"2913c8dba45b4fa4fc410d8d4dce3af4246c1693cc1191bd51a178c442b2cd8a",
"62a2904b102751446b08fc066167145a9081b43e83d22a20b257115f1608a4c6",
"d0923b57138819b6db43211454d28336f7b697446a84862bf94780967cec69db",
"6a612b0178ed114bca73aa175171630e11375a1030b2ddc19ff02ddd74a0b776",
"0d0780cf6ae8c2e3a0d021a8a1fc486a47a1ca509ea230ad5ac052991a672b17",
"72662d690be2abd3195d51b93f632aa48d1a3e6a98c20a73a92bdcef7cb6db5a",
"738a55f0ed57b1a826eef4ae25153494ee3e55c6d67b981c8746b05ee32ed98c",
"9e7e7ef94260ee1a0856435ae7de8e122c04ea83ff65c0123ad0bb019e456289",
"1857c0168fefa28643c86898f8030094c5933e90f58cff1046a3b6e196e3ee71",
"12e68de56553849076cdb5369ac1437e32c3160f00dec6b12dd63c2bf295ca82",
"6d0749d6c4432699cf530ed8789b84acf7cceee4c470350562d1d1ba25e49dec",
"5a148e7c4606fa380c3ea2cf1e4aa96aafe6c3b31ce1806e5fc440d01a8ab620",
"4d96d907a83e93d54f87bec01af306a32ba240620cb3c462da29b4ee36615ea0",
"5db004d982fbe9cdc8e8c28fd27045127890fdd060d62463df7a14948ca81a85",
"cd9fc4c6bde66f4101775ce219b435c9751f0cc00bc4564c322b4cc8bc0afddb",
"903b3e9bd175bb924e4a23f95414a211808b3833a69b4643e69ac699a1948569",
"b345d80e26fbabb2302f6347e665e42141dc865c2abe690fa28bf09dc27b1283",
"18045950459be2cdb3747225978f50f45170ab14e81b8eb1cc22937aff60a316",
"bd7dc525f7401995bd8cde1eba3467d85c215f00ee6995527724bd0db764e475",
"cbf6d4844f4c1c668f39cc23b4160ecb7398f73aa0018d35f9563f8a2215a543",
"915e23bd9ab17265e254c5fccb13bbc72b49031bdb5ccd166bd18c8250561c88",
"c09c96fd351d347d2dcd6ce305dff1ebef2b5432d85be0c53dbf7a4dd9c309b1",
"d4058d9716cb404df4f01daa93d2e45c294c11892599a3f5a471a5af882cf6c7",
"dc17a06ae06baab34eb683fb7de7e84601c66469a2e0df11d958979c3c62118d",
"de40d5a2db2c6a7d74874c3afc54b6ebf3f4546f567fd0518a3142282b8f8eba",
"32ae33623144631748eabe566fe4ead675470f05db7bc4ff52e987dd20fca2c8",
"1fb39e8a8f88a279501bc24145f9ef04c51aefa572abcfddd5a80c48f2cf72ed",
"de1e67a0ecad8b7c1e3479e46a6e467f47d844e8bf07573fc75b94c9572b1ef6",
"a2842efca38bf3eba7ff104b4d2fad5d428bae37c938db3d18857e2d19303458",
"c0422c7c75e32e6d3c17043e55b383ade2843aad1bec04e7609264ed1d980486",
"395ecb28fb24d9f3760fb8abc18815f43e9ef19b996ed2c2268beb6f0def1841",
"7cc4595a15170d19eabf3f8f87a1b5af79f0858266142ddb47213a71311a2503",
"a304f6e3dfe9c4cca9a4e7668b2994a04e61167018d4ef8388fbbed7a6fa4f04",
"8e046343b0343940f49f60df2542709cb5831585a50ba555d9471e2d3e88a475",
"3c2bcab7225b2a4fbec7fc799ee44a4ccc2dad50a4ddbdcdab09494534071635",
"fbd266683791be0651f210dd8a5d50015d91d904ac1f94f765714a8018f2660d",
"3fb58c2ab0d3d7173765fa16c6026d393ff58322acba08a5771d9bdb079e7524",
"9e207990724cb2d53e19ad060c325154383d0a92e22b75d3ab646dc83bfa356b",
"e4cedf80fa73295df4271b24178fcccaf36b3f0032e3950c695b1a168545110b",
"c7b0db01358c74d50cf223e2c6332ad50016cc524c921db04c6f1cf347d2feaf",
"6662d7b9a185ffd14119658c708b92b17af04025dfb80516611d1816d73dd9db",
"eafa8551e213a13f17ab945e416108a512f2436d083debb8c701faf5a4c64fff",
"129ce7183e692d6c650180c9e331866f110ce55cc51befa5a75397225da04fa6"}'::text[]
) as applied (object, sha256)
on conflict (branch, object) do update set sha256 = excluded.sha256;

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
        set local role "duly_owner";
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
    set local role "duly_owner";
end
$carry$;

do $closing$
declare
    found record;
begin
    for found in
        select r.rolname as guest, n.nspname as home
        from pg_catalog.pg_roles as r
        cross join pg_catalog.pg_namespace as n
        where r.rolname in ('anon', 'authenticated')
            and n.nspname = any ('{"duly","ledger"}'::text[])
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
