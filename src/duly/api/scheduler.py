"""The routes of the scheduler: translate, call the service, translate back.

Schedules, their runs and the books belong to the person whose key came with the request; another person's are not
there. An answer counts once, however often it is sent.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response, Security, status
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from duly.api.guard import GuardedRoute
from duly.api.keys import BEARER, Caller, OnBehalf, person_of, refuse_without
from duly.api.kinds import Asked, Instant, Most, PageQuery, Shown
from duly.api.opened import Opened
from duly.api.problems import refusals
from duly.api.shapes import DueTime, Payload
from duly.db.pool import Pool
from duly.errors import (
    AlreadyAnswered,
    Forbidden,
    IllegalMove,
    InvalidArgument,
    KeyReused,
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
from duly.kernel.clock import now
from duly.kernel.outcome import Creation, Existing
from duly.people.service import find_person
from duly.scheduler import service
from duly.scheduler.calendar import firings_of
from duly.scheduler.model import (
    LONGEST_DESCRIPTION,
    LONGEST_KEY,
    LONGEST_NAME,
    LONGEST_NOTE,
    MOST_ADVANCE_MINUTES,
    Action,
    Answer,
    CatchUp,
    ExpenseTemplate,
    NewSchedule,
    Run,
    RunStatus,
    Schedule,
    Status,
    checked_amount,
)
from duly.scheduler.plan import read_rule
from duly.scheduler.rule import LONGEST_RULE
from duly.scheduler.store import BEGINNING, END, receipt_of
from duly.scheduler.wallclock import parse_zone

__all__ = ["ALWAYS", "Reader", "Writer", "routers"]

READ, WRITE = "scheduler:read", "scheduler:write"
SHOWN_FIRINGS = 5
MOST_ID = 2**63 - 1
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


def text(longest: int) -> Any:
    """A text that can be kept."""
    return Field(strict=True, min_length=1, max_length=longest, pattern=r"^[^\x00]+$")


ShortText = Annotated[str, text(LONGEST_NAME)]
LongText = Annotated[str, text(LONGEST_DESCRIPTION)]
Note = Annotated[str, text(LONGEST_NOTE)]
Key = Annotated[str, text(LONGEST_KEY)]
Currency = Annotated[str, Field(strict=True, pattern=r"^[A-Z]{3}$", examples=["EUR"])]
Channel = Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["telegram"])]
AdvanceMinutes = Annotated[
    int, Field(strict=True, ge=0, le=MOST_ADVANCE_MINUTES, description="So long before it is due they are reminded.")
]
RuleText = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=LONGEST_RULE,
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
Id = Annotated[int, Field(strict=True, ge=1, le=MOST_ID)]
ScheduleId: TypeAlias = Annotated[int, Path(ge=1, le=MOST_ID, description="The schedule's id.")]
RunId: TypeAlias = Annotated[int, Path(ge=1, le=MOST_ID, description="The run's id.")]
Next = Annotated[str | None, Field(description="Ask with `?next=` for what follows; null when that was all.")]
From = Annotated[DueTime | None, Field(alias="from", description="At this time or later.")]
To = Annotated[DueTime | None, Field(alias="to", description="Before this time.")]
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=LONGEST_KEY,
        description="The same request under the same key makes one schedule; another is refused.",
    ),
]


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

    job_id: Annotated[int, Field(ge=1, le=MOST_ID)] | None = Field(default=None, description="Of this schedule only.")
    status: RunStatus | None = None
    from_at: From = None
    to_at: To = None


class ExpenseQuery(PageQuery):
    """Which entries, and which page of them."""

    from_at: From = None
    to_at: To = None


class UpcomingQuery(Asked):
    """How much of what is coming."""

    limit: Most = 100


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
    reason: str | None = Field(description="Why it ended without an answer.")
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


# Schedules ------------------------------------------------------------------------------------------------------------


@schedules.post(
    "",
    operation_id="create_schedule",
    summary="Make a schedule",
    status_code=status.HTTP_201_CREATED,
    response_description="The schedule was made.",
    responses={
        status.HTTP_200_OK: {"model": ShownSchedule, "description": "The same request came before; this is its own."},
        **refusals(KeyReused, RateLimited),
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
    page = await service.list_schedules(pool, user_id, status=query.status, place=query.next, most=query.limit)
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
    """What is open of it is cancelled, and it never comes back; needs the scope `scheduler:write`."""
    return await moved(pool, user_id, schedule_id, Status.ARCHIVED)


@schedules.post(
    "/{schedule_id}/fire",
    operation_id="fire_schedule",
    summary="Make a run now, besides the rule",
    status_code=status.HTTP_201_CREATED,
    response_description="The run was made.",
    responses={
        status.HTTP_200_OK: {"model": ListedRun, "description": "This minute has its run already."},
        **refusals(IllegalMove, RateLimited),
    },
)
async def fire_schedule(schedule_id: ScheduleId, user_id: Writer, pool: Opened, response: Response) -> ListedRun:
    """In one minute there is only one; needs the scope `scheduler:write`."""
    creation = await service.fire_schedule(pool, user_id, schedule_id)
    note_creation(response, creation, f"/v1/job-runs/{creation.row.id}")
    return ListedRun.model_validate(creation.row)


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
        most=query.limit,
    )
    return RunPage.model_validate(page)


@runs.get("/upcoming", operation_id="list_upcoming", summary="Show what is coming, the soonest first")
async def list_upcoming(query: Annotated[UpcomingQuery, Query()], user_id: Reader, pool: Opened) -> UpcomingRuns:
    """Open runs, and the next firing of each schedule that has none yet; needs the scope `scheduler:read`."""
    found = await service.list_upcoming(pool, user_id, most=query.limit)
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
    page = await service.list_transitions(pool, user_id, run_id, place=query.next, most=query.limit)
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
        most=query.limit,
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
    more = {"says": rule.sentence(zone), "firings": shown_firings(schedule, at, rule.zone_for(zone))}
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
