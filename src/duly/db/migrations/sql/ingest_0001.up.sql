-- Ingest: photographed day schedules become versions, semantic events and notifications.

-- A backend that has a table of sessions owns its schema: nothing is made there. `duly migrate` leaves ingest out of
-- such a database by itself; asking for it by name is refused with the reason.
do $backend$
begin
    if exists (  -- asked so that it needs no right to the schema
        select from pg_catalog.pg_class as c
        inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = {'ingest'} and c.relname = 'capture_session'
    ) then
        raise exception
            'schema % has a table capture_session that duly did not make: a backend owns it', {'ingest'}
            using errcode = 'duplicate_table', hint =
                'leave ingest out, and run database/migrations/20260212_add_session_leases.sql for its worker; '
                'or set DB_SCHEMA to another name';
    end if;
end
$backend$;

-- Sessions ------------------------------------------------------------------------------------------------------------
-- The first seven columns are the contract's; what follows them is ours.

create type {ingest}.capture_session_state as enum ('pending', 'processing', 'done', 'failed');

create table {ingest}.capture_session (
    id uuid not null default duly.new_id(),
    user_id bigint not null,
    state {ingest}.capture_session_state not null default 'pending',
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
comment on table {ingest}.capture_session is 'Captures of one day: person, state, lease and result.';
comment on column {ingest}.capture_session.user_id is 'The person''s Telegram id.';
comment on column {ingest}.capture_session.closed_at is
    'When it was complete: no image is accepted after that.';
comment on column {ingest}.capture_session.payload is
    'The day as data, where it was given and needs no reading.';
comment on column {ingest}.capture_session.given_at is 'When the payload was given.';
comment on column {ingest}.capture_session.result is
    'The result: changed or not, from which input, which version.';
comment on column {ingest}.capture_session.lease_seconds is
    'The length of the lease; a holder that writes none has LEASE_TIMEOUT_SECONDS.';
comment on column {ingest}.capture_session.starts is 'Counted claims; releases are not counted.';

create index idx_capture_session__created_at_id on {ingest}.capture_session (created_at, id)
    where state = 'pending';
create index idx_capture_session__closed_at_id on {ingest}.capture_session (closed_at, id)
    where state = 'pending';
create index idx_capture_session__given_at_id on {ingest}.capture_session (given_at, id)
    where state = 'pending' and given_at is not null;
create index idx_capture_session__id on {ingest}.capture_session (id) where state = 'processing';
create index idx_capture_session__user_id_created_at_id
    on {ingest}.capture_session (user_id, created_at desc, id desc);

-- Images --------------------------------------------------------------------------------------------------------------

create table {ingest}.capture_image (
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
        references {ingest}.capture_session (id) on delete restrict,
    constraint ck_capture_image__sequence check (sequence > 0),
    constraint ck_capture_image__r2_key check (char_length(r2_key) between 1 and 1024)
);
comment on table {ingest}.capture_image is
    'Photographs of a session; the image is in the object store under r2_key.';
create unique index uq_capture_image__session_id_telegram_message_id
    on {ingest}.capture_image (session_id, telegram_message_id) where telegram_message_id is not null;

-- Days and their versions ---------------------------------------------------------------------------------------------

create table {ingest}.day_schedule (
    user_id bigint not null,
    schedule_date date not null,
    -- squawk-ignore prefer-bigint-over-int
    current_version integer not null,
    constraint pk_day_schedule primary key (user_id, schedule_date),
    constraint ck_day_schedule__current_version check (current_version > 0)
) with (fillfactor = 80);
comment on table {ingest}.day_schedule is
    'The current version of a person''s day, written by the trigger of the versions only.';

create table {ingest}.schedule_version (
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
        references {ingest}.capture_session (id) on delete restrict,
    constraint ck_schedule_version__version check (version > 0),
    constraint ck_schedule_version__payload check (jsonb_typeof(payload) = 'object'),
    constraint ck_schedule_version__payload_hash check (char_length(payload_hash) between 1 and 128)
);
comment on table {ingest}.schedule_version is
    'Versions of a person''s day in canonical form: 1, 2, 3, without a gap and never changed.';
comment on column {ingest}.schedule_version.canonicalizer is
    'The version of the canonicaliser; null when another program wrote it.';

-- What is known of a day ----------------------------------------------------------------------------------------------

create table {ingest}.day_snapshot (
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
        references {ingest}.capture_session (id) on delete restrict,
    constraint ck_day_snapshot__snapshot_payload check (jsonb_typeof(snapshot_payload) = 'array'),
    constraint ck_day_snapshot__events check (events >= 0)
) with (fillfactor = 80);
comment on table {ingest}.day_snapshot is
    'The current canonical shifts of a person''s day: the baseline of the next diff.';
comment on column {ingest}.day_snapshot.events is 'How many events led to it.';

create table {ingest}.schedule_event (
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
        references {ingest}.capture_session (id) on delete restrict,
    constraint ck_schedule_event__event_type check (event_type in (
        'shift_added', 'shift_removed', 'shift_time_changed', 'shift_relocated', 'shift_retitled', 'shift_reclassified'
    )),
    constraint ck_schedule_event__values check (
        (old_value is null) = (event_type = 'shift_added') and (new_value is null) = (event_type = 'shift_removed')
    ),
    constraint ck_schedule_event__seq check (seq > 0)
);
comment on table {ingest}.schedule_event is
    'Changes of a day, shift by shift: replayed from the first they rebuild the snapshot.';
comment on column {ingest}.schedule_event.seq is 'Its number among the events of its day: 1, 2, 3.';

-- Notifications -------------------------------------------------------------------------------------------------------

create table {ingest}.schedule_notification (
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
        references {ingest}.capture_session (id) on delete restrict,
    constraint ck_schedule_notification__notification_id check (char_length(notification_id) between 1 and 200),
    constraint ck_schedule_notification__status check (status in ('pending', 'sent', 'failed')),
    constraint ck_schedule_notification__notification_type check (notification_type in ('event', 'summary')),
    constraint ck_schedule_notification__message check (char_length(message) between 1 and 4096),
    constraint ck_schedule_notification__event_ids check (jsonb_typeof(event_ids) = 'array'),
    constraint ck_schedule_notification__sent_at check ((status = 'sent') = (sent_at is not null))
) with (fillfactor = 80);
comment on table {ingest}.schedule_notification is
    'Messages about a day, waiting for delivery in the order of created_at.';
create index idx_schedule_notification__created_at_notification_id
    on {ingest}.schedule_notification (created_at, notification_id) where status = 'pending';
create index idx_schedule_notification__user_id_schedule_date
    on {ingest}.schedule_notification (user_id, schedule_date, created_at, notification_id);
comment on column {ingest}.schedule_notification.delivery is
    'The state of the delivery; the contract''s status is pending, sent or failed.';
create index idx_schedule_notification__channel_due_at on {ingest}.schedule_notification
    (channel, due_at, notification_id) where delivery = 'pending';
create index idx_schedule_notification__channel_recipient_seq
    on {ingest}.schedule_notification (channel, recipient, seq)
    where delivery in ('pending', 'sending');
create index idx_schedule_notification__notification_id on {ingest}.schedule_notification (notification_id)
    where delivery = 'sending';
create index idx_schedule_notification__seq on {ingest}.schedule_notification (seq)
    where delivery = 'uncertain';
