"""What must be true when the dust has settled, whatever was done; the numbers are those of docs/verify.md.

by the database          every invariant of `duly verify`, on the schema that its contracts ask for
by the journals          nothing that was acknowledged is lost, nothing was done twice, nothing was made
                         without a request (V20, V15, V21)
by the receiver          everything was sent and arrived, and came again no oftener than the log knows (V13, V14)
by the logs of before    nothing in a log has changed or gone (V23)
by the server            no transaction is left open, nothing waits for a lock (V24)
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from duly.verify import check, compare
from duly.verify.contract import CONTRACTS, contract_schemas
from tests.proof.faults.harness import LOGS, Harness
from tests.support.invariants import belongs_to_test_clock

MAX_WAIT = "longest wait of a client (ms)"
MESSAGES = (
    ("select o.id::text, o.status from duly.outbox as o", "outbox"),
    ("select o.notification_id, o.delivery from schedule_ingest.schedule_notification as o", "notification"),
)
# Which client requested a row, by its key; a row with no client's key was made by no request.
ROW_KEYS = {
    "job": "select idempotency_key, id::text from ledger.job",
    "post": "select request_id::text, id::text from posts.posts",
    "answer": "select idempotency_key, job_run_id::text from scheduler.confirmations",
}
ALWAYS_LOGGED = ("duly.transition", "ledger.job_event")  # logs in which every episode writes from its first second
HARNESS_PREFIX = "harness-"  # so begin the keys of the harness's own requests
EXPIRED = ("CRASHED", "lease expired: its holder stopped renewing it")  # it died with its worker, and not by itself
ENDS = {  # how a handler that ends badly is recorded
    "exit": ("CRASHED", "the child process exited with status 3"),
    "abort": ("CRASHED", "the child process was killed by signal SIGABRT"),
    "segfault": ("CRASHED", "the child process was killed by signal SIGSEGV"),
    "memory": ("CRASHED", "out of memory"),
    "loop": ("TIMEOUT", "took longer than"),
}
FAILURES = """
select j.payload ->> 'how', e.detail_json ->> 'code', e.detail_json ->> 'message'
from ledger.job_event as e
inner join ledger.job as j on j.id = e.job_id
where j.type = 'alone' and j.payload ->> 'how' <> 'well' and e.next_status = 'failed'
"""
BURNT = """
select 'burn ' || (payload ->> 'seconds') || ' s', count(*)::int
from ledger.job
where type = 'burn' and status = 'succeeded'
group by 1
"""
MAX_STARTS = "most starts of a capture"
CAPTURES = "select id::text, state::text, starts, error from schedule_ingest.capture_session"
POISONED = """
select id::text, payload ->> 'how', status::text, last_error_code, last_error_message
from ledger.job
where type = 'alone' and payload ->> 'how' <> 'well'
"""
RECLAIMED = {  # rows that were begun again after an earlier holder did not finish
    "ledger": "select count(*) from ledger.job_event where detail_json ->> 'actor' = 'sweep'",
    "ingest": "select count(*) from schedule_ingest.capture_session where starts > 1",
    "posts": "select count(*) from posts.posts where process_attempts > 1",
    "outbox": "select count(*) from duly.outbox where starts > 1",
    "notifications": "select count(*) from schedule_ingest.schedule_notification where starts > 1",
}
IDLE = """
select pid, application_name
from pg_stat_activity
where state like 'idle in transaction%' and state_change < clock_timestamp() - interval '5 seconds'
  and datname = current_database()
"""
WAITS = """
select l.pid, l.mode, coalesce(l.relation::regclass::text, l.locktype), a.application_name
from pg_locks as l
inner join pg_stat_activity as a on a.pid = l.pid
where not l.granted and l.waitstart < clock_timestamp() - interval '1 second' and a.datname = current_database()
"""


def violations(harness: Harness) -> list[str]:
    """Every promise that is broken, in words."""
    found = [
        *violated_invariants(harness),
        *contradicted_answers(harness),
        *wrong_deliveries(harness),
        *changed_logs(harness),
        *open_transactions_and_lock_waits(harness),
        *untested_kinds(harness),
    ]
    harness.counts["verifications"] += 1
    for work, statement in RECLAIMED.items():
        harness.counts[f"begun again: {work}"] = harness.query(statement)[0]
    count_handlers(harness)
    return found


def violated_invariants(harness: Harness) -> Iterator[str]:
    """What `duly verify` finds."""
    schemas = [schema for name in CONTRACTS for schema in contract_schemas(name)]
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        for violation in check(connection, schemas):
            yield f"{violation.kind}: {violation.invariant}: {violation.offender}"
        for name in CONTRACTS:
            for difference in compare(connection, name):
                if not belongs_to_test_clock(difference.line):
                    yield f"{difference.kind}: {difference.line}"


def contradicted_answers(harness: Harness) -> Iterator[str]:
    """Yield answers that clients got and that are not true."""
    entries = harness.journal()
    harness.counts["answers"] = len(entries)
    unanswered = Counter(each["what"] for each in entries if each["kind"] == "unanswered")
    harness.counts["unanswered"] = unanswered.total()
    harness.counts["unanswered for want of the schema"] = sum(
        each["kind"] == "unanswered" and each["error"].startswith("Undefined") for each in entries
    )
    waits = [each["seconds"] for each in entries if each["kind"] == "waited"]
    harness.counts[MAX_WAIT] = int(1000 * max(waits, default=0.0))
    for kind, statement in {
        "job": "select id::text from ledger.job",
        "post": "select id::text from posts.posts",
        "capture": "select id::text from schedule_ingest.capture_session",
    }.items():
        acked = {each["id"] for each in entries if each["kind"] == kind}
        existing = set(harness.query(statement))
        harness.counts[f"acknowledged {kind}s"] = len(acked)
        yield from (f"lost: {kind} {each}" for each in sorted(acked - existing))
    yield from (f"wrong answer: {each['what']}" for each in entries if each["kind"] == "broken")
    yield from duplicate_sessions(harness, unanswered["capture"])
    yield from wrong_outcomes(harness, entries)
    yield from wrong_answers(harness, entries)
    yield from created_twice(entries)
    yield from created_without_request(harness, entries)


def created_twice(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what more than one request is answered to have created: a job of a key, a post, the answer of a run."""
    of = {"job": "key", "post": "id", "answer": "run"}
    made = Counter((each["kind"], each[of[each["kind"]]]) for each in entries if each["kind"] in of and each["created"])
    yield from (f"{kind} {key} was new to {several} requests" for (kind, key), several in made.items() if several > 1)


def created_without_request(harness: Harness, entries: list[dict[str, Any]]) -> Iterator[str]:
    """Rows of a key that no client asked with."""
    for kind, statement in ROW_KEYS.items():
        requested_keys = {each["key"] for each in entries if each["kind"] == "asks" and each["what"] == kind}
        for key, row in harness.query(statement):
            if key not in requested_keys and not str(key).startswith(HARNESS_PREFIX):
                yield f"{kind} {row} is of the key {key}, which no client used"


def duplicate_sessions(harness: Harness, unanswered: int) -> Iterator[str]:
    """Sessions beyond one for each answer and each request without one: a capture has no key to be asked again with."""
    existing = harness.query("select count(*) from schedule_ingest.capture_session")[0]
    harness.counts["captures whose answer was lost"] = existing - harness.counts["acknowledged captures"]
    if harness.counts["captures whose answer was lost"] > unanswered + harness.counts["clients killed"]:
        yield f"{existing} sessions for {harness.counts['acknowledged captures']} answers and {unanswered} without one"


def wrong_outcomes(harness: Harness, entries: list[dict[str, Any]]) -> Iterator[str]:
    """Jobs and captures that gave up though they need not have, and effects that are not one for each success."""
    types = {each["id"]: each["type"] for each in entries if each["kind"] == "job"}
    effects = Counter(harness.query("select job::text from witness.effect"))
    quarantined = list(harness.query(POISONED))
    poison = {key for key, *_ in quarantined}
    for key, kind, status in harness.query("select id::text, type, status::text from ledger.job"):
        if kind == "book" and effects[key] != (status == "succeeded"):
            yield f"job {key} is {status} and had {effects[key]} effects"
        if key not in poison and status != "succeeded" and key in types:
            yield f"job {key} ({kind}) ended {status}"
    yield from (
        f"an effect of no job: {key}" for key in effects.keys() - set(harness.query("select id::text from ledger.job"))
    )
    for key, how, status, code, message in quarantined:
        if status != "dead_letter" or not (is_recorded(code, message, *ENDS[how]) or (code, message) == EXPIRED):
            yield f"job {key} is to end by {how} and is {status}: {code}: {message}"
    for key, state, starts, error in harness.query(CAPTURES):
        harness.counts[MAX_STARTS] = max(harness.counts[MAX_STARTS], starts)
        if state != "done":
            yield f"capture {key} ended {state} after {starts} starts: {error}"


def count_handlers(harness: Harness) -> None:
    """How often handlers misbehaved, by what was recorded of each."""
    for how, several in harness.query(BURNT):
        harness.counts[f"handlers: {how}"] = several
    ends = Counter(how for how, code, message in harness.query(FAILURES) if is_recorded(code, message, *ENDS[how]))
    harness.counts.update({f"handlers: {how}": several for how, several in ends.items()})


def is_recorded(code: str, message: str, wanted_code: str, beginning: str) -> bool:
    """Is this the error that was to come?"""
    return code == wanted_code and message.startswith(beginning)


def wrong_answers(harness: Harness, entries: list[dict[str, Any]]) -> Iterator[str]:
    """Runs that are not where an answer put them, and bookings that are not one for each completed run."""
    final = dict(harness.query("select job_run_id, action from scheduler.confirmations where action <> 'snooze'"))
    answers = [each for each in entries if each["kind"] == "answer"]
    harness.counts["acknowledged answers"] = len(answers)
    for each in answers:
        if final.get(each["run"]) != each["action"]:
            yield f"run {each['run']} was answered {each['action']} and is answered {final.get(each['run'])}"
    booked = Counter(harness.query("select source_ref from expense.expenses"))
    completed = sum(action == "complete" for action in final.values())
    if sum(booked.values()) != completed or any(several > 1 for several in booked.values()):
        yield f"{completed} runs are completed and {sum(booked.values())} entries booked: {booked.most_common(3)}"


def wrong_deliveries(harness: Harness) -> Iterator[str]:
    """Yield messages that are unsent, `sent` without arriving, arrived oftener than tried, or of no row."""
    known = set[str]()
    came = Counter(harness.receiver.ids())
    harness.counts["messages received"] = sum(came.values())
    harness.counts["messages received twice"] = sum(several - 1 for several in came.values())
    for statement, machine in MESSAGES:
        starts = Counter(
            harness.query("select key from duly.transition where machine = %s and next_status = 'sending'", machine)
        )
        for key, status in harness.query(statement):
            known.add(key)
            if status != "sent":
                yield f"{machine} {key} ended {status}: the receiver refuses nothing for good"
            if status == "sent" and not came[key]:
                yield f"{machine} {key} is sent and never came"
            if came[key] > starts[key]:
                yield f"{machine} {key} came {came[key]} times and was tried {starts[key]} times"
    yield from (f"{key} came, and there is no such message" for key in sorted(came.keys() - known))


def changed_logs(harness: Harness) -> Iterator[str]:
    """Lines of a log that are no longer as they were; and a memory in which there is nothing to compare with."""
    remembered = dict(harness.query("select source, count(*) from witness.log group by source"))
    harness.counts["lines of logs remembered"] = sum(remembered.values())
    yield from (f"{source}: no line of it was remembered" for source in ALWAYS_LOGGED if not remembered.get(source))
    for source, columns in LOGS.items():
        missing_lines = harness.query(
            f"select line from witness.log where source = %s except select md5(row({columns})::text) from {source}",
            source,
        )
        if missing_lines:
            yield f"{source}: {len(missing_lines)} lines are not what they were"
    harness.record_logs()


def open_transactions_and_lock_waits(harness: Harness) -> Iterator[str]:
    """Yield transactions that are left open and locks that are waited for."""
    for pid, name in harness.query(IDLE):
        yield f"backend {pid} ({name}) is idle in a transaction"
    for pid, mode, lock_target, name in harness.query(WAITS):
        yield f"backend {pid} ({name}) waits for {mode} on {lock_target}"


def untested_kinds(harness: Harness) -> Iterator[str]:
    """Yield operations that were never requested, and so not tested."""
    for kind in ("jobs", "posts", "captures", "answers"):
        if not harness.counts[f"acknowledged {kind}"]:
            yield f"no client got an answer about a {kind}, so none was tested"
