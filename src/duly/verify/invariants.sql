-- What must hold at every moment: each statement returns offenders, and none is good. They read only, and take no lock that
-- anybody would notice.

-- name: every_role_sees_every_row
-- A verifier that row security blinds would find nothing wrong.
select format('%%I.%%I is under row security for this login', n.nspname, c.relname) as offender
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and row_security_active(c.oid)
order by 1
limit %(most)s;

-- name: transitions_are_without_a_gap
-- The log of a row counts 1, 2, 3.
select format('%%s %%s: transition %%s follows %%s', machine, key, seq, coalesce(before, 0)) as offender
from (
    select machine, key, seq, lag(seq) over (partition by machine, key order by seq) as before from duly.transition
) as numbered
where seq <> coalesce(before, 0) + 1
order by machine, key, seq
limit %(most)s;

-- name: transitions_are_linked
-- Each transition begins where the one before it ended.
select format('%%s %%s: transition %%s begins at %%s, the one before ended at %%s', machine, key, seq, prev_status, ended)
    as offender
from (
    select machine, key, seq, prev_status, lag(next_status) over (partition by machine, key order by seq) as ended
    from duly.transition
) as linked
where prev_status is distinct from ended
order by machine, key, seq
limit %(most)s;

-- name: keys_have_a_live_holder
-- A key that opens doors belongs to an org or a person that exists.
select format('the key %%s has no holder', prefix) as offender
from duly.api_keys k
left join duly.orgs o on o.id = k.org_id
left join "user".users u on u.id = k.user_id
where k.revoked_at is null and o.id is null and u.id is null
order by prefix
limit %(most)s;
