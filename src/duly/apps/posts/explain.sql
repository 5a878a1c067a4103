-- Why a post has not been released: all possible causes, in one query.

-- name: find_situation
-- One statement, one snapshot: all parts of the answer are consistent. A worker is alive when it was seen lately and is
-- neither stopping nor stopped. The row lock is tested in the same way as in claims and sweeps.
with present as materialized (
    select w.worker_id, w.work_types, w.stopping_at, coalesce((w.slots ->> 'posts')::bigint, 0) as slots
    from duly.workers as w
    where w.stopped_at is null and abs(extract(epoch from duly.now() - w.seen_at)) <= %(alive_seconds)s
),
alive as (
    select w.worker_id, count(*) as workers, sum(w.slots)::bigint as slots, (
        select count(*)
        from posts.posts as h
        where h.status = 'PROCESSING' and h.lease_expires_at >= duly.now()
            and substring(h.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$') = w.worker_id
    ) as held
    from present as w
    where w.stopping_at is null and 'posts' = any (w.work_types)
    group by w.worker_id
)
select
    p.id, p.status, p.release_time, p.released_at, p.process_attempts,
    p.lease_owner, p.lease_expires_at, p.processing_since,
    p.ai_error, p.legacy is not null as is_legacy,
    duly.now() as observed_at,
    (
        select max(w.seen_at)
        from duly.workers as w
        where w.worker_id = substring(p.lease_owner from '^(.+)/[A-Za-z0-9_-]{22}$')
        having not bool_or(w.worker_id in (select n.worker_id from present as n))
    ) as holder_gone_at,
    (select coalesce(sum(a.workers), 0)::bigint from alive as a) as workers,
    array(
        select distinct w.worker_id
        from present as w
        where w.stopping_at is not null and 'posts' = any (w.work_types)
        order by w.worker_id
    ) as stopping,
    (select coalesce(sum(a.slots), 0)::bigint from alive as a) as slots,
    (select coalesce(sum(a.held), 0)::bigint from alive as a) as held,
    exists (select from alive as a where a.held < a.slots) as has_free_slot,
    (
        select count(*)
        from (
            select
            from posts.posts as o
            where o.status = 'PENDING' and o.release_time <= duly.now()
                and (o.release_time, o.id) < (p.release_time, p.id)
            limit %(ahead_limit)s
        ) as earlier
    ) as ahead,
    case when p.status = 'PENDING' or p.lease_expires_at < duly.now() then not exists (
        select from posts.posts as l where l.id = p.id for no key update skip locked
    ) else false end as is_locked
from posts.posts as p
where p.id = %(post_id)s and (p.status = 'RELEASED' or %(viewer)s in (p.author_id, '*'));
