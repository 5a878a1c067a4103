-- The lease on posts: claim, renew, settle, release and what brings back expired rows.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes. States are literals, so
-- that partial indexes are used; rows that were picked are found again by `= any (array(...))`, which no plan can turn
-- into a scan of the table.
--
-- Rows are settled and released in the order of their keys, so that two batches never deadlock. Each row is looked up
-- by its key in a lateral join: the planner would choose a plain join by statistics from a time when few rows had an
-- owner. In a settle, `select %(keys)s` hides the length of the arrays from the planner; for a long one it would scan
-- the table.

-- name: claim
-- Due rows without an owner get one, in the order they are due. Each claim counts as a start, so that a crash counts
-- too. Rows that another claim has locked are skipped: claims never wait for each other.
with due as (
    select id
    from posts.posts
    where status = 'PENDING' and release_time <= duly.now()
        and (%(keys)s::uuid[] is null or id = any (%(keys)s::uuid[]))
    order by release_time, id
    limit %(limit)s
    for no key update skip locked
)
update posts.posts as t
set
    status = 'PROCESSING',
    lease_owner = %(owner)s,
    process_attempts = t.process_attempts + 1,
    lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t.id = any (array(select id from due))
returning t.*;

-- name: find_next
-- What a claim of one row would return now, locked until the transaction ends; for `explain`.
select id as key
from posts.posts
where status = 'PENDING' and release_time <= duly.now()
order by release_time, id
limit 1
for no key update skip locked;

-- name: find_due
-- What a claim would return next, except these keys, without locking: used when a row cannot be claimed.
select id as key
from posts.posts
where status = 'PENDING' and release_time <= duly.now() and not (id = any (%(excluded_keys)s::uuid[]))
order by release_time, id
limit %(limit)s;

-- name: find_expired
-- Rows whose lease has expired, except these, without locking: used when one of them cannot be swept or claimed.
select id as key
from posts.posts
where status = 'PROCESSING' and lease_expires_at < duly.now()
    and not (id = any (%(excluded_keys)s::uuid[]))
order by id
limit %(limit)s;

-- name: sweep
-- Expired rows become claimable again, with the due time they had.
with expired as (
    select id
    from posts.posts
    where status = 'PROCESSING' and lease_expires_at < duly.now()
        and (%(keys)s::uuid[] is null or id = any (%(keys)s::uuid[]))
    order by id
    limit %(limit)s
    for no key update skip locked
)
update posts.posts as t
set status = 'PENDING', lease_owner = null, lease_expires_at = null
where t.id = any (array(select id from expired))
returning t.*;

-- name: renew
-- Every lease that is still ours is extended, and nothing here waits for a lock. A locked row is skipped and read
-- back: if it is still ours, our own transaction has locked it and the next heartbeat renews it; otherwise it is lost.
-- An expired lease is lost too: a heartbeat that crosses a release must not undo it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.id
    from given
    cross join lateral (
        select t.id
        from posts.posts as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'PROCESSING'
            and t.lease_expires_at >= duly.clock()
        for no key update skip locked
    ) as ours
),
renewed as (
    update posts.posts as t
    set lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t.id = any (array(select id from free))
    returning t.id as key
)
select
    given.key,
    given.owner,
    given.key in (select key from renewed) as renewed,
    now.ours is true as ours,
    now.cancelled
from given
left join lateral (
    select
        t.status = 'PROCESSING' and t.lease_owner = given.owner and t.lease_expires_at >= duly.clock() as ours,
        false as cancelled
    from posts.posts as t
    where t.id = given.key
    limit 1
) as now on true;

-- name: settle_released
-- The posts are released, each with its reading.
with given as (
    select *
    from unnest(
        (select %(keys)s::uuid[]), (select %(owners)s::text[]),
        (select %(ai)b::jsonb[]), (select %(ai_error)s::text[])
    ) as g (key, owner, ai, ai_error)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from posts.posts as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'PROCESSING'
        for no key update
    ) as locked
),
settled as (
    update posts.posts as t
    set
        status = 'RELEASED',
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        ai = ours.ai,
        ai_error = ours.ai_error
    from ours
    where t.id = ours.key
    returning t.id as key
)
select key from settled;

-- name: find_settled
-- A settle that is repeated after its answer was lost finds nothing to do, and is no loss: the rows say that we
-- settled them. A statement of its own, because it must see what was committed while the settle waited.
select given.key
from unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from posts.posts as t where t.id = given.key and t.settled_by = given.owner limit 1
) as ours;

-- name: release
-- Rows are released unfinished: the start is not counted, and the lease expires this instant, so that the sweep or the
-- next claim of expired rows brings them to another worker. An expired lease is left alone, so that a release repeated
-- after its answer was lost subtracts one start only.
with given as (
    select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select locked.id
    from given
    cross join lateral (
        select t.id
        from posts.posts as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'PROCESSING'
            and t.lease_expires_at >= duly.clock()
        for no key update
    ) as locked
)
update posts.posts as t
set
    process_attempts = greatest(t.process_attempts - 1, 0),
    lease_expires_at = duly.clock() - interval '1 millisecond'
where t.id = any (array(select id from ours))
returning t.id as key;
