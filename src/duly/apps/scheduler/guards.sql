-- Guard and timeline of schedule and run: rendered from the state machine, and compared with it by a test.

create or replace function "scheduler"."jobs_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['active', 'paused'])) then
            raise exception '% cannot begin as %', 'schedule', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'schedule', old."id"
            using errcode = 'DU001';
    elsif (
        new."user_id", new."created_at", new."idempotency_key", new."request_digest"
    ) is distinct from (
        old."user_id", old."created_at", old."idempotency_key", old."request_digest"
    ) then
        raise exception 'of % % these stay as they are: %', 'schedule', old."id",
            'user_id, created_at, idempotency_key, request_digest'
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        ((new.rule, new.first_run_at) is distinct from (old.rule, old.first_run_at))
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'active' then new."status"::text = any (array['paused', 'archived'])
        when 'paused' then new."status"::text = any (array['active', 'archived'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'schedule', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create or replace trigger "jobs_guard"
    before insert or update on "scheduler"."jobs"
    for each row execute function "scheduler"."jobs_guard"();

create or replace function "scheduler"."jobs_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'schedule', "id"::text, revision, duly.clock(), transition_from, "status"::text, null::text,
            jsonb_build_object('rule', rule)
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "jobs_timeline_insert"
    after insert on "scheduler"."jobs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."jobs_timeline"();

create or replace trigger "jobs_timeline_update"
    after update on "scheduler"."jobs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."jobs_timeline"();

create or replace function "scheduler"."job_runs_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'run', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
        new.sent_at := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'run', old."id"
            using errcode = 'DU001';
    elsif (
        new."job_id", new."period_key", new."scheduled_at", new."created_at"
    ) is distinct from (
        old."job_id", old."period_key", old."scheduled_at", old."created_at"
    ) then
        raise exception 'of % % these stay as they are: %', 'run', old."id",
            'job_id, period_key, scheduled_at, created_at'
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        false
    ) then
        new.revision := old.revision;
        new.transition_from := null;
        if new.status not in ('pending', 'sent', 'snoozed') and new.remind_at is not null then
            raise exception 'run % is % and gets no reminder', old.id, old.status using errcode = 'DU001';
        end if;
        new.sent_at := old.sent_at;
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'pending' then new."status"::text = any (array['sent', 'confirmed', 'skipped', 'cancelled'])
        when 'sent' then new."status"::text = any (array['confirmed', 'skipped', 'snoozed', 'cancelled'])
        when 'snoozed' then new."status"::text = any (array['sent', 'confirmed', 'skipped', 'cancelled'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'run', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
        new.sent_at := case when new.status = 'sent' then coalesce(old.sent_at, duly.clock()) else old.sent_at end;
        new.remind_at := case when new.status = 'snoozed' then new.remind_at end;
    end if;
    return new;
end
$guard$;

create or replace trigger "job_runs_guard"
    before insert or update on "scheduler"."job_runs"
    for each row execute function "scheduler"."job_runs_guard"();

create or replace function "scheduler"."job_runs_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'run', "id"::text, revision, duly.clock(), transition_from, "status"::text, null::text,
            jsonb_strip_nulls(jsonb_build_object('job_id', job_id, 'period_key', period_key, 'remind_at', remind_at,
            'reason', reason))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "job_runs_timeline_insert"
    after insert on "scheduler"."job_runs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."job_runs_timeline"();

create or replace trigger "job_runs_timeline_update"
    after update on "scheduler"."job_runs"
    referencing new table as new_rows
    for each statement execute function "scheduler"."job_runs_timeline"();
