"""Ingest tables as other programs make them: a backend with states and triggers of its own, and the bare contract."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backend:
    """Who made the tables, and how; which state a session waits in."""

    name: str
    made_by: str
    pending: str
    waiting: str  # how it makes a session wait: what it inserts for a user

    def __str__(self) -> str:
        return self.name

    def schema_sql(self, schema: str) -> str:
        """Everything, in a schema of this name; no right is granted."""
        return self.made_by.replace("HOME", schema)


PHASES = """
create table HOME.day_snapshot (
    user_id bigint not null,
    schedule_date date not null,
    snapshot_payload jsonb not null,
    source_session_id uuid not null,
    updated_at timestamptz not null,
    primary key (user_id, schedule_date)
);
create table HOME.schedule_event (
    event_id uuid primary key,
    user_id bigint not null,
    schedule_date date not null,
    event_type text not null,
    location_fingerprint text not null,
    customer_fingerprint text not null,
    old_value_hash text not null,
    new_value_hash text not null,
    old_value jsonb,
    new_value jsonb,
    detected_at timestamptz not null,
    source_session_id uuid not null
);
create table HOME.schedule_notification (
    notification_id text primary key,
    user_id bigint not null,
    schedule_date date not null,
    source_session_id uuid not null,
    status text not null check (status in ('pending', 'sent', 'failed')),
    notification_type text not null check (notification_type in ('event', 'summary')),
    message text not null,
    event_ids jsonb not null check (jsonb_typeof(event_ids) = 'array'),
    created_at timestamptz not null,
    sent_at timestamptz
);
"""

# The owner of the origin: its own states, a session that is closed before it is worked on, and triggers for everything.
OWNERS = Backend(
    name="owners",
    pending="closed",
    waiting="(user_id, state, closed_at) values (%s, 'closed', now())",
    made_by="""
create schema HOME;
create type HOME.capture_session_state as enum ('open', 'closed', 'processing', 'done', 'failed');
create table HOME.capture_session (
    id uuid not null default gen_random_uuid(),
    user_id bigint not null,
    state HOME.capture_session_state not null default 'open',
    created_at timestamptz not null default now(),
    closed_at timestamptz,
    error text,
    constraint capture_session_pk primary key (id),
    constraint capture_session_closed_at_ck check ((state = 'open') = (closed_at is null)),
    constraint capture_session_error_ck check ((state = 'failed') = (error is not null))
);
create unique index capture_session_one_open on HOME.capture_session (user_id) where state = 'open';
create function HOME.capture_session_transition() returns trigger language plpgsql as $$
begin
    if new.state = old.state then
        return new;
    end if;
    if not (
        (old.state = 'open' and new.state in ('closed', 'failed'))
        or (old.state = 'closed' and new.state in ('processing', 'failed'))
        or (old.state = 'processing' and new.state in ('done', 'failed'))
    ) then
        raise exception 'invalid transition % -> %', old.state, new.state;
    end if;
    if old.state = 'open' and new.closed_at is null then
        new.closed_at := now();
    end if;
    if new.state <> 'failed' then
        new.error := null;
    end if;
    return new;
end $$;
create trigger capture_session_transition_trg before update on HOME.capture_session
    for each row execute function HOME.capture_session_transition();

create table HOME.capture_image (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null references HOME.capture_session (id),
    sequence integer not null check (sequence > 0),
    r2_key text not null unique,
    telegram_message_id bigint,
    created_at timestamptz not null default now(),
    unique (session_id, sequence)
);
create unique index capture_image_message on HOME.capture_image (session_id, telegram_message_id)
    where telegram_message_id is not null;
create function HOME.capture_image_guard() returns trigger language plpgsql as $$
begin
    perform from HOME.capture_session where id = new.session_id and state = 'open' for update;
    if not found then
        raise exception 'session % is not open', new.session_id;
    end if;
    return new;
end $$;
create trigger capture_image_guard_trg before insert on HOME.capture_image
    for each row execute function HOME.capture_image_guard();

create table HOME.day_schedule (
    user_id bigint not null,
    schedule_date date not null,
    current_version integer not null check (current_version > 0),
    constraint day_schedule_pk primary key (user_id, schedule_date)
);
create function HOME.day_schedule_guard() returns trigger language plpgsql as $$
begin
    if new.current_version < old.current_version then
        raise exception 'current_version must not decrease';
    end if;
    return new;
end $$;
create trigger day_schedule_guard_trg before update on HOME.day_schedule
    for each row execute function HOME.day_schedule_guard();

create table HOME.schedule_version (
    user_id bigint not null,
    schedule_date date not null,
    version integer not null,
    session_id uuid not null unique references HOME.capture_session (id),
    payload jsonb not null check (jsonb_typeof(payload) = 'object'),
    payload_hash text not null,
    created_at timestamptz not null default now(),
    constraint schedule_version_pk primary key (user_id, schedule_date, version)
);
create function HOME.schedule_version_check() returns trigger language plpgsql as $$
declare
    current integer;
begin
    perform from HOME.capture_session
    where id = new.session_id and user_id = new.user_id and state in ('closed', 'processing', 'done');
    if not found then
        raise exception 'session % cannot have a version', new.session_id;
    end if;
    select current_version into current from HOME.day_schedule
    where user_id = new.user_id and schedule_date = new.schedule_date;
    if new.version <> coalesce(current, 0) + 1 then
        raise exception 'version % does not follow %', new.version, current;
    end if;
    return new;
end $$;
create trigger schedule_version_check_trg before insert on HOME.schedule_version
    for each row execute function HOME.schedule_version_check();
create function HOME.schedule_version_pointer() returns trigger language plpgsql as $$
begin
    insert into HOME.day_schedule as d values (new.user_id, new.schedule_date, new.version)
    on conflict (user_id, schedule_date)
    do update set current_version = greatest(d.current_version, excluded.current_version);
    return null;
end $$;
create trigger schedule_version_pointer_trg after insert on HOME.schedule_version
    for each row execute function HOME.schedule_version_pointer();
"""
    + PHASES
    + """
alter table HOME.schedule_event add constraint schedule_event_dedupe_uk unique (
    user_id, schedule_date, location_fingerprint, event_type, old_value_hash, new_value_hash
);
""",
)

# The seven tables of the contract, with its columns and keys, and nothing that it does not say.
PLAIN = Backend(
    name="plain",
    pending="pending",
    waiting="(user_id, state) values (%s, 'pending')",
    made_by="""
create schema HOME;
create type HOME.capture_session_state as enum ('pending', 'processing', 'done', 'failed');
create table HOME.capture_session (
    id uuid primary key default gen_random_uuid(),
    user_id bigint not null,
    state HOME.capture_session_state not null,
    created_at timestamptz not null default now(),
    error text,
    locked_at timestamptz,
    locked_by text
);
create table HOME.capture_image (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null references HOME.capture_session (id),
    sequence integer not null check (sequence > 0),
    r2_key text not null unique,
    telegram_message_id bigint,
    created_at timestamptz not null default now(),
    unique (session_id, sequence)
);
create table HOME.day_schedule (
    user_id bigint not null,
    schedule_date date not null,
    current_version integer not null check (current_version > 0),
    primary key (user_id, schedule_date)
);
create table HOME.schedule_version (
    user_id bigint not null,
    schedule_date date not null,
    version integer not null,
    session_id uuid not null unique references HOME.capture_session (id),
    payload jsonb not null,
    payload_hash text not null,
    created_at timestamptz not null,
    primary key (user_id, schedule_date, version)
);
"""
    + PHASES
    + """
create unique index the_old_key on HOME.schedule_event (
    event_type, new_value_hash, old_value_hash, user_id, schedule_date, location_fingerprint
) include (detected_at);
""",
)

# The same with a trigger that does what the contract says of the pointer, in a way that cannot do it twice.
PLAIN_WITH_POINTER = Backend(
    name="plain with a pointer",
    pending=PLAIN.pending,
    waiting=PLAIN.waiting,
    made_by=PLAIN.made_by
    + """
create function HOME.point() returns trigger language plpgsql security definer as $$
begin
    if new.version = 1 then
        insert into HOME.day_schedule values (new.user_id, new.schedule_date, 1);
    else
        update HOME.day_schedule set current_version = current_version + 1
        where user_id = new.user_id and schedule_date = new.schedule_date;
    end if;
    return null;
end $$;
create trigger point after insert on HOME.schedule_version for each row execute function HOME.point();
""",
)

# What a C# backend makes of the contract, word for word: it writes every value itself, so no column has a default. The
# pointer's trigger acts with the rights of the role that inserts a version.
PHASE_3 = Backend(
    name="phase 3",
    pending="pending",
    waiting="(id, user_id, state, created_at) values (gen_random_uuid(), %s, 'pending', now())",
    made_by="""
create schema HOME;
create type HOME.capture_session_state as enum ('pending', 'processing', 'done', 'failed');
create table HOME.capture_session (
    id uuid not null,
    user_id bigint not null,
    state HOME.capture_session_state not null,
    created_at timestamptz not null,
    error text,
    locked_at timestamptz,
    locked_by text,
    constraint "PK_capture_session" primary key (id)
);
create table HOME.capture_image (
    id uuid not null,
    session_id uuid not null,
    sequence integer not null,
    r2_key text not null,
    telegram_message_id bigint,
    created_at timestamptz not null,
    constraint "PK_capture_image" primary key (id),
    constraint "FK_capture_image_session" foreign key (session_id) references HOME.capture_session (id),
    constraint "CK_capture_image_sequence" check (sequence > 0)
);
create unique index "UX_capture_image_r2_key" on HOME.capture_image (r2_key);
create unique index "UX_capture_image_session_sequence" on HOME.capture_image (session_id, sequence);
create table HOME.day_schedule (
    user_id bigint not null,
    schedule_date date not null,
    current_version integer not null,
    constraint "PK_day_schedule" primary key (user_id, schedule_date),
    constraint "CK_day_schedule_current_version" check (current_version > 0)
);
create table HOME.schedule_version (
    user_id bigint not null,
    schedule_date date not null,
    version integer not null,
    session_id uuid not null,
    payload jsonb not null,
    payload_hash text not null,
    created_at timestamptz not null,
    constraint "PK_schedule_version" primary key (user_id, schedule_date, version),
    constraint "FK_schedule_version_session" foreign key (session_id) references HOME.capture_session (id),
    constraint "CK_schedule_version_payload" check (jsonb_typeof(payload) = 'object')
);
create unique index "UX_schedule_version_session" on HOME.schedule_version (session_id);
create function HOME.trg_schedule_version_inserted() returns trigger language plpgsql as $$
begin
    insert into HOME.day_schedule (user_id, schedule_date, current_version)
    values (new.user_id, new.schedule_date, new.version)
    on conflict (user_id, schedule_date) do update set current_version = excluded.current_version;
    return new;
end $$;
create trigger trg_schedule_version_inserted after insert on HOME.schedule_version
    for each row execute function HOME.trg_schedule_version_inserted();
""",
)
CONTRACT = Backend(
    name="contract",
    pending=PHASE_3.pending,
    waiting=PHASE_3.waiting,
    made_by=PHASE_3.made_by
    + PHASES
    + """
create unique index "UX_schedule_event_dedupe" on HOME.schedule_event (
    user_id, schedule_date, location_fingerprint, event_type, old_value_hash, new_value_hash
);
""",
)
