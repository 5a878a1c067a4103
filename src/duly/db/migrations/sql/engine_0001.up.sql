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
