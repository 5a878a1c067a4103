-- name: get_clock
-- The current time: for timestamps that are written.
select duly.clock();

-- name: get_now
-- The time at the start of the statement: for comparison with due times.
select duly.now();
