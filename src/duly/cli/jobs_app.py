"""What `duly jobs` offers."""

from typing import Annotated, Any, Literal

import typer

from duly.cli.ids import id_argument

__all__ = ["jobs_app"]

jobs_app = typer.Typer(help="Jobs: ask for them, look at them, steer them.", no_args_is_help=True)

StatusName = Literal["queued", "running", "succeeded", "failed", "canceled", "dead_letter"]
PolicyName = Literal["none", "fixed", "exp"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Org = Annotated[str, typer.Option(metavar="NAME|ID", help="Whose jobs.")]
Id = Annotated[Any, id_argument("job")]
Queue = Annotated[str | None, typer.Option(help="Only this queue.")]
Type = Annotated[str | None, typer.Option("--type", help="Only this type.")]
Watch = Annotated[bool, typer.Option("--watch", help="Follow it to its end; exit 0 when it succeeded, else 1.")]
WatchFor = Annotated[str, typer.Option(metavar="DURATION", help="How long to follow it at most.")]
FinishedFrom = Annotated[
    str | None, typer.Option(metavar="TIME", help="Finished then or later; without a zone, the local one.")
]
FinishedBefore = Annotated[str | None, typer.Option(metavar="TIME", help="Finished earlier than that.")]


@jobs_app.command("enqueue")
def jobs_enqueue(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="What is to be done.")],
    payload: Annotated[
        str, typer.Option(metavar="JSON|@FILE|-", help="Its arguments, a JSON object: here, in a file, or as input.")
    ] = "{}",
    key: Annotated[str | None, typer.Option(help="The same key and request make one job.")] = None,
    queue: Annotated[str, typer.Option(help="Where it waits.")] = "default",
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Due after this, say 10s or 1h30m.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Due then, say 2030-01-31T08:00Z; without a zone, the local one.")
    ] = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first.")] = 0,
    max_attempts: Annotated[int, typer.Option(min=1, max=1000, help="So many starts, then a dead letter.")] = 5,
    backoff: Annotated[PolicyName, typer.Option(help="How long to wait after a failure.")] = "exp",
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="How long one start may take.")] = None,
    watch: Watch = False,
    watch_for: WatchFor = "1h",
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Ask for a job; the same key and request again is no error, and says `existing`.

    Example: duly jobs enqueue thumbnail --payload '{"image_id": "a1"}' --key order:42 --delay 10s --watch
    """
    from duly.cli.jobs import Wish, enqueue_job

    wish = Wish(job_type, payload, key, queue, delay, at, priority, max_attempts, backoff, timeout)
    enqueue_job(wish, org, watch_for if watch else None, as_json)


@jobs_app.command("list")
def jobs_list(
    status: Annotated[StatusName | None, typer.Option(help="Only of this status.")] = None,
    job_type: Type = None,
    queue: Queue = None,
    finished_from: FinishedFrom = None,
    finished_before: FinishedBefore = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")] = 20,
    place: Annotated[str | None, typer.Option(help="Go on here: what the page before gave as next.")] = None,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Show jobs, the newest first.

    Example: duly jobs list --status dead_letter --type thumbnail --finished-from 2030-01-31
    """
    from duly.cli.jobs import list_jobs

    list_jobs(org, status, job_type, queue, finished_from, finished_before, limit, place, as_json)


@jobs_app.command("show")
def jobs_show(
    job: Id, watch: Watch = False, watch_for: WatchFor = "1h", org: Org = "default", as_json: Json = False
) -> None:
    """Show a job.

    Example: duly jobs show 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --watch
    """
    from duly.cli.jobs import show_job

    show_job(job, org, watch_for if watch else None, as_json)


@jobs_app.command("timeline")
def jobs_timeline(job: Id, org: Org = "default", as_json: Json = False) -> None:
    """Show what happened to a job, in order.

    Example: duly jobs timeline 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.jobs import show_timeline

    show_timeline(job, org, as_json)


@jobs_app.command("explain")
def jobs_explain(job: Id, org: Org = "default", as_json: Json = False) -> None:
    """Say in one sentence why a job is not running.

    Example: duly jobs explain 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.jobs import explain_job

    explain_job(job, org, as_json)


@jobs_app.command("cancel")
def jobs_cancel(
    job: Id,
    now: Annotated[bool, typer.Option("--now", help="Cancel at once; its worker's later writes are refused.")] = False,
    release_key: Annotated[
        bool,
        typer.Option("--release-key", help="Free its key for another request; of a job that is canceled already, too."),
    ] = False,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Cancel a waiting job, or ask a running one to stop.

    Example: duly jobs cancel 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --now
    """
    from duly.cli.jobs import cancel_job

    cancel_job(job, org, now, release_key, as_json)


@jobs_app.command("erase")
def jobs_erase(
    job: Id,
    reason: Annotated[str | None, typer.Option(help="Why; kept with the line that says who erased it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; --json does not ask either.")] = False,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Remove a finished job and its events for good; run it with the login that migrated.

    Example: duly jobs erase 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77 --reason "request of 31 January"
    """
    from duly.cli.jobs import erase_job

    erase_job(job, org, reason, yes, as_json)


@jobs_app.command("retry")
def jobs_retry(job: Id, org: Org = "default", as_json: Json = False) -> None:
    """Put a dead letter back in the queue, as though it were new.

    Example: duly jobs retry 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77
    """
    from duly.cli.jobs import retry_job

    retry_job(job, org, as_json)


@jobs_app.command("redrive")
def jobs_redrive(
    job_type: Type = None,
    queue: Queue = None,
    code: Annotated[str | None, typer.Option(help="Only with this last error.")] = None,
    finished_from: FinishedFrom = None,
    finished_before: FinishedBefore = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; --json does not ask either.")] = False,
    org: Org = "default",
    as_json: Json = False,
) -> None:
    """Put every dead letter that matches back in the queue; first says how many there are, and asks.

    Example: duly jobs redrive --type thumbnail --code TIMEOUT --dry-run
    """
    from duly.cli.jobs import redrive_jobs

    redrive_jobs(org, job_type, queue, code, finished_from, finished_before, dry_run, yes, as_json)


@jobs_app.command("pause")
def jobs_pause(queue: Queue = None, job_type: Type = None, as_json: Json = False) -> None:
    """Let a queue, a type, or a type within a queue rest, for every org; what runs, runs on.

    Example: duly jobs pause --queue images
    """
    from duly.cli.jobs import pause_jobs

    pause_jobs(queue, job_type, as_json)


@jobs_app.command("limits")
def jobs_limits(as_json: Json = False) -> None:
    """Show what is paused, by whom, and how many of a type may run at once.

    Example: duly jobs limits
    """
    from duly.cli.jobs import list_limits

    list_limits(as_json)


@jobs_app.command("resume")
def jobs_resume(queue: Queue = None, job_type: Type = None, as_json: Json = False) -> None:
    """End a pause: name what was paused.

    Example: duly jobs resume --queue images
    """
    from duly.cli.jobs import resume_jobs

    resume_jobs(queue, job_type, as_json)
