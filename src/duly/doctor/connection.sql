-- The connection of the doctor. All its statements only read, run in short transactions with a timeout, and need few
-- privileges: what a login may not see is reported as hidden where PostgreSQL allows it.

-- name: limit_transaction
-- Timeouts of the transaction; bounds of partitions are formatted in one time zone and style.
select
    set_config('statement_timeout', %(milliseconds)s, true),
    set_config('lock_timeout', %(milliseconds)s, true),
    set_config('TimeZone', 'UTC', true),
    set_config('DateStyle', 'ISO, YMD', true);

-- name: act_as
-- Acts as a role for the rest of the transaction, as components do, if the login may; nothing changes for a superuser,
-- who sees more without it.
select set_config('role', r.rolname, true)
from pg_catalog.pg_roles r
join pg_catalog.pg_roles login on login.rolname = session_user
where r.rolname = %(role)s and not login.rolsuper and pg_has_role(
    login.oid, r.oid, case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
);

-- name: get_login
-- The session user: a pooler may have changed it.
select session_user::text as login;
