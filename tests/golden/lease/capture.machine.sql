create function "schedule_ingest"."capture_session_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."state"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'capture', new."state" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'capture', old."id" using errcode = 'DU001';
    elsif (new."user_id", new."created_at", new."given_at", new."payload") is distinct from (old."user_id", old."created_at", old."given_at", old."payload") then
        raise exception 'of % % these stay as they are: %', 'capture', old."id", 'user_id, created_at, given_at, payload' using errcode = 'DU001';
    elsif new."state" is not distinct from old."state" and not ((old."state"::text = 'processing' and new."locked_by" is distinct from old."locked_by") or (new.closed_at is distinct from old.closed_at)) then
        new.revision := old.revision;
        new.moved_from := null;
    elsif new."state" is distinct from old."state" and not (case old."state"::text when 'pending' then new."state"::text = any (array['processing', 'failed']) when 'processing' then new."state"::text = any (array['done', 'failed']) else false end) then
        raise exception '% % cannot go from % to %', 'capture', old."id", old."state", new."state" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."state"::text;
        if old.closed_at is not null and new.closed_at is distinct from old.closed_at then
            raise exception 'capture % was closed at % and stays so', old.id, old.closed_at
                using errcode = 'DU001';
        elsif old.state = 'processing' and new.state = 'processing' and not (old.locked_at < duly.clock() - make_interval(secs => coalesce(old.lease_seconds, new.lease_seconds, 300))) then
            raise exception 'capture % is held by %', old.id, old.locked_by using errcode = 'DU001';
        end if;
    end if;
    if not (coalesce((new.state = 'failed') = (new.error is not null), true) and coalesce(char_length(new.error) between 1 and 4000, true) and coalesce(num_nonnulls(new.locked_at, new.locked_by) = case when new.state = 'processing' then 2 else 0 end, true) and coalesce(new.lease_seconds is null or (new.state = 'processing' and new.lease_seconds > 0), true) and coalesce(char_length(new.locked_by) between 1 and 300 and char_length(new.settled_by) <= 300, true) and coalesce(new.starts >= 0, true) and coalesce(num_nonnulls(new.payload, new.given_at) in (0, 2) and (new.payload is null or new.revision > 1 or (jsonb_typeof(new.payload) = 'object' and octet_length(new.payload::text) <= 2097152)), true) and coalesce(new.result is null or (new.state = 'done' and jsonb_typeof(new.result) = 'object' and pg_column_size(new.result) <= 65536), true) and coalesce(date_part('epoch', least(new.created_at, new.closed_at, new.given_at, new.locked_at)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.closed_at, new.given_at, new.locked_at)) < 7258118400, true)) then
        raise exception '% % breaks the rule %', 'capture', new."id", case when ((new.state = 'failed') = (new.error is not null)) is false then 'ck_capture_session__error' when (char_length(new.error) between 1 and 4000) is false then 'ck_capture_session__error_text' when (num_nonnulls(new.locked_at, new.locked_by) = case when new.state = 'processing' then 2 else 0 end) is false then 'ck_capture_session__lease' when (new.lease_seconds is null or (new.state = 'processing' and new.lease_seconds > 0)) is false then 'ck_capture_session__lease_seconds' when (char_length(new.locked_by) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_capture_session__owners' when (new.starts >= 0) is false then 'ck_capture_session__starts' when (num_nonnulls(new.payload, new.given_at) in (0, 2) and (new.payload is null or new.revision > 1 or (jsonb_typeof(new.payload) = 'object' and octet_length(new.payload::text) <= 2097152))) is false then 'ck_capture_session__payload' when (new.result is null or (new.state = 'done' and jsonb_typeof(new.result) = 'object' and pg_column_size(new.result) <= 65536)) is false then 'ck_capture_session__result' when (date_part('epoch', least(new.created_at, new.closed_at, new.given_at, new.locked_at)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.closed_at, new.given_at, new.locked_at)) < 7258118400) is false then 'ck_capture_session__years_2000_to_2200' end
            using errcode = 'check_violation', constraint = case when ((new.state = 'failed') = (new.error is not null)) is false then 'ck_capture_session__error' when (char_length(new.error) between 1 and 4000) is false then 'ck_capture_session__error_text' when (num_nonnulls(new.locked_at, new.locked_by) = case when new.state = 'processing' then 2 else 0 end) is false then 'ck_capture_session__lease' when (new.lease_seconds is null or (new.state = 'processing' and new.lease_seconds > 0)) is false then 'ck_capture_session__lease_seconds' when (char_length(new.locked_by) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_capture_session__owners' when (new.starts >= 0) is false then 'ck_capture_session__starts' when (num_nonnulls(new.payload, new.given_at) in (0, 2) and (new.payload is null or new.revision > 1 or (jsonb_typeof(new.payload) = 'object' and octet_length(new.payload::text) <= 2097152))) is false then 'ck_capture_session__payload' when (new.result is null or (new.state = 'done' and jsonb_typeof(new.result) = 'object' and pg_column_size(new.result) <= 65536)) is false then 'ck_capture_session__result' when (date_part('epoch', least(new.created_at, new.closed_at, new.given_at, new.locked_at)) >= 946684800 and date_part('epoch', greatest(new.created_at, new.closed_at, new.given_at, new.locked_at)) < 7258118400) is false then 'ck_capture_session__years_2000_to_2200' end;
    end if;
    return new;
end
$guard$;

create trigger "capture_session_guard" before insert or update on "schedule_ingest"."capture_session"
    for each row execute function "schedule_ingest"."capture_session_guard"();

create function "schedule_ingest"."capture_session_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'capture', "id"::text, revision, moved_from, "state"::text, case when state = 'processing' then locked_by when state in ('done', 'failed') then settled_by end, jsonb_strip_nulls(jsonb_build_object('closedAt', case when state = 'pending' then closed_at end, 'starts', nullif(starts, 0), 'error', error, 'result', result))
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "capture_session_timeline_insert" after insert on "schedule_ingest"."capture_session"
    referencing new table as moved
    for each statement execute function "schedule_ingest"."capture_session_timeline"();

create trigger "capture_session_timeline_update" after update on "schedule_ingest"."capture_session"
    referencing new table as moved
    for each statement execute function "schedule_ingest"."capture_session_timeline"();
