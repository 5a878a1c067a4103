-- Capture sessions, and the days that they show. {schema} is DB_SCHEMA; every statement works on tables that we migrated and
-- on those of a backend that has the contract's columns and the few that the lease migration adds.

-- Asking ----------------------------------------------------------------------------------------------------------------

-- name: add_session
-- A session begins pending; one that is given as data has nothing to wait for.
insert into {schema}.capture_session (user_id, payload, given_at, closed_at)
select
    %(user_id)s,
    given.payload,
    case when given.payload is not null then duly.clock() end,
    case when given.payload is not null then duly.clock() end
from (select %(payload)s::jsonb as payload) as given
returning id, user_id, state::text, created_at, closed_at, error, result, starts, locked_by, locked_at, lease_seconds;

-- name: lock_open_session
-- A session of this person that still takes images, for the rest of this transaction: in a statement of its own, so that the
-- next sees the images of whoever had it before.
select id
from {schema}.capture_session
where id = %(session_id)s and user_id = %(user_id)s and state = 'pending' and closed_at is null
for no key update;

-- name: add_image
-- The next image of a session that is locked, so that numbers have no gap. The same message of a bot twice is one image.
insert into {schema}.capture_image (session_id, sequence, r2_key, telegram_message_id)
select %(session_id)s::uuid, coalesce(max(i.sequence), 0) + 1, %(r2_key)s::text, %(telegram_message_id)s::bigint
from {schema}.capture_image as i
where i.session_id = %(session_id)s
on conflict (session_id, telegram_message_id) where telegram_message_id is not null do nothing
returning id, session_id, sequence, r2_key, created_at;

-- name: close_session
-- Its person says that it is complete; saying so twice is saying it once.
update {schema}.capture_session
set closed_at = coalesce(closed_at, duly.clock())
where id = %(session_id)s and user_id = %(user_id)s and state = 'pending'
returning id;

-- Bringing, one by one --------------------------------------------------------------------------------------------------

-- name: lock_bringer
-- Of one person one thing at a time is brought, for the rest of this transaction: in a statement of its own, so that the
-- next sees what the last one left.
select pg_advisory_xact_lock(%(key)s);

-- name: begin_session
-- A session under a name that its bringer gave it; nothing returned means it was begun before.
insert into {schema}.capture_session (id, user_id) values (%(session_id)s, %(user_id)s)
on conflict (id) do nothing
returning id;

-- name: find_open_session
-- The latest session of this person that still takes images, locked; how many it has, and by which message the last came.
-- One that a group of images began (its id is of version 3) comes last, and for what belongs to another not at all.
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

-- name: find_brought
-- The image that this message of a bot brought, into whichever session of this person.
select i.id, i.session_id, i.sequence, i.r2_key, i.created_at
from {schema}.capture_session as s
join {schema}.capture_image as i on i.session_id = s.id and i.telegram_message_id = %(telegram_message_id)s
where s.user_id = %(user_id)s and i.r2_key = any (%(r2_keys)s::text[])
limit 1;

-- Looking ---------------------------------------------------------------------------------------------------------------

-- name: find_session
-- A session of this person; another's is not there.
select id, user_id, state::text, created_at, closed_at, error, result, starts, locked_by, locked_at, lease_seconds
from {schema}.capture_session
where id = %(session_id)s and (%(user_id)s::bigint is null or user_id = %(user_id)s::bigint);

-- name: list_session_ids
-- The ids of sessions that begin alike, as a range of the primary key.
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
-- The images of a session, in their order.
select id, session_id, sequence, r2_key, created_at
from {schema}.capture_image
where session_id = %(session_id)s
order by sequence
limit %(limit)s;

-- name: find_snapshot
-- A day of this person as it is known now.
select s.user_id, s.schedule_date, d.current_version, s.snapshot_payload, s.source_session_id, s.updated_at
from {schema}.day_snapshot as s
left join {schema}.day_schedule as d using (user_id, schedule_date)
where s.user_id = %(user_id)s and s.schedule_date = %(schedule_date)s;

-- name: list_snapshots
-- The days of this person from one to another, as they are known now.
select s.user_id, s.schedule_date, d.current_version, s.snapshot_payload, s.source_session_id, s.updated_at
from {schema}.day_snapshot as s
left join {schema}.day_schedule as d using (user_id, schedule_date)
where s.user_id = %(user_id)s and s.schedule_date between %(first)s and %(last)s
order by s.schedule_date
limit %(limit)s;

-- name: find_version
-- A day as it once was.
select user_id, schedule_date, version, session_id, payload_hash, created_at, payload
from {schema}.schedule_version
where user_id = %(user_id)s and schedule_date = %(schedule_date)s and version = %(version)s;

-- name: list_versions
-- The versions of a day, from this one on, without their payloads, each of which may be a mebibyte.
select user_id, schedule_date, version, session_id, payload_hash, created_at
from {schema}.schedule_version
where user_id = %(user_id)s and schedule_date = %(schedule_date)s and version > %(after_version)s
order by version
limit %(limit)s;

-- name: list_events
-- The events of a day in the order in which they happened; those of another worker, which has no numbers, came before.
select
    event_id, event_type, location_fingerprint, customer_fingerprint, old_value, new_value, detected_at, source_session_id,
    seq
from {schema}.schedule_event
where user_id = %(user_id)s and schedule_date = %(schedule_date)s
    and (coalesce(seq, 0), detected_at, event_id) > (%(after_seq)s, %(after_at)s, %(after_id)s)
    and (%(session_id)s::uuid is null or source_session_id = %(session_id)s::uuid)
order by coalesce(seq, 0), detected_at, event_id
limit %(limit)s;

-- name: list_notifications
-- What a person was told, or is to be told, of a day, in the order of delivery.
select notification_id, source_session_id, status, notification_type, message, event_ids, created_at, sent_at
from {schema}.schedule_notification
where user_id = %(user_id)s and schedule_date = %(schedule_date)s
    and (created_at, notification_id) > (%(after_at)s, %(after_id)s)
order by created_at, notification_id
limit %(limit)s;

-- Working ---------------------------------------------------------------------------------------------------------------

-- name: close_idle
-- A session whose last image came long enough ago, by the database's clock, is complete although nobody said so. One that
-- is just getting an image is locked by it, and passed over.
update {schema}.capture_session as t
set closed_at = duly.clock()
where t.id = any (array(
    select o.id
    from {schema}.capture_session as o
    cross join lateral (select max(i.created_at) as at from {schema}.capture_image as i where i.session_id = o.id) as last
    where o.state = %(pending)s and o.closed_at is null
        and last.at <= duly.now() - make_interval(secs => %(idle_seconds)s)
    order by last.at, o.id
    limit %(limit)s
    for no key update of o skip locked
))
returning t.id;

-- name: lock_days
-- One writer per person and day, for the rest of this transaction: in a statement of its own, so that the next sees what the
-- last writer left; in the order of the keys, so that writers never wait in a circle.
select pg_advisory_xact_lock(ordered.key)
from (select distinct given.key from unnest(%(keys)s::bigint[]) as given (key) order by given.key) as ordered;

-- name: find_days
-- What is known of these days. A payload comes along only where another canonicaliser wrote it or a shift of its snapshot,
-- or somebody asks for it.
select
    given.user_id,
    given.schedule_date,
    pointer.current_version,
    version.payload_hash,
    form.is_foreign,
    case when given.with_payload or form.is_foreign then version.payload end as payload,
    snapshot.snapshot_payload,
    snapshot.canonicalizer,
    snapshot.events
from unnest(%(user_ids)s::bigint[], %(schedule_dates)s::date[], %(with_payload)s::boolean[])
    as given (user_id, schedule_date, with_payload)
left join lateral (
    select d.current_version
    from {schema}.day_schedule as d
    where d.user_id = given.user_id and d.schedule_date = given.schedule_date
    limit 1
) as pointer on true
left join lateral (
    select v.payload_hash, v.payload, v.canonicalizer
    from {schema}.schedule_version as v
    where v.user_id = given.user_id and v.schedule_date = given.schedule_date and v.version = pointer.current_version
    limit 1
) as version on true
left join lateral (
    select s.snapshot_payload, s.canonicalizer, s.events
    from {schema}.day_snapshot as s
    where s.user_id = given.user_id and s.schedule_date = given.schedule_date
    limit 1
) as snapshot on true
cross join lateral (
    select
        version.canonicalizer is distinct from %(canonicalizer)s or snapshot.canonicalizer <> %(canonicalizer)s as is_foreign
) as form;

-- name: find_versions
-- The same where a backend has no tables of Phase 9: only the versions are known.
select
    given.user_id,
    given.schedule_date,
    pointer.current_version,
    version.payload_hash,
    version.canonicalizer is distinct from %(canonicalizer)s as is_foreign,
    case
        when given.with_payload or version.canonicalizer is distinct from %(canonicalizer)s then version.payload
    end as payload,
    null::jsonb as snapshot_payload,
    null::integer as canonicalizer,
    0::bigint as events
from unnest(%(user_ids)s::bigint[], %(schedule_dates)s::date[], %(with_payload)s::boolean[])
    as given (user_id, schedule_date, with_payload)
left join lateral (
    select d.current_version
    from {schema}.day_schedule as d
    where d.user_id = given.user_id and d.schedule_date = given.schedule_date
    limit 1
) as pointer on true
left join lateral (
    select v.payload_hash, v.payload, v.canonicalizer
    from {schema}.schedule_version as v
    where v.user_id = given.user_id and v.schedule_date = given.schedule_date and v.version = pointer.current_version
    limit 1
) as version on true;

-- name: find_known_events
-- Where the owner's key has no session in it: which of these changes have an event already, and would get no other.
select e.event_id
from unnest(
    %(event_ids)s::uuid[], %(user_ids)s::bigint[], %(schedule_dates)s::date[], %(event_types)s::text[],
    %(locations)s::text[], %(old_hashes)s::text[], %(new_hashes)s::text[]
) as e (event_id, user_id, schedule_date, event_type, location, old_hash, new_hash)
where exists (
    select
    from {schema}.schedule_event as known
    where known.user_id = e.user_id and known.schedule_date = e.schedule_date and known.event_type = e.event_type
        and known.location_fingerprint = e.location
        and known.old_value_hash = e.old_hash and known.new_value_hash = e.new_hash
);

-- name: settle_observed
-- Goes on after a settle, in the same statement: the version of a session is written exactly when the session is still ours
-- to finish. A version that is there already is left alone, and the answer says which is which.
, versioned as (
    insert into {schema}.schedule_version (
        user_id, schedule_date, version, session_id, payload, payload_hash, created_at, canonicalizer
    )
    select g.user_id, g.schedule_date, g.version, g.key, g.payload, g.payload_hash, duly.clock(), %(canonicalizer)s
    from settled
    inner join given as g on g.key = settled.key
    where g.version is not null
    on conflict do nothing
    returning session_id
)
select settled.key, versioned.session_id is not null as is_versioned
from settled
left join versioned on versioned.session_id = settled.key;

-- name: has_version
-- Whoever finds its version taken asks whether it was by the session itself.
select version from {schema}.schedule_version where session_id = %(session_id)s;

-- name: add_further_days
-- Each further day that the photographs of a session show becomes a session of the same person, given as data and complete.
-- Only a session that we have settled gets them, so that whoever lost it adds nothing; one that is there stays as it is.
insert into {schema}.capture_session (id, user_id, payload, given_at, closed_at)
select d.id, s.user_id, d.payload, (select duly.clock()), (select duly.clock())
from unnest(%(ids)s::uuid[], %(session_ids)s::uuid[], %(owners)s::text[], %(payloads)b::jsonb[])
    as d (id, session_id, owner, payload)
cross join lateral (
    select t.user_id from {schema}.capture_session as t where t.id = d.session_id and t.settled_by = d.owner limit 1
) as s
order by d.id
on conflict (id) do nothing;

-- name: add_events
-- Every change of a shift, once: the same session seeing the same change again adds nothing.
insert into {schema}.schedule_event (
    event_id, user_id, schedule_date, event_type, location_fingerprint, customer_fingerprint, old_value_hash,
    new_value_hash, old_value, new_value, detected_at, source_session_id, seq
)
select
    e.event_id, e.user_id, e.schedule_date, e.event_type, e.location, e.customer, e.old_hash, e.new_hash, e.old_value,
    e.new_value, (select duly.clock()), e.session_id, e.seq
from unnest(
    %(event_ids)s::uuid[], %(user_ids)s::bigint[], %(schedule_dates)s::date[], %(event_types)s::text[],
    %(locations)s::text[], %(customers)s::text[], %(old_hashes)s::text[], %(new_hashes)s::text[], %(old_values)b::jsonb[],
    %(new_values)b::jsonb[], %(session_ids)s::uuid[], %(seqs)s::bigint[]
) as e (
    event_id, user_id, schedule_date, event_type, location, customer, old_hash, new_hash, old_value, new_value, session_id,
    seq
)
on conflict do nothing;

-- name: put_snapshots
-- A day as it is known now, written once by each session that looked at it.
insert into {schema}.day_snapshot as s (
    user_id, schedule_date, snapshot_payload, source_session_id, updated_at, canonicalizer, events
)
select d.user_id, d.schedule_date, d.snapshot_payload, d.session_id, duly.clock(), d.canonicalizer, d.events
from unnest(
    %(user_ids)s::bigint[], %(schedule_dates)s::date[], %(snapshots)b::jsonb[], %(session_ids)s::uuid[],
    %(canonicalizers)s::integer[], %(events)s::bigint[]
) as d (user_id, schedule_date, snapshot_payload, session_id, canonicalizer, events)
on conflict (user_id, schedule_date) do update
set snapshot_payload = excluded.snapshot_payload,
    source_session_id = excluded.source_session_id,
    updated_at = excluded.updated_at,
    canonicalizer = excluded.canonicalizer,
    events = excluded.events;

-- name: add_notices
-- Messages to be delivered, in the order given: each a microsecond after the one before, so that whoever delivers the oldest
-- first delivers them so. One that is there already stays as it is.
insert into {schema}.schedule_notification (
    notification_id, user_id, schedule_date, source_session_id, status, notification_type, message, event_ids, created_at
)
select
    n.id, n.user_id, n.schedule_date, n.session_id, 'pending', n.type, n.message, n.event_ids,
    (select duly.clock()) + n.place * interval '1 microsecond'
from unnest(
    %(ids)s::text[], %(user_ids)s::bigint[], %(schedule_dates)s::date[], %(session_ids)s::uuid[], %(types)s::text[],
    %(messages)s::text[], %(event_ids)b::jsonb[]
) with ordinality as n (id, user_id, schedule_date, session_id, type, message, event_ids, place)
on conflict do nothing;

-- name: find_languages
-- Messages about days are written in the language of their person, where we know it.
select u.telegram_id as user_id, u.language
from "user".users as u
where u.telegram_id = any(%(user_ids)s::bigint[]);

-- name: tell_senders
-- Whoever sent screenshots hears what came of them, once for a session, in their language: by Telegram, under whose id days
-- are kept. Whom we do not know, or who sent no image, is not told.
insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)
select
    'telegram', u.uid, g.kind,
    jsonb_build_object('text', coalesce(g.texts ->> u.language, g.texts ->> 'en'), 'session', g.key), 'capture:' || g.key
from unnest(%(keys)s::uuid[], %(kinds)s::text[], %(texts)b::jsonb[], %(for_bots)s::boolean[])
    as g (key, kind, texts, is_for_bots)
cross join lateral (select t.user_id from {schema}.capture_session as t where t.id = g.key limit 1) as s
cross join lateral (select w.uid, w.language from "user".users as w where w.telegram_id = s.user_id limit 1) as u
where exists (
    select
    from {schema}.capture_image as i
    where i.session_id = g.key and (i.telegram_message_id is not null or not g.is_for_bots)
)
order by g.key
on conflict (dedupe_key) do nothing;

-- name: find_columns
-- The columns of these tables; asked so that it needs no right to the schema.
select c.relname::text as table_name, array_agg(a.attname::text) as columns
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
inner join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where n.nspname = %(in_schema)s and c.relkind in ('r', 'p')
group by c.relname;

-- name: find_homes
-- The schemas of this database that have sessions.
select array_agg(n.nspname::text order by n.nspname)
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where c.relname = 'capture_session' and c.relkind in ('r', 'p');

-- name: has_owners_key
-- Is there a key of events without the session in it, as the contract has it? It is known by its columns.
select exists (
    select
    from pg_catalog.pg_index as i
    inner join pg_catalog.pg_class as c on c.oid = i.indrelid
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(in_schema)s and c.relname = 'schedule_event' and i.indisunique and not i.indisprimary
        and (
            select array_agg(a.attname::text order by a.attname)
            from pg_catalog.pg_attribute as a
            where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])
        ) = array['event_type', 'location_fingerprint', 'new_value_hash', 'old_value_hash', 'schedule_date', 'user_id']
);

-- name: find_labels
-- The states that this database knows; nothing when the table is not there.
select array_agg(e.enumlabel::text order by e.enumsortorder) as labels
from pg_catalog.pg_attribute as a
inner join pg_catalog.pg_enum as e on e.enumtypid = a.atttypid
where a.attrelid = to_regclass(%(table)s) and a.attname = 'state';
