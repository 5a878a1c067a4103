-- claim
with due as (
select "notification_id"
from "schedule_ingest"."schedule_notification"
where "delivery" = 'pending' and "due_at" <= duly.now()
    and (%(keys)s::text[] is null or "notification_id" = any (%(keys)s::text[]))
order by "due_at", "notification_id"
limit %(limit)s
for no key update skip locked
)
update "schedule_ingest"."schedule_notification" as t
set "delivery" = 'sending', "lease_owner" = %(owner)s, "starts" = t."starts" + 1, "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."notification_id" = any (array(select "notification_id" from due))
returning t.*;

-- claim_expired
with expired as (
    select "notification_id"
    from "schedule_ingest"."schedule_notification"
    where "delivery" = 'sending' and "lease_expires_at" < duly.now() and "starts" < %(max_starts)s
        and (%(keys)s::text[] is null or "notification_id" = any (%(keys)s::text[]))
    order by "notification_id"
    limit %(limit)s
    for no key update skip locked
)
update "schedule_ingest"."schedule_notification" as t
set "lease_owner" = %(owner)s, "starts" = t."starts" + 1, "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."notification_id" = any (array(select "notification_id" from expired))
returning t.*;

-- claimable
select "notification_id"
from "schedule_ingest"."schedule_notification"
where "delivery" = 'pending' and "due_at" <= duly.now()
    and (%(keys)s::text[] is null or "notification_id" = any (%(keys)s::text[]))
order by "due_at", "notification_id"
limit %(limit)s
for no key update skip locked;

-- fence
select "notification_id"
from "schedule_ingest"."schedule_notification"
where "notification_id" = %(key)s and "lease_owner" = %(owner)s and "delivery" = 'sending'
for no key update;

-- fence_many
select held."notification_id" as key
from (select g.key, g.owner from unnest(%(keys)s::text[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t."notification_id"
    from "schedule_ingest"."schedule_notification" as t
    where t."notification_id" = given.key and t."lease_owner" = given.owner and t."delivery" = 'sending'
    for no key update
) as held;

-- find_due
select "notification_id" as key
from "schedule_ingest"."schedule_notification"
where "delivery" = 'pending' and "due_at" <= duly.now() and not ("notification_id" = any (%(excluded_keys)s::text[]))
order by "due_at", "notification_id"
limit %(limit)s;

-- find_expired
select "notification_id" as key
from "schedule_ingest"."schedule_notification"
where "delivery" = 'sending' and "lease_expires_at" < duly.now() and not ("notification_id" = any (%(excluded_keys)s::text[]))
order by "notification_id"
limit %(limit)s;

-- find_settled
select given.key
from unnest(%(keys)s::text[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from "schedule_ingest"."schedule_notification" as t where t."notification_id" = given.key and t."settled_by" = given.owner limit 1
) as ours;

-- quarantine
with poison as (
    select "notification_id"
    from "schedule_ingest"."schedule_notification"
    where "delivery" = 'sending' and "lease_expires_at" < duly.now() and "starts" >= %(max_starts)s
        and (%(keys)s::text[] is null or "notification_id" = any (%(keys)s::text[]))
    order by "notification_id"
    limit %(limit)s
    for no key update skip locked
)
update "schedule_ingest"."schedule_notification" as t
set "delivery" = NULL, "lease_owner" = null, "lease_expires_at" = null, 
where t."notification_id" = any (array(select "notification_id" from poison))
returning t.*;

-- release
with given as (
    select g.key, g.owner from unnest(%(keys)s::text[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select held."notification_id"
    from given
    cross join lateral (
        select t."notification_id"
        from "schedule_ingest"."schedule_notification" as t
        where t."notification_id" = given.key and t."lease_owner" = given.owner and t."delivery" = 'sending' and not ("lease_expires_at" < duly.clock())
        for no key update
    ) as held
)
update "schedule_ingest"."schedule_notification" as t
set "starts" = greatest(t."starts" - 1, 0), "lease_expires_at" = duly.clock() - interval '1 millisecond'
where t."notification_id" = any (array(select "notification_id" from ours))
returning t."notification_id";
;

-- renew
with given as (
    select g.key, g.owner from unnest(%(keys)s::text[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours."notification_id"
    from given
    cross join lateral (
        select t."notification_id"
        from "schedule_ingest"."schedule_notification" as t
        where t."notification_id" = given.key and t."lease_owner" = given.owner and t."delivery" = 'sending' and not ("lease_expires_at" < duly.clock())
        for no key update skip locked
    ) as ours
),
renewed as (
    update "schedule_ingest"."schedule_notification" as t
    set "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t."notification_id" = any (array(select "notification_id" from free))
    returning t."notification_id" as key
)
select
    given.key,
    given.owner,
    given.key in (select key from renewed) as renewed,
    now.ours is true as ours,
    now.cancelled
from given
left join lateral (
    select t."delivery" = 'sending' and t."lease_owner" = given.owner and not ("lease_expires_at" < duly.clock()) as ours, false as cancelled
    from "schedule_ingest"."schedule_notification" as t
    where t."notification_id" = given.key
    limit 1
) as now on true;

-- settle
with given as (
    select *
    from unnest((select %(keys)s::text[]), (select %(owners)s::text[])) as g (key, owner)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from "schedule_ingest"."schedule_notification" as t
        where t."notification_id" = given.key and t."lease_owner" = given.owner and t."delivery" = 'sending'
        for no key update
    ) as held
),
settled as (
    update "schedule_ingest"."schedule_notification" as t
    set "delivery" = 'sent', "settled_by" = ours.owner, "lease_owner" = null, "lease_expires_at" = null
    from ours
    where t."notification_id" = ours.key
    returning t."notification_id" as key
)
select key from settled;

-- sweep
with expired as (
    select "notification_id"
    from "schedule_ingest"."schedule_notification"
    where "delivery" = 'sending' and "lease_expires_at" < duly.now() and (%(keys)s::text[] is null or "notification_id" = any (%(keys)s::text[]))
    order by "notification_id"
    limit %(limit)s
    for no key update skip locked
)
update "schedule_ingest"."schedule_notification" as t
set "delivery" = 'pending', "lease_owner" = null, "lease_expires_at" = null
where t."notification_id" = any (array(select "notification_id" from expired))
returning t.*;
