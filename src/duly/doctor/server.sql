-- The server and its settings, as this login has them.

-- name: get_version
-- The version of the server itself, whatever a pooler reports.
select
    current_setting('server_version_num')::int / 10000 as major,
    split_part(current_setting('server_version'), ' ', 1) as version;

-- name: get_durability
-- Durability settings of this login.
select
    current_database() as name,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit;

-- name: get_autovacuum
-- Autovacuum needs the statistics of changes: without track_counts it does nothing.
select current_setting('autovacuum') as autovacuum, current_setting('track_counts') as track_counts;

-- name: count_connections
-- Connections for ordinary logins, and clients; the type of a session of another role may be hidden.
select
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int as usable,
    (
        select count(*)
        from pg_catalog.pg_stat_activity
        where datid is not null and coalesce(backend_type, 'client backend') = 'client backend'
    ) as used;

-- name: list_idle_timeouts
-- The value at the start of a session: our own, or for another login the most specific setting of role and database.
select login, value, value ~ '^0+\s*[a-z]*$' as is_off
from (
    select r.rolname as login, coalesce(nearest.value, current_setting('idle_in_transaction_session_timeout')) as value
    from pg_catalog.pg_roles r
    left join lateral (
        select substr(setting, strpos(setting, '=') + 1) as value
        from pg_catalog.pg_db_role_setting s, unnest(s.setconfig) as setting
        where r.rolname <> session_user
            and s.setrole in (r.oid, 0)
            and s.setdatabase in ((select oid from pg_catalog.pg_database where datname = current_database()), 0)
            and setting like 'idle\_in\_transaction\_session\_timeout=%%'
        order by s.setrole = 0, s.setdatabase = 0
        limit 1
    ) as nearest on true
    where r.rolname = any(%(logins)s)
) as timeouts
order by login;

-- name: get_jit
-- JIT is available if the server has a compiler and jit is on for this login. Up to PostgreSQL 17, functions with
-- planner settings have plans with a high cost, which are then compiled.
select
    pg_jit_available() as is_on,
    case current_setting('jit_above_cost')::float8
        when -1 then 'infinity'::float8 else current_setting('jit_above_cost')::float8
    end as above_cost,
    array(
        select p.oid::regprocedure::text
        from pg_catalog.pg_proc as p
        join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
        where n.nspname in ('duly', 'ledger') and array_to_string(p.proconfig, ' ') ~ '\menable_'
            and not 'jit=off' = any (p.proconfig)
        order by 1
    ) as compiled;
