-- claim
with due as (
    select "id"
    from "laws"."parcel"
    where "status" = 'WAITING' and "due_at" <= duly.now()
    order by "due_at", "id"
    limit %(most)s
    for no key update skip locked
)
update "laws"."parcel" as t
set "status" = 'CARRIED', "carrier" = %(owner)s, "starts" = t."starts" + 1, "carried_until" = duly.clock() + make_interval(secs => %(lease_seconds)s)
from due
where t."id" = due."id"
returning t.*;

-- claim_lapsed
with lapsed as (
    select "id"
    from "laws"."parcel"
    where "status" = 'CARRIED' and "carried_until" < duly.now() and "starts" < %(most_starts)s
    order by "id"
    limit %(most)s
    for no key update skip locked
)
update "laws"."parcel" as t
set "carrier" = %(owner)s, "starts" = t."starts" + 1, "carried_until" = duly.clock() + make_interval(secs => %(lease_seconds)s)
from lapsed
where t."id" = lapsed."id"
returning t.*;

-- fence
select "id"
from "laws"."parcel"
where "id" = %(key)s and "carrier" = %(owner)s and "status" = 'CARRIED'
for no key update;

-- find_settled
select t."id" as key
from "laws"."parcel" as t
join unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
    on given.key = t."id" and given.owner = t."settled_by";

-- quarantine
with poison as (
    select "id", "carrier" as owner
    from "laws"."parcel"
    where "status" = 'CARRIED' and "carried_until" < duly.now() and "starts" >= %(most_starts)s
    order by "id"
    limit %(most)s
    for no key update skip locked
)
update "laws"."parcel" as t
set "status" = NULL, "settled_by" = poison.owner, "carrier" = null, "carried_until" = null, 
from poison
where t."id" = poison."id"
returning t.*;

-- release
update "laws"."parcel" as t
set "starts" = greatest(t."starts" - 1, 0), "carried_until" = duly.clock() - interval '1 millisecond'
from unnest(%(keys)s::uuid[], %(owners)s::text[]) as given (key, owner)
where t."id" = given.key and t."carrier" = given.owner and t."status" = 'CARRIED'
returning t."id";
;

-- renew
with given as (
    select g.key, g.owner from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner)
),
free as (
    select t."id"
    from "laws"."parcel" as t
    join given on given.key = t."id" and given.owner = t."carrier"
    where t."status" = 'CARRIED'
    order by t."id"
    for no key update of t skip locked
),
renewed as (
    update "laws"."parcel" as t
    set "carried_until" = duly.clock() + make_interval(secs => %(lease_seconds)s)
    from free
    where t."id" = free."id"
    returning t."id" as key
)
select
    given.key,
    renewed.key is not null as renewed,
    (t."status" = 'CARRIED' and t."carrier" = given.owner) is true as ours,
    t."cancel_requested_at" is not null as cancelled
from given
left join renewed on renewed.key = given.key
left join "laws"."parcel" as t on t."id" = given.key;

-- settle
with given as (
    select * from unnest(%(keys)s::uuid[], %(owners)s::text[]) as g (key, owner)
),
ours as (
    select t."id"
    from "laws"."parcel" as t
    join given on given.key = t."id" and given.owner = t."carrier"
    where t."status" = 'CARRIED'
    order by t."id"
    for no key update of t
),
settled as (
    update "laws"."parcel" as t
    set "status" = 'DELIVERED', "settled_by" = given.owner, "carrier" = null, "carried_until" = null
    from ours
    join given on given.key = ours."id"
    where t."id" = ours."id"
    returning t."id" as key
)
select key from settled;

-- sweep
with lapsed as (
    select "id"
    from "laws"."parcel"
    where "status" = 'CARRIED' and "carried_until" < duly.now()
    order by "id"
    limit %(most)s
    for no key update skip locked
)
update "laws"."parcel" as t
set "status" = 'WAITING', "carrier" = null, "carried_until" = null
from lapsed
where t."id" = lapsed."id"
returning t.*;
