-- claim
with due as (
select "id"
from "duly"."outbox"
where "status" = 'pending' and "due_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "due_at", "id"
limit %(limit)s
for no key update skip locked
)
update "duly"."outbox" as t
set "status" = 'sending', "lease_owner" = %(owner)s, "starts" = t."starts" + 1, "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."id" = any (array(select "id" from due))
returning t.*;

-- claim_expired
with expired as (
    select "id"
    from "duly"."outbox"
    where "status" = 'sending' and "lease_expires_at" < duly.now() and "starts" < %(max_starts)s
        and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "duly"."outbox" as t
set "lease_owner" = %(owner)s, "starts" = t."starts" + 1, "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."id" = any (array(select "id" from expired))
returning t.*;

-- claimable
select "id"
from "duly"."outbox"
where "status" = 'pending' and "due_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "due_at", "id"
limit %(limit)s
for no key update skip locked;

-- fence
select "id"
from "duly"."outbox"
where "id" = %(key)s and "lease_owner" = %(owner)s and "status" = 'sending'
for no key update;

-- fence_many
select held."id" as key
from (select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t."id"
    from "duly"."outbox" as t
    where t."id" = given.key and t."lease_owner" = given.owner and t."status" = 'sending'
    for no key update
) as held;

-- find_due
select "id" as key
from "duly"."outbox"
where "status" = 'pending' and "due_at" <= duly.now() and not ("id" = any (%(excluded_keys)s::uuid[]))
order by "due_at", "id"
limit %(limit)s;

-- find_expired
select "id" as key
from "duly"."outbox"
where "status" = 'sending' and "lease_expires_at" < duly.now() and not ("id" = any (%(excluded_keys)s::uuid[]))
order by "id"
limit %(limit)s;

-- find_settled
select given.key
from unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from "duly"."outbox" as t where t."id" = given.key and t."settled_by" = given.owner limit 1
) as ours;

-- quarantine
with poison as (
    select "id"
    from "duly"."outbox"
    where "status" = 'sending' and "lease_expires_at" < duly.now() and "starts" >= %(max_starts)s
        and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "duly"."outbox" as t
set "status" = NULL, "lease_owner" = null, "lease_expires_at" = null, 
where t."id" = any (array(select "id" from poison))
returning t.*;

-- release
with given as (
    select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select held."id"
    from given
    cross join lateral (
        select t."id"
        from "duly"."outbox" as t
        where t."id" = given.key and t."lease_owner" = given.owner and t."status" = 'sending' and not ("lease_expires_at" < duly.clock())
        for no key update
    ) as held
)
update "duly"."outbox" as t
set "starts" = greatest(t."starts" - 1, 0), "lease_expires_at" = duly.clock() - interval '1 millisecond'
where t."id" = any (array(select "id" from ours))
returning t."id";
;

-- renew
with given as (
    select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours."id"
    from given
    cross join lateral (
        select t."id"
        from "duly"."outbox" as t
        where t."id" = given.key and t."lease_owner" = given.owner and t."status" = 'sending' and not ("lease_expires_at" < duly.clock())
        for no key update skip locked
    ) as ours
),
renewed as (
    update "duly"."outbox" as t
    set "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t."id" = any (array(select "id" from free))
    returning t."id" as key
)
select
    given.key,
    given.owner,
    given.key in (select key from renewed) as renewed,
    now.ours is true as ours,
    now.cancelled
from given
left join lateral (
    select t."status" = 'sending' and t."lease_owner" = given.owner and not ("lease_expires_at" < duly.clock()) as ours, false as cancelled
    from "duly"."outbox" as t
    where t."id" = given.key
    limit 1
) as now on true;

-- settle
with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[])) as g (key, owner)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from "duly"."outbox" as t
        where t."id" = given.key and t."lease_owner" = given.owner and t."status" = 'sending'
        for no key update
    ) as held
),
settled as (
    update "duly"."outbox" as t
    set "status" = 'sent', "settled_by" = ours.owner, "lease_owner" = null, "lease_expires_at" = null
    from ours
    where t."id" = ours.key
    returning t."id" as key
)
select key from settled;

-- sweep
with expired as (
    select "id"
    from "duly"."outbox"
    where "status" = 'sending' and "lease_expires_at" < duly.now() and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "duly"."outbox" as t
set "status" = 'pending', "lease_owner" = null, "lease_expires_at" = null
where t."id" = any (array(select "id" from expired))
returning t.*;
