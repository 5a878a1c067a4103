"""Explain in one sentence why something has not happened: the first cause that applies.

Every domain fetches everything that could be the reason in one query (its `explain.sql`), and lists its causes in
order: each has a reason for programs, a condition, and a sentence for people.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Generic, Protocol, TypeVar

from duly.formatting import format_time, pluralize

ALIVE_SECONDS = 30.0  # a worker writes its `seen_at` every 10 s
MAX_AHEAD = 10_000  # rows ahead are counted up to this number
MAX_NAMED = 3
LOCKED = (
    "another transaction has its row locked: claims and sweeps skip it until that transaction ends; to list open "
    "transactions: duly doctor"
)


class Observation(Protocol):
    """A row and everything that could delay it, read at one time."""

    @property
    def observed_at(self) -> datetime:
        """When it was read."""
        ...


Reason = TypeVar("Reason")
Situation = TypeVar("Situation", bound=Observation)


@dataclass(frozen=True, slots=True)
class Cause(Generic[Reason, Situation]):
    """A reason, the condition under which it applies, and the sentence that describes it."""

    reason: Reason
    applies: Callable[[Situation], bool]
    describe: Callable[[Situation], str]


@dataclass(frozen=True, slots=True)
class Explanation(Generic[Reason]):
    """A reason for programs and a sentence for people, both true at `observed_at`."""

    id: object
    status: str
    reason: Reason
    sentence: str
    observed_at: datetime


def find_explanation(
    causes: Sequence[Cause[Reason, Situation]], row_id: object, status: str, situation: Situation
) -> Explanation[Reason]:
    """Describe the first cause that applies; the last one always does."""
    cause = next(cause for cause in causes if cause.applies(situation))
    return Explanation(row_id, status, cause.reason, cause.describe(situation), situation.observed_at.astimezone(UTC))


def convert_times(row: Mapping[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """Convert the times of a row to a zone; None is the machine's."""
    return {name: value.astimezone(zone) if isinstance(value, datetime) else value for name, value in row.items()}


# Phrases that every domain uses ---------------------------------------------------------------------------------------


def format_ahead(ahead: int, one: str, many: str) -> str:
    """Format the number of rows ahead, which is counted up to MAX_AHEAD."""
    if ahead > MAX_AHEAD:
        return f"more than {MAX_AHEAD} {many} go first"
    return pluralize(ahead, f"{one} goes first", f"{many} go first")


def format_live_workers(number: int) -> str:
    """Format the number of live workers."""
    return pluralize(number, "live worker", "live workers")


def describe_missing_holder(holder: str, until: datetime | None, seen_at: datetime | None) -> str:
    """Begin the sentence about a lease holder that is no longer in the list of live workers."""
    return (
        f"{holder} holds the lease until {format_time(until)}, but is gone: last seen at {format_time(seen_at)}. "
        "When the lease expires,"
    )


def describe_no_worker(stopping: Sequence[str], qualifier: str = "") -> str:
    """Describe that no worker claims new rows; `qualifier` tells which one is missing."""
    if not stopping:
        return f"no worker is alive{qualifier}"
    return f"no worker is alive{qualifier} ({format_names(stopping)} is stopping and claims nothing new)"


def format_names(names: Sequence[str]) -> str:
    """List the first few names, and how many more there are."""
    parts = list(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        parts.append(f"{len(names) - MAX_NAMED} more")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
