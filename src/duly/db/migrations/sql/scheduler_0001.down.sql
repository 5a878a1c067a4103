-- Without the scheduler. What it wrote into the log stays there.

drop trigger outbox_note_sent on duly.outbox;
drop trigger users_follow_zone on "user".users;
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
revoke all on schema scheduler, expense from {worker}, {api}, {readonly};
