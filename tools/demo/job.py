"""A job fails twice and then succeeds; `explain` states the reason in between."""

from uuid import UUID

from duly.jobs import service
from duly.jobs.explain import explain
from duly.jobs.model import Job, JobEvent, JobStatus
from tools.demo.demo_jobs import app, print_invoice
from tools.demo.stage import Stage

ORDER = 42
ATTEMPT_NAMES = ("first", "second")


async def run_job_chapter(stage: Stage) -> None:
    """Enqueue a job whose handler fails twice, and follow it until it succeeds."""
    async with stage.pool.transaction() as transaction:
        made = await print_invoice.on(transaction, key=f"order:{ORDER}", requested_by="demo").enqueue(order=ORDER)
    key = made.row
    stage.narrator.say(
        f"A program enqueues a job inside its own transaction: print_invoice.on(tx).enqueue(order={ORDER}). A worker "
        "claims it at once, but the printer has no paper."
    )
    for number, name in enumerate(ATTEMPT_NAMES, start=1):
        job = await until_failed(stage, key, number)
        stage.narrator.say(f"The {name} attempt has failed. Why does the job not run now? `explain` says:")
        stage.narrator.quote((await explain(stage.as_worker, app.org, key, zone=None)).sentence)
        if number == 1:
            stage.narrator.command("jobs", "explain", str(key))
        await stage.pass_time(job.run_at, "Ten minutes pass")
    job = await until_done(stage, key)
    stage.narrator.say(f"The printer has paper again: the third attempt succeeds. Its result: “{job.result}”.")
    events = await service.list_events(stage.pool, app.org, key)
    stage.narrator.say("Every step was logged. The timeline, written by the database itself:")
    stage.narrator.quote("\n".join(map(format_event, events.items)))
    stage.narrator.command("jobs", "timeline", str(key))


async def until_failed(stage: Stage, key: UUID, starts: int) -> Job:
    """Return the job once this start has failed and it waits for the next."""

    async def fetch() -> Job | None:
        job = await service.get_job(stage.pool, app.org, key)
        return job if job.starts == starts and job.status is JobStatus.QUEUED and job.last_error_code else None

    return await stage.until(f"start {starts} of the job fails and it waits", fetch, lambda: describe(stage, key))


async def until_done(stage: Stage, key: UUID) -> Job:
    """Return the job once it has succeeded."""

    async def fetch() -> Job | None:
        job = await service.get_job(stage.pool, app.org, key)
        return job if job.status is JobStatus.SUCCEEDED else None

    return await stage.until("the third start of the job succeeds", fetch, lambda: describe(stage, key))


async def describe(stage: Stage, key: UUID) -> str:
    """Describe the state of the job and the reason for it."""
    found = await explain(stage.as_worker, app.org, key, zone=None)
    return f"the job {key} is {found.status}. {found.sentence}"


def format_event(event: JobEvent) -> str:
    """Format a line of the timeline."""
    detail = event.detail_json or {}
    about = detail.get("message") or detail.get("reason") or ""
    return f"{event.seq:2}  {event.ts.astimezone():%Y-%m-%d %H:%M:%S}  {event.next_status:10} {about}".rstrip()
