-- Where an address leads, and whether a wake-up comes through.

-- name: identify_database
-- Which of a server's databases this is.
select datname as name, oid::text as oid from pg_catalog.pg_database where datname = current_database();

-- name: find_system_identifier
-- Which server this is: a number made with the cluster, the same on its standbys.
select system_identifier::text as system from pg_catalog.pg_control_system();

-- name: listen
-- A channel nobody else knows.
listen {channel};

-- name: notify
-- One notification without a payload; it is sent when the transaction ends.
select pg_notify(%(channel)s, '');
