"""Ten thousand random operations: the rows are what we expect, and the log tells how they came there.

Asked for through the API's role with its tenant set, worked on through the worker's. Every operation is done twice, to
the database and to `expected.Book`, and both must give the same answer and be in the same state; at the end of a story
the log is replayed. Each story has an org of its own in one database. The seed is that of pytest-randomly: the same
`--randomly-seed` tells the same stories.
"""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg.conninfo import make_conninfo

from duly.backoff import Backoff, BackoffPolicy
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import repository
from duly.jobs.model import ANY, DeadLetters, Kind, Options, Request, Status
from duly.lease.operations import Lease, renew
from duly.testing import install_test_clock, move_clock
from duly.verify import Offence, check
from tests.support.jobs.actions import Admin, Connection
from tests.support.jobs.expected import DAY, TICK_SECONDS, Book, Paper

PARTS = 4
OPERATIONS = 10_000 // PARTS
STORIES = settings(
    max_examples=10,
    stateful_step_count=100,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

T = TypeVar("T")
PROGRESS_SECONDS = 1.5  # more than a second, and far less than a tick
Settle = Callable[[Connection, Sequence[Lease]], Awaitable[frozenset[UUID]]]

QUEUES = ("default", "aside")
BACKOFFS = {
    BackoffPolicy.NONE: Backoff(BackoffPolicy.NONE),
    BackoffPolicy.FIXED: Backoff(BackoffPolicy.FIXED, TICK_SECONDS, TICK_SECONDS),
    BackoffPolicy.EXP: Backoff(BackoffPolicy.EXP, 1.0, TICK_SECONDS / 2),
}
KINDS = [Kind(queue, policy.value) for queue in QUEUES for policy in BACKOFFS]
PAUSES = [(queue, ANY) for queue in QUEUES] + [(ANY, policy.value) for policy in BACKOFFS] + [tuple(KINDS[0])]
OUTCOMES = ("done", "later", "handed_back", "cancelled", "failed", "gave_up")
ROWS = (
    "select id, status::text, starts, attempt, snoozes, revision, finished_at is not null, lease_owner, settled_by,"
    " cancel_requested_at is not null from ledger.job where org_id = %s"
)
EVENTS = "select job_id, seq, prev_status, next_status from ledger.job_event where org_id = %s order by job_id, seq"

which = st.integers(0, 30)  # of a list, taken round
bodies = st.integers(0, 1)
keys = st.none() | st.integers(0, 5).map("key-{}".format)
delays = st.sampled_from((0, 0, 1, 3))
some = st.lists(which, min_size=1, max_size=3)


@dataclass
class World:
    """One database, three hands, and how many operations were done and looked at."""

    loop: asyncio.Runner
    admin: Admin
    worker: Connection
    api: Connection
    operations: int = 0
    offences: set[Offence] = field(default_factory=set[Offence])

    def new_offences(self) -> set[Offence]:
        """What breaks a law and did not when we last looked: no story is blamed for another."""
        known, self.offences = self.offences, set(check(self.admin, ("duly", "ledger")))
        return self.offences - known

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        """Do this now."""
        return self.loop.run(doing)


class Story(RuleBasedStateMachine):
    """What users, workers, crashes and time do to the jobs of one org."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.org = uuid4()
        self.book = Book()
        self.leases: list[Lease] = []  # those somebody still remembers, lost ones too

    # How it is told ---------------------------------------------------------------------------------------------------

    def as_worker(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """One transaction of a worker."""
        return self.world.run(self.in_transaction(self.world.worker, act))

    def as_user(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """One transaction of the API, which acts for this org."""

        async def for_org(connection: Connection) -> T:
            await repository.act_for(connection, self.org)
            return await act(connection)

        return self.world.run(self.in_transaction(self.world.api, for_org))

    async def in_transaction(self, connection: Connection, act: Callable[[Connection], Awaitable[T]]) -> T:
        """One step later than the step before."""
        self.book.step += 1
        async with connection.transaction():
            return await act(connection)

    def wait(self, ticks: int) -> None:
        """Let time pass."""
        move_clock(self.world.admin, ticks * TICK_SECONDS)
        self.book.tick += ticks

    def wait_out(self, papers: Sequence[Paper]) -> None:
        """A random wait is over within a tick; before that, nobody can tell."""
        if any(paper.policy is BackoffPolicy.EXP and paper.due[0] > self.book.tick for paper in papers):
            self.wait(1)

    def some_leases(self, places: Sequence[int], *, held: bool = False) -> list[Lease]:
        """Some of those that somebody remembers, each once; of the held ones only, if there are any."""
        among = [lease for lease in self.leases if held and self.book.holds(*lease.claim)] or self.leases
        return [among[place] for place in sorted({place % len(among) for place in places})]

    def some_paper(self, place: int, *among: Status) -> Paper:
        """One of the jobs; one of those that are there, if any is."""
        papers = [paper for paper in self.book.papers if paper.status in among] or self.book.papers
        return papers[place % len(papers)]

    def has_room(self) -> bool:
        """Few jobs to which much happens tell more than many to which nothing does."""
        return sum(paper.finished is None for paper in self.book.papers) < 8

    def is_seldom(self) -> bool:
        """For what is mostly in vain, and must be seen to be in vain."""
        return self.book.step % 8 == 0

    # Asking -----------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Three jobs, so that there is something to do."""
        for kind in (0, 1, 2):
            self.enqueue(kind, None, 0, 0, 0, 2, 30)

    @precondition(lambda self: self.has_room())
    @rule(kind=which, key=keys, body=bodies, delay=delays, priority=st.integers(-1, 1), limit=st.integers(1, 3),
          days=st.sampled_from((1, 30)))  # fmt: skip
    def enqueue(self, kind: int, key: str | None, body: int, delay: int, priority: int, limit: int, days: int) -> None:
        """Ask for a job: a new one, the one that the same request made, or a refusal."""
        request = self.request(kind, delay, Options(priority, limit, retain_seconds=days * DAY * TICK_SECONDS))
        asked, known = (request.type, request.queue, body, delay), self.book.find_key(key)
        asking = partial(repository.enqueue, request=replace(request, key=key, payload={"n": body}))
        if known and known.asked != asked:
            return self.is_refused(asking)
        answer = self.as_user(asking)
        assert answer["outcome"] == ("existing" if known else "created")
        if known:
            assert answer["id"] == known.id
        else:
            self.write_down(answer["id"], request, asked, key)
        return None

    @precondition(lambda self: self.has_room())
    @rule(kind=which, given=st.lists(st.tuples(keys, bodies), min_size=1, max_size=4), delay=delays)
    def enqueue_many(self, kind: int, given: list[tuple[str | None, int]], delay: int) -> None:
        """Ask for many at once: all, or a refusal of all."""
        request = self.request(kind, delay, Options(max_attempts=2))
        asked = [(request.type, request.queue, body, delay) for _, body in given]
        stands_for = {paper.key: paper.asked for paper in self.book.papers}
        is_same = [stands_for.setdefault(key, each) == each for (key, _), each in zip(given, asked, strict=True) if key]
        payloads = [{"n": body} for _, body in given]
        asking = partial(repository.enqueue_many, request=request, payloads=payloads, keys=[key for key, _ in given])
        if not all(is_same):
            return self.is_refused(asking)
        for answer, (key, _), each in zip(self.as_user(asking), given, asked, strict=True):
            if answer["outcome"] == "created":
                self.write_down(answer["id"], request, each, key)
            elif known := self.book.find_key(key):
                assert answer["id"] == known.id
        assert {key for key, _ in given if key} <= {paper.key for paper in self.book.papers}
        return None

    def request(self, kind: int, delay: int, options: Options) -> Request:
        """A job of some kind, after a delay."""
        queue, type_ = KINDS[kind % len(KINDS)]
        options = replace(options, backoff=BACKOFFS[BackoffPolicy(type_)])
        return Request(self.org, type_, queue=queue, delay_seconds=delay * TICK_SECONDS, options=options)

    def is_refused(self, asking: Callable[[Connection], Awaitable[object]]) -> None:
        """The key stands for another request."""
        with pytest.raises(psycopg.DatabaseError) as refusal:
            self.as_user(asking)
        assert refusal.value.sqlstate == repository.KEY_REUSED

    def write_down(self, made: UUID, request: Request, asked: tuple[object, ...], key: str | None) -> None:
        """Expect this job."""
        options, delay = request.options, int((request.delay_seconds or 0) / TICK_SECONDS)
        retain_ticks = int(options.retain_seconds / TICK_SECONDS)
        numbers = (options.priority, options.max_attempts, retain_ticks, self.book.in_ticks(delay))
        self.book.papers.append(Paper(made, Kind(request.queue, request.type), asked, key, *numbers))

    # Holding ----------------------------------------------------------------------------------------------------------

    @rule(kind=which, limit=st.integers(1, 3), worker=st.integers(1, 3), ticks=st.sampled_from((1, 3)))
    def claim_a_few(self, kind: int, limit: int, worker: int, ticks: int) -> None:
        """A worker takes the first of one kind."""
        worthwhile = [each for each in KINDS if self.book.due_of(each)] or KINDS
        one = worthwhile[kind % len(worthwhile)]
        expected = self.book.first_of(one, limit)
        self.claim([one], max(limit, len(expected)), worker, ticks, expected)

    @rule(kinds=some, worker=st.integers(1, 3), ticks=st.sampled_from((1, 3)))
    def claim_all(self, kinds: list[int], worker: int, ticks: int) -> None:
        """A worker takes all it can get of several kinds."""
        several = [KINDS[kind] for kind in sorted({kind % len(KINDS) for kind in kinds})]
        self.claim(several, 100, worker, ticks, [paper for kind in several for paper in self.book.due_of(kind)])

    def claim(self, kinds: Sequence[Kind], limit: int, worker: int, ticks: int, expected: Sequence[Paper]) -> None:
        """Exactly these are taken."""
        lease_seconds = ticks * TICK_SECONDS
        leases = self.as_worker(
            lambda c: repository.claim(c, f"worker-{worker}", kinds, lease_seconds=lease_seconds, limit=limit)
        )
        assert {lease.key for lease in leases} == {paper.id for paper in expected}
        assert len(leases) == len(expected)
        leases.sort(key=lambda lease: self.book.papers.index(self.book.get(lease.key)))
        if leases:
            self.book.claim(expected, leases[0].owner, ticks)
            self.leases += leases

    @precondition(lambda self: bool(self.leases))
    @rule(places=some, ticks=st.sampled_from((1, 3)))
    def beat(self, places: list[int], ticks: int) -> None:
        """Leases that are held and not over are renewed, the others are lost; wishes to cancel are heard."""
        leases = self.some_leases(places)
        renewal = self.as_worker(lambda c: renew(c, leases, lease_seconds=ticks * TICK_SECONDS))
        over = {paper.id for paper in self.book.expired()}
        kept = {lease.claim for lease in leases if self.book.holds(*lease.claim) and lease.key not in over}
        assert (renewal.renewed, renewal.lost) == (kept, {lease.claim for lease in leases} - kept)
        assert renewal.cancelled == {claim for claim in kept if self.book.get(claim[0]).is_to_stop}
        for key, _ in kept:
            self.book.get(key).lapses = self.book.tick + ticks

    @precondition(lambda self: bool(self.leases))
    @rule(place=which, percent=st.integers(0, 100))
    def progress(self, place: int, percent: int) -> None:
        """A new stage, a second after the last, is one more event of its holder, and nothing from anybody else."""
        move_clock(self.world.admin, PROGRESS_SECONDS)
        lease, stage = self.leases[place % len(self.leases)], f"stage {self.book.step}"
        is_ours = self.book.holds(*lease.claim)
        assert self.as_worker(lambda c: repository.record_progress(c, lease, stage, percent)) == is_ours
        if is_ours:
            paper = self.book.get(lease.key)
            self.book.move(paper, paper.status)

    # Letting go -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(("failed", "gave_up")), places=some)
    def fail(self, outcome: str, places: list[int]) -> None:
        """It did not work."""
        self.settle(outcome, self.some_leases(places, held=True))

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(("later", "handed_back")), places=some, ticks=st.integers(0, 2))
    def put_back(self, outcome: str, places: list[int], ticks: int) -> None:
        """It was not tried."""
        self.settle(outcome, self.some_leases(places, held=True), ticks)

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(("done", "done", "cancelled")), places=some)
    def finish(self, outcome: str, places: list[int]) -> None:
        """It is over."""
        self.settle(outcome, self.some_leases(places, held=True))

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(OUTCOMES), places=some)
    def settle_whatever_is_remembered(self, outcome: str, places: list[int]) -> None:
        """By holders and by those who no longer are, in one batch."""
        self.settle(outcome, self.some_leases(places))

    def settle(self, outcome: str, some: Sequence[Lease], ticks: int = 0) -> None:
        """Whoever holds a job lets go of it; whoever did so before is told so again; a stale holder changes nothing."""
        leases = list({lease.key: lease for lease in some}.values())  # a batch has one claim of each row
        held = [self.book.get(lease.key) for lease in leases if self.book.holds(*lease.claim)]
        settled = {lease.key for lease in leases if self.book.has_settled(*lease.claim)}
        answer = self.as_worker(lambda c: self.ways_to_let_go(ticks)[outcome](c, leases))
        assert answer == {paper.id for paper in held} | settled
        for paper in held:
            self.expect_let_go(outcome, paper, ticks)
        self.wait_out(held)

    def ways_to_let_go(self, ticks: int) -> dict[str, Settle]:
        """One for each outcome."""
        seconds = ticks * TICK_SECONDS
        return {
            "done": lambda c, leases: repository.done(c, leases, ["well"] * len(leases)),
            "later": lambda c, leases: repository.later(c, leases, [seconds] * len(leases)),
            "handed_back": repository.handed_back,
            "cancelled": repository.cancelled,
            "failed": lambda c, leases: repository.failed(c, leases, ["OOPS"] * len(leases), ["oops"] * len(leases)),
            "gave_up": lambda c, leases: repository.gave_up(c, leases, ["NEVER"] * len(leases), ["no"] * len(leases)),
        }

    def expect_let_go(self, outcome: str, paper: Paper, ticks: int) -> None:
        """The same in the book."""
        match outcome:
            case "later":
                self.book.later(paper, ticks)
            case "gave_up":
                self.book.failed(paper, give_up=True)
            case _:
                getattr(self.book, outcome)(paper)

    @precondition(lambda self: bool(self.leases))
    @rule(place=which)
    def crash(self, place: int) -> None:
        """A holder is gone, and nobody remembers its lease."""
        self.leases.pop(place % len(self.leases))

    @precondition(lambda self: bool(self.book.expired()) or self.is_seldom())
    @rule()
    def sweep(self) -> None:
        """All that lapsed is taken from its holders, and nothing else."""
        expired = self.book.expired()
        assert self.as_worker(repository.sweep) == len(expired)
        for paper in expired:
            self.book.lapse(paper)
        self.wait_out(expired)

    # Steering ---------------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.book.papers))
    @rule(place=which, now=st.booleans(), among=st.sampled_from(Status))
    def cancel(self, place: int, now: bool, among: Status) -> None:
        """What waits ends at once; what runs is asked to, or must; what has ended refuses."""
        paper = self.some_paper(place, among)
        status = self.as_user(lambda c: repository.cancel_job(c, self.org, paper.id, "anna", now=now))
        assert status == self.book.cancel(paper, now=now)

    @precondition(lambda self: bool(self.book.dead()) or (self.book.papers and self.is_seldom()))
    @rule(place=which)
    def retry(self, place: int) -> None:
        """Only a dead letter is retried."""
        paper = self.some_paper(place, Status.DEAD_LETTER)
        expected = [paper] if paper in self.book.dead() else []
        assert self.as_user(lambda c: repository.retry_job(c, self.org, paper.id, "anna")) == bool(expected)
        self.book.redrive(expected)

    @precondition(lambda self: bool(self.book.dead()) or self.is_seldom())
    @rule(kind=st.none() | which, limit=st.integers(1, 3))
    def redrive(self, kind: int | None, limit: int) -> None:
        """The oldest so many dead letters of a kind, or of any."""
        queue, type_ = (None, None) if kind is None else KINDS[kind % len(KINDS)]
        matching = [paper for paper in self.book.dead() if kind is None or paper.kind == (queue, type_)]
        filter_ = DeadLetters(self.org, type=type_, queue=queue)
        answer = self.as_user(lambda c: repository.redrive(c, filter_, "anna", limit))
        assert set(answer) == {paper.id for paper in matching[:limit]}
        self.book.redrive(matching[:limit])

    @precondition(lambda self: len(self.book.paused) < 2)
    @rule(place=st.integers(0, len(PAUSES) - 1))
    def pause(self, place: int) -> None:
        """A queue, a type or both rest."""
        queue, type_ = PAUSES[place]
        self.as_worker(lambda c: repository.pause(c, "anna", queue=queue, type=type_))
        self.book.paused.add((queue, type_))

    @precondition(lambda self: bool(self.book.paused))
    @rule()
    def resume(self) -> None:
        """All that rests goes on."""
        for queue, type_ in sorted(self.book.paused):
            assert self.as_worker(partial(repository.resume, queue=queue, type=type_))
        self.book.paused.clear()

    # Time -------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: any(paper.owner or paper.due[0] > self.book.tick for paper in self.book.papers))
    @rule(ticks=st.integers(1, 4))
    def pass_time(self, ticks: int) -> None:
        """Some ticks."""
        self.wait(ticks)

    @precondition(lambda self: any(paper.finished is not None for paper in self.book.papers) or self.is_seldom())
    @rule(days=st.sampled_from((0, 0, 1, 30)))
    def retain(self, days: int) -> None:
        """Days pass, and exactly those whose time is over leave, with their log."""
        if days:
            self.wait(days * DAY)
        gone = self.book.retain()
        assert self.as_worker(partial(repository.retain, limit=10_000)) >= len(
            gone
        )  # other stories' jobs leave as well

    # What must hold ---------------------------------------------------------------------------------------------------

    @invariant()
    def the_rows_are_as_expected(self) -> None:
        """After every operation: status, counts, revision, holder."""
        self.world.operations += 1
        rows = {key: tuple(columns) for key, *columns in self.world.admin.execute(ROWS, [self.org])}
        assert rows == {paper.id: paper.row() for paper in self.book.papers}

    def teardown(self) -> None:
        """At the end the log leads to the rows and no law is broken; then all of it ends, for the next story."""
        try:
            if sys.exc_info()[0] is None:  # a story that broke has told enough
                self.the_log_leads_to_the_rows()
                assert self.world.new_offences() == set()
        finally:
            self.end()

    def the_log_leads_to_the_rows(self) -> None:
        """Replayed from the first event to the last, every log is where its job is."""
        logs: dict[UUID, list[tuple[int, str | None, str]]] = {}
        for key, *event in self.world.admin.execute(EVENTS, [self.org]):
            logs.setdefault(key, []).append((event[0], event[1], event[2]))
        assert logs == {paper.id: paper.events() for paper in self.book.papers}
        rows = {key: (columns[0], columns[4]) for key, *columns in self.world.admin.execute(ROWS, [self.org])}
        assert {key: replay(log) for key, log in logs.items()} == rows

    def end(self) -> None:
        """Nothing waits, runs or rests."""
        self.world.admin.execute("update ledger.job_limit set paused_at = null, paused_by = null")
        self.world.admin.execute(
            "update ledger.job set status = 'canceled', lease_owner = null, lease_expires_at = null"
            " where org_id = %s and status in ('queued', 'running')",
            [self.org],
        )


def replay(log: Sequence[tuple[int, str | None, str]]) -> tuple[str | None, int]:
    """The status and the revision that a log leads to."""
    status, revision = None, 0
    for seq, before, after in log:
        assert (seq, before) == (revision + 1, status)
        status, revision = after, seq
    return status, revision


def stories_of(world: World) -> type[Story]:
    """Stories in this world, other ones each time, but the same for the same seed of the run."""

    class Here(Story):
        def __init__(self) -> None:
            super().__init__(world)

    return seed(random.getrandbits(32))(Here)


@pytest.mark.timeout(420)  # a minute in all; a story that breaks is made shorter for up to five
@pytest.mark.parametrize("part", range(PARTS))
def test_the_log_leads_to_the_rows_after_ten_thousand_random_operations(part: int, database: str) -> None:
    """In parts, so that several processes share them; each counts its own."""
    roles = Names()
    with psycopg.connect(database, autocommit=True) as admin, asyncio.Runner() as loop:
        install_test_clock(admin)
        worker = loop.run(connect(make_conninfo(database, user=roles.worker)))
        api = loop.run(connect(make_conninfo(database, user=roles.api)))
        world = World(loop, admin, worker, api)
        try:
            while world.operations < OPERATIONS:  # stories that come to nothing are cut short, nobody knows how many
                run_state_machine_as_test(stories_of(world), settings=STORIES)
        finally:
            loop.run(worker.close())
            loop.run(api.close())
        assert check(admin, ("duly", "ledger")) == []
    assert world.operations >= OPERATIONS
