-- Whole databases, on a server that lets us.

-- name: create_database
-- The name decides who made it; the one who comes second is told so.
create database {name};

-- name: clone_database
-- A copy of a database that nobody is connected to; copying files is the quickest way for a small one.
create database {name} template {template} strategy file_copy;

-- name: drop_database
-- Whatever is still connected to it goes as well; one that is not there is no loss.
drop database if exists {name} with (force);

-- name: has_database
-- By its exact name.
select exists (select from pg_catalog.pg_database where datname = %(name)s);

-- name: list_databases
-- Those whose names begin so, letter by letter: an underscore is no wildcard here.
select datname from pg_catalog.pg_database
where starts_with(datname::text, %(prefix)s)
order by datname;
