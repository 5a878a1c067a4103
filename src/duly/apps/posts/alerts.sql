-- Alerts on service level objectives.

-- name: claim_objectives
-- Locks the objectives that were not checked for a while and that no other worker is checking.
select name
from posts.objectives
where checked_at not between duly.now() - make_interval(secs => %(seconds)s) and duly.now()
order by name
for no key update skip locked;

-- name: write_alerts
-- An objective that was met and no longer is begins a breach; one that is met again ends it. Each change is reported
-- once: the dedupe key of the message contains the number of the breach, so that a second worker writes none.
with measured as (
    select s.name, s.is_met, s.payload
    from unnest(%(names)s::text[], %(met)s::boolean[], %(payloads)b::jsonb[]) as s (name, is_met, payload)
),
updated as (
    update posts.objectives as o
    set checked_at = duly.now(),
        breached_at = case when not s.is_met then coalesce(o.breached_at, duly.now()) end,
        breaches = o.breaches + case when o.breached_at is null and not s.is_met then 1 else 0 end
    from measured as s
    join posts.objectives as before on before.name = s.name
    where o.name = s.name
    returning o.name, o.breaches, o.breached_at, before.breached_at as breached_before, s.payload
)
insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)
select
    %(channel)s, %(recipient)s, k.kind,
    t.payload || jsonb_build_object(
        'breach', t.breaches, 'since', posts.iso(coalesce(t.breached_before, t.breached_at))
    ),
    concat_ws(':', k.kind, t.name, t.breaches)
from updated as t
cross join lateral (
    select case when t.breached_at is null then 'slo.recovered' else 'slo.breached' end as kind
) as k
where (t.breached_at is null) <> (t.breached_before is null)
order by t.name
on conflict (dedupe_key) do nothing
returning kind, payload;
