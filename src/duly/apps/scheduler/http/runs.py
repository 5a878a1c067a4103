"""The routes of runs, of answers to them, and of the expenses that answers book.

They belong to the person of the API key; those of others are not found. An answer takes effect once, however often it
is sent.
"""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Response, status

from duly.apps.scheduler import service
from duly.apps.scheduler.http.access import (
    IdempotencyKey,
    Reader,
    ReversalSeconds,
    RunId,
    Writer,
    set_creation_headers,
)
from duly.apps.scheduler.http.requests import ConfirmationRequest, ExpenseQuery, RunQuery, UpcomingQuery
from duly.apps.scheduler.http.responses import (
    ExpensePage,
    ExpenseResponse,
    ReceiptResponse,
    RunPage,
    RunResponse,
    RunTransitionPage,
    UpcomingRunResponse,
    UpcomingRunsResponse,
)
from duly.apps.scheduler.model import BEGINNING, END, Answer, Run, parse_receipt
from duly.db.pool import Pool
from duly.errors import AlreadyAnswered, KeyReused, NothingToReverse, RateLimited, ReminderNotSent, RunClosed
from duly.http.dependencies import PoolDep
from duly.http.problems import PERSON_PROBLEMS, problem_responses
from duly.http.request_limits import GuardedRoute
from duly.http.types import PageQuery, choose_idempotency_key

runs = APIRouter(prefix="/v1/job-runs", tags=["scheduler"], route_class=GuardedRoute, responses=PERSON_PROBLEMS)
confirmations = APIRouter(
    prefix="/v1/confirmations", tags=["scheduler"], route_class=GuardedRoute, responses=PERSON_PROBLEMS
)
expenses = APIRouter(prefix="/v1/expenses", tags=["scheduler"], route_class=GuardedRoute, responses=PERSON_PROBLEMS)


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
    """Open runs, and of each active schedule the first firing without a run; needs the scope `scheduler:read`."""
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
    "/{run_id}/reverse-expense",
    operation_id="reverse_expense",
    summary="Reverse the expense of a run",
    status_code=status.HTTP_201_CREATED,
    response_description="The reversing expense was created.",
    responses={
        status.HTTP_200_OK: {"model": ExpenseResponse, "description": "It was reversed before, by this expense."},
        **problem_responses(NothingToReverse, RateLimited),
    },
)
async def reverse_expense(
    run_id: RunId, user_id: Writer, pool: PoolDep, seconds: ReversalSeconds, response: Response
) -> ExpenseResponse:
    """By a second expense, for a limited time; the run stays confirmed; needs the scope `scheduler:write`."""
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
        **problem_responses(KeyReused, AlreadyAnswered, RunClosed, ReminderNotSent, RateLimited),
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
    """In the order in which they were booked, reversals included; needs the scope `scheduler:read`."""
    page = await service.list_expenses(
        pool,
        user_id,
        between=(query.from_at or BEGINNING, query.to_at or END),
        cursor=query.next,
        limit=query.limit,
    )
    return ExpensePage.model_validate(page)


async def load_run_response(pool: Pool, user_id: int, run: Run) -> RunResponse:
    """Load the reminders and receipts of a run, and convert all of it."""
    more = {
        "reminders": await service.list_reminders(pool, user_id, run.id),
        "receipts": await service.list_receipts(pool, user_id, run.id),
    }
    fields = asdict(run)
    return RunResponse.model_validate({**fields, **more}, from_attributes=True)
