"""The SDK: the same outcomes on every kind of connection, inside the caller's transaction."""

from typing import Any

from psycopg.conninfo import make_conninfo

from duly.jobs.work import Context, JobWork
from duly.lease.work import Tuning
from duly.outcomes import Later
from duly.settings import Settings
from duly.worker.runner import Worker
from tests.fast.jobs.test_sdk import Admin, EnqueueVariant, app, enqueuer, thumbnail

__all__ = ["enqueuer"]


@app.job("stumble", backoff="none", max_attempts=3)
async def stumble(ctx: Context, until: int) -> str:
    """Fail until the last attempt."""
    if ctx.attempt < until:
        raise ValueError(f"attempt {ctx.attempt}")
    return "stood up"


@app.job("snooze")
def snooze(ctx: Context) -> Later | str:
    """A sync handler that returns Later."""
    return Later(3600)


@app.job("alone", isolate=True, max_attempts=1)
def alone(ctx: Context, word: str) -> str:
    """In a child process."""
    return f"{word} {ctx.type}"


async def test_a_worker_runs_enqueued_jobs_and_the_ledger_records_their_outcomes(
    admin: Admin, enqueuer: EnqueueVariant
) -> None:
    await enqueuer.ask(thumbnail, image_id="a1")
    await enqueuer.ask(stumble, until=2)
    await enqueuer.ask(stumble, until=9)
    await enqueuer.ask(snooze)
    await enqueuer.ask(alone, word="all")
    work = JobWork(app.handlers(), Tuning(lease_seconds=30, heartbeat_seconds=5, poll_seconds=0.1, sweep_seconds=1))
    worker_dsn = make_conninfo(admin.info.dsn, user="duly_worker")
    seen: list[tuple[Any, ...]] = []
    for _ in range(3):  # one cycle for each time that the stumbling ones are tried
        await Worker([work], Settings(), dsn=worker_dsn).run(once=True)
        seen = admin.execute(
            "select type, status::text, starts, snoozes, result, last_error_code from ledger.job order by id"
        ).fetchall()
    assert seen == [
        ("thumbnail", "succeeded", 1, 0, {"image": "a1", "size": 256, "attempt": 0}, None),
        ("stumble", "succeeded", 3, 0, "stood up", seen[1][5]),
        ("stumble", "dead_letter", 3, 0, None, "VALUE_ERROR"),
        ("snooze", "queued", 0, 1, None, None),
        ("alone", "succeeded", 1, 0, "all alone", None),
    ]
