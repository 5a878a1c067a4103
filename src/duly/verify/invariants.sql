-- Invariants: each statement returns offenders, and an empty result is good. They only read, and take no lock that could
-- block a writer. The line `contract:` under a name is the contract of an invariant; without it, it applies to all.
-- Offenders are rare, and the planner does not know that: `offset 0` prevents plans that expect a hundred of them soon and
-- look up millions of rows one by one.

-- name: every_role_sees_every_row
-- Row security hides no row from this login: a verifier that does not see every row would find no offenders. A policy
-- that shows this login every row is allowed.
select format('%%I.%%I is under row security for this login', n.nspname, c.relname) as offender
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and row_security_active(c.oid) and (
    exists (select from pg_catalog.pg_policy p where p.polrelid = c.oid and not p.polpermissive)
    or not exists (
        select from pg_catalog.pg_policy p, unnest(p.polroles) as role
        where p.polrelid = c.oid and p.polcmd in ('*', 'r') and pg_get_expr(p.polqual, p.polrelid) = 'true'
            and (role = 0 or pg_has_role(role, 'usage'))
    )
)
order by 1
limit %(limit)s;

-- name: transitions_have_no_gap
-- contract: duly
-- The transitions of a row are numbered 1, 2, 3 without a gap.
select format('%%s %%s has %%s transitions, from %%s to %%s', machine, key, count(*), min(seq), max(seq)) as offender
from duly.transition
group by machine, key
having max(seq) <> count(*) or min(seq) <> 1
order by machine, key
limit %(limit)s;

-- name: transitions_are_linked
-- contract: duly
-- Each transition begins in the state in which the previous one ended.
select format('%%s %%s: transition %%s begins at %%s, the one before ended at %%s', machine, key, seq, prev_status, ended)
    as offender
from (
    select machine, key, seq, prev_status, lag(next_status) over (partition by machine, key order by seq) as ended
    from duly.transition
) as linked
where prev_status is distinct from ended
order by machine, key, seq
limit %(limit)s;

-- name: api_keys_have_an_owner
-- contract: duly
-- An active API key belongs to an existing org or user.
select format('the key %%s has no holder', prefix) as offender
from duly.api_keys k
left join duly.orgs o on o.id = k.org_id
left join "user".users u on u.id = k.user_id
where k.revoked_at is null and o.id is null and u.id is null
order by prefix
limit %(limit)s;

-- name: partitions_are_append_only_like_their_log
-- An append-only log is append-only on each of its partitions.
select format('%%s is a part of %%s and has no working twin of its trigger %%s', part.relid, t.tgrelid::regclass, t.tgname)
    as offender
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid and c.relkind = 'p'
join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = any(%(schemas)s),
lateral pg_catalog.pg_partition_tree(t.tgrelid) as part
where t.tgfoid = to_regproc('duly.refuse_change') and not exists (
    select from pg_catalog.pg_trigger twin
    where twin.tgrelid = part.relid and twin.tgfoid = t.tgfoid and twin.tgtype = t.tgtype and twin.tgenabled in ('O', 'A')
)
order by 1
limit %(limit)s;

-- name: roles_with_grants_do_not_own
-- A role with grants on tables is not a member of the role that owns them, because it could disable every guard. A role
-- that may create roles is an administrator, who migrates and needs the membership.
select format('%%I has grants on tables of %%I and is a member of it; run: revoke %%I from %%I', grantee.rolname,
    owner.rolname, owner.rolname, grantee.rolname) as offender
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace and n.nspname = any(%(schemas)s)
join pg_catalog.pg_roles as owner on owner.oid = c.relowner
cross join lateral pg_catalog.aclexplode(c.relacl) as granted
join pg_catalog.pg_roles as grantee on grantee.oid = granted.grantee
where grantee.oid <> owner.oid and not grantee.rolsuper and not grantee.rolcreaterole
    and pg_has_role(grantee.oid, owner.oid, 'member')
group by grantee.rolname, owner.rolname
order by 1
limit %(limit)s;

-- name: messages_are_leased_exactly_while_sending
-- contract: duly
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
-- contract: duly
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
-- contract: duly
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
-- contract: duly
-- Each claim of a message adds one start, nothing else adds one, and a release or an expired lease subtracts at most that
-- one. The message has the number of starts in its log; while it is leased, its start may have been subtracted already.
select offender
from (
    select format('message %%s: transition %%s counts %%s starts, the one before %%s, and the message itself %%s', logged.key,
        logged.seq, logged.starts, logged.before, coalesce(o.starts::text, 'later')) as offender
    from (
        select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
            coalesce(lag((t.detail_json ->> 'starts')::bigint) over (partition by t.key order by t.seq), 0) as before
        from duly.transition as t
        where t.machine = 'outbox'
    ) as logged
    left join duly.outbox as o on o.id::text = logged.key and o.revision = logged.seq
    where case when (logged.prev_status, logged.next_status) = ('pending', 'sending') then logged.starts <> logged.before + 1
            when logged.prev_status = 'sending' then logged.starts not between logged.before - 1 and logged.before
            else logged.starts > logged.before end
        or o.starts not between logged.starts - case when o.status = 'sending' then 1 else 0 end and logged.starts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: messages_are_sent_by_their_lease_owner
-- contract: duly
-- A message was sent, or failed, by its last lease owner. An uncertain message is resolved by an operator, and a message
-- with an expired lease fails without an actor.
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
-- contract: duly
-- While a sender is alive, an expired lease of a message is recovered within 15 minutes.
select format('message %%s was held by %%s until %%s, and was not recovered', o.id, o.lease_owner, o.lease_expires_at)
    as offender
from duly.outbox as o
where o.status = 'sending' and o.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'outbox' = any (w.kinds) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by o.id
limit %(limit)s;

-- name: messages_have_their_log
-- contract: duly
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

-- name: job_events_have_no_gap_and_are_linked
-- contract: ledger
-- The events of a job are numbered 1, 2, 3, and each begins in the state in which the previous one ended.
select format('job %%s: event %%s begins at %%s; before it came %%s, which ended at %%s', job_id, seq,
    coalesce(prev_status, 'nothing'), coalesce(before, 0), coalesce(ended, 'nothing')) as offender
from (
    select job_id, seq, prev_status, lag(seq) over log as before, lag(next_status) over log as ended
    from ledger.job_event
    window log as (partition by job_id order by seq)
) as numbered
where seq <> coalesce(before, 0) + 1 or prev_status is distinct from ended
order by job_id, seq
limit %(limit)s;

-- name: jobs_match_the_end_of_their_log
-- contract: ledger
-- Every job has events, and the last one has its status and revision.
select offender
from (
    select format('job %%s is %%s at revision %%s, its log ends at %%s with event %%s', j.id, j.status, j.revision,
        coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0)) as offender
    from ledger.job as j
    left join (
        select distinct on (e.job_id) e.job_id, e.seq, e.next_status
        from ledger.job_event as e
        order by e.job_id desc, e.seq desc
    ) as newest on newest.job_id = j.id
    where (newest.next_status, newest.seq) is distinct from (j.status::text, j.revision)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: jobs_are_leased_exactly_while_running
-- contract: ledger
-- A job has a lease owner and a lease expiry while it is running; a failed one keeps its owner for the transition that
-- follows; no other has either. The owner is the one in the event of its last start.
select format('job %%s is %%s, held by %%s until %%s', id, status, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from ledger.job
where (lease_owner is not null) <> (status in ('running', 'failed'))
    or (lease_expires_at is not null) <> (status = 'running')
union all
select format('job %%s is held by %%s, and was started by %%s', j.id, j.lease_owner, claim.actor)
from ledger.job as j
cross join lateral (
    select e.detail_json ->> 'actor' as actor
    from ledger.job_event as e
    where e.job_id = j.id and e.prev_status = 'queued' and e.next_status = 'running'
    order by e.seq desc
    limit 1
) as claim
where j.status = 'running' and claim.actor <> j.lease_owner
order by 1
limit %(limit)s;

-- name: expired_leases_of_jobs_are_recovered
-- contract: ledger
-- While a worker for jobs is alive, an expired lease of a job is recovered within 15 minutes.
select format('job %%s was held by %%s until %%s, and was not recovered', j.id, j.lease_owner, j.lease_expires_at)
    as offender
from ledger.job as j
where j.status = 'running' and j.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'ledger' = any (w.kinds) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by j.id
limit %(limit)s;

-- name: job_events_are_legal
-- contract: ledger
-- Every event is an edge of the state machine; progress, a request to cancel and the release of a key keep the state.
select format('job %%s: event %%s goes from %%s to %%s', e.job_id, e.seq, coalesce(e.prev_status, 'nothing'), e.next_status)
    as offender
from ledger.job_event as e
where (coalesce(e.prev_status, ''), e.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'job'
)
order by e.job_id, e.seq
limit %(limit)s;

-- name: starts_of_jobs_match_their_log
-- contract: ledger
-- Every start is counted, also one that ended in a crash, and none is above the limit. A release and a snooze subtract
-- their start; a redrive resets the count.
select offender
from (
    select format('job %%s counts %%s starts of %%s, its log tells of %%s', j.id, j.starts, j.max_attempts,
        coalesce(logged.starts, 0)) as offender
    from ledger.job as j
    left join (
        select e.job_id,
            count(*) filter (where e.prev_status = 'queued') - count(*) filter (where e.prev_status = 'running') as starts
        from ledger.job_event as e
        left join (
            select r.job_id, max(r.seq) as seq from ledger.job_event as r where r.prev_status = 'dead_letter' group by r.job_id
        ) as redriven on redriven.job_id = e.job_id
        where (e.prev_status, e.next_status) in (('queued', 'running'), ('running', 'queued'))
            and e.seq > coalesce(redriven.seq, 0)
        group by e.job_id
    ) as logged on logged.job_id = j.id
    where j.starts <> coalesce(logged.starts, 0) or j.starts > j.max_attempts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: jobs_are_finished_by_their_lease_owner
-- contract: ledger
-- A running job was ended by its last lease owner, whether done, failed, canceled or released. Expired leases are swept,
-- and the event names their owner. A forced cancel of a running job has no owner, and a transition without an actor is
-- not checked, unless the job is done.
select offender
from (
    select format('job %%s is %%s, let go of by %%s and in the log by %%s, last claimed by %%s', j.id, j.status,
        coalesce(j.settled_by, 'none'), coalesce(last.let_go_by, 'an unknown owner'), coalesce(last.claimed_by, 'none'))
        as offender
    from ledger.job as j
    join (
        select e.job_id, e.prev_status, e.next_status, e.detail_json ->> 'reason' as reason,
            e.detail_json ->> 'holder' as swept_from,
            coalesce(e.detail_json ->> 'holder', e.detail_json ->> 'actor') as let_go_by,
            lag(e.detail_json ->> 'actor') over log as claimed_by, lead(e.seq) over log is null as is_last
        from ledger.job_event as e
        where (e.prev_status = 'running') <> (e.next_status = 'running')
        window log as (partition by e.job_id order by e.seq)
    ) as last on last.job_id = j.id and last.is_last and last.prev_status = 'running'
    where last.reason is distinct from 'cancel_requested' and (
        last.let_go_by <> last.claimed_by
        or (j.settled_by is distinct from last.claimed_by and last.swept_from is null
            and (last.let_go_by is not null or last.next_status = 'succeeded'))
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: no_job_stays_failed
-- contract: ledger
-- A failure is two transitions in one transaction: no other transaction ever sees a job in between.
select format('job %%s is failed, in the hands of %%s', id, lease_owner) as offender
from ledger.job
where status = 'failed'
order by id
limit %(limit)s;

-- name: keys_identify_one_job
-- contract: ledger
-- An org and an idempotency key identify one job.
select format('the key %%s of org %%s stands for %%s jobs', idempotency_key, org_id, count(*)) as offender
from ledger.job
where idempotency_key is not null
group by org_id, idempotency_key
having count(*) > 1
order by 1
limit %(limit)s;

-- name: job_events_are_of_their_jobs_org
-- contract: ledger
-- The events of a job have its org, so that a job and its log are visible to the same callers.
select offender
from (
    select format('job %%s is of org %%s, its event %%s of org %%s', j.id, j.org_id, e.seq, e.org_id) as offender
    from ledger.job_event e
    join ledger.job j on j.id = e.job_id
    where e.org_id <> j.org_id
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: job_events_have_their_job
-- contract: ledger
-- A job is deleted with its full log: no event is left.
select offender
from (
    select format('event %%s is of job %%s, which is not there', e.seq, e.job_id) as offender
    from ledger.job_event as e
    left join ledger.job as j on j.id = e.job_id
    where j.id is null
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: times_of_jobs_match_their_log
-- contract: ledger
-- The first start and the end of a job are at the time of their events: both are written by one statement, with a
-- tolerance of five minutes; a key that is released later does not end the job again. Jobs that were migrated from
-- another table are not checked.
select offender
from (
    select format('job %%s was started at %%s and finished at %%s, its log tells of %%s and %%s', j.id,
        coalesce(j.started_at::text, 'no time'), coalesce(j.finished_at::text, 'no time'),
        coalesce(first.ts::text, 'no time'), coalesce(ended.ts::text, 'no time')) as offender
    from ledger.job as j
    left join (
        select e.job_id, min(e.ts) as ts
        from ledger.job_event as e
        where e.prev_status = 'queued' and e.next_status = 'running'
        group by e.job_id
    ) as first on first.job_id = j.id
    left join (
        select distinct on (e.job_id) e.job_id, e.ts
        from ledger.job_event as e
        where e.next_status in ('succeeded', 'canceled', 'dead_letter') and e.prev_status is distinct from e.next_status
        order by e.job_id, e.seq desc
    ) as ended on ended.job_id = j.id
    where j.type <> 'carried_over' and (
        abs(extract(epoch from first.ts - j.started_at)) > 300 or abs(extract(epoch from ended.ts - j.finished_at)) > 300
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: keys_match_their_request
-- contract: ledger
-- The digest of an idempotency key is that of the job's type, queue and payload. It includes the requested time or delay
-- too, so only jobs without one are checked, and only until another attempt changed the time.
select offender
from (
    select format('job %%s of org %%s: its key %%s stands for another request', j.id, j.org_id, j.idempotency_key) as offender
    from ledger.job as j
    where j.idempotency_key is not null and j.run_at = j.created_at and j.request_digest not in (
        ledger.digest_of(j.type, j.queue, j.payload, null, null), ledger.digest_of(j.type, j.queue, j.payload, null, 0),
        ledger.digest_of(j.type, j.queue, j.payload, j.run_at, null)
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: posts_match_the_end_of_their_log
-- contract: posts
-- Every post has transitions, and the last one has its status and revision. No post is missing that still has a log,
-- except from before the oldest existing one: those were dropped with their table by a downgrade.
select format('post %%s is %%s at revision %%s, its log ends at %%s with transition %%s', coalesce(p.id::text, newest.key),
    coalesce(p.status, 'not there'), coalesce(p.revision, 0), coalesce(newest.next_status, 'nothing'),
    coalesce(newest.seq, 0)) as offender
from posts.posts as p
full join (
    select distinct on (t.key) t.key, t.seq, t.next_status, t.ts
    from duly.transition as t
    where t.machine = 'post'
    order by t.key desc, t.seq desc
) as newest on newest.key = p.id::text
where (newest.next_status, newest.seq) is distinct from (p.status, p.revision) and (
    p.id is not null or newest.ts > (select min(there.created_at) from posts.posts as there where there.legacy is null)
)
order by 1
limit %(limit)s;

-- name: posts_are_leased_exactly_while_processing
-- contract: posts
-- A post has a lease owner, a lease expiry and a processing start exactly while it is PROCESSING; the owner is the one in
-- the log of its last claim.
select format('post %%s is %%s, held by %%s until %%s since %%s', id, status, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time'), coalesce(processing_since::text, 'no time')) as offender
from posts.posts
where num_nonnulls(lease_owner, lease_expires_at, processing_since) <> case when status = 'PROCESSING' then 3 else 0 end
union all
select format('post %%s is held by %%s, and was taken by %%s', p.id, p.lease_owner, t.actor)
from posts.posts as p
join duly.transition as t on t.machine = 'post' and t.key = p.id::text and t.seq = p.revision
where p.status = 'PROCESSING' and t.next_status = 'PROCESSING' and t.actor <> p.lease_owner
order by 1
limit %(limit)s;

-- name: attempts_of_posts_match_their_log
-- contract: posts
-- Each claim of a post adds one attempt, nothing else adds one, and a release or an expired lease subtracts at most that
-- one. The post has the number of attempts in its log; while it is leased, its attempt may have been subtracted already.
select offender
from (
    select format('post %%s: transition %%s counts %%s attempts, the one before %%s, and the post itself %%s', logged.key,
        logged.seq, logged.attempts, logged.before, coalesce(p.process_attempts::text, 'later')) as offender
    from (
        select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'attempts')::bigint, 0) as attempts,
            coalesce(lag((t.detail_json ->> 'attempts')::bigint) over (partition by t.key order by t.seq), 0) as before
        from duly.transition as t
        where t.machine = 'post'
    ) as logged
    left join posts.posts as p on p.id::text = logged.key and p.revision = logged.seq
    where case when logged.prev_status is null then false
            when (logged.prev_status, logged.next_status) = ('PENDING', 'PROCESSING') then logged.attempts <> logged.before + 1
            when logged.prev_status = 'PROCESSING' then logged.attempts not between logged.before - 1 and logged.before
            else logged.attempts <> logged.before end
        or p.process_attempts
            not between logged.attempts - case when p.status = 'PROCESSING' then 1 else 0 end and logged.attempts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: posts_follow_their_state_machine
-- contract: posts
-- Every transition of a post is an edge of the contract; a caption is edited while the post is PENDING, and only
-- documents of the first version begin as RELEASED.
select format('post %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'), t.next_status)
    as offender
from duly.transition as t
where t.machine = 'post' and (
    (t.seq = 1 and t.next_status = 'RELEASED' and (t.detail_json ->> 'legacy') is distinct from 'true')
    or (coalesce(t.prev_status, ''), t.next_status) not in (
        select d.before, d.after
        from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
        where d.machine = 'post'
    )
)
order by t.key, t.seq
limit %(limit)s;

-- name: no_post_is_early
-- contract: posts
-- No post was claimed or released before its release time.
select offender
from (
    select format('post %%s was to be released at %%s, was first taken at %%s and appeared at %%s', p.id, p.release_time,
        taken.ts, p.released_at) as offender
    from posts.posts as p
    left join (
        select t.key, min(t.ts) as ts
        from duly.transition as t
        where t.machine = 'post' and t.next_status = 'PROCESSING'
        group by t.key
    ) as taken on taken.key = p.id::text
    where p.settled_by is not null and (taken.ts < p.release_time or p.released_at < p.release_time)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: no_post_is_stuck
-- contract: posts
-- No post is PROCESSING for longer than fifteen minutes, also when workers crash.
select format('post %%s is held by %%s since %%s', id, lease_owner, processing_since) as offender
from posts.posts
where status = 'PROCESSING' and processing_since < duly.now() - interval '15 minutes'
order by id
limit %(limit)s;

-- name: posts_are_released_by_their_lease_owner
-- contract: posts
-- A post was released once, by its last lease owner.
select offender
from (
    select format('post %%s was released by %%s, last claimed by %%s, %%s times', p.id, coalesce(p.settled_by, 'none'),
        coalesce(claim.actor, 'none'), coalesce(logged.times, 0)) as offender
    from posts.posts as p
    left join (
        select t.key, count(*) filter (where t.next_status = 'RELEASED') as times,
            max(t.seq) filter (where t.next_status = 'PROCESSING') as claimed
        from duly.transition as t
        where t.machine = 'post'
        group by t.key
    ) as logged on logged.key = p.id::text
    left join duly.transition as claim on claim.machine = 'post' and claim.key = logged.key and claim.seq = logged.claimed
    where p.status = 'RELEASED' and (coalesce(logged.times, 0) <> 1 or (p.released_at is not null and p.legacy is null
        and p.settled_by is distinct from claim.actor))
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: versions_of_posts_only_grow
-- contract: posts
-- Every transition increased the version, which counts other changes too.
select format('post %%s: transition %%s is of version %%s, the one before of %%s', key, seq, version, before) as offender
from (
    select t.key, t.seq, (t.detail_json ->> 'version')::bigint as version,
        lag((t.detail_json ->> 'version')::bigint) over (partition by t.key order by t.seq) as before
    from duly.transition t
    where t.machine = 'post'
) as numbered
where version < seq or version <= before
order by key, seq
limit %(limit)s;

-- name: days_have_one_post
-- contract: posts
-- A post of the second version has the lock of its author and UTC day, and every lock belongs to the post it names.
select format('post %%s of %%s has the lock %%s', p.id, p.daily_key, coalesce(l.post_id::text, 'none')) as offender
from posts.posts p
left join posts.daily_locks l on l.id = p.daily_key || '_UTC'
where p.legacy is null and l.post_id is distinct from p.id
union all
select format('lock %%s is of post %%s, whose day is %%s', l.id, l.post_id, posts.daily_key(p.author_id, p.created_at))
from posts.daily_locks l
join posts.posts p on p.id = l.post_id
where l.id <> posts.daily_key(p.author_id, p.created_at) || '_UTC'
order by 1
limit %(limit)s;

-- name: requests_match_their_post
-- contract: posts
-- The stored response to a request names the post that it created.
select offender
from (
    select format('request %%s of %%s is answered with post %%s, and made %%s', k.request_id, k.author_id,
        k.answer ->> 'postId', p.id) as offender
    from posts.idempotency_keys k
    join posts.posts p on p.id = k.post_id
    where (k.answer ->> 'postId', k.author_id, k.request_id) is distinct from (p.id::text, p.author_id, p.request_id)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: authors_are_notified
-- contract: posts
-- The author of a post that was released in the last day was notified, unless it was imported; older messages may have
-- been deleted.
select format('author %%s was not notified of post %%s', p.author_id, p.id) as offender
from posts.posts p
where p.settled_by is not null and p.released_at > duly.now() - interval '1 day' and p.legacy is null
    and not exists (select from duly.outbox o where o.dedupe_key = 'post.released:' || p.id)
order by p.id
limit %(limit)s;

-- name: days_have_every_version
-- contract: ingest
-- The versions of a day are numbered 1, 2, 3, and the day refers to the last of them.
select format('%%s of %%s has %%s versions from %%s to %%s, and points at %%s', schedule_date, user_id, coalesce(v.versions, 0),
    coalesce(v.first, 0), coalesce(v.last, 0), coalesce(d.current_version::text, 'none')) as offender
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
-- contract: ingest
-- A session creates at most one version of one day.
select format('capture %%s made %%s versions', session_id, count(*)) as offender
from {ingest}.schedule_version
group by session_id
having count(*) > 1
order by session_id
limit %(limit)s;

-- name: versions_differ_from_the_one_before
-- contract: ingest
-- An unchanged day gets no new version. Versions of another canonicaliser are not compared.
select format('version %%s of %%s of %%s is as the one before', version, schedule_date, user_id) as offender
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
-- contract: ingest
-- A version belongs to a session of the same user that is done: both were written in one transaction.
select format('version %%s of %%s of %%s comes of capture %%s of %%s, which is %%s', v.version, v.schedule_date, v.user_id,
    v.session_id, coalesce(s.user_id::text, 'none'), coalesce(s.state::text, 'not there')) as offender
from {ingest}.schedule_version as v
left join {ingest}.capture_session as s on s.id = v.session_id
where (s.user_id, s.state::text) is distinct from (v.user_id, %(done)s)
order by v.user_id, v.schedule_date, v.version
limit %(limit)s;

-- name: captures_belong_to_their_user
-- contract: ingest
-- The changes and notifications of a session belong to the user of the session.
select format('%%s of %%s comes of capture %%s of %%s', child.what, child.user_id, s.id, s.user_id) as offender
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
-- contract: ingest
-- Applying the events of a day gives exactly its snapshot. Days with events of another program, which have no sequence
-- number, are not checked.
select format('%%s of %%s: by its events it has %%s of %%s, by its snapshot %%s', schedule_date, user_id, sum(logged), value,
    sum(known)) as offender
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
-- contract: ingest
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
-- contract: ingest
-- A version with other text or other digits than the previous one at some time of the day has an event. Differences in
-- case, accents, punctuation, order, look-alikes, durations and two letters of a long word do not count. Versions of the
-- first canonicaliser, which dropped words, of other programs, and tables without a log of sessions are not checked.
select format('version %%s of %%s of %%s has no event, and from %%s to %%s the word %%s is in one of both alone', version,
    schedule_date, user_id, start, "end", min(word)) as offender
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
        regexp_replace(normalize(lower(shown.text), nfkd), '[\u0300-\u036f\u200b]', '', 'g'), '01i|', 'olll') as bare (text)
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
-- contract: ingest
-- A notification refers to events of the same user, day and session.
select format('notification %%s tells %%s of event %%s, which is not there', n.notification_id, n.user_id, logged.id) as offender
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
-- contract: ingest
-- No event is in two notifications.
select format('event %%s is in %%s notifications', logged.id, count(*)) as offender
from {ingest}.schedule_notification as n
cross join lateral jsonb_array_elements_text(n.event_ids) as logged (id)
group by logged.id
having count(*) > 1
order by logged.id
limit %(limit)s;

-- name: failed_captures_have_an_error
-- contract: ingest
-- A session has an error exactly when it failed.
select format('capture %%s is %%s and its error is: %%s', id, state, coalesce(error, 'none')) as offender
from {ingest}.capture_session
where (state::text = %(failed)s) is distinct from (error is not null)
order by id
limit %(limit)s;

-- name: finished_captures_have_a_result
-- contract: ingest
-- A session that was finished by a worker of duly names the version that its day had then, and that version exists.
select offender
from (
    select format('capture %%s is done, and says it is version %%s of %%s', s.id, coalesce(s.result ->> 'version', 'none'),
        coalesce(s.result ->> 'schedule_date', 'no day')) as offender
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
-- contract: ingest
-- Where sessions have a log, every session has transitions, and the last one has its state and revision. No session is
-- missing that still has a log, except from before the oldest existing one.
select format('capture %%s is %%s at revision %%s, its log ends at %%s with transition %%s', coalesce(s.id::text, newest.key),
    coalesce(s.state::text, 'not there'), coalesce(s.revision, 0), coalesce(newest.next_status, 'nothing'),
    coalesce(newest.seq, 0)) as offender
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
-- contract: ingest
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
-- contract: ingest
-- Where sessions have a log: a session has a lease owner and a lease start exactly while it is processing; the owner is
-- the one in the log of its last claim.
select format('capture %%s is %%s, held by %%s since %%s', id, state, coalesce(locked_by, 'none'),
    coalesce(locked_at::text, 'no time')) as offender
from {ingest}.capture_session
where revision > 0 and num_nonnulls(locked_by, locked_at) <> case when state::text = 'processing' then 2 else 0 end
union all
select format('capture %%s is held by %%s, and was taken by %%s', s.id, s.locked_by, t.actor)
from {ingest}.capture_session as s
join duly.transition as t on t.machine = 'capture' and t.key = s.id::text and t.seq = s.revision
where s.state::text = 'processing' and t.next_status = 'processing' and t.actor <> s.locked_by
order by 1
limit %(limit)s;

-- name: starts_of_captures_match_their_log
-- contract: ingest
-- Each claim of a session by duly adds one start; recovering an expired lease adds none where the previous owner had
-- subtracted its own, which is not logged. A program that knows only the contract's columns signs without a token and
-- need not count. Nothing else adds a start, or subtracts more than one. The session has the number of starts in its log;
-- while it is leased, its start may have been subtracted already.
select format('capture %%s: transition %%s counts %%s starts, the one before %%s, and the session itself %%s', logged.key,
    logged.seq, logged.starts, logged.before, coalesce(s.starts::text, 'later')) as offender
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
-- contract: ingest
-- While a worker for sessions is alive, an expired lease of a session is recovered within 15 minutes.
select format('capture %%s was held by %%s since %%s, and was not recovered', s.id, s.locked_by, s.locked_at) as offender
from {ingest}.capture_session as s
where s.revision > 0 and s.state::text = 'processing' and exists (
        select
        from duly.workers as w
        where 'ingest' = any (w.kinds) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
            and w.seen_at > duly.now() - interval '1 minute'
    )
    and s.locked_at < duly.now() - interval '15 minutes' - make_interval(secs => coalesce(s.lease_seconds, 300))
order by s.id
limit %(limit)s;

-- name: captures_are_finished_by_their_lease_owner
-- contract: ingest
-- A session was finished by its last lease owner.
select offender
from (
    select format('capture %%s was finished by %%s, last claimed by %%s', s.id, s.settled_by, coalesce(claim.actor, 'none'))
        as offender
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

-- The scheduler ---------------------------------------------------------------------------------------------------------

-- name: runs_have_their_key
-- contract: scheduler
-- Every run has its key, with the same schedule, period and time.
select offender
from (
    select format('run %%s has no key that says the same', r.id) as offender
    from scheduler.job_runs as r
    left join scheduler.job_run_keys as k on k.job_run_id = r.id
    where (k.job_id, k.period_key, k.scheduled_at) is distinct from (r.job_id, r.period_key, r.scheduled_at)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: keys_have_their_run
-- contract: scheduler
-- Every key has its run, unless the partition of its month was dropped.
select format('the key of run %%s has no run', k.job_run_id) as offender
from scheduler.job_run_keys as k
where to_regclass('scheduler.job_runs_' || to_char(k.scheduled_at at time zone 'UTC', 'YYYY_MM')) is not null
    and not exists (
        select from scheduler.job_runs as r where r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
    )
order by 1
limit %(limit)s;

-- name: periods_have_one_run
-- contract: scheduler
-- A schedule has at most one run in a period.
select format('schedule %%s has %%s runs in %%s', job_id, count(*), period_key) as offender
from scheduler.job_runs
group by job_id, period_key
having count(*) > 1
order by 1
limit %(limit)s;

-- name: runs_match_the_end_of_their_log
-- contract: scheduler
-- The last transition of a run has its status and revision, and the log has whether it was ever sent. A log is without a
-- run if the run was withdrawn before it was sent, if the partition of its month was dropped and its key remained, or if
-- it is from before the oldest existing run.
select format('run %%s is %%s at revision %%s, its log ends at %%s with transition %%s', coalesce(r.id::text, logged.key),
    coalesce(r.status, 'not there'), coalesce(r.revision, 0), coalesce(logged.next_status, 'nothing'), coalesce(logged.seq, 0))
    as offender
from scheduler.job_runs as r
full join (
    select newest.key, newest.seq, newest.next_status, newest.ts, newest.was_sent
    from (
        select t.key, t.seq, t.next_status, t.ts, lead(t.seq) over log is null as is_last,
            bool_or(t.next_status = 'sent') over log as was_sent
        from duly.transition as t
        where t.machine = 'run'
        window log as (partition by t.key order by t.seq)
    ) as newest
    where newest.is_last
) as logged on logged.key = r.id::text
where case when r.id is not null
    then (logged.seq, logged.next_status, logged.was_sent) is distinct from (r.revision, r.status, r.sent_at is not null)
    else logged.next_status <> 'cancelled'
        and logged.ts > (select min(there.created_at) from scheduler.job_runs as there)
        and not exists (select from scheduler.job_run_keys as k where k.job_run_id = logged.key::bigint)
end
order by 1
limit %(limit)s;

-- name: runs_follow_their_state_machine
-- contract: scheduler
-- Every transition of a run is an edge of its state machine.
select format('run %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'), t.next_status)
    as offender
from duly.transition as t
where t.machine = 'run' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'run'
)
order by t.key, t.seq
limit %(limit)s;

-- name: schedules_match_the_end_of_their_log
-- contract: scheduler
-- Every schedule has transitions, and the last one has its status, revision and rule. No schedule is missing that still
-- has a log, except from before the oldest existing one.
select format('schedule %%s is %%s at revision %%s by the rule %%s, its log ends at %%s with transition %%s by the rule %%s',
    coalesce(j.id::text, newest.key), coalesce(j.status, 'not there'), coalesce(j.revision, 0), coalesce(j.rule, 'none'),
    coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0), coalesce(newest.rule, 'none')) as offender
from scheduler.jobs as j
full join (
    select distinct on (t.key) t.key, t.seq, t.next_status, t.ts, t.detail_json ->> 'rule' as rule
    from duly.transition as t
    where t.machine = 'schedule'
    order by t.key desc, t.seq desc
) as newest on newest.key = j.id::text
where (newest.next_status, newest.seq, newest.rule) is distinct from (j.status, j.revision, j.rule)
    and (j.id is not null or newest.ts > (select min(there.created_at) from scheduler.jobs as there))
order by 1
limit %(limit)s;

-- name: schedules_follow_their_state_machine
-- contract: scheduler
-- Every transition of a schedule is an edge of its state machine; a change of the rule keeps the state.
select format('schedule %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'schedule' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(steps)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'schedule'
)
order by t.key, t.seq
limit %(limit)s;

-- name: plans_are_leased_exactly_while_planning
-- contract: scheduler
-- A plan has a lease owner and a lease expiry exactly while it is being computed.
select format('the plan of schedule %%s is %%s, held by %%s until %%s', job_id, state, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from scheduler.job_plans
where num_nonnulls(lease_owner, lease_expires_at) <> case when state = 'planning' then 2 else 0 end
order by job_id
limit %(limit)s;

-- name: expired_leases_of_plans_are_recovered
-- contract: scheduler
-- While a planner is alive, an expired lease of a plan is recovered within 15 minutes.
select format('the plan of schedule %%s was held by %%s until %%s, and was not recovered', p.job_id, p.lease_owner,
    p.lease_expires_at) as offender
from scheduler.job_plans as p
where p.state = 'planning' and p.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'scheduler' = any (w.kinds) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by p.job_id
limit %(limit)s;

-- name: schedules_are_planned
-- contract: scheduler
-- Every active schedule has a plan that is due, is being computed, or has an error; or its rule has ended.
select format('schedule %%s is %%s and will not be planned so', j.id, j.status) as offender
from scheduler.jobs as j
left join scheduler.job_plans as p on p.job_id = j.id
where p.job_id is null
    or (j.status <> 'active' and p.plan_at is not null and p.state <> 'stuck')
    or (j.status = 'active' and p.state = 'waiting' and p.plan_at is null and p.next_at is not null)
order by 1
limit %(limit)s;

-- name: missed_ranges_do_not_overlap
-- contract: scheduler
-- A missed period is recorded once: the missed ranges of a schedule do not overlap.
select format('schedule %%s: the missed range from %%s overlaps the one that ends at %%s', job_id, from_at, before) as offender
from (
    select job_id, from_at, max(until_at) over log as before
    from scheduler.missed_ranges
    window log as (partition by job_id order by from_at rows between unbounded preceding and 1 preceding)
) as ordered
where from_at < before
order by job_id, from_at
limit %(limit)s;

-- name: answers_match_their_run
-- contract: scheduler
-- A run with a final answer is in the state of that answer.
select format('run %%s was answered %%s and is %%s', c.job_run_id, c.action, r.status) as offender
from scheduler.confirmations as c
join scheduler.job_run_keys as k on k.job_run_id = c.job_run_id
join scheduler.job_runs as r on r.id = k.job_run_id and r.scheduled_at = k.scheduled_at
where r.status is distinct from case c.action
    when 'complete' then 'confirmed' when 'skip' then 'skipped' when 'cancel' then 'cancelled' else r.status
end
order by 1
limit %(limit)s;

-- name: confirmed_runs_have_an_answer
-- contract: scheduler
-- Every confirmed run has an answer.
select offender
from (
    select format('run %%s is confirmed, and nobody answered so', r.id) as offender
    from scheduler.job_runs as r
    where r.status = 'confirmed' and not exists (
        select from scheduler.confirmations as c where c.job_run_id = r.id and c.action = 'complete'
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: runs_are_answered_once
-- contract: scheduler
-- A run has at most one final answer.
select format('run %%s was answered %%s times', c.job_run_id, count(*)) as offender
from scheduler.confirmations as c
where c.action <> 'snooze'
group by c.job_run_id
having count(*) > 1
order by 1
limit %(limit)s;

-- name: answers_are_booked
-- contract: scheduler
-- An answer with an amount, or to a schedule with an expense, has an expense entry. Answers from before the last change
-- of the schedule are not checked, with a tolerance of one minute for concurrent changes.
select offender
from (
    select format('run %%s was completed at %%s, and nothing was booked for it', c.job_run_id, c.confirmed_at) as offender
    from scheduler.confirmations as c
    join scheduler.job_run_keys as k on k.job_run_id = c.job_run_id
    join scheduler.jobs as j on j.id = k.job_id
    left join scheduler.expense_templates as t on t.job_id = j.id
    where c.action = 'complete'
        and (c.payload ->> 'amount' is not null
            or (t.job_id is not null and c.confirmed_at > j.updated_at + interval '1 minute'))
        and not exists (
            select from expense.expenses as e where e.source_ref = 'scheduler:' || k.job_id || ':' || k.period_key
        )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: entries_are_booked_once
-- contract: scheduler
-- An expense entry has one source, and a source has one entry; an entry is reversed at most once. The expense of an
-- answer is not booked again for the same user and time under another source.
select format('%%s was booked %%s times', source_ref, count(*)) as offender
from expense.expenses
group by source_ref
having count(*) > 1
union all
select format('entry %%s was taken back %%s times', reverses, count(*))
from expense.expenses
where reverses is not null
group by reverses
having count(*) > 1
union all
select format('entry %%s of %%s is what entry %%s of %%s was booked for', again.id, again.source_ref, e.id, e.source_ref)
from expense.expenses as e
join expense.expenses as again on (again.user_id, again.occurred_at, again.amount, again.currency)
    = (e.user_id, e.occurred_at, e.amount, e.currency)
where e.source_ref like 'scheduler:%%' and again.reverses is null and again.source_ref not like 'scheduler:%%'
order by 1
limit %(limit)s;

-- name: entries_match_their_answer
-- contract: scheduler
-- An expense entry matches its answer: the user of the schedule, the time of the answer, and the amount and currency of
-- the answer, if it has them; else those of the schedule, unless it was changed since, with a tolerance of one minute for
-- concurrent changes. No amount is NaN.
select offender
from (
    select format('entry %%s of %%s is %%s %%s of person %%s, and was answered as %%s by person %%s', e.id, e.source_ref,
        trim_scale(e.amount), e.currency, e.user_id, coalesce(c.payload::text, 'it is'), j.user_id) as offender
    from expense.expenses as e
    join scheduler.job_run_keys as k on e.source_ref = 'scheduler:' || k.job_id || ':' || k.period_key
    join scheduler.jobs as j on j.id = k.job_id
    join scheduler.confirmations as c on c.job_run_id = k.job_run_id and c.action = 'complete'
    left join scheduler.expense_templates as t on t.job_id = j.id and c.confirmed_at > j.updated_at + interval '1 minute'
    where e.reverses is null and (
        e.user_id <> j.user_id or e.occurred_at <> c.confirmed_at or e.amount = 'NaN'
        or e.amount <> coalesce((c.payload ->> 'amount')::numeric, t.amount)
        or e.currency <> coalesce(c.payload ->> 'currency', t.currency)
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: entries_have_their_answer
-- contract: scheduler
-- Every expense entry of a schedule has the answer that it was booked for.
select offender
from (
    select format('entry %%s was booked for no answer', e.id) as offender
    from expense.expenses as e
    where e.source_ref like 'scheduler:%%' and not exists (
        select
        from scheduler.job_run_keys as k
        join scheduler.confirmations as c on c.job_run_id = k.job_run_id and c.action = 'complete'
        where k.job_id = split_part(e.source_ref, ':', 2)::bigint
            and k.period_key = substr(e.source_ref, length('scheduler:' || split_part(e.source_ref, ':', 2)) + 2)
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: reversals_cancel_their_entry
-- contract: scheduler
-- A reversed entry and its reversal add up to zero.
select format('entry %%s does not take back the whole of %%s', e.id, b.id) as offender
from expense.expenses as e
join expense.expenses as b on b.id = e.reverses
where e.amount + b.amount <> 0 or (e.user_id, e.currency) is distinct from (b.user_id, b.currency)
order by 1
limit %(limit)s;

-- name: sent_runs_have_a_reminder
-- contract: scheduler
-- Every run that was sent has a message that was sent.
select offender
from (
    select format('run %%s was sent, and nothing that went out says so', r.id) as offender
    from scheduler.job_runs as r
    where r.sent_at is not null and not exists (select from scheduler.reminders as m where m.job_run_id = r.id)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: reminders_go_to_their_user
-- contract: scheduler
-- A reminder is sent to the user of its schedule, and refers to a run that exists or existed.
select offender
from (
    select format('message %%s about run %%s is for %%s, and the schedule is of %%s', o.id, o.payload ->> 'run',
        o.recipient, u.uid) as offender
    from duly.outbox as o
    join scheduler.job_run_keys as k on k.job_run_id = (o.payload ->> 'run')::bigint
    join scheduler.jobs as j on j.id = k.job_id
    join "user".users as u on u.id = j.user_id
    where o.kind = 'reminder.due' and o.recipient <> u.uid
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: no_run_is_in_the_default_partition
-- contract: scheduler
-- No run of this month or a later one is in the default partition.
select format('run %%s of %%s lies in the default partition', r.id, r.scheduled_at) as offender
from scheduler.job_runs_default as r
where r.scheduled_at >= date_trunc('month', duly.now(), 'UTC')
    and r.scheduled_at < date_trunc('month', duly.now(), 'UTC') + interval '4 months'
order by 1
limit %(limit)s;

-- Notifications ---------------------------------------------------------------------------------------------------------

-- name: notifications_match_their_delivery
-- contract: ingest
-- The contract's status of a notification follows from its delivery state, which is that of its last transition. No
-- notification is missing that still has a log, except from before the oldest existing one.
select format('notification %%s is %%s, and %%s by its delivery at revision %%s; its log ends at %%s with transition %%s',
    coalesce(n.notification_id, newest.key), coalesce(n.status, 'not there'), coalesce(n.delivery, 'not there'),
    coalesce(n.revision, 0), coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0)) as offender
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
-- contract: ingest
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
-- contract: ingest
-- A notification has a lease owner and a lease expiry exactly while it is being sent; the owner is the one in the log of
-- its last claim.
select format('notification %%s is %%s, held by %%s until %%s', notification_id, delivery, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from {ingest}.schedule_notification
where num_nonnulls(lease_owner, lease_expires_at) <> case when delivery = 'sending' then 2 else 0 end
union all
select format('notification %%s is held by %%s, and was taken by %%s', n.notification_id, n.lease_owner, t.actor)
from {ingest}.schedule_notification as n
join duly.transition as t on t.machine = 'notification' and t.key = n.notification_id and t.seq = n.revision
where n.delivery = 'sending' and t.next_status = 'sending' and t.actor <> n.lease_owner
order by 1
limit %(limit)s;

-- name: starts_of_notifications_match_their_log
-- contract: ingest
-- Each claim of a notification adds one start, nothing else adds one, and a release or an expired lease subtracts at most
-- that one. The notification has the number of starts in its log; while it is leased, its start may have been subtracted
-- already.
select format('notification %%s: transition %%s counts %%s starts, the one before %%s, and the notification itself %%s',
    logged.key, logged.seq, logged.starts, logged.before, coalesce(n.starts::text, 'later')) as offender
from (
    select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
        coalesce(lag((t.detail_json ->> 'starts')::bigint) over (partition by t.key order by t.seq), 0) as before
    from duly.transition as t
    where t.machine = 'notification'
) as logged
left join {ingest}.schedule_notification as n on n.notification_id = logged.key and n.revision = logged.seq
where case when (logged.prev_status, logged.next_status) = ('pending', 'sending') then logged.starts <> logged.before + 1
        when logged.prev_status = 'sending' then logged.starts not between logged.before - 1 and logged.before
        else logged.starts > logged.before end
    or n.starts not between logged.starts - case when n.delivery = 'sending' then 1 else 0 end and logged.starts
order by logged.key, logged.seq
limit %(limit)s;

-- name: notifications_are_sent_by_their_lease_owner
-- contract: ingest
-- A notification was sent, or failed, by its last lease owner. If another program set its status, the name of an earlier
-- owner may remain.
select offender
from (
    select format('notification %%s was %%s by %%s, last claimed by %%s', n.notification_id, n.delivery, n.settled_by,
        coalesce(claim.actor, 'none')) as offender
    from {ingest}.schedule_notification as n
    join duly.transition as ended
        on ended.machine = 'notification' and ended.key = n.notification_id and ended.seq = n.revision
    left join duly.transition as claim
        on claim.machine = 'notification' and claim.key = n.notification_id and claim.seq = n.revision - 1
    where n.delivery in ('sent', 'failed') and ended.prev_status = 'sending' and n.settled_by <> claim.actor and not exists (
        select
        from duly.transition as t
        where t.machine = 'notification' and t.key = n.notification_id and t.seq < n.revision and t.prev_status = 'sending'
            and t.next_status <> 'sending' and t.actor = n.settled_by
    )
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: expired_leases_of_notifications_are_recovered
-- contract: ingest
-- While a sender is alive, an expired lease of a notification is recovered within 15 minutes.
select format('notification %%s was held by %%s until %%s, and was not recovered', n.notification_id, n.lease_owner,
    n.lease_expires_at) as offender
from {ingest}.schedule_notification as n
where n.delivery = 'sending' and n.lease_expires_at < duly.now() - interval '15 minutes' and exists (
    select
    from duly.workers as w
    where 'notifications' = any (w.kinds) and w.stopped_at is null and w.started_at < duly.now() - interval '15 minutes'
        and w.seen_at > duly.now() - interval '1 minute'
)
order by n.notification_id
limit %(limit)s;
