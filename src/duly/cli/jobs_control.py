"""The commands of `duly jobs` that change jobs: cancel, erase, redrive, and pause queues and types."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated
from uuid import UUID

import typer

from duly.cli.database_call import call_as_owner, call_as_worker
from duly.cli.jobs_common import (
    DEFAULT_ORG_NAME,
    FinishedBefore,
    FinishedFrom,
    JobId,
    OrgName,
    Queue,
    Type,
    actor,
    call_for_org,
    find_org_id,
    print_job,
)
from duly.cli.options import Json
from duly.cli.output import format_value, print_result, print_table, to_json
from duly.cli.progress import count_progress
from duly.cli.times import parse_time
from duly.db.pool import Pool
from duly.jobs import limits, service
from duly.jobs.model import ANY, DEFAULT_ORG, DeadLetterFilter, Job, JobLimit
from duly.lease.work import Tuning

app = typer.Typer()

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation; --json does not ask either.")]


@app.command("cancel")
def cancel_job(
    job: JobId,
    now: Annotated[
        bool, typer.Option("--now", help="Cancel a running job at once; later writes of its worker are refused.")
    ] = False,
    release_key: Annotated[
        bool,
        typer.Option("--release-key", help="Free its key for another request, even if it is canceled already."),
    ] = False,
    org: OrgName = DEFAULT_ORG_NAME,
    as_json: Json = False,
) -> None:
    """Cancel a queued job, or ask the worker of a running one to stop it.

    Example: duly jobs cancel 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --now
    """

    async def cancel(pool: Pool, org_id: UUID) -> Job:
        job_id = await service.resolve_id(pool, org_id, job)
        return await service.cancel_job(pool, org_id, job_id, actor(), now=now, release_key=release_key)

    found = call_for_org(org, cancel)
    print_job(found, "canceled" if found.is_finished else "stopping", as_json)
    if not (as_json or found.is_finished):
        worker = format_value(found.lease_owner).partition("/")[0]
        seconds = Tuning().heartbeat_seconds
        print(f"          {worker} is notified within {seconds:.0f} s; to cancel it at once: --now")


@app.command("erase")
def erase_job(
    job: JobId,
    reason: Annotated[str | None, typer.Option(help="The reason, kept in the audit log.")] = None,
    yes: Yes = False,
    org: OrgName = DEFAULT_ORG_NAME,
    as_json: Json = False,
) -> None:
    """Delete a finished job and its events for good. Needs the login that migrated.

    Example: duly jobs erase 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --reason "request of 31 January"
    """

    async def get(pool: Pool) -> Job:
        org_id = await find_org_id(pool, org)
        return await service.get_job(pool, org_id, await service.resolve_id(pool, org_id, job))

    async def erase(pool: Pool) -> None:
        await service.erase_job(pool, await find_org_id(pool, org), found.id, actor(), reason)

    found = call_as_owner(get)
    if not (yes or as_json) and found.is_finished:
        typer.confirm(
            f"Erase job {found.id} ({format_value(found.type)}, {found.status}) and its {found.revision} events for "
            "good?",
            abort=True,
            err=True,
        )
    call_as_owner(erase)
    print_result({"id": found.id, "erased": True}, as_json, f"erased    {found.id}")


@app.command("redrive")
def redrive_job(job: JobId, org: OrgName = DEFAULT_ORG_NAME, as_json: Json = False) -> None:
    """Put a dead letter back in the queue, with its attempts reset.

    Example: duly jobs redrive 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """

    async def redrive(pool: Pool, org_id: UUID) -> Job:
        return await service.redrive_job(pool, org_id, await service.resolve_id(pool, org_id, job), actor())

    print_job(call_for_org(org, redrive), "redriven", as_json)


@app.command("redrive-many")
def redrive_jobs(
    job_type: Type = None,
    queue: Queue = None,
    code: Annotated[str | None, typer.Option(help="Only with this last error code.")] = None,
    finished_from: FinishedFrom = None,
    finished_before: FinishedBefore = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    yes: Yes = False,
    org: OrgName = DEFAULT_ORG_NAME,
    as_json: Json = False,
) -> None:
    """Put all matching dead letters back in the queue, after printing their number and asking.

    Example: duly jobs redrive-many --type thumbnail --code TIMEOUT --dry-run
    """
    matching = DeadLetterFilter(
        DEFAULT_ORG,
        job_type,
        queue,
        code,
        parse_time("--finished-from", finished_from),
        parse_time("--finished-before", finished_before),
    )

    async def count(pool: Pool, org_id: UUID) -> int:
        return await service.count_dead_letters(pool, replace(matching, org=org_id))

    async def redrive(pool: Pool, org_id: UUID) -> int:
        with count_progress("redriving", matched) as show_progress:
            return await service.redrive_jobs(pool, replace(matching, org=org_id), actor(), show_progress)

    matched = call_for_org(org, count)
    if not as_json:
        print(f"matched   {matched} dead letter{'' if matched == 1 else 's'}", flush=True)
    redriven = 0
    if matched and not dry_run:
        if not (yes or as_json):
            typer.confirm(redrive_question(matched), abort=True, err=True)
        redriven = call_for_org(org, redrive)
        if not as_json:
            print(f"redriven  {redriven}")
    if as_json:
        print(to_json({"matched": matched, "redriven": redriven}))


def redrive_question(matched: int) -> str:
    """Return the question that confirms a redrive."""
    return "Put this job back in the queue?" if matched == 1 else f"Put all {matched:,} jobs back in the queue?"


# Pauses and limits ----------------------------------------------------------------------------------------------------


@app.command("pause")
def pause_jobs(queue: Queue = None, job_type: Type = None, as_json: Json = False) -> None:
    """Stop claiming jobs of a queue, a type, or a type within a queue, for every org; running jobs go on.

    Example: duly jobs pause --queue images
    """
    paused_at = call_as_worker(lambda pool: limits.pause(pool, actor(), queue=queue or ANY, type=job_type or ANY))
    text = f"paused    {describe_pause(queue, job_type)}, since {format_value(paused_at)}"
    print_result({"queue": queue, "type": job_type, "paused_at": paused_at}, as_json, text)


@app.command("limits")
def list_limits(as_json: Json = False) -> None:
    """List pauses, who set them, and the limits on how many jobs of a type run at once.

    Example: duly jobs limits
    """
    found = call_as_worker(limits.list_limits)
    if as_json:
        print(to_json([asdict(each) for each in found]))
        return
    rows = [[each.queue, each.type, each.concurrency, each.paused_at, each.paused_by] for each in found]
    print_table(("queue", "type", "concurrency", "paused_at", "paused_by"), rows)


@app.command("resume")
def resume_jobs(queue: Queue = None, job_type: Type = None, as_json: Json = False) -> None:
    """End a pause: give the queue and type that were paused.

    Example: duly jobs resume --queue images
    """

    async def resume(pool: Pool) -> tuple[bool, Sequence[JobLimit]]:
        is_resumed = await limits.resume(pool, queue=queue or ANY, type=job_type or ANY)
        return is_resumed, [] if is_resumed else await limits.list_limits(pool)

    is_resumed, others = call_as_worker(resume)
    pause = describe_pause(queue, job_type)
    text = f"resumed   {pause}" if is_resumed else f"unchanged {pause} was not paused; {describe_pauses(others)}"
    print_result({"queue": queue, "type": job_type, "resumed": is_resumed}, as_json, text)


def describe_pause(queue: str | None, job_type: str | None) -> str:
    """Describe what a pause applies to."""
    return " and ".join(f"{noun} {name}" for noun, name in (("queue", queue), ("type", job_type)) if name)


def describe_pauses(found: Sequence[JobLimit]) -> str:
    """List everything that is paused, for a user who meant another name."""
    paused = [[None if name == ANY else name for name in (each.queue, each.type)] for each in found if each.paused_at]
    return f"paused: {', '.join(describe_pause(*names) for names in paused)}" if paused else "nothing is"
