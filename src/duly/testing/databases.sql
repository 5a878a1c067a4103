-- What a server for tests is told.

-- name: lock_templates
-- One process at a time builds a template on this server; the lock goes with its connection.
select pg_advisory_lock(%(key)s);
