-- Guard and timeline of capture and notification: rendered from the state machine, and compared with it by a test.

create or replace function {ingest}."capture_session_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."state"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'capture', new."state" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the primary key of % % cannot change', 'capture', old."id"
            using errcode = 'DU001';
    elsif (
        new."user_id", new."created_at", new."given_at", new."payload"
    ) is distinct from (
        old."user_id", old."created_at", old."given_at", old."payload"
    ) then
        raise exception 'of % % these stay as they are: %', 'capture', old."id",
            'user_id, created_at, given_at, payload'
            using errcode = 'DU001';
    elsif new."state" is not distinct from old."state" and not (
        (old."state"::text = 'processing' and new."locked_by" is distinct from old."locked_by")
            or (new.closed_at is distinct from old.closed_at)
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."state" is distinct from old."state" and not (case old."state"::text
        when 'pending' then new."state"::text = any (array['processing', 'failed'])
        when 'processing' then new."state"::text = any (array['done', 'failed'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'capture', old."id",
            old."state", new."state" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."state"::text;
        if old.closed_at is not null and new.closed_at is distinct from old.closed_at then
            raise exception 'capture % is closed since %; closed_at cannot change', old.id, old.closed_at
                using errcode = 'DU001';
        elsif old.state = 'processing' and new.state = 'processing'
            and not (old.locked_at < duly.clock() - make_interval(secs => coalesce(old.lease_seconds, new.lease_seconds,
            300))) then
            raise exception 'capture % is leased by %', old.id, old.locked_by using errcode = 'DU001';
        end if;
    end if;
    broken_rule := case
        when ((new.state = 'failed') = (new.error is not null)) is false then 'ck_capture_session__error'
        when (char_length(new.error) between 1 and 4000) is false then 'ck_capture_session__error_text'
        when (
            num_nonnulls(new.locked_at, new.locked_by) = case when new.state = 'processing' then 2 else 0 end
        ) is false then 'ck_capture_session__lease'
        when (
            new.lease_seconds is null or (new.state = 'processing' and new.lease_seconds > 0)
        ) is false then 'ck_capture_session__lease_seconds'
        when (
            char_length(new.locked_by) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_capture_session__owners'
        when (new.starts >= 0) is false then 'ck_capture_session__starts'
        when (
            num_nonnulls(new.payload, new.given_at) in (0, 2) and (new.payload is null or new.revision > 1
                or (jsonb_typeof(new.payload) = 'object' and octet_length(new.payload::text) <= 2097152))
        ) is false then 'ck_capture_session__payload'
        when (
            new.result is null or (new.state = 'done' and jsonb_typeof(new.result) = 'object'
                and pg_column_size(new.result) <= 65536)
        ) is false then 'ck_capture_session__result'
        when (
            date_part('epoch', least(new.created_at, new.closed_at, new.given_at, new.locked_at)) >= 946684800
                and date_part('epoch', greatest(new.created_at, new.closed_at, new.given_at,
                new.locked_at)) < 7258118400
        ) is false then 'ck_capture_session__years_2000_to_2200'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'capture', new."id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "capture_session_guard"
    before insert or update on {ingest}."capture_session"
    for each row execute function {ingest}."capture_session_guard"();

create or replace function {ingest}."capture_session_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'capture', "id"::text, revision, duly.clock(), transition_from, "state"::text, case
            when state = 'processing' then locked_by when state in ('done', 'failed') then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('closedAt', case when state = 'pending' then closed_at end, 'starts',
            nullif(starts, 0), 'error', error, 'result', result))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "capture_session_timeline_insert"
    after insert on {ingest}."capture_session"
    referencing new table as new_rows
    for each statement execute function {ingest}."capture_session_timeline"();

create or replace trigger "capture_session_timeline_update"
    after update on {ingest}."capture_session"
    referencing new table as new_rows
    for each statement execute function {ingest}."capture_session_timeline"();

create or replace function {ingest}."schedule_notification_guard"() returns trigger
    language plpgsql
    as $guard$
declare
    broken_rule text;
begin
    if tg_op = 'INSERT' then
        if not (new."delivery"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'notification', new."delivery" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;
    elsif new."notification_id" is distinct from old."notification_id" then
        raise exception 'the primary key of % % cannot change', 'notification', old."notification_id"
            using errcode = 'DU001';
    elsif (
        new."user_id", new."schedule_date", new."source_session_id", new."notification_type", new."message",
            new."event_ids"
    ) is distinct from (
        old."user_id", old."schedule_date", old."source_session_id", old."notification_type", old."message",
            old."event_ids"
    ) then
        raise exception 'of % % these stay as they are: %', 'notification', old."notification_id",
            'user_id, schedule_date, source_session_id, notification_type, message, event_ids'
            using errcode = 'DU001';
    elsif new."delivery" is not distinct from old."delivery" and not (
        (old."delivery"::text = 'sending' and new."lease_owner" is distinct from old."lease_owner")
    ) then
        new.revision := old.revision;
        new.transition_from := null;
    elsif new."delivery" is distinct from old."delivery" and not (case old."delivery"::text
        when 'pending' then new."delivery"::text = any (array['sending', 'sent', 'failed'])
        when 'sending' then new."delivery"::text = any (array['sent', 'pending', 'failed', 'uncertain'])
        when 'uncertain' then new."delivery"::text = any (array['sent', 'pending', 'failed'])
        when 'failed' then new."delivery"::text = any (array['pending', 'sent'])
        else false
    end) then
        raise exception '% % cannot go from % to %', 'notification', old."notification_id",
            old."delivery", new."delivery" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old."delivery"::text;
        new.status := case when new.delivery in ('sent', 'failed') then new.delivery else 'pending' end;
        if new.delivery <> 'sent' then
            new.sent_at := null;
        elsif old.delivery = 'uncertain' and old.called_at is not null then
            new.sent_at := old.called_at;
        elsif new.sent_at is null then
            new.sent_at := duly.clock();
        end if;
    end if;
    broken_rule := case
        when (
            new.delivery in ('pending', 'sending', 'sent', 'failed', 'uncertain')
        ) is false then 'ck_schedule_notification__delivery'
        when (
            num_nonnulls(new.lease_owner, new.lease_expires_at) = case when new.delivery = 'sending' then 2 else 0 end
        ) is false then 'ck_schedule_notification__lease'
        when (
            case new.delivery when 'pending' then new.called_at is null when 'uncertain' then new.called_at is not null
                else true end
        ) is false then 'ck_schedule_notification__called_at'
        when (char_length(new.last_error) between 1 and 2048) is false then 'ck_schedule_notification__last_error'
        when (char_length(new.receipt) <= 2048) is false then 'ck_schedule_notification__receipt'
        when (
            char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300
        ) is false then 'ck_schedule_notification__owners'
    end;
    if broken_rule is not null then
        raise exception '% % breaks the rule %', 'notification', new."notification_id", broken_rule
            using errcode = 'check_violation', constraint = broken_rule;
    end if;
    return new;
end
$guard$;

create or replace trigger "schedule_notification_guard"
    before insert or update on {ingest}."schedule_notification"
    for each row execute function {ingest}."schedule_notification_guard"();

create or replace function {ingest}."schedule_notification_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, ts, prev_status, next_status, actor, detail_json)
    select
        'notification', "notification_id"::text, revision, duly.clock(), transition_from, "delivery"::text, case
            when delivery = 'sending' then lease_owner when transition_from = 'sending' then settled_by end,
            jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at, 'error', case
            when delivery in ('pending', 'failed', 'uncertain') then last_error end))
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger "schedule_notification_timeline_insert"
    after insert on {ingest}."schedule_notification"
    referencing new table as new_rows
    for each statement execute function {ingest}."schedule_notification_timeline"();

create or replace trigger "schedule_notification_timeline_update"
    after update on {ingest}."schedule_notification"
    referencing new table as new_rows
    for each statement execute function {ingest}."schedule_notification_timeline"();
