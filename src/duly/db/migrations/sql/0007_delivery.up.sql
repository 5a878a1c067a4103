-- Delivery: the order of messages to one person, where webhooks go, and notifications that are leased in place.

-- The line of one recipient --------------------------------------------------------------------------------------------

-- Messages leave the outbox with their retention, so it is small enough to be rewritten, and read anew, in one go.

-- squawk-ignore adding-field-with-default
alter table duly.outbox add seq bigint not null generated always as identity;
alter table duly.outbox add is_in_line boolean not null default false;
comment on column duly.outbox.is_in_line is 'It was due, and waits behind an earlier message to the same recipient.';
comment on column duly.outbox.seq is 'The order in which messages were written: one recipient gets them in this order.';
-- squawk-ignore require-concurrent-index-deletion
drop index duly.idx_outbox__due_at_id;
-- squawk-ignore require-concurrent-index-creation
create index idx_outbox__channel_due_at_id on duly.outbox (channel, due_at, id) where status = 'pending';
-- squawk-ignore require-concurrent-index-creation
create index idx_outbox__channel_recipient_seq on duly.outbox (channel, recipient, seq)
    where status in ('pending', 'sending');
-- squawk-ignore require-concurrent-index-creation
create index idx_outbox__seq_failed on duly.outbox (seq) where status = 'failed';
-- squawk-ignore require-concurrent-index-creation
create index idx_outbox__seq_uncertain on duly.outbox (seq) where status = 'uncertain';
-- squawk-ignore require-concurrent-index-creation
create index idx_outbox__seq on duly.outbox (seq);

-- Where a person's messages go -----------------------------------------------------------------------------------------

create table "user".webhooks (
    user_id bigint not null,
    url text not null,
    secret text not null,
    created_at timestamptz not null default duly.clock(),
    updated_at timestamptz not null default duly.clock(),
    constraint pk_webhooks primary key (user_id),
    constraint fk_webhooks_users_user_id foreign key (user_id) references "user".users (id) on delete cascade,
    constraint ck_webhooks__url check (url ~ '^https?://' and char_length(url) <= 2048),
    constraint ck_webhooks__secret check (secret ~ '^whsec_[A-Za-z0-9+/=]{32,100}$')
);
comment on table "user".webhooks is 'Where messages by webhook go, and the secret that signs them.';
create trigger webhooks_touch before update on "user".webhooks for each row execute function duly.touch();

-- Notifications, leased in place ---------------------------------------------------------------------------------------
-- Only where the table is ours: what a backend owns is delivered by the backend.

do $ingest$
begin
if not exists (  -- asked so that it needs no right to the schema
    select from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = {'ingest'} and f.proname = 'capture_session_guard'
) then
    return;
end if;
execute $make$

alter table {ingest}.schedule_notification
    add channel text not null default 'telegram',
    add recipient text not null generated always as (user_id::text) stored,
    add kind text not null generated always as ('schedule.' || notification_type) stored,
    add delivery text not null default 'pending',
    add due_at timestamptz not null default duly.clock(),
    add called_at timestamptz,
    add starts bigint not null default 0,
    add last_error text,
    add receipt text,
    add lease_owner text,
    add lease_expires_at timestamptz,
    add settled_by text,
    add seq bigint not null generated always as identity,
    add is_in_line boolean not null default false,
    add revision bigint not null default 0,
    add moved_from text;
comment on column {ingest}.schedule_notification.delivery is
    'What became of it, in full; the contract''s status says pending, sent or failed.';
-- Whoever went down and comes up again finds the log of before, and goes on after it.
update {ingest}.schedule_notification as n
set delivery = n.status, last_error = case n.status when 'failed' then 'it had failed before' end,
    starts = before.starts,
    revision = before.seq + case when before.next_status is distinct from n.status then 1 else 0 end
from {ingest}.schedule_notification as o
left join lateral (
    select t.seq, t.next_status, t.detail_json
    from duly.transition as t
    where t.machine = 'notification' and t.key = o.notification_id
    order by t.seq desc
    limit 1
) as last on true
cross join lateral (
    select coalesce(last.seq, 0) as seq, last.next_status, coalesce((last.detail_json ->> 'starts')::bigint, 0) as starts
) as before
where o.notification_id = n.notification_id;
insert into duly.transition (machine, key, seq, prev_status, next_status, detail_json)
select
    'notification', n.notification_id, n.revision,
    (
        select t.next_status
        from duly.transition as t
        where t.machine = 'notification' and t.key = n.notification_id and t.seq = n.revision - 1
    ),
    n.delivery, jsonb_build_object('starts', n.starts)
from {ingest}.schedule_notification as n
where not exists (
    select from duly.transition as t
    where t.machine = 'notification' and t.key = n.notification_id and t.seq = n.revision
);
create index idx_schedule_notification__channel_due_at on {ingest}.schedule_notification
    (channel, due_at, notification_id) where delivery = 'pending';
create index idx_schedule_notification__channel_recipient_seq on {ingest}.schedule_notification (channel, recipient, seq)
    where delivery in ('pending', 'sending');
create index idx_schedule_notification__notification_id on {ingest}.schedule_notification (notification_id)
    where delivery = 'sending';
create index idx_schedule_notification__seq on {ingest}.schedule_notification (seq) where delivery = 'uncertain';

create function {ingest}.follow_status() returns trigger
    language plpgsql
    as $$
begin
    if new.status is distinct from old.status and new.delivery is not distinct from old.delivery then
        new.delivery := new.status;
        new.lease_owner := null;
        new.lease_expires_at := null;
        new.called_at := case when new.status <> 'pending' then old.called_at end;
        new.last_error := case when new.status = 'failed' then coalesce(new.last_error, 'another program says so') end;
    end if;
    return new;
end
$$;
comment on function {ingest}.follow_status() is
    'Whoever writes the contract''s status, and nothing of ours, has delivered it: we do not.';
create trigger schedule_notification_follow before update on {ingest}.schedule_notification
    for each row execute function {ingest}.follow_status();

-- What follows is rendered from NOTIFICATION_MACHINE in duly/outbox/states.py; a test compares.

create function {ingest}."schedule_notification_guard"() returns trigger
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

create trigger "schedule_notification_guard" before insert or update on {ingest}."schedule_notification"
    for each row execute function {ingest}."schedule_notification_guard"();

create function {ingest}."schedule_notification_timeline"() returns trigger
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

create trigger "schedule_notification_timeline_insert" after insert on {ingest}."schedule_notification"
    referencing new table as moved
    for each statement execute function {ingest}."schedule_notification_timeline"();

create trigger "schedule_notification_timeline_update" after update on {ingest}."schedule_notification"
    referencing new table as moved
    for each statement execute function {ingest}."schedule_notification_timeline"();

grant update (
    delivery, channel, due_at, is_in_line, called_at, starts, last_error, receipt, lease_owner, lease_expires_at, settled_by
) on {ingest}.schedule_notification to {worker};
$make$;
end
$ingest$;

-- What people may do with messages -------------------------------------------------------------------------------------

create function duly.resend(message uuid) returns text
    language sql security definer set search_path = pg_catalog, pg_temp
    begin atomic
        update duly.outbox as o
        set status = 'pending', called_at = null, starts = 0, due_at = duly.clock(), last_error = null
        where o.id = message and o.status in ('failed', 'uncertain')
        returning o.status;
    end;
comment on function duly.resend(uuid) is
    'Have a message that failed, or of which nobody knows, sent again under the same id; nothing when it is neither.';

create function duly.resolve(message uuid, was_sent boolean) returns text
    language sql security definer set search_path = pg_catalog, pg_temp
    begin atomic
        update duly.outbox as o
        set status = case when was_sent then 'sent' else 'failed' end,
            last_error = case when was_sent then o.last_error else coalesce(o.last_error, 'somebody says it did not arrive') end
        where o.id = message and o.status = 'uncertain'
        returning o.status;
    end;
comment on function duly.resolve(uuid, boolean) is 'Say of a message of which nobody knows whether it arrived.';

-- Looking --------------------------------------------------------------------------------------------------------------

create function duly.is_locked(message uuid) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform from duly.outbox as o where o.id = message for no key update skip locked;
    return not found;
end
$$;
comment on function duly.is_locked(uuid) is
    'Has another transaction locked this message, so that senders pass over it? Only trying to lock it as they do tells.';

create function duly.find_next_message() returns uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    key uuid;
begin
    -- As claim_messages of outbox/queries.sql, which serves two tables: a test compares. What no channel serves is marked.
    with due as (
        select t.id, t.channel, t.recipient, t.seq
        from duly.outbox as t
        where t.status = 'pending' and t.due_at <= duly.now()
            and not starts_with(coalesce(t.last_error, ''), 'CHANNEL_NOT_CONFIGURED: ')
        order by t.due_at, t.id
        limit 500
        for no key update skip locked
    )
    select due.id into key
    from due
    where not exists (
        select
        from duly.outbox as b
        where b.channel = due.channel and b.recipient = due.recipient and b.seq < due.seq
            and b.status in ('pending', 'sending')
            and (b.status = 'sending' or b.starts > 0 or b.is_in_line or b.due_at <= duly.now())
            and b.id <> all (array(select d.id from due as d))
    )
    order by due.seq
    limit 1;
    raise exception 'rolled back' using errcode = 'DU000';  -- and with it the locks
exception when sqlstate 'DU000' then
    return key;
end
$$;
comment on function duly.find_next_message() is 'Which message would a sender with one free slot take this instant?';

-- Who may do what ------------------------------------------------------------------------------------------------------

grant select on "user".webhooks to {worker};
grant select (user_id, url, created_at, updated_at) on "user".webhooks to {api}, {readonly};
revoke all on function duly.resend(uuid), duly.resolve(uuid, boolean), duly.is_locked(uuid), duly.find_next_message()
    from public;
grant execute on function duly.is_locked(uuid), duly.find_next_message() to {worker}, {api};
grant execute on function duly.resend(uuid), duly.resolve(uuid, boolean) to {api};
