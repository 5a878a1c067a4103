-- Without ingest; a backend's own tables stay. What captures wrote into the log stays there.

do $ingest$
begin
if not exists (  -- asked so that it needs no right to the schema
    select from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = {'ingest'} and f.proname = 'capture_session_guard'
) then
    return;
end if;
execute $drop$
drop table {ingest}.schedule_notification;
drop table {ingest}.schedule_event;
drop table {ingest}.day_snapshot;
drop table {ingest}.schedule_version;
drop table {ingest}.day_schedule;
drop table {ingest}.capture_image;
drop table {ingest}.capture_session;
drop function {ingest}.capture_session_timeline();
drop function {ingest}.capture_session_guard();
drop function {ingest}.refuse_step();
drop function {ingest}.advance_days();
drop function {ingest}.take_image();
drop type {ingest}.capture_session_state;
revoke all on schema {ingest} from {worker}, {api}, {readonly};
$drop$;
end
$ingest$;
