-- The lease on visits: claim, renew, settle, release and what brings back expired rows.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes. States are literals, so
-- that partial indexes are used; rows that were picked are found again by `= any (array(...))`, which no plan can turn
-- into a scan of the table.
--
-- Rows are settled and released in the order of their keys, so that two batches never deadlock. Each row is looked up
-- by its own key: a join would rely on statistics that have never seen so many owned rows. In a settle the inner
-- selects hide the number of rows from the planner, so that a scan of the table does not look cheaper than the
-- lookups.

-- name: claim
-- Due rows without an owner get one, in the order they are due. Each claim counts as a start, so that a crash counts
-- too. Rows that another claim has locked are skipped: claims never wait for each other.
with due as (
    select number
    from conformance.visit
    where state = 'pending' and created_at <= duly.now()
        and (%(keys)s::bigint[] is null or number = any (%(keys)s::bigint[]))
    order by created_at, number
    limit %(limit)s
    for no key update skip locked
)
update conformance.visit as t
set
    state = 'processing',
    locked_by = %(owner)s,
    starts = t.starts + 1,
    locked_at = duly.clock(),
    lease_seconds = %(lease_seconds)s
where t.number = any (array(select number from due))
returning t.*;

-- name: find_due
-- What a claim would take next, except these keys, without locking: used when a row cannot be claimed.
select number as key
from conformance.visit
where state = 'pending'
    and created_at <= duly.now()
    and not (number = any (%(excluded_keys)s::bigint[]))
order by created_at, number
limit %(limit)s;

-- name: claim_expired
-- A row whose lease has expired gets a new owner; one that was started too often is left for quarantine.
with expired as (
    select number
    from conformance.visit
    where state = 'processing' and locked_at < duly.now() - make_interval(secs => lease_seconds)
        and starts < %(max_starts)s
        and (%(keys)s::bigint[] is null or number = any (%(keys)s::bigint[]))
    order by number
    limit %(limit)s
    for no key update skip locked
)
update conformance.visit as t
set
    locked_by = %(owner)s,
    starts = t.starts + 1,
    locked_at = duly.clock(),
    lease_seconds = %(lease_seconds)s
where t.number = any (array(select number from expired))
returning t.*;

-- name: quarantine
-- An expired row that was started too often is set aside and not started again. It has no settled_by: its last owner,
-- should it come back, must not take this for its own success.
with poison as (
    select number
    from conformance.visit
    where state = 'processing' and locked_at < duly.now() - make_interval(secs => lease_seconds)
        and starts >= %(max_starts)s
        and (%(keys)s::bigint[] is null or number = any (%(keys)s::bigint[]))
    order by number
    limit %(limit)s
    for no key update skip locked
)
update conformance.visit as t
set
    state = 'failed',
    locked_by = null,
    locked_at = null,
    lease_seconds = null,
    error = 'started too often'
where t.number = any (array(select number from poison))
returning t.*;

-- name: find_expired
-- Rows whose lease has expired, except these, without locking: used when one of them cannot be swept or claimed.
select number as key
from conformance.visit
where state = 'processing' and locked_at < duly.now() - make_interval(secs => lease_seconds)
    and not (number = any (%(excluded_keys)s::bigint[]))
order by number
limit %(limit)s;

-- name: renew
-- Every lease that is still ours is extended, and nothing here waits for a lock. A locked row is skipped and read
-- back: if it is still ours, our own transaction has locked it and the next heartbeat renews it; otherwise it is lost.
-- An expired lease is lost too: a heartbeat that crosses a release must not undo it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.number
    from given
    cross join lateral (
        select t.number
        from conformance.visit as t
        where t.number = given.key and t.locked_by = given.owner and t.state = 'processing'
            and not (locked_at < duly.clock() - make_interval(secs => lease_seconds))
        for no key update skip locked
    ) as ours
),
renewed as (
    update conformance.visit as t
    set locked_at = duly.clock(), lease_seconds = %(lease_seconds)s
    where t.number = any (array(select number from free))
    returning t.number as key
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
        t.state = 'processing' and t.locked_by = given.owner
            and not (locked_at < duly.clock() - make_interval(secs => lease_seconds)) as ours,
        false as cancelled
    from conformance.visit as t
    where t.number = given.key
    limit 1
) as now on true;

-- name: settle
-- The visits are over.
with given as (
    select *
    from unnest(
        (select %(keys)s::bigint[]), (select %(owners)s::text[]), (select %(note)s::text[])
    ) as g (key, owner, note)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from conformance.visit as t
        where t.number = given.key and t.locked_by = given.owner and t.state = 'processing'
        for no key update
    ) as locked
),
settled as (
    update conformance.visit as t
    set
        state = 'done',
        settled_by = ours.owner,
        locked_by = null,
        locked_at = null,
        lease_seconds = null,
        note = ours.note
    from ours
    where t.number = ours.key
    returning t.number as key
)
select key from settled;

-- name: find_settled
-- A settle that is repeated after its answer was lost finds nothing to do, and is no loss: the rows say that we
-- settled them. A statement of its own, because it must see what was committed while the settle waited.
select given.key
from unnest(%(keys)s::bigint[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from conformance.visit as t where t.number = given.key and t.settled_by = given.owner limit 1
) as ours;

-- name: release
-- Rows are released unfinished: the start is not counted, and the lease expires this instant, so that the sweep or the
-- next claim of expired rows brings them to another worker. An expired lease is left alone, so that a release repeated
-- after its answer was lost takes back one start only.
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select locked.number
    from given
    cross join lateral (
        select t.number
        from conformance.visit as t
        where t.number = given.key and t.locked_by = given.owner and t.state = 'processing'
            and not (locked_at < duly.clock() - make_interval(secs => lease_seconds))
        for no key update
    ) as locked
)
update conformance.visit as t
set
    starts = greatest(t.starts - 1, 0),
    locked_at = duly.clock() - make_interval(secs => t.lease_seconds) - interval '1 millisecond'
where t.number = any (array(select number from ours))
returning t.number as key;
