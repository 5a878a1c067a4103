-- Why a post has not appeared: everything that could be the reason, in one look.

-- name: find_situation
-- One statement, one snapshot: nothing moves between two parts of the answer. A worker is alive when it was seen lately and
-- did not say goodbye.
with alive as (
    select w.worker_id, (w.slots ->> 'posts')::bigint as slots
    from duly.workers as w
    where w.stopped_at is null and w.seen_at >= duly.now() - make_interval(secs => %(alive_seconds)s)
        and 'posts' = any (w.kinds)
)
select
    p.id, p.status, p.release_time, p.released_at, p.process_attempts, p.lease_owner, p.lease_expires_at, p.processing_since,
    p.ai_error, p.legacy is not null as is_legacy,
    duly.now() as looked_at,
    (select count(*) from alive) as workers,
    (select coalesce(sum(a.slots), 0)::bigint from alive as a) as slots,
    (select count(*) from posts.posts as h where h.status = 'PROCESSING') as held,
    (
        select count(*)
        from (
            select
            from posts.posts as o
            where o.status = 'PENDING' and o.release_time <= duly.now() and (o.release_time, o.id) < (p.release_time, p.id)
            limit %(most_counted)s
        ) as earlier
    ) as ahead
from posts.posts as p
where p.id = %(key)s and (p.status = 'RELEASED' or %(viewer)s in (p.author_id, '*'));
