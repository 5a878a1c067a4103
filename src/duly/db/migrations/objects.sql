-- Which text of each function, trigger, policy, view and of the grants of a branch was applied last.

-- name: list_known_hashes
-- The hash of each object of a branch, as it was applied last.
select object, sha256 from duly.schema_object where branch = {'branch'};

-- name: record_hashes
-- One row per object; its hash is that of the text it has now.
insert into duly.schema_object (branch, object, sha256)
select {'branch'}, applied.object, applied.sha256
from unnest(
    {'objects'}::text[],
    {'hashes'}::text[]
) as applied (object, sha256)
on conflict (branch, object) do update set sha256 = excluded.sha256;

-- name: forget_removed_branches
-- The objects of a branch that is not installed are gone.
delete from duly.schema_object where branch <> all ({'branches'}::text[]);
