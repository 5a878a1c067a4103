-- What the scheduler writes once, when its functions and guards are there.

-- Numbers -------------------------------------------------------------------------------------------------------------
-- After going down and up again the log of before is still there: no id in it is used twice.

select setval(pg_get_serial_sequence('scheduler.jobs', 'id'), max(t.key::bigint))
from duly.transition as t
where t.machine = 'schedule'
having count(*) > 0;
select setval(pg_get_serial_sequence('scheduler.job_runs', 'id'), max(t.key::bigint))
from duly.transition as t
where t.machine = 'run'
having count(*) > 0;

-- Months --------------------------------------------------------------------------------------------------------------
-- A month is made beside the table and attached, which blocks neither readers nor writers. Rows that came before
-- their month was there lie in the default partition and move over with it.

create table scheduler.job_runs_default partition of scheduler.job_runs default;
select scheduler.watch_partition('scheduler.job_runs_default');
select scheduler.ensure_partitions();
