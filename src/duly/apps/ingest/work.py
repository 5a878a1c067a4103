"""What a worker does with a session whose time has come: sees its day, and writes down what that changes, all at once.

    outside any transaction        read, give it its canonical form
    in one transaction             prove the lease, be the one writer of the day, compare with what is known, settle and
                                   write the version in one statement, then further days, events, snapshot, messages

A session that cannot be read fails with a sentence for its person, and of no day anything is written; whoever sent
screenshots is told the sentence. Where photographs show several days, the session keeps the first, and each other day
becomes a session that is given as data. Sessions of one day in one batch take their turns: each finds the day as the
one before left it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.errors import SerializationFailure

from duly.apps.ingest import repository
from duly.apps.ingest.canonical import Observation
from duly.apps.ingest.day import Day, Step, take
from duly.apps.ingest.endings import HANDED_BACK, LOST, Ending, Endings, written
from duly.apps.ingest.model import MAX_IMAGES, Outcome
from duly.apps.ingest.pages import further_session_id, in_words
from duly.apps.ingest.patience import NotNow, patiently
from duly.apps.ingest.permission import Permission
from duly.apps.ingest.reading import Captured, Input, Observed, Reader, observed
from duly.apps.ingest.states import States, capture_session
from duly.apps.ingest.telling import News, failed, several, unchanged
from duly.apps.ingest.unseen import with_unseen
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import Conflict, InvalidArgument, Misconfigured, NotMigrated
from duly.executors.call import Call
from duly.lease.crash_isolation import CrashIsolation
from duly.lease.operations import Lease, fence_many, find_settled, quarantine, release, settle_many
from duly.lease.work import Finished, StopSign, Tuning, Work
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp, HandedBack, clean_text

__all__ = ["LEASE_MIGRATION", "CaptureWork", "Rules", "Shape"]

MAX_ERROR_LENGTH = 4000
TOGETHER = 3  # so many starts a session has in any company; the rest without another that had them
LOOK_SECONDS = 1.0  # so often at most we look for idle sessions
MAX_ITERATIONS = 1000
MAX_CLOSED = 1000
OUR_COLUMNS = {"revision", "moved_from"}  # of capture_session, where we made the table
LEASE_MIGRATION = "database/migrations/20260212_add_session_leases.sql"
# What the lease migration adds, where a backend made the table.
ADDED_COLUMNS = {
    "capture_session": {"closed_at", "given_at", "payload", "result", "lease_seconds", "starts", "settled_by"},
    "schedule_version": {"canonicalizer"},
    "day_snapshot": {"canonicalizer", "events"},
    "schedule_event": {"seq"},
}

log = get_log("duly.ingest")


@dataclass(frozen=True)
class Rules:
    """What an installation says of its sessions."""

    schema: str = "schedule_ingest"
    states: States = field(default_factory=States)
    due: str = "closed_at"  # which clock makes a session due
    idle_seconds: float = 25.0
    threshold: int = 3  # so many changes are told in one message
    simulated_seconds: float = 0.0
    read_seconds: float = 600.0  # a reader that does not watch its own time, and has not come back by then, will not
    patience_seconds: float = (
        60.0  # so long we hold a session that cannot be looked at for a reason that is not its own
    )
    idle_log_every: int = 12  # iterations
    once: bool = False  # one cycle: a missing right ends it, and how every session ended is remembered


@dataclass(frozen=True)
class Shape:
    """What the tables of an installation allow: a backend may have those of a few phases only, and a key of its own."""

    has_events: bool = True  # the tables of Phase 9: day_snapshot and schedule_event
    has_notices: bool = True  # the table of Phase 12: schedule_notification
    has_owners_key: bool = False  # the contract's key of events, without the session
    can_add_sessions: bool = True  # the table is ours: what a backend owns is begun by the backend


class CaptureWork(Work):
    """Capture sessions as a kind of work."""

    name = "ingest"

    def __init__(self, reader: Reader, tuning: Tuning, rules: Rules = Rules()) -> None:  # noqa: B008 (frozen)
        self.reader = reader
        self.tuning = tuning
        self.rules = rules
        self.table = capture_session(rules.schema, rules.states, due=rules.due, lease_seconds=tuning.lease_seconds)
        self.patience_seconds = min(rules.patience_seconds, tuning.lease_seconds / 2)  # of which nobody may renew any
        self.crash_isolation = CrashIsolation(
            together=TOGETHER, limit=tuning.max_starts, seconds=tuning.lease_seconds + self.reading_seconds
        )
        self.iterations = 0
        self.idle_iterations = 0
        self.open_iterations: dict[str, Iteration] = {}  # by the owner of a claim
        self.look_at = 0.0  # our monotonic clock: when to look for idle sessions again
        self.pool: Pool | None = None
        self.had_sessions = False
        self.is_told = False  # do we tell people anything? Once prepared we know
        self.shape = Shape()
        self.permission = Permission(rules.schema, ends_at_once=rules.once)
        self.endings = Endings()  # of one cycle
        self.why_back: dict[UUID, Ending] = {}  # why a session that cannot be looked at will be handed back

    def lend(self, pool: Pool) -> None:
        """Connections for looking up images."""
        self.pool = pool

    async def close(self) -> None:
        """Let the reader go."""
        await self.reader.close()

    @property
    def reading_seconds(self) -> float:
        """How long a session may be looked at, what tests pretend included."""
        return self.rules.simulated_seconds + self.rules.read_seconds

    async def prepare(self, connection: Connection) -> None:
        """Refuse to start on a database that has no sessions, or none of these states."""
        schema = self.rules.schema
        tables = await repository.find_columns(connection, schema)
        if "capture_session" not in tables:
            raise no_sessions(schema, await repository.find_homes(connection))
        lacking = sorted(table for table, added in ADDED_COLUMNS.items() if not added <= tables.get(table, added))
        if lacking:
            raise NotMigrated(
                f"DB_SCHEMA={schema}: a backend made {', '.join(lacking)}, and a worker needs more columns; add them "
                f"with: psql -v schema={schema} -f {LEASE_MIGRATION}"
            )
        has_events = {"day_snapshot", "schedule_event"} <= tables.keys()
        self.shape = Shape(
            has_events=has_events,
            has_notices=has_events and "schedule_notification" in tables,
            has_owners_key=has_events and await repository.has_owners_key(connection, schema),
            can_add_sessions=tables["capture_session"] >= OUR_COLUMNS,
        )
        self.is_told = "delivery" in tables.get("schedule_notification", ())
        self.permission.reads_events = self.shape.has_owners_key
        if await self.permission.check(connection):
            await self.check_states(connection)

    async def check_states(self, connection: Connection) -> None:
        """Refuse a state that this database does not know."""
        labels = await repository.find_labels(connection, self.rules.schema) or []
        for setting, state in vars(self.rules.states).items():
            if state not in labels:
                raise Misconfigured(
                    f"{setting.upper()}_STATE={state}: capture_session knows {', '.join(labels)}; name one of these"
                )

    # Claiming ---------------------------------------------------------------------------------------------------------

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Close what is idle, and hold what is closed."""
        with self.permission.noting_refusals():
            if not await self.permission.is_given(connection):
                return []
            await self.close_idle(connection)
            leases = await super().claim(connection, worker_id, limit, keys)
        self.begin_iteration(leases)
        return leases

    async def close_idle(self, connection: Connection) -> None:
        """Close sessions whose last image is idle, unless we did so a moment ago, or take what is not closed."""
        if self.rules.due == "closed_at" and time.monotonic() >= self.look_at:
            self.look_at = time.monotonic() + min(self.tuning.poll_seconds, LOOK_SECONDS)
            await repository.close_idle(
                connection,
                self.rules.schema,
                pending=self.rules.states.pending,
                idle_seconds=self.rules.idle_seconds,
                limit=MAX_CLOSED,
            )

    async def claim_expired(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[UUID] | None = None
    ) -> list[Lease]:
        """Take over what another worker let lapse; of what was started often one at a time, for one may be to blame."""
        with self.permission.noting_refusals():
            if not await self.permission.is_given(connection):
                return []
            kept, back = self.crash_isolation.choose(await super().claim_expired(connection, worker_id, limit, keys))
            if back:
                await release(connection, back)
        if kept:
            self.begin_iteration(kept)
        return kept

    def begin_iteration(self, leases: Sequence[Lease]) -> None:
        """Say that we looked, and what there was; of looks that found nothing, the first and then every so many.

        Beside other work nobody may ever use captures: until there was a session, such looks are told at debug.
        """
        self.iterations += 1
        if not leases:
            self.idle_iterations += 1
            if self.idle_iterations % self.rules.idle_log_every == 1 or self.rules.idle_log_every == 1:
                told = log.info if self.is_alone or self.had_sessions else log.debug
                told("worker.iteration.start", iteration=self.iterations, sessions=0)
                told("worker.iteration.end", iteration=self.iterations, sessions=0)
            return
        self.idle_iterations = 0
        for lease in leases:
            self.note_ending(lease, LOST)  # until something else is known
        self.had_sessions = True
        iteration = Iteration(self.iterations, len(leases), {lease.key for lease in leases})
        self.open_iterations[leases[0].owner] = iteration
        while len(self.open_iterations) > MAX_ITERATIONS:  # a session that was lost never ends
            self.open_iterations.pop(next(iter(self.open_iterations)))
        log.info("worker.iteration.start", iteration=iteration.number, sessions=iteration.sessions)

    def note_outcome(self, lease: Lease, outcome: str) -> None:
        """Remember what came of a session until its iteration is told."""
        if iteration := self.open_iterations.get(lease.owner):
            iteration.outcomes[lease.key] = outcome

    def note_ending(self, lease: Lease, ending: Ending) -> None:
        """Remember how a session of this one cycle ended."""
        if self.rules.once:
            self.endings.note(lease.key, ending)

    def end_iterations(self, leases: Iterable[Lease]) -> None:
        """Say so, and what came of them, when the last session of an iteration has come to an end."""
        for lease in leases:
            if iteration := self.open_iterations.get(lease.owner):
                iteration.waiting.discard(lease.key)
                if not iteration.waiting:
                    del self.open_iterations[lease.owner]
                    told = Counter(iteration.outcomes.values())
                    log.info("worker.iteration.end", iteration=iteration.number, sessions=iteration.sessions, **told)

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Set aside what was started too often, and tell whoever sent it."""
        with self.permission.noting_refusals():
            if not await self.permission.is_given(connection):
                return 0
            rows = await quarantine(connection, self.table, max_starts=self.tuning.max_starts, keys=keys)
            await self.tell(connection, [failed(row["id"], row["error"]) for row in rows])
        for row in rows if self.rules.once else ():
            self.endings.note(row["id"], Ending(f"failed: {row['error']}"))
        return len(rows)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        """Hand sessions back unread."""
        ours = await release(connection, leases)
        for lease in leases:
            if lease.key in ours:
                self.note_ending(lease, self.why_back.pop(lease.key, HANDED_BACK))
        self.end_iterations(leases)
        self.crash_isolation.forget([lease.key for lease in leases])

    # Reading ----------------------------------------------------------------------------------------------------------

    def call(self, lease: Lease, sign: StopSign) -> Call:  # noqa: ARG002
        """See what the session shows."""
        captured, payload = Captured(lease.key, lease.row["user_id"]), lease.row.get("payload")
        is_timed = payload is None and not self.reader.has_limits
        return Call(self.see, (captured, payload), timeout_seconds=self.reading_seconds if is_timed else None)

    async def see(self, captured: Captured, payload: dict[str, Any] | None) -> Observed | HandedBack:
        """The day that it shows, in its canonical form; handed back when we are in no state to look at it."""
        try:
            if self.rules.simulated_seconds:
                await asyncio.sleep(self.rules.simulated_seconds)
            look = partial(self.look, captured, payload)
            return await patiently(look, self.patience_seconds, session_id=str(captured.id))
        except NotNow as error:
            if self.rules.once:
                self.why_back[captured.id] = Ending(f"handed back: {error}", is_done=False)
            return HandedBack()
        except asyncio.CancelledError:  # it may be lost to us, and then nobody tells us of its end
            self.crash_isolation.forget([captured.id])
            raise

    async def look(self, captured: Captured, payload: dict[str, Any] | None) -> Observed:
        """What it shows, with its images looked up for who reads them."""
        if payload is None and self.reader.input is Input.PHOTOGRAPHS:
            captured = replace(captured, images=await self.images_of(captured.id))
        seen = await observed(self.reader, captured, payload)
        if seen.further and not self.shape.can_add_sessions:
            raise InvalidArgument(
                f"schedule_date: the photographs show several days, {in_words(days_of(seen))}; a session here takes "
                "one day, so send each day by itself"
            )
        return seen

    async def images_of(self, session_id: UUID) -> tuple[str, ...]:
        """The names of a session's images, in order."""
        assert self.pool, "a worker lends connections before it begins"
        async with self.pool.transaction() as connection:
            images = await repository.list_images(connection, self.rules.schema, session_id, MAX_IMAGES)
        return tuple(image.r2_key for image in images)

    # Recording --------------------------------------------------------------------------------------------------------

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[UUID]:
        """Record what sessions showed, and why others could not be read; hand back what we were refused before."""
        refused = [lease for lease, _ in finished if lease.owner in self.permission.refused]
        rest = [each for each in finished if each.lease.owner not in self.permission.refused]
        seen = [(lease, outcome) for lease, outcome in rest if isinstance(outcome, Observed)]
        unread = [(lease, outcome) for lease, outcome in rest if not isinstance(outcome, Observed)]
        settled = frozenset[UUID]()
        with self.permission.noting_refusals(lease for lease, _ in finished):
            if refused:
                settled |= await self.hand_back(connection, refused)
            if seen:
                settled |= await self.record(connection, seen)
            if unread:
                settled |= await self.fail(connection, unread)
        if rest:
            self.permission.note_settled()
        self.end_iterations(lease for lease, _ in finished)
        self.crash_isolation.forget([lease.key for lease, _ in finished])
        return settled

    async def hand_back(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
        """Hand back what could not be settled for want of a right; what not even that is allowed for is left alone."""
        why = await self.permission.explain(connection, len(leases))
        possible = [lease for lease in leases if lease.owner not in self.permission.left]
        ours = await release(connection, possible) if possible else frozenset[UUID]()
        self.permission.forget(leases)
        for lease in leases:
            how = "handed back" if lease.key in ours else "left until its lease expires"
            self.note_outcome(lease, "handed_back")
            self.note_ending(lease, Ending(f"{how}: {why}", is_done=False))
        return ours

    async def fail(self, connection: Connection, unread: Sequence[tuple[Lease, object]]) -> frozenset[UUID]:
        """Say why, in words, to whoever sent it too; nothing is written of any day."""
        whys = [clean_text(why_of(outcome), MAX_ERROR_LENGTH) for _, outcome in unread]
        settled = await settle_many(
            connection, [lease for lease, _ in unread], self.rules.states.failed, {"error": ("text", whys)}
        )
        ended = [(lease, why) for (lease, _), why in zip(unread, whys, strict=True) if lease.key in settled]
        await self.tell(connection, [failed(lease.key, why) for lease, why in ended])
        for lease, _ in unread:
            if lease.key not in settled:
                self.note_ending(lease, LOST)
        for lease, why in ended:
            self.note_outcome(lease, "failed")
            self.note_ending(lease, Ending(f"failed: {why}"))
            log.warning("session.failed", **about(lease), why=why)
        return settled

    async def record(self, connection: Connection, seen: Sequence[tuple[Lease, Observed]]) -> frozenset[UUID]:
        """Write down everything that sessions show, or nothing; returns those that are, or were, ours to settle."""
        schema, leases = self.rules.schema, [lease for lease, _ in seen]
        ours = await fence_many(connection, leases)
        before = frozenset[UUID]() if len(ours) == len(leases) else await find_settled(connection, leases)
        for lease in leases:
            if lease.key not in ours | before:
                self.note_ending(lease, LOST)
        mine = sorted(
            (each for each in seen if each[0].key in ours), key=lambda each: (each[0].row["created_at"], each[0].key)
        )
        if mine:
            days = list(dict.fromkeys(day_key(*each) for each in mine))
            partial = {day_key(*each) for each in mine if each[1].covers is not None}
            await repository.lock_days(connection, schema, days)
            find = repository.find_days if self.shape.has_events else repository.find_versions
            known = await find(connection, schema, days, with_payload=partial)
            for turn in turns_of(mine):
                await self.write(connection, turn, known)
        return ours | before

    async def write(
        self, connection: Connection, turn: Sequence[tuple[Lease, Observed]], known: dict[tuple[int, date], Day]
    ) -> None:
        """One session for each of several days: settle and version in one statement, then what follows from it."""
        schema, taken = self.rules.schema, list[repository.Taken]()
        looks = [(lease, outcome, *self.seen_with_unseen(known, lease, outcome)) for lease, outcome in turn]
        refused = await self.find_refused(connection, known, [(lease, seen) for lease, _, seen, _ in looks])
        for lease, outcome, seen, unseen in looks:
            step = self.take(known, lease, seen, refused)
            known[day_key(lease, outcome)] = step.after
            result = result_of(lease.key, step, outcome, unseen)
            taken.append(repository.Taken(lease, step, seen.payload, result, outcome.further))
        is_settled = await repository.settle_observed(connection, schema, self.rules.states.done, taken)
        assert len(is_settled) == len(taken), "what we have locked is ours to settle"
        for each in taken:
            if each.step.is_change and not is_settled[each.lease.key]:
                await self.refuse(connection, each)
        await repository.add_further_days(connection, schema, taken)
        if self.shape.has_events:
            await self.write_events(connection, taken)
        await self.tell(connection, [news_of(each) for each in taken if each.further or is_silent(each)])
        for each in taken:
            self.note_outcome(each.lease, each.result["outcome"])
            self.note_ending(each.lease, written(each.result))
            log.debug("session.processed", **about(each.lease), **each.result)

    async def write_events(self, connection: Connection, taken: Sequence[repository.Taken]) -> None:
        """What changed, what is known now, and what people are told."""
        schema = self.rules.schema
        count = await repository.add_events(connection, schema, taken)
        if self.shape.has_owners_key and count != sum(len(each.step.events) for each in taken):
            raise SerializationFailure("another program wrote one of these events just now")
        await repository.put_snapshots(connection, schema, taken)
        if self.shape.has_notices:
            people = [each.day.user_id for each in taken if each.step.notices] if self.is_told else []
            languages = await repository.find_languages(connection, people) if people else {}
            await repository.add_notices(connection, schema, taken, languages)

    def seen_with_unseen(
        self, known: dict[tuple[int, date], Day], lease: Lease, outcome: Observed
    ) -> tuple[Observation, int]:
        """What was seen, with what could not be seen and is known."""
        return with_unseen(known[day_key(lease, outcome)].payload, outcome.seen, outcome.covers)

    def take(
        self,
        known: dict[tuple[int, date], Day],
        lease: Lease,
        seen: Observation,
        refused: frozenset[UUID] = frozenset(),
    ) -> Step:
        """A session's step in its day, as far as the tables here have room for it."""
        day = known[lease.row["user_id"], seen.schedule_date]
        return take(
            day,
            lease.key,
            seen,
            threshold=self.rules.threshold,
            refused=refused,
            only_versions=not self.shape.has_events,
            is_told=self.shape.has_notices,
        )

    async def find_refused(
        self, connection: Connection, known: dict[tuple[int, date], Day], looks: Sequence[tuple[Lease, Observation]]
    ) -> frozenset[UUID]:
        """The events that the owner's key would refuse, because the same change was written down before."""
        if not self.shape.has_owners_key:
            return frozenset()
        steps = [self.take(known, lease, seen) for lease, seen in looks]
        events = [(step.after.user_id, step.after.schedule_date, event) for step in steps for event in step.events]
        return await repository.find_known_events(connection, self.rules.schema, events)

    async def tell(self, connection: Connection, news: Sequence[News]) -> None:
        """Let whoever sent screenshots know, where they are ours to be told."""
        if self.is_told:
            await repository.tell_senders(connection, self.rules.schema, news)

    async def refuse(self, connection: Connection, taken: repository.Taken) -> None:
        """A version is there that we did not write: begin again, or, when it is this very session's, fail."""
        if await repository.has_version(connection, self.rules.schema, taken.lease.key):
            raise Conflict("another program wrote a version of this session before it was done; send the day again")
        raise SerializationFailure(f"version {taken.day.version} of {taken.day.schedule_date} was written by another")


@dataclass(eq=False, slots=True)
class Iteration:
    """One look at the table that found something."""

    number: int
    sessions: int
    waiting: set[UUID]
    outcomes: dict[UUID, str] = field(default_factory=dict[UUID, str])


def no_sessions(schema: str, homes: Sequence[str]) -> NotMigrated:
    """There is no table of sessions where the setting says; where there are some, or how they are made."""
    if homes:
        fix = f"this database has one in {', '.join(homes)}: set DB_SCHEMA to that"
    else:
        fix = "set DB_SCHEMA to the schema that has it, or make the tables with: duly migrate"
    return NotMigrated(f"DB_SCHEMA={schema}: there is no table {schema}.capture_session; {fix}")


def day_key(lease: Lease, outcome: Observed) -> tuple[int, date]:
    """The person and day that a session is about."""
    return lease.row["user_id"], outcome.seen.schedule_date


def days_of(outcome: Observed) -> list[date]:
    """Every day that a session shows, with shifts in it."""
    return [day.schedule_date for day in (outcome.seen, *outcome.further)]


def turns_of(seen: Sequence[tuple[Lease, Observed]]) -> list[list[tuple[Lease, Observed]]]:
    """The sessions in turns, each with one of a day at most, in order."""
    turns: list[list[tuple[Lease, Observed]]] = []
    nth: dict[tuple[int, date], int] = {}
    for each in seen:
        key = day_key(*each)
        turn = nth.get(key, 0)
        nth[key] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(each)
    return turns


def result_of(session_id: UUID, step: Step, outcome: Observed, unseen: int) -> dict[str, Any]:
    """What is kept with the session of what came of it; of photographs, how many, and how much they did not show.

    Where they show other days too: which session each of those became, and which have no shift.
    """
    photographs = {"images": outcome.images, "unseen": unseen} if outcome.input is Input.PHOTOGRAPHS else {}
    further = [
        {"schedule_date": day.isoformat(), "session_id": str(further_session_id(session_id, day))}
        for day in days_of(outcome)[1:]
    ]
    empty = [day.isoformat() for day in outcome.empty_days]
    return {
        "outcome": Outcome.CHANGED if step.is_change else Outcome.UNCHANGED,
        "input": outcome.input,
        "schedule_date": step.after.schedule_date.isoformat(),
        "version": step.after.version,
        "events": len(step.events),
        "notifications": len(step.notices),
        **photographs,
        **({"further_days": further} if further else {}),
        **({"empty_days": empty} if empty else {}),
        **({"notes": list(outcome.notes)} if outcome.notes else {}),
    }


def is_silent(taken: repository.Taken) -> bool:
    """Was it photographs that nobody is told anything of?"""
    return taken.result["input"] is Input.PHOTOGRAPHS and not taken.step.notices


def news_of(taken: repository.Taken) -> News:
    """That photographs were read: which days they show, or that they changed nothing that anybody is told of."""
    if taken.further:
        return several(taken.lease.key, [taken.day.schedule_date, *(day.schedule_date for day in taken.further)])
    return unchanged(taken.lease.key, taken.day.schedule_date)


def why_of(outcome: object) -> str:
    """Why a session could not be read, for its person."""
    if not isinstance(outcome, Failed | GiveUp):
        return f"It ended as {type(outcome).__name__}; look at the worker's log, then send the day again."
    words = outcome.message or outcome.code
    if outcome.code == "TIMEOUT":
        return f"Reading it {words}. Send the day again."
    if outcome.is_unexpected:  # a mistake of ours or of a reader's: not in words for a person
        return f"It could not be processed, and that is not your fault ({words}). Send the day again."
    return words


def about(lease: Lease) -> dict[str, Any]:
    """Which session a line of the log is about."""
    key = str(lease.key)
    return {"session_id": key, "user_id": lease.row["user_id"], "correlation_id": key}
