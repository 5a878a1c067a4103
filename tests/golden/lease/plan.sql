-- claim
with due as (
select "job_id"
from "scheduler"."job_plans"
where "state" = 'waiting' and "plan_at" <= duly.now()
    and (%(keys)s::bigint[] is null or "job_id" = any (%(keys)s::bigint[]))
order by "plan_at", "job_id"
limit %(limit)s
for no key update skip locked
)
update "scheduler"."job_plans" as t
set "state" = 'planning', "lease_owner" = %(owner)s, "starts" = t."starts" + 1, "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."job_id" = any (array(select "job_id" from due))
returning t.*;

-- claim_expired
with expired as (
    select "job_id"
    from "scheduler"."job_plans"
    where "state" = 'planning' and "lease_expires_at" < duly.now() and "starts" < %(max_starts)s
        and (%(keys)s::bigint[] is null or "job_id" = any (%(keys)s::bigint[]))
    order by "job_id"
    limit %(limit)s
    for no key update skip locked
)
update "scheduler"."job_plans" as t
set "lease_owner" = %(owner)s, "starts" = t."starts" + 1, "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
where t."job_id" = any (array(select "job_id" from expired))
returning t.*;

-- claimable
select "job_id"
from "scheduler"."job_plans"
where "state" = 'waiting' and "plan_at" <= duly.now()
    and (%(keys)s::bigint[] is null or "job_id" = any (%(keys)s::bigint[]))
order by "plan_at", "job_id"
limit %(limit)s
for no key update skip locked;

-- fence
select "job_id"
from "scheduler"."job_plans"
where "job_id" = %(key)s and "lease_owner" = %(owner)s and "state" = 'planning'
for no key update;

-- fence_many
select held."job_id" as key
from (select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t."job_id"
    from "scheduler"."job_plans" as t
    where t."job_id" = given.key and t."lease_owner" = given.owner and t."state" = 'planning'
    for no key update
) as held;

-- find_due
select "job_id" as key
from "scheduler"."job_plans"
where "state" = 'waiting' and "plan_at" <= duly.now() and not ("job_id" = any (%(excluded_keys)s::bigint[]))
order by "plan_at", "job_id"
limit %(limit)s;

-- find_expired
select "job_id" as key
from "scheduler"."job_plans"
where "state" = 'planning' and "lease_expires_at" < duly.now() and not ("job_id" = any (%(excluded_keys)s::bigint[]))
order by "job_id"
limit %(limit)s;

-- find_settled
select given.key
from unnest(%(keys)s::bigint[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from "scheduler"."job_plans" as t where t."job_id" = given.key and t."settled_by" = given.owner limit 1
) as ours;

-- quarantine
with poison as (
    select "job_id"
    from "scheduler"."job_plans"
    where "state" = 'planning' and "lease_expires_at" < duly.now() and "starts" >= %(max_starts)s
        and (%(keys)s::bigint[] is null or "job_id" = any (%(keys)s::bigint[]))
    order by "job_id"
    limit %(limit)s
    for no key update skip locked
)
update "scheduler"."job_plans" as t
set "state" = 'stuck', "lease_owner" = null, "lease_expires_at" = null, "last_error" = 'The worker died each time it planned this schedule. Check the worker logs, then edit or resume it.'
where t."job_id" = any (array(select "job_id" from poison))
returning t.*;

-- release
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
ours as (
    select held."job_id"
    from given
    cross join lateral (
        select t."job_id"
        from "scheduler"."job_plans" as t
        where t."job_id" = given.key and t."lease_owner" = given.owner and t."state" = 'planning' and not ("lease_expires_at" < duly.clock())
        for no key update
    ) as held
)
update "scheduler"."job_plans" as t
set "starts" = greatest(t."starts" - 1, 0), "lease_expires_at" = duly.clock() - interval '1 millisecond'
where t."job_id" = any (array(select "job_id" from ours))
returning t."job_id";
;

-- renew
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner) order by g.key
),
free as (
    select ours."job_id"
    from given
    cross join lateral (
        select t."job_id"
        from "scheduler"."job_plans" as t
        where t."job_id" = given.key and t."lease_owner" = given.owner and t."state" = 'planning' and not ("lease_expires_at" < duly.clock())
        for no key update skip locked
    ) as ours
),
renewed as (
    update "scheduler"."job_plans" as t
    set "lease_expires_at" = duly.clock() + make_interval(secs => %(lease_seconds)s)
    where t."job_id" = any (array(select "job_id" from free))
    returning t."job_id" as key
)
select
    given.key,
    given.owner,
    given.key in (select key from renewed) as renewed,
    now.ours is true as ours,
    now.cancelled
from given
left join lateral (
    select t."state" = 'planning' and t."lease_owner" = given.owner and not ("lease_expires_at" < duly.clock()) as ours, false as cancelled
    from "scheduler"."job_plans" as t
    where t."job_id" = given.key
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
        from "scheduler"."job_plans" as t
        where t."job_id" = given.key and t."lease_owner" = given.owner and t."state" = 'planning'
        for no key update
    ) as held
),
settled as (
    update "scheduler"."job_plans" as t
    set "state" = 'waiting', "settled_by" = ours.owner, "lease_owner" = null, "lease_expires_at" = null
    from ours
    where t."job_id" = ours.key
    returning t."job_id" as key
)
select key from settled;

-- sweep
with expired as (
    select "job_id"
    from "scheduler"."job_plans"
    where "state" = 'planning' and "lease_expires_at" < duly.now() and (%(keys)s::bigint[] is null or "job_id" = any (%(keys)s::bigint[]))
    order by "job_id"
    limit %(limit)s
    for no key update skip locked
)
update "scheduler"."job_plans" as t
set "state" = 'waiting', "lease_owner" = null, "lease_expires_at" = null
where t."job_id" = any (array(select "job_id" from expired))
returning t.*;
