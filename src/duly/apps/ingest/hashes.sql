-- Input of checks outside of the database.

-- name: find_wrong_hashes
-- Every version that duly wrote, with its hash; the hash of another program may have another form.
select user_id, schedule_date, version, payload, payload_hash
from {ingest}.schedule_version
where canonicalizer is not null
order by user_id, schedule_date, version;
