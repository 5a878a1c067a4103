"""`duly verify` finds what was planted, and nothing in a database that is in order."""

import json
import os
import re
import subprocess
from collections.abc import Generator
from io import FileIO
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.delivery import OUTBOX_MACHINE
from duly.errors import InvalidArgument
from duly.launcher import ROOT
from duly.verify import INVARIANTS, Invariant, check, compare, invariants_of
from duly.verify.contract import CONTRACTS, contract_lines
from tests.support.processes import PYTHON, plain_environment

Admin = psycopg.Connection[Any]
SCHEMAS = CONTRACTS["duly"]
PLANTED_DIFFERENCES = {
    "a table that is gone": ("drop table duly.workers", "missing", "table duly.workers"),
    "a table too many": ("create table duly.extra ()", "unexpected", "table duly.extra"),
    "a column that is gone": ("alter table duly.workers drop column slots", "missing", "column duly.workers.slots"),
    "a column of another type": (
        "alter table duly.workers alter column pid type integer",
        "unexpected",
        "column duly.workers.pid integer",
    ),
    "a column that may be empty": (
        "alter table duly.orgs alter column name drop not null",
        "missing",
        "duly.orgs.name",
    ),
    "a check that is gone": ("alter table duly.orgs drop constraint ck_orgs__name", "missing", "ck_orgs__name"),
    "an index that is gone": ("drop index duly.idx_transition__ts", "missing", "idx_transition__ts"),
    "a trigger that is gone": (
        "drop trigger transition_is_append_only on duly.transition",
        "missing",
        "transition_is_append_only",
    ),
    "a trigger that sleeps": (
        "alter table duly.transition disable trigger transition_is_append_only",
        "unexpected",
        "not enabled",
    ),
    "a function that does something else": (
        "create or replace function duly.clock() returns timestamptz language sql volatile return 'epoch'::timestamptz",
        "unexpected",
        "1970",
    ),
    "a grant too many": ("grant delete on duly.transition to duly_worker", "unexpected", "grant delete on table"),
    "a grant that is gone": ("revoke select on duly.orgs from duly_api", "missing", "grant select on table duly.orgs"),
    "row security switched on": (
        "alter table duly.orgs enable row level security",
        "unexpected",
        "table duly.orgs owner duly_owner row security",
    ),
    "a right to a sequence too many": (
        "grant update on sequence duly.wake_outbox to duly_api",
        "unexpected",
        "grant update on sequence duly.wake_outbox to duly_api",
    ),
    "a guard that sleeps": (
        "alter table duly.outbox disable trigger outbox_guard",
        "missing",
        "edge duly.outbox.status pending -> sending",
    ),
    "a guard that never sees an insert": (
        "drop trigger outbox_guard on duly.outbox;"
        " create trigger outbox_guard before update on duly.outbox for each row execute function duly.outbox_guard()",
        "missing",
        "begin duly.outbox.status pending",
    ),
    "another owner": ("alter table duly.orgs owner to postgres", "unexpected", "table duly.orgs owner postgres"),
}
LOG = "insert into duly.transition (machine, key, seq, prev_status, next_status) values "
MESSAGE = "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'reminder', '{}');"
JOB = "select ledger.enqueue('00000000-0000-0000-0000-000000000001', 'work', run_at => '2020-01-01Z');"
QUIETLY = "alter table ledger.job disable trigger user;"
RUN = "select ledger.claim('{default}', '{work}', 'me/1', 60, 1);"
SUCCEED = (
    "update ledger.job set status = 'succeeded', settled_by = 'me/1', lease_owner = null, lease_expires_at = null;"
)
POST = (
    "insert into \"user\".users (uid) values ('anna');"
    " insert into posts.uploads (name, author_id) values ('temp/00000000-0000-0000-0000-000000000001.jpg', 'anna');"
    " select posts.create_intent('anna', gen_random_uuid(), sha256(''), '', name, true) from posts.uploads;"
)
AWAKE = "alter table posts.posts enable trigger user;"
ASLEEP = "alter table posts.posts disable trigger user;"
DUE = (
    ASLEEP + "update posts.posts set created_at = created_at - interval '7 hours',"
    " release_time = release_time - interval '7 hours';"
    "update posts.posts set daily_key = posts.daily_key(author_id, created_at);"
    "update posts.daily_locks set id = (select daily_key || '_UTC' from posts.posts);" + AWAKE
)
TAKE = (
    "update posts.posts set status = 'PROCESSING', lease_owner = 'me/1',"
    " lease_expires_at = duly.clock() + interval '1 minute', process_attempts = 1;"
)
APPEAR = "update posts.posts set status = 'RELEASED', settled_by = 'me/1', lease_owner = null, lease_expires_at = null;"
TELL = (
    "insert into duly.outbox (channel, recipient, kind, payload, dedupe_key)"
    " select 'console', author_id, 'post.released', '{}', 'post.released:' || id from posts.posts;"
)
POST_LOG = (
    "insert into duly.transition (machine, key, seq, prev_status, next_status, detail_json) select 'post', id::text, "
)
SCHEDULED = (
    "insert into \"user\".users (uid) values ('anna');"
    " insert into scheduler.jobs (user_id, name, rule, first_run_at)"
    " select id, 'Rent', 'cron: 0 10 1 * *', now() from \"user\".users;"
    " insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
    " select id, '2026-11', now() from scheduler.jobs;"
)
RUNS_ASLEEP = "alter table scheduler.job_runs disable trigger user;"
CAPTURE = "00000000-0000-0000-0000-000000000001"
OTHER = "00000000-0000-0000-0000-000000000002"
OPEN = f"insert into schedule_ingest.capture_session (id, user_id) values ('{CAPTURE}', 42);"
LOOK = (
    "update schedule_ingest.capture_session set state = 'processing', locked_by = 'me/1', locked_at = duly.clock(),"
    " lease_seconds = 60, starts = 1;"
)
WRITE = (
    "insert into schedule_ingest.schedule_version (user_id, schedule_date, version, session_id, payload, payload_hash)"
    f" values (42, '2026-02-10', 1, '{CAPTURE}', '{{}}', 'hash');"
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
SEEN = OPEN + LOOK + WRITE + FINISH + "set session_replication_role = replica;"
WORKER = (
    "insert into duly.workers (id, worker_id, host, pid, version, kinds, slots, started_at) select gen_random_uuid(),"
    " 'w', 'h', 1, 'v', '{ledger,ingest,scheduler,outbox,notifications}', '{}', duly.clock() - interval '1 hour';"
)
LONG_AGO = "duly.clock() - interval '1 hour'"
PICK = "update duly.outbox set status = 'sending', lease_owner = 'me/1', lease_expires_at = duly.clock(), starts = 1;"
SEND = "update duly.outbox set status = 'sent', settled_by = 'me/1', lease_owner = null, lease_expires_at = null;"
MESSAGES_ASLEEP = "alter table duly.outbox disable trigger user;"
SCHEDULES_ASLEEP = "alter table scheduler.jobs disable trigger user;"
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
AWAKE_AGAIN = "set session_replication_role = origin;"
NOTIFY = (
    AWAKE_AGAIN + "update schedule_ingest.schedule_notification set delivery = 'sending', lease_owner = 'me/1',"
    " lease_expires_at = duly.clock(), starts = 1;"
)
PLANTED_OFFENCES = {
    "days_have_every_version": SEEN + "update schedule_ingest.day_schedule set current_version = 2",
    "captures_make_one_version_at_most": (
        SEEN + "alter table schedule_ingest.schedule_version drop constraint uq_schedule_version__session_id;"
        " insert into schedule_ingest.schedule_version select user_id, schedule_date, 2, session_id, payload,"
        " payload_hash from schedule_ingest.schedule_version;"
        " update schedule_ingest.day_schedule set current_version = 2"
    ),
    "versions_come_of_finished_captures": OPEN + LOOK + WRITE,
    "events_rebuild_their_day": SEEN + "update schedule_ingest.day_snapshot set snapshot_payload = '[]'",
    "events_of_a_day_are_counted": SEEN + "update schedule_ingest.day_snapshot set events = 2",
    "notifications_are_about_events": (
        SEEN + "update schedule_ingest.schedule_notification set event_ids = '[\"another\"]'"
    ),
    "events_are_told_once": (
        SEEN + "set session_replication_role = origin;"
        " insert into schedule_ingest.schedule_notification select 'another', user_id, schedule_date,"
        " source_session_id, status, notification_type, message, event_ids from schedule_ingest.schedule_notification"
    ),
    "captures_say_why_they_failed": SEEN + "update schedule_ingest.capture_session set error = 'because'",
    "captures_tell_what_came_of_them": SEEN + "update schedule_ingest.capture_session set result = null",
    "captures_are_where_their_log_ends": (
        OPEN + "set session_replication_role = replica;"
        " update schedule_ingest.capture_session set state = 'failed', error = 'quietly'"
    ),
    "captures_are_finished_by_their_holder": (
        SEEN + "update schedule_ingest.capture_session set settled_by = 'a zombie'"
    ),
    "posts_are_where_their_log_ends": POST + ASLEEP + "update posts.posts set revision = 2",
    "posts_move_as_drawn": (
        POST
        + ASLEEP
        + "update posts.posts set status = 'RELEASED', revision = 2, version = 2;"
        + POST_LOG
        + "2, 'PENDING', 'RELEASED', '{\"version\": 2}' from posts.posts"
    ),
    "no_post_is_early": (
        POST + DUE + TAKE + APPEAR + TELL + ASLEEP + "alter table posts.posts drop constraint ck_posts__release_time;"
        " update posts.posts set release_time = released_at + interval '1 second'"
    ),
    "no_post_is_stuck": POST
    + DUE
    + TAKE
    + ASLEEP
    + "update posts.posts set processing_since = duly.clock() - interval '16 min'",
    "posts_are_released_by_their_holder": (
        POST + DUE + TAKE + APPEAR + TELL + ASLEEP + "update posts.posts set settled_by = 'a zombie'"
    ),
    "versions_of_posts_only_grow": (
        POST
        + ASLEEP
        + "update posts.posts set revision = 2;"
        + POST_LOG
        + "2, 'PENDING', 'PENDING', '{\"version\": 1}' from posts.posts"
    ),
    "days_have_one_post": POST + "update posts.daily_locks set id = 'bo_20200101_UTC'",
    "requests_stand_for_their_post": POST + "update posts.idempotency_keys set answer = '{}'",
    "authors_are_told": POST + DUE + TAKE + APPEAR,
    "job_events_are_without_a_gap_and_linked": (
        JOB + QUIETLY + "update ledger.job set status = 'running', starts = 1, lease_owner = 'me/1',"
        " lease_expires_at = duly.clock(), revision = 3;"
        " insert into ledger.job_event (job_id, org_id, seq, prev_status, next_status)"
        " select id, org_id, 3, 'queued', 'running' from ledger.job"
    ),
    "jobs_are_where_their_log_ends": (
        JOB
        + QUIETLY
        + "update ledger.job set status = 'canceled', finished_at = duly.clock(), retain_until = duly.clock()"
    ),
    "job_events_are_legal": (
        JOB
        + QUIETLY
        + "update ledger.job set status = 'canceled', finished_at = duly.clock(), retain_until = duly.clock(),"
        " revision = 3; insert into ledger.job_event (job_id, org_id, seq, prev_status, next_status)"
        " select id, org_id, 2, 'queued', 'dead_letter' from ledger.job"
        " union all select id, org_id, 3, 'dead_letter', 'canceled' from ledger.job"
    ),
    "jobs_started_as_often_as_their_log_tells": JOB + "update ledger.job set starts = 2, attempt = 1",
    "jobs_are_finished_by_their_holder": JOB + RUN + SUCCEED + "update ledger.job set settled_by = 'a zombie'",
    "no_job_rests_failed": (
        JOB + RUN + "update ledger.job set status = 'failed', lease_expires_at = null, last_error_code = 'OOPS'"
    ),
    "keys_stand_for_one_job": (
        JOB + JOB + "drop index ledger.idx_job__org_id_idempotency_key;"
        " update ledger.job set idempotency_key = 'k', request_digest = sha256('')"
    ),
    "job_events_are_of_their_jobs_org": (
        JOB
        + "alter table ledger.job_event disable trigger user; update ledger.job_event set org_id = gen_random_uuid()"
    ),
    "transitions_are_without_a_gap": LOG + "('m', 'k', 1, null, 'a'), ('m', 'k', 3, 'a', 'b')",
    "transitions_are_linked": LOG + "('m', 'k', 1, null, 'a'), ('m', 'k', 2, 'x', 'b')",
    "keys_have_a_live_holder": (
        "alter table duly.api_keys drop constraint ck_api_keys__holder;"
        " insert into duly.api_keys (name, prefix, secret_sha256, scopes)"
        " values ('n', 'duly_abcdefghijkl', sha256(''), '{admin}')"
    ),
    "partitions_refuse_what_their_log_refuses": (
        "create table duly.log (at timestamptz) partition by range (at); select duly.protect('duly.log');"
        " create table duly.log_2026 partition of duly.log for values from ('2026-01-01Z') to ('2027-01-01Z')"
    ),
    "messages_are_held_exactly_while_sending": (
        "alter table duly.outbox drop constraint ck_outbox__lease;"
        + MESSAGE
        + "update duly.outbox set lease_owner = 'me'"
    ),
    "messages_are_where_their_log_ends": (
        MESSAGE + "alter table duly.outbox disable trigger user;"
        " update duly.outbox set status = 'failed', last_error = 'quietly'"
    ),
    "messages_have_their_log": "alter table duly.outbox disable trigger outbox_timeline_insert;" + MESSAGE,
    "runs_have_their_key": SCHEDULED + "update scheduler.job_run_keys set period_key = 'another'",
    "keys_have_their_run": SCHEDULED + "delete from scheduler.job_runs",
    "runs_are_where_their_log_ends": SCHEDULED + RUNS_ASLEEP + "update scheduler.job_runs set status = 'skipped'",
    "schedules_are_planned": SCHEDULED + "delete from scheduler.job_plans",
    "answers_are_where_their_run_is": (
        SCHEDULED + "insert into scheduler.confirmations (job_run_id, action, idempotency_key)"
        " select id, 'complete', 'k' from scheduler.job_runs"
    ),
    "runs_are_answered_once": (
        SCHEDULED + "update scheduler.job_runs set status = 'confirmed';"
        " insert into scheduler.confirmations (job_run_id, action, idempotency_key)"
        " select id, 'complete', key from scheduler.job_runs, unnest('{a,b}'::text[]) as key"
    ),
    "entries_have_their_answer": (
        SCHEDULED + "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)"
        " select user_id, name, 1, 'EUR', now(), 'scheduler:' || id || ':2026-11' from scheduler.jobs"
    ),
    "reversals_take_back_the_whole": (
        SCHEDULED + "alter table expense.expenses disable trigger user;"
        " insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)"
        " select user_id, name, 5, 'EUR', now(), 'x' from scheduler.jobs;"
        " insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref, reverses)"
        " select user_id, name, -1, 'EUR', now(), 'y', id from expense.expenses"
    ),
    "sent_runs_have_a_reminder": SCHEDULED + "update scheduler.job_runs set status = 'sent'",
    "no_run_is_without_its_month": (
        "do $$ begin execute 'drop table scheduler.job_runs_' || to_char(now() at time zone 'UTC', 'YYYY_MM'); end $$;"
        + SCHEDULED
    ),
    "notifications_say_what_became_of_them": (
        SEEN + "update schedule_ingest.schedule_notification set delivery = 'failed'"
    ),
    "messages_move_as_drawn": (
        MESSAGE
        + MESSAGES_ASLEEP
        + "update duly.outbox set status = 'sent', revision = 2, sent_at = duly.clock();"
        + LOG[: -len("values ")]
        + "select 'outbox', id::text, 2, 'pending', 'sent' from duly.outbox"
    ),
    "messages_started_as_often_as_their_log_tells": MESSAGE + "update duly.outbox set starts = 3",
    "messages_started_as_often_as_their_log_tells: a claim that does not count": (
        MESSAGE + PICK.replace("starts = 1", "starts = 0")
    ),
    "messages_are_held_exactly_while_sending: by another than took it": (
        MESSAGE + PICK + MESSAGES_ASLEEP + "update duly.outbox set lease_owner = 'another'"
    ),
    "messages_are_where_their_log_ends: a message that is gone": (
        MESSAGE + LOG + f"('outbox', '{OTHER}', 1, null, 'pending')"
    ),
    "messages_are_sent_by_their_holder": MESSAGE + PICK + SEND.replace("me/1", "a zombie"),
    "messages_of_the_dead_are_taken_up": (
        MESSAGE + PICK + WORKER + f"update duly.outbox set lease_expires_at = {LONG_AGO}"
    ),
    "jobs_are_held_exactly_while_running": JOB + QUIETLY + "update ledger.job set lease_owner = 'me'",
    "jobs_are_held_exactly_while_running: by another than started it": (
        JOB + RUN + QUIETLY + "update ledger.job set lease_owner = 'another'"
    ),
    "jobs_of_the_dead_are_taken_up": JOB + RUN + WORKER + f"update ledger.job set lease_expires_at = {LONG_AGO}",
    "posts_are_where_their_log_ends: a post that is gone": (POST + LOG + f"('post', '{OTHER}', 1, null, 'PENDING')"),
    "posts_are_held_exactly_while_processing": POST + ASLEEP + "update posts.posts set lease_owner = 'me'",
    "posts_are_held_exactly_while_processing: by another than took it": (
        POST + DUE + TAKE + ASLEEP + "update posts.posts set lease_owner = 'another'"
    ),
    "posts_were_taken_as_often_as_their_log_tells": POST + ASLEEP + "update posts.posts set process_attempts = 2",
    "versions_differ_from_the_one_before": (
        SEEN + "update schedule_ingest.schedule_version set canonicalizer = 1;"
        " insert into schedule_ingest.capture_session (id, user_id, state, settled_by, starts, revision, result)"
        f" values ('{OTHER}', 42, 'done', 'me/1', 1, 3,"
        ' \'{"outcome": "changed", "version": 2, "schedule_date": "2026-02-10"}\');'
        f" insert into duly.transition select machine, '{OTHER}', seq, ts, prev_status, next_status, actor, detail_json"
        " from duly.transition where machine = 'capture';"
        f" insert into schedule_ingest.schedule_version select user_id, schedule_date, 2, '{OTHER}', payload,"
        " payload_hash, created_at, canonicalizer from schedule_ingest.schedule_version;"
        " update schedule_ingest.day_schedule set current_version = 2"
    ),
    "captures_are_about_their_own_person": (
        SEEN + "update schedule_ingest.schedule_event set user_id = 43;"
        " update schedule_ingest.day_snapshot set user_id = 43;"
        " update schedule_ingest.schedule_notification set user_id = 43"
    ),
    "captures_are_where_their_log_ends: a session that is gone": (
        OPEN + LOG + f"('capture', '{OTHER}', 1, null, 'pending')"
    ),
    "captures_move_as_drawn": (
        OPEN + "set session_replication_role = replica;"
        " update schedule_ingest.capture_session set state = 'done', revision = 2;"
        + LOG
        + f"('capture', '{CAPTURE}', 2, 'pending', 'done')"
    ),
    "captures_are_held_exactly_while_processing": SEEN + "update schedule_ingest.capture_session set locked_by = 'me'",
    "captures_are_held_exactly_while_processing: by another than took it": (
        OPEN
        + LOOK
        + "set session_replication_role = replica; update schedule_ingest.capture_session set locked_by = 'another'"
    ),
    "captures_started_as_often_as_their_log_tells": SEEN + "update schedule_ingest.capture_session set starts = 5",
    "captures_of_the_dead_are_taken_up": (
        OPEN + LOOK + WORKER + f"update schedule_ingest.capture_session set locked_at = {LONG_AGO}"
    ),
    "periods_have_one_run": (
        SCHEDULED + "alter table scheduler.job_run_keys drop constraint uq_job_runs__job_period;"
        " insert into scheduler.job_runs (job_id, period_key, scheduled_at)"
        " select id, '2026-11', now() from scheduler.jobs"
    ),
    "runs_are_where_their_log_ends: a run that is gone with its key": (
        SCHEDULED + LOG + "('run', '999', 1, null, 'pending')"
    ),
    "runs_move_as_drawn": (
        SCHEDULED
        + RUNS_ASLEEP
        + "update scheduler.job_runs set status = 'snoozed', revision = 2;"
        + LOG[: -len("values ")]
        + "select 'run', id::text, 2, 'pending', 'snoozed' from scheduler.job_runs"
    ),
    "schedules_are_where_their_log_ends": (
        SCHEDULED + SCHEDULES_ASLEEP + "update scheduler.jobs set rule = 'cron: 0 11 1 * *'"
    ),
    "schedules_are_where_their_log_ends: a schedule that is gone": (
        SCHEDULED + LOG + "('schedule', '999', 1, null, 'active')"
    ),
    "schedules_move_as_drawn": (
        SCHEDULED
        + SCHEDULES_ASLEEP
        + "update scheduler.jobs set revision = 3;"
        + "insert into duly.transition (machine, key, seq, prev_status, next_status, detail_json)"
        " select 'schedule', id::text, seq, before, after, jsonb_build_object('rule', rule) from scheduler.jobs,"
        " (values (2, 'active', 'archived'), (3, 'archived', 'active')) as steps (seq, before, after)"
    ),
    "plans_are_held_exactly_while_planning": (
        SCHEDULED + "alter table scheduler.job_plans drop constraint ck_job_plans__lease;"
        " update scheduler.job_plans set lease_owner = 'me'"
    ),
    "plans_of_the_dead_are_taken_up": (
        SCHEDULED + WORKER + "update scheduler.job_plans set state = 'planning', lease_owner = 'me/1',"
        f" lease_expires_at = {LONG_AGO}"
    ),
    "confirmed_runs_have_an_answer": SCHEDULED + "update scheduler.job_runs set status = 'confirmed'",
    "answers_are_booked": SCHEDULED + CONFIRM % """'{"amount": "5"}'""",
    "answers_are_booked: as the schedule has it": SCHEDULED + TEMPLATE + CONFIRM % "null",
    "entries_are_booked_once": (
        SCHEDULED
        + "alter table expense.expenses drop constraint uq_expenses__source_ref;"
        + CONFIRM % """'{"amount": "5"}'"""
        + BOOK % 5
        + BOOK % 5
    ),
    "entries_say_what_was_answered": SCHEDULED + CONFIRM % """'{"amount": "5"}'""" + BOOK % 6,
    "entries_say_what_was_answered: another person's": (
        SCHEDULED
        + CONFIRM % "null"
        + "insert into \"user\".users (uid) values ('bo');"
        + (BOOK % 5).replace("j.user_id", '(select max(id) from "user".users)')
    ),
    "reminders_go_to_their_person": (
        SCHEDULED + "insert into duly.outbox (channel, recipient, kind, payload)"
        " select 'console', 'bo', 'reminder.due', jsonb_build_object('run', id) from scheduler.job_runs"
    ),
    "notifications_say_what_became_of_them: one that is gone": (
        SEEN + LOG + "('notification', 'another', 1, null, 'pending')"
    ),
    "notifications_move_as_drawn": (
        SEEN + "update schedule_ingest.schedule_notification set delivery = 'uncertain', revision = 2,"
        " called_at = duly.clock();" + LOG + "('notification', 'n', 2, 'pending', 'uncertain')"
    ),
    "notifications_are_held_exactly_while_sending": (
        SEEN + "update schedule_ingest.schedule_notification set lease_owner = 'me'"
    ),
    "notifications_are_held_exactly_while_sending: by another than took it": (
        SEEN
        + NOTIFY
        + "set session_replication_role = replica;"
        + "update schedule_ingest.schedule_notification set lease_owner = 'another'"
    ),
    "notifications_started_as_often_as_their_log_tells": (
        SEEN + "update schedule_ingest.schedule_notification set starts = 2"
    ),
    "notifications_are_sent_by_their_holder": (
        SEEN + NOTIFY + "update schedule_ingest.schedule_notification set delivery = 'sent', settled_by = 'a zombie',"
        " lease_owner = null, lease_expires_at = null"
    ),
    "notifications_of_the_dead_are_taken_up": (
        SEEN + NOTIFY + WORKER + f"update schedule_ingest.schedule_notification set lease_expires_at = {LONG_AGO}"
    ),
}


@pytest.fixture
def admin(database_of_each_major: str) -> Generator[Admin, None, None]:
    """A migrated database of each major version."""
    with psycopg.connect(database_of_each_major, autocommit=True) as connection:
        yield connection


def test_a_database_in_order_has_no_difference_and_no_offence(admin: Admin) -> None:
    assert compare(admin, "duly") == []
    assert check(admin, SCHEMAS) == []


@pytest.mark.parametrize("planted", PLANTED_DIFFERENCES)
def test_a_planted_difference_is_found(planted: str, admin: Admin) -> None:
    statement, kind, words = PLANTED_DIFFERENCES[planted]
    admin.execute(statement.encode())
    differences = compare(admin, "duly")
    assert [each for each in differences if each.kind == kind and words in each.line], differences


def change_guard(admin: Admin, before: str, after: str) -> set[tuple[str, str]]:
    """Replace a piece of the guard that runs; the edges in which the database then differs."""
    (source,) = admin.execute("select pg_get_functiondef('duly.outbox_guard()'::regprocedure)").fetchone() or [""]
    assert before in source
    admin.execute(source.replace(before, after).encode())
    differences = [(each.kind, each.line) for each in compare(admin, "duly")]
    return {each for each in differences if not each[1].startswith("function ")}


def test_a_guard_that_lets_more_pass_differs_by_that_edge(admin: Admin) -> None:
    more = "when 'sent' then new.\"status\"::text = any (array['pending']) else false"
    assert change_guard(admin, "else false", more) == {("unexpected", "edge duly.outbox.status sent -> pending")}


def test_a_guard_that_lets_less_pass_differs_by_that_edge(admin: Admin) -> None:
    found = change_guard(admin, "array['sending', 'failed']", "array['sending']")
    assert found == {("missing", "edge duly.outbox.status pending -> failed")}


def test_a_guard_that_lets_rows_begin_elsewhere_differs_by_that_beginning(admin: Admin) -> None:
    found = change_guard(admin, "array['pending'])) then", "array['pending', 'sent'])) then")
    assert found == {("unexpected", "begin duly.outbox.status sent")}


def test_an_edge_that_is_only_a_comment_is_none(admin: Admin) -> None:
    found = change_guard(admin, "array['sending', 'failed']", "array['sending' /* , 'failed' */]")
    assert found == {("missing", "edge duly.outbox.status pending -> failed")}


def test_the_edges_in_the_contract_are_those_of_the_machine() -> None:
    drawn = {f"begin duly.outbox.status {first}" for first in OUTBOX_MACHINE.initial}
    drawn |= {f"edge duly.outbox.status {one} -> {two}" for one, all_ in OUTBOX_MACHINE.edges.items() for two in all_}
    assert {line for line in contract_lines("duly") if line.startswith(("begin ", "edge "))} == drawn


@pytest.mark.parametrize("planted", PLANTED_OFFENCES)
def test_a_planted_violation_is_caught(planted: str, admin: Admin) -> None:
    admin.execute(PLANTED_OFFENCES[planted].encode())
    offences = check(admin, SCHEMAS)
    assert {offence.invariant for offence in offences} == {law_of(planted)}, offences


def law_of(planted: str) -> str:
    """The law that is broken so; there may be words after it."""
    return planted.split(":")[0]


def test_a_capture_in_order_breaks_no_law(admin: Admin) -> None:
    admin.execute(SEEN.encode())
    assert check(admin, SCHEMAS) == []


def test_of_a_day_that_another_program_wrote_events_of_nobody_can_tell(admin: Admin) -> None:
    admin.execute(SEEN.encode())
    admin.execute("update schedule_ingest.day_snapshot set snapshot_payload = '[]', events = 0")
    admin.execute("update schedule_ingest.schedule_event set seq = null")
    assert check(admin, SCHEMAS) == []


def test_every_law_belongs_to_a_contract_or_to_all_of_them() -> None:
    assert {each.contract for each in INVARIANTS} == {None, *CONTRACTS}
    for contract in CONTRACTS:
        assert {each.contract for each in invariants_of([contract])} == {None, contract}


def test_a_law_about_what_is_not_there_is_told_as_unasked(admin: Admin) -> None:
    admin.execute("drop schema schedule_ingest cascade")
    offences = check(admin, SCHEMAS)
    assert {offence.kind for offence in offences} == {"unasked"}
    of_ingest = {each.name for each in INVARIANTS if each.contract == "ingest"}
    of_the_log_alone = {"captures_move_as_drawn", "notifications_move_as_drawn"}
    assert {offence.invariant for offence in offences} == of_ingest - of_the_log_alone
    assert "does not exist" in offences[0].offender


def test_a_verifier_that_cannot_see_every_row_says_so(admin: Admin) -> None:
    admin.execute("alter table duly.orgs enable row level security")
    blind = psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api), autocommit=True)
    with blind:
        offences = check(blind, SCHEMAS, [each for each in INVARIANTS if each.name == "every_role_sees_every_row"])
    assert "duly.orgs is under row security" in offences[0].offender


def test_every_invariant_has_a_planted_violation() -> None:
    planted = {law_of(each) for each in PLANTED_OFFENCES}
    assert {*planted, "every_role_sees_every_row"} == {invariant.name for invariant in INVARIANTS}
    assert all(invariant.law for invariant in INVARIANTS)


def test_every_invariant_stands_on_the_page_and_no_other() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", (ROOT / "docs" / "verify.md").read_text()))
    laws = {invariant.name for invariant in INVARIANTS}
    assert laws - named == set()
    assert {each for each in named - laws if each.count("_") > 1} == {"pg_get_constraintdef"}


def test_it_takes_no_lock_that_anybody_would_notice(admin: Admin, database_of_each_major: str) -> None:
    with psycopg.connect(database_of_each_major) as busy:
        busy.execute(
            "lock table duly.transition, duly.orgs, duly.api_keys, duly.outbox, ledger.job, ledger.job_event,"
            " schedule_ingest.capture_session, schedule_ingest.schedule_version, schedule_ingest.schedule_event"
            " in share row exclusive mode"
        )
        assert check(admin, SCHEMAS) == []


def test_it_never_locks_more_than_a_reader_does(admin: Admin, database_of_each_major: str) -> None:
    admin.execute(SEEN.encode())
    held: set[tuple[str, str]] = set()
    with psycopg.connect(database_of_each_major, autocommit=True) as other:

        def look(_: int) -> None:
            locks = other.execute("select locktype, mode from pg_locks where pid = %s", [admin.info.backend_pid])
            held.update((kind, mode) for kind, mode in locks)

        check(admin, SCHEMAS, watch=look)
    assert {mode for kind, mode in held if kind == "relation"} == {"AccessShareLock"}
    assert {kind for kind, _ in held} == {"relation", "virtualxid"}


def test_it_writes_nothing_and_works_where_nothing_can_be_written(database_of_each_major: str) -> None:
    read_only = "-c default_transaction_read_only=on"
    with psycopg.connect(database_of_each_major, autocommit=True, options=read_only) as connection:
        assert check(connection, SCHEMAS) == []
    writing = Invariant("writes", "It writes.", "insert into duly.orgs (name) values ('new') returning name")
    with (
        psycopg.connect(database_of_each_major, autocommit=True) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        check(connection, SCHEMAS, [writing])


def test_the_memory_it_takes_is_given_back(admin: Admin) -> None:
    def room() -> str:
        (value,) = admin.execute("show work_mem").fetchone() or [""]
        return value

    seen: set[str] = set()
    before = room()
    check(admin, SCHEMAS, INVARIANTS[:1], watch=lambda _: seen.add(room()))
    assert seen == {"128MB"}
    assert room() == before
    admin.execute("set work_mem = '256MB'")
    check(admin, SCHEMAS, INVARIANTS[:1], watch=lambda _: seen.add(room()))
    assert seen == {"128MB", "256MB"}


def test_roles_of_other_names_are_no_difference() -> None:
    lines = contract_lines("duly", Names(owner="boss"))
    assert any("owner boss" in line for line in lines)
    assert not any("duly_owner" in line for line in lines)


def test_a_contract_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no contract 'nothing'"):
        contract_lines("nothing")


def run_verify(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = plain_environment(DATABASE_URL=database)
    return subprocess.run(
        [*PYTHON, "-m", "duly", "verify", *arguments], env=environment, capture_output=True, text=True
    )


def test_the_command_says_what_it_found_and_exits_by_it(database: str) -> None:
    fine = run_verify(database)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "0 differences, 0 offences" in fine.stdout
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("drop index duly.idx_transition__ts")
    bad = run_verify(database, "--contract", "duly", "--json")
    assert bad.returncode == 1
    assert "idx_transition__ts" in json.loads(bad.stdout)["differences"][0]["line"]
    assert run_verify(database, "--contract", "nothing").returncode == 2


def test_whoever_watches_sees_which_law_is_looked_at(database: str) -> None:
    screen, terminal = os.openpty()
    with open(screen, "rb", buffering=0) as screen_file:  # noqa: PTH123 (a descriptor)
        environment = plain_environment(DATABASE_URL=database, TERM="xterm", COLUMNS="200")
        answer = subprocess.run(
            [*PYTHON, "-m", "duly", "verify", "--json"], env=environment, stdout=subprocess.PIPE, stderr=terminal
        )
        os.close(terminal)
        shown = b"".join(iter(lambda: read_or_nothing(screen_file), b"")).decode()
    assert json.loads(answer.stdout) == {"differences": [], "offences": []}
    assert f"/{len(INVARIANTS)}" in shown


def read_or_nothing(file: FileIO) -> bytes:
    """What stands on a screen; Linux says that it is over by an error."""
    try:
        return file.read(4096)
    except OSError:
        return b""
