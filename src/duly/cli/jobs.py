"""`duly jobs`: ask for jobs, look at them, say why one is not running, steer them."""

import asyncio
import getpass
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import typer

from duly.accounts.service import get_org
from duly.backoff import Backoff, BackoffPolicy
from duly.canonical_json import MAX_BYTES, Json, checked_json
from duly.cli.asking import as_api, as_owner, as_worker
from duly.cli.shown import (
    on_one_line,
    outcome_of,
    print_table,
    tell_explanation,
    tell_fields,
    tell_page,
    text_of,
    to_json,
)
from duly.cli.timeline import tell_timeline
from duly.cli.watching import counter, watcher
from duly.db.id_prefix import IdPrefix
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.explain import Explanation
from duly.formatting import as_called
from duly.jobs import service
from duly.jobs.duration import seconds_of
from duly.jobs.explain import Reason, explain
from duly.jobs.model import ANY, DEFAULT_ORG, DeadLetters, Job, JobEvent, Limit, Options, Request, Status
from duly.lease.work import Tuning
from duly.paging import MAX_ROWS, Page

__all__ = [
    "Wish",
    "cancel_job",
    "enqueue_job",
    "erase_job",
    "explain_job",
    "list_jobs",
    "list_limits",
    "pause_jobs",
    "redrive_jobs",
    "resume_jobs",
    "retry_job",
    "show_job",
    "show_timeline",
]

DEFAULT = "default"  # the org of whoever has no tenants
MAX_ACTOR_LENGTH = 255
MAX_INPUT_LENGTH = 8 * MAX_BYTES  # blanks and escapes do not count, but we do not read for ever
FIRST_REST_SECONDS = 0.05
MAX_REST_SECONDS = 1.0
DID_NOT_SUCCEED = 1

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Wish:
    """A job as it was typed."""

    type: str
    payload: str
    key: str | None
    queue: str
    delay: str | None
    at: str | None
    priority: int
    max_attempts: int
    backoff: str
    timeout: str | None

    def request(self) -> Request:
        """What was meant, or a refusal that names the option; the org is not known yet."""
        if self.at and self.delay:
            raise InvalidArgument(f"--at {self.at} and --delay {self.delay}: a job is due at a time or after a delay")
        return Request(
            org=DEFAULT_ORG,
            type=self.type,
            payload=payload_of(self.payload),
            queue=self.queue,
            key=self.key,
            run_at=time_of("--at", self.at),
            delay_seconds=duration_of("--delay", self.delay),
            requested_by=actor(),
            options=Options(
                priority=self.priority,
                max_attempts=self.max_attempts,
                backoff=Backoff(BackoffPolicy(self.backoff)),
                timeout_seconds=duration_of("--timeout", self.timeout),
            ),
        )


# Asking ---------------------------------------------------------------------------------------------------------------


def enqueue_job(wish: Wish, org: str, watch_for: str | None, as_json: bool) -> None:
    """Ask for a job, and follow it if wanted."""
    request, seconds = wish.request(), duration_of("--watch-for", watch_for)

    async def question(pool: Pool, org_id: UUID) -> Job:
        made = await service.enqueue(pool, replace(request, org=org_id))
        outcome = outcome_of(made)
        tell(made.row, outcome, as_json, outcome=outcome)
        return made.row if seconds is None else await follow(pool, made.row, seconds, as_json)

    job = ask(org, question)
    if seconds is not None:
        end_like(job, as_json)


# Looking --------------------------------------------------------------------------------------------------------------


def list_jobs(
    org: str,
    status: str | None,
    job_type: str | None,
    queue: str | None,
    finished_from: str | None,
    finished_before: str | None,
    limit: int,
    place: str | None,
    as_json: bool,
) -> None:
    """Show a page of jobs, and where the next begins."""
    earliest = time_of("--finished-from", finished_from)
    latest = time_of("--finished-before", finished_before)
    page = ask(
        org,
        lambda pool, org_id: service.list_jobs(
            pool,
            org_id,
            status=Status(status) if status else None,
            type=job_type,
            queue=queue,
            finished_from=earliest,
            finished_before=latest,
            place=place,
            limit=limit,
        ),
    )
    columns = ("id", "type", "queue", "status", "starts", "created_at", "finished_at", "last_error")
    tell_page(page, columns, as_json, row=row_of)


def show_job(given: IdPrefix, org: str, watch_for: str | None, as_json: bool) -> None:
    """Show a job, and follow it if wanted."""
    seconds = duration_of("--watch-for", watch_for)

    async def question(pool: Pool, org_id: UUID) -> Job:
        key = await service.resolve_id(pool, org_id, given)
        job = await service.get_job(pool, org_id, key)
        trace = await service.find_traceback(pool, org_id, key) if job.last_error_code else None
        if as_json:
            print(to_json({**asdict(job), "traceback": trace}), flush=True)
        else:
            tell_fields(fields_of(job))
            tell_traceback(trace)
        return job if seconds is None else await follow(pool, job, seconds, as_json)

    job = ask(org, question)
    if seconds is not None:
        end_like(job, as_json)


def tell_traceback(trace: str | None) -> None:
    """Where the last try failed, in lines of its own."""
    if trace:
        print("traceback of the last failure:")
        for line in trace.splitlines():
            indent = len(line) - len(line.lstrip())
            print(f"  {' ' * indent}{on_one_line(line)}")


def show_timeline(given: IdPrefix, org: str, as_json: bool) -> None:
    """Show everything that happened to a job."""

    async def read(pool: Pool, place: str | None) -> Page[JobEvent]:
        org_id = await org_of(pool, org)
        key = await service.resolve_id(pool, org_id, given)
        return await service.list_events(pool, org_id, key, place=place, limit=MAX_ROWS)

    tell_timeline(read, as_json)


def explain_job(given: IdPrefix, org: str, as_json: bool) -> None:
    """Say why a job is not running.

    As a worker: limits, slots and the order of jobs know no orgs, and only workers see the jobs of every org. Of these
    the sentence tells numbers, nothing else.
    """
    zone = UTC if as_json else None

    async def question(pool: Pool) -> Explanation[Reason]:
        org_id = await org_of(pool, org)
        return await explain(pool, org_id, await service.resolve_id(pool, org_id, given), zone=zone)

    tell_explanation(as_worker(question), as_json)


# Steering -------------------------------------------------------------------------------------------------------------


def cancel_job(given: IdPrefix, org: str, now: bool, release_key: bool, as_json: bool) -> None:
    """Cancel a job, or ask it to stop."""

    async def question(pool: Pool, org_id: UUID) -> Job:
        key = await service.resolve_id(pool, org_id, given)
        return await service.cancel(pool, org_id, key, actor(), now=now, release_key=release_key)

    job = ask(org, question)
    tell(job, "canceled" if job.is_finished else "asked", as_json)
    if not (as_json or job.is_finished):
        owner = text_of(job.lease_owner).partition("/")[0]
        seconds = Tuning().heartbeat_seconds
        print(f"          {owner} is told within {seconds:.0f} s; to stop it at once: --now")


def erase_job(given: IdPrefix, org: str, reason: str | None, yes: bool, as_json: bool) -> None:
    """Remove a finished job and its log for good, after asking."""

    async def look(pool: Pool) -> Job:
        org_id = await org_of(pool, org)
        return await service.get_job(pool, org_id, await service.resolve_id(pool, org_id, given))

    async def erase(pool: Pool) -> None:
        await service.erase(pool, await org_of(pool, org), job.id, actor(), reason)

    job = as_owner(look)
    if not (yes or as_json) and job.is_finished:
        typer.confirm(
            f"Erase job {job.id} ({text_of(job.type)}, {job.status}) and its {job.revision} events for good?",
            abort=True,
            err=True,
        )
    as_owner(erase)
    print(to_json({"id": job.id, "erased": True}) if as_json else f"erased    {job.id}")


def retry_job(given: IdPrefix, org: str, as_json: bool) -> None:
    """Put a dead letter back in the queue."""

    async def question(pool: Pool, org_id: UUID) -> Job:
        return await service.retry(pool, org_id, await service.resolve_id(pool, org_id, given), actor())

    tell(ask(org, question), "retried", as_json)


def redrive_jobs(
    org: str,
    job_type: str | None,
    queue: str | None,
    code: str | None,
    finished_from: str | None,
    finished_before: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Let all dead letters that match wait again, after saying how many there are."""
    which = DeadLetters(
        DEFAULT_ORG,
        job_type,
        queue,
        code,
        time_of("--finished-from", finished_from),
        time_of("--finished-before", finished_before),
    )

    async def count(pool: Pool, org_id: UUID) -> int:
        return await service.count_dead(pool, replace(which, org=org_id))

    async def redrive(pool: Pool, org_id: UUID) -> int:
        with counter("redriving", matched) as tell_progress:
            return await service.redrive(pool, replace(which, org=org_id), actor(), tell_progress)

    matched = ask(org, count)
    if not as_json:
        print(f"matched   {matched} dead letter{'' if matched == 1 else 's'}", flush=True)
    taken = 0
    if matched and not dry_run:
        if not (yes or as_json):
            typer.confirm(question_about(matched), abort=True, err=True)
        taken = ask(org, redrive)
        if not as_json:
            print(f"redriven  {taken}")
    if as_json:
        print(to_json({"matched": matched, "redriven": taken}))


def question_about(matched: int) -> str:
    """What is asked before so many dead letters are put back."""
    return "Put this job back in the queue?" if matched == 1 else f"Put all {matched:,} jobs back in the queue?"


def pause_jobs(queue: str | None, job_type: str | None, as_json: bool) -> None:
    """Let a queue, a type, or a type within a queue rest."""
    since = as_worker(lambda pool: service.pause(pool, actor(), queue=queue or ANY, type=job_type or ANY))
    if as_json:
        print(to_json({"queue": queue, "type": job_type, "paused_at": since}))
    else:
        print(f"paused    {words_of(queue, job_type)}, since {text_of(since)}")


def list_limits(as_json: bool) -> None:
    """Show every pause and limit."""
    limits = as_worker(service.list_limits)
    if as_json:
        print(to_json([asdict(each) for each in limits]))
        return
    columns = ("queue", "type", "most", "paused_at", "paused_by")
    print_table(columns, [[getattr(each, column) for column in columns] for each in limits])


def resume_jobs(queue: str | None, job_type: str | None, as_json: bool) -> None:
    """End a pause."""

    async def question(pool: Pool) -> tuple[bool, Sequence[Limit]]:
        is_resumed = await service.resume(pool, queue=queue or ANY, type=job_type or ANY)
        return is_resumed, [] if is_resumed else await service.list_limits(pool)

    is_resumed, limits = as_worker(question)
    if as_json:
        print(to_json({"queue": queue, "type": job_type, "resumed": is_resumed}))
    elif is_resumed:
        print(f"resumed   {words_of(queue, job_type)}")
    else:
        print(f"unchanged {words_of(queue, job_type)} was not paused; {paused_in_words(limits)}")


def paused_in_words(limits: Sequence[Limit]) -> str:
    """Everything that is paused, for somebody who meant something else."""
    paused = [[None if name == ANY else name for name in (each.queue, each.type)] for each in limits if each.paused_at]
    return f"paused: {', '.join(words_of(*names) for names in paused)}" if paused else "nothing is"


# Watching -------------------------------------------------------------------------------------------------------------


async def follow(pool: Pool, job: Job, seconds: float, as_json: bool) -> Job:
    """Look at a job until it has come to its end, or for so long; tell every change."""
    deadline = time.monotonic() + seconds
    rest = FIRST_REST_SECONDS
    with watcher(job, as_json) as tell_change:
        while not job.is_finished and time.monotonic() < deadline:
            await asyncio.sleep(rest)
            seen = await service.get_job(pool, job.org_id, job.id)
            has_changed = mark_of(seen) != mark_of(job)
            rest = FIRST_REST_SECONDS if has_changed else min(2 * rest, MAX_REST_SECONDS)
            if has_changed:
                tell_change(seen)
            job = seen
    return job


def mark_of(job: Job) -> tuple[object, ...]:
    """What makes a change worth telling; progress moves more often than the revision does."""
    return job.revision, job.stage, job.progress


def end_like(job: Job, as_json: bool) -> None:
    """End this command as a job that was followed has ended."""
    if not as_json:
        print(f"{'ended' if job.is_finished else 'left':9} {line_of(job)}")
        if job.status is Status.SUCCEEDED and job.result is not None:
            print(f"result    {to_json(job.result)}")
        if not job.is_finished:
            print(as_called(f"duly: it has not ended; why: duly jobs explain {job.id}"), file=sys.stderr)
    if job.status is not Status.SUCCEEDED:
        sys.exit(DID_NOT_SUCCEED)


# Within ---------------------------------------------------------------------------------------------------------------


def ask(org: str, question: Callable[[Pool, UUID], Awaitable[Answer]]) -> Answer:
    """Ask the service about an org's jobs, with the API's rights."""

    async def asked(pool: Pool) -> Answer:
        return await question(pool, await org_of(pool, org))

    return as_api(asked)


async def org_of(pool: Pool, org: str) -> UUID:
    """The org of this name or id, or NotFound; `default` is that of whoever has no tenants."""
    if org in (DEFAULT, str(DEFAULT_ORG)):
        return DEFAULT_ORG
    async with pool.transaction() as connection:
        return (await get_org(connection, org)).id


def actor() -> str:
    """Who does this: whoever is logged in here."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as containers have them
        name = str(os.getuid())
    return f"cli:{name}"[:MAX_ACTOR_LENGTH]


def payload_of(text: str) -> dict[str, Json]:
    """The object that was typed, or is in a file, or comes as input; refused with the place where it is not one."""
    place = "--payload"
    if text == "-":
        place, text = "--payload -", sys.stdin.read(MAX_INPUT_LENGTH + 1)
    elif text.startswith("@"):
        place, text = f"--payload {text}", read_file(text[1:])
    if len(text) > MAX_INPUT_LENGTH:
        raise InvalidArgument(f"{place}: longer than {MAX_INPUT_LENGTH} characters; a payload has at most {MAX_BYTES}")
    try:
        return checked_json(json.loads(text))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidArgument(f"{place}: not JSON at {where}: {error.msg}") from None
    except RecursionError:
        raise InvalidArgument(f"{place}: nested too deeply") from None
    except InvalidArgument as error:
        raise InvalidArgument(f"{place}: {error}") from None


def read_file(name: str) -> str:
    """The beginning of a text file, a little more than may be."""
    try:
        with Path(name).open(encoding="utf-8") as file:
            return file.read(MAX_INPUT_LENGTH + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--payload @{name}: {error}") from None


def time_of(option: str, text: str | None) -> datetime | None:
    """A moment as it was typed; without a zone, the local one."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{option} {text!r}: write a time as 2030-01-31T08:00:00+01:00, or 2030-01-31") from None


def duration_of(option: str, text: str | None) -> float | None:
    """Seconds as they were typed."""
    if text is None:
        return None
    try:
        return seconds_of(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}") from None


def tell(job: Job, word: str, as_json: bool, **more: object) -> None:
    """What came of a job, in one line."""
    print(to_json({**more, **asdict(job)}) if as_json else f"{word:9} {line_of(job)}", flush=True)


def line_of(job: Job) -> str:
    """A job in one line."""
    parts = [f"{job.id}  {text_of(job.type)}  {job.status}"]
    if job.status is Status.QUEUED and job.run_at > job.updated_at:
        parts.append(f"due {text_of(job.run_at)}")
    if job.last_error_code and job.status is not Status.SUCCEEDED:
        parts.append(f"{text_of(job.last_error_code)}: {on_one_line(job.last_error_message or '')}")
    return "  ".join(parts)


def fields_of(job: Job) -> dict[str, object]:
    """A job as a person reads it: its org by name, and in one line how often it was started, of how often it may be."""
    fields = {**asdict(job), "org_id": DEFAULT if job.org_id == DEFAULT_ORG else job.org_id}
    del fields["attempt"], fields["max_attempts"]
    return {**fields, "starts": f"{job.starts} of {job.max_attempts} (attempt {job.attempt}, counted from 0)"}


def row_of(job: Job) -> list[object]:
    """A job as a row of a list."""
    starts = f"{job.starts}/{job.max_attempts}"
    ends = (job.created_at, job.finished_at, job.last_error_code)
    return [job.id, job.type, job.queue, job.status, starts, *ends]


def words_of(queue: str | None, job_type: str | None) -> str:
    """What a pause is of."""
    return " and ".join(f"{word} {name}" for word, name in (("queue", queue), ("type", job_type)) if name)
