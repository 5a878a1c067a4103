-- The lease on messages: claim, renew, settle, release and what brings back expired rows.
--
-- Messages are in two tables of the same shape. For duly.outbox, {schema}.{table} is that, {key} is id, {state} is
-- status and {key_type} is uuid; for the notifications of DB_SCHEMA they are schedule_notification, notification_id,
-- delivery and text.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes. called_at says what an
-- expired lease means: without it nothing was sent, with it the outcome is unknown.
--
-- Rows are settled and released in the order of their keys, so that two batches never deadlock. Each row is looked up
-- by its key in a lateral join: the planner would choose a plain join by statistics from a time when few rows had an
-- owner. In a settle, `select %(keys)s` hides the length of the arrays from the planner; for a long one it would scan
-- the table.

-- name: claim
-- Claims due messages of these channels, for each recipient in the order they were written: a message stays behind an
-- earlier one of its recipient that is being sent or retried. Such a message is postponed to the due time of the
-- earlier one, so that a blocked recipient does not fill the scan and delay others. Returns claimed and postponed
-- messages.
with due as (
    select found.*
    from unnest(%(channels)s::text[]) as c (channel)
    cross join lateral (
        select t.{key} as key, t.channel, t.recipient, t.seq, t.due_at
        from {schema}.{table} as t
        where t.{state} = 'pending' and t.channel = c.channel and t.due_at <= duly.now()
        order by t.due_at, t.{key}
        limit %(scan_limit)s
        for no key update skip locked
    ) as found
    order by found.due_at, found.key
    limit %(scan_limit)s
),
behind as (
    select due.key, before.due_at
    from due
    cross join lateral (
        select b.due_at
        from {schema}.{table} as b
        where b.channel = due.channel and b.recipient = due.recipient and b.seq < due.seq
            and b.{state} in ('pending', 'sending')
            and (b.{state} = 'sending' or b.starts > 0 or b.is_in_line or b.due_at <= duly.now())
            and b.{key} <> all (array(select d.key from due as d))
        order by b.seq
        limit 1
    ) as before
),
waiting as (
    update {schema}.{table} as t
    set due_at = greatest(behind.due_at, duly.now() + interval '200 milliseconds'), is_in_line = true
    from behind
    where t.{key} = behind.key
    returning t.*
),
claimed as (
    update {schema}.{table} as t
    set {state} = 'sending', lease_owner = %(owner)s, starts = t.starts + 1,
        lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t.{key} = any (array(
        select due.key from due where due.key not in (select behind.key from behind) order by due.seq limit %(limit)s
    ))
    returning t.*
)
select * from claimed
union all
select * from waiting;

-- name: find_expired
-- Rows whose lease has expired, except these, without locking: used when one of them cannot be swept or claimed.
select {key} as key
from {schema}.{table}
where {state} = 'sending' and lease_expires_at < duly.now()
    and not ({key} = any (%(excluded_keys)s::{key_type}[]))
order by {key}
limit %(limit)s;

-- name: sweep
-- Messages with expired leases: pending again, or failed when started too often; uncertain if the transport was
-- called.
with expired as (
    select t.{key}
    from {schema}.{table} as t
    where t.{state} = 'sending' and t.lease_expires_at < duly.now()
        and (%(keys)s::{key_type}[] is null or t.{key} = any (%(keys)s::{key_type}[]))
    order by t.{key}
    limit %(limit)s
    for no key update skip locked
)
update {schema}.{table} as t
set {state} = case
        when t.called_at is not null then 'uncertain' when t.starts >= %(max_starts)s then 'failed' else 'pending'
    end,
    lease_owner = null, lease_expires_at = null, settled_by = null,
    last_error = case
        when t.called_at is not null then 'lease expired: the sender stopped after it had called the transport'
        when t.starts >= %(max_starts)s then 'lease expired too often, each time before the transport was called'
        else 'lease expired: the sender stopped before it called the transport'
    end
where t.{key} = any (array(select {key} from expired))
returning t.{key} as key;

-- name: renew
-- Every lease that is still ours is extended, and nothing here waits for a lock. A locked row is skipped and read
-- back: if it is still ours, our own transaction has locked it and the next heartbeat renews it; otherwise it is lost.
-- An expired lease is lost too: a heartbeat that crosses a release must not undo it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.{key}
    from given
    cross join lateral (
        select t.{key}
        from {schema}.{table} as t
        where t.{key} = given.key and t.lease_owner = given.owner and t.{state} = 'sending'
            and t.lease_expires_at >= duly.clock()
        for no key update skip locked
    ) as ours
),
renewed as (
    update {schema}.{table} as t
    set lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t.{key} = any (array(select {key} from free))
    returning t.{key} as key
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
        t.{state} = 'sending' and t.lease_owner = given.owner and t.lease_expires_at >= duly.clock() as ours,
        false as cancelled
    from {schema}.{table} as t
    where t.{key} = given.key
    limit 1
) as now on true;

-- name: mark_called
-- Marks leased messages just before the transport is called: from now on an expired lease means an unknown outcome.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select given.key
    from given
    cross join lateral (
        select
        from {schema}.{table} as t
        where t.{key} = given.key and t.lease_owner = given.owner and t.{state} = 'sending'
            and t.lease_expires_at > duly.clock()
        for no key update
    ) as locked
)
update {schema}.{table} as t set called_at = duly.clock()
where t.{key} = any (array(select key from ours))
returning t.{key} as key, t.lease_owner as owner;

-- name: settle_sent
-- The transport accepted the messages. Where the console printed those of a channel that is not configured, `channel`
-- says so; it is null for the others.
with given as (
    select *
    from unnest(
        (select %(keys)s::{key_type}[]), (select %(owners)s::text[]),
        (select %(receipt)s::text[]), (select %(channel)s::text[])
    ) as g (key, owner, receipt, channel)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from {schema}.{table} as t
        where t.{key} = given.key and t.lease_owner = given.owner and t.{state} = 'sending'
        for no key update
    ) as locked
),
settled as (
    update {schema}.{table} as t
    set
        {state} = 'sent',
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        receipt = ours.receipt,
        last_error = null,
        channel = coalesce(ours.channel, t.channel)
    from ours
    where t.{key} = ours.key
    returning t.{key} as key
)
select key from settled;

-- name: settle_unsent
-- The messages are not sent again: each failed, or it is uncertain whether it arrived.
with given as (
    select *
    from unnest(
        (select %(keys)s::{key_type}[]), (select %(owners)s::text[]),
        (select %(outcome)s::text[]), (select %(last_error)s::text[])
    ) as g (key, owner, outcome, last_error)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from {schema}.{table} as t
        where t.{key} = given.key and t.lease_owner = given.owner and t.{state} = 'sending'
        for no key update
    ) as locked
),
settled as (
    update {schema}.{table} as t
    set
        {state} = ours.outcome,
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        last_error = ours.last_error
    from ours
    where t.{key} = ours.key
    returning t.{key} as key
)
select key from settled;

-- name: settle_pending
-- The messages were not sent and are tried again when they are due.
with given as (
    select *
    from unnest(
        (select %(keys)s::{key_type}[]), (select %(owners)s::text[]),
        (select %(last_error)s::text[]), (select %(due_at)s::timestamptz[])
    ) as g (key, owner, last_error, due_at)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from {schema}.{table} as t
        where t.{key} = given.key and t.lease_owner = given.owner and t.{state} = 'sending'
        for no key update
    ) as locked
),
settled as (
    update {schema}.{table} as t
    set
        {state} = 'pending',
        settled_by = ours.owner,
        lease_owner = null,
        lease_expires_at = null,
        last_error = ours.last_error,
        due_at = ours.due_at,
        called_at = null
    from ours
    where t.{key} = ours.key
    returning t.{key} as key
)
select key from settled;

-- name: find_settled
-- A settle that is repeated after its answer was lost finds nothing to do, and is no loss: the rows say that we
-- settled them. A statement of its own, because it must see what was committed while the settle waited.
select given.key
from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from {schema}.{table} as t where t.{key} = given.key and t.settled_by = given.owner limit 1
) as ours;

-- name: release
-- Makes leased messages pending again without counting a start. If the transport was called, the lease expires
-- instead: the outcome is unknown, and the sweep marks it uncertain.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select given.key
    from given
    cross join lateral (
        select
        from {schema}.{table} as t
        where t.{key} = given.key and t.lease_owner = given.owner and t.{state} = 'sending'
            and t.lease_expires_at >= duly.clock()
        for no key update
    ) as locked
)
update {schema}.{table} as t
set {state} = case when t.called_at is null then 'pending' else t.{state} end,
    lease_owner = case when t.called_at is not null then t.lease_owner end,
    lease_expires_at = case when t.called_at is not null then duly.clock() - interval '1 millisecond' end,
    starts = greatest(t.starts - 1, 0),
    settled_by = case when t.called_at is null then t.lease_owner else t.settled_by end
where t.{key} = any (array(select key from ours))
returning t.{key} as key;
