"""The routes of jobs. Each acts for the org of its API key; jobs of other orgs are not found."""

from dataclasses import replace
from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Query, Response, status

from duly.errors import IllegalTransition, KeyReused, NotFound
from duly.http.auth import Tenant, jobs_reader, jobs_writer
from duly.http.dependencies import PoolDep
from duly.http.job_models import CancelRequest, EnqueueRequest, JobEventPage, JobPage, JobQuery, JobResponse
from duly.http.problems import COMMON_PROBLEMS, problem_responses
from duly.http.request_limits import GuardedRoute
from duly.http.types import IdempotencyKey, PageQuery, choose_idempotency_key
from duly.jobs import service
from duly.outcomes import Existing

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)


Reader: TypeAlias = Annotated[Tenant, Depends(jobs_reader)]
Writer: TypeAlias = Annotated[Tenant, Depends(jobs_writer)]
DEFAULT_CANCEL = CancelRequest()
JobId: TypeAlias = Annotated[UUID, Path(description="The job's id.")]


@router.post(
    "",
    operation_id="enqueue_job",
    summary="Enqueue a job",
    status_code=status.HTTP_201_CREATED,
    response_description="The job was created.",
    responses={
        status.HTTP_200_OK: {"model": JobResponse, "description": "The request was repeated; this is its job."},
        **problem_responses(KeyReused),
    },
)
async def enqueue_job(
    body: EnqueueRequest, caller: Writer, pool: PoolDep, response: Response, idempotency_key: IdempotencyKey = None
) -> JobResponse:
    """The same request under the same `Idempotency-Key` creates one job; needs the scope `ledger:write`."""
    request = body.to_job_request(caller.org, caller.actor)
    key = choose_idempotency_key(idempotency_key, body.key, "key")
    creation = await service.enqueue(pool, replace(request, idempotency_key=key))
    if isinstance(creation, Existing):
        response.status_code = status.HTTP_200_OK
    response.headers["Location"] = f"/v1/jobs/{creation.row.id}"
    return JobResponse.model_validate(creation.row)


@router.get("", operation_id="list_jobs", summary="List jobs, the newest first")
async def list_jobs(query: Annotated[JobQuery, Query()], caller: Reader, pool: PoolDep) -> JobPage:
    """Without payloads and results; needs the scope `ledger:read`."""
    page = await service.list_jobs(
        pool,
        caller.org,
        status=query.status,
        type=query.type,
        queue=query.queue,
        finished_from=query.finished_from,
        finished_before=query.finished_before,
        cursor=query.next,
        limit=query.limit,
    )
    return JobPage.model_validate(page)


@router.get("/{job_id}", operation_id="get_job", summary="Show a job", responses=problem_responses(NotFound))
async def get_job(job_id: JobId, caller: Reader, pool: PoolDep) -> JobResponse:
    """With payload and result; needs the scope `ledger:read`."""
    return JobResponse.model_validate(await service.get_job(pool, caller.org, job_id))


@router.get(
    "/{job_id}/events",
    operation_id="list_job_events",
    summary="List the events of a job",
    responses=problem_responses(NotFound),
)
async def list_job_events(
    job_id: JobId, query: Annotated[PageQuery, Query()], caller: Reader, pool: PoolDep
) -> JobEventPage:
    """In order; needs the scope `ledger:read`."""
    page = await service.list_events(pool, caller.org, job_id, cursor=query.next, limit=query.limit)
    return JobEventPage.model_validate(page)


@router.post(
    "/{job_id}/cancel",
    operation_id="cancel_job",
    summary="Cancel a job",
    responses=problem_responses(NotFound, IllegalTransition),
)
async def cancel_job(
    job_id: JobId, caller: Writer, pool: PoolDep, body: Annotated[CancelRequest, Body()] = DEFAULT_CANCEL
) -> JobResponse:
    """A waiting job is cancelled at once, a running one is asked to stop; needs the scope `ledger:write`."""
    job = await service.cancel_job(pool, caller.org, job_id, caller.actor, now=body.now, release_key=body.release_key)
    return JobResponse.model_validate(job)


@router.post(
    "/{job_id}/redrive",
    operation_id="redrive_job",
    summary="Put a dead letter back in the queue",
    responses=problem_responses(NotFound, IllegalTransition),
)
async def redrive_job(job_id: JobId, caller: Writer, pool: PoolDep) -> JobResponse:
    """Its attempts are counted from zero; needs the scope `ledger:write`."""
    return JobResponse.model_validate(await service.redrive_job(pool, caller.org, job_id, caller.actor))
