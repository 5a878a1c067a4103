"""What must be true when the dust has settled, whatever was done; the numbers are those of docs/verify.md.

by the database          every invariant of `duly verify`, on the schema that its contracts ask for
by the journals          nothing that a client was told is lost, nothing was done twice, nothing was made that nobody
                         asked for (V20, V15, V21)
by the receiver          everything was sent and arrived, and came again no oftener than the log knows (V13, V14)
by the logs of before    nothing in a log has changed or gone (V23)
by the server            nobody is left in a transaction, nobody waits for a lock (V24)
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from duly.verify import check, compare
from duly.verify.contract import CONTRACTS, contract_schemas
from tests.proof.faults.world import LOGS, World
from tests.support.invariants import is_of_the_tests_clock

LONGEST_WAIT = "longest wait of a client (ms)"
MESSAGES = (
    ("select o.id::text, o.status from duly.outbox as o", "outbox"),
    ("select o.notification_id, o.delivery from schedule_ingest.schedule_notification as o", "notification"),
)
# Who asked for a row, by the key it was asked with; what has none of a client's was made by nobody.
ASKED = {
    "job": "select idempotency_key, id::text from ledger.job",
    "post": "select request_id::text, id::text from posts.posts",
    "answer": "select idempotency_key, job_run_id::text from scheduler.confirmations",
}
ALWAYS_TOLD = ("duly.transition", "ledger.job_event")  # logs in which every episode writes from its first second
OURS = "harness-"  # so begin the keys of the harness's own requests
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
TAKEN_OVER = {  # rows that were begun again after somebody held them in vain
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


def violations(world: World) -> list[str]:
    """Every promise that is broken, in words."""
    found = [
        *lawless(world),
        *not_as_told(world),
        *not_as_received(world),
        *forgotten(world),
        *not_at_rest(world),
        *not_shown(world),
    ]
    world.counts["verifications"] += 1
    for work, statement in TAKEN_OVER.items():
        world.counts[f"begun again: {work}"] = world.ask(statement)[0]
    count_handlers(world)
    return found


def lawless(world: World) -> Iterator[str]:
    """What `duly verify` finds."""
    schemas = [schema for name in CONTRACTS for schema in contract_schemas(name)]
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        for offence in check(connection, schemas):
            yield f"{offence.kind}: {offence.invariant}: {offence.offender}"
        for name in CONTRACTS:
            for difference in compare(connection, name):
                if not is_of_the_tests_clock(difference.line):
                    yield f"{difference.kind}: {difference.line}"


def not_as_told(world: World) -> Iterator[str]:
    """What clients were told, and is not so."""
    told = world.journal()
    world.counts["answers"] = len(told)
    unanswered = Counter(each["what"] for each in told if each["kind"] == "unanswered")
    world.counts["unanswered"] = unanswered.total()
    world.counts["unanswered for want of the schema"] = sum(
        each["kind"] == "unanswered" and each["error"].startswith("Undefined") for each in told
    )
    waits = [each["seconds"] for each in told if each["kind"] == "waited"]
    world.counts[LONGEST_WAIT] = int(1000 * max(waits, default=0.0))
    for kind, statement in {
        "job": "select id::text from ledger.job",
        "post": "select id::text from posts.posts",
        "capture": "select id::text from schedule_ingest.capture_session",
    }.items():
        acked = {each["id"] for each in told if each["kind"] == kind}
        there = set(world.ask(statement))
        world.counts[f"acknowledged {kind}s"] = len(acked)
        yield from (f"lost: {kind} {each}" for each in sorted(acked - there))
    yield from (f"told wrongly: {each['what']}" for each in told if each["kind"] == "broken")
    yield from begun_again(world, unanswered["capture"])
    yield from ended_wrongly(world, told)
    yield from answered_wrongly(world, told)
    yield from made_twice(told)
    yield from made_by_nobody(world, told)


def made_twice(told: list[dict[str, Any]]) -> Iterator[str]:
    """What more than one request was told to have made: a job of a key, a post, the answer of a run."""
    of = {"job": "key", "post": "id", "answer": "run"}
    made = Counter((each["kind"], each[of[each["kind"]]]) for each in told if each["kind"] in of and each["created"])
    yield from (f"{kind} {key} was new to {several} requests" for (kind, key), several in made.items() if several > 1)


def made_by_nobody(world: World, told: list[dict[str, Any]]) -> Iterator[str]:
    """Rows of a key that no client asked with."""
    for kind, statement in ASKED.items():
        asked = {each["key"] for each in told if each["kind"] == "asks" and each["what"] == kind}
        for key, row in world.ask(statement):
            if key not in asked and not str(key).startswith(OURS):
                yield f"{kind} {row} is of the key {key}, with which nobody asked"


def begun_again(world: World, unanswered: int) -> Iterator[str]:
    """Sessions beyond one for each answer and each request without one: a capture has no key to be asked again with."""
    there = world.ask("select count(*) from schedule_ingest.capture_session")[0]
    world.counts["captures that nobody was told of"] = there - world.counts["acknowledged captures"]
    if world.counts["captures that nobody was told of"] > unanswered + world.counts["clients killed"]:
        yield f"{there} sessions for {world.counts['acknowledged captures']} answers and {unanswered} without one"


def ended_wrongly(world: World, told: list[dict[str, Any]]) -> Iterator[str]:
    """Jobs and captures that gave up though they need not have, and effects that are not one for each success."""
    types = {each["id"]: each["type"] for each in told if each["kind"] == "job"}
    effects = Counter(world.ask("select job::text from witness.effect"))
    quarantined = list(world.ask(POISONED))
    poison = {key for key, *_ in quarantined}
    for key, kind, status in world.ask("select id::text, type, status::text from ledger.job"):
        if kind == "book" and effects[key] != (status == "succeeded"):
            yield f"job {key} is {status} and had {effects[key]} effects"
        if key not in poison and status != "succeeded" and key in types:
            yield f"job {key} ({kind}) ended {status}"
    yield from (
        f"an effect of no job: {key}" for key in effects.keys() - set(world.ask("select id::text from ledger.job"))
    )
    for key, how, status, code, message in quarantined:
        if status != "dead_letter" or not (is_recorded(code, message, *ENDS[how]) or (code, message) == EXPIRED):
            yield f"job {key} is to end by {how} and is {status}: {code}: {message}"
    for key, state, starts, error in world.ask(CAPTURES):
        world.counts[MAX_STARTS] = max(world.counts[MAX_STARTS], starts)
        if state != "done":
            yield f"capture {key} ended {state} after {starts} starts: {error}"


def count_handlers(world: World) -> None:
    """How often handlers misbehaved, by what was recorded of each."""
    for how, several in world.ask(BURNT):
        world.counts[f"handlers: {how}"] = several
    ends = Counter(how for how, code, message in world.ask(FAILURES) if is_recorded(code, message, *ENDS[how]))
    world.counts.update({f"handlers: {how}": several for how, several in ends.items()})


def is_recorded(code: str, message: str, wanted_code: str, beginning: str) -> bool:
    """Is this the error that was to come?"""
    return code == wanted_code and message.startswith(beginning)


def answered_wrongly(world: World, told: list[dict[str, Any]]) -> Iterator[str]:
    """Runs that are not where an answer put them, and bookings that are not one for each completed run."""
    final = dict(world.ask("select job_run_id, action from scheduler.confirmations where action <> 'snooze'"))
    answers = [each for each in told if each["kind"] == "answer"]
    world.counts["acknowledged answers"] = len(answers)
    for each in answers:
        if final.get(each["run"]) != each["action"]:
            yield f"run {each['run']} was answered {each['action']} and is answered {final.get(each['run'])}"
    booked = Counter(world.ask("select source_ref from expense.expenses"))
    completed = sum(action == "complete" for action in final.values())
    if sum(booked.values()) != completed or any(several > 1 for several in booked.values()):
        yield f"{completed} runs are completed and {sum(booked.values())} entries booked: {booked.most_common(3)}"


def not_as_received(world: World) -> Iterator[str]:
    """Messages that are not sent, that are said to be and never came, that came oftener than tried, or of no row."""
    known = set[str]()
    came = Counter(world.receiver.ids())
    world.counts["messages received"] = sum(came.values())
    world.counts["messages received twice"] = sum(several - 1 for several in came.values())
    for statement, machine in MESSAGES:
        starts = Counter(
            world.ask("select key from duly.transition where machine = %s and next_status = 'sending'", machine)
        )
        for key, status in world.ask(statement):
            known.add(key)
            if status != "sent":
                yield f"{machine} {key} ended {status}: the receiver refuses nothing for good"
            if status == "sent" and not came[key]:
                yield f"{machine} {key} is sent and never came"
            if came[key] > starts[key]:
                yield f"{machine} {key} came {came[key]} times and was tried {starts[key]} times"
    yield from (f"{key} came, and there is no such message" for key in sorted(came.keys() - known))


def forgotten(world: World) -> Iterator[str]:
    """Lines of a log that are no longer as they were; and a memory in which there is nothing to compare with."""
    remembered = dict(world.ask("select source, count(*) from witness.log group by source"))
    world.counts["lines of logs remembered"] = sum(remembered.values())
    yield from (f"{source}: no line of it was remembered" for source in ALWAYS_TOLD if not remembered.get(source))
    for source, columns in LOGS.items():
        gone = world.ask(
            f"select line from witness.log where source = %s except select md5(row({columns})::text) from {source}",
            source,
        )
        if gone:
            yield f"{source}: {len(gone)} lines are not what they were"
    world.remember_logs()


def not_at_rest(world: World) -> Iterator[str]:
    """Transactions that nobody ends and locks that nobody gives."""
    for pid, name in world.ask(IDLE):
        yield f"backend {pid} ({name}) is idle in a transaction"
    for pid, mode, what, name in world.ask(WAITS):
        yield f"backend {pid} ({name}) waits for {mode} on {what}"


def not_shown(world: World) -> Iterator[str]:
    """What nobody asked for: then nothing was shown of it."""
    for kind in ("jobs", "posts", "captures", "answers"):
        if not world.counts[f"acknowledged {kind}"]:
            yield f"no client was told of any {kind}, so nothing was shown of them"
