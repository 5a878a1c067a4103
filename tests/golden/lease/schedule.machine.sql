create function "scheduler"."jobs_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['active', 'paused'])) then
            raise exception '% cannot begin as %', 'schedule', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'schedule', old."id" using errcode = 'DU001';
    elsif (new."user_id", new."created_at", new."request_key", new."request_digest") is distinct from (old."user_id", old."created_at", old."request_key", old."request_digest") then
        raise exception 'of % % these stay as they are: %', 'schedule', old."id", 'user_id, created_at, request_key, request_digest' using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (((new.rule, new.first_run_at) is distinct from (old.rule, old.first_run_at))) then
        new.revision := old.revision;
        new.moved_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text when 'active' then new."status"::text = any (array['paused', 'archived']) when 'paused' then new."status"::text = any (array['active', 'archived']) else false end) then
        raise exception '% % cannot go from % to %', 'schedule', old."id", old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create trigger "jobs_guard" before insert or update on "scheduler"."jobs"
    for each row execute function "scheduler"."jobs_guard"();

create function "scheduler"."jobs_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'schedule', "id"::text, revision, moved_from, "status"::text, null::text, jsonb_build_object('rule', rule)
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "jobs_timeline_insert" after insert on "scheduler"."jobs"
    referencing new table as moved
    for each statement execute function "scheduler"."jobs_timeline"();

create trigger "jobs_timeline_update" after update on "scheduler"."jobs"
    referencing new table as moved
    for each statement execute function "scheduler"."jobs_timeline"();
