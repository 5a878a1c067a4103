"""Violations of every invariant, planted past the guards: what `duly verify` must find.

The name of a violation is that of the one invariant it violates; where this can be done in several ways, words
follow after a colon. Each is one text of statements, run in one transaction.
"""

GUARDS_OFF = "set session_replication_role = replica;"  # no guard fires, and the catalogue stays as it is
GUARDS_ON = "set session_replication_role = origin;"

LOG = "insert into duly.transition (machine, key, seq, prev_status, next_status) values "
MESSAGE = "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'reminder', '{}');"
JOB = "select ledger.enqueue('00000000-0000-0000-0000-000000000001', 'work', run_at => '2020-01-01Z');"
RUN = "select ledger.claim('{default}', '{work}', 'me/1', 60, 1);"
SUCCEED = (
    "update ledger.job set status = 'succeeded', settled_by = 'me/1', lease_owner = null, lease_expires_at = null;"
)
POST = (
    "insert into duly.person (uid) values ('anna');"
    " insert into posts.uploads (name, author_id) values ('temp/00000000-0000-0000-0000-000000000001.jpg', 'anna');"
    " select posts.create_intent('anna', gen_random_uuid(), sha256(''), '', name, true) from posts.uploads;"
)
DUE = (
    GUARDS_OFF + "update posts.posts set created_at = created_at - interval '7 hours',"
    " release_time = release_time - interval '7 hours';"
    "update posts.posts set daily_key = posts.daily_key(author_id, created_at);"
    "update posts.daily_locks set id = (select daily_key || '_UTC' from posts.posts);" + GUARDS_ON
)
CLAIM_POST = (
    "update posts.posts set status = 'PROCESSING', lease_owner = 'me/1',"
    " lease_expires_at = duly.clock() + interval '1 minute', process_attempts = 1;"
)
RELEASE_POST = (
    "update posts.posts set status = 'RELEASED', settled_by = 'me/1', lease_owner = null, lease_expires_at = null;"
)
NOTIFY_AUTHOR = (
    "insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)"
    " select 'console', author_id, 'post.released', '{}', 'post.released:' || id from posts.posts;"
)
POST_LOG = (
    "insert into duly.transition (machine, key, seq, prev_status, next_status, detail_json) select 'post', id::text, "
)
SCHEDULED = (
    "insert into duly.person (uid) values ('anna');"
    " insert into scheduler.jobs (user_id, name, rule, first_run_at)"
    " select user_id, 'Rent', 'cron: 0 10 1 * *', now() from duly.person;"
    " insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
    " select id, '2026-11', now() from scheduler.jobs;"
)
CAPTURE = "00000000-0000-0000-0000-000000000001"
OTHER = "00000000-0000-0000-0000-000000000002"
OPEN = f"insert into schedule_ingest.capture_session (id, user_id) values ('{CAPTURE}', 42);"
CLAIM_SESSION = (
    "update schedule_ingest.capture_session set state = 'processing', locked_by = 'me/1', locked_at = duly.clock(),"
    " lease_seconds = 60, starts = 1;"
)
WRITE = (
    "insert into schedule_ingest.schedule_version (user_id, schedule_date, version, session_id, payload, payload_hash)"
    f" values (42, '2026-02-10', 1, '{CAPTURE}', '{{}}', encode(sha256('{{}}'), 'hex'));"
    " insert into schedule_ingest.schedule_event (event_id, user_id, schedule_date, event_type, location_fingerprint,"
    " customer_fingerprint, old_value_hash, new_value_hash, new_value, source_session_id, seq)"
    f" values ('{CAPTURE}', 42, '2026-02-10', 'shift_added', 'l', 'c', 'o', 'n', '{{\"start\": 1}}', '{CAPTURE}', 1);"
    " insert into schedule_ingest.day_snapshot (user_id, schedule_date, snapshot_payload, source_session_id, events)"
    f" values (42, '2026-02-10', '[{{\"start\": 1}}]', '{CAPTURE}', 1);"
    " insert into schedule_ingest.schedule_notification (notification_id, user_id, schedule_date, source_session_id,"
    f" notification_type, message, event_ids) values ('n', 42, '2026-02-10', '{CAPTURE}', 'event', 'm',"
    f" '[\"{CAPTURE}\"]');"
)
FINISH = (
    "update schedule_ingest.capture_session set state = 'done', settled_by = 'me/1', locked_by = null,"
    " locked_at = null, lease_seconds = null,"
    ' result = \'{"outcome": "changed", "version": 1, "schedule_date": "2026-02-10"}\';'
)
FINISHED_SESSION = OPEN + CLAIM_SESSION + WRITE + FINISH + GUARDS_OFF
WORKER = (
    "insert into duly.workers (id, worker_id, host, pid, version, work_types, slots, started_at)"
    " select gen_random_uuid(), 'w', 'h', 1, 'v', '{ledger,ingest,scheduler,outbox,notifications}', '{}',"
    " duly.clock() - interval '1 hour';"
)
LONG_AGO = "duly.clock() - interval '1 hour'"
CLAIM_MESSAGE = (
    "update duly.outbox set status = 'sending', lease_owner = 'me/1', lease_expires_at = duly.clock(), starts = 1;"
)
SEND = "update duly.outbox set status = 'sent', settled_by = 'me/1', lease_owner = null, lease_expires_at = null;"
TEMPLATE = "insert into scheduler.expense_templates (job_id, amount, currency) select id, 5, 'EUR' from scheduler.jobs;"
CONFIRM = (
    "update scheduler.job_runs set status = 'confirmed';"
    " insert into scheduler.confirmations (job_run_id, action, idempotency_key, confirmed_at, payload)"
    " select id, 'complete', 'k', now() + interval '2 minutes', %s from scheduler.job_runs;"
)
BOOK = (
    "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref) select j.user_id, j.name,"
    " %s, 'EUR', c.confirmed_at, 'scheduler:' || j.id || ':2026-11' from scheduler.jobs as j, scheduler.confirmations"
    " as c;"
)
NOTIFY = (
    GUARDS_ON + "update schedule_ingest.schedule_notification set delivery = 'sending', lease_owner = 'me/1',"
    " lease_expires_at = duly.clock(), starts = 1;"
)
DELETE_LOG = GUARDS_OFF + "delete from duly.transition where machine = '{}';"  # what happened, and nothing else
FAIL = (
    "update ledger.job set status = 'failed', settled_by = 'me/1', lease_expires_at = null, last_error_code = 'OOPS',"
    """ event_detail = '{"actor": "me/1", "code": "OOPS"}';"""
)
DEAD_LETTER_JOB = (
    """update ledger.job set status = 'dead_letter', lease_owner = null, event_detail = '{"reason": "gave_up"}';"""
)
CANCEL = (
    "update ledger.job set status = 'canceled', settled_by = 'me/1', lease_owner = null, lease_expires_at = null,"
    """ cancel_requested_at = duly.clock(), event_detail = '{"actor": "me/1", "reason": "released"}';"""
)
SWEPT = FAIL.replace("settled_by = 'me/1', ", "").replace('"actor": "me/1"', '"actor": "sweep", "holder": "me/1"')
RETRY = (
    "update duly.outbox set status = 'pending', settled_by = 'me/1', lease_owner = null, lease_expires_at = null,"
    " starts = 2;"
)
RESENT = (
    "update duly.outbox set status = 'failed', settled_by = 'me/1', lease_owner = null, lease_expires_at = null,"
    " last_error = 'x'; update duly.outbox set status = 'pending', starts = 2;"
)
# Two senders died of it, and its starts are back at 0.
UNCOUNTED_STARTS = (
    CLAIM_MESSAGE
    + RETRY.replace("starts = 2", "starts = 1")
    + CLAIM_MESSAGE.replace("starts = 1", "starts = 2")
    + RETRY.replace("starts = 2", "starts = 0")
)
OUR_OWNER = "me/0123456789abcdefghijkl"  # as a worker of ours signs: with the token of its claim
# A second session of the same day, which was done, and what it made: version %s.
SECOND = (
    "insert into schedule_ingest.capture_session (id, user_id, state, settled_by, starts, revision, result)"
    f" values ('{OTHER}', 42, 'done', 'me/1', 1, 3,"
    ' \'{"outcome": "changed", "version": %s, "schedule_date": "2026-02-10"}\');'
    f" insert into duly.transition select machine, '{OTHER}', seq, ts, prev_status, next_status, actor, detail_json"
    f" from duly.transition where machine = 'capture' and key = '{CAPTURE}';"
)
MAKE = (
    f" insert into schedule_ingest.schedule_version select user_id, schedule_date, %s, '{OTHER}', payload,"
    " %s, created_at, canonicalizer from schedule_ingest.schedule_version;"
)
# A second event of the same day, with this number, and the snapshot to it.
NUMBERED = (
    "alter table schedule_ingest.schedule_event drop constraint ck_schedule_event__seq;"
    " insert into schedule_ingest.schedule_event (event_id, user_id, schedule_date, event_type, location_fingerprint,"
    " customer_fingerprint, old_value_hash, new_value_hash, new_value, source_session_id, seq)"
    f" values ('{OTHER}', 42, '2026-02-10', 'shift_added', 'l', 'c', 'o', 'm', '{{\"start\": 2}}', '{CAPTURE}', %s);"
    ' update schedule_ingest.day_snapshot set events = 2, snapshot_payload = \'[{"start": 1}, {"start": 2}]\''
)
# A day of another person, which a session of theirs saw: an event by the first and its snapshot by the second of two.
OTHER_USERS_DAY = (
    GUARDS_ON
    + f"insert into schedule_ingest.capture_session (id, user_id) values ('{OTHER}', 43);"
    + GUARDS_OFF
    + "insert into schedule_ingest.schedule_event (event_id, user_id, schedule_date, event_type, location_fingerprint,"
    " customer_fingerprint, old_value_hash, new_value_hash, new_value, source_session_id, seq)"
    f" values ('{OTHER}', 43, '2026-02-10', 'shift_added', 'l', 'c', 'o', 'n', '{{\"start\": 1}}', '%s', 1);"
    " insert into schedule_ingest.day_snapshot (user_id, schedule_date, snapshot_payload, source_session_id, events)"
    " values (43, '2026-02-10', '[{\"start\": 1}]', '%s', 1)"
)
ENTRIES = (
    SCHEDULED + GUARDS_OFF + " insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)"
    " select user_id, name, 5, 'EUR', now(), 'x' from scheduler.jobs;"
)
REVERSE = (
    "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref, reverses)"
    " select user_id, name, -5, 'EUR', now(), 'y', id from expense.expenses where reverses is null;"
)
KEYED = JOB.replace("'work',", "'work', key => 'k',").replace("run_at => '2020-01-01Z'", "payload => '{\"a\": 1}'")
MEMBER = (
    "do $$ begin create role duly_planted_member; exception when duplicate_object then null; end $$;"
    " grant duly_owner to duly_planted_member;"
)
MISSED = (
    "insert into scheduler.missed_ranges (job_id, from_at, until_at, rule, zone, first_run_at, reason)"
    " select user_id, %s, %s, rule, 'UTC', first_run_at, 'missed' from scheduler.jobs;"
)
BO = "insert into duly.person (uid, user_id) values ('bo', 1000);"
BO_ID = "1000"
# A version of our canonicaliser for each of two sessions, with its hash; the second has no event.
SILENT = (
    FINISHED_SESSION
    + SECOND % 2
    + "update schedule_ingest.schedule_version set canonicalizer = 2, payload = '%s'::jsonb,"
    " payload_hash = encode(sha256('%s'), 'hex');"
    " insert into schedule_ingest.schedule_version select user_id, schedule_date, 2, "
    f"'{OTHER}', '%s'::jsonb, encode(sha256('%s'), 'hex'), created_at, 2 from schedule_ingest.schedule_version;"
    " update schedule_ingest.day_schedule set current_version = 2"
)
ENTRY = '{"entries":[{"end":"14:00","start":"10:00","title":"%s"}]}'


def unseen(before: str, after: str) -> str:
    """A day of two versions with these titles, and no event of the second."""
    one, other = ENTRY % before, ENTRY % after
    return SILENT % (one, one, other, other)


PLANTED_VIOLATIONS = {
    "changed_days_have_events": unseen("Städning Hos Anna", "Städning Hos Bo"),
    "changed_days_have_events: what is new alone": unseen("Städning", "Städning Avbokad"),
    "changed_days_have_events: what is gone alone": unseen("Städning Kök", "Städning"),
    "changed_days_have_events: a number": unseen("Förskolan 3 Eken", "Förskolan 4 Eken"),
    "roles_with_grants_do_not_own": MEMBER + "grant select on duly.orgs to duly_planted_member",
    "job_events_have_their_job": JOB + GUARDS_OFF + "delete from ledger.job",
    "times_of_jobs_match_their_log": (
        JOB + RUN + SUCCEED + GUARDS_OFF + "update ledger.job set finished_at = finished_at - interval '1 hour'"
    ),
    "times_of_jobs_match_their_log: started at another time": (
        JOB + RUN + GUARDS_OFF + "update ledger.job_event set ts = ts - interval '1 hour' where next_status = 'running'"
    ),
    "keys_match_their_request": KEYED + """update ledger.job set payload = '{"a": 2}'""",
    "missed_ranges_do_not_overlap": (
        SCHEDULED + MISSED % ("'2026-01-01Z'", "'2026-02-01Z'") + MISSED % ("'2026-01-31Z'", "'2026-03-01Z'")
    ),
    "expenses_are_booked_once: again under another source": (
        SCHEDULED
        + CONFIRM % """'{"amount": "5"}'"""
        + BOOK % 5
        + (BOOK % 5).replace("'scheduler:' || j.id || ':2026-11'", "'manual:1'")
    ),
    "expenses_match_their_answer: another amount than the schedule has": SCHEDULED
    + TEMPLATE
    + CONFIRM % "null"
    + BOOK % 999,
    "expenses_match_their_answer: another currency than the schedule has": (
        SCHEDULED + TEMPLATE.replace("EUR", "SEK") + CONFIRM % "null" + BOOK % 5
    ),
    "expenses_match_their_answer: no number": (
        SCHEDULED
        + "alter table expense.expenses drop constraint ck_expenses__amount;"
        + CONFIRM % """'{"amount": "NaN"}'"""
        + BOOK % "'NaN'"
    ),
    "versions_have_their_hash": (
        FINISHED_SESSION + """update schedule_ingest.schedule_version set canonicalizer = 1, payload = '{"a": 1}'"""
    ),
    "versions_have_their_hash: which was edited": (
        FINISHED_SESSION + "update schedule_ingest.schedule_version set canonicalizer = 1, payload_hash = 'other'"
    ),
    "days_have_every_version": FINISHED_SESSION + "update schedule_ingest.day_schedule set current_version = 2",
    "captures_create_at_most_one_version": (
        FINISHED_SESSION
        + "alter table schedule_ingest.schedule_version drop constraint uq_schedule_version__session_id;"
        " insert into schedule_ingest.schedule_version select user_id, schedule_date, 2, session_id, payload,"
        " payload_hash from schedule_ingest.schedule_version;"
        " update schedule_ingest.day_schedule set current_version = 2"
    ),
    "versions_belong_to_finished_captures": OPEN + CLAIM_SESSION + WRITE,
    "events_rebuild_their_day": FINISHED_SESSION + "update schedule_ingest.day_snapshot set snapshot_payload = '[]'",
    "events_of_a_day_are_counted": FINISHED_SESSION + "update schedule_ingest.day_snapshot set events = 2",
    "notifications_are_about_events": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set event_ids = '[\"another\"]'"
    ),
    "events_are_reported_once": (
        FINISHED_SESSION
        + GUARDS_ON
        + " insert into schedule_ingest.schedule_notification select 'another', user_id, schedule_date,"
        " source_session_id, status, notification_type, message, event_ids from schedule_ingest.schedule_notification"
    ),
    "failed_captures_have_an_error": FINISHED_SESSION + "update schedule_ingest.capture_session set error = 'because'",
    "finished_captures_have_a_result": FINISHED_SESSION + "update schedule_ingest.capture_session set result = null",
    "captures_match_the_end_of_their_log": (
        OPEN + GUARDS_OFF + " update schedule_ingest.capture_session set state = 'failed', error = 'quietly'"
    ),
    "captures_are_finished_by_their_lease_owner": (
        FINISHED_SESSION + "update schedule_ingest.capture_session set settled_by = 'another'"
    ),
    "posts_match_the_end_of_their_log": POST + GUARDS_OFF + "update posts.posts set revision = 2",
    "posts_follow_their_state_machine": (
        POST
        + GUARDS_OFF
        + "update posts.posts set status = 'RELEASED', revision = 2, version = 2;"
        + POST_LOG
        + "2, 'PENDING', 'RELEASED', '{\"version\": 2}' from posts.posts"
    ),
    "no_post_is_early: it was taken before its time": (
        POST
        + DUE
        + CLAIM_POST
        + RELEASE_POST
        + NOTIFY_AUTHOR
        + GUARDS_OFF
        + "update duly.transition set ts = ts - interval '1 day'"
        " where next_status = 'PROCESSING'"
    ),
    "no_post_is_early: it appeared before its time": (
        POST
        + DUE
        + CLAIM_POST
        + RELEASE_POST
        + NOTIFY_AUTHOR
        + GUARDS_OFF
        + "update duly.transition set ts = ts + interval '1 day'"
        " where next_status = 'PROCESSING';"
        + GUARDS_OFF
        + "alter table posts.posts drop constraint ck_posts__release_time;"
        " update posts.posts set release_time = released_at + interval '1 second'"
    ),
    "no_post_is_stuck": POST
    + DUE
    + CLAIM_POST
    + GUARDS_OFF
    + "update posts.posts set processing_since = duly.clock() - interval '16 min'",
    "posts_are_released_by_their_lease_owner": (
        POST
        + DUE
        + CLAIM_POST
        + RELEASE_POST
        + NOTIFY_AUTHOR
        + GUARDS_OFF
        + "update posts.posts set settled_by = 'another'"
    ),
    "versions_of_posts_only_grow": (
        POST
        + GUARDS_OFF
        + "update posts.posts set revision = 2;"
        + POST_LOG
        + "2, 'PENDING', 'PENDING', '{\"version\": 1}' from posts.posts"
    ),
    "days_have_one_post": POST + "update posts.daily_locks set id = 'bo_20200101_UTC'",
    "requests_match_their_post": POST + "update posts.idempotency_keys set answer = '{}'",
    "authors_are_notified": POST + DUE + CLAIM_POST + RELEASE_POST,
    "job_events_have_no_gap_and_are_linked": (
        JOB + GUARDS_OFF + "update ledger.job set status = 'running', starts = 1, lease_owner = 'me/1',"
        " lease_expires_at = duly.clock(), revision = 3;"
        " insert into ledger.job_event (job_id, org_id, seq, prev_status, next_status)"
        " select id, org_id, 3, 'queued', 'running' from ledger.job"
    ),
    "jobs_match_the_end_of_their_log": (
        JOB
        + GUARDS_OFF
        + "update ledger.job set status = 'canceled', finished_at = duly.clock(), retain_until = duly.clock()"
    ),
    "job_events_are_legal": (
        JOB
        + GUARDS_OFF
        + "update ledger.job set status = 'canceled', finished_at = duly.clock(), retain_until = duly.clock(),"
        " revision = 3; insert into ledger.job_event (job_id, org_id, seq, prev_status, next_status)"
        " select id, org_id, 2, 'queued', 'dead_letter' from ledger.job"
        " union all select id, org_id, 3, 'dead_letter', 'canceled' from ledger.job"
    ),
    "starts_of_jobs_match_their_log": JOB + "update ledger.job set starts = 2, attempt = 1",
    "jobs_are_finished_by_their_lease_owner": JOB + RUN + SUCCEED + "update ledger.job set settled_by = 'another'",
    "no_job_stays_failed": JOB + RUN + FAIL,
    "keys_identify_one_job": (
        JOB + JOB + GUARDS_OFF + "drop index ledger.idx_job__org_id_idempotency_key;"
        " update ledger.job set idempotency_key = 'k', request_digest = sha256('')"
    ),
    "job_events_are_of_their_jobs_org": (JOB + GUARDS_OFF + "update ledger.job_event set org_id = gen_random_uuid()"),
    "transitions_have_no_gap": LOG + "('m', 'k', 1, null, 'a'), ('m', 'k', 3, 'a', 'b')",
    "transitions_are_linked": LOG + "('m', 'k', 1, null, 'a'), ('m', 'k', 2, 'x', 'b')",
    "api_keys_have_an_owner": (
        "alter table duly.api_keys drop constraint ck_api_keys__holder;"
        " insert into duly.api_keys (name, prefix, secret_sha256, scopes)"
        " values ('n', 'duly_abcdefghijkl', sha256(''), '{admin}')"
    ),
    "partitions_are_append_only_like_their_log": (
        "create table duly.log (at timestamptz) partition by range (at); select duly.protect('duly.log');"
        " create table duly.log_2026 partition of duly.log for values from ('2026-01-01Z') to ('2027-01-01Z')"
    ),
    "messages_are_leased_exactly_while_sending": (
        "alter table duly.outbox drop constraint ck_outbox__lease;"
        + MESSAGE
        + "update duly.outbox set lease_owner = 'me'"
    ),
    "messages_match_the_end_of_their_log": (
        MESSAGE + GUARDS_OFF + " update duly.outbox set status = 'failed', last_error = 'quietly'"
    ),
    "messages_have_their_log": "alter table duly.outbox disable trigger outbox_timeline_insert;" + MESSAGE,
    "runs_have_their_key": SCHEDULED + "update scheduler.job_run_keys set period_key = 'another'",
    "keys_have_their_run": SCHEDULED + GUARDS_OFF + "delete from scheduler.job_runs",
    "runs_match_the_end_of_their_log": SCHEDULED + GUARDS_OFF + "update scheduler.job_runs set status = 'skipped'",
    "schedules_are_planned": SCHEDULED + "delete from scheduler.job_plans",
    "answers_match_their_run": (
        SCHEDULED + "insert into scheduler.confirmations (job_run_id, action, confirmed_at, idempotency_key)"
        " select id, 'complete', now(), 'k' from scheduler.job_runs"
    ),
    "runs_are_answered_once": (
        SCHEDULED + "update scheduler.job_runs set status = 'confirmed';"
        " insert into scheduler.confirmations (job_run_id, action, confirmed_at, idempotency_key)"
        " select id, 'complete', now(), key from scheduler.job_runs, unnest('{a,b}'::text[]) as key"
    ),
    "expenses_have_their_answer": (
        SCHEDULED + "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)"
        " select user_id, name, 1, 'EUR', now(), 'scheduler:' || id || ':2026-11' from scheduler.jobs"
    ),
    "reversals_cancel_their_expense": ENTRIES + REVERSE.replace("-5", "-1"),
    "reversals_cancel_their_expense: in another currency": ENTRIES + REVERSE.replace("EUR", "SEK"),
    "reversals_cancel_their_expense: of another person": (
        ENTRIES + BO + REVERSE.replace("select user_id", f"select {BO_ID}")
    ),
    "sent_runs_have_a_reminder": SCHEDULED + "update scheduler.job_runs set status = 'sent'",
    "no_run_of_this_month_is_in_the_future_partition": (
        "do $$ declare part text; begin for part in select name from scheduler.list_partitions()"
        " where isfinite(first_at) loop execute 'alter table scheduler.job_runs detach partition scheduler.' || part;"
        " end loop;"
        " perform scheduler.attach_partition('job_runs_future', date_trunc('month', now(), 'UTC'), 'infinity'); end $$;"
        + SCHEDULED
    ),
    "partitions_cover_all_time": "drop table scheduler.job_runs_past",
    "notifications_match_their_delivery": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set delivery = 'failed'"
    ),
    "messages_follow_their_state_machine": (
        MESSAGE
        + GUARDS_OFF
        + "update duly.outbox set status = 'sent', revision = 2, sent_at = duly.clock();"
        + LOG[: -len("values ")]
        + "select 'outbox', id::text, 2, 'pending', 'sent' from duly.outbox"
    ),
    "starts_of_messages_match_their_log": MESSAGE + "update duly.outbox set starts = 3",
    "starts_of_messages_match_their_log: a claim that does not count": (
        MESSAGE + CLAIM_MESSAGE.replace("starts = 1", "starts = 0")
    ),
    "messages_are_leased_exactly_while_sending: by another than took it": (
        MESSAGE + CLAIM_MESSAGE + GUARDS_OFF + "update duly.outbox set lease_owner = 'another'"
    ),
    "messages_match_the_end_of_their_log: a message that is gone": (
        MESSAGE + LOG + f"('outbox', '{OTHER}', 1, null, 'pending')"
    ),
    "messages_are_sent_by_their_lease_owner": MESSAGE + CLAIM_MESSAGE + SEND.replace("me/1", "another"),
    "expired_leases_of_messages_are_recovered": (
        MESSAGE + CLAIM_MESSAGE + WORKER + f"update duly.outbox set lease_expires_at = {LONG_AGO}"
    ),
    "jobs_are_leased_exactly_while_running": JOB + GUARDS_OFF + "update ledger.job set lease_owner = 'me'",
    "jobs_are_leased_exactly_while_running: by another than started it": (
        JOB + RUN + GUARDS_OFF + "update ledger.job set lease_owner = 'another'"
    ),
    "expired_leases_of_jobs_are_recovered": JOB + RUN + WORKER + f"update ledger.job set lease_expires_at = {LONG_AGO}",
    "posts_match_the_end_of_their_log: a post that is gone": (POST + LOG + f"('post', '{OTHER}', 1, null, 'PENDING')"),
    "posts_are_leased_exactly_while_processing": POST + GUARDS_OFF + "update posts.posts set lease_owner = 'me'",
    "posts_are_leased_exactly_while_processing: by another than took it": (
        POST + DUE + CLAIM_POST + GUARDS_OFF + "update posts.posts set lease_owner = 'another'"
    ),
    "attempts_of_posts_match_their_log": POST + GUARDS_OFF + "update posts.posts set process_attempts = 2",
    "versions_differ_from_the_one_before": (
        FINISHED_SESSION
        + "update schedule_ingest.schedule_version set canonicalizer = 1;"
        + SECOND % 2
        + MAKE % (2, "payload_hash")
        + "update schedule_ingest.day_schedule set current_version = 2"
    ),
    "captures_belong_to_their_user: an event": FINISHED_SESSION + OTHER_USERS_DAY % (CAPTURE, OTHER),
    "captures_belong_to_their_user: a snapshot": FINISHED_SESSION + OTHER_USERS_DAY % (OTHER, CAPTURE),
    "captures_belong_to_their_user: a notification": (
        FINISHED_SESSION + GUARDS_ON + "insert into schedule_ingest.schedule_notification (notification_id, user_id,"
        " schedule_date, source_session_id, notification_type, message, event_ids)"
        f" values ('another', 43, '2026-02-10', '{CAPTURE}', 'event', 'm', '[]')"
    ),
    "captures_match_the_end_of_their_log: a session that is gone": (
        OPEN + LOG + f"('capture', '{OTHER}', 1, null, 'pending')"
    ),
    "captures_follow_their_state_machine": (
        OPEN
        + GUARDS_OFF
        + " update schedule_ingest.capture_session set state = 'done', revision = 2;"
        + LOG
        + f"('capture', '{CAPTURE}', 2, 'pending', 'done')"
    ),
    "captures_are_leased_exactly_while_processing": FINISHED_SESSION
    + "update schedule_ingest.capture_session set locked_by = 'me'",
    "captures_are_leased_exactly_while_processing: by another than took it": (
        OPEN + CLAIM_SESSION + GUARDS_OFF + "update schedule_ingest.capture_session set locked_by = 'another'"
    ),
    "starts_of_captures_match_their_log": FINISHED_SESSION + "update schedule_ingest.capture_session set starts = 5",
    "expired_leases_of_captures_are_recovered": (
        OPEN + CLAIM_SESSION + WORKER + f"update schedule_ingest.capture_session set locked_at = {LONG_AGO}"
    ),
    "periods_have_one_run": (
        SCHEDULED + "alter table scheduler.job_run_keys drop constraint uq_job_runs__job_period;"
        " insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select id, '2026-11', now() from scheduler.jobs"
    ),
    "runs_match_the_end_of_their_log: a run that is gone with its key": (
        SCHEDULED + LOG + "('run', '999', 1, null, 'pending')"
    ),
    "runs_follow_their_state_machine": (
        SCHEDULED
        + GUARDS_OFF
        + "update scheduler.job_runs set status = 'snoozed', revision = 2;"
        + LOG[: -len("values ")]
        + "select 'run', id::text, 2, 'pending', 'snoozed' from scheduler.job_runs"
    ),
    "schedules_match_the_end_of_their_log": (
        SCHEDULED + GUARDS_OFF + "update scheduler.jobs set rule = 'cron: 0 11 1 * *'"
    ),
    "schedules_match_the_end_of_their_log: a schedule that is gone": (
        SCHEDULED + LOG + "('schedule', '999', 1, null, 'active')"
    ),
    "schedules_follow_their_state_machine": (
        SCHEDULED
        + GUARDS_OFF
        + "update scheduler.jobs set revision = 3;"
        + "insert into duly.transition (machine, key, seq, prev_status, next_status, detail_json)"
        " select 'schedule', id::text, seq, before, after, jsonb_build_object('rule', rule) from scheduler.jobs,"
        " (values (2, 'active', 'archived'), (3, 'archived', 'active')) as steps (seq, before, after)"
    ),
    "plans_are_leased_exactly_while_planning": (
        SCHEDULED + "alter table scheduler.job_plans drop constraint ck_job_plans__lease;"
        " update scheduler.job_plans set lease_owner = 'me'"
    ),
    "expired_leases_of_plans_are_recovered": (
        SCHEDULED + WORKER + "update scheduler.job_plans set state = 'planning', lease_owner = 'me/1',"
        f" lease_expires_at = {LONG_AGO}"
    ),
    "confirmed_runs_have_an_answer": SCHEDULED + "update scheduler.job_runs set status = 'confirmed'",
    "answers_are_booked": SCHEDULED + CONFIRM % """'{"amount": "5"}'""",
    "answers_are_booked: as the schedule has it": SCHEDULED + TEMPLATE + CONFIRM % "null",
    "expenses_are_booked_once": (
        SCHEDULED
        + "alter table expense.expenses drop constraint uq_expenses__source_ref;"
        + CONFIRM % """'{"amount": "5"}'"""
        + BOOK % 5
        + BOOK % 5
    ),
    "expenses_match_their_answer": SCHEDULED + CONFIRM % """'{"amount": "5"}'""" + BOOK % 6,
    "expenses_match_their_answer: another person's": (
        SCHEDULED + CONFIRM % "null" + BO + (BOOK % 5).replace("j.user_id", BO_ID)
    ),
    "reminders_go_to_their_user": (
        SCHEDULED + "insert into duly.outbox (channel, recipient, kind, payload)"
        " select 'console', 'bo', 'reminder.due', jsonb_build_object('job_run_id', id) from scheduler.job_runs"
    ),
    "notifications_match_their_delivery: one that is gone": (
        FINISHED_SESSION + LOG + "('notification', 'another', 1, null, 'pending')"
    ),
    "notifications_follow_their_state_machine": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set delivery = 'uncertain', revision = 2,"
        " called_at = duly.clock();" + LOG + "('notification', 'n', 2, 'pending', 'uncertain')"
    ),
    "notifications_are_leased_exactly_while_sending": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set lease_owner = 'me'"
    ),
    "notifications_are_leased_exactly_while_sending: by another than took it": (
        FINISHED_SESSION
        + NOTIFY
        + GUARDS_OFF
        + "update schedule_ingest.schedule_notification set lease_owner = 'another'"
    ),
    "starts_of_notifications_match_their_log": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set starts = 2"
    ),
    "notifications_are_sent_by_their_lease_owner": (
        FINISHED_SESSION
        + NOTIFY
        + "update schedule_ingest.schedule_notification set delivery = 'sent', settled_by = 'another',"
        " lease_owner = null, lease_expires_at = null"
    ),
    "expired_leases_of_notifications_are_recovered": (
        FINISHED_SESSION
        + NOTIFY
        + WORKER
        + f"update schedule_ingest.schedule_notification set lease_expires_at = {LONG_AGO}"
    ),
    "transitions_have_no_gap: from the beginning": (
        "alter table duly.transition drop constraint ck_transition__seq, drop constraint ck_transition__first;"
        + LOG
        + "('m', 'k', 0, null, 'a'), ('m', 'k', 2, 'a', 'b')"
    ),
    "messages_match_the_end_of_their_log: at another revision": (
        MESSAGE + GUARDS_OFF + "update duly.outbox set revision = 2"
    ),
    "messages_match_the_end_of_their_log: younger than their log": (
        MESSAGE + GUARDS_OFF + "update duly.outbox set status = 'failed', last_error = 'quietly',"
        " created_at = created_at + interval '1 hour'"
    ),
    "starts_of_messages_match_their_log: a start that has no claim": MESSAGE + CLAIM_MESSAGE + RETRY,
    "starts_of_messages_match_their_log: sent again with a start more": MESSAGE + CLAIM_MESSAGE + RESENT,
    "starts_of_messages_match_their_log: and the dead did not count": MESSAGE + UNCOUNTED_STARTS,
    "messages_are_sent_by_their_lease_owner: or failed": (
        MESSAGE
        + CLAIM_MESSAGE
        + SEND.replace("'sent', settled_by = 'me/1'", "'failed', settled_by = 'another', last_error = 'x'")
    ),
    "job_events_have_no_gap_and_are_linked: of which one begins elsewhere": (
        JOB + GUARDS_OFF + "update ledger.job set status = 'running', lease_owner = 'me/1',"
        " lease_expires_at = duly.clock(), revision = 2;"
        " insert into ledger.job_event (job_id, org_id, seq, prev_status, next_status)"
        " select id, org_id, 2, 'running', 'running' from ledger.job"
    ),
    "jobs_match_the_end_of_their_log: at another revision": JOB + GUARDS_OFF + "update ledger.job set revision = 2",
    "jobs_are_leased_exactly_while_running: a time without an owner": (
        JOB + GUARDS_OFF + "update ledger.job set lease_expires_at = duly.clock()"
    ),
    "starts_of_jobs_match_their_log: too often": JOB + RUN + GUARDS_OFF + "update ledger.job set max_attempts = 0",
    "jobs_are_finished_by_their_lease_owner: a dead letter": JOB
    + RUN
    + FAIL.replace("by = 'me/1'", "by = 'another'")
    + DEAD_LETTER_JOB,
    "jobs_are_finished_by_their_lease_owner: one that was cancelled": (
        JOB + RUN + CANCEL.replace("by = 'me/1'", "by = 'another'")
    ),
    "jobs_are_finished_by_their_lease_owner: by another in the log": (
        JOB + RUN + FAIL.replace('"actor": "me/1"', '"actor": "another"') + DEAD_LETTER_JOB
    ),
    "jobs_are_finished_by_their_lease_owner: swept from another": (
        JOB + RUN + SWEPT.replace('"holder": "me/1"', '"holder": "another"') + DEAD_LETTER_JOB
    ),
    "posts_match_the_end_of_their_log: in another state": (
        POST
        + GUARDS_OFF
        + "update posts.posts set status = 'PROCESSING', lease_owner = 'me/1', processing_since = now(),"
        " lease_expires_at = now()"
    ),
    "posts_match_the_end_of_their_log: without a log": POST + DELETE_LOG.format("post"),
    "attempts_of_posts_match_their_log: twice at once": (
        POST + DUE + CLAIM_POST.replace("process_attempts = 1", "process_attempts = 2")
    ),
    "attempts_of_posts_match_their_log: without a claim": (
        POST + DUE + CLAIM_POST + RELEASE_POST.replace("set status", "set process_attempts = 2, status") + NOTIFY_AUTHOR
    ),
    "attempts_of_posts_match_their_log: when its caption was edited": (
        POST + "update posts.posts set caption = 'other words', process_attempts = 1"
    ),
    "attempts_of_posts_match_their_log: and the dead did not count": (
        POST
        + DUE
        + CLAIM_POST.replace("interval '1 minute'", "interval '-1 minute'")
        + "update posts.posts set status = 'PENDING', lease_owner = null, lease_expires_at = null;"
        + CLAIM_POST.replace("interval '1 minute'", "interval '-1 minute'").replace("attempts = 1", "attempts = 2")
        + "update posts.posts set status = 'PENDING', lease_owner = null, lease_expires_at = null,"
        " process_attempts = 0;"
    ),
    "posts_follow_their_state_machine: new, and released": LOG + f"('post', '{OTHER}', 1, null, 'RELEASED')",
    "posts_are_released_by_their_lease_owner: twice": (
        POST
        + DUE
        + CLAIM_POST
        + RELEASE_POST
        + NOTIFY_AUTHOR
        + GUARDS_OFF
        + "update posts.posts set revision = 4, version = 4;"
        + POST_LOG
        + "4, 'RELEASED', 'RELEASED', '{\"version\": 4, \"attempts\": 1}' from posts.posts"
    ),
    "versions_of_posts_only_grow: less than there were moves": (
        LOG.replace("next_status)", "next_status, detail_json)")
        + f"""('post', '{OTHER}', 1, null, 'PENDING', '{{"version": 0}}')"""
    ),
    "versions_of_posts_only_grow: the same again": (
        LOG.replace("next_status)", "next_status, detail_json)")
        + f"""('post', '{OTHER}', 1, null, 'PENDING', '{{"version": 5}}'),"""
        f""" ('post', '{OTHER}', 2, 'PENDING', 'PENDING', '{{"version": 5}}')"""
    ),
    "days_have_one_post: without a lock": POST + "delete from posts.daily_locks",
    "days_have_one_post: with the lock of another day": (
        POST + "insert into posts.daily_locks (id, post_id) select 'bo_20200101_UTC', id from posts.posts"
    ),
    "requests_match_their_post: of another author": (POST + BO + "update posts.idempotency_keys set author_id = 'bo'"),
    "requests_match_their_post: another request": (
        POST + "update posts.idempotency_keys set request_id = gen_random_uuid()"
    ),
    "days_have_every_version: with a gap": (
        FINISHED_SESSION
        + SECOND % 3
        + MAKE % (3, "'other'")
        + "update schedule_ingest.day_schedule set current_version = 2"
    ),
    "days_have_every_version: from nothing on": (
        FINISHED_SESSION + "alter table schedule_ingest.schedule_version drop constraint ck_schedule_version__version;"
        " update schedule_ingest.schedule_version set version = 2; update schedule_ingest.capture_session"
        " set result = jsonb_set(result, '{version}', '2');"
        + SECOND % 0
        + MAKE % (0, "'other'")
        + "update schedule_ingest.day_schedule set current_version = 2"
    ),
    "versions_belong_to_finished_captures: of another person": (
        FINISHED_SESSION
        + (SECOND % 1).replace("changed", "unchanged")
        + (MAKE % (1, "payload_hash")).replace("select user_id", "select 43")
        + "insert into schedule_ingest.day_schedule (user_id, schedule_date, current_version)"
        " values (43, '2026-02-10', 1)"
    ),
    "events_rebuild_their_day: which has more": (
        OPEN + "insert into schedule_ingest.day_snapshot (user_id, schedule_date, snapshot_payload, source_session_id,"
        " events)"
        f" values (42, '2026-02-10', '[{{\"start\": 1}}]', '{CAPTURE}', 0)"
    ),
    "events_of_a_day_are_counted: with a gap": FINISHED_SESSION + NUMBERED % 3,
    "events_of_a_day_are_counted: from nothing on": (
        FINISHED_SESSION + (NUMBERED % 0) + "; update schedule_ingest.schedule_event set seq = 2 where seq = 1"
    ),
    "captures_match_the_end_of_their_log: at another revision": (
        FINISHED_SESSION + "update schedule_ingest.capture_session set revision = 4"
    ),
    "captures_match_the_end_of_their_log: without a log": OPEN + DELETE_LOG.format("capture"),
    "starts_of_captures_match_their_log: twice at once": OPEN + CLAIM_SESSION.replace("starts = 1", "starts = 2"),
    "starts_of_captures_match_their_log: a claim that does not count": (
        OPEN + CLAIM_SESSION.replace("me/1", OUR_OWNER).replace("starts = 1", "starts = 0")
    ),
    "starts_of_captures_match_their_log: reclaimed without counting the start": (
        OPEN
        + CLAIM_SESSION.replace("duly.clock()", LONG_AGO)
        + CLAIM_SESSION.replace("me/1", OUR_OWNER).replace("starts = 1", "starts = 0")
    ),
    "starts_of_captures_match_their_log: a start that has no claim": (
        OPEN
        + CLAIM_SESSION
        + "update schedule_ingest.capture_session set state = 'failed', error = 'x', settled_by = 'me/1',"
        " locked_by = null, locked_at = null, lease_seconds = null, starts = 2"
    ),
    "runs_have_their_key: of another schedule": (
        SCHEDULED + "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select user_id, 'Gas', rule, first_run_at from scheduler.jobs;"
        " update scheduler.job_run_keys set job_id = (select max(id) from scheduler.jobs)"
    ),
    "runs_have_their_key: of another time": (
        SCHEDULED + "update scheduler.job_run_keys set scheduled_at = '2001-01-01Z'"
    ),
    "runs_match_the_end_of_their_log: at another revision": (
        SCHEDULED + GUARDS_OFF + "update scheduler.job_runs set revision = 2"
    ),
    "runs_match_the_end_of_their_log: sent by its log alone": (
        SCHEDULED
        + "update scheduler.job_runs set status = 'sent';"
        + GUARDS_OFF
        + "update scheduler.job_runs set sent_at = null"
    ),
    "schedules_match_the_end_of_their_log: in another state": (
        SCHEDULED + GUARDS_OFF + "update scheduler.jobs set status = 'paused';"
        " update scheduler.job_plans set plan_at = null"
    ),
    "schedules_match_the_end_of_their_log: at another revision": (
        SCHEDULED + GUARDS_OFF + "update scheduler.jobs set revision = 2"
    ),
    "schedules_match_the_end_of_their_log: without a log": SCHEDULED + DELETE_LOG.format("schedule"),
    "schedules_are_planned: although it is paused": (
        SCHEDULED + "update scheduler.jobs set status = 'paused'; update scheduler.job_plans set plan_at = now()"
    ),
    "schedules_are_planned: and never looked at": (
        SCHEDULED + "update scheduler.job_plans set plan_at = null, next_at = now()"
    ),
    "expenses_are_booked_once: and taken back twice": (
        ENTRIES
        + "alter table expense.expenses drop constraint uq_expenses__reverses;"
        + REVERSE
        + REVERSE.replace("'y'", "'z'")
    ),
    "expenses_match_their_answer: at another time": (
        SCHEDULED
        + CONFIRM % """'{"amount": "5"}'"""
        + (BOOK % 5).replace("c.confirmed_at", "c.confirmed_at + interval '1 day'")
    ),
    "expenses_match_their_answer: in another currency": (
        SCHEDULED + CONFIRM % """'{"amount": "5", "currency": "SEK"}'""" + BOOK % 5
    ),
    "notifications_match_their_delivery: by the contract alone": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set status = 'failed'"
    ),
    "notifications_match_their_delivery: by its delivery alone": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set delivery = 'uncertain', called_at = now()"
    ),
    "notifications_match_their_delivery: at another revision": (
        FINISHED_SESSION + "update schedule_ingest.schedule_notification set revision = 2"
    ),
    "notifications_match_their_delivery: without a log": FINISHED_SESSION + DELETE_LOG.format("notification"),
    "starts_of_notifications_match_their_log: a claim that does not count": (
        FINISHED_SESSION + NOTIFY.replace("starts = 1", "starts = 0")
    ),
    "starts_of_notifications_match_their_log: a start that has no claim": (
        FINISHED_SESSION
        + NOTIFY
        + RETRY.replace("duly.outbox", "schedule_ingest.schedule_notification").replace("status", "delivery")
    ),
    "starts_of_notifications_match_their_log: sent again with a start more": (
        FINISHED_SESSION
        + NOTIFY
        + RESENT.replace("duly.outbox", "schedule_ingest.schedule_notification").replace("status", "delivery")
    ),
    "starts_of_notifications_match_their_log: and the dead did not count": (
        FINISHED_SESSION
        + GUARDS_ON
        + UNCOUNTED_STARTS.replace("duly.outbox", "schedule_ingest.schedule_notification").replace("status", "delivery")
    ),
    "notifications_are_sent_by_their_lease_owner: or failed": (
        FINISHED_SESSION
        + NOTIFY
        + "update schedule_ingest.schedule_notification set delivery = 'failed', settled_by = 'another',"
        " lease_owner = null, lease_expires_at = null, last_error = 'x'"
    ),
}
# What cannot be done without violating another invariant as well.
ALSO_VIOLATED = {
    "posts_are_released_by_their_lease_owner: twice": {"posts_follow_their_state_machine"},
    "runs_have_their_key: of another time": {"keys_have_their_run"},
}
# What hides rows from a worker, which may see every row: each is found by one branch of the invariant about that.
HIDING_POLICIES = {
    "no policy": "alter table duly.orgs enable row level security",
    "a policy that takes away": (
        "alter table duly.orgs enable row level security; create policy all_of_them on duly.orgs using (true);"
        " create policy but_some on duly.orgs as restrictive using (name <> 'hidden')"
    ),
}


def violated_invariant(planted: str) -> str:
    """Return the invariant that is violated."""
    return planted.split(":")[0]


def violated_invariants(planted: str) -> set[str]:
    """Return every invariant that is violated: usually its own only."""
    return {violated_invariant(planted), *ALSO_VIOLATED.get(planted, ())}
