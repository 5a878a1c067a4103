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

-- Grants --------------------------------------------------------------------------------------------------------------
-- Posts are inserted by an intent, or by the import, which runs as the owner. A client changes the caption only.

grant usage on schema posts to {worker}, {api}, {readonly};
grant select on posts.posts, posts.documents, posts.daily_locks, posts.idempotency_keys, posts.uploads,
    posts.intent_minutes, posts.objectives
    to {worker}, {api}, {readonly};
grant execute on function posts.daily_key(text, timestamptz), posts.iso(timestamptz), posts.permanent_name(text)
    to {worker}, {api}, {readonly};
grant update (caption) on posts.posts to {api};
grant update (
    status, lease_owner, lease_expires_at, process_attempts, settled_by, ai, ai_error
) on posts.posts to {worker};
grant insert on posts.uploads to {api};
grant insert, update on posts.intent_minutes to {api};
grant execute on function posts.create_intent(text, uuid, bytea, text, text, boolean) to {api};
grant execute on function posts.expire_uploads(bigint), posts.retain(bigint) to {worker};
grant update (checked_at, breached_at, breaches) on posts.objectives to {worker};
