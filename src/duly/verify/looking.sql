-- How we look: in one snapshot, and with room for histories of any length.

-- name: take_room
-- Whole logs are sorted and hashed, in memory that is ours for this transaction; whoever allowed more keeps it. A history is
-- read once from end to end: the planner, which after a restore knows nothing of its length, must not look it up line by line.
-- Compiling a statement that runs once costs more than it saves.
select
    set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), %(bytes)s) / 1024 || 'kB', true),
    set_config('enable_nestloop', 'off', true),
    set_config('jit', 'off', true);
