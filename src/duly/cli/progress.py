"""Progress of a running command: a bar on a terminal, lines elsewhere, JSON lines for programs."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from duly.cli.output import single_line, to_json
from duly.jobs.model import Job, JobStatus

COMPLETE_PERCENT = 100
STATUS_WIDTH = max(map(len, JobStatus))


@contextmanager
def job_progress(job: Job, as_json: bool) -> Generator[Callable[[Job], None], None, None]:
    """Yield a function that prints a change of a job; the job as it is now has been printed already."""
    if as_json:
        yield lambda job: print(to_json(asdict(job)), flush=True)
    elif not sys.stderr.isatty():
        yield lambda job: print(f"{job.status:{STATUS_WIDTH}} {job.id}  {describe_stage(job)}".rstrip(), flush=True)
    else:
        description = TextColumn("{task.description}", markup=False)
        columns = (description, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            bar = bars.add_task("", total=COMPLETE_PERCENT)

            def update(job: Job) -> None:
                text = f"{job.status} {single_line(job.stage or '')}".rstrip()
                bars.update(bar, description=text, completed=COMPLETE_PERCENT if job.is_finished else job.progress or 0)

            update(job)
            yield update


@contextmanager
def count_progress(description: str, total: int) -> Generator[Callable[[int], None], None, None]:
    """Yield a function that shows how many are done; silent unless standard error is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        bar = bars.add_task(description, total=total)
        yield lambda done: bars.update(bar, completed=done)


@contextmanager
def step_progress(total: int) -> Generator[Callable[[int, str], None], None, None]:
    """Yield a function that shows how many steps are done and the current one; silent unless on a terminal."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        bar = bars.add_task("", total=total)
        # refreshed at once, so that a short step is seen too
        yield lambda done, step: bars.update(bar, completed=done, description=step, refresh=True)


def describe_stage(job: Job) -> str:
    """Describe a job's progress and stage; after a failure, the error and which start it was."""
    if job.last_error_code and job.status not in (JobStatus.RUNNING, JobStatus.SUCCEEDED):
        error = single_line(f"{job.last_error_code}: {job.last_error_message or ''}")
        return f"start {job.starts} of {job.max_attempts} failed: {error}"
    if job.is_finished:
        return ""
    progress = f"{job.progress} %" if job.progress is not None else ""
    return f"{progress}  {single_line(job.stage or '')}".strip()
