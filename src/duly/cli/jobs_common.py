"""What the commands of `duly jobs` share: the org, the actor, a job on one line, and following a job to its end."""

import asyncio
import getpass
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, TypeVar
from uuid import UUID

import typer

from duly.accounts.service import get_org
from duly.bounds import MAX_ACTOR_LENGTH
from duly.cli.database_call import call_as_api
from duly.cli.options import id_argument
from duly.cli.output import format_value, single_line, to_json
from duly.cli.progress import job_progress
from duly.db.id_prefix import IdPrefix
from duly.db.pool import Pool
from duly.formatting import rewrite_commands
from duly.jobs import service
from duly.jobs.model import DEFAULT_ORG, Job, JobStatus

DEFAULT_ORG_NAME = "default"
FIRST_POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0
DID_NOT_SUCCEED = 1

JobId = Annotated[IdPrefix, id_argument("job")]
OrgName = Annotated[str, typer.Option(metavar="NAME|ID", help="The org that owns the jobs.")]
Queue = Annotated[str | None, typer.Option(help="Only this queue.")]
Type = Annotated[str | None, typer.Option("--type", help="Only this job type.")]
FinishedFrom = Annotated[
    str | None, typer.Option(metavar="TIME", help="Finished at this time or later; without a zone: local time.")
]
FinishedBefore = Annotated[str | None, typer.Option(metavar="TIME", help="Finished before this time.")]
Result = TypeVar("Result")


def call_for_org(org: str, function: Callable[[Pool, UUID], Awaitable[Result]]) -> Result:
    """Call a function about an org's jobs, with the rights of the HTTP API."""

    async def call(pool: Pool) -> Result:
        return await function(pool, await find_org_id(pool, org))

    return call_as_api(call)


async def find_org_id(pool: Pool, org: str) -> UUID:
    """Return the id of the org with this name or id, or raise NotFound; `default` always exists."""
    if org in (DEFAULT_ORG_NAME, str(DEFAULT_ORG)):
        return DEFAULT_ORG
    async with pool.transaction() as connection:
        return (await get_org(connection, org)).id


def actor() -> str:
    """Return the login that runs this command, as events record it."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as containers have them
        name = str(os.getuid())
    return f"cli:{name}"[:MAX_ACTOR_LENGTH]


def print_job(job: Job, label: str, as_json: bool, **fields: object) -> None:
    """Print what happened to a job, on one line; as JSON, the job and further fields."""
    print(to_json({**fields, **asdict(job)}) if as_json else f"{label:9} {format_job(job)}", flush=True)


def format_job(job: Job) -> str:
    """Format a job on one line."""
    parts = [f"{job.id}  {format_value(job.type)}  {job.status}"]
    if job.status is JobStatus.QUEUED and job.run_at > job.updated_at:
        parts.append(f"due {format_value(job.run_at)}")
    if job.last_error_code and job.status is not JobStatus.SUCCEEDED:
        parts.append(f"{format_value(job.last_error_code)}: {single_line(job.last_error_message or '')}")
    return "  ".join(parts)


# Following a job ------------------------------------------------------------------------------------------------------


async def follow(pool: Pool, job: Job, seconds: float, as_json: bool) -> Job:
    """Poll a job until it is finished or the time is over, and print every change; return it as it is then."""
    deadline, pause = time.monotonic() + seconds, FIRST_POLL_SECONDS
    with job_progress(job, as_json) as print_change:
        while not job.is_finished and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            current = await service.get_job(pool, job.org_id, job.id)
            has_changed = visible_state(current) != visible_state(job)
            pause = FIRST_POLL_SECONDS if has_changed else min(2 * pause, MAX_POLL_SECONDS)
            if has_changed:
                print_change(current)
            job = current
    return job


def visible_state(job: Job) -> tuple[object, ...]:
    """Return what is printed again when it changes; progress changes more often than the revision."""
    return job.revision, job.stage, job.progress


def exit_as_job_ended(job: Job, as_json: bool) -> None:
    """Print how a job that was followed ended; exit 1 unless it succeeded."""
    if not as_json:
        print(f"{'ended' if job.is_finished else 'left':9} {format_job(job)}")
        if job.status is JobStatus.SUCCEEDED and job.result is not None:
            print(f"result    {to_json(job.result)}")
        if not job.is_finished:
            print(rewrite_commands(f"duly: the job has not ended; why: duly jobs explain {job.id}"), file=sys.stderr)
    if job.status is not JobStatus.SUCCEEDED:
        sys.exit(DID_NOT_SUCCEED)
