"""Schedules, runs, answers and entries, as values."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from duly.apps.scheduler.rule import parse_rule
from duly.canonical_json import digest
from duly.errors import InvalidArgument
from duly.outcomes import UNSTORABLE

__all__ = [
    "MAX_KEY_LENGTH",
    "Action",
    "Answer",
    "CatchUp",
    "DueRun",
    "Expense",
    "ExpenseTemplate",
    "Missed",
    "NewSchedule",
    "Receipt",
    "Reminder",
    "Run",
    "RunStatus",
    "Schedule",
    "Status",
    "Upcoming",
    "checked_text",
]

MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_KEY_LENGTH, LONGEST_NOTE = 120, 500, 120, 500
MAX_ADVANCE_MINUTES = 10_080
MAX_SNOOZE_MINUTES = 10_080
MAX_AMOUNT_LENGTH, MAX_DIGITS, MAX_PLACES = 64, 14, 6
AMOUNT = re.compile(rf"\d{{1,{MAX_DIGITS}}}(\.\d{{1,{MAX_PLACES}}})?")
CHANNEL = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Status(StrEnum):
    """Where a schedule is."""

    ACTIVE = "active"
    PAUSED = "paused"
    ARCHIVED = "archived"


class RunStatus(StrEnum):
    """Where a run is; the last three are ends."""

    PENDING = "pending"
    SENT = "sent"
    SNOOZED = "snoozed"
    CONFIRMED = "confirmed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Can it still be answered?"""
        return self in (RunStatus.PENDING, RunStatus.SENT, RunStatus.SNOOZED)


class Action(StrEnum):
    """What a person may answer."""

    COMPLETE = "complete"
    SKIP = "skip"
    SNOOZE = "snooze"
    CANCEL = "cancel"


class CatchUp(StrEnum):
    """Of periods that were missed: which are reminded of after all."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


# What is asked for ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpenseTemplate:
    """What is booked when a run is confirmed."""

    amount: Decimal
    currency: str
    category: str | None = None
    merchant: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", checked_amount("expense.amount", self.amount))
        checked_currency("expense.currency", self.currency)
        checked_text("expense.category", self.category, MAX_NAME_LENGTH)
        checked_text("expense.merchant", self.merchant, MAX_NAME_LENGTH)
        checked_text("expense.note", self.note, LONGEST_NOTE)


@dataclass(frozen=True)
class NewSchedule:
    """A schedule that somebody wants; checked when it is made."""

    name: str
    rule: str
    first_run_at: datetime
    description: str | None = None
    advance_minutes: int = 0
    channel: str = "telegram"
    catch_up: CatchUp = CatchUp.LATEST
    expense: ExpenseTemplate | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidArgument(f"name: must be there, with at most {MAX_NAME_LENGTH} characters")
        checked_text("name", self.name, MAX_NAME_LENGTH)
        checked_text("description", self.description, MAX_DESCRIPTION_LENGTH)
        parse_rule(self.rule)
        if self.first_run_at.tzinfo is None:
            raise InvalidArgument(f"first_run_at: must say its zone, for example {self.first_run_at.isoformat()}Z")
        if not 2000 <= self.first_run_at.astimezone(UTC).year < 2200:
            raise InvalidArgument(f"first_run_at: must lie in the years 2000 to 2199, not {self.first_run_at}")
        if not 0 <= self.advance_minutes <= MAX_ADVANCE_MINUTES:
            raise InvalidArgument(
                f"advance_minutes: must be between 0 and {MAX_ADVANCE_MINUTES}, which is a week; "
                f"not {self.advance_minutes}"
            )
        if not CHANNEL.fullmatch(self.channel):
            raise InvalidArgument(f"channel: must be a name such as telegram or console, not {self.channel!r}")

    @property
    def digest(self) -> bytes:
        """What the request was, for telling the same from another under the same key."""
        return digest({**asdict(self), "first_run_at": self.first_run_at.astimezone(UTC).isoformat()} | amounts(self))


def amounts(wanted: NewSchedule) -> dict[str, Any]:
    """The template as JSON can say it."""
    return {"expense": {**asdict(wanted.expense), "amount": str(wanted.expense.amount)}} if wanted.expense else {}


@dataclass(frozen=True)
class Answer:
    """What somebody answers, with the key that makes it one answer however often it comes."""

    action: Action
    key: str
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not self.key:
            raise InvalidArgument(f"idempotency_key: must be there, with at most {MAX_KEY_LENGTH} characters")
        checked_text("idempotency_key", self.key, MAX_KEY_LENGTH)
        allowed = GIVEN[self.action]
        for name, value in self.given.items():
            if name not in allowed:
                there = f"there are {', '.join(allowed)}" if allowed else "there is nothing to say besides"
                raise InvalidArgument(f"payload.{name}: is not known for {self.action}; {there}")
            allowed[name](f"payload.{name}", value)


# What there is --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """A schedule as it is."""

    id: int
    user_id: int
    uid: str
    zone: str  # of the person
    name: str
    description: str | None
    rule: str
    first_run_at: datetime
    advance_minutes: int
    channel: str
    status: Status
    catch_up: CatchUp
    created_at: datetime
    updated_at: datetime
    next_at: datetime | None  # the first firing without a run
    plan_error: str | None
    expense: Mapping[str, Any] | None


@dataclass(frozen=True)
class Run:
    """One period of a schedule."""

    id: int
    job_id: int
    name: str
    period_key: str
    scheduled_at: datetime
    status: RunStatus
    remind_at: datetime | None
    sent_at: datetime | None
    reason: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class DueRun:
    """A run whose reminder is due, with all that it says."""

    id: int
    job_id: int
    scheduled_at: datetime
    remind_at: datetime
    period_key: str
    name: str
    description: str | None
    channel: str
    uid: str
    zone: str
    language: str
    tell_at: datetime  # when they may be written to
    skipped: str | None  # why nobody is reminded of it
    expense: Mapping[str, Any] | None


@dataclass(frozen=True)
class Missed:
    """A missed period that has no run of its own, because very many were missed."""

    job_id: int
    period_key: str
    scheduled_at: datetime
    reason: str


@dataclass(frozen=True)
class Upcoming:
    """What is coming: an open run, or a firing that has none yet."""

    user_id: int
    job_id: int
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
    job_id: int
    period_key: str
    action: Action
    idempotency_key: str
    confirmed_at: datetime
    remind_at: datetime | None = None
    expense: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Expense:
    """An entry of the books."""

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
    """A message that went out about a run."""

    id: int
    job_run_id: int
    sent_at: datetime
    payload: Mapping[str, Any]


# Checks ---------------------------------------------------------------------------------------------------------------


def checked_text(place: str, text: object, max_length: int) -> None:
    """A text that can be kept, or None; anything else is refused."""
    if text is None:
        return
    if not isinstance(text, str) or not 1 <= len(text) <= max_length or UNSTORABLE.search(text):
        raise InvalidArgument(f"{place}: must be a text of 1 to {max_length} characters, without NUL")


def checked_name(place: str, text: object) -> None:
    """A short text, or None."""
    checked_text(place, text, MAX_NAME_LENGTH)


def checked_note(place: str, text: object) -> None:
    """A longer text, or None."""
    checked_text(place, text, LONGEST_NOTE)


def checked_amount(place: str, amount: object) -> Decimal:
    """An amount: not negative, six places after the point at most."""
    try:
        text = str(amount)
    except ValueError:
        text = "a number of thousands of digits"  # Python writes no longer ones
    number = None if isinstance(amount, bool) else find_amount(text)
    if number is None:
        raise InvalidArgument(f"{place}: must be an amount such as 9.99, not {text[:40]!r}")
    return number


def find_amount(text: str) -> Decimal | None:
    """The amount that a text says; None when it is none.

    Its size is looked at before it is written out: a dozen characters can name a number of gigabytes.
    """
    try:
        number = Decimal(text if len(text) <= MAX_AMOUNT_LENGTH else "NaN")
    except (ValueError, InvalidOperation):
        return None
    if not number.is_finite() or number.adjusted() >= MAX_DIGITS or -int(number.as_tuple().exponent) > MAX_PLACES:
        return None
    return number if AMOUNT.fullmatch(format(number, "f")) else None


def checked_currency(place: str, currency: object) -> None:
    """Three capital letters."""
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Z]{3}", currency):
        raise InvalidArgument(f"{place}: must be three capital letters such as EUR, not {str(currency)[:40]!r}")


def checked_minutes(place: str, minutes: object) -> None:
    """How long to wait."""
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= MAX_SNOOZE_MINUTES:
        raise InvalidArgument(f"{place}: must be a number of minutes from 1 to {MAX_SNOOZE_MINUTES}, not {minutes!r}")


GIVEN: Mapping[Action, Mapping[str, Any]] = {
    Action.COMPLETE: {
        "amount": checked_amount,
        "currency": checked_currency,
        "category": checked_name,
        "merchant": checked_name,
        "note": checked_note,
    },
    Action.SKIP: {},
    Action.SNOOZE: {"minutes": checked_minutes},
    Action.CANCEL: {},
}
