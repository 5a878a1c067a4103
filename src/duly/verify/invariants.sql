-- What must hold at every moment: each statement returns offenders, and none is good. They read only, and take no lock that
-- anybody would notice. The line under a name says which contract the law belongs to; without one it concerns them all.
-- Offenders are rare, and the planner does not know that: `offset 0` keeps it from hoping to find a hundred soon, and from
-- looking up millions of rows one by one.

-- name: every_role_sees_every_row
-- A verifier that row security blinds would find nothing wrong. A policy that shows this login every row blinds nobody.
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

-- name: transitions_are_without_a_gap
-- contract: duly
-- The log of a row counts 1, 2, 3.
select format('%%s %%s has %%s transitions, from %%s to %%s', machine, key, count(*), min(seq), max(seq)) as offender
from duly.transition
group by machine, key
having max(seq) <> count(*) or min(seq) <> 1
order by machine, key
limit %(limit)s;

-- name: transitions_are_linked
-- contract: duly
-- Each transition begins where the one before it ended.
select format('%%s %%s: transition %%s begins at %%s, the one before ended at %%s', machine, key, seq, prev_status, ended)
    as offender
from (
    select machine, key, seq, prev_status, lag(next_status) over (partition by machine, key order by seq) as ended
    from duly.transition
) as linked
where prev_status is distinct from ended
order by machine, key, seq
limit %(limit)s;

-- name: keys_have_a_live_holder
-- contract: duly
-- A key that opens doors belongs to an org or a person that exists.
select format('the key %%s has no holder', prefix) as offender
from duly.api_keys k
left join duly.orgs o on o.id = k.org_id
left join "user".users u on u.id = k.user_id
where k.revoked_at is null and o.id is null and u.id is null
order by prefix
limit %(limit)s;

-- name: partitions_refuse_what_their_log_refuses
-- A log that only grows does so on each of its partitions.
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
-- A role that was granted rights on tables is no member of the role that owns them: it could switch off every guard.
-- A role that may create roles is an administrator, who migrates and is a member for that.
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

-- name: messages_are_held_exactly_while_sending
-- contract: duly
-- A message has an owner and an end of its lease when it is being sent, and at no other time; the owner is whoever the log
-- says took it.
select format('message %%s is %%s, held by %%s until %%s', id, status, coalesce(lease_owner, 'nobody'),
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

-- name: messages_are_where_their_log_ends
-- contract: duly
-- The newest transition of a message tells its status and its revision. No message is gone whose log stayed; but what was
-- there before the oldest that there is went with its table, when somebody migrated down and up again.
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

-- name: messages_move_as_drawn
-- contract: duly
-- Every transition of a message is an edge that is drawn.
select format('message %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'outbox' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'outbox'
)
order by t.key, t.seq
limit %(limit)s;

-- name: messages_started_as_often_as_their_log_tells
-- contract: duly
-- Whoever takes a message counts one start more; nothing else adds one, and whoever lets go of it, or died with it, takes back
-- one at most: their own. The message counts what its log does; while it is in somebody's hands, its start may have been given
-- back already.
select offender
from (
    select format('message %%s: transition %%s counts %%s starts, the one before %%s, and the message itself %%s', told.key,
        told.seq, told.starts, told.before, coalesce(o.starts::text, 'later')) as offender
    from (
        select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
            coalesce(lag((t.detail_json ->> 'starts')::bigint) over (partition by t.key order by t.seq), 0) as before
        from duly.transition as t
        where t.machine = 'outbox'
    ) as told
    left join duly.outbox as o on o.id::text = told.key and o.revision = told.seq
    where case when (told.prev_status, told.next_status) = ('pending', 'sending') then told.starts <> told.before + 1
            when told.prev_status = 'sending' then told.starts not between told.before - 1 and told.before
            else told.starts > told.before end
        or o.starts not between told.starts - case when o.status = 'sending' then 1 else 0 end and told.starts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: messages_are_sent_by_their_holder
-- contract: duly
-- A message went out, or failed, by the hand of whoever took it last; of one that nobody knew of, somebody said so, and what
-- the dead left failed by nobody's.
select offender
from (
    select format('message %%s was %%s by %%s, last taken by %%s', o.id, o.status, coalesce(o.settled_by, 'nobody'),
        coalesce(claim.actor, 'nobody')) as offender
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

-- name: messages_of_the_dead_are_taken_up
-- contract: duly
-- A lease that ended is not left lying while a sender lives: within a quarter of an hour somebody took the message up.
select format('message %%s was held by %%s until %%s, and nobody took it up', o.id, o.lease_owner, o.lease_expires_at)
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
-- A message goes with its history and stays with it.
select offender
from (
    select format('message %%s has no transition', o.id) as offender
    from duly.outbox as o
    where not exists (select from duly.transition as t where t.machine = 'outbox' and t.key = o.id::text)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: job_events_are_without_a_gap_and_linked
-- contract: ledger
-- The log of a job counts 1, 2, 3, and each event begins where the one before it ended.
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

-- name: jobs_are_where_their_log_ends
-- contract: ledger
-- The newest event of a job tells its status and its revision, and no job is without one.
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

-- name: jobs_are_held_exactly_while_running
-- contract: ledger
-- A job has an owner and an end of its lease while it runs; one that failed keeps its owner for the move that follows; no
-- other has either. The owner is whoever the log says started it.
select format('job %%s is %%s, held by %%s until %%s', id, status, coalesce(lease_owner, 'nobody'),
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

-- name: jobs_of_the_dead_are_taken_up
-- contract: ledger
-- A lease that ended is not left lying while a worker of jobs lives: within a quarter of an hour somebody took it up.
select format('job %%s was held by %%s until %%s, and nobody took it up', j.id, j.lease_owner, j.lease_expires_at)
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
-- Every event is an edge that is drawn; progress, a request to cancel and the release of a key stay where they are.
select format('job %%s: event %%s goes from %%s to %%s', e.job_id, e.seq, coalesce(e.prev_status, 'nothing'), e.next_status)
    as offender
from ledger.job_event as e
where (coalesce(e.prev_status, ''), e.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'job'
)
order by e.job_id, e.seq
limit %(limit)s;

-- name: jobs_started_as_often_as_their_log_tells
-- contract: ledger
-- Every start is counted, crashes included, and none is beyond what is allowed. Handing back and snoozing give a start back;
-- a redrive begins anew.
select offender
from (
    select format('job %%s counts %%s starts of %%s, its log tells of %%s', j.id, j.starts, j.max_attempts,
        coalesce(told.starts, 0)) as offender
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
    ) as told on told.job_id = j.id
    where j.starts <> coalesce(told.starts, 0) or j.starts > j.max_attempts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: jobs_are_finished_by_their_holder
-- contract: ledger
-- A job was let go of by the hand of whoever claimed it last, however it ended: done, failed, cancelled or handed back. What
-- the dead left is swept, and the log names whose it was. Whoever cancels a running job at once lets go of it for nobody, and
-- nothing is asked of a move that the log names nobody for, unless the work was done.
select offender
from (
    select format('job %%s is %%s, let go of by %%s and in the log by %%s, last claimed by %%s', j.id, j.status,
        coalesce(j.settled_by, 'nobody'), coalesce(last.let_go_by, 'whoever it was'), coalesce(last.claimed_by, 'nobody'))
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

-- name: no_job_rests_failed
-- contract: ledger
-- A failure is two moves in one transaction: nobody ever sees a job between them.
select format('job %%s is failed, in the hands of %%s', id, lease_owner) as offender
from ledger.job
where status = 'failed'
order by id
limit %(limit)s;

-- name: keys_stand_for_one_job
-- contract: ledger
-- An org and a key are one job.
select format('the key %%s of org %%s stands for %%s jobs', idempotency_key, org_id, count(*)) as offender
from ledger.job
where idempotency_key is not null
group by org_id, idempotency_key
having count(*) > 1
order by 1
limit %(limit)s;

-- name: job_events_are_of_their_jobs_org
-- contract: ledger
-- Whoever may see a job may see its log, and nobody else.
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
-- A job leaves with its whole log: no event stays behind.
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

-- name: jobs_began_and_ended_when_their_log_tells
-- contract: ledger
-- A job was first started, and finished, when its log was told so: both are written by one statement, for which five minutes
-- are left; a key that is released later does not end it again. Of jobs that were carried over from another table the log does not know when.
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

-- name: keys_stand_for_their_request
-- contract: ledger
-- The digest that a key stands for is that of the job's own type, queue and payload. It holds the time or the delay that was
-- asked for as well; so this is looked at where none was, and until another attempt gave the job another time.
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

-- name: posts_are_where_their_log_ends
-- contract: posts
-- The newest transition of a post tells its status and its revision; no post is without one. No post is gone whose log
-- stayed, unless it went before the oldest that there is: with its table, when somebody migrated down and up again.
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

-- name: posts_are_held_exactly_while_processing
-- contract: posts
-- A post has an owner, an end of its lease and a time since when while it is prepared, and at no other time; the owner is
-- whoever the log says took it.
select format('post %%s is %%s, held by %%s until %%s since %%s', id, status, coalesce(lease_owner, 'nobody'),
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

-- name: posts_were_taken_as_often_as_their_log_tells
-- contract: posts
-- Whoever takes a post counts one attempt more; nothing else adds one, and whoever lets go of it, or died with it, takes back
-- one at most: their own. The post counts what its log does; while it is in somebody's hands, its attempt may have been given
-- back already.
select offender
from (
    select format('post %%s: transition %%s counts %%s attempts, the one before %%s, and the post itself %%s', told.key, told.seq,
        told.attempts, told.before, coalesce(p.process_attempts::text, 'later')) as offender
    from (
        select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'attempts')::bigint, 0) as attempts,
            coalesce(lag((t.detail_json ->> 'attempts')::bigint) over (partition by t.key order by t.seq), 0) as before
        from duly.transition as t
        where t.machine = 'post'
    ) as told
    left join posts.posts as p on p.id::text = told.key and p.revision = told.seq
    where case when told.prev_status is null then false
            when (told.prev_status, told.next_status) = ('PENDING', 'PROCESSING') then told.attempts <> told.before + 1
            when told.prev_status = 'PROCESSING' then told.attempts not between told.before - 1 and told.before
            else told.attempts <> told.before end
        or p.process_attempts
            not between told.attempts - case when p.status = 'PROCESSING' then 1 else 0 end and told.attempts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: posts_move_as_drawn
-- contract: posts
-- Every transition of a post is an edge of the contract; a caption is edited while it waits, and only documents of the first
-- version begin released.
select format('post %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'), t.next_status)
    as offender
from duly.transition as t
where t.machine = 'post' and (
    (t.seq = 1 and t.next_status = 'RELEASED' and (t.detail_json ->> 'legacy') is distinct from 'true')
    or (coalesce(t.prev_status, ''), t.next_status) not in (
        select d.before, d.after
        from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
        where d.machine = 'post'
    )
)
order by t.key, t.seq
limit %(limit)s;

-- name: no_post_is_early
-- contract: posts
-- Nobody took a post before its time, and none appeared before it.
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
-- Whatever becomes of workers, a post is in nobody's hands for longer than fifteen minutes.
select format('post %%s is held by %%s since %%s', id, lease_owner, processing_since) as offender
from posts.posts
where status = 'PROCESSING' and processing_since < duly.now() - interval '15 minutes'
order by id
limit %(limit)s;

-- name: posts_are_released_by_their_holder
-- contract: posts
-- A post appeared by the hand of whoever claimed it last, once.
select offender
from (
    select format('post %%s was released by %%s, last claimed by %%s, %%s times', p.id, coalesce(p.settled_by, 'nobody'),
        coalesce(claim.actor, 'nobody'), coalesce(told.times, 0)) as offender
    from posts.posts as p
    left join (
        select t.key, count(*) filter (where t.next_status = 'RELEASED') as times,
            max(t.seq) filter (where t.next_status = 'PROCESSING') as claimed
        from duly.transition as t
        where t.machine = 'post'
        group by t.key
    ) as told on told.key = p.id::text
    left join duly.transition as claim on claim.machine = 'post' and claim.key = told.key and claim.seq = told.claimed
    where p.status = 'RELEASED' and (coalesce(told.times, 0) <> 1 or (p.released_at is not null and p.legacy is null
        and p.settled_by is distinct from claim.actor))
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: versions_of_posts_only_grow
-- contract: posts
-- Every transition raised the version, which counts other changes too.
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
-- A post of the second version holds the lock of its author and UTC day, and every lock is held by the post it names.
select format('post %%s of %%s has the lock %%s', p.id, p.daily_key, coalesce(l.post_id::text, 'of nobody')) as offender
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

-- name: requests_stand_for_their_post
-- contract: posts
-- What a request is answered is the post that it made.
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

-- name: authors_are_told
-- contract: posts
-- Whoever's post appeared in the last day was told, unless it was imported; messages older than that may have left.
select format('nobody told %%s that post %%s appeared', p.author_id, p.id) as offender
from posts.posts p
where p.settled_by is not null and p.released_at > duly.now() - interval '1 day' and p.legacy is null
    and not exists (select from duly.outbox o where o.dedupe_key = 'post.released:' || p.id)
order by p.id
limit %(limit)s;

-- name: days_have_every_version
-- contract: ingest
-- The versions of a day count 1, 2, 3, and the day points at the last of them.
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

-- name: captures_make_one_version_at_most
-- contract: ingest
-- A session shows one day, once.
select format('capture %%s made %%s versions', session_id, count(*)) as offender
from {ingest}.schedule_version
group by session_id
having count(*) > 1
order by session_id
limit %(limit)s;

-- name: versions_differ_from_the_one_before
-- contract: ingest
-- A day that was seen as it was known gets no version. What another canonicaliser wrote has another form.
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

-- name: versions_come_of_finished_captures
-- contract: ingest
-- A version is of a session of the same person, and both were written together: that session is done.
select format('version %%s of %%s of %%s comes of capture %%s of %%s, which is %%s', v.version, v.schedule_date, v.user_id,
    v.session_id, coalesce(s.user_id::text, 'nobody'), coalesce(s.state::text, 'not there')) as offender
from {ingest}.schedule_version as v
left join {ingest}.capture_session as s on s.id = v.session_id
where (s.user_id, s.state::text) is distinct from (v.user_id, %(done)s)
order by v.user_id, v.schedule_date, v.version
limit %(limit)s;

-- name: captures_are_about_their_own_person
-- contract: ingest
-- What a session changed, and what is told of it, is about the person whose session it is.
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
-- Whatever the events of a day brought and did not take away again is its snapshot, neither more nor less. Of a day on
-- which another program wrote events, which have no number, nobody can tell.
select format('%%s of %%s: by its events it has %%s of %%s, by its snapshot %%s', schedule_date, user_id, sum(told), value,
    sum(known)) as offender
from (
    select e.user_id, e.schedule_date, side.value, side.told, 0 as known
    from {ingest}.schedule_event as e
    cross join lateral (values (e.new_value, 1), (e.old_value, -1)) as side (value, told)
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
having sum(told) <> sum(known)
order by user_id, schedule_date, value
limit %(limit)s;

-- name: events_of_a_day_are_counted
-- contract: ingest
-- The events of a day count 1, 2, 3, and its snapshot says how many led to it.
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
-- A version that reads differently at some time of the day than the one before has an event: other words, or other
-- digits. Case, accents, punctuation, order, look-alikes, durations and two letters of a long word are matters of reading.
-- The first canonicaliser dropped words; what another program wrote, and tables without a log of sessions, are not asked.
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
-- What a person is told happened, to that person and on that day, and was seen by that session.
select format('notification %%s tells %%s of event %%s, which is not there', n.notification_id, n.user_id, told.id) as offender
from {ingest}.schedule_notification as n
cross join lateral jsonb_array_elements_text(n.event_ids) as told (id)
where not exists (
    select from {ingest}.schedule_event as e
    where e.event_id::text = told.id and e.user_id = n.user_id and e.schedule_date = n.schedule_date
        and e.source_session_id = n.source_session_id
)
order by n.notification_id
limit %(limit)s;

-- name: events_are_told_once
-- contract: ingest
-- Nobody hears twice of one event.
select format('event %%s is told %%s times', told.id, count(*)) as offender
from {ingest}.schedule_notification as n
cross join lateral jsonb_array_elements_text(n.event_ids) as told (id)
group by told.id
having count(*) > 1
order by told.id
limit %(limit)s;

-- name: captures_say_why_they_failed
-- contract: ingest
-- A session has an error when it failed, and at no other time.
select format('capture %%s is %%s and its error is: %%s', id, state, coalesce(error, 'none')) as offender
from {ingest}.capture_session
where (state::text = %(failed)s) is distinct from (error is not null)
order by id
limit %(limit)s;

-- name: captures_tell_what_came_of_them
-- contract: ingest
-- A session that a worker of ours finished says which version its day had then, and that version is there.
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

-- name: captures_are_where_their_log_ends
-- contract: ingest
-- Where sessions have a log, its newest transition tells the state and the revision of each; none is without one. No session
-- is gone whose log stayed, unless it went before the oldest that there is.
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

-- name: captures_move_as_drawn
-- contract: ingest
-- Every transition of a session is an edge that is drawn; whoever closes it, or takes it from the dead, leaves it where it is.
select format('capture %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'capture' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'capture'
)
order by t.key, t.seq
limit %(limit)s;

-- name: captures_are_held_exactly_while_processing
-- contract: ingest
-- Where sessions have a log: one has an owner and a time since when while it is processed, and at no other time; the owner is
-- whoever the log says took it.
select format('capture %%s is %%s, held by %%s since %%s', id, state, coalesce(locked_by, 'nobody'),
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

-- name: captures_started_as_often_as_their_log_tells
-- contract: ingest
-- Whoever takes a session counts one start more: the first of ours exactly one, and one of ours that takes it from another
-- none where that one gave theirs back, which no line tells of. A program that knows the contract's columns alone signs
-- without a token, and need not count. Nothing else adds a start, or takes back more than one. The session counts what its log
-- does; while it is in somebody's hands, its start may have been given back already.
select format('capture %%s: transition %%s counts %%s starts, the one before %%s, and the session itself %%s', told.key,
    told.seq, told.starts, told.before, coalesce(s.starts::text, 'later')) as offender
from (
    select t.key, t.seq, t.prev_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
        coalesce(lag((t.detail_json ->> 'starts')::bigint) over log, 0) as before,
        t.next_status = 'processing' and t.actor is distinct from lag(t.actor) over log as is_taken,
        right(t.actor, 23) ~ '^/[A-Za-z0-9_-]+$' as is_ours
    from duly.transition as t
    where t.machine = 'capture'
    window log as (partition by t.key order by t.seq)
) as told
left join {ingest}.capture_session as s on s.id::text = told.key and s.revision = told.seq
where case when not told.is_taken then told.starts not between told.before - 1 and told.before
        when not told.is_ours then told.starts > told.before + 1
        when told.prev_status = 'pending' then told.starts <> told.before + 1
        else told.starts not between told.before and told.before + 1 end
    or s.starts not between told.starts - case when s.state::text = 'processing' then 1 else 0 end and told.starts
order by told.key, told.seq
limit %(limit)s;

-- name: captures_of_the_dead_are_taken_up
-- contract: ingest
-- A lease that ended is not left lying while a worker of sessions lives: within a quarter of an hour somebody took it up.
select format('capture %%s was held by %%s since %%s, and nobody took it up', s.id, s.locked_by, s.locked_at) as offender
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

-- name: captures_are_finished_by_their_holder
-- contract: ingest
-- A session was finished by the hand of whoever claimed it last.
select offender
from (
    select format('capture %%s was finished by %%s, last claimed by %%s', s.id, s.settled_by, coalesce(claim.actor, 'nobody'))
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
-- Every run has its key, of the same schedule, period and time.
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
-- Every key has its run, unless the month that it lay in was dropped.
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
-- A schedule has one run in a period.
select format('schedule %%s has %%s runs in %%s', job_id, count(*), period_key) as offender
from scheduler.job_runs
group by job_id, period_key
having count(*) > 1
order by 1
limit %(limit)s;

-- name: runs_are_where_their_log_ends
-- contract: scheduler
-- The state and revision of a run are those of the last line of its log, which also tells whether it was ever sent. A log is
-- without its run when nobody had been told of it and it was taken back, when its month was dropped and its key stayed, or
-- when it went before the oldest that there is.
select format('run %%s is %%s at revision %%s, its log ends at %%s with transition %%s', coalesce(r.id::text, told.key),
    coalesce(r.status, 'not there'), coalesce(r.revision, 0), coalesce(told.next_status, 'nothing'), coalesce(told.seq, 0))
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
) as told on told.key = r.id::text
where case when r.id is not null
    then (told.seq, told.next_status, told.was_sent) is distinct from (r.revision, r.status, r.sent_at is not null)
    else told.next_status <> 'cancelled'
        and told.ts > (select min(there.created_at) from scheduler.job_runs as there)
        and not exists (select from scheduler.job_run_keys as k where k.job_run_id = told.key::bigint)
end
order by 1
limit %(limit)s;

-- name: runs_move_as_drawn
-- contract: scheduler
-- Every transition of a run is an edge that is drawn.
select format('run %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'), t.next_status)
    as offender
from duly.transition as t
where t.machine = 'run' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'run'
)
order by t.key, t.seq
limit %(limit)s;

-- name: schedules_are_where_their_log_ends
-- contract: scheduler
-- The newest transition of a schedule tells its status, its revision and its rule; no schedule is without one. No schedule
-- is gone whose log stayed, unless it went before the oldest that there is.
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

-- name: schedules_move_as_drawn
-- contract: scheduler
-- Every transition of a schedule is an edge that is drawn; another rule leaves it where it is.
select format('schedule %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'schedule' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'schedule'
)
order by t.key, t.seq
limit %(limit)s;

-- name: plans_are_held_exactly_while_planning
-- contract: scheduler
-- A plan has an owner and an end of its lease while somebody works it out, and at no other time.
select format('the plan of schedule %%s is %%s, held by %%s until %%s', job_id, state, coalesce(lease_owner, 'nobody'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from scheduler.job_plans
where num_nonnulls(lease_owner, lease_expires_at) <> case when state = 'planning' then 2 else 0 end
order by job_id
limit %(limit)s;

-- name: plans_of_the_dead_are_taken_up
-- contract: scheduler
-- A lease that ended is not left lying while a planner lives: within a quarter of an hour somebody took it up.
select format('the plan of schedule %%s was held by %%s until %%s, and nobody took it up', p.job_id, p.lease_owner,
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
-- Every active schedule has a plan that will be looked at, is being looked at, or says why not; or its rule has ended.
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
-- A missed period is accounted for once: ranges of a schedule do not overlap.
select format('schedule %%s: the missed range from %%s overlaps the one that ends at %%s', job_id, from_at, before) as offender
from (
    select job_id, from_at, max(until_at) over log as before
    from scheduler.missed_ranges
    window log as (partition by job_id order by from_at rows between unbounded preceding and 1 preceding)
) as ordered
where from_at < before
order by job_id, from_at
limit %(limit)s;

-- name: answers_are_where_their_run_is
-- contract: scheduler
-- A run that was answered for good is where the answer put it.
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
-- Nothing but an answer confirms a run.
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
-- A run has one answer for good.
select format('run %%s was answered %%s times', c.job_run_id, count(*)) as offender
from scheduler.confirmations as c
where c.action <> 'snooze'
group by c.job_run_id
having count(*) > 1
order by 1
limit %(limit)s;

-- name: answers_are_booked
-- contract: scheduler
-- An answer that named an amount, or was given to a schedule with something to book, has its entry. What was to be booked
-- before a schedule was last changed nobody can tell; a minute is left for changes that were under way.
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
-- What is booked has one source, and a source one entry; an entry is taken back once. Nothing that an answer booked is booked
-- again, to the same person at the same time, under another source.
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

-- name: entries_say_what_was_answered
-- contract: scheduler
-- The books are the answers, entry by entry: of the person whose schedule it is, at the time of the answer, and with the
-- amount and currency that the answer named, where it did; else with those of the schedule, unless it was changed since. A
-- minute is left for changes that were under way. No amount is NaN.
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
-- Every entry that a schedule booked has the answer it was booked for.
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

-- name: reversals_take_back_the_whole
-- contract: scheduler
-- An entry that was reversed and its reversal make nothing together.
select format('entry %%s does not take back the whole of %%s', e.id, b.id) as offender
from expense.expenses as e
join expense.expenses as b on b.id = e.reverses
where e.amount + b.amount <> 0 or (e.user_id, e.currency) is distinct from (b.user_id, b.currency)
order by 1
limit %(limit)s;

-- name: sent_runs_have_a_reminder
-- contract: scheduler
-- Of every run that was sent there is a message that went out.
select offender
from (
    select format('run %%s was sent, and nothing that went out says so', r.id) as offender
    from scheduler.job_runs as r
    where r.sent_at is not null and not exists (select from scheduler.reminders as m where m.job_run_id = r.id)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: reminders_go_to_their_person
-- contract: scheduler
-- A reminder is written to the person whose schedule it is of, and about a run that there is or was.
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

-- name: no_run_is_without_its_month
-- contract: scheduler
-- No run of this month or of one to come lies in the default partition.
select format('run %%s of %%s lies in the default partition', r.id, r.scheduled_at) as offender
from scheduler.job_runs_default as r
where r.scheduled_at >= date_trunc('month', duly.now(), 'UTC')
    and r.scheduled_at < date_trunc('month', duly.now(), 'UTC') + interval '4 months'
order by 1
limit %(limit)s;

-- Notifications ---------------------------------------------------------------------------------------------------------

-- name: notifications_say_what_became_of_them
-- contract: ingest
-- The contract's status of a message is what its delivery says, and its log ends there. None is gone whose log stayed, unless
-- it went before the oldest that there is.
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

-- name: notifications_move_as_drawn
-- contract: ingest
-- Every transition of a notification is an edge that is drawn.
select format('notification %%s: transition %%s goes from %%s to %%s', t.key, t.seq, coalesce(t.prev_status, 'nothing'),
    t.next_status) as offender
from duly.transition as t
where t.machine = 'notification' and (coalesce(t.prev_status, ''), t.next_status) not in (
    select d.before, d.after
    from jsonb_to_recordset(%(drawn)s::jsonb) as d (machine text, before text, after text)
    where d.machine = 'notification'
)
order by t.key, t.seq
limit %(limit)s;

-- name: notifications_are_held_exactly_while_sending
-- contract: ingest
-- A notification has an owner and an end of its lease when it is being sent, and at no other time; the owner is whoever the
-- log says took it.
select format('notification %%s is %%s, held by %%s until %%s', notification_id, delivery, coalesce(lease_owner, 'nobody'),
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

-- name: notifications_started_as_often_as_their_log_tells
-- contract: ingest
-- Whoever takes a notification counts one start more; nothing else adds one, and whoever lets go of it, or died with it, takes
-- back one at most: their own. The notification counts what its log does; while it is in somebody's hands, its start may have
-- been given back already.
select format('notification %%s: transition %%s counts %%s starts, the one before %%s, and the notification itself %%s',
    told.key, told.seq, told.starts, told.before, coalesce(n.starts::text, 'later')) as offender
from (
    select t.key, t.seq, t.prev_status, t.next_status, coalesce((t.detail_json ->> 'starts')::bigint, 0) as starts,
        coalesce(lag((t.detail_json ->> 'starts')::bigint) over (partition by t.key order by t.seq), 0) as before
    from duly.transition as t
    where t.machine = 'notification'
) as told
left join {ingest}.schedule_notification as n on n.notification_id = told.key and n.revision = told.seq
where case when (told.prev_status, told.next_status) = ('pending', 'sending') then told.starts <> told.before + 1
        when told.prev_status = 'sending' then told.starts not between told.before - 1 and told.before
        else told.starts > told.before end
    or n.starts not between told.starts - case when n.delivery = 'sending' then 1 else 0 end and told.starts
order by told.key, told.seq
limit %(limit)s;

-- name: notifications_are_sent_by_their_holder
-- contract: ingest
-- A notification went out, or failed, by the hand of whoever took it last. Where another program says what became of it, the
-- name of somebody who let go of it before may still stand there.
select offender
from (
    select format('notification %%s was %%s by %%s, last taken by %%s', n.notification_id, n.delivery, n.settled_by,
        coalesce(claim.actor, 'nobody')) as offender
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

-- name: notifications_of_the_dead_are_taken_up
-- contract: ingest
-- A lease that ended is not left lying while a sender lives: within a quarter of an hour somebody took the message up.
select format('notification %%s was held by %%s until %%s, and nobody took it up', n.notification_id, n.lease_owner,
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
