-- The lease on capture sessions: claim, renew, settle, release and what brings back expired rows.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes. States are literals, so
-- that partial indexes are used; rows that were picked are found again by `= any (array(...))`, which no plan can turn
-- into a scan of the table.
--
-- {schema} is DB_SCHEMA; the names of the four states and {default_lease_seconds}, which is assumed for an owner that
-- wrote no lease_seconds, are settings too. {due} is the column by which this worker claims: closed_at, created_at or
-- given_at.
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
    from {schema}.capture_session
    where state = {pending} and {due} <= duly.now()
        and (%(keys)s::uuid[] is null or id = any (%(keys)s::uuid[]))
    order by {due}, id
    limit %(limit)s
    for no key update skip locked
)
update {schema}.capture_session as t
set
    state = {processing},
    locked_by = %(owner)s,
    starts = t.starts + 1,
    locked_at = duly.clock(),
    lease_seconds = %(lease_seconds)s
where t.id = any (array(select id from due))
returning t.*;

-- name: find_next
-- What a claim of one row would return now, locked until the transaction ends; for `explain`.
select id as key
from {schema}.capture_session
where state = {pending} and {due} <= duly.now()
order by {due}, id
limit 1
for no key update skip locked;

-- name: find_due
-- What a claim would return next, except these keys, without locking: used when a row cannot be claimed.
select id as key
from {schema}.capture_session
where state = {pending} and {due} <= duly.now() and not (id = any (%(excluded_keys)s::uuid[]))
order by {due}, id
limit %(limit)s;

-- name: claim_expired
-- A row whose lease has expired gets a new owner; one that was started too often is left for quarantine.
with expired as (
    select id
    from {schema}.capture_session
    where state = {processing}
        and coalesce(locked_at, '-infinity')
            < duly.now() - make_interval(secs => coalesce(lease_seconds, {default_lease_seconds}))
        and starts < %(max_starts)s
        and (%(keys)s::uuid[] is null or id = any (%(keys)s::uuid[]))
    order by id
    limit %(limit)s
    for no key update skip locked
)
update {schema}.capture_session as t
set
    locked_by = %(owner)s,
    starts = t.starts + 1,
    locked_at = duly.clock(),
    lease_seconds = %(lease_seconds)s
where t.id = any (array(select id from expired))
returning t.*;

-- name: quarantine
-- An expired row that was started too often is set aside and not started again. It has no settled_by: its last owner,
-- should it come back, must not mistake this for its own success.
with poison as (
    select id
    from {schema}.capture_session
    where state = {processing}
        and coalesce(locked_at, '-infinity')
            < duly.now() - make_interval(secs => coalesce(lease_seconds, {default_lease_seconds}))
        and starts >= %(max_starts)s
        and (%(keys)s::uuid[] is null or id = any (%(keys)s::uuid[]))
    order by id
    limit %(limit)s
    for no key update skip locked
)
update {schema}.capture_session as t
set
    state = {failed},
    locked_by = null,
    locked_at = null,
    lease_seconds = null,
    error = 'It was started too often: each time the worker ended before the session did. '
        'Check the workers'' logs, then send the day again.'
where t.id = any (array(select id from poison))
returning t.*;

-- name: find_expired
-- Rows whose lease has expired, except these, without locking: used when one of them cannot be swept or claimed.
select id as key
from {schema}.capture_session
where state = {processing}
    and coalesce(locked_at, '-infinity')
        < duly.now() - make_interval(secs => coalesce(lease_seconds, {default_lease_seconds}))
    and not (id = any (%(excluded_keys)s::uuid[]))
order by id
limit %(limit)s;

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
        from {schema}.capture_session as t
        where t.id = given.key and t.locked_by = given.owner and t.state = {processing}
            and not (coalesce(locked_at, '-infinity')
                < duly.clock() - make_interval(secs => coalesce(lease_seconds, {default_lease_seconds})))
        for no key update skip locked
    ) as ours
),
renewed as (
    update {schema}.capture_session as t
    set locked_at = duly.clock(), lease_seconds = %(lease_seconds)s
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
        t.state = {processing} and t.locked_by = given.owner
            and not (coalesce(locked_at, '-infinity')
                < duly.clock() - make_interval(secs => coalesce(lease_seconds, {default_lease_seconds}))) as ours,
        false as cancelled
    from {schema}.capture_session as t
    where t.id = given.key
    limit 1
) as now on true;

-- name: fence
-- Locks those of these rows that are ours until the transaction ends, in the order of their keys.
select locked.id as key
from (select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t.id
    from {schema}.capture_session as t
    where t.id = given.key and t.locked_by = given.owner and t.state = {processing}
    for no key update
) as locked;

-- name: settle_done
-- The sessions are recorded. In the same statement each changed day gets its version, exactly when the session is
-- still ours to settle; an existing version is left alone. Returns which sessions wrote theirs.
with given as (
    select *
    from unnest(
        (select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(result)b::jsonb[]),
        (select %(user_id)s::bigint[]), (select %(schedule_date)s::date[]), (select %(version)s::integer[]),
        (select %(payload)b::jsonb[]), (select %(payload_hash)s::text[])
    ) as g (key, owner, result, user_id, schedule_date, version, payload, payload_hash)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from {schema}.capture_session as t
        where t.id = given.key and t.locked_by = given.owner and t.state = {processing}
        for no key update
    ) as locked
),
settled as (
    update {schema}.capture_session as t
    set
        state = {done},
        settled_by = ours.owner,
        locked_by = null,
        locked_at = null,
        lease_seconds = null,
        result = ours.result
    from ours
    where t.id = ours.key
    returning t.id as key
),
versioned as (
    insert into {schema}.schedule_version (
        user_id, schedule_date, version, session_id, payload, payload_hash, created_at, canonicalizer
    )
    select g.user_id, g.schedule_date, g.version, g.key, g.payload, g.payload_hash, duly.clock(), %(canonicalizer)s
    from settled
    inner join given as g on g.key = settled.key
    where g.version is not null
    on conflict do nothing
    returning session_id
)
select settled.key, versioned.session_id is not null as is_versioned
from settled
left join versioned on versioned.session_id = settled.key;

-- name: settle_failed
-- The sessions could not be read; the error says why.
with given as (
    select *
    from unnest(
        (select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(error)s::text[])
    ) as g (key, owner, error)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from {schema}.capture_session as t
        where t.id = given.key and t.locked_by = given.owner and t.state = {processing}
        for no key update
    ) as locked
),
settled as (
    update {schema}.capture_session as t
    set
        state = {failed},
        settled_by = ours.owner,
        locked_by = null,
        locked_at = null,
        lease_seconds = null,
        error = ours.error
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
    select from {schema}.capture_session as t where t.id = given.key and t.settled_by = given.owner limit 1
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
        from {schema}.capture_session as t
        where t.id = given.key and t.locked_by = given.owner and t.state = {processing}
            and not (coalesce(locked_at, '-infinity')
                < duly.clock() - make_interval(secs => coalesce(lease_seconds, {default_lease_seconds})))
        for no key update
    ) as locked
)
update {schema}.capture_session as t
set
    starts = greatest(t.starts - 1, 0),
    locked_at = duly.clock() - make_interval(secs => t.lease_seconds) - interval '1 millisecond'
where t.id = any (array(select id from ours))
returning t.id as key;
