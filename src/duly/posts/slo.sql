-- How the contract's three promises stand. A window is so many seconds back from now.

-- name: count_by_window
-- Intents that succeeded and those that failed through our fault; what a caller got wrong counts neither way.
select
    w.seconds,
    coalesce(sum(m.intents) filter (where m.outcome in ('CREATED', 'REPLAYED')), 0)::bigint as good,
    coalesce(sum(m.intents) filter (where m.outcome = any (%(ours)s)), 0)::bigint as bad
from unnest(%(windows)s::bigint[]) as w (seconds)
left join posts.intent_minutes as m on m.minute > duly.now() - make_interval(secs => w.seconds)
group by w.seconds
order by w.seconds;

-- name: lag_by_window
-- Posts that appeared, those of them that appeared late, and the lag that 95 of 100 stayed within.
select
    w.seconds,
    count(p.id) as released,
    count(p.id) filter (where p.released_at - p.release_time >= make_interval(secs => %(late_seconds)s)) as late,
    extract(epoch from percentile_disc(0.95) within group (order by p.released_at - p.release_time))::float8 as p95_seconds
from unnest(%(windows)s::bigint[]) as w (seconds)
left join posts.posts as p
    on p.released_at > duly.now() - make_interval(secs => w.seconds) and p.release_time is not null and p.settled_by is not null
group by w.seconds
order by w.seconds;

-- name: count_stuck
-- Posts that are being prepared for longer than any may be, and for how long the longest is.
select
    count(*) filter (where processing_since < duly.now() - make_interval(secs => %(stuck_seconds)s)) as stuck,
    count(*) as held,
    coalesce(extract(epoch from max(duly.now() - processing_since)), 0)::float8 as longest_seconds
from posts.posts
where status = 'PROCESSING';
