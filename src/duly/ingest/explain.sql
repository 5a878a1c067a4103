-- Why nothing happens to a session: everything that could be the reason, in one look. {schema} is DB_SCHEMA.

-- name: find_situation
-- One statement, one snapshot: nothing moves between two parts of the answer. A worker is alive when it was seen lately and
-- did not say goodbye.
with alive as (
    select w.worker_id, (w.slots ->> 'ingest')::bigint as slots
    from duly.workers as w
    where w.stopped_at is null and w.seen_at >= duly.now() - make_interval(secs => %(alive_seconds)s)
        and 'ingest' = any (w.kinds)
)
select
    s.id, s.state::text, s.created_at, s.closed_at, s.given_at, s.error, s.result, s.starts, s.locked_by, s.locked_at,
    s.lease_seconds, image.images, image.last_at,
    duly.now() as looked_at,
    (select count(*) from alive) as workers,
    (select coalesce(sum(a.slots), 0)::bigint from alive as a) as slots,
    (select count(*) from {schema}.capture_session as h where h.state = %(processing)s) as held,
    (
        select count(*)
        from (
            select
            from {schema}.capture_session as o
            where o.state = %(pending)s and o.closed_at is not null and (o.closed_at, o.id) < (s.closed_at, s.id)
            limit %(most_counted)s
        ) as earlier
    ) as ahead
from {schema}.capture_session as s
cross join lateral (
    select count(*) as images, max(i.created_at) as last_at from {schema}.capture_image as i where i.session_id = s.id
) as image
where s.id = %(key)s and (%(user_id)s::bigint is null or s.user_id = %(user_id)s::bigint);
