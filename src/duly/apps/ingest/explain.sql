-- Everything that could delay a session. {schema} is DB_SCHEMA.

-- name: find_situation
-- One statement, so that all parts of the answer are from one snapshot. A worker is alive when it was seen recently and
-- is neither stopping nor stopped. Locks are probed as a claim does, with skip locked.
with present as materialized (
    select w.worker_id, w.work_types, w.stopping_at, coalesce((w.slots ->> 'ingest')::bigint, 0) as slots
    from duly.workers as w
    where w.stopped_at is null and abs(extract(epoch from duly.now() - w.seen_at)) <= %(alive_seconds)s
),
alive as (
    select w.worker_id, count(*) as workers, sum(w.slots)::bigint as slots, (
        select count(*)
        from {schema}.capture_session as h
        where h.state = %(processing)s
            and h.locked_at >= duly.now() - make_interval(secs => coalesce(h.lease_seconds, %(lease_seconds)s))
            and substring(h.locked_by from '^(.+)/[A-Za-z0-9_-]{22}$') = w.worker_id
    ) as held
    from present as w
    where w.stopping_at is null and 'ingest' = any (w.work_types)
    group by w.worker_id
)
select
    s.id, s.state::text, s.created_at, s.closed_at, s.given_at, s.error, s.result, s.starts, s.locked_by, s.locked_at,
    s.lease_seconds, image.images, image.last_at,
    duly.now() as observed_at,
    (
        select max(w.seen_at)
        from duly.workers as w
        where w.worker_id = substring(s.locked_by from '^(.+)/[A-Za-z0-9_-]{22}$')
        having not bool_or(w.worker_id in (select n.worker_id from present as n))
    ) as holder_gone_at,
    (select coalesce(sum(a.workers), 0)::bigint from alive as a) as workers,
    array(
        select distinct w.worker_id
        from present as w
        where w.stopping_at is not null and 'ingest' = any (w.work_types)
        order by w.worker_id
    ) as stopping,
    (select coalesce(sum(a.slots), 0)::bigint from alive as a) as slots,
    (select coalesce(sum(a.held), 0)::bigint from alive as a) as held,
    exists (select from alive as a where a.held < a.slots) as has_free_slot,
    (
        select count(*)
        from (
            select
            from {schema}.capture_session as o
            where o.state = %(pending)s and o.closed_at <= duly.now() and (o.closed_at, o.id) < (s.closed_at, s.id)
            limit %(ahead_limit)s
        ) as earlier
    ) as ahead,
    case when s.state in (%(pending)s, %(processing)s) then not exists (
        select from {schema}.capture_session as l where l.id = s.id for no key update skip locked
    ) else false end as is_locked
from {schema}.capture_session as s
cross join lateral (
    select count(*) as images, max(i.created_at) as last_at from {schema}.capture_image as i where i.session_id = s.id
) as image
where s.id = %(key)s and (%(user_id)s::bigint is null or s.user_id = %(user_id)s::bigint);
