-- What a benchmark needs of the server beside what it measures.

-- name: create_probe_table
-- One narrow row per commit: what the disk costs any program.
create table if not exists probe (id bigint generated always as identity primary key);

-- name: probe_milliseconds
-- A durable commit of next to nothing.
insert into probe default values;

-- name: checkpoint
-- What earlier measurements wrote is not charged to the next.
checkpoint;
