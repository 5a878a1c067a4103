-- The foundation: the clocks, tenants, people, keys, workers, and the log of transitions.

-- The clocks -----------------------------------------------------------------------------------------------------------
-- Every default, trigger and predicate of duly reads the time through these two. Plain SQL, so the planner inlines them; a
-- test database replaces their bodies and moves the time.

create function duly.clock() returns timestamptz
    language sql volatile parallel safe
    return clock_timestamp();
comment on function duly.clock() is 'The time now: for stamps. A statement that waited must not write an old time.';

create function duly.now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();
comment on function duly.now() is 'The time at the start of the statement: for predicates that an index must serve.';

create function duly.new_id() returns uuid
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
comment on function duly.new_id() is
    'A UUIDv7: what is made together lies together, in every index that begins with it.';

create function duly.is_time_zone(zone text) returns boolean
    language plpgsql immutable parallel safe
    as $$
begin
    perform timestamptz 'epoch' at time zone zone;
    return zone ~ '^[A-Za-z]';  -- a bare offset has no summer time and is not a zone
exception when invalid_parameter_value then
    return false;
end
$$;

create function duly.touch() returns trigger
    language plpgsql
    as $$
begin
    new.updated_at := duly.clock();
    return new;
end
$$;
comment on function duly.touch() is 'updated_at is the database''s word, not the caller''s.';

-- Append-only tables ---------------------------------------------------------------------------------------------------
-- The privilege is the lock: DELETE and TRUNCATE are granted to nobody. This is the safety catch, which retention lifts for
-- its own transaction.

create function duly.refuse_change() returns trigger
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

-- Tenants --------------------------------------------------------------------------------------------------------------

create table duly.orgs (
    id uuid not null default gen_random_uuid(),
    name text not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_orgs primary key (id),
    constraint uq_orgs__name unique (name),
    constraint ck_orgs__name check (
        name = btrim(name) and char_length(name) between 1 and 200 and name !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
    )
);
comment on table duly.orgs is 'A tenant: whose jobs and keys these are.';

-- People ---------------------------------------------------------------------------------------------------------------

create table "user".users (
    id bigint not null generated always as identity,
    uid text not null,
    telegram_id bigint,
    zone text not null default 'UTC',
    language text not null default 'en',
    currency text not null default 'EUR',
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_users primary key (id),
    constraint uq_users__uid unique (uid),
    constraint uq_users__telegram_id unique (telegram_id),
    constraint ck_users__uid check (uid ~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$'),
    constraint ck_users__zone check (char_length(zone) <= 64 and duly.is_time_zone(zone)),
    constraint ck_users__language check (language ~ '^[a-z]{2,3}$'),
    constraint ck_users__currency check (currency ~ '^[A-Z]{3}$')
);
comment on table "user".users is 'The one table of people: who a Telegram id, an author id, a scheduler''s user is.';
create trigger users_touch before update on "user".users for each row execute function duly.touch();

-- Keys -----------------------------------------------------------------------------------------------------------------

create table duly.api_keys (
    id uuid not null default gen_random_uuid(),
    name text not null,
    prefix text not null,
    secret_sha256 bytea not null,
    scopes text[] not null,
    org_id uuid,
    user_id bigint,
    created_at timestamptz not null default duly.clock(),
    expires_at timestamptz,
    revoked_at timestamptz,
    constraint pk_api_keys primary key (id),
    constraint uq_api_keys__prefix unique (prefix),
    constraint fk_api_keys_orgs_org_id foreign key (org_id) references duly.orgs (id) on delete restrict,
    constraint fk_api_keys_users_user_id foreign key (user_id) references "user".users (id) on delete restrict,
    constraint ck_api_keys__name check (
        name = btrim(name) and char_length(name) between 1 and 200 and name !~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'
    ),
    constraint ck_api_keys__prefix check (prefix ~ '^duly_[a-z0-9]{12}$'),
    constraint ck_api_keys__secret_sha256 check (octet_length(secret_sha256) = 32),
    constraint ck_api_keys__scopes check (cardinality(scopes) between 1 and 32 and array_position(scopes, null) is null),
    constraint ck_api_keys__holder check (num_nonnulls(org_id, user_id) >= 1),
    constraint ck_api_keys__expires_at check (expires_at > created_at)
);
comment on table duly.api_keys is 'A key is shown once; here lie its prefix, for finding it, and its hash, for proving it.';
create index idx_api_keys__org_id on duly.api_keys (org_id);
create index idx_api_keys__user_id on duly.api_keys (user_id);

-- Workers --------------------------------------------------------------------------------------------------------------

create table duly.workers (
    id uuid not null,
    worker_id text not null,
    host text not null,
    pid bigint not null,
    version text not null,
    kinds text[] not null,
    slots jsonb not null,
    started_at timestamptz not null default duly.clock(),
    seen_at timestamptz not null default duly.clock(),
    stopping_at timestamptz,
    stopped_at timestamptz,
    constraint pk_workers primary key (id),
    constraint ck_workers__worker_id check (char_length(worker_id) between 1 and 200),
    constraint ck_workers__slots check (jsonb_typeof(slots) = 'object')
) with (fillfactor = 50);
comment on column duly.workers.slots is 'How many rows of each kind of work it takes at once.';
comment on column duly.workers.stopping_at is 'From then on it takes nothing new, and only finishes what it has.';
comment on table duly.workers is 'Worker processes, living and lately gone: for people and `explain`; no decision rests on it.';
create index idx_workers__started_at on duly.workers (started_at);

-- Transitions ----------------------------------------------------------------------------------------------------------

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
comment on table duly.transition is 'One row per transition of posts, captures and runs, in order, written by their triggers.';
create index idx_transition__ts on duly.transition (ts);
create trigger transition_is_append_only before update or delete on duly.transition
    for each row execute function duly.refuse_change();
create trigger transition_is_not_emptied before truncate on duly.transition
    for each statement execute function duly.refuse_change();

-- Who may do what ------------------------------------------------------------------------------------------------------

revoke all on all functions in schema duly from public;
grant usage on schema duly, "user" to {worker}, {api}, {readonly};
grant execute on all functions in schema duly to {worker}, {api}, {readonly};
grant select on duly.orgs, duly.workers, duly.transition, "user".users to {worker}, {api}, {readonly};
grant insert, update on duly.workers to {worker};
grant delete on duly.workers to {worker};
grant select on duly.api_keys to {api};
grant select (id, name, prefix, scopes, org_id, user_id, created_at, expires_at, revoked_at) on duly.api_keys to {readonly};

-- A worker on tables that a backend owns uses the clocks and the list of workers as the login it is. Whoever could use
-- the small schema that the lease migration made, and the prelude removed, can use this one.
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
