-- What the measurements of posts ask of a database beside what is measured.

-- Making --------------------------------------------------------------------------------------------------------------

-- name: add_people
-- As many as asked for, called by a prefix and a number from 1 on.
insert into duly.person (uid) select %(prefix)s::text || n from generate_series(1, %(people)s::bigint) as n;

-- name: read_clock
-- The database's time is the only one that counts.
select clock_timestamp();

-- name: add_waiting
-- Posts as intents leave them, with their locks and under every rule: one of each of these people, due one after the
-- other within so many seconds from `first` on.
with waiting as (
    select
        duly.new_id() as id, %(prefix)s::text || n as author,
        (%(captions)s::text[])[1 + n %% cardinality(%(captions)s::text[])] as caption,
        %(first)s::timestamptz - interval '6 hours'
            + make_interval(secs => %(seconds)s::float * (n - 1) / %(posts)s::bigint) as made_at
    from generate_series(1, %(posts)s::bigint) as n
),
locks as (
    insert into posts.daily_locks (id, created_at, post_id)
    select posts.daily_key(author, made_at) || '_UTC', made_at, id from waiting
)
insert into posts.posts (id, author_id, release_time, created_at, updated_at, daily_key, request_id, caption, image_url)
select
    id, author, made_at + interval '6 hours', made_at, made_at, posts.daily_key(author, made_at), gen_random_uuid(),
    caption, posts.permanent_name('temp/' || gen_random_uuid() || '.jpg')
from waiting;

-- name: disable_triggers
-- Rows that were there before are written as a restore writes them: without guards, logs and wake-ups.
set session_replication_role = replica;

-- name: add_stored
-- Posts that were released in the last weeks, the oldest first: fifty of each author, one a day, with their locks;
-- those from this number to that one.
with stored as (
    select
        duly.new_id() as id, %(prefix)s::text || 1 + n %% %(authors)s::bigint as author,
        (%(captions)s::text[])[1 + n %% cardinality(%(captions)s::text[])] as caption,
        date_trunc('day', clock_timestamp(), 'UTC') - interval '52 days'
            + make_interval(days => (n / %(authors)s::bigint)::integer)
            + make_interval(secs => 86400.0 * (n %% %(authors)s::bigint) / %(authors)s::bigint) as made_at
    from generate_series(%(begin)s::bigint, %(end)s::bigint - 1) as n
),
locks as (
    insert into posts.daily_locks (id, created_at, post_id)
    select posts.daily_key(author, made_at) || '_UTC', made_at, id from stored
)
insert into posts.posts (
    id, author_id, status, release_time, created_at, updated_at, daily_key, version, request_id, process_attempts, ai,
    caption, image_url, released_at, settled_by, revision, transition_from
)
select
    id, author, 'RELEASED', made_at + interval '6 hours', made_at, made_at + interval '6 hours 1 second',
    posts.daily_key(author, made_at), 3, gen_random_uuid(), 1, %(ai)s::jsonb, caption,
    posts.permanent_name('temp/' || gen_random_uuid() || '.jpg'), made_at + interval '6 hours 1 second',
    'worker-1/bench', 3, 'PROCESSING'
from stored;

-- name: vacuum
-- As tables that have stood for a while: their statistics are known and their pages are marked.
vacuum (analyze) posts.posts, posts.daily_locks, duly.person;

-- name: add_authors
-- People with a key each and an upload each, who have not posted.
with people as (
    insert into duly.person (uid) select g.uid from unnest(%(uids)s::text[]) as g (uid) returning id, uid
),
uploads as (
    insert into posts.uploads (name, author_id)
    select g.name, g.uid from unnest(%(uids)s::text[], %(uploads)s::text[]) as g (uid, name)
)
insert into duly.api_keys (name, prefix, secret_sha256, scopes, person_id)
select g.uid, g.prefix, g.secret, array['posts:read', 'posts:write'], p.id
from unnest(%(uids)s::text[], %(prefixes)s::text[], %(secrets)s::bytea[]) as g (uid, prefix, secret)
join people as p on p.uid = g.uid;

-- Looking -------------------------------------------------------------------------------------------------------------

-- name: has_unfinished
-- Does a post that was due from `first` on still wait, or is any being prepared?
select exists (select from posts.posts where status = 'PENDING' and release_time between %(first)s and %(last)s)
    or exists (select from posts.posts where status = 'PROCESSING');

-- name: get_release
-- How the posts that were due from `first` on were released, and that each was: read, notified and logged, once.
with released as (
    select id, ai, released_at, date_part('epoch', released_at - release_time) as lag
    from posts.posts
    where release_time between %(first)s and %(last)s and status = 'RELEASED'
)
select
    count(*) as posts,
    count(ai) as readings,
    (select count(*) from released as r join duly.outbox as o on o.dedupe_key = 'post.released:' || r.id) as notices,
    (
        select count(*) from released as r join duly.transition as t on t.machine = 'post' and t.key = r.id::text
    ) as transitions,
    date_part('epoch', max(released_at) - (
        select min(t.ts) from duly.transition as t where t.ts >= %(first)s and t.machine = 'post' and t.seq = 2
    )) as seconds,
    percentile_cont(0.5) within group (order by lag) as lag_p50_s,
    percentile_cont(0.95) within group (order by lag) as lag_p95_s,
    max(lag) as lag_max_s
from released;

-- name: count_intents
-- How many of these people have a post, with its lock and its answer.
select count(*)
from posts.posts as p
join posts.daily_locks as l on l.post_id = p.id
join posts.idempotency_keys as k on k.post_id = p.id
where p.author_id = any (%(uids)s::text[]);
