-- Capture sessions and their images. {schema} is DB_SCHEMA. Every statement works on the tables of our migrations
-- and on those of a backend that has the contract's columns and those that the lease migration adds.

-- Creating sessions ---------------------------------------------------------------------------------------------------

-- name: add_session
-- A session starts pending. One with a payload has no images to wait for: it is closed at once.
insert into {schema}.capture_session (user_id, payload, given_at, closed_at)
select
    %(user_id)s,
    given.payload,
    case when given.payload is not null then duly.clock() end,
    case when given.payload is not null then duly.clock() end
from (select %(payload)s::jsonb as payload) as given
returning id, user_id, state::text, created_at, closed_at, error, result, starts, locked_by, locked_at, lease_seconds;

-- name: lock_open_session
-- Locks a session of this person that accepts images until the transaction ends: in a statement of its own, so that the
-- next one sees the images of the previous holder of the lock.
select id
from {schema}.capture_session
where id = %(session_id)s and user_id = %(user_id)s and state = 'pending' and closed_at is null
for no key update;

-- name: add_image
-- The next image of a session that is locked, so that numbers have no gap. The same bot message twice is one image.
insert into {schema}.capture_image (session_id, sequence, r2_key, telegram_message_id)
select %(session_id)s::uuid, coalesce(max(i.sequence), 0) + 1, %(r2_key)s::text, %(telegram_message_id)s::bigint
from {schema}.capture_image as i
where i.session_id = %(session_id)s
on conflict (session_id, telegram_message_id) where telegram_message_id is not null do nothing
returning id, session_id, sequence, r2_key, created_at;

-- name: close_session
-- Closes a session of this person; closing it again changes nothing.
update {schema}.capture_session
set closed_at = coalesce(closed_at, duly.clock())
where id = %(session_id)s and user_id = %(user_id)s and state = 'pending'
returning id;

-- Uploads of single images --------------------------------------------------------------------------------------------

-- name: lock_intake
-- Serializes uploads of one person until the transaction ends: in a statement of its own, so that the next one sees
-- what the previous upload wrote.
select pg_advisory_xact_lock(%(key)s);

-- name: add_session_with_id
-- A session with an id chosen by the caller; no row returned means that it exists.
insert into {schema}.capture_session (id, user_id) values (%(session_id)s, %(user_id)s)
on conflict (id) do nothing
returning id;

-- name: find_open_session
-- The latest session of this person that accepts images, locked; its number of images, and the message of the last one.
-- A session that belongs to a media group (id of UUID version 3) comes last, and accepts only images of its group.
select
    s.id,
    (select count(*) from {schema}.capture_image as i where i.session_id = s.id) as images,
    (select max(i.telegram_message_id) from {schema}.capture_image as i where i.session_id = s.id) as last_message_id
from {schema}.capture_session as s
where s.user_id = %(user_id)s and s.state = 'pending' and s.closed_at is null
    and (get_byte(uuid_send(s.id), 6) >> 4 <> 3 or coalesce(s.id = %(own)s::uuid, true))
order by s.id = %(own)s::uuid desc, get_byte(uuid_send(s.id), 6) >> 4 = 3, s.created_at desc, s.id desc
limit 1
for no key update of s;

-- name: find_image_by_message
-- The image that a bot message added, in whichever session of this person.
select i.id, i.session_id, i.sequence, i.r2_key, i.created_at
from {schema}.capture_session as s
join {schema}.capture_image as i on i.session_id = s.id and i.telegram_message_id = %(telegram_message_id)s
where s.user_id = %(user_id)s and i.r2_key = any (%(r2_keys)s::text[])
limit 1;

-- Reading -------------------------------------------------------------------------------------------------------------

-- name: find_session
-- A session of this person, or of any person when none is given.
select id, user_id, state::text, created_at, closed_at, error, result, starts, locked_by, locked_at, lease_seconds
from {schema}.capture_session
where id = %(session_id)s and (%(user_id)s::bigint is null or user_id = %(user_id)s::bigint);

-- name: list_session_ids
-- The ids of sessions with a common prefix, as a range of the primary key.
select id, concat_ws('  ', user_id, state::text, created_at) as label
from {schema}.capture_session
where id between %(first)s and %(last)s
order by id
limit %(limit)s;

-- name: list_sessions
-- A person's sessions, the newest first.
select id, user_id, state::text, created_at, closed_at, error, result, starts, locked_by, locked_at, lease_seconds
from {schema}.capture_session
where user_id = %(user_id)s and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
limit %(limit)s;

-- name: list_images
-- The images of a session, in order.
select id, session_id, sequence, r2_key, created_at
from {schema}.capture_image
where session_id = %(session_id)s
order by sequence
limit %(limit)s;

-- Worker --------------------------------------------------------------------------------------------------------------

-- name: close_idle
-- Closes sessions whose last image is older than the idle timeout, by the database's clock. A session that is just
-- getting an image is locked by that, and skipped.
update {schema}.capture_session as t
set closed_at = duly.clock()
where t.id = any (array(
    select o.id
    from {schema}.capture_session as o
    cross join lateral (
        select max(i.created_at) as at
        from {schema}.capture_image as i
        where i.session_id = o.id
    ) as last
    where o.state = %(pending)s and o.closed_at is null
        and last.at <= duly.now() - make_interval(secs => %(idle_seconds)s)
    order by last.at, o.id
    limit %(limit)s
    for no key update of o skip locked
))
returning t.id;
