"""The routes of schedules, which belong to the person of the API key; those of others are not found."""

from typing import Annotated

from fastapi import APIRouter, Query, Response, status

from duly.apps.scheduler import service
from duly.apps.scheduler.http.access import (
    IdempotencyKey,
    Reader,
    ScheduleId,
    Writer,
    set_creation_headers,
)
from duly.apps.scheduler.http.requests import ScheduleChanges, ScheduleQuery, ScheduleRequest
from duly.apps.scheduler.http.responses import (
    FiringResponse,
    MissedPeriodPage,
    RunSummary,
    SchedulePage,
    ScheduleResponse,
    ScheduleSummary,
)
from duly.apps.scheduler.model import Schedule, ScheduleStatus
from duly.apps.scheduler.planning import describe_rule
from duly.db.clock import get_current_time
from duly.db.pool import Pool
from duly.errors import IllegalTransition, InvalidArgument, KeyReused, LimitReached, RateLimited
from duly.http.dependencies import PoolDep
from duly.http.problems import PERSON_PROBLEMS, problem_responses
from duly.http.request_limits import GuardedRoute
from duly.http.types import PageQuery

NEXT_FIRINGS_COUNT = 5

schedules = APIRouter(prefix="/v1/schedules", tags=["scheduler"], route_class=GuardedRoute, responses=PERSON_PROBLEMS)


@schedules.post(
    "",
    operation_id="create_schedule",
    summary="Create a schedule",
    status_code=status.HTTP_201_CREATED,
    response_description="The schedule was created.",
    responses={
        status.HTTP_200_OK: {
            "model": ScheduleResponse,
            "description": "The request was repeated; this is its schedule.",
        },
        **problem_responses(KeyReused, LimitReached, RateLimited),
    },
)
async def create_schedule(
    body: ScheduleRequest, user_id: Writer, pool: PoolDep, response: Response, key: IdempotencyKey = None
) -> ScheduleResponse:
    """The same request under the same `Idempotency-Key` creates one; needs the scope `scheduler:write`."""
    creation = await service.create_schedule(pool, user_id, body.to_schedule(), key)
    set_creation_headers(response, creation, f"/v1/schedules/{creation.row.id}")
    return await to_schedule_response(pool, creation.row)


@schedules.get("", operation_id="list_schedules", summary="List schedules, the oldest first")
async def list_schedules(query: Annotated[ScheduleQuery, Query()], user_id: Reader, pool: PoolDep) -> SchedulePage:
    """One's own; needs the scope `scheduler:read`."""
    page = await service.list_schedules(pool, user_id, status=query.status, cursor=query.next, limit=query.limit)
    return SchedulePage.model_validate(page)


@schedules.get("/{schedule_id}", operation_id="get_schedule", summary="Show a schedule")
async def get_schedule(schedule_id: ScheduleId, user_id: Reader, pool: PoolDep) -> ScheduleResponse:
    """With its rule in plain words and its next five firings; needs the scope `scheduler:read`."""
    return await to_schedule_response(pool, await service.get_schedule(pool, user_id, schedule_id))


@schedules.patch(
    "/{schedule_id}",
    operation_id="change_schedule",
    summary="Change a schedule",
    responses=problem_responses(IllegalTransition, RateLimited),
)
async def change_schedule(
    schedule_id: ScheduleId, body: ScheduleChanges, user_id: Writer, pool: PoolDep
) -> ScheduleResponse:
    """The given fields, unless archived; a rule applies from its next firing; needs the scope `scheduler:write`."""
    schedule = await service.change_schedule(pool, user_id, schedule_id, body.to_changes(), body.to_template())
    return await to_schedule_response(pool, schedule)


@schedules.post(
    "/{schedule_id}/pause",
    operation_id="pause_schedule",
    summary="Pause a schedule",
    responses=problem_responses(IllegalTransition, RateLimited),
)
async def pause_schedule(schedule_id: ScheduleId, user_id: Writer, pool: PoolDep) -> ScheduleResponse:
    """Runs whose reminder is not due yet are deleted; needs the scope `scheduler:write`."""
    return await change_status(pool, user_id, schedule_id, ScheduleStatus.PAUSED)


@schedules.post(
    "/{schedule_id}/resume",
    operation_id="resume_schedule",
    summary="Resume a paused schedule",
    responses=problem_responses(IllegalTransition, RateLimited),
)
async def resume_schedule(schedule_id: ScheduleId, user_id: Writer, pool: PoolDep) -> ScheduleResponse:
    """Periods missed meanwhile are skipped; needs the scope `scheduler:write`."""
    return await change_status(pool, user_id, schedule_id, ScheduleStatus.ACTIVE)


@schedules.post(
    "/{schedule_id}/archive",
    operation_id="archive_schedule",
    summary="Archive a schedule",
    responses=problem_responses(IllegalTransition, RateLimited),
)
async def archive_schedule(schedule_id: ScheduleId, user_id: Writer, pool: PoolDep) -> ScheduleResponse:
    """For good; its open runs are cancelled; needs the scope `scheduler:write`.

    Of very many open runs 500 are cancelled at once and the rest by a worker; no more reminders are sent for them.
    """
    return await change_status(pool, user_id, schedule_id, ScheduleStatus.ARCHIVED)


@schedules.post(
    "/{schedule_id}/fire",
    operation_id="fire_schedule",
    summary="Create a run now, in addition to the rule",
    status_code=status.HTTP_201_CREATED,
    response_description="The run was created.",
    responses={
        status.HTTP_200_OK: {"model": RunSummary, "description": "A run exists for this minute; this is it."},
        **problem_responses(IllegalTransition, LimitReached, RateLimited),
    },
)
async def fire_schedule(schedule_id: ScheduleId, user_id: Writer, pool: PoolDep, response: Response) -> RunSummary:
    """At most one per minute; needs the scope `scheduler:write`."""
    creation = await service.fire_schedule(pool, user_id, schedule_id)
    set_creation_headers(response, creation, f"/v1/job-runs/{creation.row.id}")
    return RunSummary.model_validate(creation.row)


@schedules.get(
    "/{schedule_id}/missed", operation_id="list_missed", summary="List missed periods without a run, the earliest first"
)
async def list_missed(
    schedule_id: ScheduleId, query: Annotated[PageQuery, Query()], user_id: Reader, pool: PoolDep
) -> MissedPeriodPage:
    """Of more than 100 missed periods only the latest 100 have a run; needs the scope `scheduler:read`."""
    page = await service.list_missed(pool, user_id, schedule_id, cursor=query.next, limit=query.limit)
    return MissedPeriodPage.model_validate(page)


# Conversions ----------------------------------------------------------------------------------------------------------


async def change_status(pool: Pool, user_id: int, schedule_id: int, to: ScheduleStatus) -> ScheduleResponse:
    """Pause, resume or archive a schedule, and convert it."""
    return await to_schedule_response(pool, await service.set_schedule_status(pool, user_id, schedule_id, to))


async def to_schedule_response(pool: Pool, schedule: Schedule) -> ScheduleResponse:
    """Convert a schedule, with its rule in plain words and its next firings."""
    fields = {name: getattr(schedule, name) for name in ScheduleSummary.model_fields}
    try:
        rule = describe_rule(schedule, await get_current_time(pool), NEXT_FIRINGS_COUNT)
    except InvalidArgument:  # written by another program; plan_error has the reason
        return ScheduleResponse.model_validate({**fields, "rule_in_words": None, "firings": []}, from_attributes=True)
    firings = [
        FiringResponse(
            period_key=each.period_key, scheduled_at=each.scheduled_at, local=each.scheduled_at.astimezone(rule.zone)
        )
        for each in rule.next_firings
    ]
    more = {"rule_in_words": rule.sentence, "firings": firings}
    return ScheduleResponse.model_validate({**fields, **more}, from_attributes=True)
