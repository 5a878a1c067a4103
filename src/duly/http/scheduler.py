"""The routes of the scheduler.

Schedules, their runs and expenses belong to the person of the API key; those of others are not found. An answer takes
effect once, however often it is sent.
"""

from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response, status

from duly.accounts.service import find_user
from duly.apps.scheduler import service
from duly.apps.scheduler.model import (
    BEGINNING,
    END,
    MAX_KEY_LENGTH,
    Answer,
    Run,
    Schedule,
    ScheduleStatus,
    parse_receipt,
)
from duly.apps.scheduler.planning import parse_rule_cached, schedule_firings
from duly.apps.scheduler.wallclock import parse_zone
from duly.db.clock import get_current_time
from duly.db.pool import Pool
from duly.errors import (
    AlreadyAnswered,
    Forbidden,
    IllegalMove,
    InvalidArgument,
    KeyReused,
    LimitReached,
    NotFound,
    NothingToUndo,
    NotMigrated,
    RateLimited,
    RunClosed,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.http.auth import PersonAccessRule, require_uid
from duly.http.dependencies import PoolDep
from duly.http.problems import problem_responses
from duly.http.request_limits import GuardedRoute
from duly.http.scheduler_models import (
    MAX_ID,
    ConfirmationRequest,
    ExpensePage,
    ExpenseQuery,
    ExpenseResponse,
    FiringResponse,
    MissedPeriodPage,
    ReceiptResponse,
    RunPage,
    RunQuery,
    RunResponse,
    RunSummary,
    RunTransitionPage,
    ScheduleChanges,
    SchedulePage,
    ScheduleQuery,
    ScheduleRequest,
    ScheduleResponse,
    ScheduleSummary,
    UpcomingQuery,
    UpcomingRunResponse,
    UpcomingRunsResponse,
)
from duly.http.types import PageQuery, choose_idempotency_key
from duly.outcomes import Creation, Existing

READ, WRITE = "scheduler:read", "scheduler:write"
NEXT_FIRINGS_COUNT = 5
COMMON_PROBLEMS = problem_responses(
    Unauthorized, Forbidden, NotFound, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable
)

schedules = APIRouter(prefix="/v1/schedules", tags=["scheduler"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
runs = APIRouter(prefix="/v1/job-runs", tags=["scheduler"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
confirmations = APIRouter(
    prefix="/v1/confirmations", tags=["scheduler"], route_class=GuardedRoute, responses=COMMON_PROBLEMS
)
expenses = APIRouter(prefix="/v1/expenses", tags=["scheduler"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
routers = (schedules, runs, confirmations, expenses)


# Access ---------------------------------------------------------------------------------------------------------------


@PersonAccessRule
async def scheduler_reader(request: Request) -> int:
    """Return the id of the person whose schedules are read."""
    return await find_user_id(request.state.pool, require_uid(request, READ, "schedules"))


@PersonAccessRule
async def scheduler_writer(request: Request) -> int:
    """Return the id of the person whose schedules are changed or answered; raises RateLimited."""
    uid = require_uid(request, WRITE, "schedules")
    request.state.rate_limiter.acquire(uid)
    return await find_user_id(request.state.pool, uid)


async def find_user_id(pool: Pool, uid: str) -> int:
    """Return the id under which the schedules of a person are stored; raises NotFound."""
    if person := await find_user(pool, uid):
        return person.id
    raise NotFound(f"no person has the uid {uid}; create them with: duly users create {uid}")


async def get_undo_seconds(request: Request) -> float:
    """Return for how long an expense can be reversed."""
    return request.state.undo_seconds


Reader: TypeAlias = Annotated[int, Depends(scheduler_reader)]
Writer: TypeAlias = Annotated[int, Depends(scheduler_writer)]
UndoSeconds: TypeAlias = Annotated[float, Depends(get_undo_seconds)]
ScheduleId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="The schedule's id.")]
RunId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="The run's id.")]
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="The same request under the same key has one effect; another request under it is an error.",
    ),
]


# Schedules ------------------------------------------------------------------------------------------------------------


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
    at = await get_current_time(pool)
    starts_now = body.first_run_at is None
    creation = await service.add_schedule(pool, user_id, body.to_schedule(at), key, starts_now=starts_now)
    set_creation_headers(response, creation, f"/v1/schedules/{creation.row.id}")
    return to_schedule_response(creation.row, at)


@schedules.get("", operation_id="list_schedules", summary="List schedules, the oldest first")
async def list_schedules(query: Annotated[ScheduleQuery, Query()], user_id: Reader, pool: PoolDep) -> SchedulePage:
    """One's own; needs the scope `scheduler:read`."""
    page = await service.list_schedules(pool, user_id, status=query.status, cursor=query.next, limit=query.limit)
    return SchedulePage.model_validate(page)


@schedules.get("/{schedule_id}", operation_id="get_schedule", summary="Show a schedule")
async def get_schedule(schedule_id: ScheduleId, user_id: Reader, pool: PoolDep) -> ScheduleResponse:
    """With its rule in plain words and its next five firings; needs the scope `scheduler:read`."""
    return to_schedule_response(await service.get_schedule(pool, user_id, schedule_id), await get_current_time(pool))


@schedules.patch(
    "/{schedule_id}",
    operation_id="change_schedule",
    summary="Change a schedule",
    responses=problem_responses(IllegalMove, RateLimited),
)
async def change_schedule(
    schedule_id: ScheduleId, body: ScheduleChanges, user_id: Writer, pool: PoolDep
) -> ScheduleResponse:
    """The given fields, unless archived; a rule applies from its next firing; needs the scope `scheduler:write`."""
    schedule = await service.change_schedule(pool, user_id, schedule_id, body.to_changes(), body.to_template())
    return to_schedule_response(schedule, await get_current_time(pool))


@schedules.post(
    "/{schedule_id}/pause",
    operation_id="pause_schedule",
    summary="Pause a schedule",
    responses=problem_responses(IllegalMove, RateLimited),
)
async def pause_schedule(schedule_id: ScheduleId, user_id: Writer, pool: PoolDep) -> ScheduleResponse:
    """Runs without a reminder yet are withdrawn; needs the scope `scheduler:write`."""
    return await change_status(pool, user_id, schedule_id, ScheduleStatus.PAUSED)


@schedules.post(
    "/{schedule_id}/resume",
    operation_id="resume_schedule",
    summary="Resume a paused schedule",
    responses=problem_responses(IllegalMove, RateLimited),
)
async def resume_schedule(schedule_id: ScheduleId, user_id: Writer, pool: PoolDep) -> ScheduleResponse:
    """Periods missed meanwhile are skipped; needs the scope `scheduler:write`."""
    return await change_status(pool, user_id, schedule_id, ScheduleStatus.ACTIVE)


@schedules.post(
    "/{schedule_id}/archive",
    operation_id="archive_schedule",
    summary="Archive a schedule",
    responses=problem_responses(IllegalMove, RateLimited),
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
        **problem_responses(IllegalMove, LimitReached, RateLimited),
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


# Runs -----------------------------------------------------------------------------------------------------------------


@runs.get("", operation_id="list_runs", summary="List runs, the latest first")
async def list_runs(query: Annotated[RunQuery, Query()], user_id: Reader, pool: PoolDep) -> RunPage:
    """Of one's own schedules; needs the scope `scheduler:read`."""
    page = await service.list_runs(
        pool,
        user_id,
        schedule_id=query.job_id,
        status=query.status,
        between=(query.from_at or BEGINNING, query.to_at or END),
        cursor=query.next,
        limit=query.limit,
    )
    return RunPage.model_validate(page)


@runs.get("/upcoming", operation_id="list_upcoming", summary="List upcoming runs, the soonest first")
async def list_upcoming(
    query: Annotated[UpcomingQuery, Query()], user_id: Reader, pool: PoolDep
) -> UpcomingRunsResponse:
    """Open runs, and the next firing of each schedule that has none yet; needs the scope `scheduler:read`."""
    upcoming = await service.list_upcoming(pool, user_id, limit=query.limit)
    return UpcomingRunsResponse(items=[UpcomingRunResponse.model_validate(run) for run in upcoming])


@runs.get("/{run_id}", operation_id="get_run", summary="Show a run")
async def get_run(run_id: RunId, user_id: Reader, pool: PoolDep) -> RunResponse:
    """With its reminders and answers; needs the scope `scheduler:read`."""
    return await load_run_response(pool, user_id, await service.get_run(pool, user_id, run_id))


@runs.get("/{run_id}/timeline", operation_id="list_run_events", summary="List the events of a run")
async def list_run_events(
    run_id: RunId, query: Annotated[PageQuery, Query()], user_id: Reader, pool: PoolDep
) -> RunTransitionPage:
    """In order; needs the scope `scheduler:read`."""
    page = await service.list_transitions(pool, user_id, run_id, cursor=query.next, limit=query.limit)
    return RunTransitionPage.model_validate(page)


@runs.post(
    "/{run_id}/undo",
    operation_id="undo_run",
    summary="Reverse the expense of a run",
    status_code=status.HTTP_201_CREATED,
    response_description="The reversing entry was created.",
    responses={
        status.HTTP_200_OK: {"model": ExpenseResponse, "description": "It was reversed before, by this entry."},
        **problem_responses(NothingToUndo, RateLimited),
    },
)
async def undo_run(
    run_id: RunId, user_id: Writer, pool: PoolDep, seconds: UndoSeconds, response: Response
) -> ExpenseResponse:
    """By a new entry, for a limited time; the run stays confirmed; needs the scope `scheduler:write`."""
    creation = await service.reverse_expense(pool, user_id, run_id, seconds)
    set_creation_headers(response, creation)
    return ExpenseResponse.model_validate(creation.row)


# Answers and expenses -------------------------------------------------------------------------------------------------


@confirmations.post(
    "",
    operation_id="answer_run",
    summary="Answer a run",
    status_code=status.HTTP_201_CREATED,
    response_description="The answer was accepted; this is its receipt.",
    responses={
        status.HTTP_200_OK: {"model": ReceiptResponse, "description": "The answer was repeated; this is its receipt."},
        **problem_responses(KeyReused, AlreadyAnswered, RunClosed, RateLimited),
    },
)
async def answer_run(
    body: ConfirmationRequest, user_id: Writer, pool: PoolDep, response: Response, key: IdempotencyKey = None
) -> ReceiptResponse:
    """Once, by the `Idempotency-Key`: all its effects commit together; needs the scope `scheduler:write`."""
    chosen = choose_idempotency_key(key, body.idempotency_key, "idempotency_key")
    answer = Answer(body.action, chosen or "", body.payload)
    try:
        creation = await service.answer_run(pool, user_id, body.job_run_id, answer)
    except AlreadyAnswered as error:
        first = ReceiptResponse.model_validate(parse_receipt(error.receipt)) if error.receipt else None
        raise AlreadyAnswered(str(error), first.model_dump(mode="json") if first else None) from None
    set_creation_headers(response, creation)
    return ReceiptResponse.model_validate(creation.row)


@expenses.get("", operation_id="list_expenses", summary="List expenses")
async def list_expenses(query: Annotated[ExpenseQuery, Query()], user_id: Reader, pool: PoolDep) -> ExpensePage:
    """In the order of entry, reversals included; needs the scope `scheduler:read`."""
    page = await service.list_expenses(
        pool,
        user_id,
        between=(query.from_at or BEGINNING, query.to_at or END),
        cursor=query.next,
        limit=query.limit,
    )
    return ExpensePage.model_validate(page)


# Conversions ----------------------------------------------------------------------------------------------------------


def set_creation_headers(response: Response, creation: Creation[Any], location: str | None = None) -> None:
    """Set status 200 for an existing resource, and its Location."""
    if isinstance(creation, Existing):
        response.status_code = status.HTTP_200_OK
    if location:
        response.headers["Location"] = location


async def change_status(pool: Pool, user_id: int, schedule_id: int, to: ScheduleStatus) -> ScheduleResponse:
    """Pause, resume or archive a schedule, and convert it."""
    return to_schedule_response(
        await service.set_schedule_status(pool, user_id, schedule_id, to), await get_current_time(pool)
    )


async def load_run_response(pool: Pool, user_id: int, run: Run) -> RunResponse:
    """Load the reminders and receipts of a run, and convert all of it."""
    more = {
        "reminders": await service.list_reminders(pool, user_id, run.id),
        "receipts": await service.list_receipts(pool, user_id, run.id),
    }
    fields = asdict(run)
    return RunResponse.model_validate({**fields, **more}, from_attributes=True)


def to_schedule_response(schedule: Schedule, at: datetime) -> ScheduleResponse:
    """Convert a schedule, with its rule in plain words and its next firings after a time."""
    fields = {name: getattr(schedule, name) for name in ScheduleSummary.model_fields}
    try:
        rule, zone = parse_rule_cached(schedule.rule), parse_zone("user.zone", schedule.zone)
    except InvalidArgument:  # written by another program; plan_error has the reason
        return ScheduleResponse.model_validate({**fields, "says": None, "firings": []}, from_attributes=True)
    more = {
        "says": rule.sentence(schedule.first_run_at, zone),
        "firings": next_firings(schedule, at, rule.zone_for(zone)),
    }
    return ScheduleResponse.model_validate({**fields, **more}, from_attributes=True)


def next_firings(schedule: Schedule, after: datetime, zone: ZoneInfo) -> list[FiringResponse]:
    """Return the next firings of a schedule; only an active one has any."""
    if schedule.status is not ScheduleStatus.ACTIVE:
        return []
    found = schedule_firings(schedule, after)
    return [
        FiringResponse(
            period_key=firing.period_key,
            scheduled_at=firing.scheduled_at,
            local=firing.scheduled_at.astimezone(zone),
        )
        for firing in islice(found, NEXT_FIRINGS_COUNT)
    ]
