-- What every schema of duly is built on: the clocks, ids, checks, append-only tables and wake-ups. It is created before
-- the tables, because their defaults and checks call it; nothing here may read a table.

-- The clocks ----------------------------------------------------------------------------------------------------------
-- Every default, trigger and predicate of duly reads the time through these two. Plain SQL, so the planner inlines
-- them; a test database replaces their bodies and moves the time.

create or replace function duly.clock() returns timestamptz
    language sql volatile parallel safe
    return clock_timestamp();
comment on function duly.clock() is
    'The current time, for timestamps that are written: a statement that waited must not write an old one.';

create or replace function duly.now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();
comment on function duly.now() is 'The time at the start of the statement, for conditions that an index must serve.';

create or replace function duly.new_id() returns uuid
    language sql volatile parallel safe
    return encode(
        -- Six bytes of milliseconds before a random uuid, whose version 4 becomes a 7 by two bits.
        set_bit(set_bit(overlay(
            uuid_send(gen_random_uuid())
            placing substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3)
            from 1
        ), 52, 1), 53, 1),
        'hex'
    )::uuid;
comment on function duly.new_id() is 'A UUIDv7: rows created together lie together in every index that begins with it.';

create or replace function duly.new_ids(many bigint) returns uuid[]
    language sql volatile parallel safe
    return array(
        -- Six bytes of milliseconds; 14 bits that count, beside the version 7 and a UUID's own two; 60 bits of a hash.
        select encode(
            seed.milliseconds
            || int2send((28672 + n / 4)::int2)
            || int8send(
                (uuid_hash_extended(seed.random, n) & 1152921504606846975) | ((n & 3) << 60) | (-9223372036854775808)
            ),
            'hex'
        )::uuid
        from (
            select
                gen_random_uuid() as random,
                substr(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint), 3) as milliseconds
            offset 0  -- read once
        ) as seed
        cross join generate_series(0, many - 1) as n
        order by n
    );
comment on function duly.new_ids(bigint) is
    'Ascending UUIDv7, at most 16384, from one random number, which is all that keeps them apart from others.';

create or replace function duly.is_time_zone(zone text) returns boolean
    language plpgsql immutable parallel safe
    as $$
begin
    perform timestamptz 'epoch' at time zone zone;
    return zone ~ '^[A-Za-z]';  -- a bare offset has no summer time and is not a zone
exception when invalid_parameter_value then
    return false;
end
$$;

create or replace function duly.touch() returns trigger
    language plpgsql
    as $$
begin
    new.updated_at := duly.clock();
    return new;
end
$$;
comment on function duly.touch() is 'Sets updated_at, whatever the caller wrote.';

-- Append-only tables --------------------------------------------------------------------------------------------------
-- No role is granted DELETE or TRUNCATE. This trigger refuses them to the owner too, except to retention in its own
-- transaction.

create or replace function duly.refuse_change() returns trigger
    language plpgsql
    as $$
begin
    if tg_op = 'DELETE' and current_setting('duly.retention', true) = 'on' then
        return old;
    end if;
    raise exception '%.% is append-only: % refused', tg_table_schema, tg_table_name, tg_op
        using errcode = 'restrict_violation';
end
$$;

create or replace function duly.refuse_row(machine text, key text, broken_rule text) returns boolean
    language plpgsql
    as $$
begin
    raise exception '% % breaks the rule %', machine, key, broken_rule
        using errcode = 'check_violation', constraint = broken_rule;
end
$$;
comment on function duly.refuse_row(text, text, text) is
    'Refuses a row that breaks a rule of its state machine, as a CHECK constraint of this name would; returns nothing.';

create or replace function duly.this_window() returns bigint
    language sql volatile parallel safe
    return floor(date_part('epoch', clock_timestamp()) * 20)::bigint;
comment on function duly.this_window() is 'The number of the current 50 ms by the real clock, which no test moves.';

create or replace function duly.wake(channel text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
declare
    last_window constant regclass := to_regclass(format('duly.%I', 'wake_' || channel));
    this_window constant bigint := duly.this_window();
begin
    if last_window is null then
        raise exception 'cannot wake workers on channel "%": there is no sequence duly.wake_%', channel, channel
            using errcode = 'undefined_object';
    end if;
    -- A window more than a second ahead was written before the clock was set back: it must not keep us silent until
    -- then.
    if pg_sequence_last_value(last_window) between this_window and this_window + 20 then
        return;
    end if;
    perform setval(last_window, this_window);
    perform pg_notify('duly_' || channel, '');
end
$$;
comment on function duly.wake(text) is
    'Notify the workers of a channel when this transaction commits; at most once per 50 ms.';

create or replace function duly.wake_workers() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    -- The window is checked first, and here, because most statements end with that, and a call costs time.
    if pg_sequence_last_value(('duly.wake_' || tg_argv[0])::regclass) is distinct from duly.this_window()
        and exists (select from new_rows) then
        perform duly.wake(tg_argv[0]);
    end if;
    return null;
end
$$;
comment on function duly.wake_workers() is
    'AFTER INSERT, REFERENCING NEW TABLE AS new_rows: notify the given channel if rows were inserted.';

-- Logs that only grow, on every partition -----------------------------------------------------------------------------
-- A row trigger of a partitioned table is cloned to its partitions; a trigger against TRUNCATE is not. Call this after
-- creating a partition of such a log, for the partition or for the full log: existing triggers stay.

create or replace function duly.protect(log regclass) returns void
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
    'Make a table, and each partition it has now, refuse UPDATE, DELETE and TRUNCATE.';

-- Privileges ----------------------------------------------------------------------------------------------------------

grant usage on schema duly to {worker}, {api}, {readonly};
grant execute on function duly.clock(), duly.now(), duly.new_id(), duly.is_time_zone(text), duly.touch(),
    duly.refuse_change()
    to {worker}, {api}, {readonly};
grant execute on function duly.wake(text) to {worker}, {api};
