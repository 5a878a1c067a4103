-- Statements for a test server.

-- name: lock_templates
-- One process at a time builds a template on this server; the lock ends with its connection.
select pg_advisory_lock(%(key)s);
