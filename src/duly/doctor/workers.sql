-- Workers.

-- name: list_workers
-- Workers that did not report that they stopped: alive if seen recently, else vanished; very old ones are left out.
select
    worker_id, host, pid, work_types, slots,
    extract(epoch from duly.clock() - seen_at)::float8 as unseen_seconds
from duly.workers
where stopped_at is null and seen_at > duly.clock() - make_interval(secs => %(forgotten_seconds)s)
order by seen_at desc;
