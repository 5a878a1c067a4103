-- What is asked of the server beside what is measured.

-- name: make_probe
-- One narrow row per commit: what the disk costs anybody.
create table if not exists probe (id bigint generated always as identity primary key);

-- name: probe_milliseconds
-- A durable commit of next to nothing.
insert into probe default values;

-- name: checkpoint
-- Nobody pays for what was written before.
checkpoint;
