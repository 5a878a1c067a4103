create function "conformance"."visit_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."state"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'visit', new."state" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."number" is distinct from old."number" then
        raise exception 'the key of % % cannot change', 'visit', old."number" using errcode = 'DU001';
    elsif new."state" is not distinct from old."state" and not ((old."state"::text = 'processing' and new."locked_by" is distinct from old."locked_by") or (new.progress is distinct from old.progress)) then
        new.revision := old.revision;
        new.moved_from := null;
    elsif new."state" is distinct from old."state" and not (case old."state"::text when 'pending' then new."state"::text = any (array['processing']) when 'processing' then new."state"::text = any (array['done', 'failed']) else false end) then
        raise exception '% % cannot go from % to %', 'visit', old."number", old."state", new."state" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."state"::text;
    end if;
    return new;
end
$guard$;

create trigger "visit_guard" before insert or update on "conformance"."visit"
    for each row execute function "conformance"."visit_guard"();

create function "conformance"."visit_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'visit', "number"::text, revision, moved_from, "state"::text, null::text, jsonb_build_object('progress', progress)
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "visit_timeline_insert" after insert on "conformance"."visit"
    referencing new table as moved
    for each statement execute function "conformance"."visit_timeline"();

create trigger "visit_timeline_update" after update on "conformance"."visit"
    referencing new table as moved
    for each statement execute function "conformance"."visit_timeline"();
