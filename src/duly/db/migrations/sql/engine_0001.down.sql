-- Without the engine. The schemas and roles stay: others may have put something there.

drop table ledger.job_limit;
drop table ledger.job_event;
drop table ledger.job;
drop table duly.outbox;
drop table duly.transition;
drop table duly.workers;
drop table duly.link_keys;
drop table duly.api_keys;
drop table duly.apprise_addresses;
drop table duly.webhooks;
drop table duly.calendars;
drop table duly.person;
drop table duly.orgs;
drop sequence duly.wake_ledger;
drop sequence duly.wake_outbox;
drop type ledger.job_backoff_policy;
drop type ledger.job_status;
revoke all on schema ledger from {worker}, {api}, {readonly};
