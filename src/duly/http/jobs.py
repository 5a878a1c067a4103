"""The routes of the ledger: translate, call the service, translate back.

Every one of them acts for the org of the key that came with it; what belongs to another org is not there.
"""

from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Query, Response, status

from duly.errors import (
    Forbidden,
    IllegalMove,
    InvalidArgument,
    KeyReused,
    NotFound,
    NotMigrated,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.http.auth import Tenant, reader_of_jobs, writer_of_jobs
from duly.http.dependencies import Opened
from duly.http.job_models import Cancel, EventPage, JobPage, JobQuery, JobRequest, ShownJob
from duly.http.problems import refusals
from duly.http.request_limits import GuardedRoute
from duly.http.types import PageQuery
from duly.jobs import service
from duly.outcomes import Existing

__all__ = ["router"]

ALWAYS = refusals(Unauthorized, Forbidden, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable)

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=GuardedRoute, responses=ALWAYS)


Reader: TypeAlias = Annotated[Tenant, Depends(reader_of_jobs)]
Writer: TypeAlias = Annotated[Tenant, Depends(writer_of_jobs)]
POLITELY = Cancel()
JobId: TypeAlias = Annotated[UUID, Path(description="The job's id.")]


@router.post(
    "",
    operation_id="enqueue_job",
    summary="Ask for a job",
    status_code=status.HTTP_201_CREATED,
    response_description="The job was made.",
    responses={
        status.HTTP_200_OK: {"model": ShownJob, "description": "The same request came before; this is its job."},
        **refusals(KeyReused),
    },
)
async def enqueue_job(body: JobRequest, caller: Writer, pool: Opened, response: Response) -> ShownJob:
    """The same request under the same `key` makes one job; needs the scope `ledger:write`."""
    creation = await service.enqueue(pool, body.request_of(caller.org, caller.actor))
    if isinstance(creation, Existing):
        response.status_code = status.HTTP_200_OK
    response.headers["Location"] = f"/v1/jobs/{creation.row.id}"
    return ShownJob.model_validate(creation.row)


@router.get("", operation_id="list_jobs", summary="List jobs, the newest first")
async def list_jobs(query: Annotated[JobQuery, Query()], caller: Reader, pool: Opened) -> JobPage:
    """Without payloads and results; needs the scope `ledger:read`."""
    page = await service.list_jobs(
        pool,
        caller.org,
        status=query.status,
        type=query.type,
        queue=query.queue,
        finished_from=query.finished_from,
        finished_before=query.finished_before,
        place=query.next,
        limit=query.limit,
    )
    return JobPage.model_validate(page)


@router.get("/{job_id}", operation_id="get_job", summary="Show a job", responses=refusals(NotFound))
async def get_job(job_id: JobId, caller: Reader, pool: Opened) -> ShownJob:
    """All there is to know of it now; needs the scope `ledger:read`."""
    return ShownJob.model_validate(await service.get_job(pool, caller.org, job_id))


@router.get(
    "/{job_id}/events", operation_id="list_job_events", summary="Show a job's log", responses=refusals(NotFound)
)
async def list_job_events(
    job_id: JobId, query: Annotated[PageQuery, Query()], caller: Reader, pool: Opened
) -> EventPage:
    """Everything that happened to it, in order; needs the scope `ledger:read`."""
    page = await service.list_events(pool, caller.org, job_id, place=query.next, limit=query.limit)
    return EventPage.model_validate(page)


@router.post(
    "/{job_id}/cancel",
    operation_id="cancel_job",
    summary="Cancel a job",
    responses=refusals(NotFound, IllegalMove),
)
async def cancel_job(
    job_id: JobId, caller: Writer, pool: Opened, body: Annotated[Cancel, Body()] = POLITELY
) -> ShownJob:
    """A waiting job is cancelled at once, a running one is asked to stop; needs the scope `ledger:write`."""
    job = await service.cancel(pool, caller.org, job_id, caller.actor, now=body.now, release_key=body.release_key)
    return ShownJob.model_validate(job)


@router.post(
    "/{job_id}/retry",
    operation_id="retry_job",
    summary="Retry a dead letter",
    responses=refusals(NotFound, IllegalMove),
)
async def retry_job(job_id: JobId, caller: Writer, pool: Opened) -> ShownJob:
    """It waits again as though it were new; needs the scope `ledger:write`."""
    return ShownJob.model_validate(await service.retry(pool, caller.org, job_id, caller.actor))
