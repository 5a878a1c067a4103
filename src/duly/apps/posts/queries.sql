-- Posts. Every statement is bounded. Released posts are public; others are visible to their author only.

-- Creating ------------------------------------------------------------------------------------------------------------

-- name: create_intent
-- Creates the only post of an author and day; the same request gets the stored response. Refusals have their own
-- SQLSTATE.
select is_new, answer as response
from posts.create_intent(%(author)s, %(request_id)s, %(digest)s, %(caption)s, %(upload)s, %(is_stored)s);

-- name: add_upload
-- The author of an image, written before the image is stored: no image exists without its row.
insert into posts.uploads (name, author_id) values (%(name)s, %(author)s);

-- name: edit_caption
-- The author may edit the caption until the post is claimed: an edit that waited for the claim changes nothing.
update posts.posts set caption = %(caption)s
where id = %(post_id)s and author_id = %(author)s and status = 'PENDING'
returning id;

-- Reading -------------------------------------------------------------------------------------------------------------

-- name: find_post
-- A post that the viewer may see; request and lease are visible to its author and to administrators ('*') only.
select id, author_id, status, release_time, created_at, updated_at, daily_key, version, process_attempts, ai, ai_error,
    caption, image_url, released_at,
    case when %(private_viewer)s in (author_id, '*') then request_id end as request_id,
    case when %(private_viewer)s in (author_id, '*') then lease_owner end as lease_owner,
    case when %(private_viewer)s in (author_id, '*') then lease_expires_at end as lease_expires_at
from posts.posts
where id = %(post_id)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'));

-- name: list_post_ids
-- Ids of posts with a common prefix that the viewer may see, as a range of the primary key.
select id, concat_ws('  ', author_id, status) as label
from posts.posts
where id between %(first)s and %(last)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'))
order by id
limit %(limit)s;

-- name: list_released
-- The public feed, the newest first, including posts of the first version.
select id, author_id, status, release_time, created_at, updated_at, daily_key, version, process_attempts, ai, ai_error,
    caption, image_url, released_at,
    case when %(private_viewer)s in (author_id, '*') then request_id end as request_id,
    case when %(private_viewer)s in (author_id, '*') then lease_owner end as lease_owner,
    case when %(private_viewer)s in (author_id, '*') then lease_expires_at end as lease_expires_at
from posts.posts
where status = 'RELEASED' and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
limit %(limit)s;

-- name: list_by_author
-- The posts of one author that the viewer may see, the newest first.
select id, author_id, status, release_time, created_at, updated_at, daily_key, version, process_attempts, ai, ai_error,
    caption, image_url, released_at,
    case when %(private_viewer)s in (author_id, '*') then request_id end as request_id,
    case when %(private_viewer)s in (author_id, '*') then lease_owner end as lease_owner,
    case when %(private_viewer)s in (author_id, '*') then lease_expires_at end as lease_expires_at
from posts.posts
where author_id = %(author)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'))
    and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
limit %(limit)s;

-- Releasing -----------------------------------------------------------------------------------------------------------

-- name: write_notices
-- Notifies each author once, in the transaction that releases the post and in their language: by Telegram if linked,
-- else on the console. Authors of imported documents are not notified.
insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)
select
    case when author.telegram_id is null then 'console' else 'telegram' end, p.author_id, 'post.released',
    jsonb_build_object(
        'text', coalesce(%(texts)s::jsonb ->> author.language, %(texts)s::jsonb ->> 'en'),
        'postId', p.id, 'releasedAt', posts.iso(p.released_at), 'mood', p.ai -> 'mood'
    ),
    'post.released:' || p.id
from unnest((select %(post_ids)s::uuid[])) as given (id)
cross join lateral (select * from posts.posts as t where t.id = given.id limit 1) as p
cross join lateral (select * from duly.person as t where t.uid = p.author_id limit 1) as author
where p.legacy is null
order by p.id
on conflict (dedupe_key) do nothing;

-- Purging -------------------------------------------------------------------------------------------------------------

-- name: expire_uploads
-- Delete uploads that no post uses in time; return their names, and those of their permanent copies.
select name, permanent from posts.expire_uploads(%(limit)s);

-- name: retain
-- Deletes expired responses and per-minute counts.
select posts.retain(%(limit)s);

-- Counting intents ----------------------------------------------------------------------------------------------------

-- name: count_intents
-- Adds to the counts by outcome of the current minute.
insert into posts.intent_minutes as m (minute, outcome, intents)
select date_trunc('minute', duly.clock(), 'UTC'), g.outcome, g.intents
from unnest(%(outcomes)s::text[], %(intents)s::bigint[]) as g (outcome, intents)
order by g.outcome
on conflict (minute, outcome) do update set intents = m.intents + excluded.intents;

-- The first version ---------------------------------------------------------------------------------------------------

-- name: add_authors
-- Creates people for the authors of imported documents.
insert into duly.person (uid) select distinct g.uid from unnest(%(authors)s::text[]) as g (uid) order by 1
on conflict (uid) do nothing;

-- name: add_legacy
-- Inserts documents of the first version; existing rows stay unchanged.
insert into posts.posts (
    id, author_id, status, created_at, updated_at, release_time, released_at, daily_key, request_id, caption, image_url,
    ai, ai_error, legacy
)
select g.id, g.author_id, g.status, g.created_at, coalesce(g.released_at, g.created_at), g.release_time, g.released_at,
    g.daily_key, g.request_id, g.caption, g.image_url, g.ai, g.ai_error, g.document
from jsonb_to_recordset(%(rows)s::jsonb) as g (
    id uuid, author_id text, status text, created_at timestamptz, release_time timestamptz, released_at timestamptz,
    daily_key text, request_id uuid, caption text, image_url text, ai jsonb, ai_error text, document jsonb
)
order by g.id
on conflict (id) do nothing
returning id;

-- name: add_locks
-- Locks the day of each imported document that has a daily key.
insert into posts.daily_locks (id, created_at, post_id)
select posts.daily_key(p.author_id, p.created_at) || '_UTC', p.created_at, p.id
from posts.posts as p
where p.id = any (%(post_ids)s::uuid[]) and p.daily_key is not null
order by 1
on conflict (id) do nothing;
