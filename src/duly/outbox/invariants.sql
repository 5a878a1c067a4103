-- Invariants of the outbox; see verify/invariants.sql.

-- name: messages_are_leased_exactly_while_sending
-- A message has a lease owner and a lease expiry exactly while it is being sent; the owner is the one in the log of its
-- last claim.
select format('message %%s is %%s, held by %%s until %%s', id, status, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from duly.outbox
where num_nonnulls(lease_owner, lease_expires_at) <> case when status = 'sending' then 2 else 0 end
union all
select format('message %%s is held by %%s, and was taken by %%s', o.id, o.lease_owner, t.actor)
from duly.outbox as o
join duly.transition as t on t.machine = 'outbox' and t.key = o.id::text and t.seq = o.revision
where o.status = 'sending' and t.next_status = 'sending' and t.actor <> o.lease_owner
order by 1
limit %(limit)s;

-- name: messages_match_the_end_of_their_log
-- The last transition of a message has its status and revision. No message is missing that still has a log, except from
-- before the oldest existing one: those were dropped with their table by a downgrade.
select offender
from (
    select format('message %%s is %%s at revision %%s, its log ends at %%s with transition %%s', newest.key,
        coalesce(o.status, 'not there'), coalesce(o.revision, 0), newest.next_status, newest.seq) as offender
    from (
        select distinct on (t.key) t.key, t.seq, t.next_status, t.ts
        from duly.transition as t
        where t.machine = 'outbox'
        order by t.key desc, t.seq desc
    ) as newest
    left join duly.outbox as o on o.id::text = newest.key
    where (newest.next_status, newest.seq) is distinct from (o.status, o.revision)
        and (o.id is not null or newest.ts > (select min(there.created_at) from duly.outbox as there))
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: messages_follow_their_state_machine
-- Every transition of a message is an edge of its state machine.
select format('message %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'outbox' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'outbox'
)
order by t.key, t.seq
limit %(limit)s;

-- name: starts_of_messages_match_their_log
-- Each claim of a message adds one start, nothing else adds one, and a release or an expired lease subtracts at most
-- that one. The message has the number of starts in its log; while it is leased, its start may have been subtracted
-- already.
select offender
from (
    select format(
        'message %%s: transition %%s counts %%s starts, the one before %%s, and the message itself %%s',
        logged.key, logged.seq, logged.starts, logged.before, coalesce(o.starts::text, 'later')
    ) as offender
    from (
        select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
            coalesce(lag((t.detail_json ->> 'starts')::bigint) over (partition by t.key order by t.seq), 0) as before
        from duly.transition as t
        where t.machine = 'outbox'
    ) as logged
    left join duly.outbox as o on o.id::text = logged.key and o.revision = logged.seq
    where
        case
            when (logged.prev_status, logged.next_status) = ('pending', 'sending')
                then logged.starts <> logged.before + 1
            when logged.prev_status = 'sending' then logged.starts not between logged.before - 1 and logged.before
            else logged.starts > logged.before
        end
        or o.starts not between logged.starts - case when o.status = 'sending' then 1 else 0 end and logged.starts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: messages_are_sent_by_their_lease_owner
-- A message was sent, or failed, by its last lease owner. An uncertain message is resolved by an operator, and a
-- message with an expired lease fails without an actor.
select offender
from (
    select format('message %%s was %%s by %%s, last claimed by %%s', o.id, o.status, coalesce(o.settled_by, 'none'),
        coalesce(claim.actor, 'none')) as offender
    from duly.outbox as o
    join duly.transition as ended on ended.machine = 'outbox' and ended.key = o.id::text and ended.seq = o.revision
    left join duly.transition as claim
        on claim.machine = 'outbox' and claim.key = o.id::text and claim.seq = o.revision - 1
    where ended.prev_status = 'sending' and (
        (o.status = 'sent' and o.settled_by is distinct from claim.actor)
        or (o.status = 'failed' and o.settled_by <> claim.actor)
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: expired_leases_of_messages_are_recovered
-- While a sender is alive, an expired lease of a message is recovered within 15 minutes.
select format('message %%s was held by %%s until %%s, and was not recovered', o.id, o.lease_owner, o.lease_expires_at)
    as offender
from duly.outbox as o
where o.status = 'sending' and o.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'outbox' = any (w.work_types) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by o.id
limit %(limit)s;

-- name: messages_have_their_log
-- A message exists exactly as long as its log.
select offender
from (
    select format('message %%s has no transition', o.id) as offender
    from duly.outbox as o
    where not exists (select from duly.transition as t where t.machine = 'outbox' and t.key = o.id::text)
    offset 0
) as found
order by offender
limit %(limit)s;
