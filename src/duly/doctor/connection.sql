-- How the doctor asks. Every statement of these files reads only, stands in a short transaction with a time limit, and
-- asks no more privilege than it must: what a login may not see is told as such where PostgreSQL lets us.

-- name: limit_transaction
-- A doctor neither waits nor is waited for; bounds of partitions are read in one zone and one style.
select
    set_config('statement_timeout', %(milliseconds)s, true),
    set_config('lock_timeout', %(milliseconds)s, true),
    set_config('TimeZone', 'UTC', true),
    set_config('DateStyle', 'ISO, YMD', true);

-- name: act_as
-- For the rest of the transaction a role the login may take, as components do; where it may not, and for a superuser,
-- who sees more without, nothing changes.
select set_config('role', r.rolname, true)
from pg_catalog.pg_roles r
join pg_catalog.pg_roles login on login.rolname = session_user
where r.rolname = %(role)s and not login.rolsuper and pg_has_role(
    login.oid, r.oid, case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
);

-- name: get_login
-- Who we are to the server: a pooler may have given us another name.
select session_user::text as login;
