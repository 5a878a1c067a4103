-- The clock of the database.

-- name: read_clock
-- The clock of all timestamps.
select extract(epoch from clock_timestamp())::float8 as seconds;

-- name: find_test_clock
-- A test clock has a table of this name.
select c.oid
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'duly' and c.relname = 'test_clock';
