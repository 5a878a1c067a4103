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

-- Partitions ----------------------------------------------------------------------------------------------------------
-- Two edges that meet at the beginning of this month; the months are taken off them.

create table scheduler.job_runs_past partition of scheduler.job_runs
    for values from (minvalue) to (date_trunc('month', duly.now(), 'UTC'));
create table scheduler.job_runs_future partition of scheduler.job_runs
    for values from (date_trunc('month', duly.now(), 'UTC')) to (maxvalue);
select scheduler.add_partition_triggers('scheduler.job_runs_past');
select scheduler.add_partition_triggers('scheduler.job_runs_future');
select scheduler.ensure_partitions();
