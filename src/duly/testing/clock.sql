-- The clock of a test database.

-- name: install_test_clock
-- Replaces the two clock functions of duly by ones with an offset that every role may change, and has the defaults that
-- are now() follow it too.
create table duly.test_clock (shift interval not null);
insert into duly.test_clock values ('0');
grant select, update on duly.test_clock to public;
create or replace function duly.clock() returns timestamptz language sql volatile parallel safe
    return clock_timestamp() + (select shift from duly.test_clock);
create or replace function duly.now() returns timestamptz language sql stable parallel safe
    return statement_timestamp() + (select shift from duly.test_clock);
do $defaults$
declare
    item record;
begin
    for item in
        select c.oid::regclass as table_name, a.attname as column_name
        from pg_catalog.pg_attrdef as d
        inner join pg_catalog.pg_class as c on c.oid = d.adrelid
        inner join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum = d.adnum
        inner join pg_catalog.pg_namespace as n on n.nspname = 'duly' and n.nspowner = c.relowner
        where pg_get_expr(d.adbin, d.adrelid) = 'now()'
    loop
        execute format(
            'alter table only %s alter column %I set default duly.clock()', item.table_name, item.column_name
        );
    end loop;
end
$defaults$;

-- name: has_test_clock
-- Only a test database has it.
select to_regclass('duly.test_clock') is not null;

-- name: move_clock
-- Both clocks have one offset, so they never disagree.
update duly.test_clock set shift = shift + make_interval(secs => %(seconds)s);

-- name: read_clock
-- The current time of this database.
select duly.clock();
