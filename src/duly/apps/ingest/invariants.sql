-- Invariants of ingest; see verify/invariants.sql.

-- name: days_have_every_version
-- The versions of a day are numbered 1, 2, 3, and the day refers to the last of them.
select format(
    '%%s of %%s has %%s versions from %%s to %%s, and points at %%s',
    schedule_date, user_id, coalesce(v.versions, 0), coalesce(v.first, 0), coalesce(v.last, 0),
    coalesce(d.current_version::text, 'none')
) as offender
from (
    select user_id, schedule_date, count(*) as versions, min(version) as first, max(version) as last
    from {ingest}.schedule_version
    group by user_id, schedule_date
) as v
full join {ingest}.day_schedule as d using (user_id, schedule_date)
where (v.first, v.last, d.current_version) is distinct from (1, v.versions::integer, v.versions::integer)
order by user_id, schedule_date
limit %(limit)s;

-- name: captures_create_at_most_one_version
-- A session creates at most one version of one day.
select format('capture %%s made %%s versions', session_id, count(*)) as offender
from {ingest}.schedule_version
group by session_id
having count(*) > 1
order by session_id
limit %(limit)s;

-- name: versions_differ_from_the_one_before
-- An unchanged day gets no new version. Versions of another canonicaliser are not compared.
select format('version %%s of %%s of %%s equals the one before', version, schedule_date, user_id) as offender
from (
    select user_id, schedule_date, version, payload_hash, canonicalizer,
        lag(payload_hash) over day as hash_before, lag(canonicalizer) over day as canonicalizer_before
    from {ingest}.schedule_version
    window day as (partition by user_id, schedule_date order by version)
) as numbered
where payload_hash = hash_before and canonicalizer = canonicalizer_before
order by user_id, schedule_date, version
limit %(limit)s;

-- name: versions_belong_to_finished_captures
-- A version belongs to a session of the same user that is done: both were written in one transaction.
select format(
    'version %%s of %%s of %%s was written by capture %%s of %%s, which is %%s',
    v.version, v.schedule_date, v.user_id, v.session_id, coalesce(s.user_id::text, 'none'),
    coalesce(s.state::text, 'not there')
) as offender
from {ingest}.schedule_version as v
left join {ingest}.capture_session as s on s.id = v.session_id
where (s.user_id, s.state::text) is distinct from (v.user_id, %(done)s)
order by v.user_id, v.schedule_date, v.version
limit %(limit)s;

-- name: captures_belong_to_their_user
-- The changes and notifications of a session belong to the user of the session.
select format('%%s of %%s was written by capture %%s of %%s', child.what, child.user_id, s.id, s.user_id) as offender
from (
    select 'event ' || event_id as what, user_id, source_session_id from {ingest}.schedule_event
    union all
    select 'notification ' || notification_id, user_id, source_session_id from {ingest}.schedule_notification
    union all
    select 'the snapshot of ' || schedule_date, user_id, source_session_id from {ingest}.day_snapshot
) as child
join {ingest}.capture_session as s on s.id = child.source_session_id
where s.user_id <> child.user_id
order by 1
limit %(limit)s;

-- name: events_rebuild_their_day
-- Applying the events of a day gives exactly its snapshot. Days with events of another program, which have no sequence
-- number, are not checked.
select format(
    '%%s of %%s: by its events it has %%s of %%s, by its snapshot %%s',
    schedule_date, user_id, sum(logged), value, sum(known)
) as offender
from (
    select e.user_id, e.schedule_date, side.value, side.logged, 0 as known
    from {ingest}.schedule_event as e
    cross join lateral (values (e.new_value, 1), (e.old_value, -1)) as side (value, logged)
    where side.value is not null
    union all
    select s.user_id, s.schedule_date, shift.value, 0, 1
    from {ingest}.day_snapshot as s
    cross join lateral jsonb_array_elements(s.snapshot_payload) as shift
) as either
where not exists (
    select from {ingest}.schedule_event as u
    where u.user_id = either.user_id and u.schedule_date = either.schedule_date and u.seq is null
)
group by user_id, schedule_date, value
having sum(logged) <> sum(known)
order by user_id, schedule_date, value
limit %(limit)s;

-- name: events_of_a_day_are_counted
-- The events of a day are numbered 1, 2, 3, and its snapshot has their number.
select format('%%s of %%s has %%s events from %%s to %%s, and its snapshot counts %%s', schedule_date, user_id,
    coalesce(e.events, 0), coalesce(e.first, 0), coalesce(e.last, 0), coalesce(s.events::text, 'none')) as offender
from (
    select user_id, schedule_date, count(*) as events, min(seq) as first, max(seq) as last
    from {ingest}.schedule_event
    where seq is not null
    group by user_id, schedule_date
) as e
full join {ingest}.day_snapshot as s using (user_id, schedule_date)
where s.events is distinct from coalesce(e.events, 0) or e.first <> 1 or e.last <> e.events
order by user_id, schedule_date
limit %(limit)s;

-- name: changed_days_have_events
-- A version with other text or other digits than the previous one at some time of the day has an event. Differences in
-- case, accents, punctuation, order, look-alikes, durations and two letters of a long word do not count. Versions of
-- the first canonicaliser, which dropped words, of other programs, and tables without a log of sessions are not
-- checked.
select format(
    'version %%s of %%s of %%s has no event, and from %%s to %%s the word %%s is in one of both alone',
    version, schedule_date, user_id, start, "end", min(word)
) as offender
from (
    select v.user_id, v.schedule_date, v.version, entry.value ->> 'start' as start, entry.value ->> 'end' as "end",
        coalesce(array_agg(read.word) filter (where side.is_new), array[]::text[]) as after,
        coalesce(array_agg(read.word) filter (where not side.is_new), array[]::text[]) as before
    from {ingest}.schedule_version as v
    join {ingest}.capture_session as s on s.id = v.session_id and s.revision > 0
    left join {ingest}.schedule_version as b
        on b.user_id = v.user_id and b.schedule_date = v.schedule_date and b.version = v.version - 1
    cross join lateral (values (v.payload, true), (b.payload, false)) as side (payload, is_new)
    cross join lateral jsonb_array_elements(side.payload -> 'entries') as entry
    cross join lateral concat_ws(' ',
        regexp_replace(entry.value ->> 'title', '(\s*\m(\d+\s?h)?\s?(\d+\s?m(in)?)?)+$', '', 'i'),
        entry.value ->> 'location', entry.value ->> 'address') as shown (text)
    cross join lateral translate(
        regexp_replace(normalize(lower(shown.text), nfkd), '[\u0300-\u036f\u200b]', '', 'g'),
        '01i|',
        'olll'
    ) as bare (text)
    cross join lateral regexp_matches(bare.text, '[[:alpha:]]+|[2-9]', 'g') as found (words)
    cross join lateral (values (found.words[1])) as read (word)
    where v.canonicalizer >= 2 and v.payload -> 'entries' is distinct from b.payload -> 'entries'
        and read.word ~ '^[2-9]$|..' and read.word !~ '^[lo]+$'
        and not exists (select from {ingest}.schedule_event as e where e.source_session_id = v.session_id)
    group by v.user_id, v.schedule_date, v.version, 4, 5
) as silent
cross join lateral (values (silent.before, silent.after), (silent.after, silent.before)) as way (one, other)
cross join lateral unnest(way.one) as missing (word)
where missing.word <> all (way.other) and not exists (
    select
    from unnest(way.other) as near (word)
    where char_length(near.word) = char_length(missing.word) and char_length(missing.word) >= 8 and (
        select count(*)
        from generate_series(1, char_length(near.word)) as nth
        where substr(near.word, nth, 1) <> substr(missing.word, nth, 1)
    ) <= 2
)
group by user_id, schedule_date, version, start, "end"
order by user_id, schedule_date, version, start, "end"
limit %(limit)s;

-- name: notifications_are_about_events
-- A notification refers to events of the same user, day and session.
select format(
    'notification %%s to %%s is about event %%s, which does not exist',
    n.notification_id, n.user_id, logged.id
) as offender
from {ingest}.schedule_notification as n
cross join lateral jsonb_array_elements_text(n.event_ids) as logged (id)
where not exists (
    select from {ingest}.schedule_event as e
    where e.event_id::text = logged.id and e.user_id = n.user_id and e.schedule_date = n.schedule_date
        and e.source_session_id = n.source_session_id
)
order by n.notification_id
limit %(limit)s;

-- name: events_are_reported_once
-- No event is in two notifications.
select format('event %%s is in %%s notifications', logged.id, count(*)) as offender
from {ingest}.schedule_notification as n
cross join lateral jsonb_array_elements_text(n.event_ids) as logged (id)
group by logged.id
having count(*) > 1
order by logged.id
limit %(limit)s;

-- name: failed_captures_have_an_error
-- A session has an error exactly when it failed.
select format('capture %%s is %%s and its error is: %%s', id, state, coalesce(error, 'none')) as offender
from {ingest}.capture_session
where (state::text = %(failed)s) is distinct from (error is not null)
order by id
limit %(limit)s;

-- name: finished_captures_have_a_result
-- A session that was finished by a worker of duly names the version that its day had then, and that version exists.
select offender
from (
    select format(
        'capture %%s is done, and says it is version %%s of %%s',
        s.id, coalesce(s.result ->> 'version', 'none'), coalesce(s.result ->> 'schedule_date', 'no day')
    ) as offender
    from {ingest}.capture_session as s
    where s.state::text = %(done)s and s.settled_by is not null and not exists (
        select from {ingest}.schedule_version as v
        where v.user_id = s.user_id and v.schedule_date = (s.result ->> 'schedule_date')::date
            and v.version = (s.result ->> 'version')::integer
            and (v.session_id = s.id or s.result ->> 'outcome' = 'unchanged')
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: captures_match_the_end_of_their_log
-- Where sessions have a log, every session has transitions, and the last one has its state and revision. No session is
-- missing that still has a log, except from before the oldest existing one.
select format(
    'capture %%s is %%s at revision %%s, its log ends at %%s with transition %%s',
    coalesce(s.id::text, newest.key), coalesce(s.state::text, 'not there'), coalesce(s.revision, 0),
    coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0)
) as offender
from {ingest}.capture_session as s
full join (
    select distinct on (t.key) t.key, t.seq, t.next_status, t.ts
    from duly.transition as t
    where t.machine = 'capture'
    order by t.key desc, t.seq desc
) as newest on newest.key = s.id::text
where (newest.next_status, newest.seq) is distinct from (s.state::text, s.revision)
    and (s.id is not null or newest.ts > (select min(there.created_at) from {ingest}.capture_session as there))
order by 1
limit %(limit)s;

-- name: captures_follow_their_state_machine
-- Every transition of a session is an edge of its state machine; closing it, or recovering an expired lease, keeps the
-- state.
select format('capture %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'capture' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'capture'
)
order by t.key, t.seq
limit %(limit)s;

-- name: captures_are_leased_exactly_while_processing
-- Where sessions have a log: a session has a lease owner and a lease start exactly while it is processing; the owner is
-- the one in the log of its last claim.
select format('capture %%s is %%s, held by %%s since %%s', id, state, coalesce(locked_by, 'none'),
    coalesce(locked_at::text, 'no time')) as offender
from {ingest}.capture_session
where revision > 0 and num_nonnulls(locked_by, locked_at) <> case when state::text = 'processing' then 2 else 0 end
union all
select format('capture %%s is held by %%s, and was claimed by %%s', s.id, s.locked_by, t.actor)
from {ingest}.capture_session as s
join duly.transition as t on t.machine = 'capture' and t.key = s.id::text and t.seq = s.revision
where s.state::text = 'processing' and t.next_status = 'processing' and t.actor <> s.locked_by
order by 1
limit %(limit)s;

-- name: starts_of_captures_match_their_log
-- Each claim of a session by duly adds one start; recovering an expired lease adds none where the previous owner had
-- subtracted its own, which is not logged. A program that knows only the contract's columns signs without a token and
-- need not count. Nothing else adds a start, or subtracts more than one. The session has the number of starts in its
-- log; while it is leased, its start may have been subtracted already.
select format(
    'capture %%s: transition %%s counts %%s starts, the one before %%s, and the session itself %%s',
    logged.key, logged.seq, logged.starts, logged.before, coalesce(s.starts::text, 'later')
) as offender
from (
    select t.key, t.seq, t.prev_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
        coalesce(lag((t.detail_json ->> 'starts')::bigint) over log, 0) as before,
        t.next_status = 'processing' and t.actor is distinct from lag(t.actor) over log as is_taken,
        right(t.actor, 23) ~ '^/[A-Za-z0-9_-]+$' as is_ours
    from duly.transition as t
    where t.machine = 'capture'
    window log as (partition by t.key order by t.seq)
) as logged
left join {ingest}.capture_session as s on s.id::text = logged.key and s.revision = logged.seq
where case when not logged.is_taken then logged.starts not between logged.before - 1 and logged.before
        when not logged.is_ours then logged.starts > logged.before + 1
        when logged.prev_status = 'pending' then logged.starts <> logged.before + 1
        else logged.starts not between logged.before and logged.before + 1 end
    or s.starts not between logged.starts - case when s.state::text = 'processing' then 1 else 0 end and logged.starts
order by logged.key, logged.seq
limit %(limit)s;

-- name: expired_leases_of_captures_are_recovered
-- While a worker for sessions is alive, an expired lease of a session is recovered within 15 minutes.
select format(
    'capture %%s was held by %%s since %%s, and was not recovered',
    s.id, s.locked_by, s.locked_at
) as offender
from {ingest}.capture_session as s
where s.revision > 0 and s.state::text = 'processing' and exists (
        select
        from duly.workers as w
        where 'ingest' = any (w.work_types) and w.stopped_at is null
            and w.started_at < duly.now() - interval '15 minutes'
            and w.seen_at > duly.now() - interval '1 minute'
    )
    and s.locked_at < duly.now() - interval '15 minutes' - make_interval(secs => coalesce(s.lease_seconds, 300))
order by s.id
limit %(limit)s;

-- name: captures_are_finished_by_their_lease_owner
-- A session was finished by its last lease owner.
select offender
from (
    select format(
        'capture %%s was finished by %%s, last claimed by %%s',
        s.id, s.settled_by, coalesce(claim.actor, 'none')
    ) as offender
    from {ingest}.capture_session as s
    left join (
        select distinct on (t.key) t.key, t.actor
        from duly.transition as t
        where t.machine = 'capture' and t.next_status = 'processing'
        order by t.key desc, t.seq desc
    ) as claim on claim.key = s.id::text
    where s.settled_by is not null and s.revision > 0 and s.settled_by is distinct from claim.actor
    offset 0
) as found
order by offender
limit %(limit)s;

-- The scheduler -------------------------------------------------------------------------------------------------------

-- name: notifications_match_their_delivery
-- The contract's status of a notification follows from its delivery state, which is that of its last transition. No
-- notification is missing that still has a log, except from before the oldest existing one.
select format(
    'notification %%s is %%s, and %%s by its delivery at revision %%s; its log ends at %%s with transition %%s',
    coalesce(n.notification_id, newest.key), coalesce(n.status, 'not there'), coalesce(n.delivery, 'not there'),
    coalesce(n.revision, 0), coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0)
) as offender
from {ingest}.schedule_notification as n
full join (
    select distinct on (t.key) t.key, t.seq, t.next_status, t.ts
    from duly.transition as t
    where t.machine = 'notification'
    order by t.key desc, t.seq desc
) as newest on newest.key = n.notification_id
where n.status <> case when n.delivery in ('sent', 'failed') then n.delivery else 'pending' end
    or ((newest.seq, newest.next_status) is distinct from (n.revision, n.delivery) and (
        n.notification_id is not null
        or newest.ts > (select min(there.created_at) from {ingest}.schedule_notification as there)
    ))
order by 1
limit %(limit)s;

-- name: notifications_follow_their_state_machine
-- Every transition of a notification is an edge of its state machine.
select format('notification %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'notification' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'notification'
)
order by t.key, t.seq
limit %(limit)s;

-- name: notifications_are_leased_exactly_while_sending
-- A notification has a lease owner and a lease expiry exactly while it is being sent; the owner is the one in the log
-- of its last claim.
select format(
    'notification %%s is %%s, held by %%s until %%s',
    notification_id, delivery, coalesce(lease_owner, 'none'), coalesce(lease_expires_at::text, 'no time')
) as offender
from {ingest}.schedule_notification
where num_nonnulls(lease_owner, lease_expires_at) <> case when delivery = 'sending' then 2 else 0 end
union all
select format('notification %%s is held by %%s, and was claimed by %%s', n.notification_id, n.lease_owner, t.actor)
from {ingest}.schedule_notification as n
join duly.transition as t on t.machine = 'notification' and t.key = n.notification_id and t.seq = n.revision
where n.delivery = 'sending' and t.next_status = 'sending' and t.actor <> n.lease_owner
order by 1
limit %(limit)s;

-- name: starts_of_notifications_match_their_log
-- Each claim of a notification adds one start, nothing else adds one, and a release or an expired lease subtracts at
-- most that one. The notification has the number of starts in its log; while it is leased, its start may have been
-- subtracted already.
select format('notification %%s: transition %%s counts %%s starts, the one before %%s, and the notification itself %%s',
    logged.key, logged.seq, logged.starts, logged.before, coalesce(n.starts::text, 'later')) as offender
from (
    select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
        coalesce(lag((t.detail_json ->> 'starts')::bigint) over (partition by t.key order by t.seq), 0) as before
    from duly.transition as t
    where t.machine = 'notification'
) as logged
left join {ingest}.schedule_notification as n on n.notification_id = logged.key and n.revision = logged.seq
where
    case
        when (logged.prev_status, logged.next_status) = ('pending', 'sending')
            then logged.starts <> logged.before + 1
        when logged.prev_status = 'sending' then logged.starts not between logged.before - 1 and logged.before
        else logged.starts > logged.before
    end
    or n.starts not between logged.starts - case when n.delivery = 'sending' then 1 else 0 end and logged.starts
order by logged.key, logged.seq
limit %(limit)s;

-- name: notifications_are_sent_by_their_lease_owner
-- A notification was sent, or failed, by its last lease owner. If another program set its status, the name of an
-- earlier owner may remain.
select offender
from (
    select format('notification %%s was %%s by %%s, last claimed by %%s', n.notification_id, n.delivery, n.settled_by,
        coalesce(claim.actor, 'none')) as offender
    from {ingest}.schedule_notification as n
    join duly.transition as ended
        on ended.machine = 'notification' and ended.key = n.notification_id and ended.seq = n.revision
    left join duly.transition as claim
        on claim.machine = 'notification' and claim.key = n.notification_id and claim.seq = n.revision - 1
    where n.delivery in ('sent', 'failed') and ended.prev_status = 'sending' and n.settled_by <> claim.actor
        and not exists (
            select
            from duly.transition as t
            where t.machine = 'notification' and t.key = n.notification_id and t.seq < n.revision
                and t.prev_status = 'sending' and t.next_status <> 'sending' and t.actor = n.settled_by
        )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: expired_leases_of_notifications_are_recovered
-- While a sender is alive, an expired lease of a notification is recovered within 15 minutes.
select format('notification %%s was held by %%s until %%s, and was not recovered', n.notification_id, n.lease_owner,
    n.lease_expires_at) as offender
from {ingest}.schedule_notification as n
where n.delivery = 'sending' and n.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'notifications' = any (w.work_types) and w.stopped_at is null
        and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by n.notification_id
limit %(limit)s;
