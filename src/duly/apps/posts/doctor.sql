-- Objectives and overdue posts.

-- name: list_breaches
-- Breached objectives, and for how long.
select o.name, extract(epoch from duly.now() - o.breached_at)::float8 as seconds
from posts.objectives as o
where o.breached_at is not null
order by o.name;

-- name: find_overdue
-- Overdue posts, counted up to a limit, and by how long the oldest is overdue; imported documents do not count.
select count(*) as posts, extract(epoch from max(duly.now() - late.release_time))::float8 as seconds
from (
    (
        select p.release_time
        from posts.posts as p
        where p.status = 'PENDING' and p.release_time < duly.now() - make_interval(secs => %(late_seconds)s)
            and p.legacy is null
        order by p.release_time
        limit %(limit)s
    )
    union all
    select p.release_time
    from posts.posts as p
    where p.status = 'PROCESSING' and p.release_time < duly.now() - make_interval(secs => %(late_seconds)s)
        and p.legacy is null
) as late;
