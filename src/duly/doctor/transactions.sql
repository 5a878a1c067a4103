-- What keeps locks, dead rows and old transaction ids.

-- name: list_open_transactions
-- Sessions with an open transaction or snapshot in this database, the oldest first; a standby's feedback has no
-- database. On 18 a session that is just starting has none either, and is left out. Autovacuum is not reported.
select
    pid,
    application_name as application,
    coalesce(state, 'state hidden') as state,
    coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::float8 as open_seconds,
    case when state like 'idle in transaction%%'
        then extract(epoch from clock_timestamp() - state_change)::float8 else 0 end as idle_seconds,
    coalesce(age(backend_xmin), 0) as snapshot_age
from pg_catalog.pg_stat_activity
where pid <> pg_backend_pid()
    and (datname = current_database() or (datid is null and backend_type = 'walsender'))
    and (xact_start is not null or backend_xmin is not null)
    and backend_type is distinct from 'autovacuum worker'
order by xact_start nulls last, snapshot_age desc;

-- name: count_hidden_sessions
-- Sessions of other roles, whose state and times PostgreSQL hides from this login.
select count(*) as hidden
from pg_catalog.pg_stat_activity
where datname = current_database() and query = '<insufficient privilege>';

-- name: list_prepared_transactions
-- A prepared transaction survives its session and every restart, and keeps its locks.
select gid, extract(epoch from clock_timestamp() - prepared)::float8 as open_seconds
from pg_catalog.pg_prepared_xacts
where database = current_database()
order by prepared;

-- name: list_replication_slots
-- A slot that holds rows back does so for every database of the server.
select
    slot_name::text as slot,
    active as is_active,
    greatest(age(xmin), age(catalog_xmin)) as snapshot_age
from pg_catalog.pg_replication_slots
where xmin is not null or catalog_xmin is not null
order by snapshot_age desc;

-- name: list_tables_to_vacuum
-- Tables with many dead rows that are a large share, and large tables that were never vacuumed; the worst first.
select format('%%I.%%I', schemaname, relname) as table, n_dead_tup as dead, n_live_tup as live
from pg_catalog.pg_stat_user_tables
where schemaname = any(%(schemas)s) and (
    (n_dead_tup > %(dead_rows)s and n_dead_tup > %(dead_share)s * (n_live_tup + n_dead_tup))
    or (n_live_tup + n_dead_tup > %(large_rows)s and last_vacuum is null and last_autovacuum is null)
)
order by n_dead_tup desc, n_live_tup desc;

-- name: get_oldest_database
-- One database with a row that is two billion transactions old stops writes on the full server.
select datname as name, age(datfrozenxid) as age
from pg_catalog.pg_database
order by age(datfrozenxid) desc, datname
limit 1;
