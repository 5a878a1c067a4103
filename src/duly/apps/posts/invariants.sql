-- Invariants of posts; see verify/invariants.sql.

-- name: posts_match_the_end_of_their_log
-- Every post has transitions, and the last one has its status and revision. No post is missing that still has a log,
-- except from before the oldest existing one: those were dropped with their table by a downgrade.
select format(
    'post %%s is %%s at revision %%s, its log ends at %%s with transition %%s',
    coalesce(p.id::text, newest.key), coalesce(p.status, 'not there'), coalesce(p.revision, 0),
    coalesce(newest.next_status, 'nothing'), coalesce(newest.seq, 0)
) as offender
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
-- A post has a lease owner, a lease expiry and a processing start exactly while it is PROCESSING; the owner is the one
-- in the log of its last claim.
select format('post %%s is %%s, held by %%s until %%s since %%s', id, status, coalesce(lease_owner, 'none'),
    coalesce(lease_expires_at::text, 'no time'), coalesce(processing_since::text, 'no time')) as offender
from posts.posts
where num_nonnulls(lease_owner, lease_expires_at, processing_since) <> case when status = 'PROCESSING' then 3 else 0 end
union all
select format('post %%s is held by %%s, and was claimed by %%s', p.id, p.lease_owner, t.actor)
from posts.posts as p
join duly.transition as t on t.machine = 'post' and t.key = p.id::text and t.seq = p.revision
where p.status = 'PROCESSING' and t.next_status = 'PROCESSING' and t.actor <> p.lease_owner
order by 1
limit %(limit)s;

-- name: attempts_of_posts_match_their_log
-- Each claim of a post adds one attempt, nothing else adds one, and a release or an expired lease subtracts at most
-- that one. The post has the number of attempts in its log; while it is leased, its attempt may have been subtracted
-- already.
select offender
from (
    select format(
        'post %%s: transition %%s counts %%s attempts, the one before %%s, and the post itself %%s',
        logged.key, logged.seq, logged.attempts, logged.before, coalesce(p.process_attempts::text, 'later')
    ) as offender
    from (
        select t.key, t.seq, t.prev_status, t.next_status,
            coalesce((t.detail_json ->> 'attempts')::bigint, 0) as attempts,
            coalesce(lag((t.detail_json ->> 'attempts')::bigint) over (partition by t.key order by t.seq), 0) as before
        from duly.transition as t
        where t.machine = 'post'
    ) as logged
    left join posts.posts as p on p.id::text = logged.key and p.revision = logged.seq
    where case when logged.prev_status is null then false
            when (logged.prev_status, logged.next_status) = ('PENDING', 'PROCESSING')
                then logged.attempts <> logged.before + 1
            when logged.prev_status = 'PROCESSING' then logged.attempts not between logged.before - 1 and logged.before
            else logged.attempts <> logged.before end
        or p.process_attempts
            not between logged.attempts - case when p.status = 'PROCESSING' then 1 else 0 end and logged.attempts
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: posts_follow_their_state_machine
-- Every transition of a post is an edge of the contract; a caption is edited while the post is PENDING, and only
-- documents of the first version begin as RELEASED.
select format(
    'post %%s: transition %%s goes from %%s to %%s',
    t.key, t.seq, coalesce(t.prev_status, 'nothing'), t.next_status
) as offender
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
-- No post was claimed or released before its release time.
select offender
from (
    select format(
        'post %%s was to be released at %%s, was first claimed at %%s and released at %%s',
        p.id, p.release_time, claimed.ts, p.released_at
    ) as offender
    from posts.posts as p
    left join (
        select t.key, min(t.ts) as ts
        from duly.transition as t
        where t.machine = 'post' and t.next_status = 'PROCESSING'
        group by t.key
    ) as claimed on claimed.key = p.id::text
    where p.settled_by is not null and (claimed.ts < p.release_time or p.released_at < p.release_time)
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: no_post_is_stuck
-- No post is PROCESSING for longer than fifteen minutes, also when workers crash.
select format('post %%s is held by %%s since %%s', id, lease_owner, processing_since) as offender
from posts.posts
where status = 'PROCESSING' and processing_since < duly.now() - interval '15 minutes'
order by id
limit %(limit)s;

-- name: posts_are_released_by_their_lease_owner
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
    left join duly.transition as claim
        on claim.machine = 'post' and claim.key = logged.key and claim.seq = logged.claimed
    where p.status = 'RELEASED' and (coalesce(logged.times, 0) <> 1 or (p.released_at is not null and p.legacy is null
        and p.settled_by is distinct from claim.actor))
    offset 0
) as found
order by offender
limit %(limit)s;

-- name: versions_of_posts_only_grow
-- Every transition increased the version, which counts other changes too.
select format(
    'post %%s: transition %%s is of version %%s, the one before of %%s',
    key, seq, version, before
) as offender
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
-- The author of a post that was released in the last day was notified, unless it was imported; older messages may have
-- been deleted.
select format('author %%s was not notified of post %%s', p.author_id, p.id) as offender
from posts.posts p
where p.settled_by is not null and p.released_at > duly.now() - interval '1 day' and p.legacy is null
    and not exists (select from duly.outbox o where o.dedupe_key = 'post.released:' || p.id)
order by p.id
limit %(limit)s;
