-- duly 0.1.0, posts: compiled from the migrations and functions of duly; do not edit.

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
    where n.nspname = any ('{"posts"}'::text[])
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

create schema if not exists "posts" authorization "duly_owner";
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

-- The functions of posts, and their documents.

-- Posts: one per author and UTC day, released six hours later. Columns are snake_case; the contract's camelCase is the
-- shape of its documents, in one view.

-- Daily key -----------------------------------------------------------------------------------------------------------

create or replace function posts.daily_key(author text, at timestamptz) returns text
    language sql stable parallel safe
    return author || '_' || to_char(at at time zone 'UTC', 'YYYYMMDD');

comment on function posts.daily_key(text, timestamptz) is
    'uid_yyyyMMdd of the UTC day; the id of its lock is this and _UTC. The day has eight digits, so keys are '
    'unambiguous.';

create or replace function posts.iso(at timestamptz) returns text
    language sql stable parallel safe
    return to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

comment on function posts.iso(timestamptz) is 'An instant as the documents write it: ISO 8601, UTC.';

create or replace function posts.permanent_name(upload text) returns text
    language sql immutable parallel safe
    return 'posts/' || substr(upload, 6, 2) || '/' || substr(upload, 6);

comment on function posts.permanent_name(text) is
    'Where the image of a post is stored: temp/ab1.jpg becomes posts/ab/ab1.jpg.';

-- Creating a post -----------------------------------------------------------------------------------------------------

create or replace function posts.create_intent(
    author text, request_id uuid, digest bytea, caption text, upload text, is_stored boolean,
    out is_new boolean, out answer jsonb
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_post constant uuid := duly.new_id();
    made_at constant timestamptz := duly.clock();
    due_at constant timestamptz := made_at + interval '6 hours';
    known posts.idempotency_keys;
begin
    answer := jsonb_build_object('postId', new_post, 'status', 'PENDING', 'releaseTime', posts.iso(due_at));
    -- First whether the same request came before: its own post must not refuse it.
    for _ in 1..10 loop
        insert into posts.idempotency_keys as k
            (author_id, request_id, request_digest, post_id, answer, created_at, expires_at)
        values
            (
                author, create_intent.request_id, digest, new_post, create_intent.answer, made_at,
                made_at + interval '30 days'
            )
        on conflict do nothing;
        is_new := found;
        exit when is_new;
        -- In a statement of its own, which sees what was committed while the insert waited.
        select * into known
        from posts.idempotency_keys as k
        where k.author_id = author and k.request_id = create_intent.request_id;
        continue when not found;  -- retention has just deleted it
        if known.request_digest <> digest then
            raise exception 'the request id % belongs to another request', create_intent.request_id
                using errcode = 'DU002', hint = 'use a request id of its own for every post';
        end if;
        answer := known.answer;
        return;
    end loop;
    -- Then whether the day has a post. A request that is refused has written nothing: all of this is rolled back.
    insert into posts.daily_locks (id, created_at, post_id)
    values (posts.daily_key(author, made_at) || '_UTC', made_at, new_post)
    on conflict do nothing;
    if not found then
        raise exception '% has posted on this day already', author using errcode = 'DU003', detail = (
            select l.post_id::text from posts.daily_locks as l where l.id = posts.daily_key(author, made_at) || '_UTC'
        );
    end if;
    -- The image exists, is the author's, and is not deleted before this transaction ends.
    perform from posts.uploads as u where u.name = upload and u.author_id = author for key share;
    if not found or not is_stored then
        raise exception 'there is no image % of yours: upload it first, and use it within 24 hours', upload
            using errcode = 'DU004';
    end if;
    insert into posts.posts
        (id, author_id, release_time, created_at, updated_at, daily_key, request_id, caption, image_url)
    values (
        new_post, author, due_at, made_at, made_at, posts.daily_key(author, made_at),
        create_intent.request_id, create_intent.caption, posts.permanent_name(upload)
    );
end
$$;

comment on function posts.create_intent(text, uuid, bytea, text, text, boolean) is
    'Create the post of an author for the UTC day, or return the answer that the same request got. DU002: the request '
    'id belongs to another request; DU003: the day has a post (its id is the detail); DU004: there is no such image.';

-- Expiry --------------------------------------------------------------------------------------------------------------

create or replace function posts.expire_uploads(max_rows bigint) returns table (name text, permanent text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    names constant text[] := array(
        select u.name
        from posts.uploads as u
        where u.created_at < duly.now() - interval '24 hours'
        order by u.created_at
        limit max_rows
        for update skip locked
    );
begin
    -- In a statement of its own, which sees the post of a transaction that held an upload until we locked it.
    return query
    with gone as (delete from posts.uploads as u where u.name = any (names) returning u.name, u.author_id)
    select g.name, case when not exists (
        select from posts.posts as p
        where p.author_id = g.author_id and p.image_url = posts.permanent_name(g.name)
    ) then posts.permanent_name(g.name) end
    from gone as g;
end
$$;

comment on function posts.expire_uploads(bigint) is
    'Delete uploads of more than 24 hours ago, at most max_rows; return the images to remove: the upload, and its '
    'copy if no post has it.';

create or replace function posts.retain(max_rows bigint) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    requests bigint;
    minutes bigint;
begin
    delete from posts.idempotency_keys as k
    where (k.author_id, k.request_id) in (
        select e.author_id, e.request_id
        from posts.idempotency_keys as e
        where e.expires_at < duly.now()
        order by e.expires_at
        limit max_rows
        for update skip locked
    );
    get diagnostics requests = row_count;
    delete from posts.intent_minutes as m
    where (m.minute, m.outcome) in (
        select e.minute, e.outcome
        from posts.intent_minutes as e
        where e.minute < duly.now() - interval '90 days'
        order by e.minute
        limit max_rows
        for update skip locked
    );
    get diagnostics minutes = row_count;
    return requests + minutes;
end
$$;

comment on function posts.retain(bigint) is
    'Delete expired answers, and minutes of more than 90 days ago, at most max_rows of each; return how many.';

-- The contract's documents --------------------------------------------------------------------------------------------

create or replace view posts.documents with (security_invoker = true) as
select
    p.id,
    p.author_id,
    p.status,
    p.created_at,
    jsonb_strip_nulls(jsonb_build_object(
        'postId', p.id,
        'authorId', p.author_id,
        'status', p.status,
        'releaseTime', posts.iso(p.release_time),
        'createdAt', posts.iso(p.created_at),
        'updatedAt', posts.iso(p.updated_at),
        'dailyKey', p.daily_key,
        'version', p.version,
        'requestId', p.request_id,
        'leaseOwner', p.lease_owner,
        'leaseExpiresAt', posts.iso(p.lease_expires_at),
        'processAttempts', p.process_attempts,
        'ai', p.ai,
        'aiError', p.ai_error,
        'caption', p.caption,
        'imageUrl', p.image_url,
        'processingSince', posts.iso(p.processing_since),
        'releasedAt', posts.iso(p.released_at)
    )) as document
from posts.posts as p;

comment on view posts.documents is 'Posts as the contract writes them, those of the first version included.';

-- Guard and timeline of post. Generated by `python -m tools.generate`; do not edit.

create or replace function "posts"."posts_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['PENDING', 'RELEASED'])) then
            raise exception '% cannot begin as %', 'post', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
        new.version := 1;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'post', old."id"
            using errcode = 'DU001';
    elsif (
        new."author_id", new."created_at", new."release_time", new."daily_key", new."request_id", new."image_url",
            new."legacy"
    ) is distinct from (
        old."author_id", old."created_at", old."release_time", old."daily_key", old."request_id", old."image_url",
            old."legacy"
    ) then
        raise exception 'of % % these stay as they are: %', 'post', old."id",
            'author_id, created_at, release_time, daily_key, request_id, image_url, legacy'
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        (new.caption is distinct from old.caption)
    ) then
        new.revision := old.revision;
        new.transition_from := null;
        if old.status = 'RELEASED' or new.lease_owner is distinct from old.lease_owner then
            raise exception 'post % is % and stays as it is', old.id, old.status using errcode = 'DU001';
        end if;
        new.version := old.version + 1;
        new.updated_at := duly.clock();
        new.processing_since := old.processing_since;
        new.lease_expires_at := least(new.lease_expires_at, new.processing_since + interval '10 minutes');
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'PENDING' then new."status"::text = any (array['PROCESSING'])
        when 'PROCESSING' then new."status"::text = any (array['RELEASED', 'PENDING'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'post', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
        if new.caption is distinct from old.caption and (old.status, new.status) <> ('PENDING', 'PENDING') then
            raise exception 'post % is % and its caption stays as it is', old.id, old.status using errcode = 'DU001';
        elsif old.status = 'PENDING' and new.status = 'PROCESSING' and old.release_time > duly.clock() then
            raise exception 'post % is not released before %', old.id, old.release_time using errcode = 'DU001';
        elsif old.status = 'PROCESSING' and new.status = 'PENDING' and old.lease_expires_at >= duly.clock() then
            raise exception 'post % is held until %', old.id, old.lease_expires_at using errcode = 'DU001';
        end if;
        new.version := old.version + 1;
        new.updated_at := duly.clock();
        new.processing_since := case when new.status = 'PROCESSING' then new.updated_at end;
        new.released_at := case when new.status = 'RELEASED' then greatest(new.updated_at, old.processing_since) end;
        new.lease_expires_at := least(new.lease_expires_at, new.processing_since + interval '10 minutes');
    end if;
    broken_rule := case
        when (new.revision > 1 or new.status = 'PENDING' or new.legacy is not null) is false then 'ck_posts__born'
        when (
            new.legacy is not null or num_nonnulls(new.release_time, new.daily_key, new.request_id, new.image_url) = 4
        ) is false then 'ck_posts__v2'
        when (
            new.revision > 1 or new.legacy is not null or new.daily_key = posts.daily_key(new.author_id, new.created_at)
        ) is false then 'ck_posts__daily_key'
        when (new.status = 'RELEASED' or new.release_time is not null) is false then 'ck_posts__due'
        when (char_length(new.caption) <= 2200) is false then 'ck_posts__caption'
        when (char_length(new.image_url) between 1 and 2048) is false then 'ck_posts__image_url'
        when (
            num_nonnulls(new.lease_owner, new.lease_expires_at, new.processing_since) = case
                when new.status = 'PROCESSING' then 3 else 0 end
        ) is false then 'ck_posts__lease'
        when (
            char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_posts__owners'
        when (new.process_attempts >= 0) is false then 'ck_posts__process_attempts'
        when (
            new.ai is null or (new.status = 'RELEASED' and jsonb_typeof(new.ai) = 'object'
                and pg_column_size(new.ai) <= 65536)
        ) is false then 'ck_posts__ai'
        when (
            new.ai_error is null or (new.status = 'RELEASED' and new.ai_error ~ '^[A-Z][A-Z0-9_]{0,63}$')
        ) is false then 'ck_posts__ai_error'
        when (
            case when new.legacy is null then (new.status = 'RELEASED') = (new.released_at is not null)
                else new.status = 'RELEASED' or new.released_at is null end
        ) is false then 'ck_posts__released_at'
        when (
            jsonb_typeof(new.legacy) = 'object' and pg_column_size(new.legacy) <= 1048576
        ) is false then 'ck_posts__legacy'
        when (
            date_part('epoch', least(new.created_at, new.updated_at, new.release_time, new.released_at,
                new.lease_expires_at, new.processing_since)) >= 946684800 and date_part('epoch',
                greatest(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at,
                new.processing_since)) < 7258118400
        ) is false then 'ck_posts__years_2000_to_2200'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'post', new."id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "posts_guard"
    before insert or update on "posts"."posts"
    for each row execute function "posts"."posts_guard"();

create or replace function "posts"."posts_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'post', "id"::text, revision, duly.clock(), transition_from, "status"::text, case
            when status = 'PROCESSING' then lease_owner when status = 'RELEASED' then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('version', version, 'attempts', nullif(process_attempts, 0), 'aiError',
            ai_error, 'legacy', case when legacy is not null then true end))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "posts_timeline_insert"
    after insert on "posts"."posts"
    referencing new table as new_rows
    for each statement execute function "posts"."posts_timeline"();

create or replace trigger "posts_timeline_update"
    after update on "posts"."posts"
    referencing new table as new_rows
    for each statement execute function "posts"."posts_timeline"();

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
        where n.nspname = any ('{"posts"}'::text[])
            and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
            and pg_get_userbyid(c.relowner) = current_user
        union all
        select 'routine', f.oid::regprocedure::text, f.proacl is null
        from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = any ('{"posts"}'::text[]) and pg_get_userbyid(f.proowner) = current_user
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
-- Posts are inserted by an intent, or by the import, which runs as the owner. A client changes the caption only.

grant usage on schema posts to "duly_worker", "duly_api", "duly_readonly";

grant select on posts.posts, posts.documents, posts.daily_locks, posts.idempotency_keys, posts.uploads,
    posts.intent_minutes, posts.objectives
    to "duly_worker", "duly_api", "duly_readonly";

grant execute on function posts.daily_key(text, timestamptz), posts.iso(timestamptz), posts.permanent_name(text)
    to "duly_worker", "duly_api", "duly_readonly";

grant update (caption) on posts.posts to "duly_api";

grant update (
    status, lease_owner, lease_expires_at, process_attempts, settled_by, ai, ai_error
) on posts.posts to "duly_worker";

grant insert on posts.uploads to "duly_api";

grant insert, update on posts.intent_minutes to "duly_api";

grant execute on function posts.create_intent(text, uuid, bytea, text, text, boolean) to "duly_api";

grant execute on function posts.expire_uploads(bigint), posts.retain(bigint) to "duly_worker";

grant update (checked_at, breached_at, breaches) on posts.objectives to "duly_worker";

-- One row per object; its hash is that of the text it has now.
insert into duly.schema_object (branch, object, sha256)
select 'posts', applied.object, applied.sha256
from unnest(
     E'{"function posts.daily_key",
"function posts.iso",
"function posts.permanent_name",
"function posts.create_intent",
"function posts.expire_uploads",
"function posts.retain",
"view posts.documents",
"function \\"posts\\".\\"posts_guard\\"",
"trigger \\"posts_guard\\" on \\"posts\\".\\"posts\\"",
"function \\"posts\\".\\"posts_timeline\\"",
"trigger \\"posts_timeline_insert\\" on \\"posts\\".\\"posts\\"",
"trigger \\"posts_timeline_update\\" on \\"posts\\".\\"posts\\"",
"grants"}'::text[],
    '{"65c7adc5a5948177ad76d05882a63aac3f920b385369ae432d2e161a5c65739e",
"90a935529db8e52ac70389be3c9df360322c289fd9ec54d7e320bb069b911d9b",
"c9a791489ab5a82250a45c35ac25015f1b83539ff447e7f77d27530b8be153e9",
"a23bb6cbd49c5cfc5ac713bf3edec252f31a0df6ec8dcf6f95616eec5ec008de",
"b16466213e6251ac3be8c23da3b41e445fe90c5505399cc09e59334e88e7c1e9",
"05a6cc484cfb944ff28fa2fa1ea8b9d19437885919e196a3c10c379797c486a1",
"25dfaee0a63dd91831620059b0400230ac8ee792f3fc8a165ba836910d9930d9",
"ed9423031d7f086b6039fdbcafcb48487c6fbcb9c79d0c3788fc2ddf302b2594",
"f1635420997ac728e93c3bd1d9e52a61a0b774271ed2a20f4d7375755f6c0049",
"3c483b701cf64126f20a43a57c92027e0105121c31208eb5e49d32a1e53e6a93",
"d13424951caaf3d1a832aa545eecdcaab5795f6cfea79254cfe0b5e9641a648a",
"e94af330dec70858f0456c260010d1b7884adc369acc9bb3c64d2e8b2a81c4c0",
"dcd4e04082141f93b63adae87334ff15337efe6f45874a8df99119951ae192fb"}'::text[]
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
            and n.nspname = any ('{"posts"}'::text[])
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
