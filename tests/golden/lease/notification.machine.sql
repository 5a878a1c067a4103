create function "schedule_ingest"."schedule_notification_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."delivery"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'notification', new."delivery" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."notification_id" is distinct from old."notification_id" then
        raise exception 'the key of % % cannot change', 'notification', old."notification_id" using errcode = 'DU001';
    elsif (new."user_id", new."schedule_date", new."source_session_id", new."notification_type", new."message", new."event_ids") is distinct from (old."user_id", old."schedule_date", old."source_session_id", old."notification_type", old."message", old."event_ids") then
        raise exception 'of % % these stay as they are: %', 'notification', old."notification_id", 'user_id, schedule_date, source_session_id, notification_type, message, event_ids' using errcode = 'DU001';
    elsif new."delivery" is not distinct from old."delivery" and not ((old."delivery"::text = 'sending' and new."lease_owner" is distinct from old."lease_owner")) then
        new.revision := old.revision;
        new.moved_from := null;
    elsif new."delivery" is distinct from old."delivery" and not (case old."delivery"::text when 'pending' then new."delivery"::text = any (array['sending', 'sent', 'failed']) when 'sending' then new."delivery"::text = any (array['sent', 'pending', 'failed', 'uncertain']) when 'uncertain' then new."delivery"::text = any (array['sent', 'pending', 'failed']) when 'failed' then new."delivery"::text = any (array['pending', 'sent']) else false end) then
        raise exception '% % cannot go from % to %', 'notification', old."notification_id", old."delivery", new."delivery" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."delivery"::text;
        new.status := case when new.delivery in ('sent', 'failed') then new.delivery else 'pending' end;
        if new.delivery <> 'sent' then
            new.sent_at := null;
        elsif old.delivery = 'uncertain' and old.called_at is not null then
            new.sent_at := old.called_at;
        elsif new.sent_at is null then
            new.sent_at := duly.clock();
        end if;
    end if;
    if not (coalesce(new.delivery in ('pending', 'sending', 'sent', 'failed', 'uncertain'), true) and coalesce(num_nonnulls(new.lease_owner, new.lease_expires_at) = case when new.delivery = 'sending' then 2 else 0 end, true) and coalesce(case new.delivery when 'pending' then new.called_at is null when 'uncertain' then new.called_at is not null else true end, true) and coalesce(char_length(new.last_error) between 1 and 2048, true) and coalesce(char_length(new.receipt) <= 2048, true) and coalesce(char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300, true)) then
        raise exception '% % breaks the rule %', 'notification', new."notification_id", case when (new.delivery in ('pending', 'sending', 'sent', 'failed', 'uncertain')) is false then 'ck_schedule_notification__delivery' when (num_nonnulls(new.lease_owner, new.lease_expires_at) = case when new.delivery = 'sending' then 2 else 0 end) is false then 'ck_schedule_notification__lease' when (case new.delivery when 'pending' then new.called_at is null when 'uncertain' then new.called_at is not null else true end) is false then 'ck_schedule_notification__called_at' when (char_length(new.last_error) between 1 and 2048) is false then 'ck_schedule_notification__last_error' when (char_length(new.receipt) <= 2048) is false then 'ck_schedule_notification__receipt' when (char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_schedule_notification__owners' end
            using errcode = 'check_violation', constraint = case when (new.delivery in ('pending', 'sending', 'sent', 'failed', 'uncertain')) is false then 'ck_schedule_notification__delivery' when (num_nonnulls(new.lease_owner, new.lease_expires_at) = case when new.delivery = 'sending' then 2 else 0 end) is false then 'ck_schedule_notification__lease' when (case new.delivery when 'pending' then new.called_at is null when 'uncertain' then new.called_at is not null else true end) is false then 'ck_schedule_notification__called_at' when (char_length(new.last_error) between 1 and 2048) is false then 'ck_schedule_notification__last_error' when (char_length(new.receipt) <= 2048) is false then 'ck_schedule_notification__receipt' when (char_length(new.lease_owner) between 1 and 300 and char_length(new.settled_by) <= 300) is false then 'ck_schedule_notification__owners' end;
    end if;
    return new;
end
$guard$;

create trigger "schedule_notification_guard" before insert or update on "schedule_ingest"."schedule_notification"
    for each row execute function "schedule_ingest"."schedule_notification_guard"();

create function "schedule_ingest"."schedule_notification_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'notification', "notification_id"::text, revision, moved_from, "delivery"::text, case when delivery = 'sending' then lease_owner when moved_from = 'sending' then settled_by end, jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at, 'error', case when delivery in ('pending', 'failed', 'uncertain') then last_error end))
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "schedule_notification_timeline_insert" after insert on "schedule_ingest"."schedule_notification"
    referencing new table as moved
    for each statement execute function "schedule_ingest"."schedule_notification_timeline"();

create trigger "schedule_notification_timeline_update" after update on "schedule_ingest"."schedule_notification"
    referencing new table as moved
    for each statement execute function "schedule_ingest"."schedule_notification_timeline"();
