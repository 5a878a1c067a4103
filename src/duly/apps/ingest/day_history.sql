-- Days as they are known now, and their history. {schema} is DB_SCHEMA; the tables are ours or a backend's, as in
-- queries.sql.

-- name: get_day
-- A day of this person as it is known now.
select s.user_id, s.schedule_date, d.current_version, s.snapshot_payload, s.source_session_id, s.updated_at
from {schema}.day_snapshot as s
left join {schema}.day_schedule as d using (user_id, schedule_date)
where s.user_id = %(user_id)s and s.schedule_date = %(schedule_date)s;

-- name: list_days
-- The days of this person between two dates, as they are known now.
select s.user_id, s.schedule_date, d.current_version, s.snapshot_payload, s.source_session_id, s.updated_at
from {schema}.day_snapshot as s
left join {schema}.day_schedule as d using (user_id, schedule_date)
where s.user_id = %(user_id)s and s.schedule_date between %(first)s and %(last)s
order by s.schedule_date
limit %(limit)s;

-- name: get_version
-- A version of a day, with its payload.
select user_id, schedule_date, version, session_id, payload_hash, created_at, payload
from {schema}.schedule_version
where user_id = %(user_id)s and schedule_date = %(schedule_date)s and version = %(version)s;

-- name: list_versions
-- The versions of a day after this one, without their payloads, each of which may be 1 MiB.
select user_id, schedule_date, version, session_id, payload_hash, created_at
from {schema}.schedule_version
where user_id = %(user_id)s and schedule_date = %(schedule_date)s and version > %(after_version)s
order by version
limit %(limit)s;

-- name: list_events
-- The events of a day in the order in which they happened. Events of other programs have no seq, and come first.
select
    event_id, event_type, location_fingerprint, customer_fingerprint, old_value, new_value, detected_at,
    source_session_id, seq
from {schema}.schedule_event
where user_id = %(user_id)s and schedule_date = %(schedule_date)s
    and (coalesce(seq, 0), detected_at, event_id) > (%(after_seq)s, %(after_at)s, %(after_id)s)
    and (%(session_id)s::uuid is null or source_session_id = %(session_id)s::uuid)
order by coalesce(seq, 0), detected_at, event_id
limit %(limit)s;

-- name: list_notifications
-- The notifications about a day, in order of delivery.
select notification_id, source_session_id, status, notification_type, message, event_ids, created_at, sent_at
from {schema}.schedule_notification
where user_id = %(user_id)s and schedule_date = %(schedule_date)s
    and (created_at, notification_id) > (%(after_at)s, %(after_id)s)
order by created_at, notification_id
limit %(limit)s;
