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

-- Users ---------------------------------------------------------------------------------------------------------------
-- Links to users that are gone are removed; where duly created "user".users, the people there are get a row each.

update duly.person as p set user_id = null
where p.user_id is not null and not exists (select from "user".users as u where u.id = p.user_id);
do $users$
begin
    if scheduler.owns_users() then
        insert into "user".users (id) select p.id from duly.person as p;
        update duly.person set user_id = id;
    end if;
end
$users$;

-- Partitions ----------------------------------------------------------------------------------------------------------
-- Two edges that meet at the beginning of this month; the months are taken off them.

create table scheduler.job_runs_past partition of scheduler.job_runs
    for values from (minvalue) to (date_trunc('month', duly.now(), 'UTC'));
create table scheduler.job_runs_future partition of scheduler.job_runs
    for values from (date_trunc('month', duly.now(), 'UTC')) to (maxvalue);
select scheduler.add_partition_triggers('scheduler.job_runs_past');
select scheduler.add_partition_triggers('scheduler.job_runs_future');
select scheduler.ensure_partitions();
