-- What the scheduler writes once, when its functions and guards are there.

-- Numbers -------------------------------------------------------------------------------------------------------------
-- Whoever went down and comes up again finds the log of before: no number in it is given twice.

select setval(pg_get_serial_sequence('scheduler.jobs', 'id'), max(t.key::bigint))
from duly.transition as t
where t.machine = 'schedule'
having count(*) > 0;
select setval(pg_get_serial_sequence('scheduler.job_runs', 'id'), max(t.key::bigint))
from duly.transition as t
where t.machine = 'run'
having count(*) > 0;

-- Months --------------------------------------------------------------------------------------------------------------
-- A month is made beside the table and attached, which keeps nobody from reading or writing. Rows that came before
-- their month was there lie in the default partition and move over with it.

create table scheduler.job_runs_default partition of scheduler.job_runs default;
select scheduler.watch_partition('scheduler.job_runs_default');
select scheduler.ensure_partitions();
