-- Invariants of accounts; see verify/invariants.sql.

-- name: api_keys_have_an_owner
-- An active API key belongs to an existing org or person.
select format('the key %%s has no holder', prefix) as offender
from duly.api_keys k
left join duly.orgs o on o.id = k.org_id
left join duly.person p on p.id = k.person_id
where k.revoked_at is null and o.id is null and p.id is null
order by prefix
limit %(limit)s;
