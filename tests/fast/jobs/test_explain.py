"""Every reason why a job is not running, each produced in a real database, and its sentence."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta, timezone
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import Pool, connect, open_pool
from duly.errors import NotFound
from duly.explain import ALIVE_SECONDS, format_names
from duly.formatting import format_duration
from duly.jobs import limits, repository, service
from duly.jobs.context import Context
from duly.jobs.explain import CAUSES, JobReason, explain
from duly.jobs.model import DEFAULT_ORG, JobStatus
from duly.jobs.work import Handler, JobWork
from duly.lease.work import Tuning
from duly.worker.registry import WorkerIdentity, note_stopped, register
from tests.support.actions import working
from tests.support.jobs.actions import JOB_TYPE, LEASE, ORG, OTHER_ORG, Admin, JobActions

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
HANDLES = JobWork([Handler(JOB_TYPE.type, print, JOB_TYPE.queue)], Tuning()).registered_work_types


@pytest.fixture
async def pool(admin: Admin) -> AsyncGenerator[Pool, None]:
    """Connections with the worker's role, which sees all orgs."""
    async with open_pool(make_conninfo(admin.info.dsn, user=Names().worker), size=1) as opened:
        yield opened


@pytest.fixture
async def api_pool(admin: Admin) -> AsyncGenerator[Pool, None]:
    """Connections with the API's role, which sees one org."""
    async with open_pool(make_conninfo(admin.info.dsn, user=Names().api), size=1) as opened:
        yield opened


async def register_worker(jobs: JobActions, *job_types: str, name: str = "night", slots: int = 2) -> WorkerIdentity:
    """Register a worker."""
    identity = WorkerIdentity(name, job_types or HANDLES, {"ledger": slots})
    await register(jobs.worker, identity)
    return identity


# Every reason, and a situation in which it is the reason --------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """How to produce a reason, for which job, and the expected sentence."""

    reason: JobReason
    sentence: str
    bring_about: Callable[[JobActions, Pool], Awaitable[UUID]]


CASES: list[Case] = []


def explained_by(reason: JobReason, sentence: str) -> Callable[[Callable[[JobActions, Pool], Awaitable[UUID]]], None]:
    """Register a function that produces a reason and a sentence of this pattern."""
    return lambda bring_about: CASES.append(Case(reason, sentence.replace("TIME", TIME), bring_about))


@explained_by(JobReason.SUCCEEDED, r"It succeeded at TIME, at attempt 1 of 5\.")
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await repository.settle_done(jobs.worker, await jobs.claim(), [None])
    return key


@explained_by(JobReason.CANCELED, r"It was cancelled at TIME, as requested by anna\.")
async def _(jobs: JobActions, pool: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await service.cancel_job(pool, ORG, key, "anna")
    return key


@explained_by(JobReason.CANCELED, r"It was cancelled at TIME, as requested by anna\.")
async def _(jobs: JobActions, pool: Pool) -> UUID:
    (key,) = jobs.enqueue()
    leases = await jobs.claim()
    await service.cancel_job(pool, ORG, key, "anna")
    await repository.settle_cancelled(jobs.worker, leases)  # the last word is its holder's
    return key


@explained_by(
    JobReason.DEAD_LETTER,
    r"It is a dead letter since TIME: attempt 1 of 1 failed and was the last, with OOPS \(because\); to put it back "
    rf"in the queue: duly jobs redrive [-0-9a-f]+ --org {ORG}\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue(max_attempts=1)
    await jobs.fail(*await jobs.claim())
    return key


@explained_by(
    JobReason.DEAD_LETTER, r"It is a dead letter since TIME: attempt 1 of 5 was given up, with NO \(never\); .*"
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    leases = await jobs.claim()
    async with jobs.worker.transaction():
        await repository.settle_failed(jobs.worker, leases, ["NO"], ["never"], give_up=True)
    return key


@explained_by(
    JobReason.HALF_FAILED,
    r"It failed with OOPS \(because\) and was neither put back in the queue .* of worker-1; see: duly verify\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await repository.mark_failed(jobs.worker, await jobs.claim(), ["OOPS"], ["because"])
    return key


@explained_by(
    JobReason.EXPIRED_NO_WORKER,
    r"Its lease expired at TIME: worker-1 stopped renewing it, and no live worker that performs jobs .*: duly worker\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await jobs.claim()
    await register_worker(jobs)  # and it is not seen again
    jobs.advance_clock(LEASE + 1)
    await register_worker(jobs, "posts")  # and this one sweeps something else
    return key


@explained_by(
    JobReason.EXPIRED,
    r"Its lease expired at TIME: worker-1 stopped renewing it, and the next sweep, one every DULY_SWEEP_SECONDS, "
    r"ends the lease: then it waits for attempt 2 of 5\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await jobs.claim()
    jobs.advance_clock(LEASE + 1)
    await register_worker(jobs, "ledger", "ledger:elsewhere/other")  # any worker that performs jobs sweeps them all
    return key


@explained_by(JobReason.EXPIRED, r"Its lease .* ends the lease: then it becomes a dead letter, after 1 of 1 attempts\.")
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue(max_attempts=1)
    await jobs.claim()
    jobs.advance_clock(LEASE + 1)
    await register_worker(jobs)
    return key


@explained_by(JobReason.EXPIRED, r"Its lease .* ends the lease: then it is cancelled, as requested\.")
async def _(jobs: JobActions, pool: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await jobs.claim()
    await service.cancel_job(pool, ORG, key, "anna")
    jobs.advance_clock(LEASE + 1)
    await register_worker(jobs)
    return key


@explained_by(
    JobReason.HOLDER_GONE,
    r"worker-1 holds the lease until TIME, but is gone: last seen at TIME\. When the lease expires, the "
    r"next sweep ends the lease: then it waits for attempt 2 of 5\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    stopped_worker = await register_worker(jobs, name="worker-1")
    (key,) = jobs.enqueue()
    await jobs.claim()
    await note_stopped(jobs.worker, stopped_worker)
    await register_worker(jobs)
    return key


@explained_by(
    JobReason.CANCEL_REQUESTED,
    r"It runs, and anna requested its cancellation at TIME: worker-1, which has the lease until TIME, stops it when it "
    rf"renews the lease; to cancel it at once: duly jobs cancel [-0-9a-f]+ --org {ORG} --now\.",
)
async def _(jobs: JobActions, pool: Pool) -> UUID:
    (key,) = jobs.enqueue()
    await jobs.claim()
    await service.cancel_job(pool, ORG, key, "anna")
    return key


@explained_by(
    JobReason.RUNNING,
    r"It runs: worker-1 holds the lease since TIME, until TIME unless renewed; attempt 1 of 5, 40 %, in stage "
    r"'reading'\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    await repository.record_progress(jobs.worker, lease, "reading", 40)
    return key


@explained_by(JobReason.RUNNING, r"It runs: .*; attempt 2 of 5, no progress reported\.")
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue(backoff_policy="none")
    await jobs.fail(*await jobs.claim())
    await jobs.claim()
    return key


@explained_by(
    JobReason.BACKING_OFF,
    r"Attempt 1 of 5 failed with OOPS \(because\), and it waits until TIME, for another (59 s|1 min)\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue(backoff_policy="fixed", backoff_base_seconds=60)
    await jobs.fail(*await jobs.claim())
    return key


@explained_by(
    JobReason.SNOOZED, r"Its handler returned Later, 2 times so far, and it waits until TIME, for another .*\."
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue(backoff_policy="none")
    await jobs.fail(*await jobs.claim())  # a failure before does not make it one
    for seconds in (0, 3600):
        await repository.snooze(jobs.worker, await jobs.claim(), [seconds])
    return key


@explained_by(
    JobReason.DELAYED, r"It waits until TIME, for another (1 h|59 min 5\d s), as requested when it was enqueued\."
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    return jobs.enqueue(delay_seconds=3600)[0]


@explained_by(
    JobReason.DELAYED,
    r"It waits until TIME, .*, as requested when it was enqueued; also, the queue default is paused since TIME by "
    r"anna; to resume: duly jobs resume --queue default\.",
)
async def _(jobs: JobActions, pool: Pool) -> UUID:
    (key,) = jobs.enqueue(delay_seconds=3600)
    await limits.pause(pool, "anna", queue="default")
    return key


@explained_by(
    JobReason.CLOCK_SET_BACK,
    r"It was due at once, and it waits until TIME, for another (1 h|59 min 5\d s): the clock of the database was set "
    r"back; its last event is of TIME, (1 h|59 min 5\d s) from now\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    (key,) = jobs.enqueue()
    jobs.advance_clock(-3600)
    return key


@explained_by(
    JobReason.SEVERAL_PAUSES,
    r"The type work is paused since TIME by bert and the queue default is paused since TIME by anna; to resume: duly "
    r"jobs resume --type work and duly jobs resume --queue default\.",
)
async def _(jobs: JobActions, pool: Pool) -> UUID:
    await limits.pause(pool, "anna", queue="default")
    await limits.pause(pool, "bert", type="work")
    return jobs.enqueue()[0]


@explained_by(
    JobReason.QUEUE_PAUSED,
    r"The queue default is paused since TIME by anna; to resume: duly jobs resume --queue default\.",
)
async def _(jobs: JobActions, pool: Pool) -> UUID:
    await limits.pause(pool, "anna", queue="default")
    await limits.pause(pool, "anna", queue="elsewhere")
    await register_worker(jobs)
    return jobs.enqueue()[0]


@explained_by(
    JobReason.TYPE_PAUSED,
    r"The type work is paused since TIME by an unnamed caller; to resume: duly jobs resume --type work\.",
)
async def _(jobs: JobActions, pool: Pool) -> UUID:
    await limits.pause(pool, None, type="work")
    return jobs.enqueue()[0]


@explained_by(
    JobReason.TYPE_IN_QUEUE_PAUSED,
    r"The type work in the queue default is paused since TIME by anna; to resume: duly jobs resume --queue default "
    r"--type work\.",
)
async def _(jobs: JobActions, pool: Pool) -> UUID:
    await limits.pause(pool, "anna", queue="default", type="work")
    return jobs.enqueue()[0]


@explained_by(JobReason.LIMIT_REACHED, r"Of the type work at most 2 may run at once, and 2 do\.")
async def _(jobs: JobActions, _: Pool) -> UUID:
    await limits.set_concurrency(jobs.worker, "work", 2)
    jobs.enqueue(org=OTHER_ORG, rows=2)  # a limit knows no orgs
    (key,) = jobs.enqueue()
    await jobs.claim(limit=3)
    await register_worker(jobs)
    return key


@explained_by(JobReason.NO_WORKER, r"It is due since TIME \(.*\), and no worker is alive; start one: duly worker\.")
async def _(jobs: JobActions, _: Pool) -> UUID:
    await register_worker(jobs)
    jobs.advance_clock(ALIVE_SECONDS + 1)
    await note_stopped(jobs.worker, await register_worker(jobs))
    return jobs.enqueue()[0]


@explained_by(
    JobReason.NOT_HANDLED,
    r"It is due since TIME \(.*\), and of 2 live workers none performs jobs of the type work in the queue default; .*",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    await register_worker(jobs, "ledger", "ledger:images/work", "ledger:default/other")
    await register_worker(jobs, "posts")
    return jobs.enqueue()[0]


@explained_by(
    JobReason.SLOTS_TAKEN,
    r"It is due since TIME \(.*\), and the 2 slots of worker-1, which could perform it, are taken: 2 jobs run there, "
    r"and 1 due job goes first\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    await register_worker(jobs, name="worker-1")
    keys = jobs.enqueue(rows=4)
    await jobs.claim(limit=2)
    return keys[-1]


@explained_by(JobReason.LOCKED, r"It is due since TIME \(.*\), and another transaction has its row locked: .*")
async def _(jobs: JobActions, _: Pool) -> UUID:
    await register_worker(jobs)
    (key,) = jobs.enqueue()
    jobs.admin.execute("begin")  # ends with the test
    jobs.admin.execute("select from ledger.job for share")  # the weakest lock that a claim passes over
    return key


@explained_by(
    JobReason.BEHIND_OTHERS,
    r"It is due since TIME \(.*\), and 2 due jobs go first, by priority or .*: 2 slots of night are free\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    await register_worker(jobs)
    jobs.enqueue()
    (key,) = jobs.enqueue()
    jobs.enqueue(org=OTHER_ORG, priority=1)
    jobs.enqueue()  # later
    jobs.enqueue(priority=-1)
    jobs.enqueue(priority=1, delay_seconds=60)
    jobs.enqueue(priority=1, queue="elsewhere")
    return key


@explained_by(
    JobReason.DUE,
    r"It is due since TIME \(.*\), nothing delays it, and night may claim it at any moment\.",
)
async def _(jobs: JobActions, _: Pool) -> UUID:
    await register_worker(jobs)
    jobs.enqueue()
    await jobs.claim()
    (key,) = jobs.enqueue()
    jobs.admin.execute("begin")  # a foreign key to a job locks it too, and blocks nothing
    jobs.admin.execute("select from ledger.job for key share")
    return key


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
async def test_explain_gives_the_reason_and_sentence_of_each_case(case: Case, jobs: JobActions, pool: Pool) -> None:
    key = await case.bring_about(jobs, pool)
    found = await explain(pool, ORG, key)
    assert found.reason is case.reason, found.sentence
    assert re.fullmatch(case.sentence, found.sentence), found.sentence
    job = await service.get_job(pool, ORG, key)
    assert (found.id, found.status) == (key, job.status)


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
async def test_claim_takes_only_jobs_that_explain_calls_claimable(case: Case, jobs: JobActions, pool: Pool) -> None:
    key = await case.bring_about(jobs, pool)
    claimed = await repository.claim_jobs(jobs.worker, "night", [JOB_TYPE], lease_seconds=LEASE, limit=1)
    could = {JobReason.DUE, JobReason.NO_WORKER, JobReason.NOT_HANDLED}  # the last two were not tried
    assert ([lease.key for lease in claimed] == [key]) == (case.reason in could)


def test_every_job_reason_has_a_test_case_and_a_cause() -> None:
    assert {case.reason for case in CASES} == set(JobReason)
    assert [cause.reason for cause in CAUSES] == list(JobReason)


async def test_job_is_explained_on_every_major_version(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        dsn = make_conninfo(database, user=Names().worker)
        async with await connect(dsn) as worker, open_pool(dsn, size=1) as pool:
            jobs = JobActions(admin, worker)
            await limits.pause(pool, "anna", queue="default", type="work")
            (key,) = jobs.enqueue()
            assert (await explain(pool, ORG, key)).reason is JobReason.TYPE_IN_QUEUE_PAUSED
            await limits.resume(pool, queue="default", type="work")
            await register_worker(jobs)
            assert (await explain(pool, ORG, key)).reason is JobReason.DUE


# What was once wrong --------------------------------------------------------------------------------------------------


async def at_the_limit(jobs: JobActions) -> UUID:
    """A queued job of a type with limit 1, whose running job has an expired lease."""
    await limits.set_concurrency(jobs.worker, "work", 1)
    _, key = jobs.enqueue(rows=2)
    await jobs.claim()
    jobs.advance_clock(3600)
    return key


async def test_without_a_live_worker_the_reason_is_not_the_limit(jobs: JobActions, pool: Pool) -> None:
    found = await explain(pool, ORG, await at_the_limit(jobs))
    assert (found.reason, "no worker is alive" in found.sentence) == (JobReason.NO_WORKER, True)


async def test_expired_lease_counts_towards_the_limit_but_not_as_running(jobs: JobActions, pool: Pool) -> None:
    key = await at_the_limit(jobs)
    await register_worker(jobs)
    found = await explain(pool, ORG, key)
    assert found.reason is JobReason.LIMIT_REACHED
    assert "at most 1 may run at once: 0 do, and 1 job counts whose lease expired" in found.sentence
    assert await jobs.claim() == []  # the claim counts it, too
    await jobs.sweep()
    assert (await explain(pool, ORG, key)).reason is not JobReason.LIMIT_REACHED


async def test_job_without_a_handler_is_explained_as_not_handled_at_its_limit(jobs: JobActions, pool: Pool) -> None:
    key = await at_the_limit(jobs)
    await register_worker(jobs, "ledger", "ledger:elsewhere/work")
    assert (await explain(pool, ORG, key)).reason is JobReason.NOT_HANDLED


@pytest.mark.parametrize("lock", ["for share", "for no key update", "for update"])
async def test_explain_and_claim_treat_locked_jobs_alike(lock: str, jobs: JobActions, pool: Pool) -> None:
    await register_worker(jobs)
    (key,) = jobs.enqueue()
    with jobs.admin.transaction():
        jobs.admin.execute(f"select from ledger.job {lock}".encode())
        assert (await explain(pool, ORG, key)).reason is JobReason.LOCKED
        assert await jobs.claim() == []
    assert (await explain(pool, ORG, key)).reason is JobReason.DUE


async def test_due_jobs_of_all_types_that_its_workers_handle_are_counted_ahead(jobs: JobActions, pool: Pool) -> None:
    await register_worker(jobs, *HANDLES, "ledger:default/other", slots=1)
    jobs.enqueue("other", rows=5, priority=1)
    (key,) = jobs.enqueue()
    found = await explain(pool, ORG, key)
    assert found.reason is JobReason.BEHIND_OTHERS
    assert "and 5 due jobs go first" in found.sentence
    assert found.sentence.endswith(": 1 slot of night is free.")
    await register_worker(jobs, name="day")  # it performs no others: there nothing goes first
    assert (await explain(pool, ORG, key)).reason is JobReason.DUE


async def test_stopping_worker_claims_nothing_and_is_explained_as_stopping(
    jobs: JobActions, pool: Pool, dsn: str
) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    async def handle(_: Context) -> None:
        started.set()
        await may_end.wait()

    jobs.enqueue()
    async with working(dsn, JobWork([Handler("work", handle)], Tuning(slots=2)), WORKER_ID="day") as worker:
        await started.wait()
        worker.request_stop()
        stopping = "select count(*) from duly.workers where stopping_at is not null and stopped_at is null"
        await jobs.until(lambda: jobs.one(stopping) == 1)
        (key,) = jobs.enqueue()
        found = await explain(pool, ORG, key)
        may_end.set()
    assert found.reason is JobReason.NO_WORKER
    assert "no worker is alive (day is stopping and claims nothing new); start one" in found.sentence
    assert jobs.columns("status") == ["succeeded", "queued"]


async def test_job_of_a_dead_worker_is_not_explained_as_running(jobs: JobActions, pool: Pool) -> None:
    await register_worker(jobs, name="worker-1")
    (key,) = jobs.enqueue()
    await jobs.claim(lease_seconds=600)
    assert (await explain(pool, ORG, key)).reason is JobReason.RUNNING
    jobs.advance_clock(ALIVE_SECONDS + 1)  # and it is not seen
    found = await explain(pool, ORG, key)
    assert found.reason is JobReason.HOLDER_GONE
    assert "When the lease expires, no live worker would end the lease; start one: duly worker." in found.sentence


async def test_explain_gives_a_clock_set_back_as_the_reason(jobs: JobActions, pool: Pool) -> None:
    (delayed,), (key,) = jobs.enqueue(delay_seconds=60), jobs.enqueue()
    jobs.advance_clock(-3600)
    assert (await explain(pool, ORG, delayed)).reason is JobReason.DELAYED
    found = await explain(pool, ORG, key)
    assert (found.reason, "as requested" in found.sentence) == (JobReason.CLOCK_SET_BACK, False)
    assert await jobs.claim() == []


async def test_locked_concurrency_limit_is_explained_and_prevents_claims(jobs: JobActions, pool: Pool) -> None:
    await limits.set_concurrency(jobs.worker, "work", 5)
    await register_worker(jobs)
    (key,) = jobs.enqueue()
    assert (await explain(pool, ORG, key)).reason is JobReason.DUE
    with jobs.admin.transaction():
        jobs.admin.execute("select from ledger.job_limit for update")
        found = await explain(pool, ORG, key)
        assert (found.reason, "has the limit of its type locked" in found.sentence) == (JobReason.LOCKED, True)
        assert await jobs.claim() == []


async def test_explain_changes_no_row_and_writes_no_event(jobs: JobActions, pool: Pool) -> None:
    await register_worker(jobs)
    (key,) = jobs.enqueue()
    before = jobs.rows("select * from ledger.job"), jobs.events(key)
    assert (await explain(pool, ORG, key)).reason is JobReason.DUE
    assert (jobs.rows("select * from ledger.job"), jobs.events(key)) == before


# What is not shown ----------------------------------------------------------------------------------------------------


async def test_explain_does_not_find_jobs_of_other_orgs_or_purged_jobs(
    jobs: JobActions, pool: Pool, api_pool: Pool
) -> None:
    (key,) = jobs.enqueue()
    for each in (pool, api_pool):
        assert (await explain(each, ORG, key)).status is JobStatus.QUEUED
        for org, unknown_key in ((OTHER_ORG, key), (ORG, uuid4())):
            with pytest.raises(NotFound, match=str(unknown_key)):
                await explain(each, org, unknown_key)
    await service.cancel_job(pool, ORG, key, "anna")
    jobs.advance_clock(31 * 86_400)
    await repository.purge(jobs.worker)
    with pytest.raises(NotFound):
        await explain(pool, ORG, key)


async def test_explain_by_the_api_role_counts_no_job_of_another_org(jobs: JobActions, api_pool: Pool) -> None:
    await register_worker(jobs, name="worker-1")
    jobs.enqueue(org=OTHER_ORG, rows=3)
    await jobs.claim(limit=2)
    found = await explain(api_pool, ORG, jobs.enqueue()[0])
    assert found.reason is JobReason.DUE


# Words ----------------------------------------------------------------------------------------------------------------


async def test_multiline_error_is_shortened_to_one_line_in_the_explanation(jobs: JobActions, pool: Pool) -> None:
    (key,) = jobs.enqueue(max_attempts=1)
    await jobs.fail(*await jobs.claim(), message="one\ntwo\n" + 1000 * "x")
    sentence = (await explain(pool, ORG, key)).sentence
    assert "OOPS (one two xxx" in sentence
    assert "\n" not in sentence
    assert len(sentence) < 500


async def test_explanation_omits_the_default_org_and_uses_the_requested_zone(jobs: JobActions, pool: Pool) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG, max_attempts=1)
    await jobs.fail(*await jobs.claim())
    found = await explain(pool, DEFAULT_ORG, key, zone=timezone(timedelta(hours=9), "KST"))
    assert found.sentence.endswith(f"duly jobs redrive {key}.")
    (finished_at,) = jobs.columns("finished_at")
    assert f"since {finished_at.astimezone(timezone(timedelta(hours=9))):%Y-%m-%d %H:%M:%S} KST" in found.sentence
    assert found.observed_at.utcoffset() == timedelta(0)


def test_durations_are_formatted_with_at_most_two_units() -> None:
    lengths = [0.2, 59.6, 61, 3600, 86_400 + 3600 * 5 + 61, 86_400 * 3 + 61]
    assert [format_duration(each) for each in lengths] == ["0 s", "1 min", "1 min 1 s", "1 h", "1 d 5 h", "3 d 1 min"]


def test_long_lists_of_names_are_shortened() -> None:
    assert format_names(["a"]) == "a"
    assert format_names(["a", "b"]) == "a and b"
    assert format_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
