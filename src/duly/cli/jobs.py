"""`duly jobs`: enqueue, list and explain jobs; jobs_control.py holds the commands that change them."""

import json
import sys
from dataclasses import asdict, replace
from datetime import UTC
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import typer

from duly.backoff import Backoff, BackoffPolicy
from duly.bounds import MAX_ATTEMPTS, MAX_PRIORITY, MIN_PRIORITY
from duly.canonical_json import MAX_BYTES, Json, checked_json
from duly.cli import jobs_control, options
from duly.cli.database_call import call_as_worker
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
    exit_as_job_ended,
    find_org_id,
    follow,
    print_job,
)
from duly.cli.output import (
    creation_outcome,
    print_explanation,
    print_fields,
    print_page,
    single_line,
    to_json,
)
from duly.cli.timeline import print_timeline
from duly.cli.times import parse_duration, parse_time
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.explain import Explanation
from duly.jobs import service
from duly.jobs.explain import JobReason, explain
from duly.jobs.model import (
    DEFAULT_ORG,
    Job,
    JobEvent,
    JobOptions,
    JobRequest,
    JobStatus,
)
from duly.paging import MAX_ROWS, Page

app = options.new_group("Enqueue, list, explain and control jobs.")
app.add_typer(jobs_control.app)

MAX_INPUT_LENGTH = 8 * MAX_BYTES  # white space and escapes do not count towards a payload, but are bounded too

StatusName = Literal["queued", "running", "succeeded", "failed", "canceled", "dead_letter"]
PolicyName = Literal["none", "fixed", "exp"]
Watch = Annotated[bool, typer.Option("--watch", help="Follow the job to its end; exit 1 unless it succeeds.")]
WatchFor = Annotated[str, typer.Option(metavar="DURATION", help="How long to follow it at most.")]


@app.command("enqueue")
def enqueue_job(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type, which names its handler.")],
    payload: Annotated[
        str,
        typer.Option(metavar="JSON|@FILE|-", help="The payload, a JSON object: inline, from a file, or from stdin."),
    ] = "{}",
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: enqueueing the same job again returns the first.")
    ] = None,
    queue: Annotated[str, typer.Option(help="The queue it waits in.")] = "default",
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Run after this time, say 10s or 1h30m.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Run at this time, say 2030-01-31T08:00Z; without a zone: local time."),
    ] = None,
    priority: Annotated[
        int, typer.Option(min=MIN_PRIORITY, max=MAX_PRIORITY, help="Jobs of higher priority run first.")
    ] = 0,
    max_attempts: Annotated[
        int, typer.Option(min=1, max=MAX_ATTEMPTS, help="Attempts before the job becomes a dead letter.")
    ] = 5,
    backoff: Annotated[PolicyName, typer.Option(help="How the pause between attempts grows.")] = "exp",
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="Time limit of one attempt.")] = None,
    watch: Watch = False,
    watch_for: WatchFor = "1h",
    org: OrgName = DEFAULT_ORG_NAME,
    as_json: options.Json = False,
) -> None:
    """Enqueue a job. With the key and request of an existing job, print that job and `existing`.

    Example: duly jobs enqueue thumbnail --payload '{"image_id": "a1"}' --key order:42 --delay 10s --watch
    """
    if at and delay:
        raise InvalidArgument(f"--at {at} and --delay {delay}: give one of the two")
    request = JobRequest(
        org=DEFAULT_ORG,
        type=job_type,
        payload=parse_payload(payload),
        queue=queue,
        idempotency_key=key,
        run_at=parse_time("--at", at),
        delay_seconds=parse_duration("--delay", delay),
        requested_by=actor(),
        actor=actor(),
        options=JobOptions(
            priority=priority,
            max_attempts=max_attempts,
            backoff=Backoff(BackoffPolicy(backoff)),
            timeout_seconds=parse_duration("--timeout", timeout),
        ),
    )
    seconds = parse_duration("--watch-for", watch_for) if watch else None

    async def enqueue(pool: Pool, org_id: UUID) -> Job:
        creation = await service.enqueue(pool, replace(request, org=org_id))
        outcome = creation_outcome(creation)
        print_job(creation.row, outcome, as_json, outcome=outcome)
        return creation.row if seconds is None else await follow(pool, creation.row, seconds, as_json)

    job = call_for_org(org, enqueue)
    if watch:
        exit_as_job_ended(job, as_json)


@app.command("list")
def list_jobs(
    status: Annotated[StatusName | None, typer.Option(help="Only this status.")] = None,
    job_type: Type = None,
    queue: Queue = None,
    finished_from: FinishedFrom = None,
    finished_before: FinishedBefore = None,
    limit: options.Limit = 20,
    cursor: options.Cursor = None,
    org: OrgName = DEFAULT_ORG_NAME,
    as_json: options.Json = False,
) -> None:
    """List jobs, the newest first.

    Example: duly jobs list --status dead_letter --type thumbnail --finished-from 2030-01-31
    """
    earliest = parse_time("--finished-from", finished_from)
    latest = parse_time("--finished-before", finished_before)
    page = call_for_org(
        org,
        lambda pool, org_id: service.list_jobs(
            pool,
            org_id,
            status=JobStatus(status) if status else None,
            type=job_type,
            queue=queue,
            finished_from=earliest,
            finished_before=latest,
            cursor=cursor,
            limit=limit,
        ),
    )
    columns = ("id", "type", "queue", "status", "starts", "created_at", "finished_at", "last_error")
    print_page(page, columns, as_json, to_row=to_row)


@app.command("show")
def show_job(
    job: JobId,
    watch: Watch = False,
    watch_for: WatchFor = "1h",
    org: OrgName = DEFAULT_ORG_NAME,
    as_json: options.Json = False,
) -> None:
    """Show a job.

    Example: duly jobs show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --watch
    """
    seconds = parse_duration("--watch-for", watch_for) if watch else None

    async def show(pool: Pool, org_id: UUID) -> Job:
        job_id = await service.resolve_id(pool, org_id, job)
        found = await service.get_job(pool, org_id, job_id)
        traceback = await service.find_traceback(pool, org_id, job_id) if found.last_error_code else None
        if as_json:
            print(to_json({**asdict(found), "traceback": traceback}), flush=True)
        else:
            print_fields(to_fields(found))
            print_traceback(traceback)
        return found if seconds is None else await follow(pool, found, seconds, as_json)

    found = call_for_org(org, show)
    if watch:
        exit_as_job_ended(found, as_json)


@app.command("timeline")
def show_timeline(job: JobId, org: OrgName = DEFAULT_ORG_NAME, as_json: options.Json = False) -> None:
    """List the events of a job, in order.

    Example: duly jobs timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """

    async def fetch_page(pool: Pool, cursor: str | None) -> Page[JobEvent]:
        org_id = await find_org_id(pool, org)
        job_id = await service.resolve_id(pool, org_id, job)
        return await service.list_events(pool, org_id, job_id, cursor=cursor, limit=MAX_ROWS)

    print_timeline(fetch_page, as_json)


@app.command("explain")
def explain_job(job: JobId, org: OrgName = DEFAULT_ORG_NAME, as_json: options.Json = False) -> None:
    """Explain in one sentence why a job is not running.

    Example: duly jobs explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    zone = UTC if as_json else None

    async def find_reason(pool: Pool) -> Explanation[JobReason]:
        org_id = await find_org_id(pool, org)
        return await explain(pool, org_id, await service.resolve_id(pool, org_id, job), zone=zone)

    # As a worker: limits and slots count the jobs of every org. Of other orgs the sentence gives numbers only.
    print_explanation(call_as_worker(find_reason), as_json)


# Helpers --------------------------------------------------------------------------------------------------------------


def parse_payload(text: str) -> dict[str, Json]:
    """Parse a payload given inline, as @FILE, or as - for standard input; errors name the option and the position."""
    source = "--payload"
    if text == "-":
        source, text = "--payload -", sys.stdin.read(MAX_INPUT_LENGTH + 1)
    elif text.startswith("@"):
        source, text = f"--payload {text}", read_file(text[1:])
    if len(text) > MAX_INPUT_LENGTH:
        raise InvalidArgument(f"{source}: longer than {MAX_INPUT_LENGTH} characters; a payload has at most {MAX_BYTES}")
    try:
        return checked_json(json.loads(text))
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise InvalidArgument(f"{source}: not JSON at {position}: {error.msg}") from None
    except RecursionError:
        raise InvalidArgument(f"{source}: nested too deeply") from None
    except InvalidArgument as error:
        raise InvalidArgument(f"{source}: {error}") from None


def read_file(name: str) -> str:
    """Read a text file, up to one character more than allowed."""
    try:
        with Path(name).open(encoding="utf-8") as file:
            return file.read(MAX_INPUT_LENGTH + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--payload @{name}: {error}") from None


def to_fields(job: Job) -> dict[str, object]:
    """Convert a job to the fields that `show` prints: the default org by name, all counts of attempts on one line."""
    fields = {**asdict(job), "org_id": DEFAULT_ORG_NAME if job.org_id == DEFAULT_ORG else job.org_id}
    del fields["attempt"], fields["max_attempts"]
    return {**fields, "starts": f"{job.starts} of {job.max_attempts} (attempt {job.attempt}, counted from 0)"}


def to_row(job: Job) -> list[object]:
    """Convert a job to a row of the list."""
    starts = f"{job.starts}/{job.max_attempts}"
    return [job.id, job.type, job.queue, job.status, starts, job.created_at, job.finished_at, job.last_error_code]


def print_traceback(traceback: str | None) -> None:
    """Print the traceback of the last failure, indented."""
    if traceback:
        print("traceback of the last failure:")
        for line in traceback.splitlines():
            indent = len(line) - len(line.lstrip())
            print(f"  {' ' * indent}{single_line(line)}")
