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

-- name: partitions_refuse_what_their_log_refuses
-- A log that only grows does so on each of its partitions.
select format('%%s is a part of %%s and has no working twin of its trigger %%s', part.relid, t.tgrelid::regclass, t.tgname)
    as offender
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid and c.relkind = 'p'
join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = any(%(schemas)s),
lateral pg_catalog.pg_partition_tree(t.tgrelid) as part
where t.tgfoid = to_regproc('duly.refuse_change') and not exists (
    select from pg_catalog.pg_trigger twin
    where twin.tgrelid = part.relid and twin.tgfoid = t.tgfoid and twin.tgtype = t.tgtype and twin.tgenabled in ('O', 'A')
)
order by 1
limit %(most)s;

-- name: messages_are_held_exactly_while_sending
-- A message has an owner and an end of its lease when it is being sent, and at no other time.
select format('message %%s is %%s, held by %%s until %%s', id, status, coalesce(lease_owner, 'nobody'),
    coalesce(lease_expires_at::text, 'no time')) as offender
from duly.outbox
where num_nonnulls(lease_owner, lease_expires_at) <> case when status = 'sending' then 2 else 0 end
order by id
limit %(most)s;

-- name: messages_are_where_their_log_ends
-- The newest transition of a message tells its status and its revision.
select format('message %%s is %%s at revision %%s, its log ends at %%s with transition %%s', o.id, o.status, o.revision,
    newest.next_status, newest.seq) as offender
from duly.outbox o
cross join lateral (
    select t.next_status, t.seq
    from duly.transition t
    where t.machine = 'outbox' and t.key = o.id::text
    order by t.seq desc
    limit 1
) as newest
where (newest.next_status, newest.seq) is distinct from (o.status, o.revision)
order by o.id
limit %(most)s;

-- name: messages_have_their_log
-- A message goes with its history and stays with it.
select format('message %%s has no transition', o.id) as offender
from duly.outbox o
where not exists (select from duly.transition t where t.machine = 'outbox' and t.key = o.id::text)
order by o.id
limit %(most)s;
