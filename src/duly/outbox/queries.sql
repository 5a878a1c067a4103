-- Messages of either table: `{schema}.{table}`, with the state in column `{state}` and the key in column `{key}`. The
-- statements of their lease are in lease.sql.

-- Sending -------------------------------------------------------------------------------------------------------------

-- name: find_contacts
-- Contacts of recipients, by uid.
select p.uid, p.telegram_id, p.zone, p.language, w.url as webhook_url, w.secret as webhook_secret, a.url as apprise_url
from duly.person as p
left join duly.webhooks as w on w.person_id = p.id
left join duly.apprise_addresses as a on a.person_id = p.id
where p.uid = any (%(uids)s::text[]);

-- name: find_contacts_by_telegram_id
-- Contacts of recipients of notifications, by Telegram id, which is the owner of a day in ingest.
select p.uid, p.telegram_id, p.zone, p.language, w.url as webhook_url, w.secret as webhook_secret, a.url as apprise_url
from duly.person as p
left join duly.webhooks as w on w.person_id = p.id
left join duly.apprise_addresses as a on a.person_id = p.id
where p.telegram_id = any (%(telegram_ids)s::bigint[]);

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

-- name: purge
-- Deletes messages that ended long ago, each with its full history.
select messages from duly.purge_messages(make_interval(days => %(days)s), %(limit)s);

-- name: is_managed
-- Whether duly delivers the messages of this table: only our own migration adds the column `delivery`.
select exists (
    select
    from pg_catalog.pg_attribute as a
    join pg_catalog.pg_class as c on c.oid = a.attrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema_name)s and c.relname = %(table_name)s and a.attname = 'delivery' and not a.attisdropped
);

-- Reading -------------------------------------------------------------------------------------------------------------

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
    last_error = case
        when %(was_sent)s then t.last_error
        else coalesce(t.last_error, 'an operator says it did not arrive')
    end
where t.{key} = %(key)s and t.{state} = 'uncertain'
returning t.{state};
