-- Settings and privileges of a verification.

-- name: raise_work_mem
-- Full logs are sorted and hashed, so this transaction gets more work_mem, unless it is set higher already. Nested
-- loops are off: after a restore the planner has no statistics and would look up a log row by row. JIT is off:
-- compiling a statement that runs once costs more than it saves.
select
    set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), %(bytes)s) / 1024 || 'kB', true),
    set_config('enable_nestloop', 'off', true),
    set_config('jit', 'off', true);

-- name: list_unreadable
-- The tables and views of these schemas that this login may not read.
select format('%%I.%%I', n.nspname, c.relname)
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p', 'v') and not c.relispartition
    and not (has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'))
order by 1;

-- name: is_member
-- Whether this login has the privileges of a role; false for a role that does not exist.
select exists (select from pg_catalog.pg_roles where rolname = %(role)s and pg_has_role(oid, 'usage'));
