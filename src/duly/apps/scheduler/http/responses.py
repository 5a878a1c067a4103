"""Response models of the scheduler."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field

from duly.apps.scheduler.model import Action, CatchUp, RunStatus, ScheduleStatus
from duly.apps.scheduler.reasons import describe_reason
from duly.http.types import Instant, NextCursor, ResponseModel


def format_amount(amount: object) -> object:
    """Format an amount without trailing zeros."""
    return format(amount.normalize(), "f") if isinstance(amount, Decimal) else amount


AmountText = Annotated[str, BeforeValidator(format_amount), Field(examples=["9.99"])]
JobId = Annotated[int, Field(validation_alias=AliasChoices("schedule_id", "job_id"))]
Reason = Annotated[str, BeforeValidator(describe_reason)]


class ExpenseTemplateResponse(ResponseModel):
    """The expense that is booked when a run is confirmed."""

    amount: AmountText
    currency: str
    category: str | None = None
    merchant: str | None = None
    note: str | None = None


class ScheduleSummary(ResponseModel):
    """A schedule in a list."""

    id: int
    user_id: int
    name: str
    description: str | None
    rule: str
    zone: str = Field(description="The zone of its person; a rule may have its own.")
    first_run_at: Instant
    advance_minutes: int
    channel: str
    status: ScheduleStatus
    catch_up: CatchUp
    expense: ExpenseTemplateResponse | None
    next_at: Instant | None = Field(description="The first firing without a run, as far as it is planned.")
    plan_error: str | None = Field(description="Why the rule cannot be planned.")
    created_at: Instant
    updated_at: Instant


class FiringResponse(ResponseModel):
    """A time at which a schedule fires."""

    period_key: str = Field(description="The period of its run.")
    scheduled_at: Instant
    local: datetime = Field(description="The same in the rule's zone.")


class ScheduleResponse(ScheduleSummary):
    """A schedule with its rule in plain words and its next firings."""

    rule_in_words: str | None = Field(description="The rule in plain words; null when it is invalid.")
    firings: list[FiringResponse] = Field(description="The next firings; empty unless the schedule is active.")


class SchedulePage(ResponseModel):
    """A page of schedules, the oldest first."""

    items: list[ScheduleSummary]
    next: NextCursor


class RunSummary(ResponseModel):
    """A run in a list."""

    id: int
    job_id: JobId
    name: str
    period_key: str
    scheduled_at: Instant
    status: RunStatus
    remind_at: Instant | None = Field(
        description="When the reminder is sent; null once that has begun, or if none will be sent."
    )
    sent_at: Instant | None = Field(description="When the first reminder was sent.")
    reason: Reason | None = Field(
        description="Why it ended without an answer; or, while it is open, why its period key is its own instant."
    )
    created_at: Instant
    updated_at: Instant


class ReminderResponse(ResponseModel):
    """A reminder that was sent for a run."""

    id: int
    sent_at: Instant
    payload: dict[str, Any] | None = Field(description="Its text and its channel.")


class BookedExpenseResponse(ResponseModel):
    """The expense that an answer booked."""

    id: int
    amount: AmountText
    currency: str


class ReceiptResponse(ResponseModel):
    """The effect of an answer."""

    confirmation_id: int
    job_run_id: int
    job_id: JobId
    period_key: str
    action: Action
    idempotency_key: str
    confirmed_at: Instant
    remind_at: Instant | None = Field(description="With `snooze`: when the next reminder is sent.")
    expense: BookedExpenseResponse | None = Field(description="The expense that was booked.")


class RunResponse(RunSummary):
    """A run with its reminders and answers."""

    reminders: list[ReminderResponse]
    receipts: list[ReceiptResponse]


class RunPage(ResponseModel):
    """A page of runs, the latest first."""

    items: list[RunSummary]
    next: NextCursor


class MissedPeriodResponse(ResponseModel):
    """A missed period without a run."""

    job_id: JobId
    period_key: str
    scheduled_at: Instant
    reason: Reason


class MissedPeriodPage(ResponseModel):
    """A page of missed periods without a run, the earliest first."""

    items: list[MissedPeriodResponse]
    next: NextCursor


class UpcomingRunResponse(ResponseModel):
    """An open run, or a firing without a run yet."""

    job_id: JobId
    name: str
    channel: str
    job_run_id: int | None
    period_key: str | None
    scheduled_at: Instant
    remind_at: Instant | None
    status: RunStatus | None


class UpcomingRunsResponse(ResponseModel):
    """Upcoming runs, the soonest first."""

    items: list[UpcomingRunResponse]


class RunTransitionResponse(ResponseModel):
    """One event of a run."""

    seq: int = Field(description="1, 2, 3, without gaps.")
    ts: Instant
    prev_status: str | None
    next_status: str
    actor: str | None
    detail_json: dict[str, Any] | None


class RunTransitionPage(ResponseModel):
    """A page of events of a run, in order."""

    items: list[RunTransitionResponse]
    next: NextCursor


class ExpenseResponse(ResponseModel):
    """An expense, or the reversal of one."""

    id: int
    user_id: int
    name: str
    amount: AmountText = Field(description="Negative for a reversal.")
    currency: str
    category: str | None
    merchant: str | None
    note: str | None
    occurred_at: Instant
    source_ref: str = Field(description="What it was booked for; unique.")
    reverses: int | None = Field(description="The expense that it reverses.")
    created_at: Instant


class ExpensePage(ResponseModel):
    """A page of expenses, in the order in which they were booked."""

    items: list[ExpenseResponse]
    next: NextCursor
