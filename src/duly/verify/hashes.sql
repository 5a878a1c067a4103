-- What is recomputed outside of the database.

-- name: find_wrong_hashes
-- Every version that we wrote, with its hash; of one that another program wrote nobody knows how it was hashed.
select user_id, schedule_date, version, payload, payload_hash
from {ingest}.schedule_version
where canonicalizer is not null
order by user_id, schedule_date, version;
