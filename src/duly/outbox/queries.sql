-- Messages of either table: `{schema}.{table}`, with the state in column `{state}` and the key in column `{key}`.

-- Sending ---------------------------------------------------------------------------------------------------------------

-- name: claim_messages
-- Claims due messages of these channels, for each recipient in the order they were written: a message stays behind an
-- earlier one of its recipient that is being sent or retried. Such a message is postponed to the due time of the earlier
-- one, so that a blocked recipient does not fill the scan and delay others. Returns claimed and postponed messages.
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
held as (
    update {schema}.{table} as t
    set {state} = 'sending', lease_owner = %(owner)s, starts = t.starts + 1,
        lease_expires_at = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t.{key} = any (array(
        select due.key from due where due.key not in (select behind.key from behind) order by due.seq limit %(limit)s
    ))
    returning t.*
)
select * from held
union all
select * from waiting;

-- name: find_contacts
-- Contacts of recipients, by uid.
select u.uid, u.telegram_id, u.zone, u.language, w.url as webhook_url, w.secret as webhook_secret, a.url as apprise_url
from "user".users as u
left join "user".webhooks as w on w.user_id = u.id
left join "user".apprise_addresses as a on a.user_id = u.id
where u.uid = any (%(uids)s::text[]);

-- name: find_contacts_by_telegram_id
-- Contacts of recipients of notifications, by Telegram id, which is the owner of a day in ingest.
select u.uid, u.telegram_id, u.zone, u.language, w.url as webhook_url, w.secret as webhook_secret, a.url as apprise_url
from "user".users as u
left join "user".webhooks as w on w.user_id = u.id
left join "user".apprise_addresses as a on a.user_id = u.id
where u.telegram_id = any (%(telegram_ids)s::bigint[]);

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
    ) as held
)
update {schema}.{table} as t set called_at = duly.clock()
where t.{key} = any (array(select key from ours))
returning t.{key} as key, t.lease_owner as owner;

-- name: release_messages
-- Makes leased messages pending again without counting a start. If the transport was called, the lease expires instead:
-- the outcome is unknown, and the sweep marks it uncertain.
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
    ) as held
)
update {schema}.{table} as t
set {state} = case when t.called_at is null then 'pending' else t.{state} end,
    lease_owner = case when t.called_at is not null then t.lease_owner end,
    lease_expires_at = case when t.called_at is not null then duly.clock() - interval '1 millisecond' end,
    starts = greatest(t.starts - 1, 0), settled_by = case when t.called_at is null then t.lease_owner else t.settled_by end
where t.{key} = any (array(select key from ours));

-- name: sweep_messages
-- Messages with expired leases: pending again, or failed when started too often; uncertain if the transport was called.
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
returning t.{key};

-- name: resend_uncertain
-- Uncertain messages of channels whose receivers deduplicate by id are sent again, up to the maximum number of starts.
with uncertain as (
    select t.{key}
    from {schema}.{table} as t
    where t.{state} = 'uncertain' and t.channel = any (%(channels)s::text[])
        and t.starts < %(max_starts)s
    order by t.seq
    limit %(limit)s
    for no key update skip locked
)
update {schema}.{table} as t set {state} = 'pending', called_at = null
where t.{key} = any (array(select {key} from uncertain))
returning t.{key};

-- name: note_unconfigured
-- Due messages of unconfigured channels stay pending and get the reason as last_error, the latest first.
with latest as (
    select found.key, c.why
    from unnest(%(channels)s::text[], %(reasons)s::text[]) as c (channel, why)
    cross join lateral (
        select t.{key} as key, t.last_error
        from {schema}.{table} as t
        where t.{state} = 'pending' and t.channel = c.channel and t.due_at <= duly.now()
        order by t.due_at desc, t.{key} desc
        limit %(limit)s
    ) as found
    where found.last_error is distinct from c.why
),
waiting as (
    select t.{key} as key, latest.why
    from {schema}.{table} as t
    join latest on latest.key = t.{key}
    where t.{state} = 'pending'
    order by t.{key}
    for no key update of t skip locked
)
update {schema}.{table} as t set last_error = waiting.why
from waiting
where t.{key} = waiting.key;

-- name: fail_unconfigured
-- Fails messages that waited too many days for their channel to be configured.
with waited as (
    select found.key, c.why
    from unnest(%(channels)s::text[], %(reasons)s::text[]) as c (channel, why)
    cross join lateral (
        select t.{key} as key
        from {schema}.{table} as t
        where t.{state} = 'pending' and t.channel = c.channel
            and t.due_at < duly.now() - make_interval(days => %(days)s)
        order by t.due_at, t.{key}
        limit %(limit)s
        for no key update skip locked
    ) as found
)
update {schema}.{table} as t
set {state} = 'failed', last_error = format('%%s; the message waited for %%s days', waited.why, %(days)s::int)
from waited
where t.{key} = waited.key
returning t.{key};

-- name: retain
-- Deletes messages that ended long ago, each with its full history.
select messages from duly.retain(make_interval(days => %(days)s), %(limit)s);

-- name: is_managed
-- Whether duly delivers the messages of this table: only our own migration adds the column `delivery`.
select exists (
    select
    from pg_catalog.pg_attribute as a
    join pg_catalog.pg_class as c on c.oid = a.attrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema_name)s and c.relname = %(table_name)s and a.attname = 'delivery' and not a.attisdropped
);

-- Reading ---------------------------------------------------------------------------------------------------------------

-- name: list_messages
-- A page of messages, the newest first.
select t.*
from {schema}.{table} as t
where t.seq < %(before)s and (%(status)s::text is null or t.{state} = %(status)s)
    and (%(channel)s::text is null or t.channel = %(channel)s)
    and (%(recipient)s::text is null or t.recipient = %(recipient)s)
order by t.seq desc
limit %(limit)s;

-- name: find_message
-- One message.
select t.* from {schema}.{table} as t where t.{key} = %(key)s::{key_type};

-- name: list_message_ids
-- Ids of outbox messages with a common prefix, as a range of the primary key.
select id, concat_ws('  ', channel, recipient, status) as label
from duly.outbox
where id between %(first)s and %(last)s
order by id
limit %(limit)s;

-- name: resend
-- Puts a failed or uncertain outbox message back in the queue, under the same id.
select duly.resend(%(key)s);

-- name: resend_notification
-- Puts a failed or uncertain notification back in the queue, under the same id.
update {schema}.{table} as t
set {state} = 'pending', called_at = null, starts = 0, due_at = duly.clock(), last_error = null
where t.{key} = %(key)s and t.{state} in ('failed', 'uncertain')
returning t.{state};

-- name: resolve
-- Records whether an uncertain outbox message arrived.
select duly.resolve(%(key)s, %(was_sent)s);

-- name: resolve_notification
-- Records whether an uncertain notification arrived.
update {schema}.{table} as t
set {state} = case when %(was_sent)s then 'sent' else 'failed' end,
    last_error = case when %(was_sent)s then t.last_error else coalesce(t.last_error, 'an operator says it did not arrive') end
where t.{key} = %(key)s and t.{state} = 'uncertain'
returning t.{state};
