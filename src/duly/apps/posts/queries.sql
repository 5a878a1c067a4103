-- Posts. Every statement is bounded: what is released everybody may see, what is not only its author.

-- Asking ----------------------------------------------------------------------------------------------------------------

-- name: create_intent
-- One post per author and day; the same request gets the answer it got. Everything else is refused by SQLSTATE.
select is_new, answer
from posts.create_intent(%(author)s, %(request_id)s, %(digest)s, %(caption)s, %(upload)s, %(is_kept)s);

-- name: add_upload
-- Whose an image is, written before the image: none is ever without its row.
insert into posts.uploads (name, author_id) values (%(name)s, %(author)s);

-- name: edit_caption
-- The caption is its author's until the post is taken: an edit that waited for the claim finds nothing to change.
update posts.posts set caption = %(caption)s
where id = %(key)s and author_id = %(author)s and status = 'PENDING'
returning id;

-- Looking ---------------------------------------------------------------------------------------------------------------

-- name: find_post
-- A post that this viewer may see; its request and its lease are for its author and for administrators, the reader '*'.
select id, author_id, status, release_time, created_at, updated_at, daily_key, version, process_attempts, ai, ai_error,
    caption, image_url, released_at,
    case when %(reader)s in (author_id, '*') then request_id end as request_id,
    case when %(reader)s in (author_id, '*') then lease_owner end as lease_owner,
    case when %(reader)s in (author_id, '*') then lease_expires_at end as lease_expires_at
from posts.posts
where id = %(key)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'));

-- name: list_post_ids
-- The ids of posts that begin alike and that this viewer may see, as a range of the primary key.
select id, concat_ws('  ', author_id, status) as label
from posts.posts
where id between %(first)s and %(last)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'))
order by id
limit %(limit)s;

-- name: list_released
-- Everybody's feed, the newest first, posts of the first version among them.
select id, author_id, status, release_time, created_at, updated_at, daily_key, version, process_attempts, ai, ai_error,
    caption, image_url, released_at,
    case when %(reader)s in (author_id, '*') then request_id end as request_id,
    case when %(reader)s in (author_id, '*') then lease_owner end as lease_owner,
    case when %(reader)s in (author_id, '*') then lease_expires_at end as lease_expires_at
from posts.posts
where status = 'RELEASED' and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
limit %(limit)s;

-- name: list_of_author
-- The posts of one author that this viewer may see, the newest first.
select id, author_id, status, release_time, created_at, updated_at, daily_key, version, process_attempts, ai, ai_error,
    caption, image_url, released_at,
    case when %(reader)s in (author_id, '*') then request_id end as request_id,
    case when %(reader)s in (author_id, '*') then lease_owner end as lease_owner,
    case when %(reader)s in (author_id, '*') then lease_expires_at end as lease_expires_at
from posts.posts
where author_id = %(author)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'))
    and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
limit %(limit)s;

-- Releasing -------------------------------------------------------------------------------------------------------------

-- name: write_notices
-- Whoever posted is told once, in the transaction that releases, in their language: by Telegram where they are known there.
-- The author of an imported document is not told: it was posted long ago, elsewhere.
insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)
select
    case when u.telegram_id is null then 'console' else 'telegram' end, p.author_id, 'post.released',
    jsonb_build_object(
        'text', coalesce(%(texts)s::jsonb ->> u.language, %(texts)s::jsonb ->> 'en'),
        'postId', p.id, 'releasedAt', posts.iso(p.released_at), 'mood', p.ai -> 'mood'
    ),
    'post.released:' || p.id
from unnest((select %(keys)s::uuid[])) as given (key)
cross join lateral (select * from posts.posts as t where t.id = given.key limit 1) as p
cross join lateral (select * from "user".users as w where w.uid = p.author_id limit 1) as u
where p.legacy is null
order by p.id
on conflict (dedupe_key) do nothing;

-- Tidying ---------------------------------------------------------------------------------------------------------------

-- name: expire_uploads
-- Uploads that no post was made of in time, and what was kept of them.
select name, kept from posts.expire_uploads(%(limit)s);

-- name: retain
-- Answers and minutes whose time is over.
select posts.retain(%(limit)s);

-- How intents fare ------------------------------------------------------------------------------------------------------

-- name: count_intents
-- So many more ended so, in this minute.
insert into posts.intent_minutes as m (minute, outcome, intents)
select date_trunc('minute', duly.clock(), 'UTC'), g.outcome, g.intents
from unnest(%(outcomes)s::text[], %(intents)s::bigint[]) as g (outcome, intents)
order by g.outcome
on conflict (minute, outcome) do update set intents = m.intents + excluded.intents;

-- The first version -----------------------------------------------------------------------------------------------------

-- name: add_authors
-- Whoever posted in the first version is somebody here too.
insert into "user".users (uid) select distinct g.uid from unnest(%(authors)s::text[]) as g (uid) order by 1
on conflict (uid) do nothing;

-- name: add_legacy
-- Documents of the first version become rows, once: what is there already stays as it is.
insert into posts.posts (
    id, author_id, status, created_at, updated_at, release_time, released_at, daily_key, request_id, caption, image_url, ai,
    ai_error, legacy
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
-- A day that had its post in the first version has it here: only of documents that say so by their daily key.
insert into posts.daily_locks (id, created_at, post_id)
select posts.daily_key(p.author_id, p.created_at) || '_UTC', p.created_at, p.id
from posts.posts as p
where p.id = any (%(keys)s::uuid[]) and p.daily_key is not null
order by 1
on conflict (id) do nothing;
