-- What migrations left behind.

-- name: list_revisions
-- Where Alembic's book says the database is: one line, or none.
select version_num as revision from duly.alembic_version order by version_num;

-- name: has_tables
-- Whoever made them, with or without a book; what a backend's own schema needs of us is not among them.
select exists (
    select from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = 'duly' and c.relname = 'orgs'
) as has_tables;
