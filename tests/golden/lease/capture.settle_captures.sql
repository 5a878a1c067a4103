with given as (
    select *
    from unnest((select %(keys)s::uuid[]), (select %(owners)s::text[]), (select %(column_result)b::jsonb[]), (select %(column_user_id)s::bigint[]), (select %(column_schedule_date)s::date[]), (select %(column_version)s::integer[]), (select %(column_payload)b::jsonb[]), (select %(column_payload_hash)s::text[])) as g (key, owner, "result", "user_id", "schedule_date", "version", "payload", "payload_hash")
    order by g.key
),
ours as (
    select given.*
    from given
    cross join lateral (
        select
        from "schedule_ingest"."capture_session" as t
        where t."id" = given.key and t."locked_by" = given.owner and t."state" = 'processing'
        for no key update
    ) as held
),
settled as (
    update "schedule_ingest"."capture_session" as t
    set "state" = 'done', "settled_by" = ours.owner, "locked_by" = null, "locked_at" = null, "lease_seconds" = null, "result" = ours."result"
    from ours
    where t."id" = ours.key
    returning t."id" as key
)
-- Continues a settle in the same statement: the version of a session is written exactly when the session is still ours to
-- settle. An existing version is left alone; the answer says which sessions wrote theirs.
, versioned as (
    insert into "schedule_ingest".schedule_version (
        user_id, schedule_date, version, session_id, payload, payload_hash, created_at, canonicalizer
    )
    select g.user_id, g.schedule_date, g.version, g.key, g.payload, g.payload_hash, duly.clock(), %(canonicalizer)s
    from settled
    inner join given as g on g.key = settled.key
    where g.version is not null
    on conflict do nothing
    returning session_id
)
select settled.key, versioned.session_id is not null as is_versioned
from settled
left join versioned on versioned.session_id = settled.key;
