"""One lawful row in every table that has a guard: what attacks start from, and are rolled back to."""

from typing import Any, LiteralString

import psycopg

ORG = "00000000-0000-0000-0000-00000000000a"
OTHER_ORG = "00000000-0000-0000-0000-00000000000b"

SAMPLE_ROWS: LiteralString = """
insert into duly.orgs (id, name) values
    ('00000000-0000-0000-0000-00000000000a', 'ours'), ('00000000-0000-0000-0000-00000000000b', 'theirs');
insert into duly.person (uid, telegram_id) values ('anna', 42), ('ben', 43);
insert into duly.calendars (person_id, token_sha256) select id, sha256('calendar') from duly.person where uid = 'anna';
insert into duly.webhooks (person_id, url, secret)
select id, 'https://example.org/hook', 'whsec_' || repeat('a', 32) from duly.person where uid = 'anna';
insert into duly.apprise_addresses (person_id, url)
select id, 'json://example.org/hook' from duly.person where uid = 'anna';
insert into duly.api_keys (name, prefix, secret_sha256, scopes, org_id)
values ('a key', 'duly_aaaaaaaaaaaa', sha256('key'), '{jobs}', '00000000-0000-0000-0000-00000000000a');
insert into duly.workers (id, worker_id, host, pid, version, work_types, slots)
values (gen_random_uuid(), 'worker-1', 'here', 1, '1', '{}', '{}');

select ledger.enqueue('00000000-0000-0000-0000-00000000000a', 'work', key => 'once');
select ledger.enqueue('00000000-0000-0000-0000-00000000000b', 'work', key => 'once');
insert into ledger.job_limit (type, max_running) values ('work', 5);

insert into posts.uploads (name, author_id) values ('temp/00000000-0000-0000-0000-000000000001.jpg', 'anna');
insert into posts.posts (author_id, created_at, updated_at, release_time, daily_key, request_id, image_url)
select
    'anna', at, at, at + interval '6 hours', posts.daily_key('anna', at), gen_random_uuid(), 'posts/00/1.jpg'
from (select duly.clock() - interval '7 hours' as at) as past;
insert into posts.daily_locks (id, post_id) select daily_key || '_UTC', id from posts.posts;
insert into posts.idempotency_keys (author_id, request_id, request_digest, post_id, answer, expires_at)
select 'anna', request_id, sha256('request'), id, '{}', duly.clock() + interval '30 days' from posts.posts;
insert into posts.intent_minutes (minute, outcome, intents)
values (date_trunc('minute', duly.now(), 'UTC'), 'CREATED', 1);

-- One session that still takes images, and two of the same person that are being read; a day with a version of one.
insert into schedule_ingest.capture_session (id, user_id) values
    ('00000000-0000-0000-0000-0000000000c1', 42),
    ('00000000-0000-0000-0000-0000000000c2', 42),
    ('00000000-0000-0000-0000-0000000000c3', 42);
insert into schedule_ingest.capture_image (session_id, sequence, r2_key, telegram_message_id)
values ('00000000-0000-0000-0000-0000000000c1', 1, 'one', 1);
update schedule_ingest.capture_session
set state = 'processing', locked_by = 'worker-1/a', locked_at = duly.clock(), lease_seconds = 60
where id <> '00000000-0000-0000-0000-0000000000c1';
insert into schedule_ingest.schedule_version (user_id, schedule_date, version, session_id, payload, payload_hash)
values (42, '2026-01-01', 1, '00000000-0000-0000-0000-0000000000c2', '{}', 'hash');
insert into schedule_ingest.day_snapshot (user_id, schedule_date, snapshot_payload, source_session_id)
values (42, '2026-01-01', '[]', '00000000-0000-0000-0000-0000000000c2');
insert into schedule_ingest.schedule_event (
    event_id, user_id, schedule_date, event_type, location_fingerprint, customer_fingerprint, old_value_hash,
    new_value_hash, new_value, source_session_id, seq
) values (
    gen_random_uuid(), 42, '2026-01-01', 'shift_added', 'place', 'customer', 'old', 'new', '{}',
    '00000000-0000-0000-0000-0000000000c2', 1
);
insert into schedule_ingest.schedule_notification
    (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids)
values ('one', 42, '2026-01-01', '00000000-0000-0000-0000-0000000000c2', 'summary', 'a day', '[]');

insert into scheduler.jobs (user_id, name, rule, first_run_at, idempotency_key, request_digest)
select user_id, 'Rent', 'cron: 0 10 1 * *', duly.clock(), 'once', sha256('request') from duly.person where uid = 'anna';
insert into scheduler.expense_templates (job_id, amount, currency) select id, 9, 'EUR' from scheduler.jobs;
insert into scheduler.job_runs (job_id, period_key, scheduled_at, remind_at)
select id, 'this month', duly.clock(), duly.clock() from scheduler.jobs;
insert into scheduler.missed_ranges (job_id, from_at, until_at, rule, zone, first_run_at, reason)
select id, '2025-01-01Z', '2025-02-01Z', rule, 'UTC', '2025-01-01Z', 'missed' from scheduler.jobs;
insert into scheduler.dropped_months (month, runs) values ('2025-01-01', 0);
insert into scheduler.reminders (job_run_id, sent_at) select id, duly.clock() from scheduler.job_runs;
insert into scheduler.confirmations (job_run_id, action, confirmed_at, idempotency_key)
select id, 'snooze', duly.clock(), 'tap' from scheduler.job_runs;

-- A reminder that waits to be sent.
insert into duly.outbox (id, channel, recipient, kind, payload, dedupe_key)
select '00000000-0000-0000-0000-0000000000d1', 'console', 'anna', 'reminder.due',
    jsonb_build_object('job_run_id', id), 'once'
from scheduler.job_runs;
update scheduler.job_runs set message_id = '00000000-0000-0000-0000-0000000000d1', remind_at = null;

-- One entry that was taken back, and one that was not.
insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)
select p.user_id, 'Rent', 9, 'EUR', duly.clock(), given.source_ref
from duly.person as p, unnest(array['wrong', 'right']) as given (source_ref)
where p.uid = 'anna';
insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref, reverses)
select user_id, name, -amount, currency, duly.clock(), 'taken back', id
from expense.expenses
where source_ref = 'wrong';
"""


def insert_sample_rows(connection: psycopg.Connection[Any]) -> None:
    """Fill a database that was just migrated."""
    connection.execute(SAMPLE_ROWS)
