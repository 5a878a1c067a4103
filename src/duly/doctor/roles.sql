-- Roles, memberships and row level security.

-- name: list_roles
-- Whether the roles exist, can log in, and can be used by this login.
select
    wanted.name,
    r.oid is not null as is_there,
    coalesce(r.rolcanlogin, false) as can_login,
    coalesce(pg_has_role(
        session_user, r.oid, case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
    ), false) as may_be_taken
from unnest(%(names)s::text[]) with ordinality as wanted (name, nth)
left join pg_catalog.pg_roles r on r.rolname = wanted.name
order by wanted.nth;

-- name: list_memberships
-- Memberships between these roles, except the intended one: the worker acts as the API role for handlers.
select member.rolname as member, role.rolname as role
from pg_catalog.pg_roles as member
cross join pg_catalog.pg_roles as role
where member.rolname = any(%(components)s) and role.rolname = any(%(roles)s) and member.oid <> role.oid
    and (member.rolname, role.rolname) <> (%(worker)s, %(api)s) and not member.rolsuper
    and pg_has_role(member.oid, role.oid, 'member')
order by 1, 2;

-- name: list_exemptions
-- What exempts a role from row level security: superuser, BYPASSRLS, or ownership of tables, also by an inherited role.
select
    r.rolname as name,
    r.rolsuper as is_superuser,
    r.rolbypassrls as bypasses,
    (
        select count(*)
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p') and pg_has_role(r.oid, c.relowner, 'usage')
    ) as tables,
    (
        select count(*)
        from pg_catalog.pg_shdepend d
        where d.refclassid = 'pg_catalog.pg_authid'::regclass and d.refobjid = r.oid and d.deptype = 'o'
            and d.dbid in (0, (select oid from pg_catalog.pg_database where datname = current_database()))
    ) as things
from pg_catalog.pg_roles r
where r.rolname = any(%(names)s)
order by r.rolname;
