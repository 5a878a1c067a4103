-- The lease on the plans of schedules: claim, renew, settle, release and what brings back expired rows.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes. States are literals, so
-- that partial indexes are used; rows that were picked are found again by `= any (array(...))`, which no query plan
-- can turn into a scan of the table.
--
-- Rows are settled and released in the order of their keys, so that two batches never deadlock. Each row is looked up
-- by its own key: a join would rely on statistics that have never seen so many owned rows. In a settle the inner
-- selects hide the number of rows from PostgreSQL, so that a scan of the table does not look cheaper than the lookups.

-- name: claim
-- Due rows without an owner get one, in the order they are due. Each claim counts as a start, so that a crash counts
-- too. Rows that another claim has locked are skipped: claims never wait for each other.
with due as (
    select job_id
    from scheduler.job_plans
    where state = 'waiting' and plan_at <= duly.now()
        and (%(keys)s::bigint[] is null or job_id = any (%(keys)s::bigint[]))
    order by plan_at, job_id
    limit %(limit)s
    for no key update skip locked
)
update scheduler.job_plans as t
set
    state = 'planning',
    lease_owner = %(owner)s,
    starts = t.starts + 1,
    lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t.job_id = any (array(select job_id from due))
returning t.*;

-- name: find_due
-- What a claim would return next, except these keys, without locking: used when a row cannot be claimed.
select job_id as key
from scheduler.job_plans
where state = 'waiting' and plan_at <= duly.now() and not (job_id = any (%(excluded_keys)s::bigint[]))
order by plan_at, job_id
limit %(limit)s;

-- name: claim_expired
-- A row whose lease has expired gets a new owner; one that was started too often is left for quarantine.
with expired as (
    select job_id
    from scheduler.job_plans
    where state = 'planning' and lease_expires_at < duly.now() and starts < %(max_starts)s
        and (%(keys)s::bigint[] is null or job_id = any (%(keys)s::bigint[]))
    order by job_id
    limit %(limit)s
    for no key update skip locked
)
update scheduler.job_plans as t
set
    lease_owner = %(owner)s,
    starts = t.starts + 1,
    lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t.job_id = any (array(select job_id from expired))
returning t.*;

-- name: quarantine
-- An expired row that was started too often is set aside and not started again. It has no settled_by: its last owner,
-- should it come back, must not mistake this for its own success.
with poison as (
    select job_id
    from scheduler.job_plans
    where state = 'planning' and lease_expires_at < duly.now() and starts >= %(max_starts)s
        and (%(keys)s::bigint[] is null or job_id = any (%(keys)s::bigint[]))
    order by job_id
    limit %(limit)s
    for no key update skip locked
)
update scheduler.job_plans as t
set
    state = 'stuck',
    lease_owner = null,
    lease_expires_at = null,
    last_error = 'The worker died each time it planned this schedule. Check the worker logs, then edit or resume it.'
where t.job_id = any (array(select job_id from poison))
returning t.*;

-- name: find_expired
-- Rows whose lease has expired, except these, without locking: used when one of them cannot be swept or claimed.
select job_id as key
from scheduler.job_plans
where state = 'planning' and lease_expires_at < duly.now()
    and not (job_id = any (%(excluded_keys)s::bigint[]))
order by job_id
limit %(limit)s;

-- name: renew
-- Every lease that is still ours is extended, and nothing here waits for a lock. A locked row is skipped and read
-- back: if it is still ours, a transaction that has not committed has locked it, our own or an edit of the schedule,
-- and the next heartbeat renews it or finds it lost; otherwise it is lost already.
-- An expired lease is lost too: a heartbeat that crosses a release must not undo it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.job_id
    from given
    cross join lateral (
        select t.job_id
        from scheduler.job_plans as t
        where t.job_id = given.key and t.lease_owner = given.owner and t.state = 'planning'
            and t.lease_expires_at >= duly.clock()
        for no key update skip locked
    ) as ours
),
renewed as (
    update scheduler.job_plans as t
    set lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t.job_id = any (array(select job_id from free))
    returning t.job_id as key
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
        t.state = 'planning' and t.lease_owner = given.owner and t.lease_expires_at >= duly.clock() as ours,
        false as cancelled
    from scheduler.job_plans as t
    where t.job_id = given.key
    limit 1
) as now on true;

-- name: settle_waiting
-- The schedules are planned, and their plans wait until they are due again.
with given as (
    select *
    from unnest(
        (select %(keys)s::bigint[]), (select %(owners)s::text[]),
        (select %(plan_at)s::timestamptz[]), (select %(next_at)s::timestamptz[]),
        (select %(planned_until)s::timestamptz[])
    ) as g (key, owner, plan_at, next_at, planned_until)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from scheduler.job_plans as t
        where t.job_id = given.key and t.lease_owner = given.owner and t.state = 'planning'
        for no key update
    ) as locked
),
settled as (
    update scheduler.job_plans as t
    set
        state = 'waiting',
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        plan_at = ours.plan_at,
        next_at = ours.next_at,
        planned_until = ours.planned_until,
        starts = 0,
        last_error = null
    from ours
    where t.job_id = ours.key
    returning t.job_id as key
)
select key from settled;

-- name: settle_stuck
-- The firings of these schedules could not be computed: they are planned again once they are edited or resumed.
with given as (
    select *
    from unnest(
        (select %(keys)s::bigint[]), (select %(owners)s::text[]), (select %(last_error)s::text[])
    ) as g (key, owner, last_error)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from scheduler.job_plans as t
        where t.job_id = given.key and t.lease_owner = given.owner and t.state = 'planning'
        for no key update
    ) as locked
),
settled as (
    update scheduler.job_plans as t
    set
        state = 'stuck',
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        last_error = ours.last_error
    from ours
    where t.job_id = ours.key
    returning t.job_id as key
)
select key from settled;

-- name: find_settled
-- A settle that is repeated after its reply was lost finds nothing to do, and is no loss: the rows say that we
-- settled them. A statement of its own, because it must see what was committed while the settle waited.
select given.key
from unnest(%(keys)s::bigint[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from scheduler.job_plans as t where t.job_id = given.key and t.settled_by = given.owner limit 1
) as ours;

-- name: release
-- Rows are released unfinished: the start is not counted, and the lease expires this instant, so that the sweep or the
-- next claim of expired rows brings them to another worker. An expired lease is left alone, so that a release repeated
-- after its reply was lost subtracts one start only.
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select locked.job_id
    from given
    cross join lateral (
        select t.job_id
        from scheduler.job_plans as t
        where t.job_id = given.key and t.lease_owner = given.owner and t.state = 'planning'
            and t.lease_expires_at >= duly.clock()
        for no key update
    ) as locked
)
update scheduler.job_plans as t
set starts = greatest(t.starts - 1, 0), lease_expires_at = duly.clock() - interval '1 millisecond'
where t.job_id = any (array(select job_id from ours))
returning t.job_id as key;
