-- How we look: in one snapshot, and with room for histories of any length.

-- name: take_room
-- Whole logs are sorted and hashed, in memory that is ours for this transaction; whoever allowed more keeps it. A history is
-- read once from end to end: the planner, which after a restore knows nothing of its length, must not look it up line by line.
-- Compiling a statement that runs once costs more than it saves.
select
    set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), %(bytes)s) / 1024 || 'kB', true),
    set_config('enable_nestloop', 'off', true),
    set_config('jit', 'off', true);

-- name: list_unreadable
-- What this login may not read, of these schemas.
select format('%%I.%%I', n.nspname, c.relname)
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p', 'v') and not c.relispartition
    and not (has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'))
order by 1;

-- name: is_member
-- May this login do all that a role may? Nobody may do what a role may that is not there.
select exists (select from pg_catalog.pg_roles where rolname = %(role)s and pg_has_role(oid, 'usage'));
