-- Guard and timeline of outbox: rendered from the state machine, and compared with it by a test.

create or replace function "duly"."outbox_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'outbox', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'outbox', old."id"
            using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not (
        (old."status"::text = 'sending' and new."lease_owner" is distinct from old."lease_owner")
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text
        when 'pending' then new."status"::text = any (array['sending', 'failed'])
        when 'sending' then new."status"::text = any (array['sent', 'pending', 'failed', 'uncertain'])
        when 'uncertain' then new."status"::text = any (array['sent', 'pending', 'failed'])
        when 'failed' then new."status"::text = any (array['pending'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'outbox', old."id",
            old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create or replace trigger "outbox_guard"
    before insert or update on "duly"."outbox"
    for each row execute function "duly"."outbox_guard"();

create or replace function "duly"."outbox_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'outbox', "id"::text, revision, duly.clock(), transition_from, "status"::text, case
            when status = 'sending' then lease_owner when transition_from = 'sending' then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at, 'error', case
            when status in ('pending', 'failed', 'uncertain') then last_error end))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "outbox_timeline_insert"
    after insert on "duly"."outbox"
    referencing new table as new_rows
    for each statement execute function "duly"."outbox_timeline"();

create or replace trigger "outbox_timeline_update"
    after update on "duly"."outbox"
    referencing new table as new_rows
    for each statement execute function "duly"."outbox_timeline"();
