-- The schema and its revision.

-- name: list_revisions
-- The revisions that Alembic recorded; one that another depends on is not recorded itself.
select version_num as revision from duly.alembic_version order by version_num;

-- name: has_tables
-- Whether duly's tables exist, with or without a recorded revision; those that a backend's schema needs do not count.
select exists (
    select from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = 'duly' and c.relname = 'orgs'
) as has_tables;
