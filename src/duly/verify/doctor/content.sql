-- What migrations left behind.

-- name: list_revisions
-- Where Alembic's book says the database is: one line, or none.
select version_num as revision from duly.alembic_version order by version_num;
