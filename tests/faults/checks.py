"""What must be true when the dust has settled, whatever was done; the numbers are those of docs/verify.md.

by the database          every invariant of `duly verify`, on the schema that its contracts ask for
by the journals          nothing that a client was told is lost, and nothing was done twice (V20, V15, V21)
by the receiver          what is said to be sent arrived, and came again no oftener than the log knows (V13, V14)
by the logs of before    nothing in a log has changed or gone (V23)
by the server            nobody is left in a transaction, nobody waits for a lock (V24)
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from duly.verify import check, compare
from duly.verify.contract import CONTRACTS, schemas_of
from tests.faults.world import LOGS, World

__all__ = ["LONGEST_WAIT", "WAITS", "not_at_rest", "violations"]

LONGEST_WAIT = "longest wait of a client (ms)"
CLOCKS = ("duly.clock()", "duly.now()", "duly.test_clock")  # a test's clock is not the contract's
MESSAGES = (
    ("select o.id::text, o.status, o.id::text from duly.outbox as o", "outbox"),
    (
        "select o.notification_id, o.delivery, o.notification_id from schedule_ingest.schedule_notification as o",
        "notification",
    ),
)

MISBEHAVED = """
select coalesce(payload ->> 'how', 'burn ' || (payload ->> 'seconds') || ' s'), sum(starts)::int
from ledger.job
where type in ('alone', 'burn')
group by 1
"""
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
    return found


def lawless(world: World) -> Iterator[str]:
    """What `duly verify` finds."""
    schemas = [schema for name in CONTRACTS for schema in schemas_of(name)]
    with psycopg.connect(world.dsn, autocommit=True) as connection:
        for offence in check(connection, schemas):
            yield f"{offence.kind}: {offence.invariant}: {offence.offender}"
        for name in CONTRACTS:
            for difference in compare(connection, name):
                if not any(clock in difference.line for clock in CLOCKS):
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


def begun_again(world: World, unanswered: int) -> Iterator[str]:
    """Sessions beyond one for each answer and each request without one: a capture has no key to be asked again with."""
    there = world.ask("select count(*) from schedule_ingest.capture_session")[0]
    world.counts["captures that nobody was told of"] = there - world.counts["acknowledged captures"]
    if world.counts["captures that nobody was told of"] > unanswered + world.counts["clients killed"]:
        yield f"{there} sessions for {world.counts['acknowledged captures']} answers and {unanswered} without one"


def ended_wrongly(world: World, told: list[dict[str, Any]]) -> Iterator[str]:
    """Jobs that gave up though they need not have, and effects that are not one for each success."""
    types = {each["id"]: each["type"] for each in told if each["kind"] == "job"}
    for how, several in world.ask(MISBEHAVED):
        world.counts[f"handlers: {how}"] = several
    effects = Counter(world.ask("select job::text from witness.effect"))
    for key, kind, status in world.ask("select id::text, type, status::text from ledger.job"):
        if kind == "book" and effects[key] != (status == "succeeded"):
            yield f"job {key} is {status} and had {effects[key]} effects"
        if kind != "alone" and status != "succeeded" and key in types:
            yield f"job {key} ({kind}) ended {status}"
    yield from (
        f"an effect of no job: {key}" for key in effects.keys() - set(world.ask("select id::text from ledger.job"))
    )


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
    """Messages that are said to be sent and never came, or came oftener than anybody tried."""
    came = Counter(world.receiver.ids())
    world.counts["messages received"] = sum(came.values())
    world.counts["messages received twice"] = sum(several - 1 for several in came.values())
    for statement, machine in MESSAGES:
        starts = Counter(
            world.ask("select key from duly.transition where machine = %s and next_status = 'sending'", machine)
        )
        for key, status, _ in world.ask(statement):
            if status == "sent" and not came[key]:
                yield f"{machine} {key} is sent and never came"
            if came[key] > starts[key]:
                yield f"{machine} {key} came {came[key]} times and was tried {starts[key]} times"


def forgotten(world: World) -> Iterator[str]:
    """Lines of a log that are no longer as they were."""
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
