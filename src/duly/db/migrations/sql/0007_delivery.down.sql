-- Without senders. Messages stay, as they are.

drop function duly.find_next_message();
drop function duly.is_locked(uuid);
drop function duly.resolve(uuid, boolean);
drop function duly.resend(uuid);

do $ingest$
begin
if not exists (  -- asked so that it needs no right to the schema
    select from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = {'ingest'} and f.proname = 'schedule_notification_guard'
) then
    return;
end if;
execute $drop$
drop trigger schedule_notification_timeline_update on {ingest}.schedule_notification;
drop trigger schedule_notification_timeline_insert on {ingest}.schedule_notification;
drop trigger schedule_notification_guard on {ingest}.schedule_notification;
drop trigger schedule_notification_follow on {ingest}.schedule_notification;
drop function {ingest}.schedule_notification_timeline();
drop function {ingest}.schedule_notification_guard();
drop function {ingest}.follow_status();
alter table {ingest}.schedule_notification
    drop channel, drop recipient, drop kind, drop delivery, drop due_at, drop called_at, drop starts, drop last_error,
    drop receipt, drop lease_owner, drop lease_expires_at, drop settled_by, drop seq, drop is_in_line, drop revision, drop moved_from;
$drop$;
end
$ingest$;

drop table "user".webhooks;
drop index duly.idx_outbox__seq;
drop index duly.idx_outbox__seq_uncertain;
drop index duly.idx_outbox__seq_failed;
drop index duly.idx_outbox__channel_recipient_seq;
drop index duly.idx_outbox__channel_due_at_id;
create index idx_outbox__due_at_id on duly.outbox (due_at, id) where status = 'pending';
alter table duly.outbox drop seq, drop is_in_line;
