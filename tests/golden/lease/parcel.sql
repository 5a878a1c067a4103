-- claim
with due as (
select "id"
from "conformance"."parcel"
where "status" = 'WAITING' and "due_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "due_at", "id"
limit %(limit)s
for no key update skip locked
)
update "conformance"."parcel" as t
set "status" = 'CARRIED', "carrier" = %(owner)s, "starts" = t."starts" + 1, "carried_until" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."id" = any (array(select "id" from due))
returning t.*;

-- claim_expired
with expired as (
    select "id"
    from "conformance"."parcel"
    where "status" = 'CARRIED' and "carried_until" < duly.now() and "starts" < %(max_starts)s
        and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "conformance"."parcel" as t
set "carrier" = %(owner)s, "starts" = t."starts" + 1, "carried_until" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."id" = any (array(select "id" from expired))
returning t.*;

-- claimable
select "id"
from "conformance"."parcel"
where "status" = 'WAITING' and "due_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "due_at", "id"
limit %(limit)s
for no key update skip locked;

-- fence
select "id"
from "conformance"."parcel"
where "id" = %(key)s and "carrier" = %(owner)s and "status" = 'CARRIED'
for no key update;

-- fence_many
select held."id" as key
from (select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t."id"
    from "conformance"."parcel" as t
    where t."id" = given.key and t."carrier" = given.owner and t."status" = 'CARRIED'
    for no key update
) as held;

-- find_due
select "id" as key
from "conformance"."parcel"
where "status" = 'WAITING' and "due_at" <= duly.now() and not ("id" = any (%(excluded_keys)s::uuid[]))
order by "due_at", "id"
limit %(limit)s;

-- find_expired
select "id" as key
from "conformance"."parcel"
where "status" = 'CARRIED' and "carried_until" < duly.now() and not ("id" = any (%(excluded_keys)s::uuid[]))
order by "id"
limit %(limit)s;

-- find_settled
select given.key
from unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from "conformance"."parcel" as t where t."id" = given.key and t."settled_by" = given.owner limit 1
) as ours;

-- quarantine
with poison as (
    select "id"
    from "conformance"."parcel"
    where "status" = 'CARRIED' and "carried_until" < duly.now() and "starts" >= %(max_starts)s
        and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "conformance"."parcel" as t
set "status" = NULL, "carrier" = null, "carried_until" = null, 
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
        from "conformance"."parcel" as t
        where t."id" = given.key and t."carrier" = given.owner and t."status" = 'CARRIED' and not ("carried_until" < duly.clock())
        for no key update
    ) as held
)
update "conformance"."parcel" as t
set "starts" = greatest(t."starts" - 1, 0), "carried_until" = duly.clock() - interval '1 millisecond'
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
        from "conformance"."parcel" as t
        where t."id" = given.key and t."carrier" = given.owner and t."status" = 'CARRIED' and not ("carried_until" < duly.clock())
        for no key update skip locked
    ) as ours
),
renewed as (
    update "conformance"."parcel" as t
    set "carried_until" = duly.clock() + make_interval(secs => %(lease_seconds)s)
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
    select t."status" = 'CARRIED' and t."carrier" = given.owner and not ("carried_until" < duly.clock()) as ours, t."cancel_requested_at" is not null as cancelled
    from "conformance"."parcel" as t
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
        from "conformance"."parcel" as t
        where t."id" = given.key and t."carrier" = given.owner and t."status" = 'CARRIED'
        for no key update
    ) as held
),
settled as (
    update "conformance"."parcel" as t
    set "status" = 'DELIVERED', "settled_by" = ours.owner, "carrier" = null, "carried_until" = null
    from ours
    where t."id" = ours.key
    returning t."id" as key
)
select key from settled;

-- sweep
with expired as (
    select "id"
    from "conformance"."parcel"
    where "status" = 'CARRIED' and "carried_until" < duly.now() and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "conformance"."parcel" as t
set "status" = 'WAITING', "carrier" = null, "carried_until" = null
where t."id" = any (array(select "id" from expired))
returning t.*;
