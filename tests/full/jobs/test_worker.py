"""Jobs in a running worker: every outcome of a handler is recorded, and other jobs are not affected."""

import json

import pytest
from psycopg.types.json import Jsonb

from duly.lease.work import Tuning
from tests.fast.jobs.test_worker import all_finished, job_work
from tests.support.actions import working
from tests.support.jobs.actions import ORG, JobActions
from tests.support.processes import PYTHON, Program, plain_environment

WORKER = (*PYTHON, "-m", "duly", "worker", "--app", "tests.support.shop:app")


async def test_jobs_whose_child_process_dies_become_dead_letters_and_affect_no_other(
    jobs: JobActions, dsn: str
) -> None:
    endings = ["exit", "abort", "memory", "loop"]
    for how in endings:
        jobs.enqueue("alone", payload={"how": how}, max_attempts=2, backoff_policy="none")
    jobs.enqueue("alone", payload={"how": "well"})
    jobs.enqueue("greet", rows=20)
    async with working(dsn, job_work()):
        await jobs.until(lambda: all_finished(jobs))
    rows = jobs.columns("type", "status", "starts", "last_error_code")
    assert rows[:4] == [
        ("alone", "dead_letter", 2, "CRASHED"),
        ("alone", "dead_letter", 2, "CRASHED"),
        ("alone", "dead_letter", 2, rows[2][3]),
        ("alone", "dead_letter", 2, "TIMEOUT"),
    ]
    assert rows[2][3] == "CRASHED"  # refused the memory
    assert rows[4:] == [("alone", "succeeded", 1, None), *[("greet", "succeeded", 1, None)] * 20]
    jobs.verify()


async def test_a_burst_of_jobs_behind_a_claim_floor_is_performed_completely(jobs: JobActions, dsn: str) -> None:
    payloads = [Jsonb({"name": "a"})] * 500
    jobs.admin.execute("select count(*) from ledger.enqueue_many(%s, 'order', %s)", [ORG, payloads])
    tuning = Tuning(poll_seconds=0.1, slots=20, batch=20)
    query = "select count(*) from ledger.job where type = 'order' and finished_at is null"
    async with working(dsn, job_work(tuning)):
        await jobs.until(lambda: jobs.admin.execute(query).fetchone() == (0,))
    jobs.verify()


# As a process ---------------------------------------------------------------------------------------------------------


def environment(database: str, **more: str) -> dict[str, str]:
    return plain_environment(DATABASE_URL=database, DULY_LOG_FORMAT="json", **more)


def test_a_worker_with_an_app_performs_its_jobs(jobs: JobActions) -> None:
    jobs.enqueue("greet", payload={"name": "anna"})
    jobs.enqueue("alone", payload={"how": "well"})
    command = (*WORKER, "--once", "--json")
    with Program(command, environment=environment(jobs.admin.info.dsn, DULY_LOG_LEVEL="error")) as worker:
        assert json.loads(worker.line()) == {"rows": 2}
        assert worker.finish() == 0
    assert jobs.columns("result") == ["hello anna", "alone well"]


def test_the_job_of_a_killed_worker_is_queued_again_as_crashed(jobs: JobActions) -> None:
    (job,) = jobs.enqueue("patient", backoff_policy="none")
    with Program(WORKER, environment=environment(jobs.admin.info.dsn)) as worker:
        jobs.wait_until(lambda: jobs.columns("stage") == ["waiting"])
        worker.kill()
    jobs.advance_clock(61)
    command = (*PYTHON, "-m", "duly", "worker", "--once")  # without handlers it sweeps all the same
    with Program(command, environment=environment(jobs.admin.info.dsn)) as sweeper:
        assert sweeper.finish() == 0
    assert jobs.path(job) == ["queued", "running", "running", "failed", "queued"]
    assert jobs.columns("last_error_code") == ["CRASHED"]
    jobs.verify()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shop", "module:variable"),
        ("no.such.shop:app", "there is no module 'no'"),
        ("tests.support.shop:shop", "has no 'shop'"),
        ("tests.support.shop:Oops", "not a duly.App"),
    ],
)
def test_the_worker_command_refuses_an_app_that_cannot_be_imported(database: str, name: str, message: str) -> None:
    with Program((*WORKER[:-1], name), environment=environment(database)) as worker:
        assert worker.finish() == 2
        assert message in worker.stderr_text()
