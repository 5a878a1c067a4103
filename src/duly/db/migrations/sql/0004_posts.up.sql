-- Posts: one per author and UTC day, released six hours later. Columns are snake_case; the contract's camelCase is the shape
-- of its documents, in one view.

-- One spelling of the day ----------------------------------------------------------------------------------------------

create function posts.daily_key(author text, at timestamptz) returns text
    language sql stable parallel safe
    return author || '_' || to_char(at at time zone 'UTC', 'YYYYMMDD');
comment on function posts.daily_key(text, timestamptz) is
    'uid_yyyyMMdd of the UTC day; the id of its lock is this and _UTC. The day has eight digits, so keys are unambiguous.';

create function posts.iso(at timestamptz) returns text
    language sql stable parallel safe
    return to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
comment on function posts.iso(timestamptz) is 'An instant as the documents write it: ISO 8601, UTC.';

-- Posts ----------------------------------------------------------------------------------------------------------------
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
    moved_from text,
    constraint pk_posts primary key (id),
    constraint fk_posts_users_author_id foreign key (author_id) references "user".users (uid) on delete restrict,
    constraint ck_posts__release_time check (legacy is not null or release_time = created_at + interval '6 hours')
) with (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table posts.posts is 'A post: whose, what of it, when it appears, who prepares it, and how it was read.';
comment on column posts.posts.version is 'Counts every change of the row, 1, 2, 3; written by the guard.';
comment on column posts.posts.process_attempts is 'Claims that count; a hand-back gives its own back.';
comment on column posts.posts.ai_error is 'Why there is a fallback, where there is one.';
comment on column posts.posts.image_url is 'The name of the image where images are kept.';
comment on column posts.posts.processing_since is 'When it was taken; a lease ends ten minutes later however often renewed.';
comment on column posts.posts.released_at is 'When it appeared; the lag is this less release_time.';
comment on column posts.posts.legacy is 'The document of the first version that it was imported from, as it was.';

create index idx_posts__release_time_id on posts.posts (release_time, id) where status = 'PENDING';
create index idx_posts__id on posts.posts (id) where status = 'PROCESSING';
create index idx_posts__created_at_id on posts.posts (created_at desc, id desc) where status = 'RELEASED';
create index idx_posts__author_id_created_at_id on posts.posts (author_id, created_at desc, id desc);
create index idx_posts__released_at on posts.posts (released_at) where released_at is not null;

-- One per author and day -----------------------------------------------------------------------------------------------

create table posts.daily_locks (
    id text not null,
    created_at timestamptz not null default duly.clock(),
    post_id uuid not null,
    constraint pk_daily_locks primary key (id),
    constraint fk_daily_locks_posts_post_id foreign key (post_id) references posts.posts (id)
        deferrable initially deferred,
    constraint ck_daily_locks__id check (id ~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}_[0-9]{8}_UTC$')
);
comment on table posts.daily_locks is 'Who has posted on which UTC day; the row is there before the post is.';
create index idx_daily_locks__post_id on posts.daily_locks (post_id);

-- The same request twice -----------------------------------------------------------------------------------------------

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
comment on table posts.idempotency_keys is 'What a request was answered, for whoever asks again because the answer was lost.';
create index idx_idempotency_keys__expires_at on posts.idempotency_keys (expires_at);
create index idx_idempotency_keys__post_id on posts.idempotency_keys (post_id);

-- Images that came for a post ------------------------------------------------------------------------------------------

create table posts.uploads (
    name text not null,
    author_id text not null,
    created_at timestamptz not null default duly.clock(),
    constraint pk_uploads primary key (name),
    constraint fk_uploads_users_author_id foreign key (author_id) references "user".users (uid) on delete restrict,
    constraint ck_uploads__name check (
        name ~ '^temp/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.jpg$'
    )
);
comment on table posts.uploads is
    'Whose an uploaded image is; the row is there before the image and leaves with it, so that no image is left behind.';
create index idx_uploads__created_at on posts.uploads (created_at);
create index idx_uploads__author_id on posts.uploads (author_id);

create function posts.kept_name(upload text) returns text
    language sql immutable parallel safe
    return 'posts/' || substr(upload, 6, 2) || '/' || substr(upload, 6);
comment on function posts.kept_name(text) is 'Where the image of a post is kept for good: temp/ab1.jpg becomes posts/ab/ab1.jpg.';

-- How intents fared ----------------------------------------------------------------------------------------------------

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
    'How many requests for a post came in each minute and how they ended, refusals and failures of ours included.';

-- What follows is rendered from POST_MACHINE in duly/apps/posts/states.py; a test compares.

create function "posts"."posts_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['PENDING', 'RELEASED'])) then
            raise exception '% cannot begin as %', 'post', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
        new.version := 1;
    elsif new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'post', old."id" using errcode = 'DU001';
    elsif (new."author_id", new."created_at", new."release_time", new."daily_key", new."request_id", new."image_url", new."legacy") is distinct from (old."author_id", old."created_at", old."release_time", old."daily_key", old."request_id", old."image_url", old."legacy") then
        raise exception 'of % % these stay as they are: %', 'post', old."id", 'author_id, created_at, release_time, daily_key, request_id, image_url, legacy' using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not ((new.caption is distinct from old.caption)) then
        new.revision := old.revision;
        new.moved_from := null;
        if old.status = 'RELEASED' or new.lease_owner is distinct from old.lease_owner then
            raise exception 'post % is % and stays as it is', old.id, old.status using errcode = 'DU001';
        end if;
        new.version := old.version + 1;
        new.updated_at := duly.clock();
        new.processing_since := old.processing_since;
        new.lease_expires_at := least(new.lease_expires_at, new.processing_since + interval '10 minutes');
    elsif new."status" is distinct from old."status" and not (case old."status"::text when 'PENDING' then new."status"::text = any (array['PROCESSING']) when 'PROCESSING' then new."status"::text = any (array['RELEASED', 'PENDING']) else false end) then
        raise exception '% % cannot go from % to %', 'post', old."id", old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."status"::text;
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
    if not (coalesce(new.revision > 1 or new.status = 'PENDING' or new.legacy is not null, true) and coalesce(new.legacy is not null or num_nonnulls(new.release_time, new.daily_key, new.request_id, new.image_url) = 4, true) and coalesce(new.revision > 1 or new.legacy is not null or new.daily_key = posts.daily_key(new.author_id, new.created_at), true) and coalesce(new.status = 'RELEASED' or new.release_time is not null, true) and coalesce(char_length(new.caption) <= 2200, true) and coalesce(char_length(new.image_url) between 1 and 2048, true) and coalesce(num_nonnulls(new.lease_owner, new.lease_expires_at, new.processing_since) = case when new.status = 'PROCESSING' then 3 else 0 end, true) and coalesce(char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300, true) and coalesce(new.process_attempts >= 0, true) and coalesce(new.ai is null or (new.status = 'RELEASED' and jsonb_typeof(new.ai) = 'object' and pg_column_size(new.ai) <= 65536), true) and coalesce(new.ai_error is null or (new.status = 'RELEASED' and new.ai_error ~ '^[A-Z][A-Z0-9_]{0,63}$'), true) and coalesce(case when new.legacy is null then (new.status = 'RELEASED') = (new.released_at is not null) else new.status = 'RELEASED' or new.released_at is null end, true) and coalesce(jsonb_typeof(new.legacy) = 'object' and pg_column_size(new.legacy) <= 1048576, true) and coalesce(date_part('epoch', least(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since)) < 7258118400, true)) then
        raise exception '% % breaks the rule %', 'post', new."id", case when (new.revision > 1 or new.status = 'PENDING' or new.legacy is not null) is false then 'ck_posts__born' when (new.legacy is not null or num_nonnulls(new.release_time, new.daily_key, new.request_id, new.image_url) = 4) is false then 'ck_posts__v2' when (new.revision > 1 or new.legacy is not null or new.daily_key = posts.daily_key(new.author_id, new.created_at)) is false then 'ck_posts__daily_key' when (new.status = 'RELEASED' or new.release_time is not null) is false then 'ck_posts__due' when (char_length(new.caption) <= 2200) is false then 'ck_posts__caption' when (char_length(new.image_url) between 1 and 2048) is false then 'ck_posts__image_url' when (num_nonnulls(new.lease_owner, new.lease_expires_at, new.processing_since) = case when new.status = 'PROCESSING' then 3 else 0 end) is false then 'ck_posts__lease' when (char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_posts__owners' when (new.process_attempts >= 0) is false then 'ck_posts__process_attempts' when (new.ai is null or (new.status = 'RELEASED' and jsonb_typeof(new.ai) = 'object' and pg_column_size(new.ai) <= 65536)) is false then 'ck_posts__ai' when (new.ai_error is null or (new.status = 'RELEASED' and new.ai_error ~ '^[A-Z][A-Z0-9_]{0,63}$')) is false then 'ck_posts__ai_error' when (case when new.legacy is null then (new.status = 'RELEASED') = (new.released_at is not null) else new.status = 'RELEASED' or new.released_at is null end) is false then 'ck_posts__released_at' when (jsonb_typeof(new.legacy) = 'object' and pg_column_size(new.legacy) <= 1048576) is false then 'ck_posts__legacy' when (date_part('epoch', least(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since)) < 7258118400) is false then 'ck_posts__years_2000_to_2200' end
            using errcode = 'check_violation', constraint = case when (new.revision > 1 or new.status = 'PENDING' or new.legacy is not null) is false then 'ck_posts__born' when (new.legacy is not null or num_nonnulls(new.release_time, new.daily_key, new.request_id, new.image_url) = 4) is false then 'ck_posts__v2' when (new.revision > 1 or new.legacy is not null or new.daily_key = posts.daily_key(new.author_id, new.created_at)) is false then 'ck_posts__daily_key' when (new.status = 'RELEASED' or new.release_time is not null) is false then 'ck_posts__due' when (char_length(new.caption) <= 2200) is false then 'ck_posts__caption' when (char_length(new.image_url) between 1 and 2048) is false then 'ck_posts__image_url' when (num_nonnulls(new.lease_owner, new.lease_expires_at, new.processing_since) = case when new.status = 'PROCESSING' then 3 else 0 end) is false then 'ck_posts__lease' when (char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_posts__owners' when (new.process_attempts >= 0) is false then 'ck_posts__process_attempts' when (new.ai is null or (new.status = 'RELEASED' and jsonb_typeof(new.ai) = 'object' and pg_column_size(new.ai) <= 65536)) is false then 'ck_posts__ai' when (new.ai_error is null or (new.status = 'RELEASED' and new.ai_error ~ '^[A-Z][A-Z0-9_]{0,63}$')) is false then 'ck_posts__ai_error' when (case when new.legacy is null then (new.status = 'RELEASED') = (new.released_at is not null) else new.status = 'RELEASED' or new.released_at is null end) is false then 'ck_posts__released_at' when (jsonb_typeof(new.legacy) = 'object' and pg_column_size(new.legacy) <= 1048576) is false then 'ck_posts__legacy' when (date_part('epoch', least(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.updated_at, new.release_time, new.released_at, new.lease_expires_at, new.processing_since)) < 7258118400) is false then 'ck_posts__years_2000_to_2200' end;
    end if;
    return new;
end
$guard$;

create trigger "posts_guard" before insert or update on "posts"."posts"
    for each row execute function "posts"."posts_guard"();

create function "posts"."posts_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'post', "id"::text, revision, moved_from, "status"::text, case when status = 'PROCESSING' then lease_owner when status = 'RELEASED' then settled_by end, jsonb_strip_nulls(jsonb_build_object('version', version, 'attempts', nullif(process_attempts, 0), 'aiError', ai_error, 'legacy', case when legacy is not null then true end))
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "posts_timeline_insert" after insert on "posts"."posts"
    referencing new table as moved
    for each statement execute function "posts"."posts_timeline"();

create trigger "posts_timeline_update" after update on "posts"."posts"
    referencing new table as moved
    for each statement execute function "posts"."posts_timeline"();

-- Asking for a post ----------------------------------------------------------------------------------------------------

create function posts.create_intent(
    author text, request_id uuid, digest bytea, caption text, upload text, is_kept boolean, out is_new boolean, out answer jsonb
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
    -- First whether this very request came before: its own success must not be held against it.
    for _ in 1..10 loop
        insert into posts.idempotency_keys as k
            (author_id, request_id, request_digest, post_id, answer, created_at, expires_at)
        values
            (author, create_intent.request_id, digest, new_post, create_intent.answer, made_at, made_at + interval '30 days')
        on conflict do nothing;
        is_new := found;
        exit when is_new;
        -- In a statement of its own, which sees what was committed while the insert waited.
        select * into known
        from posts.idempotency_keys as k
        where k.author_id = author and k.request_id = create_intent.request_id;
        continue when not found;  -- retention took it this instant
        if known.request_digest <> digest then
            raise exception 'the request id % stands for another request', create_intent.request_id
                using errcode = 'DU002', hint = 'use a request id of its own for every post';
        end if;
        answer := known.answer;
        return;
    end loop;
    -- Then whether the day is taken. The loser of a race has written nothing when it is refused: all of this is undone.
    insert into posts.daily_locks (id, created_at, post_id)
    values (posts.daily_key(author, made_at) || '_UTC', made_at, new_post)
    on conflict do nothing;
    if not found then
        raise exception '% has posted on this day already', author using errcode = 'DU003', detail = (
            select l.post_id::text from posts.daily_locks as l where l.id = posts.daily_key(author, made_at) || '_UTC'
        );
    end if;
    -- The image is there, is theirs, and is not swept away before this ends.
    perform from posts.uploads as u where u.name = upload and u.author_id = author for key share;
    if not found or not is_kept then
        raise exception 'there is no image % of yours: upload it first, and use it within 24 hours', upload
            using errcode = 'DU004';
    end if;
    insert into posts.posts
        (id, author_id, release_time, created_at, updated_at, daily_key, request_id, caption, image_url)
    values (
        new_post, author, due_at, made_at, made_at, posts.daily_key(author, made_at),
        create_intent.request_id, create_intent.caption, posts.kept_name(upload)
    );
end
$$;
comment on function posts.create_intent(text, uuid, bytea, text, text, boolean) is
    'The post of an author and a day, or the answer that the same request got; DU002 the request id stands for another '
    'request, DU003 the day has its post (named in the detail), DU004 there is no such image.';

-- What may leave -------------------------------------------------------------------------------------------------------

create function posts.expire_uploads(most bigint) returns table (name text, kept text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    names constant text[] := array(
        select u.name
        from posts.uploads as u
        where u.created_at < duly.now() - interval '24 hours'
        order by u.created_at
        limit most
        for update skip locked
    );
begin
    -- In a statement of its own, which sees the post of whoever held an upload until we got it.
    return query
    with gone as (delete from posts.uploads as u where u.name = any (names) returning u.name, u.author_id)
    select g.name, case when not exists (
        select from posts.posts as p
        where p.author_id = g.author_id and p.image_url = posts.kept_name(g.name)
    ) then posts.kept_name(g.name) end
    from gone as g;
end
$$;
comment on function posts.expire_uploads(bigint) is
    'Forget uploads of more than 24 hours ago; which images are to be removed: the upload, and what was kept of it for no post.';

create function posts.retain(most bigint) returns bigint
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
        limit most
        for update skip locked
    );
    get diagnostics requests = row_count;
    delete from posts.intent_minutes as m
    where (m.minute, m.outcome) in (
        select e.minute, e.outcome
        from posts.intent_minutes as e
        where e.minute < duly.now() - interval '90 days'
        order by e.minute
        limit most
        for update skip locked
    );
    get diagnostics minutes = row_count;
    return requests + minutes;
end
$$;
comment on function posts.retain(bigint) is
    'Forget answers whose time is over, and minutes of more than 90 days ago; returns how many rows went.';

-- The contract's documents ---------------------------------------------------------------------------------------------

create view posts.documents with (security_invoker = true) as
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

-- Who may do what ------------------------------------------------------------------------------------------------------
-- Nobody inserts a post: an intent does, or the import, which is the owner's. A client changes the caption and nothing else.

revoke all on all functions in schema posts from public;
grant usage on schema posts to {worker}, {api}, {readonly};
grant select on all tables in schema posts to {worker}, {api}, {readonly};
grant execute on function posts.daily_key(text, timestamptz), posts.iso(timestamptz), posts.kept_name(text)
    to {worker}, {api}, {readonly};
grant update (caption) on posts.posts to {api};
grant update (
    status, lease_owner, lease_expires_at, process_attempts, settled_by, ai, ai_error
) on posts.posts to {worker};
grant insert on posts.uploads to {api};
grant insert, update on posts.intent_minutes to {api};
grant execute on function posts.create_intent(text, uuid, bytea, text, text, boolean) to {api};
grant execute on function posts.expire_uploads(bigint), posts.retain(bigint) to {worker};
