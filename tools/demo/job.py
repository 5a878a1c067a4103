"""A job fails twice and succeeds, and `explain` says why in between."""

from uuid import UUID

from duly.jobs import service
from duly.jobs.explain import explain
from duly.jobs.model import Job, JobEvent, JobStatus
from tools.demo.errands import app, print_invoice
from tools.demo.stage import Stage

ORDER = 42
NAMES_OF_TRIES = ("first", "second")


async def tell_job(stage: Stage) -> None:
    """Ask for a job whose handler fails twice, and follow it to its end."""
    async with stage.pool.transaction() as transaction:
        made = await print_invoice.on(transaction, key=f"order:{ORDER}", requested_by="demo").enqueue(order=ORDER)
    key = made.row
    stage.tell.say(
        f"A program asks for a job inside its own transaction: print_invoice.on(tx).enqueue(order={ORDER}). A worker "
        "takes it at once, but the printer has no paper."
    )
    for number, name in enumerate(NAMES_OF_TRIES, start=1):
        job = await until_failed(stage, key, number)
        stage.tell.say(f"The {name} try has failed. Why does the job not run now? `explain` says:")
        stage.tell.quote((await explain(stage.as_worker, app.org, key, zone=None)).sentence)
        if number == 1:
            stage.tell.command("jobs", "explain", str(key))
        await stage.pass_time(job.run_at, "Ten minutes pass")
    job = await until_done(stage, key)
    stage.tell.say(f"Somebody has brought paper: the third try succeeds, and its result is kept: “{job.result}”.")
    events = await service.list_events(stage.pool, app.org, key)
    stage.tell.say("Nothing of this was lost. The timeline, written by the database itself:")
    stage.tell.quote("\n".join(map(line_of, events.items)))
    stage.tell.command("jobs", "timeline", str(key))


async def until_failed(stage: Stage, key: UUID, starts: int) -> Job:
    """The job, once this start has failed and it waits for the next."""

    async def look() -> Job | None:
        job = await service.get_job(stage.pool, app.org, key)
        return job if job.starts == starts and job.status is JobStatus.QUEUED and job.last_error_code else None

    return await stage.until(f"start {starts} of the job fails and it waits", look, lambda: why(stage, key))


async def until_done(stage: Stage, key: UUID) -> Job:
    """The job, once it has succeeded."""

    async def look() -> Job | None:
        job = await service.get_job(stage.pool, app.org, key)
        return job if job.status is JobStatus.SUCCEEDED else None

    return await stage.until("the third start of the job succeeds", look, lambda: why(stage, key))


async def why(stage: Stage, key: UUID) -> str:
    """Where the job is, and why."""
    found = await explain(stage.as_worker, app.org, key, zone=None)
    return f"the job {key} is {found.status}. {found.sentence}"


def line_of(event: JobEvent) -> str:
    """A line of the timeline."""
    detail = event.detail_json or {}
    about = detail.get("message") or detail.get("reason") or ""
    return f"{event.seq:2}  {event.ts.astimezone():%Y-%m-%d %H:%M:%S}  {event.next_status:10} {about}".rstrip()
