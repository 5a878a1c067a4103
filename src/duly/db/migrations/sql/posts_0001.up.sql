-- Posts: one per author and UTC day, released six hours later. Columns are snake_case; the contract's camelCase is the
-- shape of its documents, in one view.

-- Posts ---------------------------------------------------------------------------------------------------------------
-- The first sixteen columns are the contract's; what follows them is ours.

create table posts.posts (
    id uuid not null default duly.new_id(),
    author_id text not null,
    status text not null default 'PENDING',
    release_time timestamptz,
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    daily_key text,
    version bigint not null default 1,
    request_id uuid,
    lease_owner text,
    lease_expires_at timestamptz,
    process_attempts bigint not null default 0,
    ai jsonb,
    ai_error text,
    caption text not null default '',
    image_url text,
    processing_since timestamptz,
    released_at timestamptz,
    legacy jsonb,
    settled_by text,
    revision bigint not null default 0,
    transition_from text,
    constraint pk_posts primary key (id),
    constraint fk_posts_person_author_id foreign key (author_id) references duly.person (uid) on delete restrict,
    constraint ck_posts__release_time check (legacy is not null or release_time = created_at + interval '6 hours')
) with (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table posts.posts is 'Posts: author, content, release time, lease and reading.';
comment on column posts.posts.version is 'Counts every change of the row, 1, 2, 3; written by the guard.';
comment on column posts.posts.process_attempts is 'Counted claims; releases are not counted.';
comment on column posts.posts.ai_error is 'The reason of a fallback.';
comment on column posts.posts.image_url is 'The name of the image in the object store.';
comment on column posts.posts.processing_since is
    'When it was claimed; a lease ends ten minutes later, however often renewed.';
comment on column posts.posts.released_at is 'When it was released; the lag is this minus release_time.';
comment on column posts.posts.legacy is 'The document of the first version that it was imported from, as it was.';

create index idx_posts__release_time_id on posts.posts (release_time, id) where status = 'PENDING';
create index idx_posts__id on posts.posts (id) where status = 'PROCESSING';
create index idx_posts__created_at_id on posts.posts (created_at desc, id desc) where status = 'RELEASED';
create index idx_posts__author_id_created_at_id on posts.posts (author_id, created_at desc, id desc);
create index idx_posts__released_at on posts.posts (released_at) where released_at is not null;

-- One per author and day ----------------------------------------------------------------------------------------------

create table posts.daily_locks (
    id text not null,
    created_at timestamptz not null default duly.clock(),
    post_id uuid not null,
    constraint pk_daily_locks primary key (id),
    constraint fk_daily_locks_posts_post_id foreign key (post_id) references posts.posts (id)
        deferrable initially deferred,
    constraint ck_daily_locks__id check (id ~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}_[0-9]{8}_UTC$')
);
comment on table posts.daily_locks is 'Authors and UTC days with a post; the row is written before the post.';
create index idx_daily_locks__post_id on posts.daily_locks (post_id);

-- The same request twice ----------------------------------------------------------------------------------------------

create table posts.idempotency_keys (
    author_id text not null,
    request_id uuid not null,
    request_digest bytea not null,
    post_id uuid not null,
    answer jsonb not null,
    created_at timestamptz not null default duly.clock(),
    expires_at timestamptz not null,
    constraint pk_idempotency_keys primary key (author_id, request_id),
    constraint fk_idempotency_keys_posts_post_id foreign key (post_id) references posts.posts (id)
        deferrable initially deferred,
    constraint ck_idempotency_keys__request_digest check (octet_length(request_digest) = 32),
    constraint ck_idempotency_keys__expires_at check (expires_at >= created_at + interval '24 hours')
);
comment on table posts.idempotency_keys is
    'Answers to requests, for clients that repeat a request because the answer was lost.';
create index idx_idempotency_keys__expires_at on posts.idempotency_keys (expires_at);
create index idx_idempotency_keys__post_id on posts.idempotency_keys (post_id);

-- Images that came for a post -----------------------------------------------------------------------------------------

create table posts.uploads (
    name text not null,
    author_id text not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_uploads primary key (name),
    constraint fk_uploads_person_author_id foreign key (author_id) references duly.person (uid) on delete restrict,
    constraint ck_uploads__name check (
        name ~ '^temp/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.jpg$'
    )
);
comment on table posts.uploads is
    'Uploaded images and their authors; the row is written before the image and deleted with it, so no image is '
    'orphaned.';
create index idx_uploads__created_at on posts.uploads (created_at);
create index idx_uploads__author_id on posts.uploads (author_id);

-- How intents fared ---------------------------------------------------------------------------------------------------

create table posts.intent_minutes (
    minute timestamptz not null,
    outcome text not null,
    intents bigint not null,
    constraint pk_intent_minutes primary key (minute, outcome),
    constraint ck_intent_minutes__minute check (date_trunc('minute', minute, 'UTC') = minute),
    constraint ck_intent_minutes__outcome check (outcome ~ '^[A-Z][A-Z0-9_]{0,63}$'),
    constraint ck_intent_minutes__intents check (intents > 0)
) with (fillfactor = 50);
comment on table posts.intent_minutes is
    'Requests for a post per minute and outcome, including refusals and our own failures.';

-- Which promises are broken -------------------------------------------------------------------------------------------

create table posts.objectives (
    name text not null,
    checked_at timestamptz not null default '-infinity',
    breached_at timestamptz,
    breaches bigint not null default 0,
    constraint pk_objectives primary key (name),
    constraint ck_objectives__name check (name ~ '^[a-z][a-z0-9_]{0,31}$'),
    constraint ck_objectives__breaches check (breaches >= case when breached_at is null then 0 else 1 end)
);
comment on table posts.objectives is
    'One row per service level objective: its last check, and a numbered breach while it is not met.';
comment on column posts.objectives.breached_at is 'Since when it is not met; null while it is met.';
comment on column posts.objectives.breaches is 'How often it was not met.';
insert into posts.objectives (name) values ('intents'), ('lag'), ('stuck');
