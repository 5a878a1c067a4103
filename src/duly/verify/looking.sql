-- How we look: in one snapshot, and with room for histories of any length.

-- name: take_room
-- Whole logs are sorted and hashed, in memory that is ours for this transaction; whoever allowed more keeps it. Compiling a
-- statement that runs once costs more than it saves.
select
    set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), %(bytes)s) / 1024 || 'kB', true),
    set_config('jit', 'off', true);
