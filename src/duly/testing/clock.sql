-- The clock of a test database.

-- name: install_test_clock
-- Replaces the two clock functions of duly by ones with an offset that every role may change.
create table duly.test_clock (shift interval not null);
insert into duly.test_clock values ('0');
grant select, update on duly.test_clock to public;
create or replace function duly.clock() returns timestamptz language sql volatile parallel safe
    return clock_timestamp() + (select shift from duly.test_clock);
create or replace function duly.now() returns timestamptz language sql stable parallel safe
    return statement_timestamp() + (select shift from duly.test_clock);

-- name: has_test_clock
-- Only a test database has it.
select to_regclass('duly.test_clock') is not null;

-- name: move_clock
-- Both clocks have one offset, so they never disagree.
update duly.test_clock set shift = shift + make_interval(secs => %(seconds)s);

-- name: read_clock
-- The current time of this database.
select duly.clock();
