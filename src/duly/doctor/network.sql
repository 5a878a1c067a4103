-- The identity of a database, and NOTIFY.

-- name: identify_database
-- The name and oid of the database.
select datname as name, oid::text as oid from pg_catalog.pg_database where datname = current_database();

-- name: find_system_identifier
-- The system identifier, created with the cluster and shared with its standbys.
select system_identifier::text as system from pg_catalog.pg_control_system();

-- name: listen
-- LISTEN on a random channel.
listen {channel};

-- name: notify
-- One notification without a payload; it is sent when the transaction ends.
select pg_notify(%(channel)s, '');
