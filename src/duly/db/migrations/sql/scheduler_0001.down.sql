-- Without the scheduler. What it wrote into the log stays there.

drop trigger outbox_note_sent on duly.outbox;
drop trigger person_follow_zone on duly.person;
drop trigger person_link_user on duly.person;
drop trigger person_user on duly.person;
drop trigger person_user_id on duly.person;
drop view scheduler.due_runs;
drop view scheduler.upcoming;
drop table expense.expenses;
drop table scheduler.confirmations;
drop table scheduler.reminders;
drop table scheduler.job_runs;
drop table scheduler.dropped_months;
drop table scheduler.job_run_keys;
drop table scheduler.missed_ranges;
drop table scheduler.job_plans;
drop table scheduler.expense_templates;
drop table scheduler.jobs;

-- "user".users goes if duly created it; links to the users of others stay.
do $users$
begin
    if starts_with(obj_description('"user".users'::regclass, 'pg_class'), 'Created by duly') then
        drop table "user".users;
        revoke all on schema "user" from {worker}, {api}, {readonly};
        update duly.person set user_id = null where user_id is not null;
    end if;
end
$users$;
revoke all on schema scheduler, expense from {worker}, {api}, {readonly};
