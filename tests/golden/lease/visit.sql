-- claim
with due as (
select "number"
from "conformance"."visit"
where "state" = 'pending' and "created_at" <= duly.now()
    and (%(keys)s::bigint[] is null or "number" = any (%(keys)s::bigint[]))
order by "created_at", "number"
limit %(limit)s
for no key update skip locked
)
update "conformance"."visit" as t
set "state" = 'processing', "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
where t."number" = any (array(select "number" from due))
returning t.*;

-- claim_expired
with expired as (
    select "number"
    from "conformance"."visit"
    where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds") and "starts" < %(max_starts)s
        and (%(keys)s::bigint[] is null or "number" = any (%(keys)s::bigint[]))
    order by "number"
    limit %(limit)s
    for no key update skip locked
)
update "conformance"."visit" as t
set "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
where t."number" = any (array(select "number" from expired))
returning t.*;

-- claimable
select "number"
from "conformance"."visit"
where "state" = 'pending' and "created_at" <= duly.now()
    and (%(keys)s::bigint[] is null or "number" = any (%(keys)s::bigint[]))
order by "created_at", "number"
limit %(limit)s
for no key update skip locked;

-- fence
select "number"
from "conformance"."visit"
where "number" = %(key)s and "locked_by" = %(owner)s and "state" = 'processing'
for no key update;

-- fence_many
select held."number" as key
from (select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t."number"
    from "conformance"."visit" as t
    where t."number" = given.key and t."locked_by" = given.owner and t."state" = 'processing'
    for no key update
) as held;

-- find_due
select "number" as key
from "conformance"."visit"
where "state" = 'pending' and "created_at" <= duly.now() and not ("number" = any (%(excluded_keys)s::bigint[]))
order by "created_at", "number"
limit %(limit)s;

-- find_expired
select "number" as key
from "conformance"."visit"
where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds") and not ("number" = any (%(excluded_keys)s::bigint[]))
order by "number"
limit %(limit)s;

-- find_settled
select given.key
from unnest(%(keys)s::bigint[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from "conformance"."visit" as t where t."number" = given.key and t."settled_by" = given.owner limit 1
) as ours;

-- quarantine
with poison as (
    select "number"
    from "conformance"."visit"
    where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds") and "starts" >= %(max_starts)s
        and (%(keys)s::bigint[] is null or "number" = any (%(keys)s::bigint[]))
    order by "number"
    limit %(limit)s
    for no key update skip locked
)
update "conformance"."visit" as t
set "state" = 'failed', "locked_by" = null, "locked_at" = null, "lease_seconds" = null, "error" = 'started too often'
where t."number" = any (array(select "number" from poison))
returning t.*;

-- release
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select held."number"
    from given
    cross join lateral (
        select t."number"
        from "conformance"."visit" as t
        where t."number" = given.key and t."locked_by" = given.owner and t."state" = 'processing' and not ("locked_at" < duly.clock() - make_interval(secs => "lease_seconds"))
        for no key update
    ) as held
)
update "conformance"."visit" as t
set "starts" = greatest(t."starts" - 1, 0), "locked_at" = duly.clock() - make_interval(secs => t."lease_seconds") - interval '1 millisecond'
where t."number" = any (array(select "number" from ours))
returning t."number";
;

-- renew
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours."number"
    from given
    cross join lateral (
        select t."number"
        from "conformance"."visit" as t
        where t."number" = given.key and t."locked_by" = given.owner and t."state" = 'processing' and not ("locked_at" < duly.clock() - make_interval(secs => "lease_seconds"))
        for no key update skip locked
    ) as ours
),
renewed as (
    update "conformance"."visit" as t
    set "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
    where t."number" = any (array(select "number" from free))
    returning t."number" as key
)
select
    given.key,
    given.owner,
    given.key in (select key from renewed) as renewed,
    now.ours is true as ours,
    now.cancelled
from given
left join lateral (
    select t."state" = 'processing' and t."locked_by" = given.owner and not ("locked_at" < duly.clock() - make_interval(secs => "lease_seconds")) as ours, false as cancelled
    from "conformance"."visit" as t
    where t."number" = given.key
    limit 1
) as now on true;

-- settle
with given as (
    select *
    from unnest((select %(keys)s::bigint[]), (select %(owners)s::text[])) as g (key, owner)
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from "conformance"."visit" as t
        where t."number" = given.key and t."locked_by" = given.owner and t."state" = 'processing'
        for no key update
    ) as held
),
settled as (
    update "conformance"."visit" as t
    set "state" = 'done', "settled_by" = ours.owner, "locked_by" = null, "locked_at" = null, "lease_seconds" = null
    from ours
    where t."number" = ours.key
    returning t."number" as key
)
select key from settled;

-- sweep
with expired as (
    select "number"
    from "conformance"."visit"
    where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds") and (%(keys)s::bigint[] is null or "number" = any (%(keys)s::bigint[]))
    order by "number"
    limit %(limit)s
    for no key update skip locked
)
update "conformance"."visit" as t
set "state" = 'pending', "locked_by" = null, "locked_at" = null, "lease_seconds" = null
where t."number" = any (array(select "number" from expired))
returning t.*;
