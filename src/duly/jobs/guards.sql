-- Guard and timeline of job: rendered from the state machine, and compared with it by a test.

create or replace function "ledger"."job_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['queued'])) then
            raise exception '% cannot begin as %', 'job', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'job', old."id"
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        (old."status"::text = 'running' and new."lease_owner" is distinct from old."lease_owner")
            or (new.progressed_at is distinct from old.progressed_at or (old.cancel_requested_at is null
            and new.cancel_requested_at is not null) or new.idempotency_key is distinct from old.idempotency_key)
    ) then
        new.revision := old.revision;
        new.transition_from := null;
        new.event_detail := null;
        new.updated_at := duly.clock();
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'queued' then new."status"::text = any (array['running', 'canceled'])
        when 'running' then new."status"::text = any (array['succeeded', 'failed', 'canceled', 'queued'])
        when 'failed' then new."status"::text = any (array['queued', 'dead_letter'])
        when 'dead_letter' then new."status"::text = any (array['queued'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'job', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
        if new.idempotency_key is distinct from old.idempotency_key
            and (new.idempotency_key is not null or new.status <> 'canceled')
        then
            raise exception 'the idempotency key of job % can change only by its release, once the job is canceled',
                old.id using errcode = 'DU001';
        end if;
        new.event_detail := case when new.event_detail is distinct from old.event_detail
            or new.progressed_at is distinct from old.progressed_at then new.event_detail end;
        new.updated_at := duly.clock();
        new.attempt := greatest(new.starts - 1, 0);
        new.started_at := case when new.status = 'running' then coalesce(old.started_at, new.updated_at)
            else old.started_at end;
        new.finished_at := case when new.status in ('succeeded', 'canceled',
            'dead_letter') then coalesce(old.finished_at, new.updated_at) end;
        new.retain_until := new.finished_at + new.retain_for;
    end if;
    broken_rule := case
        when (new.revision > 1 or new.type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$') is false then 'ck_job__type'
        when (
            new.revision > 1 or (char_length(new.queue) <= 100 and new.queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$')
        ) is false then 'ck_job__queue'
        when (new.attempt = greatest(new.starts - 1, 0)) is false then 'ck_job__attempt'
        when (new.max_attempts between 1 and 1000) is false then 'ck_job__max_attempts'
        when (
            new.starts between 0 and new.max_attempts - case when new.status = 'queued' then 1 else 0 end
        ) is false then 'ck_job__starts'
        when (new.snoozes between 0 and 1000) is false then 'ck_job__snoozes'
        when (new.priority between -100 and 100) is false then 'ck_job__priority'
        when (new.idempotency_key <> '') is false then 'ck_job__idempotency_key'
        when (
            case when new.idempotency_key is null then new.request_digest is null
                else octet_length(new.request_digest) = 32 end
        ) is false then 'ck_job__request_digest'
        when (
            jsonb_typeof(new.payload) = 'object' and pg_column_size(new.payload) <= 1048576
        ) is false then 'ck_job__payload'
        when (pg_column_size(new.result) <= 1048576) is false then 'ck_job__result'
        when (new.timeout_seconds > 0 and new.timeout_seconds <= 31622400) is false then 'ck_job__timeout_seconds'
        when (
            new.backoff_base_seconds >= 0 and new.backoff_base_seconds <= new.backoff_cap_seconds
                and new.backoff_cap_seconds <= 31622400
        ) is false then 'ck_job__backoff'
        when (
            case new.status when 'running' then new.lease_owner is not null and new.lease_expires_at is not null
                when 'failed' then new.lease_owner is not null and new.lease_expires_at is null
                else new.lease_owner is null and new.lease_expires_at is null end
        ) is false then 'ck_job__lease'
        when (
            char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_job__owners'
        when (
            new.last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (new.status not in ('failed', 'dead_letter')
                or new.last_error_code is not null)
        ) is false then 'ck_job__last_error'
        when (
            new.progress between 0 and 100 and char_length(new.stage) between 1 and 200
        ) is false then 'ck_job__progress'
        when (new.retain_for between interval '1 days' and interval '3660 days') is false then 'ck_job__retain_for'
        when ((new.finished_at is null) = (new.retain_until is null)) is false then 'ck_job__retain_until'
        when (
            jsonb_typeof(new.event_detail) = 'object' and pg_column_size(new.event_detail) <= 65536
        ) is false then 'ck_job__event_detail'
        when (
            date_part('epoch', least(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at,
                new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) >= 946684800 and date_part('epoch',
                greatest(new.created_at, new.updated_at, new.started_at, new.finished_at, new.run_at,
                new.lease_expires_at, new.cancel_requested_at, new.progressed_at)) < 7258118400
        ) is false then 'ck_job__years_2000_to_2200'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'job', new."id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "job_guard_insert"
    before insert on "ledger"."job"
    for each row when ((
        new."status" in ('queued')
        and new.revision = 1
        and new.transition_from is null
        and char_length(new.queue) <= 100
        and new.idempotency_key is null
    ) is not true)
    execute function "ledger"."job_guard"();

create or replace trigger "job_guard_update"
    before update on "ledger"."job"
    for each row when ((
        (
            old."status" = 'queued' and new."status" = 'running' and new.transition_from = 'queued'
            or old."status" = 'running' and new."status" = 'succeeded' and new.transition_from = 'running'
        )
        and new."id" = old."id"
        and new.revision = old.revision + 1
        and new.event_detail is null
        and new.updated_at between statement_timestamp() and clock_timestamp()
        and new.attempt is not distinct from greatest(new.starts - 1, 0)
        and new.started_at is not distinct from case when new.status = 'running' then coalesce(old.started_at,
            new.updated_at) else old.started_at end
        and new.finished_at is not distinct from case when new.status in ('succeeded', 'canceled',
            'dead_letter') then coalesce(old.finished_at, new.updated_at) end
        and new.retain_until is not distinct from new.finished_at + new.retain_for
        and new.idempotency_key is not distinct from old.idempotency_key
    ) is not true)
    execute function "ledger"."job_guard"();

create or replace function "ledger"."job_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
    as $timeline$
begin
    insert into ledger.job_event (id, job_id, org_id, seq, ts, prev_status, next_status, detail_json)
    select
        ledger.event_id("id", revision), "id", org_id, revision, duly.clock(), transition_from, "status"::text, case
            when event_detail is null and status = 'running' then jsonb_build_object('actor', lease_owner, 'start',
            starts) when transition_from = 'running' and status <> 'running' and num_nonnulls(stage,
            progress) > 0 then coalesce(event_detail,
            jsonb_build_object()) || jsonb_strip_nulls(jsonb_build_object('stage', stage, 'progress', progress))
            else event_detail end
    from (
        select *, case
            when tg_op = 'UPDATE' and not (
                transition_from = 'queued' and status = 'running'
                or transition_from = 'running' and status = 'succeeded'
            ) then null
            when (revision > 1 or type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$') is false then 'ck_job__type'
            when (
                revision > 1 or (char_length(queue) <= 100 and queue ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$')
            ) is false then 'ck_job__queue'
            when (attempt = greatest(starts - 1, 0)) is false then 'ck_job__attempt'
            when (max_attempts between 1 and 1000) is false then 'ck_job__max_attempts'
            when (
                starts between 0 and max_attempts - case when status = 'queued' then 1 else 0 end
            ) is false then 'ck_job__starts'
            when (snoozes between 0 and 1000) is false then 'ck_job__snoozes'
            when (priority between -100 and 100) is false then 'ck_job__priority'
            when (idempotency_key <> '') is false then 'ck_job__idempotency_key'
            when (
                case when idempotency_key is null then request_digest is null else octet_length(request_digest) = 32 end
            ) is false then 'ck_job__request_digest'
            when (
                jsonb_typeof(payload) = 'object' and pg_column_size(payload) <= 1048576
            ) is false then 'ck_job__payload'
            when (pg_column_size(result) <= 1048576) is false then 'ck_job__result'
            when (timeout_seconds > 0 and timeout_seconds <= 31622400) is false then 'ck_job__timeout_seconds'
            when (
                backoff_base_seconds >= 0 and backoff_base_seconds <= backoff_cap_seconds
                    and backoff_cap_seconds <= 31622400
            ) is false then 'ck_job__backoff'
            when (
                case status when 'running' then lease_owner is not null and lease_expires_at is not null
                    when 'failed' then lease_owner is not null and lease_expires_at is null else lease_owner is null
                    and lease_expires_at is null end
            ) is false then 'ck_job__lease'
            when (
                char_length(lease_owner) between 1 and 300 and char_length(settled_by) <= 300
            ) is false then 'ck_job__owners'
            when (
                last_error_code ~ '^[A-Z][A-Z0-9_]*$' and (status not in ('failed', 'dead_letter')
                    or last_error_code is not null)
            ) is false then 'ck_job__last_error'
            when (progress between 0 and 100 and char_length(stage) between 1 and 200) is false then 'ck_job__progress'
            when (retain_for between interval '1 days' and interval '3660 days') is false then 'ck_job__retain_for'
            when ((finished_at is null) = (retain_until is null)) is false then 'ck_job__retain_until'
            when (
                jsonb_typeof(event_detail) = 'object' and pg_column_size(event_detail) <= 65536
            ) is false then 'ck_job__event_detail'
            when (
                date_part('epoch', least(created_at, updated_at, started_at, finished_at, run_at, lease_expires_at,
                    cancel_requested_at, progressed_at)) >= 946684800 and date_part('epoch', greatest(created_at,
                    updated_at, started_at, finished_at, run_at, lease_expires_at, cancel_requested_at,
                    progressed_at)) < 7258118400
            ) is false then 'ck_job__years_2000_to_2200'
        end as broken_rule
        from new_rows
        where transition_from is not null or tg_op = 'INSERT'
        offset 0  -- the rules are written out once
    ) as logged
    where broken_rule is null or duly.refuse_row('job', "id"::text, broken_rule);
    return null;
end
$timeline$;

create or replace trigger "job_timeline_insert"
    after insert on "ledger"."job"
    referencing new table as new_rows
    for each statement execute function "ledger"."job_timeline"();

create or replace trigger "job_timeline_update"
    after update on "ledger"."job"
    referencing new table as new_rows
    for each statement execute function "ledger"."job_timeline"();
