-- The contract's three service level objectives. A window is a number of seconds before now.

-- name: count_by_window
-- Intents that succeeded and those that failed by a server error; client errors count neither way.
select
    w.seconds,
    coalesce(sum(m.intents) filter (where m.outcome in ('CREATED', 'REPLAYED')), 0)::bigint as good,
    coalesce(sum(m.intents) filter (where m.outcome = any (%(server_error_codes)s)), 0)::bigint as bad
from unnest(%(windows)s::bigint[]) as w (seconds)
left join posts.intent_minutes as m on m.minute > duly.now() - make_interval(secs => w.seconds)
group by w.seconds
order by w.seconds;

-- name: lag_by_window
-- Posts that were released in each window, or are overdue and not released now: how many, how many of them late, and
-- the 95th percentile of the lag. A post that is not released is late once it is overdue by the target, and its lag so
-- far counts. Imported documents of the first version never count.
with overdue as materialized (
    select duly.now() - p.release_time as lag
    from posts.posts as p
    where p.status = 'PENDING' and p.release_time <= duly.now() - make_interval(secs => %(late_seconds)s)
        and p.legacy is null
    union all
    select duly.now() - p.release_time
    from posts.posts as p
    where p.status = 'PROCESSING' and p.release_time <= duly.now() - make_interval(secs => %(late_seconds)s)
        and p.legacy is null
)
select
    w.seconds,
    count(l.lag) as posts,
    count(l.lag) filter (where l.lag >= make_interval(secs => %(late_seconds)s)) as late,
    extract(epoch from percentile_disc(0.95) within group (order by l.lag))::float8 as p95_seconds
from unnest(%(windows)s::bigint[]) as w (seconds)
left join lateral (
    select p.released_at - p.release_time as lag
    from posts.posts as p
    where p.released_at > duly.now() - make_interval(secs => w.seconds) and p.legacy is null
    union all
    select o.lag from overdue as o
) as l on true
group by w.seconds
order by w.seconds;

-- name: count_stuck
-- Posts that are in PROCESSING for longer than the target, and the longest time in PROCESSING.
select
    count(*) filter (where processing_since < duly.now() - make_interval(secs => %(stuck_seconds)s)) as stuck,
    count(*) as held,
    coalesce(extract(epoch from max(duly.now() - processing_since)), 0)::float8 as max_seconds
from posts.posts
where status = 'PROCESSING';
