-- How posts fare.

-- name: list_breaches
-- Promises that are broken, and since when.
select o.name, extract(epoch from duly.now() - o.breached_at)::float8 as seconds
from posts.objectives as o
where o.breached_at is not null
order by o.name;
