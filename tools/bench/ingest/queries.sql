-- What the measurements of ingest ask of a database beside what is measured.

-- Making --------------------------------------------------------------------------------------------------------------

-- name: disable_triggers
-- Rows that were there before are written as a restore writes them: without guards, logs and checks of keys.
set session_replication_role = replica;

-- name: add_known
-- Days of one person as sessions of long ago left them: a version, its shifts as events and as the snapshot, one
-- message.
with known as (
    select
        duly.new_id() as session_id, %(user_id)s::bigint as user_id, d.*,
        (d.day + time '20:00') at time zone 'UTC' as at
    from unnest(
        %(days)s::date[], %(payloads)s::jsonb[], %(hashes)s::text[], %(shifts)s::jsonb[]
    ) as d (day, payload, hash, shifts)
),
sessions as (
    insert into schedule_ingest.capture_session (
        id, user_id, state, created_at, closed_at, given_at, payload, result, starts, settled_by, revision,
        transition_from
    )
    select
        session_id, user_id, 'done', at, at, at, payload,
        jsonb_build_object('outcome', 'changed', 'version', 1, 'schedule_date', day),
        1, 'worker-1/bench', 3, 'processing'
    from known
),
versions as (
    insert into schedule_ingest.schedule_version (
        user_id, schedule_date, version, session_id, payload, payload_hash, created_at, canonicalizer
    )
    select user_id, day, 1, session_id, payload, hash, at, %(canonicalizer)s from known
),
pointers as (
    insert into schedule_ingest.day_schedule (user_id, schedule_date, current_version) select user_id, day, 1 from known
),
snapshots as (
    insert into schedule_ingest.day_snapshot (
        user_id, schedule_date, snapshot_payload, source_session_id, updated_at, canonicalizer, events
    )
    select user_id, day, shifts, session_id, at, %(canonicalizer)s, jsonb_array_length(shifts) from known
),
events as (
    insert into schedule_ingest.schedule_event (
        event_id, user_id, schedule_date, event_type, location_fingerprint, customer_fingerprint, old_value_hash,
        new_value_hash, new_value, detected_at, source_session_id, seq
    )
    select
        gen_random_uuid(), user_id, day, 'shift_added',
        shift ->> 'location_fingerprint', shift ->> 'customer_fingerprint',
        encode(sha256('null'), 'hex'), encode(sha256(shift::text::bytea), 'hex'), shift, at, session_id, nth
    from known, jsonb_array_elements(shifts) with ordinality as s (shift, nth)
    returning event_id, source_session_id
),
notified as (select source_session_id, jsonb_agg(event_id) as event_ids from events group by source_session_id)
insert into schedule_ingest.schedule_notification (
    notification_id, user_id, schedule_date, source_session_id,
    status, notification_type, message, event_ids, created_at, sent_at
)
select
    k.session_id, k.user_id, k.day, k.session_id, 'sent', 'summary', 'changes on ' || k.day, t.event_ids, k.at, k.at
from known as k
join notified as t on t.source_session_id = k.session_id;

-- name: vacuum
-- As tables that have stood for a while: their statistics are known and their pages are marked.
vacuum (analyze) schedule_ingest.capture_session, schedule_ingest.schedule_version, schedule_ingest.day_schedule,
    schedule_ingest.day_snapshot, schedule_ingest.schedule_event, schedule_ingest.schedule_notification,
    duly.transition;

-- name: add_sessions
-- Sessions that are given as data, under every rule, in the order of their numbers.
insert into schedule_ingest.capture_session (id, user_id, payload, given_at, closed_at)
select g.id, g.user_id, g.payload, duly.clock(), duly.clock()
from unnest(%(ids)s::uuid[], %(user_ids)s::bigint[], %(payloads)s::jsonb[])
    with ordinality as g (id, user_id, payload, nth)
order by g.nth;

-- Looking -------------------------------------------------------------------------------------------------------------

-- name: has_unfinished
-- Does a session wait, or is any being processed?
select exists (select from schedule_ingest.capture_session where state = 'pending')
    or exists (select from schedule_ingest.capture_session where state = 'processing');

-- name: get_drain
-- What came of the sessions from this key on: each done, logged, and what it wrote written once; and how long all took.
with drained as (select id, result from schedule_ingest.capture_session where id >= %(first)s and state = 'done'),
logged as (
    select t.next_status, t.ts
    from drained as d
    join duly.transition as t on t.machine = 'capture' and t.key = d.id::text
)
select
    (select count(*) from drained) as sessions,
    (select count(*) from drained where result ->> 'outcome' = 'changed') as changed,
    (select count(*) from schedule_ingest.schedule_version where session_id >= %(first)s) as versions,
    (select count(*) from schedule_ingest.schedule_event where source_session_id >= %(first)s) as events,
    (select count(*) from schedule_ingest.schedule_notification where source_session_id >= %(first)s) as messages,
    (select count(*) from logged) as transitions,
    (
        select date_part(
            'epoch', max(ts) filter (where next_status = 'done') - min(ts) filter (where next_status = 'processing')
        ) from logged
    ) as seconds;
