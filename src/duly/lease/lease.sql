-- The lease, once: how a row is held, kept, given up, finished and taken from the dead. Every table that can be held is
-- held by these statements; `lease.py` beside this file fills in its names, and the result for each table is committed
-- under tests/golden. State values are literals, so that partial indexes serve; rows that were picked are found again by
-- `= any (array(...))`, which no plan can turn into a scan of the table.
--
-- The owner written at claim is the fence: everything a holder does is guarded by it, and it is fresh for every claim, so
-- neither a worker of the same name nor the same process's earlier claim can pass.
--
-- Two domains say some of it in their own words: jobs are claimed and done by functions (db/migrations/sql/0003_ledger.up.sql)
-- and let go of by jobs/queries.sql; messages are claimed, released and swept by outbox/queries.sql.

-- name: takeable
-- What can be taken now, in the order it is taken: due rows nobody holds. Rows that another claimer is looking at are passed
-- over: claimers never wait for each other. Claims take these, and `explain` asks for the first of them.
select {key}
from {table}
where {state} = {ready} and {due} <= duly.now()
    and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
order by {order}
limit %(limit)s
for no key update skip locked;

-- name: claim
-- What can be taken becomes ours, and each claim counts as a start, so a crash counts.
with due as (
{takeable}
)
update {table} as t
set {state} = {held}, {owner} = %(owner)s, {starts} = t.{starts} + 1, {stamp}
where t.{key} = any (array(select {key} from due))
returning t.*;

-- name: find_due
-- What a claim would take next, but for these; seen and not touched: for the day when a row refuses to be claimed.
select {key} as key
from {table}
where {state} = {ready} and {due} <= duly.now() and not ({key} = any (%(besides)s::{key_type}[]))
order by {order}
limit %(limit)s;

-- name: claim_lapsed
-- A row whose holder let its lease lapse changes hands; one that was started too often already is left for quarantine.
with lapsed as (
    select {key}
    from {table}
    where {state} = {held} and {lapse} and {starts} < %(max_starts)s
        and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
    order by {key}
    limit %(limit)s
    for no key update skip locked
)
update {table} as t
set {owner} = %(owner)s, {starts} = t.{starts} + 1, {stamp}
where t.{key} = any (array(select {key} from lapsed))
returning t.*;

-- name: quarantine
-- A row that lapsed once too often is poison: it is set aside, not tried again. Nobody settled it: its last holder, should
-- it come back, must not take this for its own success.
with poison as (
    select {key}
    from {table}
    where {state} = {held} and {lapse} and {starts} >= %(max_starts)s
        and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
    order by {key}
    limit %(limit)s
    for no key update skip locked
)
update {table} as t
set {state} = {poisoned}, {freed}, {verdict}
where t.{key} = any (array(select {key} from poison))
returning t.*;

-- name: find_lapsed
-- Rows that nobody holds any more, but for these; seen and not touched: for the day when one of them refuses to be swept
-- or taken over.
select {key} as key
from {table}
where {state} = {held} and {lapse} and not ({key} = any (%(besides)s::{key_type}[]))
order by {key}
limit %(limit)s;

-- name: sweep
-- Lapsed rows go back to where they can be claimed again, with the due time they had.
with lapsed as (
    select {key}
    from {table}
    where {state} = {held} and {lapse} and (%(keys)s::{key_type}[] is null or {key} = any (%(keys)s::{key_type}[]))
    order by {key}
    limit %(limit)s
    for no key update skip locked
)
update {table} as t
set {state} = {returned}, {freed}
where t.{key} = any (array(select {key} from lapsed))
returning t.*;

-- name: renew
-- Every lease we still hold gets a fresh stamp, and nothing here ever waits. A row that is locked is skipped and read back:
-- still ours means our own transaction has it, and the next beat will do; anything else means it is lost. So does a lease
-- that is over, whoever ended it: a beat that crosses a release must not undo it.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours.{key}
    from given
    cross join lateral (
        select t.{key}
        from {table} as t
        where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held} and not ({over})
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
    select t.{state} = {held} and t.{owner} = given.owner and not ({over}) as ours, {cancelled} as cancelled
    from {table} as t
    where t.{key} = given.key
    limit 1
) as now on true;

-- name: fence
-- Lock a row we hold, for the rest of this transaction, without settling it: whatever follows is ours to write.
select {key}
from {table}
where {key} = %(key)s and {owner} = %(owner)s and {state} = {held}
for no key update;

-- name: fence_many
-- The same for many rows, in the order of their keys; those that are answered are ours.
select held.{key} as key
from (select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t.{key}
    from {table} as t
    where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held}
    for no key update
) as held;

-- name: settle
-- Rows we hold are finished, in the order of their keys, so that batches never wait in a circle. Each is looked up by its
-- own key: a join would trust statistics that have never seen so many rows held. The inner selects hide from the planner
-- how many there are, for a scan of the table must not look cheaper than looking them up.
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
-- What a settle answers when nothing more is to be done in the same statement.
select key from settled;

-- name: find_settled
-- A settle repeated after its answer was lost finds nothing to do, and is no loss: the rows say that we settled them. Asked
-- in a statement of its own, which sees what was committed while the settle waited.
select given.key
from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from {table} as t where t.{key} = given.key and t.{settled_by} = given.owner limit 1
) as ours;

-- name: release
-- We hand rows back unfinished and unblamed: the start is given back, and our own lease lapses this instant, so that the
-- ordinary way of the dead brings them to another. No edge is invented. A lease that is over already is left alone, so that
-- a release repeated after its answer was lost gives the start back once.
with given as (
    select g.key, g.owner from unnest(%(keys)s::{key_type}[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select held.{key}
    from given
    cross join lateral (
        select t.{key}
        from {table} as t
        where t.{key} = given.key and t.{owner} = given.owner and t.{state} = {held} and not ({over})
        for no key update
    ) as held
)
update {table} as t
set {starts} = greatest(t.{starts} - 1, 0), {let_lapse}
where t.{key} = any (array(select {key} from ours))
returning t.{key};

-- The two clocks a table may keep ---------------------------------------------------------------------------------------

-- name: until_stamp
-- The lease ends at a time.
{clock} = duly.clock() + make_interval(secs => %(lease_seconds)s);

-- name: until_lapse
-- That time is past.
{clock} < duly.now();

-- name: until_over
-- The same, asked after a wait: not by the time this statement began.
{clock} < duly.clock();

-- name: until_let_lapse
-- It ended a moment ago.
{clock} = duly.clock() - interval '1 millisecond';

-- name: until_freed
-- Nobody holds it.
{owner} = null, {clock} = null;

-- name: since_stamp
-- The lease began at a time and has a length, written by the holder: a short-leased worker must not steal a long lease.
{clock} = duly.clock(), {length} = %(lease_seconds)s;

-- name: since_lapse
-- Its length is over.
{began} < duly.now() - make_interval(secs => {lasts});

-- name: since_over
-- The same, asked after a wait: not by the time this statement began.
{began} < duly.clock() - make_interval(secs => {lasts});

-- name: since_let_lapse
-- It was over a moment ago.
{clock} = duly.clock() - make_interval(secs => t.{length}) - interval '1 millisecond';

-- name: since_freed
-- Nobody holds it.
{owner} = null, {clock} = null, {length} = null;
