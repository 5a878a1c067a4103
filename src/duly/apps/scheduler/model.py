"""Schedules, runs, answers and expenses, as values.

`job_id`, `job_run_id` and `first_run_at` are names of the contract: in our code a job is a schedule, `schedule_id`, and
`first_run_at` is a bound: the rule does not fire before it, and the first run is its first firing at or after it.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial
from typing import Any

from duly.apps.scheduler.reasons import ClosingReason
from duly.apps.scheduler.rule import parse_rule
from duly.canonical_json import digest
from duly.errors import InvalidArgument
from duly.tracebacks import UNSTORABLE

BEGINNING, END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)  # every stored time is in between
MAX_ID = 2**63 - 1
MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_KEY_LENGTH, MAX_NOTE_LENGTH = 120, 500, 120, 500
MAX_ADVANCE_MINUTES = 10_080
MAX_SNOOZE_MINUTES = 10_080
MAX_AMOUNT_LENGTH, MAX_DIGITS, MAX_PLACES = 64, 14, 6
AMOUNT = re.compile(rf"\d{{1,{MAX_DIGITS}}}(\.\d{{1,{MAX_PLACES}}})?")
CHANNEL = re.compile(r"[a-z][a-z0-9_]{0,31}")


class ScheduleStatus(StrEnum):
    """The status of a schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    ARCHIVED = "archived"


class RunStatus(StrEnum):
    """The status of a run; the last three are final."""

    PENDING = "pending"
    SENT = "sent"
    SNOOZED = "snoozed"
    CONFIRMED = "confirmed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether it can still be answered."""
        return self in (RunStatus.PENDING, RunStatus.SENT, RunStatus.SNOOZED)


class Action(StrEnum):
    """The answers to a run."""

    COMPLETE = "complete"
    SKIP = "skip"
    SNOOZE = "snooze"
    CANCEL = "cancel"


class CatchUp(StrEnum):
    """Which periods that were missed while no worker planned send a reminder after all; those of a pause never do."""

    LATEST = "latest"
    ALL = "all"  # at most the latest hundred
    NONE = "none"


# Requests -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpenseTemplate:
    """The expense that confirming a run books."""

    amount: Decimal
    currency: str
    category: str | None = None
    merchant: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", to_amount("expense.amount", self.amount))
        check_currency("expense.currency", self.currency)
        check_text("expense.category", self.category, MAX_NAME_LENGTH)
        check_text("expense.merchant", self.merchant, MAX_NAME_LENGTH)
        check_text("expense.note", self.note, MAX_NOTE_LENGTH)


@dataclass(frozen=True)
class NewSchedule:
    """A schedule to create; validated on construction."""

    name: str
    rule: str
    first_run_at: datetime | None = None  # the rule does not fire before this; None: when it is created
    description: str | None = None
    advance_minutes: int = 0
    channel: str = "telegram"
    catch_up: CatchUp = CatchUp.LATEST
    expense: ExpenseTemplate | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidArgument(f"name: is required, with at most {MAX_NAME_LENGTH} characters")
        check_text("name", self.name, MAX_NAME_LENGTH)
        check_text("description", self.description, MAX_DESCRIPTION_LENGTH)
        parse_rule(self.rule)
        if self.first_run_at:
            check_first_run_at(self.first_run_at)
        if not 0 <= self.advance_minutes <= MAX_ADVANCE_MINUTES:
            raise InvalidArgument(
                f"advance_minutes: must be between 0 and {MAX_ADVANCE_MINUTES} (a week), not {self.advance_minutes}"
            )
        if not CHANNEL.fullmatch(self.channel):
            raise InvalidArgument(f"channel: must be a name such as telegram or console, not {self.channel!r}")

    @property
    def digest(self) -> bytes:
        """The digest of the request, to detect another request under the same idempotency key."""
        first_run_at = self.first_run_at.astimezone(UTC).isoformat() if self.first_run_at else None
        expense = {**asdict(self.expense), "amount": str(self.expense.amount)} if self.expense else None
        return digest({**asdict(self), "first_run_at": first_run_at, "expense": expense})


@dataclass(frozen=True)
class Answer:
    """An answer to a run, with the idempotency key that makes repeated requests one answer."""

    action: Action
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not self.key:
            raise InvalidArgument(f"idempotency_key: is required, with at most {MAX_KEY_LENGTH} characters")
        check_text("idempotency_key", self.key, MAX_KEY_LENGTH)
        allowed = PAYLOAD_FIELDS[self.action]
        for name, value in self.payload.items():
            if name not in allowed:
                valid = f"; valid: {', '.join(f'payload.{each}' for each in allowed)}" if allowed else ""
                raise InvalidArgument(f"payload.{name}: does not go with {self.action}{valid}")
            allowed[name](f"payload.{name}", value)


# Stored values --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """A schedule."""

    id: int
    user_id: int
    uid: str
    zone: str  # of the user
    name: str
    description: str | None
    rule: str
    first_run_at: datetime  # the rule does not fire before this
    advance_minutes: int
    channel: str
    status: ScheduleStatus
    catch_up: CatchUp
    created_at: datetime
    updated_at: datetime
    next_at: datetime | None  # the first firing that has no run
    plan_error: str | None
    expense: Mapping[str, Any] | None


@dataclass(frozen=True)
class Run:
    """One period of a schedule."""

    id: int
    schedule_id: int
    name: str
    period_key: str
    scheduled_at: datetime
    status: RunStatus
    remind_at: datetime | None
    sent_at: datetime | None
    reason: str | None  # why it was closed, or a note: see reasons.py
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class DueRun:
    """A run whose reminder is due, with everything that the reminder contains."""

    id: int
    schedule_id: int
    scheduled_at: datetime
    remind_at: datetime
    period_key: str
    name: str
    description: str | None
    channel: str
    uid: str
    zone: str
    language: str
    send_at: datetime  # after the user's quiet hours
    missed_reason: ClosingReason | None  # why no reminder is sent
    expense: Mapping[str, Any] | None


@dataclass(frozen=True)
class MissedPeriod:
    """A missed period without a run, because more were missed than get runs."""

    schedule_id: int
    period_key: str
    scheduled_at: datetime
    reason: ClosingReason


@dataclass(frozen=True)
class Upcoming:
    """An open run, or the next firing of a schedule that has no run yet."""

    user_id: int
    schedule_id: int
    name: str
    channel: str
    job_run_id: int | None
    period_key: str | None
    scheduled_at: datetime
    remind_at: datetime | None
    status: str | None


@dataclass(frozen=True)
class Receipt:
    """What an answer did."""

    confirmation_id: int
    job_run_id: int
    schedule_id: int
    period_key: str
    action: Action
    idempotency_key: str
    confirmed_at: datetime
    remind_at: datetime | None = None
    expense: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Expense:
    """A booked expense."""

    id: int
    user_id: int
    name: str
    amount: Decimal
    currency: str
    category: str | None
    merchant: str | None
    note: str | None
    occurred_at: datetime
    source_ref: str
    reverses: int | None
    created_at: datetime


@dataclass(frozen=True)
class Reminder:
    """A message that was sent about a run."""

    id: int
    job_run_id: int
    sent_at: datetime
    payload: Mapping[str, Any]


def parse_receipt(receipt: Mapping[str, Any]) -> Receipt:
    """Return a receipt that the database wrote as JSON, where a schedule's id is `job_id`."""
    times = {name: datetime.fromisoformat(receipt[name]) for name in ("confirmed_at", "remind_at") if name in receipt}
    fields = {name: value for name, value in receipt.items() if name != "job_id"}
    return replace(Receipt(schedule_id=receipt["job_id"], **fields), action=Action(receipt["action"]), **times)


# Checks ---------------------------------------------------------------------------------------------------------------


def check_text(field_name: str, text: object, max_length: int) -> None:
    """Raise InvalidArgument unless the value is None or a text that the database can store."""
    if text is None:
        return
    if not isinstance(text, str) or not 1 <= len(text) <= max_length or UNSTORABLE.search(text):
        raise InvalidArgument(f"{field_name}: must be a text of 1 to {max_length} characters, without NUL")


def check_first_run_at(at: datetime) -> None:
    """Raise InvalidArgument unless the time has an offset and is in the years that the database stores."""
    if at.tzinfo is None:
        raise InvalidArgument(f"first_run_at: must have a UTC offset, for example {at.isoformat()}Z")
    if not 2000 <= at.astimezone(UTC).year < 2200:
        raise InvalidArgument(f"first_run_at: must be in the years 2000 to 2199, not {at}")


def to_amount(field_name: str, amount: object) -> Decimal:
    """Return an amount, not negative and with at most six decimal places; InvalidArgument otherwise."""
    try:
        text = str(amount)
    except ValueError:
        text = "a number of thousands of digits"  # longer than Python converts
    number = None if isinstance(amount, bool) else try_parse_amount(text)
    if number is None:
        raise InvalidArgument(f"{field_name}: must be an amount such as 9.99, not {text[:40]!r}")
    return number


def try_parse_amount(text: str) -> Decimal | None:
    """Parse an amount; None when the text is none.

    The magnitude is checked before the number is written out: a dozen characters can denote gigabytes of digits.
    """
    try:
        number = Decimal(text if len(text) <= MAX_AMOUNT_LENGTH else "NaN")
    except (ValueError, InvalidOperation):
        return None
    if not number.is_finite() or number.adjusted() >= MAX_DIGITS or -int(number.as_tuple().exponent) > MAX_PLACES:
        return None
    return number if AMOUNT.fullmatch(format(number, "f")) else None


def check_currency(field_name: str, currency: object) -> None:
    """Raise InvalidArgument unless the value is three capital letters."""
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Z]{3}", currency):
        raise InvalidArgument(f"{field_name}: must be three capital letters such as EUR, not {str(currency)[:40]!r}")


def check_minutes(field_name: str, minutes: object) -> None:
    """Raise InvalidArgument unless the value is a valid snooze time."""
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= MAX_SNOOZE_MINUTES:
        raise InvalidArgument(
            f"{field_name}: must be a number of minutes from 1 to {MAX_SNOOZE_MINUTES}, not {minutes!r}"
        )


PAYLOAD_FIELDS: Mapping[Action, Mapping[str, Any]] = {
    Action.COMPLETE: {
        "amount": to_amount,
        "currency": check_currency,
        "category": partial(check_text, max_length=MAX_NAME_LENGTH),
        "merchant": partial(check_text, max_length=MAX_NAME_LENGTH),
        "note": partial(check_text, max_length=MAX_NOTE_LENGTH),
    },
    Action.SKIP: {},
    Action.SNOOZE: {"minutes": check_minutes},
    Action.CANCEL: {},
}
