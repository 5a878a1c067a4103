"""The scheduler as JSON: what may be asked of it, within which bounds, and what is shown.

Every bound of the tables stands here too, so that a caller hears the rule and not the name of a constraint.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from duly.apps.scheduler.model import (
    LONGEST_NOTE,
    MAX_ADVANCE_MINUTES,
    MAX_DESCRIPTION_LENGTH,
    MAX_KEY_LENGTH,
    MAX_NAME_LENGTH,
    Action,
    CatchUp,
    ExpenseTemplate,
    NewSchedule,
    RunStatus,
    Status,
    checked_amount,
)
from duly.apps.scheduler.rule import MAX_RULE_LENGTH
from duly.errors import InvalidArgument
from duly.http.job_models import DueTime, Payload
from duly.http.types import Asked, Instant, Limit, PageQuery, Shown

__all__ = [
    "MAX_ID",
    "ConfirmationRequest",
    "ExpensePage",
    "ExpenseQuery",
    "ListedRun",
    "ListedSchedule",
    "RunPage",
    "RunQuery",
    "RunTransitionPage",
    "ScheduleChanges",
    "SchedulePage",
    "ScheduleQuery",
    "ScheduleRequest",
    "ShownExpense",
    "ShownFiring",
    "ShownReceipt",
    "ShownRun",
    "ShownSchedule",
    "ShownUpcoming",
    "UpcomingQuery",
    "UpcomingRuns",
]

MAX_ID = 2**63 - 1


# Kinds of values ------------------------------------------------------------------------------------------------------


def read_amount(value: object) -> Decimal:
    """An amount, written as a text or as a number."""
    try:
        return checked_amount("amount", value)
    except InvalidArgument as error:
        raise ValueError(str(error).removeprefix("amount: ")) from None


def amount_in_words(amount: object) -> object:
    """An amount without the zeros that only fill its column."""
    return format(amount.normalize(), "f") if isinstance(amount, Decimal) else amount


def text(max_length: int) -> Any:
    """A text that can be kept."""
    return Field(strict=True, min_length=1, max_length=max_length, pattern=r"^[^\x00]+$")


ShortText = Annotated[str, text(MAX_NAME_LENGTH)]
LongText = Annotated[str, text(MAX_DESCRIPTION_LENGTH)]
Note = Annotated[str, text(LONGEST_NOTE)]
Key = Annotated[str, text(MAX_KEY_LENGTH)]
Currency = Annotated[str, Field(strict=True, pattern=r"^[A-Z]{3}$", examples=["EUR"])]
Channel = Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["telegram"])]
AdvanceMinutes = Annotated[
    int, Field(strict=True, ge=0, le=MAX_ADVANCE_MINUTES, description="So long before it is due they are reminded.")
]
RuleText = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=MAX_RULE_LENGTH,
        description="`cron:` and five fields, or JSON with `every` and `at`; in its own zone, else in the person's.",
        examples=["cron: 0 10 1 * *", '{"every": "month", "day": 1, "at": "10:00", "tz": "Europe/Stockholm"}'],
    ),
]
Amount = Annotated[
    Decimal,
    BeforeValidator(read_amount),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\d{1,14}(\.\d{1,6})?$"},
                {"type": "number", "minimum": 0, "exclusiveMaximum": 10**14},
            ],
            "examples": ["9.99"],
        }
    ),
]
ShownAmount = Annotated[str, BeforeValidator(amount_in_words), Field(examples=["9.99"])]
Id = Annotated[int, Field(strict=True, ge=1, le=MAX_ID)]
Next = Annotated[str | None, Field(description="Ask with `?next=` for what follows; null when that was all.")]
From = Annotated[DueTime | None, Field(alias="from", description="At this time or later.")]
To = Annotated[DueTime | None, Field(alias="to", description="Before this time.")]


# Asking ---------------------------------------------------------------------------------------------------------------


class TemplateRequest(Asked):
    """What is booked when a run is confirmed."""

    amount: Amount
    currency: Currency
    category: ShortText | None = None
    merchant: ShortText | None = None
    note: Note | None = None

    def template(self) -> ExpenseTemplate:
        """The same in the scheduler's words."""
        return ExpenseTemplate(self.amount, self.currency, self.category, self.merchant, self.note)


class ScheduleRequest(Asked):
    """A schedule that is asked for."""

    name: ShortText = Field(examples=["Rent"])
    rule: RuleText
    first_run_at: DueTime | None = Field(default=None, description="Nothing fires before. Default: now.")
    description: LongText | None = None
    advance_minutes: AdvanceMinutes = 0
    channel: Channel = "telegram"
    catch_up: CatchUp = Field(
        default=CatchUp.LATEST, description="Of periods that were missed the latest is reminded of, or all, or none."
    )
    expense: TemplateRequest | None = Field(default=None, description="Without it nothing is booked.")

    def schedule(self, at: datetime) -> NewSchedule:
        """The same in the scheduler's words, beginning at a time unless it says another."""
        return NewSchedule(
            name=self.name,
            rule=self.rule,
            first_run_at=self.first_run_at or at,
            description=self.description,
            advance_minutes=self.advance_minutes,
            channel=self.channel,
            catch_up=self.catch_up,
            expense=self.expense.template() if self.expense else None,
        )


class ScheduleChanges(Asked):
    """What is to be otherwise; what is left out stays."""

    name: ShortText | SkipJsonSchema[None] = None
    rule: RuleText | SkipJsonSchema[None] = None
    first_run_at: DueTime | SkipJsonSchema[None] = None
    description: LongText | SkipJsonSchema[None] = None
    advance_minutes: AdvanceMinutes | SkipJsonSchema[None] = None
    channel: Channel | SkipJsonSchema[None] = None
    catch_up: CatchUp | SkipJsonSchema[None] = None
    expense: TemplateRequest | None = Field(default=None, description="null: nothing is booked any more.")

    @model_validator(mode="after")
    def only_the_template_can_go(self) -> "ScheduleChanges":
        """null would mean that nothing is there, and of a schedule only the template may be missing."""
        if empty := sorted(name for name in self.model_fields_set - {"expense"} if getattr(self, name) is None):
            raise ValueError(f"{empty[0]} cannot be null: leave it out to keep it as it is")
        return self

    def changes(self) -> Mapping[str, Any]:
        """What was given, the template aside."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"expense"}}

    def template(self) -> ExpenseTemplate | Literal["none"] | None:
        """The template that was given, `none` to drop it, None to keep it."""
        if self.expense:
            return self.expense.template()
        return "none" if "expense" in self.model_fields_set else None


class ConfirmationRequest(Asked):
    """An answer to a run."""

    job_run_id: Id
    action: Action
    idempotency_key: Key = Field(description="The same answer under the same key counts once; another is refused.")
    payload: Payload = Field(
        default_factory=dict[str, Any],
        description="With `complete`: `amount`, `currency`, `category`, `merchant`, `note` for what is booked. With "
        "`snooze`: `minutes`.",
        examples=[{"amount": "12.50"}],
    )


class ScheduleQuery(PageQuery):
    """Which schedules, and which page of them."""

    status: Status | None = None


class RunQuery(PageQuery):
    """Which runs, and which page of them."""

    job_id: Annotated[int, Field(ge=1, le=MAX_ID)] | None = Field(default=None, description="Of this schedule only.")
    status: RunStatus | None = None
    from_at: From = None
    to_at: To = None


class ExpenseQuery(PageQuery):
    """Which entries, and which page of them."""

    from_at: From = None
    to_at: To = None


class UpcomingQuery(Asked):
    """How much of what is coming."""

    limit: Limit = 100


# Showing --------------------------------------------------------------------------------------------------------------


class ShownTemplate(Shown):
    """What is booked when a run is confirmed."""

    amount: ShownAmount
    currency: str
    category: str | None = None
    merchant: str | None = None
    note: str | None = None


class ListedSchedule(Shown):
    """A schedule as a list shows it."""

    id: int
    user_id: int
    name: str
    description: str | None
    rule: str
    zone: str = Field(description="Its person's; a rule may have its own.")
    first_run_at: Instant
    advance_minutes: int
    channel: str
    status: Status
    catch_up: CatchUp
    expense: ShownTemplate | None
    next_at: Instant | None = Field(description="The first firing that has no run yet, as far as it is planned.")
    plan_error: str | None = Field(description="Why it cannot be planned.")
    created_at: Instant
    updated_at: Instant


class ShownFiring(Shown):
    """A time at which a schedule fires."""

    period_key: str = Field(description="The period it is the run of.")
    scheduled_at: Instant
    local: datetime = Field(description="The same in the rule's zone.")


class ShownSchedule(ListedSchedule):
    """A schedule, what its rule says in words, and when it fires next."""

    says: str | None = Field(description="The rule in plain words; null when it is none.")
    firings: list[ShownFiring] = Field(description="The next times; none while it is paused, and when it is archived.")


class SchedulePage(Shown):
    """Some schedules, the oldest first."""

    items: list[ListedSchedule]
    next: Next


class ListedRun(Shown):
    """A run as a list shows it."""

    id: int
    job_id: int
    name: str
    period_key: str
    scheduled_at: Instant
    status: RunStatus
    remind_at: Instant | None = Field(description="When they are reminded; null once that is under way, or never.")
    sent_at: Instant | None = Field(description="When they were first reminded.")
    reason: str | None = Field(
        description="Why it ended without an answer; or, while it is open, why its period key is its own instant."
    )
    created_at: Instant
    updated_at: Instant


class ShownReminder(Shown):
    """A message that went out about a run."""

    id: int
    sent_at: Instant
    payload: dict[str, Any] | None = Field(description="What it said, and where.")


class BookedExpense(Shown):
    """The entry that an answer made."""

    id: int
    amount: ShownAmount
    currency: str


class ShownReceipt(Shown):
    """What an answer did."""

    confirmation_id: int
    job_run_id: int
    job_id: int
    period_key: str
    action: Action
    idempotency_key: str
    confirmed_at: Instant
    remind_at: Instant | None = Field(description="With `snooze`: when they are reminded again.")
    expense: BookedExpense | None = Field(description="What was booked for it.")


class ShownRun(ListedRun):
    """A run, what was sent about it, and what was answered."""

    reminders: list[ShownReminder]
    receipts: list[ShownReceipt]


class RunPage(Shown):
    """Some runs, the latest first."""

    items: list[ListedRun]
    next: Next


class ShownMissed(Shown):
    """A missed period that has no run of its own."""

    job_id: int
    period_key: str
    scheduled_at: Instant
    reason: str


class MissedPage(Shown):
    """Some missed periods without a run, the earliest first."""

    items: list[ShownMissed]
    next: Next


class ShownUpcoming(Shown):
    """What is coming: an open run, or a firing that has none yet."""

    job_id: int
    name: str
    channel: str
    job_run_id: int | None
    period_key: str | None
    scheduled_at: Instant
    remind_at: Instant | None
    status: RunStatus | None


class UpcomingRuns(Shown):
    """What is coming, the soonest first."""

    items: list[ShownUpcoming]


class RunTransition(Shown):
    """One line of a run's log."""

    seq: int = Field(description="1, 2, 3, without a gap.")
    ts: Instant
    prev_status: str | None
    next_status: str
    actor: str | None
    detail_json: dict[str, Any] | None


class RunTransitionPage(Shown):
    """Some lines of a run's log, in order."""

    items: list[RunTransition]
    next: Next


class ShownExpense(Shown):
    """An entry of the books."""

    id: int
    user_id: int
    name: str
    amount: ShownAmount = Field(description="Below zero when it takes another back.")
    currency: str
    category: str | None
    merchant: str | None
    note: str | None
    occurred_at: Instant
    source_ref: str = Field(description="What it was booked for; there is one entry for each.")
    reverses: int | None = Field(description="The entry that it takes back.")
    created_at: Instant


class ExpensePage(Shown):
    """Some entries, in the order they came in."""

    items: list[ShownExpense]
    next: Next
