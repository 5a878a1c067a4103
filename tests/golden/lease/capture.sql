-- claim by closed_at
with due as (
select "id"
from "schedule_ingest"."capture_session"
where "state" = 'pending' and "closed_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "closed_at", "id"
limit %(limit)s
for no key update skip locked
)
update "schedule_ingest"."capture_session" as t
set "state" = 'processing', "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
where t."id" = any (array(select "id" from due))
returning t.*;

-- claim by created_at
with due as (
select "id"
from "schedule_ingest"."capture_session"
where "state" = 'pending' and "created_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "created_at", "id"
limit %(limit)s
for no key update skip locked
)
update "schedule_ingest"."capture_session" as t
set "state" = 'processing', "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
where t."id" = any (array(select "id" from due))
returning t.*;

-- claim by given_at
with due as (
select "id"
from "schedule_ingest"."capture_session"
where "state" = 'pending' and "given_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "given_at", "id"
limit %(limit)s
for no key update skip locked
)
update "schedule_ingest"."capture_session" as t
set "state" = 'processing', "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
where t."id" = any (array(select "id" from due))
returning t.*;

-- claim_expired
with expired as (
    select "id"
    from "schedule_ingest"."capture_session"
    where "state" = 'processing' and coalesce("locked_at", '-infinity') < duly.now() - make_interval(secs => coalesce("lease_seconds", 300.0)) and "starts" < %(max_starts)s
        and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "schedule_ingest"."capture_session" as t
set "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
where t."id" = any (array(select "id" from expired))
returning t.*;

-- claimable
select "id"
from "schedule_ingest"."capture_session"
where "state" = 'pending' and "closed_at" <= duly.now()
    and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
order by "closed_at", "id"
limit %(limit)s
for no key update skip locked;

-- fence
select "id"
from "schedule_ingest"."capture_session"
where "id" = %(key)s and "locked_by" = %(owner)s and "state" = 'processing'
for no key update;

-- fence_many
select held."id" as key
from (select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner) order by g.key) as given
cross join lateral (
    select t."id"
    from "schedule_ingest"."capture_session" as t
    where t."id" = given.key and t."locked_by" = given.owner and t."state" = 'processing'
    for no key update
) as held;

-- find_due
select "id" as key
from "schedule_ingest"."capture_session"
where "state" = 'pending' and "closed_at" <= duly.now() and not ("id" = any (%(excluded_keys)s::uuid[]))
order by "closed_at", "id"
limit %(limit)s;

-- find_expired
select "id" as key
from "schedule_ingest"."capture_session"
where "state" = 'processing' and coalesce("locked_at", '-infinity') < duly.now() - make_interval(secs => coalesce("lease_seconds", 300.0)) and not ("id" = any (%(excluded_keys)s::uuid[]))
order by "id"
limit %(limit)s;

-- find_settled
select given.key
from unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
cross join lateral (
    select from "schedule_ingest"."capture_session" as t where t."id" = given.key and t."settled_by" = given.owner limit 1
) as ours;

-- quarantine
with poison as (
    select "id"
    from "schedule_ingest"."capture_session"
    where "state" = 'processing' and coalesce("locked_at", '-infinity') < duly.now() - make_interval(secs => coalesce("lease_seconds", 300.0)) and "starts" >= %(max_starts)s
        and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "schedule_ingest"."capture_session" as t
set "state" = 'failed', "locked_by" = null, "locked_at" = null, "lease_seconds" = null, "error" = 'It was started too often: each time the worker ended before the session did. Look at the workers'' logs, then send the day again.'
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
        from "schedule_ingest"."capture_session" as t
        where t."id" = given.key and t."locked_by" = given.owner and t."state" = 'processing' and not (coalesce("locked_at", '-infinity') < duly.clock() - make_interval(secs => coalesce("lease_seconds", 300.0)))
        for no key update
    ) as held
)
update "schedule_ingest"."capture_session" as t
set "starts" = greatest(t."starts" - 1, 0), "locked_at" = duly.clock() - make_interval(secs => t."lease_seconds") - interval '1 millisecond'
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
        from "schedule_ingest"."capture_session" as t
        where t."id" = given.key and t."locked_by" = given.owner and t."state" = 'processing' and not (coalesce("locked_at", '-infinity') < duly.clock() - make_interval(secs => coalesce("lease_seconds", 300.0)))
        for no key update skip locked
    ) as ours
),
renewed as (
    update "schedule_ingest"."capture_session" as t
    set "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
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
    select t."state" = 'processing' and t."locked_by" = given.owner and not (coalesce("locked_at", '-infinity') < duly.clock() - make_interval(secs => coalesce("lease_seconds", 300.0))) as ours, false as cancelled
    from "schedule_ingest"."capture_session" as t
    where t."id" = given.key
    limit 1
) as now on true;

-- settle
with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(column_error)s::text[])) as g (key, owner, "error")
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from "schedule_ingest"."capture_session" as t
        where t."id" = given.key and t."locked_by" = given.owner and t."state" = 'processing'
        for no key update
    ) as held
),
settled as (
    update "schedule_ingest"."capture_session" as t
    set "state" = 'failed', "settled_by" = ours.owner, "locked_by" = null, "locked_at" = null, "lease_seconds" = null, "error" = ours."error"
    from ours
    where t."id" = ours.key
    returning t."id" as key
)
select key from settled;

-- sweep
with expired as (
    select "id"
    from "schedule_ingest"."capture_session"
    where "state" = 'processing' and coalesce("locked_at", '-infinity') < duly.now() - make_interval(secs => coalesce("lease_seconds", 300.0)) and (%(keys)s::uuid[] is null or "id" = any (%(keys)s::uuid[]))
    order by "id"
    limit %(limit)s
    for no key update skip locked
)
update "schedule_ingest"."capture_session" as t
set "state" = 'pending', "locked_by" = null, "locked_at" = null, "lease_seconds" = null
where t."id" = any (array(select "id" from expired))
returning t.*;
