-- Writing what settled captures show. {schema} is DB_SCHEMA; the tables are ours or a backend's, as in queries.sql.

-- name: lock_days
-- One writer per person and day until the transaction ends: in a statement of its own, so that the next one sees what
-- the previous writer wrote; in the order of the keys, so that writers cannot deadlock.
select pg_advisory_xact_lock(ordered.key)
from (select distinct given.key from unnest(%(keys)s::bigint[]) as given (key) order by given.key) as ordered;

-- name: find_days
-- What is known of these days. The payload is included only where it is requested, or where another canonicalizer wrote
-- it or a shift of its snapshot.
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
        version.canonicalizer is distinct from %(canonicalizer)s
        or snapshot.canonicalizer <> %(canonicalizer)s as is_foreign
) as form;

-- name: find_days_by_version
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

-- name: find_existing_events
-- Where the unique key of events does not include the session: which of these changes have an event already, so that
-- a second one would be rejected.
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

-- name: has_version
-- Whether a session wrote a version: tells a version of its own from one of another session.
select version from {schema}.schedule_version where session_id = %(session_id)s;

-- name: add_further_days
-- Each further day in the photographs of a session becomes a session of the same person, given as data and closed.
-- Only a session that we have settled gets them, so that a worker that lost it adds nothing; an existing one stays as
-- it is.
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
-- Every change of a shift, once: repeating a session adds nothing.
insert into {schema}.schedule_event (
    event_id, user_id, schedule_date, event_type, location_fingerprint, customer_fingerprint, old_value_hash,
    new_value_hash, old_value, new_value, detected_at, source_session_id, seq
)
select
    e.event_id, e.user_id, e.schedule_date, e.event_type, e.location, e.customer, e.old_hash, e.new_hash, e.old_value,
    e.new_value, (select duly.clock()), e.session_id, e.seq
from unnest(
    %(event_ids)s::uuid[], %(user_ids)s::bigint[], %(schedule_dates)s::date[], %(event_types)s::text[],
    %(locations)s::text[], %(customers)s::text[], %(old_hashes)s::text[], %(new_hashes)s::text[],
    %(old_values)b::jsonb[], %(new_values)b::jsonb[], %(session_ids)s::uuid[], %(seqs)s::bigint[]
) as e (
    event_id, user_id, schedule_date, event_type,
    location, customer, old_hash, new_hash,
    old_value, new_value, session_id, seq
)
on conflict do nothing;

-- name: put_day_snapshots
-- Stores a day as it is known now, with the session that it comes from.
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

-- name: add_notifications
-- Notifications in the order given: each a microsecond after the previous one, so that delivery by created_at keeps
-- the order. An existing one stays as it is.
insert into {schema}.schedule_notification (
    notification_id, user_id, schedule_date, source_session_id,
    status, notification_type, message, event_ids, created_at
)
select
    n.id, n.user_id, n.schedule_date, n.session_id, 'pending', n.type, n.message, n.event_ids,
    (select duly.clock()) + n.position * interval '1 microsecond'
from unnest(
    %(ids)s::text[], %(user_ids)s::bigint[], %(schedule_dates)s::date[], %(session_ids)s::uuid[], %(types)s::text[],
    %(messages)s::text[], %(event_ids)b::jsonb[]
) with ordinality as n (id, user_id, schedule_date, session_id, type, message, event_ids, position)
on conflict do nothing;

-- name: find_languages
-- The languages of the people whom we know, for the notifications about their days.
select p.telegram_id as user_id, p.language
from duly.person as p
where p.telegram_id = any(%(user_ids)s::bigint[]);

-- name: notify_senders
-- Notifies the person who sent screenshots, once per session, in their language, by Telegram: days are stored under
-- Telegram ids. People whom we do not know, and sessions without an image, get nothing.
insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)
select
    'telegram', p.uid, g.type,
    jsonb_build_object('text', coalesce(g.texts ->> p.language, g.texts ->> 'en'), 'session', g.key),
    'capture:' || g.key
from unnest(%(keys)s::uuid[], %(types)s::text[], %(texts)b::jsonb[], %(for_bot_only)s::boolean[])
    as g (key, type, texts, is_for_bot_only)
cross join lateral (select t.user_id from {schema}.capture_session as t where t.id = g.key limit 1) as s
cross join lateral (select t.uid, t.language from duly.person as t where t.telegram_id = s.user_id limit 1) as p
where exists (
    select
    from {schema}.capture_image as i
    where i.session_id = g.key and (i.telegram_message_id is not null or not g.is_for_bot_only)
)
order by g.key
on conflict (dedupe_key) do nothing;
