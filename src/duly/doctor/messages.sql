-- Counts of messages by state.

-- name: count_messages
-- Messages that are late, that wait for an unconfigured channel, that are uncertain, and that failed since yesterday,
-- each counted up to a limit; and the number of users who get messages by Apprise.
select
    (
        select count(*) from (
            select from duly.outbox as o
            where o.status = 'pending' and o.due_at < duly.now() - make_interval(secs => %(late_seconds)s)
                and o.channel <> all (%(unconfigured)s::text[])
            limit %(limit)s
        ) as late
    ) as late,
    (
        select count(*) from (
            select from duly.outbox as o
            where o.status = 'pending' and o.channel = any (%(unconfigured)s::text[]) and o.due_at <= duly.now()
            limit %(limit)s
        ) as w
    ) as waiting,
    (
        select count(*) from (
            select from duly.outbox as o
            where o.status = 'uncertain'
            limit %(limit)s
        ) as u
    ) as uncertain,
    (
        select count(*) from (
            select from duly.outbox as o
            where o.status = 'failed' and o.created_at > duly.now() - interval '1 day'
            limit %(limit)s
        ) as f
    ) as failed,
    (
        select count(*) from (select from duly.apprise_addresses limit %(limit)s) as a
    ) as by_apprise;

-- name: delivers_notifications
-- Whether duly delivers the notifications of this schema.
select exists (
    select
    from pg_catalog.pg_attribute as a
    inner join pg_catalog.pg_class as c on c.oid = a.attrelid
    inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema_name)s and c.relname = 'schedule_notification'
        and a.attname = 'delivery' and not a.attisdropped
) as is_so;

-- name: count_notifications
-- The same counts for notifications.
select
    (
        select count(*) from (
            select from {schema}.schedule_notification as n
            where n.delivery = 'pending' and n.due_at < duly.now() - make_interval(secs => %(late_seconds)s)
                and n.channel <> all (%(unconfigured)s::text[])
            limit %(limit)s
        ) as late
    ) as late,
    (
        select count(*) from (
            select from {schema}.schedule_notification as n
            where n.delivery = 'pending' and n.channel = any (%(unconfigured)s::text[]) and n.due_at <= duly.now()
            limit %(limit)s
        ) as w
    ) as waiting,
    (
        select count(*) from (
            select from {schema}.schedule_notification as n where n.delivery = 'uncertain' limit %(limit)s
        ) as u
    ) as uncertain,
    (
        select count(*) from (
            select from {schema}.schedule_notification as n
            where n.delivery = 'failed' and n.created_at > duly.now() - interval '1 day'
            limit %(limit)s
        ) as f
    ) as failed;
