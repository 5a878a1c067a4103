-- The functions and triggers of the ingest tables.

create or replace function {ingest}.check_accepts_images() returns trigger
    language plpgsql
    as $trigger$
declare
    is_open boolean;
begin
    execute format(
        'select state = ''pending'' and closed_at is null from %I.capture_session where id = $1 for no key update',
        tg_table_schema
    ) into is_open using new.session_id;
    if is_open is false then
        raise exception 'capture % accepts no more images', new.session_id using errcode = 'DU001';
    end if;
    return new;
end
$trigger$;
comment on function {ingest}.check_accepts_images() is
    'Images are accepted while a session is pending and not closed; a worker that closes it waits.';
create or replace trigger capture_image_checks_session before insert on {ingest}.capture_image
    for each row execute function {ingest}.check_accepts_images();
create or replace trigger capture_image_is_append_only before update or delete on {ingest}.capture_image
    for each row execute function duly.refuse_change();
create or replace trigger capture_image_is_not_emptied before truncate on {ingest}.capture_image
    for each statement execute function duly.refuse_change();

create or replace function {ingest}.advance_days() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $trigger$
declare
    versions bigint;
    created_days bigint;
    advanced_days bigint;
    wrong_session uuid;
begin
    select count(*) into versions from added;
    if versions = 0 then
        return null;
    end if;
    execute format(
        'select a.session_id from added as a'
        ' left join %I.capture_session as s on s.id = a.session_id and s.user_id = a.user_id'
        ' and s.state in (''processing'', ''done'') where s.id is null limit 1',
        tg_table_schema
    ) into wrong_session;
    if wrong_session is not null then
        raise exception 'capture % is not being processed, or is another person''s: it cannot write a version',
            wrong_session
            using errcode = 'DU001';
    end if;
    execute format(
        'insert into %I.day_schedule (user_id, schedule_date, current_version)'
        ' select user_id, schedule_date, 1 from added where version = 1 on conflict do nothing',
        tg_table_schema
    );
    get diagnostics created_days = row_count;
    execute format(
        'update %I.day_schedule as d set current_version = a.version from added as a'
        ' where d.user_id = a.user_id and d.schedule_date = a.schedule_date and a.version > 1'
        ' and d.current_version = a.version - 1',
        tg_table_schema
    );
    get diagnostics advanced_days = row_count;
    if created_days + advanced_days <> versions then
        raise exception 'versions of a day have no gap: the next is one more than the current one'
            using errcode = 'DU001';
    end if;
    return null;
end
$trigger$;
comment on function {ingest}.advance_days() is
    'A version follows the current one of its day, is written by a session being processed, and becomes current.';
create or replace trigger schedule_version_advances after insert on {ingest}.schedule_version
    referencing new table as added
    for each statement execute function {ingest}.advance_days();
create or replace trigger schedule_version_is_append_only before update or delete on {ingest}.schedule_version
    for each row execute function duly.refuse_change();
create or replace trigger schedule_version_is_not_emptied before truncate on {ingest}.schedule_version
    for each statement execute function duly.refuse_change();

create or replace function {ingest}.refuse_day_change() returns trigger
    language plpgsql
    as $trigger$
begin
    raise exception '%.%: %', tg_table_schema, tg_table_name, tg_argv[0] using errcode = 'DU001';
end
$trigger$;
create or replace trigger day_schedule_follows_its_versions before insert or update on {ingest}.day_schedule
    for each row when (pg_trigger_depth() = 0)
    execute function {ingest}.refuse_day_change('current_version changes only with a new version');
create or replace trigger day_schedule_to_next_version before update on {ingest}.day_schedule
    for each row when (
        (new.user_id, new.schedule_date) is distinct from (old.user_id, old.schedule_date)
        or new.current_version <> old.current_version + 1
    ) execute function {ingest}.refuse_day_change('current_version changes only to the next version');
create or replace trigger day_schedule_stays before delete on {ingest}.day_schedule
    for each row execute function duly.refuse_change();
create or replace trigger day_schedule_is_not_emptied before truncate on {ingest}.day_schedule
    for each statement execute function duly.refuse_change();
create or replace trigger day_snapshot_is_put_once before update on {ingest}.day_snapshot
    for each row when (new.source_session_id = old.source_session_id)
    execute function {ingest}.refuse_day_change('a session writes one snapshot of a day');
create or replace trigger day_snapshot_stays before delete on {ingest}.day_snapshot
    for each row execute function duly.refuse_change();
create or replace trigger day_snapshot_is_not_emptied before truncate on {ingest}.day_snapshot
    for each statement execute function duly.refuse_change();
create or replace trigger schedule_event_is_append_only before update or delete on {ingest}.schedule_event
    for each row execute function duly.refuse_change();
create or replace trigger schedule_event_is_not_emptied before truncate on {ingest}.schedule_event
    for each statement execute function duly.refuse_change();

create or replace function {ingest}.follow_status() returns trigger
    language plpgsql
    as $$
begin
    if new.status is distinct from old.status and new.delivery is not distinct from old.delivery then
        new.delivery := new.status;
        new.lease_owner := null;
        new.lease_expires_at := null;
        new.called_at := case when new.status <> 'pending' then old.called_at end;
        new.last_error := case
            when new.status = 'failed' then coalesce(new.last_error, 'another program set status to failed')
        end;
    end if;
    return new;
end
$$;
comment on function {ingest}.follow_status() is
    'A program that writes only the contract''s status has delivered the message, so our sender does not.';
create or replace trigger schedule_notification_follow before update on {ingest}.schedule_notification
    for each row execute function {ingest}.follow_status();

-- Grants --------------------------------------------------------------------------------------------------------------

grant usage on schema {ingest} to {worker}, {api}, {readonly};
grant select on
    {ingest}.capture_session, {ingest}.capture_image,
    {ingest}.day_schedule, {ingest}.schedule_version, {ingest}.day_snapshot,
    {ingest}.schedule_event, {ingest}.schedule_notification
    to {worker}, {api}, {readonly};
grant update, insert (id, user_id, payload, given_at, closed_at) on {ingest}.capture_session to {worker};
grant insert on {ingest}.schedule_version to {worker};
grant insert on {ingest}.schedule_event to {worker};
grant insert on {ingest}.schedule_notification to {worker};
grant insert, update on {ingest}.day_snapshot to {worker};
-- A command of the bot that is delivered twice creates one session, whose id is derived from the message.
grant insert (id, user_id, payload, given_at, closed_at) on {ingest}.capture_session to {api};
grant update (closed_at) on {ingest}.capture_session to {api};
grant insert on {ingest}.capture_image to {api};
grant update (
    delivery, channel, due_at, is_in_line, called_at, starts, last_error, receipt, lease_owner, lease_expires_at,
    settled_by
) on {ingest}.schedule_notification to {worker};
