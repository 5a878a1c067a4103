-- The outbox, wake-ups for workers, logs that only grow on every partition, and retention.

-- Wake-ups -------------------------------------------------------------------------------------------------------------
-- A notification costs every commit that sends one, so at most one goes out per window of 50 ms and channel. The channel's
-- sequence holds the last window in which one was sent: sequences know no transactions, so nobody waits for anybody, and a
-- window claimed by a transaction that rolls back is over in 50 ms all the same. A hint, never more: workers also poll.

create sequence duly.wake_outbox as bigint;
comment on sequence duly.wake_outbox is 'The last window of 50 ms in which the senders were woken.';

create function duly.this_window() returns bigint
    language sql volatile parallel safe
    return floor(date_part('epoch', clock_timestamp()) * 20)::bigint;
comment on function duly.this_window() is 'The number of the present 50 ms, by the real clock: no test moves this one.';

create function duly.wake(channel text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    last_window constant regclass := to_regclass(format('duly.%I', 'wake_' || channel));
    this_window constant bigint := duly.this_window();
begin
    if last_window is null then
        raise exception 'nobody can be woken on channel "%": there is no sequence duly.wake_%', channel, channel
            using errcode = 'undefined_object';
    end if;
    -- A window more than a second ahead was written before the clock was set back: it must not keep us silent until then.
    if pg_sequence_last_value(last_window) between this_window and this_window + 20 then
        return;
    end if;
    perform setval(last_window, this_window);
    perform pg_notify('duly_' || channel, '');
end
$$;
comment on function duly.wake(text) is
    'Tell the workers of a channel, when this commits, that there is work; at most once per 50 ms.';

create function duly.wake_workers() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- The window is looked at first, and here, because most statements end with that: every call saved is felt.
    if pg_sequence_last_value(('duly.wake_' || tg_argv[0])::regclass) is distinct from duly.this_window()
        and exists (select from made) then
        perform duly.wake(tg_argv[0]);
    end if;
    return null;
end
$$;
comment on function duly.wake_workers() is
    'After an insert, "referencing new table as made": wake the channel it is given, if anything was made.';

-- The outbox -----------------------------------------------------------------------------------------------------------
-- There is no updated_at: a heartbeat would have to write it, and the log knows better.

create table duly.outbox (
    id uuid not null default gen_random_uuid(),
    channel text not null,
    recipient text not null,
    kind text not null,
    payload jsonb not null,
    dedupe_key text,
    status text not null default 'pending',
    due_at timestamptz not null default duly.clock(),
    created_at timestamptz not null default duly.clock(),
    called_at timestamptz,
    sent_at timestamptz,
    starts bigint not null default 0,
    last_error text,
    receipt text,
    lease_owner text,
    lease_expires_at timestamptz,
    settled_by text,
    revision bigint not null default 0,
    moved_from text,
    constraint pk_outbox primary key (id),
    constraint uq_outbox__dedupe_key unique (dedupe_key),
    constraint ck_outbox__channel check (channel ~ '^[a-z][a-z0-9_]{0,31}$'),
    constraint ck_outbox__recipient check (octet_length(recipient) between 1 and 1024),
    constraint ck_outbox__kind check (kind ~ '^[a-z][a-z0-9_.]{0,63}$'),
    constraint ck_outbox__payload check (jsonb_typeof(payload) = 'object' and pg_column_size(payload) <= 65536),
    constraint ck_outbox__dedupe_key check (octet_length(dedupe_key) between 1 and 512),
    constraint ck_outbox__status check (status in ('pending', 'sending', 'sent', 'failed', 'uncertain')),
    constraint ck_outbox__lease check (
        num_nonnulls(lease_owner, lease_expires_at) = case when status = 'sending' then 2 else 0 end
    ),
    constraint ck_outbox__called_at check (
        case status when 'pending' then called_at is null when 'uncertain' then called_at is not null else true end
    ),
    constraint ck_outbox__sent_at check ((status = 'sent') = (sent_at is not null)),
    constraint ck_outbox__last_error check (
        char_length(last_error) between 1 and 2048 and (status <> 'failed' or last_error is not null)
    ),
    constraint ck_outbox__receipt check (char_length(receipt) <= 2048),
    constraint ck_outbox__owners check (char_length(lease_owner) between 1 and 300 and char_length(settled_by) <= 300),
    constraint ck_outbox__starts check (starts >= 0),
    constraint ck_outbox__years_2000_to_2200 check (
        extract(epoch from least(due_at, created_at, called_at, sent_at, lease_expires_at)) >= 946684800
        and extract(epoch from greatest(due_at, created_at, called_at, sent_at, lease_expires_at)) < 7258118400
    )
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
comment on table duly.outbox is
    'What is to be said to somebody outside: written with what it tells of, sent by whoever leases it.';
comment on column duly.outbox.id is 'The name of the message for every transport, at every try.';
comment on column duly.outbox.dedupe_key is
    'A transaction that is tried again writes one message; free again once retention took it.';
comment on column duly.outbox.called_at is
    'Written just before the transport is called: a lease that lapses later leaves the outcome uncertain.';
comment on column duly.outbox.receipt is 'What the transport called it.';
create index idx_outbox__due_at_id on duly.outbox (due_at, id) where status = 'pending';
create index idx_outbox__id on duly.outbox (id) where status = 'sending';

create function duly.stamp_sent_message() returns trigger
    language plpgsql
    as $$
begin
    new.sent_at := case old.status when 'uncertain' then old.called_at else duly.clock() end;
    return new;
end
$$;
comment on function duly.stamp_sent_message() is
    'sent_at is the database''s word; a message that turns out to have arrived was sent when its transport was called.';
create trigger outbox_stamp_sent before update on duly.outbox
    for each row when (new.status = 'sent' and old.status <> 'sent') execute function duly.stamp_sent_message();
create trigger outbox_wake after insert on duly.outbox
    referencing new table as made
    for each statement execute function duly.wake_workers('outbox');

-- What follows is rendered from OUTBOX_MACHINE in duly/outbox/states.py; a test compares.

create function "duly"."outbox_guard"() returns trigger
    language plpgsql
    as $guard$
begin
    if tg_op = 'INSERT' then
        if not (new."status"::text = any (array['pending'])) then
            raise exception '% cannot begin as %', 'outbox', new."status" using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.moved_from := null;
    elsif new."id" is distinct from old."id" then
        raise exception 'the key of % % cannot change', 'outbox', old."id" using errcode = 'DU001';
    elsif new."status" is not distinct from old."status" and not ((old."status"::text = 'sending' and new."lease_owner" is distinct from old."lease_owner")) then
        new.revision := old.revision;
        new.moved_from := null;
    elsif new."status" is distinct from old."status" and not (case old."status"::text when 'pending' then new."status"::text = any (array['sending', 'failed']) when 'sending' then new."status"::text = any (array['sent', 'pending', 'failed', 'uncertain']) when 'uncertain' then new."status"::text = any (array['sent', 'pending', 'failed']) when 'failed' then new."status"::text = any (array['pending']) else false end) then
        raise exception '% % cannot go from % to %', 'outbox', old."id", old."status", new."status" using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.moved_from := old."status"::text;
    end if;
    return new;
end
$guard$;

create trigger "outbox_guard" before insert or update on "duly"."outbox"
    for each row execute function "duly"."outbox_guard"();

create function "duly"."outbox_timeline"() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $timeline$
begin
    insert into duly.transition (machine, key, seq, prev_status, next_status, actor, detail_json)
    select 'outbox', "id"::text, revision, moved_from, "status"::text, case when status = 'sending' then lease_owner when moved_from = 'sending' then settled_by end, jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at, 'error', case when status in ('pending', 'failed', 'uncertain') then last_error end))
    from moved
    where moved_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create trigger "outbox_timeline_insert" after insert on "duly"."outbox"
    referencing new table as moved
    for each statement execute function "duly"."outbox_timeline"();

create trigger "outbox_timeline_update" after update on "duly"."outbox"
    referencing new table as moved
    for each statement execute function "duly"."outbox_timeline"();

-- Logs that only grow, on every partition ------------------------------------------------------------------------------
-- A row trigger of a partitioned table is cloned to its partitions; a trigger against TRUNCATE is not. Whoever makes a
-- partition of such a log calls this afterwards, for the partition or for the whole log: what is there stays.

create function duly.protect(log regclass) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
declare
    part regclass;
begin
    for part in
        select coalesce(tree.relid, log)
        from (select) as itself left join pg_partition_tree(log) as tree on true
        order by tree.level
    loop
        if not exists (select from pg_trigger where tgrelid = part and tgname = 'is_append_only') then
            execute format('create trigger is_append_only before update or delete on %s'
                ' for each row execute function duly.refuse_change()', part);
        end if;
        if not exists (select from pg_trigger where tgrelid = part and tgname = 'is_not_emptied') then
            execute format('create trigger is_not_emptied before truncate on %s'
                ' for each statement execute function duly.refuse_change()', part);
        end if;
    end loop;
end
$$;
comment on function duly.protect(regclass) is
    'Make a table, and each partition it has by now, refuse UPDATE, DELETE and TRUNCATE.';

-- Retention ------------------------------------------------------------------------------------------------------------
-- The only way anything leaves a log. EXECUTE on it is the lock; the flag it sets, for as long as it runs, is the catch.

create function duly.is_finished(machine text, status text) returns boolean
    language sql immutable parallel safe
    return case machine when 'outbox' then status in ('sent', 'failed') else false end;
comment on function duly.is_finished(text, text) is
    'Where a history may end. A migration that brings a machine adds its ends; until then its histories are kept for ever.';

create function duly.retain(older_than interval, most bigint, out messages bigint, out transitions bigint)
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
    if most is null or most not between 1 and 10000 then
        raise exception 'retention takes 1 to 10000 histories at a time, not %', coalesce(most::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    -- Whole histories, the oldest first, judged by their newest line: what stays counts 1, 2, 3.
    select array_agg(e.machine), array_agg(e.key), array_agg(e.seq) into machines, keys, seqs from (
        select t.machine, t.key, t.seq
        from duly.transition t
        where t.ts < cutoff and duly.is_finished(t.machine, t.next_status) and not exists (
            select from duly.transition later where later.machine = t.machine and later.key = t.key and later.seq > t.seq
        )
        order by t.ts, t.machine, t.key
        limit most
    ) as e;
    perform set_config('duly.retention', 'on', true);
    -- A message goes with its history. One that moves this instant is locked, or is past where its history ended: it stays.
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
comment on function duly.retain(interval, bigint) is
    'Remove up to so many histories that ended longer ago than this, with the messages they are of; returns how much went.';

-- Who may do what ------------------------------------------------------------------------------------------------------

revoke all on all functions in schema duly from public;
grant select on duly.outbox to {worker}, {api}, {readonly};
grant insert on duly.outbox to {worker}, {api};
grant update on duly.outbox to {worker};
grant execute on function duly.wake(text) to {worker}, {api};
grant execute on function duly.retain(interval, bigint) to {worker};
