create function "conformance"."parcel_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['WAITING'])) then
            raise exception '% cannot begin as %', 'parcel', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'parcel', old."id" using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not ((old."status"::text = 'CARRIED' and new."carrier" is distinct from old."carrier")) then
        new.revision := old.revision;
        new.moved_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text when 'WAITING' then new."status"::text = any (array['CARRIED']) when 'CARRIED' then new."status"::text = any (array['DELIVERED', 'WAITING']) else false end) then
        raise exception '% % cannot go from % to %', 'parcel', old."id", old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create trigger "parcel_guard" before insert or update on "conformance"."parcel"
    for each row execute function "conformance"."parcel_guard"();

create function "conformance"."parcel_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'parcel', "id"::text, revision, moved_from, "status"::text, coalesce(settled_by, carrier), null::jsonb
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "parcel_timeline_insert" after insert on "conformance"."parcel"
    referencing new table as moved
    for each statement execute function "conformance"."parcel_timeline"();

create trigger "parcel_timeline_update" after update on "conformance"."parcel"
    referencing new table as moved
    for each statement execute function "conformance"."parcel_timeline"();
