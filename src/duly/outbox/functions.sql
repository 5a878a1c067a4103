-- The outbox: time stamps, retention, resend and resolve, privileges.

create or replace function duly.stamp_sent_message() returns trigger
    language plpgsql
    as $$
begin
    new.sent_at := case old.status when 'uncertain' then old.called_at else duly.clock() end;
    return new;
end
$$;
comment on function duly.stamp_sent_message() is
    'Sets sent_at; for an uncertain message that did arrive it is the time at which its transport was called.';
create or replace trigger outbox_stamp_sent before update on duly.outbox
    for each row when (new.status = 'sent' and old.status <> 'sent') execute function duly.stamp_sent_message();
create or replace trigger outbox_wake after insert on duly.outbox
    referencing new table as new_rows
    for each statement execute function duly.wake_workers('outbox');

-- Retention -----------------------------------------------------------------------------------------------------------
-- The only way a row leaves a log. EXECUTE decides which role may; the flag that it sets while it runs keeps every
-- other delete from succeeding by mistake.

create or replace function duly.is_finished(machine text, status text) returns boolean
    language sql immutable parallel safe
    return case machine when 'outbox' then status in ('sent', 'failed') else false end;
comment on function duly.is_finished(text, text) is
    'Whether a history may end in this status; only then retention removes it.';

create or replace function duly.purge_messages(
    older_than interval, max_histories bigint, out messages bigint, out transitions bigint
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
    as $$
declare
    cutoff constant timestamptz := duly.now() - older_than;
    machines text[];
    keys text[];
    seqs bigint[];
begin
    if cutoff is null or cutoff > duly.now() - interval '1 day' then
        raise exception 'retention keeps at least 1 day, not %', coalesce(older_than::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if max_histories is null or max_histories not between 1 and 10000 then
        raise exception 'retention takes 1 to 10000 histories at a time, not %', coalesce(max_histories::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    -- Full histories, the oldest first, by their newest line: the numbers of what stays have no gap.
    select array_agg(e.machine), array_agg(e.key), array_agg(e.seq) into machines, keys, seqs from (
        select t.machine, t.key, t.seq
        from duly.transition t
        where t.ts < cutoff and duly.is_finished(t.machine, t.next_status) and not exists (
            select from duly.transition later
            where later.machine = t.machine and later.key = t.key and later.seq > t.seq
        )
        order by t.ts, t.machine, t.key
        limit max_histories
    ) as e;
    perform set_config('duly.retention', 'on', true);
    -- A message is deleted with its history. One that changes meanwhile is locked, or has a later revision: it stays.
    with finished as (
        select o.id
        from duly.outbox o
        join unnest(machines, keys, seqs) as e (machine, key, seq)
            on o.id = case e.machine when 'outbox' then e.key::uuid end and o.revision = e.seq
        order by o.id
        for update of o skip locked
    )
    delete from duly.outbox o using finished where o.id = finished.id;
    get diagnostics messages = row_count;
    delete from duly.transition t
    using unnest(machines, keys) as e (machine, key)
    where t.machine = e.machine and t.key = e.key and not exists (
        select from duly.outbox o where o.id = case e.machine when 'outbox' then e.key::uuid end
    );
    get diagnostics transitions = row_count;
    perform set_config('duly.retention', '', true);
end
$$;
comment on function duly.purge_messages(interval, bigint) is
    'Remove histories that ended longer ago than this, at most max_histories, with their messages; return how many '
    'rows.';

-- Resend and resolve --------------------------------------------------------------------------------------------------

create or replace function duly.resend(message uuid) returns text
    language sql security definer set search_path = pg_catalog, pg_temp
    begin atomic
        update duly.outbox as o
        set status = 'pending', called_at = null, starts = 0, due_at = duly.clock(), last_error = null
        where o.id = message and o.status in ('failed', 'uncertain')
        returning o.status;
    end;
comment on function duly.resend(uuid) is
    'Put a failed or uncertain message back in the queue under the same id; null if it is neither.';

create or replace function duly.resolve(message uuid, was_sent boolean) returns text
    language sql security definer set search_path = pg_catalog, pg_temp
    begin atomic
        update duly.outbox as o
        set status = case when was_sent then 'sent' else 'failed' end,
            last_error = case
                when was_sent then o.last_error
                else coalesce(o.last_error, 'an operator recorded that it did not arrive')
            end
        where o.id = message and o.status = 'uncertain'
        returning o.status;
    end;
comment on function duly.resolve(uuid, boolean) is 'Settle an uncertain message as sent or as failed.';

-- Explain -------------------------------------------------------------------------------------------------------------

create or replace function duly.is_locked(message uuid) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    perform from duly.outbox as o where o.id = message for no key update skip locked;
    return not found;
end
$$;
comment on function duly.is_locked(uuid) is
    'Whether another transaction has locked this message, so that senders skip it; only trying to lock it shows that.';

create or replace function duly.find_next_message() returns uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    next_message uuid;
begin
    -- The same as `claim` of outbox/lease.sql, which serves two tables; a test compares. A message of a channel that is
    -- not configured has the reason in last_error.
    with due as (
        select t.id, t.channel, t.recipient, t.seq
        from duly.outbox as t
        where t.status = 'pending' and t.due_at <= duly.now()
            and not starts_with(coalesce(t.last_error, ''), 'CHANNEL_NOT_CONFIGURED: ')
        order by t.due_at, t.id
        limit 500
        for no key update skip locked
    )
    select due.id into next_message
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
    return next_message;
end
$$;
comment on function duly.find_next_message() is 'The message that a sender with one free slot would claim now.';

-- Privileges ----------------------------------------------------------------------------------------------------------

grant select on duly.outbox to {worker}, {api}, {readonly};
grant insert on duly.outbox to {worker}, {api};
grant update on duly.outbox to {worker};
grant execute on function duly.purge_messages(interval, bigint) to {worker};
grant execute on function duly.is_locked(uuid), duly.find_next_message() to {worker}, {api};
grant execute on function duly.resend(uuid), duly.resolve(uuid, boolean) to {api};
