"""Ten thousand random operations: the rows match a model, and replaying the log leads to them.

Jobs are enqueued with the API's role and a tenant, and performed with the worker's. Every operation is applied to the
database and to `expected.ExpectedJobs`; both must return the same and be in the same state, and at the end of a story
the log is replayed. Each story has an org of its own in one database. The seed is that of pytest-randomly: the same
`--randomly-seed` repeats the same stories.
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
from duly.db.error_table import KEY_REUSED
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.jobs import limits, repository
from duly.jobs.enqueue import insert_job
from duly.jobs.model import ANY, DeadLetterFilter, JobOptions, JobRequest, JobStatus, TypeInQueue
from duly.lease.operations import Lease, renew_leases
from duly.testing import install_test_clock, move_clock
from duly.verify import Violation, check
from tests.support.jobs.actions import Admin, Connection
from tests.support.jobs.expected import DAY, TICK_SECONDS, ExpectedJob, ExpectedJobs
from tests.support.jobs.insert_jobs import insert_jobs

PARTS = 4
OPERATIONS = 10_000 // PARTS
HYPOTHESIS_SETTINGS = settings(
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
JOB_TYPES = [TypeInQueue(queue, policy.value) for queue in QUEUES for policy in BACKOFFS]
PAUSES = [(queue, ANY) for queue in QUEUES] + [(ANY, policy.value) for policy in BACKOFFS] + [tuple(JOB_TYPES[0])]
OUTCOMES = ("done", "later", "release", "cancelled", "failed", "gave_up")
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
    """One database with three connections, and the number of operations so far."""

    loop: asyncio.Runner
    admin: Admin
    worker: Connection
    api: Connection
    operations: int = 0
    violations: set[Violation] = field(default_factory=set[Violation])

    def new_violations(self) -> set[Violation]:
        """Return invariant violations that are new since the last check."""
        known, self.violations = self.violations, set(check(self.admin, ("duly", "ledger")))
        return self.violations - known

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine."""
        return self.loop.run(doing)


class Story(RuleBasedStateMachine):
    """Operations of users, workers, crashes and time on the jobs of one org."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.org = uuid4()
        self.model = ExpectedJobs()
        self.leases: list[Lease] = []  # every lease whose holder may still use it, lost ones too

    # The reports of a story --------------------------------------------------------------------------------------

    def as_worker(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one transaction of a worker."""
        return self.world.run(self.in_transaction(self.world.worker, act))

    def as_user(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one transaction of the API for this org."""

        async def for_org(connection: Connection) -> T:
            await repository.set_org(connection, self.org)
            return await act(connection)

        return self.world.run(self.in_transaction(self.world.api, for_org))

    async def in_transaction(self, connection: Connection, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Run an operation in a transaction, as the next step."""
        self.model.step += 1
        async with connection.transaction():
            return await act(connection)

    def wait(self, ticks: int) -> None:
        """Advance the clock."""
        move_clock(self.world.admin, ticks * TICK_SECONDS)
        self.model.tick += ticks

    def wait_out(self, jobs: Sequence[ExpectedJob]) -> None:
        """Wait out random delays, which end within a tick."""
        if any(job.policy is BackoffPolicy.EXP and job.due[0] > self.model.tick for job in jobs):
            self.wait(1)

    def some_leases(self, indexes: Sequence[int], *, held: bool = False) -> list[Lease]:
        """Pick some remembered leases, each once; with `held` only current ones, if there are any."""
        among = [lease for lease in self.leases if held and self.model.holds(*lease.claim)] or self.leases
        return [among[index] for index in sorted({index % len(among) for index in indexes})]

    def some_job(self, index: int, *among: JobStatus) -> ExpectedJob:
        """Pick a job; one with these statuses if there is any."""
        jobs = [job for job in self.model.jobs if job.status in among] or self.model.jobs
        return jobs[index % len(jobs)]

    def has_room(self) -> bool:
        """Keep the number of jobs small, so that much happens to each."""
        return sum(job.finished is None for job in self.model.jobs) < 8

    def is_seldom(self) -> bool:
        """Allow operations that mostly change nothing only now and then."""
        return self.model.step % 8 == 0

    # Asking -----------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Three jobs, so that there is something to do."""
        for job_type in (0, 1, 2):
            self.enqueue(job_type, None, 0, 0, 0, 2, 30)

    @precondition(lambda self: self.has_room())
    @rule(job_type=which, key=keys, body=bodies, delay=delays, priority=st.integers(-1, 1), limit=st.integers(1, 3),
          days=st.sampled_from((1, 30)))  # fmt: skip
    def enqueue(
        self, job_type: int, key: str | None, body: int, delay: int, priority: int, limit: int, days: int
    ) -> None:
        """Enqueue a job: a new one, the existing one of the same request, or a refusal."""
        request = self.request(job_type, delay, JobOptions(priority, limit, retain_seconds=days * DAY * TICK_SECONDS))
        content, known = (request.type, request.queue, body, delay), self.model.find_key(key)
        enqueue_call = partial(insert_job, request=replace(request, idempotency_key=key, payload={"n": body}))
        if known and known.content != content:
            return self.is_refused(enqueue_call)
        answer = self.as_user(enqueue_call)
        assert answer["outcome"] == ("existing" if known else "created")
        if known:
            assert answer["id"] == known.id
        else:
            self.expect_job(answer["id"], request, content, key)
        return None

    @precondition(lambda self: self.has_room())
    @rule(job_type=which, given=st.lists(st.tuples(keys, bodies), min_size=1, max_size=4), delay=delays)
    def enqueue_many(self, job_type: int, given: list[tuple[str | None, int]], delay: int) -> None:
        """Enqueue many jobs in one statement: all, or a refusal of all."""
        request = self.request(job_type, delay, JobOptions(max_attempts=2))
        content = [(request.type, request.queue, body, delay) for _, body in given]
        stands_for = {job.key: job.content for job in self.model.jobs}
        is_same = [
            stands_for.setdefault(key, each) == each for (key, _), each in zip(given, content, strict=True) if key
        ]
        payloads = [{"n": body} for _, body in given]
        enqueue_call = partial(
            insert_jobs, request=request, payloads=payloads, idempotency_keys=[key for key, _ in given]
        )
        if not all(is_same):
            return self.is_refused(enqueue_call)
        for answer, (key, _), each in zip(self.as_user(enqueue_call), given, content, strict=True):
            if answer["outcome"] == "created":
                self.expect_job(answer["id"], request, each, key)
            elif known := self.model.find_key(key):
                assert answer["id"] == known.id
        assert {key for key, _ in given if key} <= {job.key for job in self.model.jobs}
        return None

    def request(self, job_type: int, delay: int, options: JobOptions) -> JobRequest:
        """Build a request of some type, with a delay."""
        queue, type_ = JOB_TYPES[job_type % len(JOB_TYPES)]
        options = replace(options, backoff=BACKOFFS[BackoffPolicy(type_)])
        return JobRequest(self.org, type_, queue=queue, delay_seconds=delay * TICK_SECONDS, options=options)

    def is_refused(self, enqueue_call: Callable[[Connection], Awaitable[object]]) -> None:
        """Check that the key is refused because another request used it."""
        with pytest.raises(psycopg.DatabaseError) as refusal:
            self.as_user(enqueue_call)
        assert refusal.value.sqlstate == KEY_REUSED

    def expect_job(self, made: UUID, request: JobRequest, content: tuple[object, ...], key: str | None) -> None:
        """Expect this job."""
        options, delay = request.options, int((request.delay_seconds or 0) / TICK_SECONDS)
        retain_ticks = int(options.retain_seconds / TICK_SECONDS)
        numbers = (options.priority, options.max_attempts, retain_ticks, self.model.after_ticks(delay))
        self.model.jobs.append(ExpectedJob(made, TypeInQueue(request.queue, request.type), content, key, *numbers))

    # Holding ----------------------------------------------------------------------------------------------------------

    @rule(job_type=which, limit=st.integers(1, 3), worker=st.integers(1, 3), ticks=st.sampled_from((1, 3)))
    def claim_a_few(self, job_type: int, limit: int, worker: int, ticks: int) -> None:
        """Claim the first jobs of one type."""
        worthwhile = [each for each in JOB_TYPES if self.model.list_due(each)] or JOB_TYPES
        one = worthwhile[job_type % len(worthwhile)]
        expected = self.model.list_next(one, limit)
        self.claim([one], max(limit, len(expected)), worker, ticks, expected)

    @rule(job_types=some, worker=st.integers(1, 3), ticks=st.sampled_from((1, 3)))
    def claim_all(self, job_types: list[int], worker: int, ticks: int) -> None:
        """Claim all due jobs of several types."""
        several = [JOB_TYPES[job_type] for job_type in sorted({job_type % len(JOB_TYPES) for job_type in job_types})]
        self.claim(several, 100, worker, ticks, [job for job_type in several for job in self.model.list_due(job_type)])

    def claim(
        self, job_types: Sequence[TypeInQueue], limit: int, worker: int, ticks: int, expected: Sequence[ExpectedJob]
    ) -> None:
        """Claim, and check that exactly these jobs are returned."""
        lease_seconds = ticks * TICK_SECONDS
        leases = self.as_worker(
            lambda c: repository.claim_jobs(c, f"worker-{worker}", job_types, lease_seconds=lease_seconds, limit=limit)
        )
        assert {lease.key for lease in leases} == {job.id for job in expected}
        assert len(leases) == len(expected)
        leases.sort(key=lambda lease: self.model.jobs.index(self.model.get(lease.key)))
        if leases:
            self.model.claim(expected, leases[0].owner, ticks)
            self.leases += leases

    @precondition(lambda self: bool(self.leases))
    @rule(indexes=some, ticks=st.sampled_from((1, 3)))
    def renew_leases(self, indexes: list[int], ticks: int) -> None:
        """Valid leases are renewed, the others are lost; cancel requests are reported."""
        leases = self.some_leases(indexes)
        renewal = self.as_worker(lambda c: renew_leases(c, leases, lease_seconds=ticks * TICK_SECONDS))
        over = {job.id for job in self.model.expired()}
        renewed_claims = {lease.claim for lease in leases if self.model.holds(*lease.claim) and lease.key not in over}
        assert (renewal.renewed, renewal.lost) == (renewed_claims, {lease.claim for lease in leases} - renewed_claims)
        assert renewal.cancelled == {claim for claim in renewed_claims if self.model.get(claim[0]).is_to_stop}
        for key, _ in renewed_claims:
            self.model.get(key).expires_tick = self.model.tick + ticks

    @precondition(lambda self: bool(self.leases))
    @rule(index=which, percent=st.integers(0, 100))
    def progress(self, index: int, percent: int) -> None:
        """Progress by the owner, a second after the last, adds an event; by others it changes nothing."""
        move_clock(self.world.admin, PROGRESS_SECONDS)
        lease, stage = self.leases[index % len(self.leases)], f"stage {self.model.step}"
        is_ours = self.model.holds(*lease.claim)
        assert self.as_worker(lambda c: repository.record_progress(c, lease, stage, percent)) == is_ours
        if is_ours:
            job = self.model.get(lease.key)
            self.model.move(job, job.status)

    # Letting go -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(("failed", "gave_up")), indexes=some)
    def fail(self, outcome: str, indexes: list[int]) -> None:
        """Fail some jobs."""
        self.settle(outcome, self.some_leases(indexes, held=True))

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(("later", "release")), indexes=some, ticks=st.integers(0, 2))
    def give_back(self, outcome: str, indexes: list[int], ticks: int) -> None:
        """Snooze or release some jobs."""
        self.settle(outcome, self.some_leases(indexes, held=True), ticks)

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(("done", "done", "cancelled")), indexes=some)
    def finish(self, outcome: str, indexes: list[int]) -> None:
        """Finish some jobs."""
        self.settle(outcome, self.some_leases(indexes, held=True))

    @precondition(lambda self: bool(self.leases))
    @rule(outcome=st.sampled_from(OUTCOMES), indexes=some)
    def settle_whatever_is_remembered(self, outcome: str, indexes: list[int]) -> None:
        """Settle by current and stale owners in one batch."""
        self.settle(outcome, self.some_leases(indexes))

    def settle(self, outcome: str, some: Sequence[Lease], ticks: int = 0) -> None:
        """Current owners settle; earlier settlers get the same answer again; stale owners change nothing."""
        leases = list({lease.key: lease for lease in some}.values())  # a batch has one claim of each row
        held = [self.model.get(lease.key) for lease in leases if self.model.holds(*lease.claim)]
        settled = {lease.key for lease in leases if self.model.has_settled(*lease.claim)}
        answer = self.as_worker(lambda c: self.settle_functions(ticks)[outcome](c, leases))
        assert answer == {job.id for job in held} | settled
        for job in held:
            self.expect_settled(outcome, job, ticks)
        self.wait_out(held)

    def settle_functions(self, ticks: int) -> dict[str, Settle]:
        """Return the repository function of each outcome."""
        seconds = ticks * TICK_SECONDS
        return {
            "done": lambda c, leases: repository.settle_done(c, leases, ["well"] * len(leases)),
            "later": lambda c, leases: repository.snooze(c, leases, [seconds] * len(leases)),
            "release": repository.release_jobs,
            "cancelled": repository.settle_cancelled,
            "failed": lambda c, leases: repository.settle_failed(
                c, leases, ["OOPS"] * len(leases), ["oops"] * len(leases)
            ),
            "gave_up": lambda c, leases: repository.settle_failed(
                c, leases, ["NEVER"] * len(leases), ["no"] * len(leases), give_up=True
            ),
        }

    def expect_settled(self, outcome: str, job: ExpectedJob, ticks: int) -> None:
        """Apply the same outcome to the model."""
        match outcome:
            case "later":
                self.model.later(job, ticks)
            case "gave_up":
                self.model.failed(job, give_up=True)
            case _:
                getattr(self.model, outcome)(job)

    @precondition(lambda self: bool(self.leases))
    @rule(index=which)
    def crash(self, index: int) -> None:
        """A worker crashes: its lease is forgotten."""
        self.leases.pop(index % len(self.leases))

    @precondition(lambda self: bool(self.model.expired()) or self.is_seldom())
    @rule()
    def sweep(self) -> None:
        """Sweep: every expired lease is taken from its holder, and no other."""
        expired = self.model.expired()
        assert len(self.as_worker(repository.sweep_jobs)) == len(expired)
        for job in expired:
            self.model.expire(job)
        self.wait_out(expired)

    # Steering ---------------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.model.jobs))
    @rule(index=which, now=st.booleans(), among=st.sampled_from(JobStatus))
    def cancel(self, index: int, now: bool, among: JobStatus) -> None:
        """What waits ends at once; what runs is asked to, or must; what has ended refuses."""
        job = self.some_job(index, among)
        status = self.as_user(lambda c: repository.cancel_job(c, self.org, job.id, "anna", now=now))
        assert status == self.model.cancel(job, now=now)

    @precondition(lambda self: bool(self.model.dead()) or (self.model.jobs and self.is_seldom()))
    @rule(index=which)
    def redrive_one(self, index: int) -> None:
        """Redrive a job: only a dead letter is put back in the queue."""
        job = self.some_job(index, JobStatus.DEAD_LETTER)
        expected = [job] if job in self.model.dead() else []
        assert self.as_user(lambda c: repository.redrive(c, self.org, job.id, "anna")) == bool(expected)
        self.model.redrive(expected)

    @precondition(lambda self: bool(self.model.dead()) or self.is_seldom())
    @rule(job_type=st.none() | which, limit=st.integers(1, 3))
    def redrive_many(self, job_type: int | None, limit: int) -> None:
        """Redrive the oldest dead letters of one type, or of any."""
        queue, type_ = (None, None) if job_type is None else JOB_TYPES[job_type % len(JOB_TYPES)]
        matching = [job for job in self.model.dead() if job_type is None or job.job_type == (queue, type_)]
        filter_ = DeadLetterFilter(self.org, type=type_, queue=queue)
        answer = self.as_user(lambda c: repository.redrive_many(c, filter_, "anna", limit))
        assert set(answer) == {job.id for job in matching[:limit]}
        self.model.redrive(matching[:limit])

    @precondition(lambda self: len(self.model.paused) < 2)
    @rule(index=st.integers(0, len(PAUSES) - 1))
    def pause(self, index: int) -> None:
        """A queue, a type or both rest."""
        queue, type_ = PAUSES[index]
        self.as_worker(lambda c: limits.put_pause(c, "anna", queue=queue, type=type_))
        self.model.paused.add((queue, type_))

    @precondition(lambda self: bool(self.model.paused))
    @rule()
    def resume(self) -> None:
        """Resume everything that is paused."""
        for queue, type_ in sorted(self.model.paused):
            assert self.as_worker(partial(limits.drop_pause, queue=queue, type=type_))
        self.model.paused.clear()

    # Time -------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: any(job.owner or job.due[0] > self.model.tick for job in self.model.jobs))
    @rule(ticks=st.integers(1, 4))
    def pass_time(self, ticks: int) -> None:
        """Some ticks."""
        self.wait(ticks)

    @precondition(lambda self: any(job.finished is not None for job in self.model.jobs) or self.is_seldom())
    @rule(days=st.sampled_from((0, 0, 1, 30)))
    def purge(self, days: int) -> None:
        """Days pass, and exactly those whose time is over leave, with their log."""
        if days:
            self.wait(days * DAY)
        purged = self.model.purge()
        assert self.as_worker(partial(repository.purge, limit=10_000)) >= len(
            purged
        )  # other stories' jobs leave as well

    # What must hold ---------------------------------------------------------------------------------------------------

    @invariant()
    def check_rows_match_the_model(self) -> None:
        """After every operation: status, counts, revision, holder."""
        self.world.operations += 1
        rows = {key: tuple(columns) for key, *columns in self.world.admin.execute(ROWS, [self.org])}
        assert rows == {job.id: job.row() for job in self.model.jobs}

    def teardown(self) -> None:
        """At the end the log leads to the rows and every invariant holds; then all rows go, for the next story."""
        try:
            if sys.exc_info()[0] is None:  # a story that failed has reported already
                self.check_log_gives_the_rows()
                assert self.world.new_violations() == set()
        finally:
            self.end()

    def check_log_gives_the_rows(self) -> None:
        """Replayed from the first event to the last, every log is where its job is."""
        logs: dict[UUID, list[tuple[int, str | None, str]]] = {}
        for key, *event in self.world.admin.execute(EVENTS, [self.org]):
            logs.setdefault(key, []).append((event[0], event[1], event[2]))
        assert logs == {job.id: job.events() for job in self.model.jobs}
        rows = {key: (columns[0], columns[4]) for key, *columns in self.world.admin.execute(ROWS, [self.org])}
        assert {key: replay(log) for key, log in logs.items()} == rows

    def end(self) -> None:
        """Check that nothing is queued, running or paused."""
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


def make_state_machine(world: World) -> type[Story]:
    """Stories in this world, other ones each time, but the same for the same seed of the run."""

    class Here(Story):
        def __init__(self) -> None:
            super().__init__(world)

    return seed(random.getrandbits(32))(Here)


@pytest.mark.timeout(420)  # a minute in all; a story that breaks is made shorter for up to five
@pytest.mark.parametrize("part", range(PARTS))
def test_replaying_the_event_log_gives_the_rows_after_ten_thousand_random_operations(part: int, database: str) -> None:
    """In parts, so that several processes share them; each counts its own."""
    roles = Names()
    with psycopg.connect(database, autocommit=True) as admin, asyncio.Runner() as loop:
        install_test_clock(admin)
        worker = loop.run(connect(make_conninfo(database, user=roles.worker)))
        api = loop.run(connect(make_conninfo(database, user=roles.api)))
        world = World(loop, admin, worker, api)
        try:
            while world.operations < OPERATIONS:  # a story whose step is refused is cut short, and their number varies
                run_state_machine_as_test(make_state_machine(world), settings=HYPOTHESIS_SETTINGS)
        finally:
            loop.run(worker.close())
            loop.run(api.close())
        assert check(admin, ("duly", "ledger")) == []
    assert world.operations >= OPERATIONS
