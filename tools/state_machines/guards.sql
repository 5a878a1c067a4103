-- A state machine in the database: a guard before every row, an insert into the log after every statement.
-- `render.py` fills in the names and transitions of each table.

-- name: guard
-- Refuses every transition that is not listed; an insert is one too. The guard alone writes revision and previous
-- state, whatever the caller sets: +1 exactly when the state changes, a leased row changes its owner, or progress is
-- recorded. It also stamps what else the table needs, because a second trigger would cost every row as much again.
create or replace function {schema}.{guard}() returns trigger
    language plpgsql
    as $guard${declare}
begin
    if tg_op = 'INSERT' then
        if not (new.{state}::text = any ({initial})) then
            raise exception '% cannot begin as %', {name}, new.{state} using errcode = 'DU001';
        end if;
        new.revision := 1;
        new.transition_from := null;{at_insert}
    elsif new.{key} is distinct from old.{key} then
        raise exception 'the primary key of % % cannot change', {name}, old.{key}
            using errcode = 'DU001';{immutable}
    elsif new.{state} is not distinct from old.{state} and not (
        {is_transition}
    ) then
        new.revision := old.revision;
        new.transition_from := null;{at_other_update}
    elsif new.{state} is distinct from old.{state} and not (case old.{state}::text
        {edges}
        else false
    end) then
        raise exception '% % cannot go from % to %', {name}, old.{key},
            old.{state}, new.{state} using errcode = 'DU001';
    else
        new.revision := old.revision + 1;
        new.transition_from := old.{state}::text;{at_transition}
    end if;{rules}
    return new;
end
$guard$;

-- name: guard_trigger
-- The guard is called for every row.
create or replace trigger {guard}
    before insert or update on {schema}.{table}
    for each row execute function {schema}.{guard}();

-- name: verifying_guard_triggers
-- Rows that are exactly as the guard would write them pass without a call. Every statement parses a WHEN again, so it
-- has no rules of columns that such statements do not write: an update that names one of these columns is guarded, and
-- the rules of new rows are checked when they are logged.
create or replace trigger {guard_insert}
    before insert on {schema}.{table}
    for each row when ((
        {insert_is_exact}
    ) is not true)
    execute function {schema}.{guard}();

create or replace trigger {guard_update}
    before update on {schema}.{table}
    for each row when ((
        {update_is_exact}
    ) is not true)
    execute function {schema}.{guard}();

create or replace trigger {guard_columns}
    before update of
        {guarded_columns}
    on {schema}.{table}
    for each row when (
        {is_verified_edge}
    )
    execute function {schema}.{guard}();

-- name: immutable
-- Columns that cannot change after the insert.
elsif (
    {news}
) is distinct from (
    {olds}
) then
    raise exception 'of % % these stay as they are: %', {name}, old.{key},
        {columns}
        using errcode = 'DU001';

-- name: rules
-- What CHECK constraints would enforce, with the same error. But a CHECK is parsed again by every statement, and twenty
-- of them cost more than the insert of one row itself. Here they are parsed once.
broken_rule := case
    {each}
end;
if broken_rule is not null then
    raise exception '% % breaks the rule %', {name}, new.{key}, broken_rule
        using errcode = 'check_violation', constraint = broken_rule;
end if;

-- name: timeline
-- One line of the log per transition and one insert per statement, from the new rows alone: joining old and new rows is
-- quadratic in the batch. It runs as its owner, because no other role may write the log.
create or replace function {schema}.{timeline}() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp{settings}
    as $timeline$
begin
    insert into {log} ({columns})
    select
        {values}
    from new_rows
    where transition_from is not null or tg_op = 'INSERT';
    return null;
end
$timeline$;

create or replace trigger {timeline_insert}
    after insert on {schema}.{table}
    referencing new table as new_rows
    for each statement execute function {schema}.{insert_timeline}();

create or replace trigger {timeline_update}
    after update on {schema}.{table}
    referencing new table as new_rows
    for each statement execute function {schema}.{timeline}();

-- name: verifying_timeline
-- The log of new rows, which the guard may have let pass: this refuses a row that breaks a rule. Its plan is kept.
create or replace function {schema}.{insert_timeline}() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp{settings}
    as $timeline$
begin
    insert into {log} ({columns})
    select
        {values}
    from (
        select *, case
            {broken_rule}
        end as broken_rule
        from new_rows
        offset 0  -- the rules are evaluated once
    ) as logged
    where broken_rule is null or duly.refuse_row({name}, {key}::text, broken_rule);
    return null;
end
$timeline$;
