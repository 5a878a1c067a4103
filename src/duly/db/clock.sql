-- name: get_clock
-- The time now: for what is written down.
select duly.clock();

-- name: get_now
-- The time at the start of the statement: for what is compared with what is due.
select duly.now();
