-- Invariants of every schema. A package has its own in a file of this name.
--
-- An invariant is a statement that returns offenders, and an empty result is good. It only reads, and takes no lock
-- that could block a writer; the comment under its name is its description. Offenders are rare, and the planner does
-- not know that: `offset 0` prevents plans that expect a hundred of them soon and look up millions of rows one by one.

-- name: every_role_sees_every_row
-- Row security hides no row from this login: a verifier that does not see every row would find no offenders. A policy
-- that shows this login every row is allowed.
select format('%%I.%%I is under row security for this login', n.nspname, c.relname) as offender
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and row_security_active(c.oid) and (
    exists (select from pg_catalog.pg_policy p where p.polrelid = c.oid and not p.polpermissive)
    or not exists (
        select from pg_catalog.pg_policy p, unnest(p.polroles) as role
        where p.polrelid = c.oid and p.polcmd in ('*', 'r') and pg_get_expr(p.polqual, p.polrelid) = 'true'
            and (role = 0 or pg_has_role(role, 'usage'))
    )
)
order by 1
limit %(limit)s;

-- name: partitions_are_append_only_like_their_log
-- An append-only log is append-only on each of its partitions.
select format(
    '%%s is a part of %%s and has no working twin of its trigger %%s',
    part.relid, t.tgrelid::regclass, t.tgname
) as offender
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid and c.relkind = 'p'
join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = any(%(schemas)s),
lateral pg_catalog.pg_partition_tree(t.tgrelid) as part
where t.tgfoid = to_regproc('duly.refuse_change') and not exists (
    select from pg_catalog.pg_trigger twin
    where twin.tgrelid = part.relid and twin.tgfoid = t.tgfoid
        and twin.tgtype = t.tgtype and twin.tgenabled in ('O', 'A')
)
order by 1
limit %(limit)s;

-- name: roles_with_grants_do_not_own
-- A role with grants on tables is not a member of the role that owns them, because it could disable every guard. A role
-- that may create roles is an administrator, who migrates and needs the membership.
select format('%%I has grants on tables of %%I and is a member of it; run: revoke %%I from %%I', grantee.rolname,
    owner.rolname, owner.rolname, grantee.rolname) as offender
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace and n.nspname = any(%(schemas)s)
join pg_catalog.pg_roles as owner on owner.oid = c.relowner
cross join lateral pg_catalog.aclexplode(c.relacl) as granted
join pg_catalog.pg_roles as grantee on grantee.oid = granted.grantee
where grantee.oid <> owner.oid and not grantee.rolsuper and not grantee.rolcreaterole
    and pg_has_role(grantee.oid, owner.oid, 'member')
group by grantee.rolname, owner.rolname
order by 1
limit %(limit)s;
