-- claim
with due as (
    select "number"
    from "laws"."visit"
    where "state" = 'pending' and "created_at" <= duly.now()
    order by "created_at", "number"
    limit %(most)s
    for no key update skip locked
)
update "laws"."visit" as t
set "state" = 'processing', "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
from due
where t."number" = due."number"
returning t.*;

-- claim_lapsed
with lapsed as (
    select "number"
    from "laws"."visit"
    where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds") and "starts" < %(most_starts)s
    order by "number"
    limit %(most)s
    for no key update skip locked
)
update "laws"."visit" as t
set "locked_by" = %(owner)s, "starts" = t."starts" + 1, "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
from lapsed
where t."number" = lapsed."number"
returning t.*;

-- fence
select "number"
from "laws"."visit"
where "number" = %(key)s and "locked_by" = %(owner)s and "state" = 'processing'
for no key update;

-- find_settled
select t."number" as key
from "laws"."visit" as t
join unnest(%(keys)s::bigint[], %(owners)s::text[]) as given (key, owner)
    on given.key = t."number" and given.owner = t."settled_by";

-- quarantine
with poison as (
    select "number", "locked_by" as owner
    from "laws"."visit"
    where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds") and "starts" >= %(most_starts)s
    order by "number"
    limit %(most)s
    for no key update skip locked
)
update "laws"."visit" as t
set "state" = 'failed', "settled_by" = poison.owner, "locked_by" = null, "locked_at" = null, "lease_seconds" = null, "error" = 'started too often'
from poison
where t."number" = poison."number"
returning t.*;

-- release
update "laws"."visit" as t
set "starts" = greatest(t."starts" - 1, 0), "locked_at" = duly.clock() - make_interval(secs => t."lease_seconds") - interval '1 millisecond'
from unnest(%(keys)s::bigint[], %(owners)s::text[]) as given (key, owner)
where t."number" = given.key and t."locked_by" = given.owner and t."state" = 'processing'
returning t."number";
;

-- renew
with given as (
    select g.key, g.owner from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner)
),
free as (
    select t."number"
    from "laws"."visit" as t
    join given on given.key = t."number" and given.owner = t."locked_by"
    where t."state" = 'processing'
    order by t."number"
    for no key update of t skip locked
),
renewed as (
    update "laws"."visit" as t
    set "locked_at" = duly.clock(), "lease_seconds" = %(lease_seconds)s
    from free
    where t."number" = free."number"
    returning t."number" as key
)
select
    given.key,
    renewed.key is not null as renewed,
    (t."state" = 'processing' and t."locked_by" = given.owner) is true as ours,
    false as cancelled
from given
left join renewed on renewed.key = given.key
left join "laws"."visit" as t on t."number" = given.key;

-- settle
with given as (
    select * from unnest(%(keys)s::bigint[], %(owners)s::text[]) as g (key, owner)
),
ours as (
    select t."number"
    from "laws"."visit" as t
    join given on given.key = t."number" and given.owner = t."locked_by"
    where t."state" = 'processing'
    order by t."number"
    for no key update of t
),
settled as (
    update "laws"."visit" as t
    set "state" = 'done', "settled_by" = given.owner, "locked_by" = null, "locked_at" = null, "lease_seconds" = null
    from ours
    join given on given.key = ours."number"
    where t."number" = ours."number"
    returning t."number" as key
)
select key from settled;

-- sweep
with lapsed as (
    select "number"
    from "laws"."visit"
    where "state" = 'processing' and "locked_at" < duly.now() - make_interval(secs => "lease_seconds")
    order by "number"
    limit %(most)s
    for no key update skip locked
)
update "laws"."visit" as t
set "state" = 'pending', "locked_by" = null, "locked_at" = null, "lease_seconds" = null
from lapsed
where t."number" = lapsed."number"
returning t.*;
