-- The functions of the ledger, which any language may call. The tables are in db/migrations/sql/engine_0001.up.sql.
--
-- Errors of our own have these SQLSTATEs: DU000 rolls find_next back and never leaves it, DU001 a transition that the
-- state machine does not have (guards.sql), DU002 a key that belongs to another request.
--
-- A time that is written comes from duly.clock(), the time of the call; a time in a condition from duly.now(), the
-- start of the statement, because an index serves only that.

create or replace trigger is_append_only before update or delete on ledger.job_event
    for each row execute function duly.refuse_change();
create or replace trigger is_not_emptied before truncate on ledger.job_event
    for each statement execute function duly.refuse_change();

create or replace function ledger.event_id(job uuid, seq bigint) returns uuid
    language sql immutable parallel safe
    return encode(
        -- The first half of the job's id, so that its events lie together, and 62 bits of a hash; two bits are a UUID's
        -- own.
        set_bit(set_bit(
            overlay(uuid_send(job) placing int8send(uuid_hash_extended(job, seq)) from 9), 70, 0
        ), 71, 1),
        'hex'
    )::uuid;
comment on function ledger.event_id(uuid, bigint) is 'The id of a job''s event with this number.';

-- Enqueue -------------------------------------------------------------------------------------------------------------
-- Plain SQL that any language may call in its own transaction: nothing exists unless that commits. It runs as its
-- owner, for whom every row is visible; so it checks whether the caller may act for this org: a transaction that has
-- set an org may enqueue for that one, and one that has set none for any. "In a statement of its own" is meant for READ
-- COMMITTED, where each statement sees what was committed before it began.

create or replace function ledger.require_org_if_set(org uuid) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
begin
    if org <> nullif(current_setting('app.current_org_id', true), '')::uuid then
        raise exception 'this transaction acts for another org than %', org using errcode = 'insufficient_privilege';
    end if;
end
$$;
comment on function ledger.require_org_if_set(uuid) is
    'A transaction that has set an org must act for that one; without one it may act for any.';

create or replace function ledger.require_org(org uuid) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
begin
    if org is distinct from nullif(current_setting('app.current_org_id', true), '')::uuid then
        raise exception 'this transaction does not act for org %', org using errcode = 'insufficient_privilege',
            hint = format('select set_config(''app.current_org_id'', ''%s'', true)', org);
    end if;
end
$$;
comment on function ledger.require_org(uuid) is
    'The transaction must have set this org: functions that change jobs run as their owner, for whom every row is '
    'visible.';

create or replace function ledger.first_event_detail(actor text, requested_by text) returns jsonb
    language sql immutable parallel safe
    return nullif(jsonb_strip_nulls(jsonb_build_object(
        'actor', actor, 'requested_by', case when requested_by is distinct from actor then requested_by end
    )), '{}');
comment on function ledger.first_event_detail(text, text) is
    'The detail of a job''s first event: who enqueued it, if the entry point knows that, and for whom, if for another.';

create or replace function ledger.request_digest(
    type text, queue text, payload jsonb, run_at timestamptz, delay_seconds double precision
) returns bytea
    language sql immutable parallel safe
    return sha256(convert_to(
        jsonb_build_array(type, queue, payload, extract(epoch from run_at), nullif(delay_seconds, 0))::text, 'UTF8'
    ));
comment on function ledger.request_digest(text, text, jsonb, timestamptz, double precision) is
    'What an idempotency key stands for: what is to be done and when, not how often to retry. A caller that computes '
    'run_at anew makes another request. The text of a jsonb has one order of keys, no duplicates and no spare blanks, '
    'which is canonical enough and the same for every language; 1.0 and 1.00 differ.';

create or replace function ledger.refuse_other_request(
    existing_id uuid, key text, type text, queue text, payload jsonb, run_at timestamptz, delay_seconds double precision
) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
declare
    existing ledger.job;
    differences text;
begin
    select j.* into existing from ledger.job j where j.id = existing_id;
    differences := concat_ws(', ',
        case when existing.type <> refuse_other_request.type
            then format('type %s, not %s', existing.type, refuse_other_request.type) end,
        case when existing.queue <> refuse_other_request.queue
            then format('queue %s, not %s', existing.queue, refuse_other_request.queue) end,
        case when existing.payload::text <> refuse_other_request.payload::text then 'another payload' end,
        case when existing.request_digest
                <> ledger.request_digest(
                    existing.type, existing.queue, existing.payload, refuse_other_request.run_at, delay_seconds
                )
            then 'another due time' end
    );
    raise exception 'key "%" already belongs to job % (%), asked for with %', key, existing_id,
        coalesce(existing.status::text, 'removed'), coalesce(nullif(differences, ''), 'other arguments')
        using errcode = 'DU002', hint = case
            when existing.status = 'canceled'
                then format('to free the key: duly jobs cancel %s --release-key', existing_id)
            else 'use a key of its own for every request'
        end;
end
$$;
comment on function ledger.refuse_other_request(
    uuid, text, text, text, jsonb, timestamptz, double precision
) is
    'Refuse a request whose key another one has: which job that is, its status, and in what the two differ; no '
    'contents.';

create or replace function ledger.enqueue(
    org uuid,
    type text,
    payload jsonb default '{}',
    key text default null,
    queue text default 'default',
    -- squawk-ignore prefer-bigint-over-int
    priority integer default 0,
    run_at timestamptz default null,
    delay_seconds double precision default null,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer default 5,
    backoff_policy ledger.job_backoff_policy default 'exp',
    backoff_base_seconds double precision default 15,
    backoff_cap_seconds double precision default 600,
    timeout_seconds double precision default null,
    retain_for interval default '30 days',
    requested_by text default null,
    actor text default null,
    out id uuid,
    out outcome text
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    digest constant bytea := case when key is not null
        then ledger.request_digest(type, queue, payload, run_at, delay_seconds) end;
    now constant timestamptz := duly.clock();
    due constant timestamptz := coalesce(run_at, now + make_interval(secs => coalesce(delay_seconds, 0)));
    existing_digest bytea;
begin
    perform ledger.require_org_if_set(org);
    if num_nonnulls(run_at, delay_seconds) = 2 then
        raise exception 'a job runs at a time or after a delay, not both' using errcode = 'invalid_parameter_value';
    end if;
    for _ in 1..3 loop
        insert into ledger.job as new_job (
            id, org_id, type, payload, idempotency_key, request_digest, queue, priority, run_at, max_attempts,
            backoff_policy, backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by,
            created_at, updated_at, event_detail, revision
        ) values (
            duly.new_id(), org, enqueue.type, enqueue.payload, key, digest, enqueue.queue, enqueue.priority, due,
            enqueue.max_attempts, enqueue.backoff_policy, enqueue.backoff_base_seconds, enqueue.backoff_cap_seconds,
            enqueue.timeout_seconds, enqueue.retain_for, enqueue.requested_by, now, now,
            ledger.first_event_detail(enqueue.actor, enqueue.requested_by), 1
        )
        on conflict (org_id, idempotency_key) where idempotency_key is not null do nothing
        returning new_job.id into enqueue.id;
        if found then
            outcome := 'created';
            if due <= now then
                perform ledger.wake();
            end if;
            return;
        end if;
        -- In a statement of its own, which sees what was committed while the insert waited.
        select j.id, j.request_digest into enqueue.id, existing_digest
        from ledger.job j
        where j.org_id = org and j.idempotency_key = key;
        if found then
            if existing_digest <> digest then
                perform ledger.refuse_other_request(
                    enqueue.id, key, enqueue.type, enqueue.queue, enqueue.payload, enqueue.run_at, enqueue.delay_seconds
                );
            end if;
            outcome := 'existing';
            return;
        end if;
    end loop;
    raise exception 'the job of this key was deleted meanwhile; retry' using errcode = 'serialization_failure';
end
$$;
comment on function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) is
    'Make a job, or find the one that the same request made: "created" or "existing". Another request under its key: '
    'DU002. A key is remembered until its job is deleted.';

create or replace function ledger.wake() returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- Most calls fall into 50 ms that were notified already: they return without calling the slower function.
    if pg_sequence_last_value('duly.wake_ledger') is distinct from duly.this_window() then
        perform duly.wake('ledger');
    end if;
end
$$;
comment on function ledger.wake() is 'Notify the workers that a job is due, at most once per 50 ms.';

create or replace function ledger.enqueue_many(
    org uuid,
    type text,
    payloads jsonb[],
    keys text[] default null,
    queue text default 'default',
    -- squawk-ignore prefer-bigint-over-int
    priorities integer[] default null,
    run_ats timestamptz[] default null,
    delay_seconds double precision default null,
    -- squawk-ignore prefer-bigint-over-int
    max_attempts integer default 5,
    backoff_policy ledger.job_backoff_policy default 'exp',
    backoff_base_seconds double precision default 15,
    backoff_cap_seconds double precision default 600,
    timeout_seconds double precision default null,
    retain_for interval default '30 days',
    requested_by text default null,
    actor text default null
) returns table (nth bigint, id uuid, outcome text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    max_batch constant bigint := 10000;
    number constant bigint := cardinality(payloads);
    now constant timestamptz := duly.clock();
    due constant timestamptz := now + make_interval(secs => coalesce(delay_seconds, 0));
    origin constant jsonb := ledger.first_event_detail(actor, requested_by);
    ids constant uuid[] := duly.new_ids(number);
    digests bytea[];
    other record;
    made bigint;
begin
    perform ledger.require_org_if_set(org);
    if number > max_batch or number <> any (array[
        coalesce(cardinality(keys), number), coalesce(cardinality(priorities), number),
        coalesce(cardinality(run_ats), number)
    ]) then
        raise exception
            'at most % jobs at a time, and as many keys, priorities and times as payloads, or none', max_batch
            using errcode = 'invalid_parameter_value';
    end if;
    if num_nonnulls(run_ats, delay_seconds) = 2 then
        raise exception 'a job runs at a time or after a delay, not both' using errcode = 'invalid_parameter_value';
    end if;
    if keys is not null then
        digests := array(
            select case when g.key is not null
                then ledger.request_digest(enqueue_many.type, enqueue_many.queue, g.payload, g.run_at, delay_seconds)
            end
            from unnest(payloads, keys, run_ats) with ordinality as g (payload, key, run_at, nth)
            order by g.nth
        );
    end if;
    if keys is null then
        insert into ledger.job (
            id, org_id, type, payload, queue, priority, run_at, max_attempts,
            backoff_policy, backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by,
            created_at, updated_at, event_detail, revision
        )
        select
            g.id, org, enqueue_many.type, g.payload, enqueue_many.queue, coalesce(g.priority, 0),
            coalesce(g.run_at, due), enqueue_many.max_attempts, enqueue_many.backoff_policy,
            enqueue_many.backoff_base_seconds, enqueue_many.backoff_cap_seconds, enqueue_many.timeout_seconds,
            enqueue_many.retain_for, enqueue_many.requested_by, now, now, origin, 1
        from unnest(ids, payloads, priorities, run_ats) as g (id, payload, priority, run_at);
    else
        -- In the order of the keys, so that two such calls never wait in a circle.
        insert into ledger.job (
            id, org_id, type, payload, idempotency_key, request_digest, queue, priority, run_at, max_attempts,
            backoff_policy, backoff_base_seconds, backoff_cap_seconds, timeout_seconds, retain_for, requested_by,
            created_at, updated_at, event_detail, revision
        )
        select
            g.id, org, enqueue_many.type, g.payload, g.key, g.digest, enqueue_many.queue, coalesce(g.priority, 0),
            coalesce(g.run_at, due), enqueue_many.max_attempts, enqueue_many.backoff_policy,
            enqueue_many.backoff_base_seconds, enqueue_many.backoff_cap_seconds, enqueue_many.timeout_seconds,
            enqueue_many.retain_for, enqueue_many.requested_by, now, now, origin, 1
        from unnest(ids, payloads, keys, digests, priorities, run_ats) as g (id, payload, key, digest, priority, run_at)
        order by g.key
        on conflict (org_id, idempotency_key) where idempotency_key is not null do nothing;
    end if;
    get diagnostics made = row_count;
    if made > 0 and least(due, (select min(u.at) from unnest(run_ats) as u (at))) <= now then
        perform ledger.wake();
    end if;
    if made = number then
        return query select g.nth, g.id, 'created' from unnest(ids) with ordinality as g (id, nth);
        return;
    end if;
    -- In a statement of its own, which sees what was committed while the insert waited.
    return query
        select g.nth, j.id, case when j.id = g.id then 'created' else 'existing' end
        from unnest(ids, keys) with ordinality as g (id, key, nth)
        cross join lateral (
            select h.id from ledger.job h where h.org_id = org and h.idempotency_key = g.key
            union all
            select g.id where g.key is null
        ) as j
        order by g.nth;
    get diagnostics made = row_count;
    if made <> number then
        raise exception 'a job of this batch was deleted meanwhile; retry'
            using errcode = 'serialization_failure';
    end if;
    select j.id, g.key, g.payload, g.run_at into other
    from unnest(keys, digests, payloads, run_ats) as g (key, digest, payload, run_at)
    join ledger.job j on j.org_id = org and j.idempotency_key = g.key and j.request_digest <> g.digest
    limit 1;
    if found then
        perform ledger.refuse_other_request(
            other.id, other.key, enqueue_many.type, enqueue_many.queue, other.payload, other.run_at,
            enqueue_many.delay_seconds
        );
    end if;
end
$$;
comment on function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) is 'Make many jobs of one type in one statement, all or none; the answers come in the order of the payloads.';

-- Claim ---------------------------------------------------------------------------------------------------------------

create or replace function ledger.remaining_capacity(type text) returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' set enable_seqscan = off set jit = off
    as $$
declare
    capacity bigint;
begin
    -- Locked until the claim commits. The count below is a statement of its own, so it includes what other claims took.
    begin
        select l.max_running into capacity
        from ledger.job_limit l
        where l.queue = '*' and l.type = remaining_capacity.type
        for no key update;
    exception when lock_not_available then
        return 0;  -- its holder is slow or gone: the other types must not wait for it
    end;
    if capacity is null then
        return null;
    end if;
    return greatest(
        capacity
            - (select count(*) from ledger.job j where j.type = remaining_capacity.type and j.status = 'running'),
        0
    );
end
$$;
comment on function ledger.remaining_capacity(text) is
    'How many more jobs of a type may start; null means any number. The caller locks the limit until its transaction '
    'ends.';

create or replace function ledger.claim(
    queues text[],
    types text[],
    owner text,
    lease_seconds double precision,
    max_jobs bigint,
    -- squawk-ignore prefer-bigint-over-int
    floor_priorities integer[] default null,
    floor_run_ats timestamptz[] default null,
    floor_ids uuid[] default null
) returns setof ledger.job
    -- plpgsql caches plans, perhaps from when the table was small, so the scan in the order of the index is forced. Up
    -- to PostgreSQL 17 the cost that a disabled node adds would start JIT on every call, which takes longer than the
    -- claim.
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_sort = off set jit = off
    as $$
declare
    now constant timestamptz := duly.now();
    claimed_at constant timestamptz := duly.clock();
    remaining bigint := max_jobs;
    capacities jsonb := '{}';
    capacity bigint;
    claimed bigint;
    due_groups record;
    due_group record;
begin
    -- One probe per type and priority, however long the queues are: each finds the head of the next group.
    with recursive handled as (
        select k.queue, k.type, k.floor_priority, k.floor_run_at, k.floor_id
        from unnest(queues, types, floor_priorities, floor_run_ats, floor_ids)
            as k (queue, type, floor_priority, floor_run_at, floor_id)
        where not exists (
            select from ledger.job_limit l
            where l.paused_at is not null and l.queue in (k.queue, '*') and l.type in (k.type, '*')
        )
    ),
    priority_range as (
        select k.queue, k.type, 2147483647 as upper, coalesce(k.floor_priority, -2147483647) as lower from handled k
        union all
        select k.queue, k.type, k.floor_priority, -2147483647 from handled k where k.floor_priority is not null
    ),
    head as (
        select s.queue, s.type, s.lower, h.priority, h.run_at
        from priority_range s
        cross join lateral (
            select j.priority, j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = s.queue and j.type = s.type
                and j.priority < s.upper and j.priority > s.lower
            order by j.priority desc, j.run_at, j.id
            limit 1
        ) as h
        union all
        select p.queue, p.type, p.lower, h.priority, h.run_at
        from head p
        cross join lateral (
            select j.priority, j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = p.queue and j.type = p.type
                and j.priority < p.priority and j.priority > p.lower
            order by j.priority desc, j.run_at, j.id
            limit 1
        ) as h
    )
    select
        array_agg(g.queue) as queues, array_agg(g.type) as types, array_agg(g.priority) as priorities,
        array_agg(g.run_at) as run_ats, array_agg(g.floor_run_at) as floor_run_ats, array_agg(g.floor_id) as floor_ids
    into due_groups
    from (
        select
            h.queue, h.type, h.priority, h.run_at, '-infinity'::timestamptz as floor_run_at,
            '00000000-0000-0000-0000-000000000000'::uuid as floor_id
        from head h
        union all
        select k.queue, k.type, k.floor_priority, h.run_at, k.floor_run_at, k.floor_id
        from handled k
        cross join lateral (
            select j.run_at
            from ledger.job j
            where j.status = 'queued' and j.queue = k.queue and j.type = k.type and j.priority = k.floor_priority
                and (j.run_at, j.id) >= (k.floor_run_at, k.floor_id)
            order by j.run_at, j.id
            limit 1
        ) as h
    ) as g
    where g.run_at <= now;
    if due_groups.queues is null then
        return;
    end if;
    set local enable_sort = on;  -- until the function returns: its SET clause restores it
    for due_group in
        select g.queue, g.type, g.priority, g.floor_run_at, g.floor_id, l.max_running is not null as limited
        from unnest(
            due_groups.queues, due_groups.types, due_groups.priorities, due_groups.run_ats,
            due_groups.floor_run_ats, due_groups.floor_ids
        ) as g (queue, type, priority, run_at, floor_run_at, floor_id)
        left join ledger.job_limit l on l.queue = '*' and l.type = g.type
        order by g.priority desc, g.run_at, g.queue, g.type
    loop
        capacity := remaining;
        if due_group.limited then
            if not capacities ? due_group.type then
                capacities := capacities || jsonb_build_object(
                    due_group.type, coalesce(ledger.remaining_capacity(due_group.type), remaining)
                );
            end if;
            capacity := least(remaining, (capacities ->> due_group.type)::bigint);
        end if;
        continue when capacity <= 0;
        set local enable_sort = off;
        return query
            update ledger.job as t
            set status = 'running', lease_owner = claim.owner, starts = t.starts + 1,
                lease_expires_at = claimed_at + make_interval(secs => lease_seconds),
                stage = null, progress = null, event_detail = null,
                revision = t.revision + 1, transition_from = 'queued', updated_at = claimed_at, attempt = t.starts,
                started_at = coalesce(t.started_at, claimed_at)
            where t.id = any (array(
                select j.id
                from ledger.job j
                where j.status = 'queued' and j.queue = due_group.queue and j.type = due_group.type
                    and j.priority = due_group.priority
                    and (j.run_at, j.id) >= (due_group.floor_run_at, due_group.floor_id) and j.run_at <= now
                order by j.run_at, j.id
                limit capacity
                for no key update skip locked
            ))
            returning t.*;
        get diagnostics claimed = row_count;
        remaining := remaining - claimed;
        exit when remaining <= 0;
        if due_group.limited then
            capacities := capacities
                || jsonb_build_object(due_group.type, (capacities ->> due_group.type)::bigint - claimed);
        end if;
    end loop;
end
$$;
comment on function ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[]) is
    'Claim due jobs of these queues and types, at most max_jobs: higher priority first, then the type whose oldest '
    'job is due longest. Claims never wait for a job; those of a limited type wait for each other, at most 100 ms. A '
    'floor, the position up to which the claimer has claimed, skips dead index entries of jobs claimed before: vacuum '
    'cannot remove them while an old transaction is open.';

-- Done ----------------------------------------------------------------------------------------------------------------
-- Nearly every job ends here, so it is a function, whose plan is cached, and it writes what the guard would write. One
-- lookup by id per row, in the order of the ids: `= any (array[job])` rules out hash and merge joins, and scans of the
-- table are disabled, so no statistics lead to another plan.

create or replace function ledger.done(jobs uuid[], owners text[], results jsonb[]) returns setof uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set jit = off
    as $$
declare
    now constant timestamptz := duly.clock();
begin
    -- Tests lease_expires_at, not status, so that no index but the primary key fits. A row that was locked may have
    -- changed after this began, and is not stamped earlier than that.
    return query
        update ledger.job as t
        set status = 'succeeded', settled_by = given.owner, lease_owner = null, lease_expires_at = null,
            result = given.result, last_error_code = null, last_error_message = null, event_detail = null,
            revision = t.revision + 1, transition_from = 'running', updated_at = greatest(now, t.updated_at),
            finished_at = greatest(now, t.updated_at), retain_until = greatest(now, t.updated_at) + t.retain_for
        from (
            select g.job, g.owner, g.result
            from unnest(jobs, owners, results) as g (job, owner, result)
            order by g.job
        ) as given
        where t.id = any (array[given.job]) and t.lease_owner = given.owner and t.lease_expires_at is not null
        returning t.id;
end
$$;
comment on function ledger.done(uuid[], text[], jsonb[]) is
    'Settle jobs that these owners hold as succeeded, with these results; return their ids. A cancel request that '
    'came meanwhile was too late.';

-- Expired leases ------------------------------------------------------------------------------------------------------
-- With row level security, statistics are ignored for operators that are not leakproof, such as equality of an enum. So
-- the planner does not know that few jobs are running, and would scan the table. With scans disabled it uses the index
-- of running jobs: no other serves this filter or order.

create or replace function ledger.mark_expired(jobs uuid[], max_jobs bigint)
    returns table (job uuid, owner text, type text, queue text, attempt integer, max_attempts integer)
    language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $$
begin
    return query
        update ledger.job as t
        set
            status = case when t.cancel_requested_at is null then 'failed' else 'canceled' end::ledger.job_status,
            lease_owner = case when t.cancel_requested_at is null then t.lease_owner end,
            lease_expires_at = null,
            last_error_code = 'CRASHED',
            last_error_message = 'lease expired: its holder stopped renewing it',
            event_detail = jsonb_build_object(
                'actor', 'sweep', 'holder', t.lease_owner, 'code', 'CRASHED',
                'message', 'lease expired: its holder stopped renewing it'
            )
        where t.id = any (array(
            select r.id
            from ledger.job r
            where r.status = 'running' and r.lease_expires_at < duly.now() and (jobs is null or r.id = any (jobs))
            order by r.created_at, r.id
            limit max_jobs
            for no key update skip locked
        ))
        returning t.id, t.lease_owner, t.type::text, t.queue, t.attempt, t.max_attempts;
end
$$;
comment on function ledger.mark_expired(uuid[], bigint) is
    'Settle jobs whose leases expired, at most max_jobs, as failed, or as canceled if that was requested; return them '
    'with their owners. Locked jobs are skipped.';

-- A handler's own transaction -----------------------------------------------------------------------------------------

create or replace function ledger.fence(job uuid, owner text, role text) returns boolean
    language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
    as $$
declare
    org uuid;
begin
    select j.org_id into org
    from ledger.job j
    where j.id = fence.job and j.lease_owner = fence.owner and j.status = 'running'
    for no key update;
    if org is null then
        return false;
    end if;
    perform set_config('app.current_org_id', org::text, true), set_config('role', fence.role, true);
    return true;
end
$$;
comment on function ledger.fence(uuid, text, text) is
    'Lock a job that this owner holds until the transaction ends, and act for its org in this role; false if the '
    'lease was lost.';

create or replace function ledger.complete(job uuid, owner text, result jsonb, worker text) returns boolean
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    caller_role constant text := current_setting('role');
    is_done boolean;
begin
    -- Works only if the login is a member of the worker's role; that of the API is not.
    perform set_config('role', complete.worker, true);
    is_done := exists (select from ledger.done(
        array[complete.job], array[complete.owner],
        case when complete.result is not null then array[complete.result] end
    ));
    perform set_config('role', caller_role, true);
    return is_done;
end
$$;
comment on function ledger.complete(uuid, text, jsonb, text) is
    'In the transaction of fence(): settle the job as succeeded, acting as the worker; the role is restored after it.';

-- Explain -------------------------------------------------------------------------------------------------------------

create or replace function ledger.is_locked(org uuid, job uuid) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform ledger.require_org(org);
    perform from ledger.job as t where t.org_id = is_locked.org and t.id = is_locked.job for no key update skip locked;
    return not found;
end
$$;
comment on function ledger.is_locked(uuid, uuid) is
    'Whether another transaction has locked this job, so that claims skip it: tries to lock it as they do.';

create or replace function ledger.find_next(queues text[], types text[]) returns uuid
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    next_job uuid;
begin
    -- The claim itself, rolled back: its order, pauses, limits and locks are written nowhere else. The API may execute
    -- this function because PostgreSQL checks EXECUTE in branches of explain.sql that are not taken; called, it fails.
    select c.id into next_job from ledger.claim(find_next.queues, find_next.types, 'explain', 1, 1) as c;
    raise exception 'rolled back' using errcode = 'DU000';
exception when sqlstate 'DU000' then
    return next_job;
end
$$;
comment on function ledger.find_next(text[], text[]) is
    'The id of the job that a claim of these queues and types with one free slot would return now; claims nothing.';

-- Cancelling ----------------------------------------------------------------------------------------------------------

create or replace function ledger.release_key(org uuid, job uuid, actor text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_status ledger.job_status;
begin
    perform ledger.require_org(org);
    update ledger.job as t
    set idempotency_key = null, request_digest = null,
        event_detail = jsonb_strip_nulls(jsonb_build_object(
            'actor', release_key.actor, 'reason', 'key_released', 'released_key', t.idempotency_key
        ))
    where t.org_id = release_key.org and t.id = release_key.job
        and t.status = 'canceled' and t.idempotency_key is not null
    returning t.status into new_status;
    return new_status;
end
$$;
comment on function ledger.release_key(uuid, uuid, text) is
    'Free the key of a canceled job for another request and log that; null if there was nothing to free.';

create or replace function ledger.cancel(
    org uuid, job uuid, actor text default null, now boolean default false, release_key boolean default false
) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_status ledger.job_status;
begin
    perform ledger.require_org(org);
    update ledger.job as t
    set status = case when t.status = 'queued' or cancel.now then 'canceled' else t.status end,
        lease_owner = case when t.status = 'running' and not cancel.now then t.lease_owner end,
        lease_expires_at = case when t.status = 'running' and not cancel.now then t.lease_expires_at end,
        cancel_requested_at = coalesce(t.cancel_requested_at, duly.clock()),
        event_detail = jsonb_strip_nulls(jsonb_build_object('actor', cancel.actor, 'reason', 'cancel_requested'))
    where t.org_id = cancel.org and t.id = cancel.job
        and (t.status = 'queued' or (t.status = 'running' and (cancel.now or not cancel.release_key)))
    returning t.status into new_status;
    if cancel.release_key then
        new_status := coalesce(ledger.release_key(org, job, actor), new_status);
    end if;
    return new_status;
end
$$;
comment on function ledger.cancel(uuid, uuid, text, boolean, boolean) is
    'Cancel a queued job; request a running one to stop, or cancel it at once if now; release the key of a canceled '
    'one if wanted. Returns the status afterwards; null if nothing was changed.';

-- Redrive dead letters ------------------------------------------------------------------------------------------------

create or replace function ledger.redrive(org uuid, job uuid, actor text default null) returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    new_status ledger.job_status;
begin
    perform ledger.require_org(org);
    update ledger.job as t
    set status = 'queued', starts = 0, snoozes = 0, run_at = duly.clock(), cancel_requested_at = null,
        event_detail = jsonb_strip_nulls(jsonb_build_object('actor', redrive.actor, 'reason', 'redriven'))
    where t.org_id = redrive.org and t.id = redrive.job and t.status = 'dead_letter'
    returning t.status into new_status;
    if found then
        perform ledger.wake();
    end if;
    return new_status;
end
$$;
comment on function ledger.redrive(uuid, uuid, text) is
    'Put a dead letter back in the queue with its starts reset, and log the actor; null if the job is none.';

create or replace function ledger.redrive_many(
    org uuid,
    max_jobs bigint,
    actor text default null,
    type text default null,
    queue text default null,
    code text default null,
    finished_from timestamptz default null,
    finished_before timestamptz default null
) returns setof uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan
    as $$
begin
    perform ledger.require_org(org);
    return query
        update ledger.job as t
        set status = 'queued', starts = 0, snoozes = 0, run_at = duly.clock(), cancel_requested_at = null,
            event_detail = jsonb_strip_nulls(jsonb_build_object('actor', redrive_many.actor, 'reason', 'redriven'))
        where t.org_id = redrive_many.org and t.id = any (array(
            select d.id
            from ledger.job d
            where d.org_id = redrive_many.org and d.status = 'dead_letter'
                and (redrive_many.type is null or d.type = redrive_many.type)
                and (redrive_many.queue is null or d.queue = redrive_many.queue)
                and (redrive_many.code is null or d.last_error_code = redrive_many.code)
                and (redrive_many.finished_from is null or d.finished_at >= redrive_many.finished_from)
                and (redrive_many.finished_before is null or d.finished_at < redrive_many.finished_before)
            order by d.created_at, d.id
            limit redrive_many.max_jobs
            for no key update skip locked
        ))
        returning t.id;
    if found then
        perform ledger.wake();
    end if;
end
$$;
comment on function ledger.redrive_many(uuid, bigint, text, text, text, text, timestamptz, timestamptz) is
    'Put matching dead letters back in the queue, at most max_jobs, the oldest first; locked ones are skipped.';

-- Retention and erasure -----------------------------------------------------------------------------------------------
-- The only ways a job and its log are deleted. Workers may execute purge (see the privileges below), only the owner
-- erase: revoke.sql of the migrations takes EXECUTE on every function from PUBLIC. The flag that both set while they
-- run keeps other statements from deleting by mistake.

create or replace function ledger.purge(max_jobs bigint, out jobs bigint)
    -- The cascade to the events runs under these settings too, so it looks them up by the job's id even by a plan that
    -- was cached when there were few.
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $$
begin
    if max_jobs is null or max_jobs not between 1 and 10000 then
        raise exception 'retention takes 1 to 10000 jobs at a time, not %', coalesce(max_jobs::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    perform set_config('duly.retention', 'on', true);
    delete from ledger.job j
    where j.id = any (array(
        select r.id
        from ledger.job r
        where r.retain_until < duly.now()
        order by r.retain_until
        limit max_jobs
        for update skip locked
    ));
    get diagnostics jobs = row_count;
    perform set_config('duly.retention', '', true);
end
$$;
comment on function ledger.purge(bigint) is
    'Remove finished jobs whose retain_until is past, at most max_jobs, the oldest first, with their events; return '
    'how many.';

create or replace function ledger.erase(org uuid, job uuid, actor text, reason text default null)
    returns ledger.job_status
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    gone record;
begin
    perform set_config('duly.retention', 'on', true);
    delete from ledger.job t
    where t.org_id = erase.org and t.id = erase.job and t.status in ('succeeded', 'canceled', 'dead_letter')
    returning t.type, t.queue, t.status, t.created_at, t.revision into gone;
    if found then
        insert into duly.transition (machine, key, seq, next_status, actor, detail_json)
        values ('job_erasure', erase.job::text, 1, 'erased', erase.actor, jsonb_strip_nulls(jsonb_build_object(
            'org_id', erase.org, 'type', gone.type, 'queue', gone.queue, 'status', gone.status,
            'created_at', gone.created_at, 'events', gone.revision, 'reason', erase.reason
        )));
    end if;
    perform set_config('duly.retention', '', true);
    return gone.status;
end
$$;
comment on function ledger.erase(uuid, uuid, text, text) is
    'Remove one finished job with its events early; duly.transition records the actor, and nothing of its contents. '
    'Returns the status it had; null if there is no such job, or it has not finished.';

-- Row level security --------------------------------------------------------------------------------------------------
-- The tenant is set for a transaction: set_config('app.current_org_id', ..., true). Without one no row is visible.

alter table ledger.job enable row level security;
alter table ledger.job force row level security;
alter table ledger.job_event enable row level security;
alter table ledger.job_event force row level security;
drop policy if exists job_of_tenant on ledger.job;
create policy job_of_tenant on ledger.job to {api}, {readonly}
    using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);
drop policy if exists job_event_of_tenant on ledger.job_event;
create policy job_event_of_tenant on ledger.job_event to {api}, {readonly}
    using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);
drop policy if exists job_of_any_tenant on ledger.job;
create policy job_of_any_tenant on ledger.job to {owner}, {worker} using (true) with check (true);
drop policy if exists job_event_of_any_tenant on ledger.job_event;
create policy job_event_of_any_tenant on ledger.job_event to {owner}, {worker} using (true) with check (true);

-- On Supabase, signed-in users may be let in by their token. Its claims are read where PostgREST puts them and
-- auth.jwt() finds them: the owner of these tables has no right to use schema auth there, and no role there may grant
-- it.
do $supabase$
begin
    if to_regrole('authenticated') is not null and exists (  -- asked so that it needs no right to the schema
        select from pg_catalog.pg_proc as f
        inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
        where n.nspname = 'auth' and f.proname = 'jwt'
    ) then
        drop policy if exists job_of_jwt on ledger.job;
        create policy job_of_jwt on ledger.job for select to authenticated using (org_id = (
            select coalesce(claims -> 'app_metadata' ->> 'org_id', claims ->> 'org_id')::uuid
            from (select nullif(current_setting('request.jwt.claims', true), '')::jsonb) as token (claims)
        ));
        drop policy if exists job_event_of_jwt on ledger.job_event;
        create policy job_event_of_jwt on ledger.job_event for select to authenticated using (org_id = (
            select coalesce(claims -> 'app_metadata' ->> 'org_id', claims ->> 'org_id')::uuid
            from (select nullif(current_setting('request.jwt.claims', true), '')::jsonb) as token (claims)
        ));
    end if;
end
$supabase$;

-- Privileges ----------------------------------------------------------------------------------------------------------

grant usage on schema ledger to {worker}, {api}, {readonly};
grant select on ledger.job, ledger.job_event, ledger.job_limit to {worker}, {api}, {readonly};
grant insert, update on ledger.job_limit to {worker};  -- they bind every org
-- Only workers update jobs, and never what a job is. The API changes jobs by functions, for one org.
grant update (
    status, run_at, starts, snoozes, lease_owner, lease_expires_at, settled_by, cancel_requested_at, result, stage,
    progress, progressed_at, last_error_code, last_error_message, event_detail
) on ledger.job to {worker};
grant execute on function ledger.request_digest(text, text, jsonb, timestamptz, double precision)
    to {worker}, {api}, {readonly};
grant execute on function ledger.require_org_if_set(uuid), ledger.wake() to {worker}, {api};
grant execute on function ledger.enqueue(
    uuid, text, jsonb, text, text, integer, timestamptz, double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) to {worker}, {api};
grant execute on function ledger.enqueue_many(
    uuid, text, jsonb[], text[], text, integer[], timestamptz[], double precision, integer, ledger.job_backoff_policy,
    double precision, double precision, double precision, interval, text, text
) to {worker}, {api};
grant execute on function ledger.complete(uuid, text, jsonb, text), ledger.cancel(uuid, uuid, text, boolean, boolean),
    ledger.release_key(uuid, uuid, text), ledger.redrive(uuid, uuid, text), ledger.is_locked(uuid, uuid),
    ledger.find_next(text[], text[]),
    ledger.redrive_many(uuid, bigint, text, text, text, text, timestamptz, timestamptz) to {worker}, {api};
grant execute on function ledger.done(uuid[], text[], jsonb[]), ledger.fence(uuid, text, text),
    ledger.remaining_capacity(text), ledger.mark_expired(uuid[], bigint), ledger.purge(bigint),
    ledger.claim(text[], text[], text, double precision, bigint, integer[], timestamptz[], uuid[])
    to {worker};
