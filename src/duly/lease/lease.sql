-- The statements of every leased table: claim, renew, settle, release, sweep. `operations.py` fills in the names of
-- each table, and the result is committed under tests/golden/lease. State values are literals, so that partial indexes
-- are used; rows that were picked are found again by `= any (array(...))`, which no plan can turn into a scan of the
-- table.
--
-- The owner written by a claim is the fence: everything an owner does is guarded by it, and it is fresh for every
-- claim, so neither a worker of the same name nor an earlier claim of the same process passes.
--
-- Two packages have some statements of their own: jobs are claimed and settled by functions
-- (jobs/functions.sql) and released by jobs/queries.sql; messages are claimed, released and swept by
-- outbox/queries.sql.

-- name: claimable
-- What a claim takes now, in that order: due rows without an owner. Rows that another claim has locked are skipped:
-- claims never wait for each other. `explain` asks for the first of them.
select {key}
from {table}
where {state} = {ready} and {due} <= duly.now()
    and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
order by {order}
limit %(limit)s
for no key update skip locked;

-- name: claim
-- Claimable rows get an owner. Each claim counts as a start, so a crash counts too.
with due as (
{claimable}
)
update {table} as t
set {state} = {held}, {owner} = %(owner)s, {starts} = t.{starts} + 1, {stamp}
where t.{key} = any (array(select {key} from due))
returning t.*;

-- name: find_due
-- What a claim would take next, except these keys, without locking: used when a row cannot be claimed.
select {key} as key
from {table}
where {state} = {ready} and {due} <= duly.now() and not ({key} = any (%(excluded_keys)s::{key_type}[]))
order by {order}
limit %(limit)s;

-- name: claim_expired
-- A row whose lease has expired gets a new owner; one that was started too often is left for quarantine.
with expired as (
    select {key}
    from {table}
    where {state} = {held} and {is_expired} and {starts} < %(max_starts)s
        and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
    order by {key}
    limit %(limit)s
    for no key update skip locked
)
update {table} as t
set {owner} = %(owner)s, {starts} = t.{starts} + 1, {stamp}
where t.{key} = any (array(select {key} from expired))
returning t.*;

-- name: quarantine
-- An expired row that was started too often is set aside and not started again. It has no `settled_by`: its last owner,
-- should it come back, must not take this for its own success.
with poison as (
    select {key}
    from {table}
    where {state} = {held} and {is_expired} and {starts} >= %(max_starts)s
        and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
    order by {key}
    limit %(limit)s
    for no key update skip locked
)
update {table} as t
set {state} = {quarantine_state}, {freed}, {quarantine_columns}
where t.{key} = any (array(select {key} from poison))
returning t.*;

-- name: find_expired
-- Rows whose lease has expired, except these keys, without locking: used when one of them cannot be swept or claimed.
select {key} as key
from {table}
where {state} = {held} and {is_expired} and not ({key} = any (%(excluded_keys)s::{key_type}[]))
order by {key}
limit %(limit)s;

-- name: sweep
-- Expired rows become claimable again, with the due time they had.
with expired as (
    select {key}
    from {table}
    where {state} = {held} and {is_expired} and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
    order by {key}
    limit %(limit)s
    for no key update skip locked
)
update {table} as t
set {state} = {returned}, {freed}
where t.{key} = any (array(select {key} from expired))
returning t.*;

-- name: renew
-- Every lease that is still ours is extended, and nothing here waits for a lock. A locked row is skipped and read back:
-- if it is still ours, our own transaction has locked it and the next heartbeat renews it; otherwise it is lost. An
-- expired lease is lost too: a heartbeat that crosses a release must not undo it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.{key}
    from given
    cross join lateral (
        select t.{key}
        from {table} as t
        where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held} and not ({is_expired_now})
        for no key update skip locked
    ) as ours
),
renewed as (
    update {table} as t
    set {stamp}
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
    select t.{state} = {held} and t.{owner} = given.owner and not ({is_expired_now}) as ours, {cancelled} as cancelled
    from {table} as t
    where t.{key} = given.key
    limit 1
) as now on true;

-- name: fence
-- Lock a row that we own until the end of this transaction, without settling it: what follows is guarded.
select {key}
from {table}
where {key} = %(key)s and {owner} = %(owner)s and {state} = {held}
for no key update;

-- name: fence_many
-- The same for many rows, in the order of their keys; returns those that are ours.
select held.{key} as key
from (select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t.{key}
    from {table} as t
    where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held}
    for no key update
) as held;

-- name: settle
-- Rows that we own are settled in the order of their keys, so that two batches never deadlock. Each row is looked up by
-- its own key: a join would rely on statistics that have never seen so many owned rows. The inner selects hide the
-- number of rows from the planner, so that a scan of the table does not look cheaper than the lookups.
with given as (
    select *
    from unnest((select %(keys)s::{key_type}[]), (select %(owners)s::text[]){arrays}) as g (key, owner{columns})
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from {table} as t
        where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held}
        for no key update
    ) as held
),
settled as (
    update {table} as t
    set {state} = {to}, {settled_by} = ours.owner, {freed}{changes}
    from ours
    where t.{key} = ours.key
    returning t.{key} as key
)
{then};

-- name: settled
-- The end of a settle when the same statement does nothing more.
select key from settled;

-- name: find_settled
-- A settle that is repeated after its answer was lost finds nothing to do, and is no loss: the rows say that we settled
-- them. A statement of its own, because it must see what was committed while the settle waited.
select given.key
from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from {table} as t where t.{key} = given.key and t.{settled_by} = given.owner limit 1
) as ours;

-- name: release
-- Rows are given back unfinished: the start is not counted, and the lease expires this instant, so that the sweep or
-- the next claim of expired rows brings them to another worker; no further state change is needed. An expired lease is
-- left alone, so that a release repeated after its answer was lost takes back one start only.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select held.{key}
    from given
    cross join lateral (
        select t.{key}
        from {table} as t
        where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held} and not ({is_expired_now})
        for no key update
    ) as held
)
update {table} as t
set {starts} = greatest(t.{starts} - 1, 0), {expire}
where t.{key} = any (array(select {key} from ours))
returning t.{key};

-- The two forms of a lease's time -------------------------------------------------------------------------------------

-- name: until_stamp
-- The lease ends at a time.
{clock} = duly.clock() + make_interval(secs => %(lease_seconds)s);

-- name: until_is_expired
-- That time is past.
{clock} < duly.now();

-- name: until_is_expired_now
-- The same by the clock of this moment, for use after a wait: not by the start of the statement.
{clock} < duly.clock();

-- name: until_expire
-- End the lease a moment ago.
{clock} = duly.clock() - interval '1 millisecond';

-- name: until_freed
-- No owner.
{owner} = null, {clock} = null;

-- name: since_stamp
-- The lease began at a time and has a duration, written by its owner: a worker with short leases must not take over a
-- row of one with long leases.
{clock} = duly.clock(), {length} = %(lease_seconds)s;

-- name: since_is_expired
-- Its duration is over.
{began} < duly.now() - make_interval(secs => {lasts});

-- name: since_is_expired_now
-- The same by the clock of this moment, for use after a wait: not by the start of the statement.
{began} < duly.clock() - make_interval(secs => {lasts});

-- name: since_expire
-- End the lease a moment ago.
{clock} = duly.clock() - make_interval(secs => t.{length}) - interval '1 millisecond';

-- name: since_freed
-- No owner.
{owner} = null, {clock} = null, {length} = null;
