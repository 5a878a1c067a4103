"""Faults to plant, one at a time: each breaks one guarantee of duly, and a test should fail.

They were chosen by reading the source alone, never the tests, so that they are an unbiased sample. `old` occurs exactly
once in its file; `python -m tools.planted_faults --list` reports those for which it no longer does.
"""

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Fault:
    """A text in one file, its replacement, and the guarantee that breaks."""

    id: str
    file: str  # relative to the root of the repository
    old: str
    new: str
    effect: str

    @property
    def package(self) -> str:
        """Name the package of the file, as the directories of its tests are named."""
        path = PurePosixPath(self.file.removeprefix("src/duly/").removeprefix("tools/"))
        depth = 2 if path.parts[0] == "apps" else 1
        return "/".join(path.parts[:depth]).removesuffix(".py")

    @property
    def digest(self) -> str:
        """Return a digest of the fault; a stored result with another digest is ignored."""
        return hashlib.sha256("\0".join((self.file, self.old, self.new)).encode()).hexdigest()[:16]


KERNEL = (
    Fault(
        "kernel-settle-owner",
        "src/duly/apps/posts/lease.sql",
        """        select
        from posts.posts as t
        where t.id = given.key and t.lease_owner = given.owner and t.status = 'PROCESSING'
""",
        """        select
        from posts.posts as t
        where t.id = given.key and t.status = 'PROCESSING'
""",
        "A stale holder can settle a row that was claimed again.",
    ),
    Fault(
        "kernel-quarantine-edge",
        "src/duly/apps/ingest/lease.sql",
        "and starts >= %(max_starts)s",
        "and starts > %(max_starts)s",
        "A row that was started as often as it may be is neither tried again nor set aside: it waits for ever.",
    ),
    Fault(
        "kernel-renew-expired",
        "src/duly/apps/posts/lease.sql",
        "            and t.lease_expires_at >= duly.clock()\n        for no key update skip locked",
        "        for no key update skip locked",
        "A late heartbeat revives a lease that has expired or was released.",
    ),
    Fault(
        "kernel-timeline-cursor",
        "src/duly/lease/timeline.sql",
        "and seq > %(after_seq)s",
        "and seq >= %(after_seq)s",
        "Every page of a timeline repeats the last line of the page before.",
    ),
    Fault(
        "kernel-owner-token",
        "src/duly/lease/owner.py",
        'return f"{worker_id}/{secrets.token_urlsafe(TOKEN_BYTES)}"',
        "return f\"{worker_id}/{'A' * 22}\"",
        "Two claims of one worker have the same owner, so the earlier one can settle for the later one.",
    ),
    Fault(
        "kernel-backoff-cap",
        "src/duly/backoff.py",
        "return min(self.cap_seconds, self._doubled(attempt))",
        "return self._doubled(attempt)",
        "The wait before a retry grows beyond its cap.",
    ),
    Fault(
        "kernel-page-cursor",
        "src/duly/paging.py",
        "encode_cursor(*sort_key(items[-1]))",
        "encode_cursor(*sort_key(rows[-1]))",
        "One row between two pages of a list is never shown.",
    ),
    Fault(
        "kernel-key-reused",
        "src/duly/db/idempotency.py",
        "            if is_same(found):\n",
        "            if is_same(found) or found is not None:\n",
        "A key that was used for another request is answered with that request's row instead of being refused.",
    ),
    Fault(
        "kernel-self-fencing",
        "src/duly/lease/heartbeat.py",
        "if now >= watched.valid_until:",
        "if now >= watched.valid_until + self.lease_seconds:",
        "A holder that the database no longer answers works on after its lease has expired.",
    ),
    Fault(
        "kernel-cancel-not-heard",
        "src/duly/lease/heartbeat.py",
        "if lease.claim in answer.cancelled:",
        "if lease.claim in answer.lost:",
        "A running job never learns that it was asked to stop.",
    ),
    Fault(
        "kernel-bisect-half",
        "src/duly/lease/bisect.py",
        "pieces += [(middle, end), (start, middle)]",
        "pieces += [(start, middle)]",
        "One bad row in a batch keeps half of the good rows from being written.",
    ),
    Fault(
        "kernel-link-expiry",
        "src/duly/accounts/signed_links.py",
        "return now.timestamp() >= self.expires_at",
        "return self.expires_at <= 0",
        "A link in a message still answers after its time is over.",
    ),
)

LEDGER = (
    Fault(
        "ledger-hand-back-blamed",
        "src/duly/jobs/lease.sql",
        "starts = case when ours.is_cancel_requested then t.starts else t.starts - 1 end,",
        "starts = t.starts,",
        "A job that was released, or asked to run later, loses one of its attempts.",
    ),
    Fault(
        "ledger-fail-owner",
        "src/duly/jobs/lease.sql",
        "t.lease_owner = given.owner and t.lease_expires_at is not null\n        for no key update",
        "t.lease_expires_at is not null\n        for no key update",
        "A stale holder can fail a job that another worker runs.",
    ),
    Fault(
        "ledger-sweep-live-lease",
        "src/duly/jobs/functions.sql",
        "where r.status = 'running' and r.lease_expires_at < duly.now() and (jobs is null",
        "where r.status = 'running' and (jobs is null",
        "The sweep takes jobs from workers whose lease has not expired.",
    ),
    Fault(
        "ledger-backoff-cap",
        "src/duly/jobs/lease.sql",
        "(0.8 + 0.4 * random()) * least(",
        "(0.8 + 0.4 * random()) * greatest(",
        "The wait before a job's retry ignores its cap, and the first retry waits for minutes.",
    ),
    Fault(
        "ledger-give-up-retried",
        "src/duly/jobs/repository.py",
        "for lease in leases if lease.key in marked], give_up\n",
        "for lease in leases if lease.key in marked]\n",
        "A job whose handler gave up is tried again.",
    ),
    Fault(
        "ledger-job-timeout",
        "src/duly/jobs/work.py",
        'seconds = row["timeout_seconds"] if row["timeout_seconds"] is not None else handler.timeout_seconds',
        "seconds = handler.timeout_seconds",
        "The time limit that a job was enqueued with is ignored.",
    ),
    Fault(
        "ledger-event-pages",
        "src/duly/jobs/service.py",
        "after_seq=after, limit=checked_limit(limit) + 1)",
        "after_seq=after, limit=checked_limit(limit))",
        "The log of a job ends with its first page, however long it is.",
    ),
    Fault(
        "ledger-lost-transaction",
        "src/duly/jobs/context.py",
        """        if not is_ours:
            raise LeaseLost(f"job {self.lease.key} is no longer leased to this worker")
        self.open_connection = connection
""",
        "        self.open_connection = connection\n",
        "A handler that has lost its job can still write in ctx.transaction().",
    ),
    Fault(
        "ledger-look-rollback",
        "src/duly/testing/query.py",
        '        fetch(transaction, RESTORE, {"tenant": tenant or ""})\n',
        "",
        "Looking at jobs in a caller's transaction leaves the tenant set there.",
    ),
    Fault(
        "ledger-explain-expired",
        "src/duly/jobs/situation.py",
        "and self.lease_expires_at < self.observed_at",
        "and self.lease_expires_at > self.observed_at",
        "Explain says of a running job that its lease has ended, and of an expired one that it runs.",
    ),
)

WORKER = (
    Fault(
        "worker-slots",
        "src/duly/worker/claimer.py",
        "wanted = min(self.held.slots.free, self.work.tuning.batch)",
        "wanted = min(self.held.slots.total, self.work.tuning.batch)",
        "A worker claims more rows than it has slots.",
    ),
    Fault(
        "worker-polite-stop",
        "src/duly/worker/work_loops.py",
        "self.held.stop_all(only_waiting=True)",
        "self.held.stop_all()",
        "SIGTERM interrupts handlers at once instead of letting them finish.",
    ),
    Fault(
        "worker-shutdown-cancels",
        "src/duly/worker/handlers.py",
        "return Cancelled() if why is Stop.CANCELLED else Released()",
        "return Cancelled() if why is not Stop.LOST else Released()",
        "A job that was interrupted by a shutdown ends as canceled instead of being run again.",
    ),
    Fault(
        "worker-failing-health",
        "src/duly/worker/health.py",
        "        code = HTTPStatus.SERVICE_UNAVAILABLE\n",
        "        code = HTTPStatus.OK\n",
        "A worker that is stuck passes its health check.",
    ),
    Fault(
        "worker-ready-while-stopping",
        "src/duly/worker/control.py",
        "        if self.stop_requests:\n            return",
        "        if self.stop_requests < 0:\n            return",
        "A worker that is stopping says that it is ready.",
    ),
    Fault(
        "worker-says-goodbye",
        "src/duly/worker/registry.sql",
        "update duly.workers set seen_at = duly.clock(), stopped_at = duly.clock() where id = %(id)s;",
        "update duly.workers set seen_at = duly.clock() where id = %(id)s;",
        "A worker that stopped counts as alive, and later as vanished.",
    ),
)

POSTS = (
    Fault(
        "posts-edit-author",
        "src/duly/apps/posts/queries.sql",
        "where id = %(post_id)s and author_id = %(author)s and status = 'PENDING'",
        "where id = %(post_id)s and status = 'PENDING'",
        "Any author can change the caption of another author's post.",
    ),
    Fault(
        "posts-unreleased-visible",
        "src/duly/apps/posts/queries.sql",
        "where id = %(post_id)s and (status = 'RELEASED' or %(viewer)s in (author_id, '*'));",
        "where id = %(post_id)s;",
        "A post can be seen by others before it is released.",
    ),
    Fault(
        "posts-feed-order",
        "src/duly/apps/posts/queries.sql",
        """where status = 'RELEASED' and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at desc, id desc
""",
        """where status = 'RELEASED' and (created_at, id) < (%(before_at)s, %(before_id)s)
order by created_at, id
""",
        "The feed shows the oldest posts first, and its pages repeat them.",
    ),
    Fault(
        "posts-lag-percentile",
        "src/duly/apps/posts/slo.sql",
        "percentile_disc(0.95)",
        "percentile_disc(0.50)",
        "The promise that 95 % of posts appear in time is judged by the median.",
    ),
    Fault(
        "posts-attempts-edge",
        "src/duly/apps/posts/work.py",
        'if row["process_attempts"] > MAX_ATTEMPTS:',
        'if row["process_attempts"] >= MAX_ATTEMPTS:',
        "A post is released unread at its fifth start, which is one too early.",
    ),
    Fault(
        "posts-digest-caption",
        "src/duly/apps/posts/model.py",
        'return digest({"imagePath": self.image_path, "caption": self.caption})',
        'return digest({"imagePath": self.image_path})',
        "The same request id with another caption is answered as if it were the same request.",
    ),
    Fault(
        "posts-model-redirects",
        "src/duly/apps/posts/language_model.py",
        "timeout=self.seconds, follow_redirects=False,",
        "timeout=self.seconds, follow_redirects=True,",
        "The key of the language model goes along to wherever its server redirects.",
    ),
)

SCHEDULER = (
    Fault(
        "scheduler-dst-gap",
        "src/duly/apps/scheduler/wallclock.py",
        '    assert change, "a gap is where a clock was set"\n    return change\n',
        '    assert change, "a gap is where a clock was set"\n    return instant\n',
        "A time that spring leaves out fires later than the first instant after the gap.",
    ),
    Fault(
        "scheduler-advance-sign",
        "src/duly/apps/scheduler/planning.py",
        "remind_at=at - advance",
        "remind_at=at + advance",
        "A reminder that should come in advance comes afterwards.",
    ),
    Fault(
        "scheduler-nth-weekday",
        "src/duly/apps/scheduler/periodic.py",
        "% 7 + 7 * (self.nth - 1)",
        "% 7 + 7 * self.nth",
        "The first Monday of a month fires a week late.",
    ),
    Fault(
        "scheduler-csv-formula",
        "src/duly/apps/scheduler/expense_export.py",
        'FORMULA = ("=", "+", "-", "@", "\\t", "\\r")',
        'FORMULA = ("=",)',
        "A cell of the exported expenses can begin a formula in a spreadsheet.",
    ),
    Fault(
        "scheduler-amount-rounding",
        "src/duly/apps/scheduler/expense_export.py",
        "{rest.rstrip('0').ljust(2, '0')}",
        "{rest[:2].ljust(2, '0')}",
        "Exported amounts lose what comes after the second decimal.",
    ),
    Fault(
        "scheduler-snooze-key",
        "src/duly/apps/scheduler/reminder.py",
        "format_button_key(run.id, run.remind_at, action, minutes)",
        "format_button_key(run.id, run.scheduled_at, action, minutes)",
        "The buttons of a second reminder have the keys of the first, so a second snooze does nothing.",
    ),
    Fault(
        "scheduler-archived-changed",
        "src/duly/apps/scheduler/queries.sql",
        "user_id = %(user_id)s) and status <> 'archived'",
        "user_id = %(user_id)s)",
        "An archived schedule can be changed.",
    ),
    Fault(
        "scheduler-other-persons",
        "src/duly/apps/scheduler/queries.sql",
        "where j.id = %(schedule_id)s and (%(user_id)s::bigint is null or j.user_id = %(user_id)s);",
        "where j.id = %(schedule_id)s;",
        "A person can see another person's schedule.",
    ),
    Fault(
        "scheduler-quiet-zone",
        "src/duly/apps/scheduler/queries.sql",
        "duly.after_quiet(duly.now(), person.zone, person.quiet_from",
        "duly.after_quiet(duly.now(), 'Asia/Tokyo', person.quiet_from",
        "Quiet hours are kept in another time zone than the person's.",
    ),
    Fault(
        "scheduler-drop-open-month",
        "src/duly/apps/scheduler/partitions.py",
        'if not found["is_over"]:',
        'if found["is_over"] is None:',
        "A month that is not over can be archived and dropped.",
    ),
)

INGEST = (
    Fault(
        "ingest-other-persons",
        "src/duly/apps/ingest/queries.sql",
        "where id = %(session_id)s and (%(user_id)s::bigint is null or user_id = %(user_id)s::bigint);",
        "where id = %(session_id)s;",
        "A person can see another person's capture session.",
    ),
    Fault(
        "ingest-idle-at-once",
        "src/duly/apps/ingest/queries.sql",
        "and last.at <= duly.now() - make_interval(secs => %(idle_seconds)s)",
        "and last.at <= duly.now()",
        "A session is closed right after its first image, while others are still being sent.",
    ),
    Fault(
        "ingest-end-changed",
        "src/duly/apps/ingest/diff.py",
        "if (old.start, old.end) != (new.start, new.end):",
        "if old.start != new.start:",
        "A shift that only ends at another time is reported as relocated.",
    ),
    Fault(
        "ingest-merge-one-page",
        "src/duly/apps/ingest/aggregate.py",
        "for each in seen if nth not in each.pages and _is_same",
        "for each in seen if _is_same",
        "Two shifts on one photograph are merged into one.",
    ),
    Fault(
        "ingest-summary-threshold",
        "src/duly/apps/ingest/notifications.py",
        "if len(ordered) >= summary_threshold and ordered:",
        "if len(ordered) > summary_threshold and ordered:",
        "The summary message comes one change too late.",
    ),
    Fault(
        "ingest-covered-edge",
        "src/duly/apps/ingest/pages.py",
        '<= minutes_since_midnight(entry["start"]) <= part.last',
        '<= minutes_since_midnight(entry["start"]) < part.last',
        "A removed shift at the end of what a photograph shows stays in the day.",
    ),
    Fault(
        "ingest-session-order",
        "src/duly/apps/ingest/recording.py",
        'key=lambda each: (each.lease.row["created_at"], each.lease.key),\n',
        'key=lambda each: (each.lease.row["created_at"], each.lease.key), reverse=True,\n',
        "Of two sessions about one day the older one has the last word.",
    ),
    Fault(
        "ingest-unreliable-page",
        "src/duly/apps/ingest/photographs.py",
        "    if problems:\n",
        "    if len(problems) > MAX_PROBLEMS:\n",
        "A photograph that cannot be relied on changes the day instead of being refused.",
    ),
    Fault(
        "ingest-coverage-begin",
        "src/duly/apps/ingest/photographs.py",
        "first = 0 if day.shows_day_start else starts[0]",
        "first = 0",
        "A photograph of the afternoon removes the shifts of the morning.",
    ),
    Fault(
        "ingest-place-number",
        "src/duly/apps/ingest/shift.py",
        '"place", folded(where.street), folded_number(where.street_number), folded(',
        '"place", folded(where.street), folded(',
        "Two addresses in one street have the same location fingerprint.",
    ),
    Fault(
        "ingest-ocr-noon",
        "src/duly/apps/ingest/ocr/times.py",
        "{int(time[:2]) % 12 + (12 if meridiem == 'PM' else 0):02}",
        "{int(time[:2]) + (12 if meridiem == 'PM' else 0):02}",
        "12:30 PM is read as 24:30.",
    ),
    Fault(
        "ingest-ocr-day-month",
        "src/duly/apps/ingest/ocr/date_scan.py",
        "DateMatch(NUMERIC, *found.span(), int(found[4]), int(found[3]), int(found[1]), found[2])",
        "DateMatch(NUMERIC, *found.span(), int(found[4]), int(found[1]), int(found[3]), found[2])",
        "Day and month of 3/4 2026 are swapped, so another day is changed.",
    ),
    Fault(
        "ingest-ocr-illegible",
        "src/duly/apps/ingest/ocr/problems.py",
        "is_legible = block.line.confidence >= MIN_TIMES_CONFIDENCE",
        "is_legible = block.line.confidence >= 0",
        "Times that are barely legible are accepted.",
    ),
    Fault(
        "ingest-ocr-scrolled",
        "src/duly/apps/ingest/ocr/reader.py",
        "shows_day_start=day is not None and shows_start,",
        "shows_day_start=day is not None,",
        "A scrolled photograph counts as showing the beginning of the day, and earlier shifts are removed.",
    ),
    Fault(
        "ingest-ocr-disputed",
        "src/duly/apps/ingest/ocr/problems.py",
        "if line.min_char_confidence < MIN_CHAR_CONFIDENCE:",
        "if line.min_char_confidence < 0:",
        "A line whose two readings have different letters is accepted.",
    ),
    Fault(
        "ingest-ocr-struck",
        "src/duly/apps/ingest/ocr/lines.py",
        "self.ink.strikethrough >= threshold",
        "self.ink.strikethrough > 1",
        "Old times that are struck through become a shift of their own.",
    ),
    Fault(
        "ingest-ocr-backwards",
        "src/duly/apps/ingest/ocr/reader.py",
        "if shift.start < before.start and not any(",
        "if shift.start < before.start and any(",
        "Times that run backwards, as those of a 12-hour clock without AM and PM, are accepted.",
    ),
    Fault(
        "ingest-further-days-owner",
        "src/duly/apps/ingest/settlement.sql",
        "where t.id = d.session_id and t.settled_by = d.owner limit 1",
        "where t.id = d.session_id limit 1",
        "A worker that lost a session adds the other days of its photograph nevertheless.",
    ),
    Fault(
        "ingest-days-whole",
        "src/duly/apps/ingest/pages.py",
        "if not covers_full_day(combined_coverage(pages))]",
        "if False]",
        "A day of which a photograph shows a part is taken for the whole day, and its other shifts are removed.",
    ),
)

DELIVERY = (
    Fault(
        "delivery-call-after-lease",
        "src/duly/outbox/lease.sql",
        "            and t.lease_expires_at > duly.clock()\n",
        "",
        "A sender whose lease has expired calls the transport, and the message goes out twice.",
    ),
    Fault(
        "delivery-resend-uncertain",
        "src/duly/outbox/queries.sql",
        "where t.{state} = 'uncertain' and t.channel = any (%(channels)s::text[])\n",
        "where t.{state} = 'uncertain'\n",
        "An uncertain message is sent again on a channel that cannot tell duplicates, without a person's decision.",
    ),
    Fault(
        "delivery-retry-after",
        "src/duly/outbox/sender.py",
        "            return finished.outcome.seconds\n",
        "            return min(finished.outcome.seconds, 1.0)\n",
        "The time that the other side asked us to wait is ignored.",
    ),
    Fault(
        "delivery-overtaking",
        "src/duly/outbox/sender.py",
        "queue.is_blocked = isinstance(outcome, Failed | RetryAfter | Released)",
        "queue.is_blocked = isinstance(outcome, RetryAfter | Released)",
        "A later message to a person overtakes one that must be tried again.",
    ),
    Fault(
        "delivery-redirect-sent",
        "src/duly/outbox/channels/webhook/__init__.py",
        "if 200 <= status < 300:",
        "if 200 <= status < 400:",
        "A webhook that was redirected, and not delivered, counts as sent.",
    ),
    Fault(
        "delivery-inside-addresses",
        "src/duly/outbox/channels/public_addresses.py",
        " and not any(address in each for each in NON_PUBLIC_NETWORKS)",
        "",
        "A webhook can be pointed at the metadata service of a cloud.",
    ),
    Fault(
        "delivery-telegram-unknown",
        "src/duly/telegram/channel.py",
        "raise (NotSent if was_never_sent(error) else OutcomeUnknown)(format_error(error)) from None",
        "raise NotSent(format_error(error)) from None",
        "A Telegram message whose answer was lost is sent a second time instead of becoming uncertain.",
    ),
    Fault(
        "delivery-sandbox-files",
        "src/duly/outbox/channels/apprise/sandbox.py",
        "if not real_path.startswith(READABLE_PREFIXES):",
        'if real_path == "":',
        "An address for apprise can make a plugin read files of the machine.",
    ),
    Fault(
        "delivery-console-escapes",
        "src/duly/outbox/channels/console/__init__.py",
        'each if each.isprintable() or each == "\\n" else "\\N{REPLACEMENT CHARACTER}" for each in text',
        "each for each in text",
        "A message on the console can steer the terminal that shows it.",
    ),
)

PEOPLE = (
    Fault(
        "people-expired-key",
        "src/duly/accounts/queries.sql",
        "revoked_at is null and (expires_at is null or expires_at > duly.clock());",
        "revoked_at is null;",
        "An API key works after it has expired.",
    ),
    Fault(
        "people-calendar-replaced",
        "src/duly/accounts/queries.sql",
        "on conflict (person_id) do update set token_sha256 = excluded.token_sha256, created_at = duly.clock();",
        "on conflict (person_id) do nothing;",
        "The old address of a calendar still opens it, and the new one does not.",
    ),
    Fault(
        "people-key-secret",
        "src/duly/accounts/repository.py",
        'if not row or not is_matching_secret(secret, row["secret_sha256"]):',
        "if not row:",
        "The prefix of an API key can be used with any secret.",
    ),
    Fault(
        "people-link-expiry",
        "src/duly/accounts/telegram_link.py",
        "if now.timestamp() > expires_at:",
        "if expires_at == 0:",
        "A link that binds a Telegram account never expires.",
    ),
    Fault(
        "people-quiet-swapped",
        "src/duly/accounts/model.py",
        "return QuietHours(time(hours[0], hours[1]), time(hours[2], hours[3]))",
        "return QuietHours(time(hours[2], hours[3]), time(hours[0], hours[1]))",
        "Quiet hours begin when they should end.",
    ),
)

OBJECTS = (
    Fault(
        "objects-metadata",
        "src/duly/storage/photo.py",
        "    picture.info.clear()  # a comment, for example, would be encoded with it\n",
        "",
        "The comment of a stranger's photograph is kept with the picture.",
    ),
    Fault(
        "objects-pixels",
        "src/duly/storage/photo.py",
        "if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_LENGTH:",
        "if max(width, height) > MAX_SIDE_LENGTH:",
        "A small file with an enormous picture in it is decoded.",
    ),
    Fault(
        "objects-parent-directory",
        "src/duly/storage/base.py",
        'len(name) > MAX_NAME_LENGTH or ".." in name or',
        "len(name) > MAX_NAME_LENGTH or",
        "The name of an object can lead out of the directory of objects.",
    ),
    Fault(
        "objects-busy-store",
        "src/duly/storage/bucket.py",
        "if code in BUSY_CODES or status in BUSY_STATUSES or not",
        "if code in BUSY_CODES or not",
        "A store that is busy is reported as a mistake in the settings instead of being tried again.",
    ),
)

VERIFY = (
    Fault(
        "verify-gap-not-seen",
        "src/duly/lease/invariants.sql",
        "having max(seq) <> count(*) or min(seq) <> 1\norder by machine, key\n",
        "having max(seq) < count(*)\norder by machine, key\n",
        "Verify does not notice that a line of a timeline is missing.",
    ),
    Fault(
        "verify-starts-not-compared",
        "src/duly/jobs/invariants.sql",
        "where j.starts <> coalesce(logged.starts, 0) or j.starts > j.max_attempts",
        "where j.starts > j.max_attempts",
        "Verify does not notice a job whose starts were not counted.",
    ),
    Fault(
        "verify-unexpected",
        "src/duly/verify/contract.py",
        '        *(Difference(contract, "unexpected", line) for line in sorted(found - expected)),\n',
        "",
        "Verify does not notice grants, triggers and columns that the contract does not have.",
    ),
    Fault(
        "verify-hidden-rows",
        "src/duly/verify/invariants.py",
        "if offenders and invariant.name == VISIBILITY_CHECK:",
        'if offenders and invariant.name == "":',
        "Verify goes on with a login from which row security hides rows, and finds nothing wrong.",
    ),
    Fault(
        "verify-doctor-months",
        "src/duly/apps/scheduler/doctor.py",
        "+ until.month - now.month - 1)",
        "+ until.month - now.month)",
        "The doctor counts one month of partitions too many, and warns a month late.",
    ),
    Fault(
        "verify-doctor-local-commit",
        "src/duly/doctor/server.py",
        'if found["synchronous_commit"] in ("off", "local"):',
        'if found["synchronous_commit"] == "off":',
        "The doctor does not warn that a failover loses the last commits.",
    ),
    Fault(
        "verify-doctor-stopped-workers",
        "src/duly/doctor/workers.sql",
        "where stopped_at is null and seen_at >",
        "where seen_at >",
        "The doctor takes workers that stopped in peace for alive or vanished.",
    ),
)

API = (
    Fault(
        "api-jobs-scope",
        "src/duly/http/auth.py",
        "return require_tenant(request.state.caller, WRITE)",
        "return require_tenant(request.state.caller, READ)",
        "A key that may only read can make, cancel and retry jobs.",
    ),
    Fault(
        "api-on-behalf",
        "src/duly/http/auth.py",
        "if on_behalf != caller.uid and ADMIN not in caller.scopes:",
        "if on_behalf != caller.uid and not caller.scopes:",
        "Any key can act for another person with the header Duly-User.",
    ),
    Fault(
        "api-proxied-local-request",
        "src/duly/http/auth.py",
        "        and not any(header in request.headers for header in PROXY_HEADERS)\n",
        "",
        "A request that a proxy passed on is served without a key.",
    ),
    Fault(
        "api-schedule-scope",
        "src/duly/apps/scheduler/http/access.py",
        'uid = require_uid(request, WRITE, "schedules")',
        'uid = require_uid(request, READ, "schedules")',
        "A key that may only read can change schedules and book expenses.",
    ),
    Fault(
        "api-existing-status",
        "src/duly/apps/scheduler/http/access.py",
        "        response.status_code = status.HTTP_200_OK\n",
        "        response.status_code = status.HTTP_201_CREATED\n",
        "A repeated request is answered as if it had created something.",
    ),
    Fault(
        "api-token-in-log",
        "src/duly/http/problems.py",
        'for secret in ("/ics/", "/c/")',
        'for secret in ("/ics/",)',
        "The token of an answer link is written to the log.",
    ),
    Fault(
        "api-receipt-dropped",
        "src/duly/http/problems.py",
        "receipt=dict(receipt) if receipt else None,",
        "receipt=None,",
        "ALREADY_ANSWERED comes without the receipt of the first answer.",
    ),
    Fault(
        "api-intent-status",
        "src/duly/apps/posts/http/envelope.py",
        """    code = status.HTTP_400_BAD_REQUEST if error is InvalidArgument else error.status
    post_id""",
        "    code = error.status\n    post_id",
        "An invalid request for a post is answered with 422 instead of the contract's 400.",
    ),
    Fault(
        "api-hook-secret",
        "src/duly/http/telegram.py",
        "if not hmac.compare_digest(given.encode(), secret.encode()):",
        "if given and not hmac.compare_digest(given.encode(), secret.encode()):",
        "Any client can post updates to the bot's webhook by leaving the secret out.",
    ),
    Fault(
        "api-page-escapes",
        "src/duly/apps/scheduler/http/answer.py",
        "autoescape=True",
        "autoescape=False",
        "The name of a schedule can put a script into the page behind an answer link.",
    ),
    Fault(
        "api-night-shift",
        "src/duly/apps/scheduler/http/calendar.py",
        "ends_at=ends_at if ends_at > starts_at else ends_at + timedelta(days=1),",
        "ends_at=ends_at,",
        "A night shift ends in the calendar before it begins.",
    ),
)

CLI = (
    Fault(
        "cli-exit-status",
        "src/duly/cli/__init__.py",
        "sys.exit(error.exit_status)",
        "sys.exit(1)",
        "A script cannot tell a wrong argument from a database that does not answer.",
    ),
    Fault(
        "cli-watched-failure",
        "src/duly/cli/jobs_common.py",
        "    if job.status is not JobStatus.SUCCEEDED:\n        sys.exit(DID_NOT_SUCCEED)",
        "    if not job.is_finished:\n        sys.exit(DID_NOT_SUCCEED)",
        "A command that followed a job to its failure exits with 0.",
    ),
    Fault(
        "cli-dry-run",
        "src/duly/cli/jobs_control.py",
        "if matched and not dry_run:",
        "if matched:",
        "A dry run of redrive puts dead letters back in the queue.",
    ),
    Fault(
        "cli-local-time",
        "src/duly/cli/times.py",
        "return time.astimezone(UTC)",
        "return time.replace(tzinfo=UTC)",
        "A time with an offset is taken for UTC.",
    ),
    Fault(
        "cli-drop-unasked",
        "src/duly/apps/scheduler/cli/partitions.py",
        "    if not yes:\n",
        "    if not yes and as_json:\n",
        "A month is dropped without --yes.",
    ),
    Fault(
        "cli-no-check",
        "src/duly/cli/serve.py",
        "if is_loopback(host) or asyncio.run(needs_key(dsn, settings)):",
        "if is_loopback(host) or dsn:",
        "The API listens for others although no key was ever made.",
    ),
    Fault(
        "cli-verify-exit",
        "src/duly/cli/verify.py",
        "return bool(self.differences) or any(",
        "return bool(self.differences) and any(",
        "Verify exits with 0 although an invariant is broken.",
    ),
)

BOT = (
    Fault(
        "bot-allowed",
        "src/duly/telegram/people.py",
        "if services.allowed_ids and event.from_user.id not in services.allowed_ids:",
        "if services.allowed_ids and event.from_user.id < 0:",
        "A bot that is limited to some Telegram ids talks to every id.",
    ),
    Fault(
        "bot-confirms-early",
        "src/duly/telegram/polling.py",
        "self.offset = min(self.unprocessed(), default=self.next_offset)",
        "self.offset = self.next_offset",
        "An update that is not processed yet is confirmed, and lost when the bot is killed.",
    ),
    Fault(
        "bot-snooze-minutes",
        "src/duly/apps/scheduler/button_key.py",
        '{"minutes": int(found[5])} if found[5] else {}',
        "{}",
        "The button 'Tomorrow' snoozes for an hour.",
    ),
    Fault(
        "bot-today-zone",
        "src/duly/telegram/days.py",
        "day = (await get_current_time(services.pool)).astimezone(zone).date()",
        "day = (await get_current_time(services.pool)).date()",
        "/today shows the day by UTC and not by the person's clock.",
    ),
    Fault(
        "bot-gives-up-early",
        "src/duly/telegram/dispatcher.py",
        "is_over = pending.failures >= MAX_FAILURES",
        "is_over = pending.failures > 0",
        "An update that failed once is given up instead of being tried again.",
    ),
)

DB = (
    Fault(
        "db-role-leaks",
        "src/duly/db/pool.py",
        'SET_ROLE = sql.SQL("set local role {}")',
        'SET_ROLE = sql.SQL("set role {}")',
        "The role of a transaction stays with the connection, which a pooler lends to another client.",
    ),
    Fault(
        "db-read-only-kept",
        "src/duly/db/pool.py",
        "        await connection.close()\n        raise Unavailable(READ_ONLY) from None",
        "        raise Unavailable(READ_ONLY) from None",
        "After a failover the pool keeps lending connections on which nothing can be written.",
    ),
    Fault(
        "db-role-not-taken",
        "src/duly/db/location.py",
        'return None if parse_address(dsn).get("user") == role else role',
        "return None",
        "API and worker act with all the rights of the login instead of their own role.",
    ),
    Fault(
        "db-direct-address",
        "src/duly/db/location.py",
        "return direct.get_secret_value() if direct else database.dsn",
        "return database.dsn",
        "Migrations go through the pooler although DATABASE_DIRECT_URL is set.",
    ),
    Fault(
        "db-log-deleted",
        "src/duly/db/functions.sql",
        "if tg_op = 'DELETE' and current_setting('duly.retention', true) = 'on' then",
        "if tg_op = 'DELETE' then",
        "Lines of an append-only log can be deleted without retention.",
    ),
    Fault(
        "db-retain-unfinished",
        "src/duly/outbox/functions.sql",
        "where t.ts < cutoff and duly.is_finished(t.machine, t.next_status) and not exists (",
        "where t.ts < cutoff and not exists (",
        "Retention removes messages that were never sent, and the history of rows that are still there.",
    ),
    Fault(
        "db-wake-channel",
        "src/duly/db/functions.sql",
        "perform pg_notify('duly_' || channel, '');",
        "perform pg_notify('wake_' || channel, '');",
        "A notification goes to a channel that no worker listens on.",
    ),
    Fault(
        "db-job-digest-payload",
        "src/duly/jobs/functions.sql",
        "jsonb_build_array(type, queue, payload, extract(epoch from run_at), nullif(delay_seconds, 0))",
        "jsonb_build_array(type, queue, extract(epoch from run_at), nullif(delay_seconds, 0))",
        "The same key with another payload is not refused.",
    ),
    Fault(
        "db-claim-waits",
        "src/duly/jobs/functions.sql",
        "limit capacity\n                for no key update skip locked",
        "limit capacity\n                for no key update",
        "A claim waits for a transaction that has a due job locked.",
    ),
    Fault(
        "db-starts-not-counted",
        "src/duly/jobs/functions.sql",
        "lease_owner = claim.owner, starts = t.starts + 1,",
        "lease_owner = claim.owner, starts = greatest(t.starts, 1),",
        "A job that kills its worker every time never becomes a dead letter.",
    ),
    Fault(
        "db-done-owner",
        "src/duly/jobs/functions.sql",
        "where t.id = any (array[given.job]) and t.lease_owner = given.owner and t.lease_expires_at is not null",
        "where t.id = any (array[given.job]) and t.lease_expires_at is not null",
        "A stale holder can finish a job that another worker runs.",
    ),
    Fault(
        "db-other-tenant",
        "src/duly/jobs/functions.sql",
        "if org <> nullif(current_setting('app.current_org_id', true), '')::uuid then",
        "if org is null then",
        "A transaction that acts for one org can enqueue jobs for another.",
    ),
    Fault(
        "db-post-day-zone",
        "src/duly/apps/posts/functions.sql",
        "return author || '_' || to_char(at at time zone 'UTC', 'YYYYMMDD');",
        "return author || '_' || to_char(at at time zone 'Asia/Tokyo', 'YYYYMMDD');",
        "The day of a post is not the UTC day.",
    ),
    Fault(
        "db-post-image-owner",
        "src/duly/apps/posts/functions.sql",
        "where u.name = upload and u.author_id = author for key share;",
        "where u.name = upload for key share;",
        "An author can post an image that another author uploaded.",
    ),
    Fault(
        "db-event-dedupe",
        "src/duly/db/migrations/sql/ingest_0001.up.sql",
        "old_value_hash, new_value_hash, source_session_id\n",
        "old_value_hash, new_value_hash\n",
        "A change that happens a second time is lost, and replay no longer rebuilds the day.",
    ),
    Fault(
        "db-answer-payload",
        "src/duly/apps/scheduler/functions.sql",
        "if earlier.action <> answer.action or earlier.payload is distinct from answer.payload then",
        "if earlier.action <> answer.action then",
        "The same key with another amount is answered as if it were the same answer.",
    ),
    Fault(
        "db-quiet-evening",
        "src/duly/accounts/functions.sql",
        "((at at time zone zone)::date + 1 + quiet_until)",
        "((at at time zone zone)::date + quiet_until)",
        "Quiet hours around midnight are not kept in the evening.",
    ),
    Fault(
        "db-resumed-skips",
        "src/duly/apps/scheduler/functions.sql",
        "when old.status = 'paused' and new.status = 'active' then duly.now() else p.resumed_at",
        "when old.status = 'paused' and new.status = 'active' then null else p.resumed_at",
        "A schedule that is resumed reminds of what it missed while it was paused.",
    ),
    Fault(
        "db-reversal-window",
        "src/duly/apps/scheduler/functions.sql",
        "if booked.occurred_at + within < duly.clock() and not exists (",
        "if booked.occurred_at is null and not exists (",
        "An expense can be reversed for ever.",
    ),
    Fault(
        "db-link-rebinds",
        "src/duly/accounts/functions.sql",
        "where p.id = person and (p.telegram_id is null or p.telegram_id = telegram);",
        "where p.id = person;",
        "A link to the bot works twice, and takes a person over from another Telegram account.",
    ),
)

REST = (
    Fault(
        "testing-more-than-wanted",
        "src/duly/testing/jobs.py",
        "if found == expected.times:",
        "if found >= expected.times:",
        "assert_not_enqueued passes although the job was enqueued.",
    ),
    Fault(
        "testing-key-ignored",
        "src/duly/testing/jobs.sql",
        "                and (p.idempotency_key is null or t.idempotency_key = p.idempotency_key)\n",
        "",
        "assert_enqueued passes for a job under another key.",
    ),
    Fault(
        "testing-real-database",
        "src/duly/testing/databases.py",
        "if not is_for_tests(name):",
        'if name == "":',
        "Tests run on a database that is not marked as one for tests.",
    ),
    Fault(
        "demo-own-database",
        "tools/demo/database.py",
        "if has_database(admin, EMBEDDED_DATABASE) and not was_made_by_a_demo(server.dsn(EMBEDDED_DATABASE)):",
        "if DRAFT == EMBEDDED_DATABASE:",
        "The demo throws away a database that it did not make.",
    ),
    Fault(
        "demo-clock-sign",
        "tools/demo/stage.py",
        "seconds = (to + MOMENT - await self.now()).total_seconds()",
        "seconds = (to - MOMENT - await self.now()).total_seconds()",
        "The demo moves the clock to just before the moment that it waits for.",
    ),
    Fault(
        "settings-secret-shown",
        "src/duly/settings.py",
        'if "SecretStr" in str(Settings.model_fields[name].annotation):',
        'if name == "database_url":',
        "A bad token or secret is printed in the error that refuses it.",
    ),
    Fault(
        "settings-heartbeat-edge",
        "src/duly/apps/ingest/settings.py",
        "and heartbeat >= timeout / 3:",
        "and heartbeat > timeout / 3:",
        "A heartbeat of exactly a third of the lease is accepted, so two late ones lose it.",
    ),
    Fault(
        "settings-private-webhooks",
        "src/duly/configuration/delivery.py",
        '"DULY_WEBHOOK_ALLOW_PRIVATE",\n        default=False,',
        '"DULY_WEBHOOK_ALLOW_PRIVATE",\n        default=True,',
        "Webhooks reach the machine and its networks unless a setting forbids it.",
    ),
    Fault(
        "logs-authorization",
        "src/duly/redaction.py",
        "secret|token|authorization|",
        "secret|token|",
        "The header Authorization is written to the log.",
    ),
    Fault(
        "logs-password-at",
        "src/duly/redaction.py",
        'maxsplit=1)[0]).rfind("@")',
        'maxsplit=1)[0]).find("@")',
        "Of a password with an @ in it the second half is written to the log.",
    ),
    Fault(
        "errors-rate-limited",
        "src/duly/errors.py",
        "    status = 429\n",
        "    status = 400\n",
        "A client that asks too often is not slowed down.",
    ),
    Fault(
        "fastapi-late-commit",
        "src/duly/integrations/fastapi.py",
        'Transaction = Annotated[AsyncConnection[Any], Depends(transaction, scope="function")]',
        "Transaction = Annotated[AsyncConnection[Any], Depends(transaction)]",
        "A client hears of success before the transaction has committed.",
    ),
    Fault(
        "fastapi-is-working",
        "src/duly/integrations/fastapi.py",
        "return self.worker is not None and self.worker.control.is_ready()",
        "return self.worker is not None",
        "is_working says yes while the worker beside the server cannot work.",
    ),
    Fault(
        "work-open-session",
        "src/duly/apps/ingest/build_work.py",
        'due="created_at" if once else "closed_at",',
        'due="created_at",',
        "A worker reads sessions whose images are still being sent.",
    ),
    Fault(
        "assembly-sender-off",
        "src/duly/assembly.py",
        "for name, channel in channels.items() if name not in off}",
        "for name, channel in channels.items()}",
        "Messages go out on a channel that DULY_SENDER_OFF switched off.",
    ),
)

FAULTS: tuple[Fault, ...] = (
    *KERNEL,
    *LEDGER,
    *WORKER,
    *POSTS,
    *SCHEDULER,
    *INGEST,
    *DELIVERY,
    *PEOPLE,
    *OBJECTS,
    *VERIFY,
    *API,
    *CLI,
    *BOT,
    *DB,
    *REST,
)
