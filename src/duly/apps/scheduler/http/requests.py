"""Request models of the scheduler.

Every constraint of the tables is repeated here, so that a client reads the rule and not the name of the constraint.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from duly.apps.scheduler.model import (
    MAX_ADVANCE_MINUTES,
    MAX_DESCRIPTION_LENGTH,
    MAX_ID,
    MAX_KEY_LENGTH,
    MAX_NAME_LENGTH,
    MAX_NOTE_LENGTH,
    Action,
    CatchUp,
    ExpenseTemplate,
    NewSchedule,
    RunStatus,
    ScheduleStatus,
    to_amount,
)
from duly.apps.scheduler.rule import MAX_RULE_LENGTH
from duly.errors import InvalidArgument
from duly.http.job_models import DueTime, Payload
from duly.http.types import Limit, PageQuery, RequestModel

# Value types ----------------------------------------------------------------------------------------------------------


def validate_amount(value: object) -> Decimal:
    """Parse an amount, given as a string or as a number; raises ValueError."""
    try:
        return to_amount("amount", value)
    except InvalidArgument as error:
        raise ValueError(str(error).removeprefix("amount: ")) from None


def text_field(max_length: int) -> Any:
    """Return the constraints of a text that PostgreSQL can store."""
    return Field(strict=True, min_length=1, max_length=max_length, pattern=r"^[^\x00]+$")


ShortText = Annotated[str, text_field(MAX_NAME_LENGTH)]
LongText = Annotated[str, text_field(MAX_DESCRIPTION_LENGTH)]
Note = Annotated[str, text_field(MAX_NOTE_LENGTH)]
Key = Annotated[str, text_field(MAX_KEY_LENGTH)]
Currency = Annotated[str, Field(strict=True, pattern=r"^[A-Z]{3}$", examples=["EUR"])]
Channel = Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["telegram"])]
AdvanceMinutes = Annotated[
    int,
    Field(strict=True, ge=0, le=MAX_ADVANCE_MINUTES, description="How long before the due time the reminder is sent."),
]
RuleText = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=MAX_RULE_LENGTH,
        description="`cron:` and five fields, or JSON with `every` and `at`; in zone `tz`, by default the person's.",
        examples=["cron: 0 10 1 * *", '{"every": "month", "day": 1, "at": "10:00", "tz": "Europe/Stockholm"}'],
    ),
]
Amount = Annotated[
    Decimal,
    BeforeValidator(validate_amount),
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
Id = Annotated[int, Field(strict=True, ge=1, le=MAX_ID)]
From = Annotated[DueTime | None, Field(alias="from", description="At this time or later.")]
To = Annotated[DueTime | None, Field(alias="to", description="Before this time.")]


# Requests -------------------------------------------------------------------------------------------------------------


class ExpenseTemplateRequest(RequestModel):
    """The expense to book when a run is confirmed."""

    amount: Amount
    currency: Currency
    category: ShortText | None = None
    merchant: ShortText | None = None
    note: Note | None = None

    def to_template(self) -> ExpenseTemplate:
        """Convert to the template of the scheduler."""
        return ExpenseTemplate(self.amount, self.currency, self.category, self.merchant, self.note)


class ScheduleRequest(RequestModel):
    """A schedule to create."""

    name: ShortText = Field(examples=["Rent"])
    rule: RuleText
    first_run_at: DueTime | None = Field(default=None, description="The earliest firing. Default: now.")
    description: LongText | None = None
    advance_minutes: AdvanceMinutes = 0
    channel: Channel = "telegram"
    catch_up: CatchUp = Field(
        default=CatchUp.LATEST,
        description="Which periods that were missed while no worker planned are reminded of: the latest, all (at most "
        "a hundred), or none. Those of a pause never are.",
    )
    expense: ExpenseTemplateRequest | None = Field(default=None, description="Without it no expense is booked.")

    def to_schedule(self) -> NewSchedule:
        """Convert to the schedule of the service."""
        return NewSchedule(
            name=self.name,
            rule=self.rule,
            first_run_at=self.first_run_at,
            description=self.description,
            advance_minutes=self.advance_minutes,
            channel=self.channel,
            catch_up=self.catch_up,
            expense=self.expense.to_template() if self.expense else None,
        )


class ScheduleChanges(RequestModel):
    """Changes of a schedule; omitted fields stay as they are."""

    name: ShortText | SkipJsonSchema[None] = None
    rule: RuleText | SkipJsonSchema[None] = None
    first_run_at: DueTime | SkipJsonSchema[None] = None
    description: LongText | None = Field(default=None, description="null: remove it.")
    advance_minutes: AdvanceMinutes | SkipJsonSchema[None] = None
    channel: Channel | SkipJsonSchema[None] = None
    catch_up: CatchUp | SkipJsonSchema[None] = None
    expense: ExpenseTemplateRequest | None = Field(default=None, description="null: book no expense any more.")

    @model_validator(mode="after")
    def check_required_fields_are_not_null(self) -> "ScheduleChanges":
        """Check that no field is null without which a schedule cannot be."""
        required = self.model_fields_set - {"description", "expense"}
        if empty := sorted(name for name in required if getattr(self, name) is None):
            raise ValueError(f"{empty[0]} cannot be null: omit it to keep it as it is")
        return self

    def to_changes(self) -> Mapping[str, Any]:
        """Return the given fields, without the expense; an empty description removes the stored one."""
        changes = {name: getattr(self, name) for name in self.model_fields_set - {"expense"}}
        return {name: "" if value is None else value for name, value in changes.items()}

    def to_template(self) -> ExpenseTemplate | Literal["none"] | None:
        """Return the given template, `none` to remove it, None to keep it."""
        if self.expense:
            return self.expense.to_template()
        return "none" if "expense" in self.model_fields_set else None


class ConfirmationRequest(RequestModel):
    """An answer to a run."""

    job_run_id: Id
    action: Action
    idempotency_key: Key | SkipJsonSchema[None] = Field(
        default=None, description="The idempotency key, where the header `Idempotency-Key` cannot be sent."
    )
    payload: Payload = Field(
        default_factory=dict[str, Any],
        description="With `complete`: `amount`, `currency`, `category`, `merchant`, `note` of the expense; a currency "
        "needs an amount, and without an expense of the schedule every field does. With `snooze`: `minutes`.",
        examples=[{"amount": "12.50"}],
    )


class ScheduleQuery(PageQuery):
    """Filter and page of a list of schedules."""

    status: ScheduleStatus | None = None


class RunQuery(PageQuery):
    """Filters and page of a list of runs."""

    job_id: Annotated[int, Field(ge=1, le=MAX_ID)] | None = Field(default=None, description="Of this schedule only.")
    status: RunStatus | None = None
    from_at: From = None
    to_at: To = None


class ExpenseQuery(PageQuery):
    """Period and page of a list of expenses."""

    from_at: From = None
    to_at: To = None


class UpcomingQuery(RequestModel):
    """Limit of a list of upcoming runs."""

    limit: Limit = 100
