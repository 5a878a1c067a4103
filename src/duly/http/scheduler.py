"""The routes of the scheduler: translate, call the service, translate back.

Schedules, their runs and the books belong to the person whose key came with the request; another person's are not
there. An answer counts once, however often it is sent.
"""

from datetime import datetime
from itertools import islice
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response, Security, status

from duly.accounts.service import find_person
from duly.apps.scheduler import service
from duly.apps.scheduler.calendar import firings_of
from duly.apps.scheduler.model import MAX_KEY_LENGTH, Answer, Run, Schedule, Status
from duly.apps.scheduler.plan import read_rule
from duly.apps.scheduler.repository import BEGINNING, END, receipt_of
from duly.apps.scheduler.wallclock import parse_zone
from duly.db.clock import now
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
from duly.http.auth import BEARER, Caller, OnBehalf, person_of, refuse_without
from duly.http.dependencies import Opened
from duly.http.problems import refusals
from duly.http.request_limits import GuardedRoute
from duly.http.scheduler_models import (
    MAX_ID,
    ConfirmationRequest,
    ExpensePage,
    ExpenseQuery,
    ListedRun,
    ListedSchedule,
    MissedPage,
    RunPage,
    RunQuery,
    RunTransitionPage,
    ScheduleChanges,
    SchedulePage,
    ScheduleQuery,
    ScheduleRequest,
    ShownExpense,
    ShownFiring,
    ShownReceipt,
    ShownRun,
    ShownSchedule,
    ShownUpcoming,
    UpcomingQuery,
    UpcomingRuns,
)
from duly.http.types import PageQuery
from duly.outcomes import Creation, Existing

__all__ = ["ALWAYS", "Reader", "Writer", "routers"]

READ, WRITE = "scheduler:read", "scheduler:write"
SHOWN_FIRINGS = 5
ALWAYS = refusals(Unauthorized, Forbidden, NotFound, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable)

schedules = APIRouter(prefix="/v1/schedules", tags=["scheduler"], route_class=GuardedRoute, responses=ALWAYS)
runs = APIRouter(prefix="/v1/job-runs", tags=["scheduler"], route_class=GuardedRoute, responses=ALWAYS)
confirmations = APIRouter(prefix="/v1/confirmations", tags=["scheduler"], route_class=GuardedRoute, responses=ALWAYS)
expenses = APIRouter(prefix="/v1/expenses", tags=["scheduler"], route_class=GuardedRoute, responses=ALWAYS)
routers = (schedules, runs, confirmations, expenses)


# Who asks -------------------------------------------------------------------------------------------------------------


async def read_as(
    request: Request, _: Annotated[object, Security(BEARER)], pool: Opened, on_behalf: OnBehalf = None
) -> int:
    """Whose schedules are looked at."""
    return await id_of(pool, owner_of(request.state.caller, READ, on_behalf))


async def write_as(
    request: Request, _: Annotated[object, Security(BEARER)], pool: Opened, on_behalf: OnBehalf = None
) -> int:
    """Whose schedules are made, changed or answered, if not too much at once."""
    uid = owner_of(request.state.caller, WRITE, on_behalf)
    request.state.rate.take(uid)
    return await id_of(pool, uid)


def owner_of(caller: Caller, scope: str, on_behalf: str | None) -> str:
    """The person that a caller is, or acts for; Forbidden when they may not, or are nobody in particular."""
    refuse_without(caller, scope)
    if uid := person_of(caller, on_behalf):
        return uid
    raise Forbidden(
        "schedules belong to people, and this key to none: make one with duly keys create NAME --user UID --scope "
        f"{scope}; an administrator says for whom in the header Duly-User"
    )


async def id_of(pool: Pool, uid: str) -> int:
    """The number under which a person's schedules are kept."""
    if person := await find_person(pool, uid):
        return person.id
    raise NotFound(f"there is nobody called {uid}; make them with: duly users create {uid}")


async def undo_seconds_of(request: Request) -> float:
    """How long what was booked can be taken back."""
    return request.state.undo_seconds


Reader: TypeAlias = Annotated[int, Depends(read_as)]
Writer: TypeAlias = Annotated[int, Depends(write_as)]
UndoSeconds: TypeAlias = Annotated[float, Depends(undo_seconds_of)]
ScheduleId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="The schedule's id.")]
RunId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="The run's id.")]
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="The same request under the same key makes one schedule; another is refused.",
    ),
]


# Schedules ------------------------------------------------------------------------------------------------------------


@schedules.post(
    "",
    operation_id="create_schedule",
    summary="Make a schedule",
    status_code=status.HTTP_201_CREATED,
    response_description="The schedule was made.",
    responses={
        status.HTTP_200_OK: {"model": ShownSchedule, "description": "The same request came before; this is its own."},
        **refusals(KeyReused, LimitReached, RateLimited),
    },
)
async def create_schedule(
    body: ScheduleRequest, user_id: Writer, pool: Opened, response: Response, key: IdempotencyKey = None
) -> ShownSchedule:
    """The same request under the same `Idempotency-Key` makes one; needs the scope `scheduler:write`."""
    at = await now(pool)
    begins_now = body.first_run_at is None
    creation = await service.add_schedule(pool, user_id, body.schedule(at), key, begins_now=begins_now)
    note_creation(response, creation, f"/v1/schedules/{creation.row.id}")
    return shown_schedule(creation.row, at)


@schedules.get("", operation_id="list_schedules", summary="List schedules, the oldest first")
async def list_schedules(query: Annotated[ScheduleQuery, Query()], user_id: Reader, pool: Opened) -> SchedulePage:
    """One's own; needs the scope `scheduler:read`."""
    page = await service.list_schedules(pool, user_id, status=query.status, place=query.next, limit=query.limit)
    return SchedulePage.model_validate(page)


@schedules.get("/{schedule_id}", operation_id="get_schedule", summary="Show a schedule")
async def get_schedule(schedule_id: ScheduleId, user_id: Reader, pool: Opened) -> ShownSchedule:
    """With its rule in plain words and its next five firings; needs the scope `scheduler:read`."""
    return shown_schedule(await service.get_schedule(pool, user_id, schedule_id), await now(pool))


@schedules.patch(
    "/{schedule_id}",
    operation_id="change_schedule",
    summary="Change a schedule",
    responses=refusals(IllegalMove, RateLimited),
)
async def change_schedule(
    schedule_id: ScheduleId, body: ScheduleChanges, user_id: Writer, pool: Opened
) -> ShownSchedule:
    """What is given, unless it is archived; a rule holds from its next firing; needs the scope `scheduler:write`."""
    changed = await service.change_schedule(pool, user_id, schedule_id, body.changes(), body.template())
    return shown_schedule(changed, await now(pool))


@schedules.post(
    "/{schedule_id}/pause",
    operation_id="pause_schedule",
    summary="Pause a schedule",
    responses=refusals(IllegalMove, RateLimited),
)
async def pause_schedule(schedule_id: ScheduleId, user_id: Writer, pool: Opened) -> ShownSchedule:
    """What nobody was told of yet is taken back; needs the scope `scheduler:write`."""
    return await moved(pool, user_id, schedule_id, Status.PAUSED)


@schedules.post(
    "/{schedule_id}/resume",
    operation_id="resume_schedule",
    summary="Let a paused schedule go on",
    responses=refusals(IllegalMove, RateLimited),
)
async def resume_schedule(schedule_id: ScheduleId, user_id: Writer, pool: Opened) -> ShownSchedule:
    """What was missed meanwhile is skipped; needs the scope `scheduler:write`."""
    return await moved(pool, user_id, schedule_id, Status.ACTIVE)


@schedules.post(
    "/{schedule_id}/archive",
    operation_id="archive_schedule",
    summary="End a schedule",
    responses=refusals(IllegalMove, RateLimited),
)
async def archive_schedule(schedule_id: ScheduleId, user_id: Writer, pool: Opened) -> ShownSchedule:
    """What is open of it is cancelled, and it never comes back; needs the scope `scheduler:write`.

    Of very many open runs 500 are cancelled at once and the rest by a worker; none of them is reminded of any more.
    """
    return await moved(pool, user_id, schedule_id, Status.ARCHIVED)


@schedules.post(
    "/{schedule_id}/fire",
    operation_id="fire_schedule",
    summary="Make a run now, besides the rule",
    status_code=status.HTTP_201_CREATED,
    response_description="The run was made.",
    responses={
        status.HTTP_200_OK: {"model": ListedRun, "description": "This minute has its run already."},
        **refusals(IllegalMove, LimitReached, RateLimited),
    },
)
async def fire_schedule(schedule_id: ScheduleId, user_id: Writer, pool: Opened, response: Response) -> ListedRun:
    """In one minute there is only one; needs the scope `scheduler:write`."""
    creation = await service.fire_schedule(pool, user_id, schedule_id)
    note_creation(response, creation, f"/v1/job-runs/{creation.row.id}")
    return ListedRun.model_validate(creation.row)


@schedules.get(
    "/{schedule_id}/missed", operation_id="list_missed", summary="List missed periods without a run, the earliest first"
)
async def list_missed(
    schedule_id: ScheduleId, query: Annotated[PageQuery, Query()], user_id: Reader, pool: Opened
) -> MissedPage:
    """Of more than a hundred missed periods only the latest hundred have a run; needs the scope `scheduler:read`."""
    page = await service.list_missed(pool, user_id, schedule_id, cursor=query.next, limit=query.limit)
    return MissedPage.model_validate(page)


# Runs -----------------------------------------------------------------------------------------------------------------


@runs.get("", operation_id="list_runs", summary="List runs, the latest first")
async def list_runs(query: Annotated[RunQuery, Query()], user_id: Reader, pool: Opened) -> RunPage:
    """Of one's own schedules; needs the scope `scheduler:read`."""
    page = await service.list_runs(
        pool,
        user_id,
        job_id=query.job_id,
        status=query.status,
        between=(query.from_at or BEGINNING, query.to_at or END),
        place=query.next,
        limit=query.limit,
    )
    return RunPage.model_validate(page)


@runs.get("/upcoming", operation_id="list_upcoming", summary="Show what is coming, the soonest first")
async def list_upcoming(query: Annotated[UpcomingQuery, Query()], user_id: Reader, pool: Opened) -> UpcomingRuns:
    """Open runs, and the next firing of each schedule that has none yet; needs the scope `scheduler:read`."""
    found = await service.list_upcoming(pool, user_id, limit=query.limit)
    return UpcomingRuns(items=[ShownUpcoming.model_validate(each) for each in found])


@runs.get("/{run_id}", operation_id="get_run", summary="Show a run")
async def get_run(run_id: RunId, user_id: Reader, pool: Opened) -> ShownRun:
    """With what was sent about it and what was answered; needs the scope `scheduler:read`."""
    return await whole_run(pool, user_id, await service.get_run(pool, user_id, run_id))


@runs.get("/{run_id}/timeline", operation_id="list_run_events", summary="Show a run's log")
async def list_run_events(
    run_id: RunId, query: Annotated[PageQuery, Query()], user_id: Reader, pool: Opened
) -> RunTransitionPage:
    """Everything that happened to it, in order; needs the scope `scheduler:read`."""
    page = await service.list_transitions(pool, user_id, run_id, place=query.next, limit=query.limit)
    return RunTransitionPage.model_validate(page)


@runs.post(
    "/{run_id}/undo",
    operation_id="undo_run",
    summary="Take back what was booked for a run",
    status_code=status.HTTP_201_CREATED,
    response_description="The entry that takes it back was made.",
    responses={
        status.HTTP_200_OK: {"model": ShownExpense, "description": "It was taken back before, by this entry."},
        **refusals(NothingToUndo, RateLimited),
    },
)
async def undo_run(
    run_id: RunId, user_id: Writer, pool: Opened, seconds: UndoSeconds, response: Response
) -> ShownExpense:
    """By an entry of its own, for a while; the run stays confirmed; needs the scope `scheduler:write`."""
    creation = await service.undo_answer(pool, user_id, run_id, seconds)
    note_creation(response, creation)
    return ShownExpense.model_validate(creation.row)


# Answers and books ----------------------------------------------------------------------------------------------------


@confirmations.post(
    "",
    operation_id="answer_run",
    summary="Answer a run",
    status_code=status.HTTP_201_CREATED,
    response_description="The answer counts; this is its receipt.",
    responses={
        status.HTTP_200_OK: {"model": ShownReceipt, "description": "It came before; this is its receipt."},
        **refusals(KeyReused, AlreadyAnswered, RunClosed, RateLimited),
    },
)
async def answer_run(body: ConfirmationRequest, user_id: Writer, pool: Opened, response: Response) -> ShownReceipt:
    """Once: what it does to the run and to the books is done together; needs the scope `scheduler:write`."""
    answer = Answer(body.action, body.idempotency_key, body.payload)
    try:
        creation = await service.answer_run(pool, user_id, body.job_run_id, answer)
    except AlreadyAnswered as error:
        first = ShownReceipt.model_validate(receipt_of(error.receipt)) if error.receipt else None
        raise AlreadyAnswered(str(error), first.model_dump(mode="json") if first else None) from None
    note_creation(response, creation)
    return ShownReceipt.model_validate(creation.row)


@expenses.get("", operation_id="list_expenses", summary="List what was booked")
async def list_expenses(query: Annotated[ExpenseQuery, Query()], user_id: Reader, pool: Opened) -> ExpensePage:
    """In the order it came in, reversals included; needs the scope `scheduler:read`."""
    page = await service.list_expenses(
        pool,
        user_id,
        between=(query.from_at or BEGINNING, query.to_at or END),
        place=query.next,
        limit=query.limit,
    )
    return ExpensePage.model_validate(page)


# Within ---------------------------------------------------------------------------------------------------------------


def note_creation(response: Response, creation: Creation[Any], location: str | None = None) -> None:
    """Say whether it was made now, and where it is found."""
    if isinstance(creation, Existing):
        response.status_code = status.HTTP_200_OK
    if location:
        response.headers["Location"] = location


async def moved(pool: Pool, user_id: int, schedule_id: int, to: Status) -> ShownSchedule:
    """A schedule that was paused, resumed or archived."""
    return shown_schedule(await service.move_schedule(pool, user_id, schedule_id, to), await now(pool))


async def whole_run(pool: Pool, user_id: int, run: Run) -> ShownRun:
    """A run with its reminders and receipts."""
    more = {
        "reminders": await service.list_reminders(pool, user_id, run.id),
        "receipts": await service.list_receipts(pool, user_id, run.id),
    }
    fields = {name: getattr(run, name) for name in ListedRun.model_fields}
    return ShownRun.model_validate({**fields, **more}, from_attributes=True)


def shown_schedule(schedule: Schedule, at: datetime) -> ShownSchedule:
    """A schedule with its rule in words, and its firings after a time."""
    fields = {name: getattr(schedule, name) for name in ListedSchedule.model_fields}
    try:
        rule, zone = read_rule(schedule.rule), parse_zone("user.zone", schedule.zone)
    except InvalidArgument:  # somebody wrote it past us; plan_error says what is wrong
        return ShownSchedule.model_validate({**fields, "says": None, "firings": []}, from_attributes=True)
    more = {
        "says": rule.sentence(schedule.first_run_at, zone),
        "firings": shown_firings(schedule, at, rule.zone_for(zone)),
    }
    return ShownSchedule.model_validate({**fields, **more}, from_attributes=True)


def shown_firings(schedule: Schedule, after: datetime, zone: ZoneInfo) -> list[ShownFiring]:
    """The next firings of a schedule that has any."""
    if schedule.status is not Status.ACTIVE:
        return []
    return [
        ShownFiring(
            period_key=firing.period_key,
            scheduled_at=firing.scheduled_at,
            local=firing.scheduled_at.astimezone(zone),
        )
        for firing in islice(firings_of(schedule, after), SHOWN_FIRINGS)
    ]
