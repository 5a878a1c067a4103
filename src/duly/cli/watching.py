"""What goes on while somebody watches: a bar on a terminal, lines elsewhere, JSON lines for programs."""

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

from duly.cli.shown import on_one_line, to_json
from duly.jobs.model import Job, Status

__all__ = ["counter", "teller", "watcher"]

WHOLE = 100  # progress is told in hundredths
STATUS_WIDTH = max(map(len, Status))


@contextmanager
def watcher(job: Job, as_json: bool) -> Generator[Callable[[Job], None], None, None]:
    """Gives what is to be told of every change of a job, which has been shown as it is now."""
    if as_json:
        yield lambda job: print(to_json(asdict(job)), flush=True)
    elif not sys.stderr.isatty():
        yield lambda job: print(f"{job.status:{STATUS_WIDTH}} {job.id}  {stage_of(job)}".rstrip(), flush=True)
    else:
        words = TextColumn("{task.description}", markup=False)
        columns = (words, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            bar = bars.add_task("", total=WHOLE)

            def move(job: Job) -> None:
                told = f"{job.status} {on_one_line(job.stage or '')}".rstrip()
                bars.update(bar, description=told, completed=WHOLE if job.is_finished else job.progress or 0)

            move(job)
            yield move


@contextmanager
def counter(words: str, total: int) -> Generator[Callable[[int], None], None, None]:
    """Gives what is to be told of how many are done; silent where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        bar = bars.add_task(words, total=total)
        yield lambda done: bars.update(bar, completed=done)


@contextmanager
def teller(total: int) -> Generator[Callable[[int, str], None], None, None]:
    """Gives what is to be told of how many are done and what comes now; silent where nobody watches."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        bar = bars.add_task("", total=total)
        yield lambda done, words: bars.update(bar, completed=done, description=words, refresh=True)  # however short


def stage_of(job: Job) -> str:
    """How far it is, in a few words; of one that failed, what was wrong and how often it was started."""
    if job.last_error_code and job.status not in (Status.RUNNING, Status.SUCCEEDED):
        detail = on_one_line(f"{job.last_error_code}: {job.last_error_message or ''}")
        return f"start {job.starts} of {job.max_attempts} failed: {detail}"
    if job.is_finished:
        return ""
    progress = f"{job.progress} %" if job.progress is not None else ""
    return f"{progress}  {on_one_line(job.stage or '')}".strip()
