"""Why did this not happen? The first cause that holds is told, in one sentence.

Every domain looks once at everything that could be the reason (its `explain.sql`), and has its causes in order: each a
reason for programs, when it holds, and its sentence for people.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Generic, Protocol, TypeVar

from duly.formatting import counted, when

__all__ = [
    "ALIVE_SECONDS",
    "LOCKED",
    "MAX_COUNTED",
    "Cause",
    "Explanation",
    "explained",
    "go_first",
    "holder_gone",
    "in_zone",
    "live_workers",
    "names",
    "no_worker",
]

ALIVE_SECONDS = 30.0  # a worker says every 10 s that it is there
MAX_COUNTED = 10_000  # of those that go first
MAX_NAMED = 3
LOCKED = (
    "another transaction has its row locked this instant: claims and sweeps pass over it until that ends; open "
    "transactions are named by: duly doctor"
)


class Looked(Protocol):
    """A row and what stands around it, as it was seen."""

    @property
    def looked_at(self) -> datetime:
        """When."""
        ...


Reason = TypeVar("Reason")
Situation = TypeVar("Situation", bound=Looked)


@dataclass(frozen=True, slots=True)
class Cause(Generic[Reason, Situation]):
    """One reason: when it holds, and its sentence."""

    reason: Reason
    holds: Callable[[Situation], bool]
    tell: Callable[[Situation], str]


@dataclass(frozen=True, slots=True)
class Explanation(Generic[Reason]):
    """The reason for programs, and the sentence for people; true at the time it was looked at."""

    id: object
    status: str
    reason: Reason
    sentence: str
    looked_at: datetime


def explained(
    causes: Sequence[Cause[Reason, Situation]], key: object, status: str, situation: Situation
) -> Explanation[Reason]:
    """The first cause that holds, told; the last of them always does."""
    cause = next(cause for cause in causes if cause.holds(situation))
    return Explanation(key, status, cause.reason, cause.tell(situation), situation.looked_at.astimezone(UTC))


def in_zone(row: Mapping[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """What was seen, with its times in a zone; None is the machine's."""
    return {name: value.astimezone(zone) if isinstance(value, datetime) else value for name, value in row.items()}


# What every domain says -----------------------------------------------------------------------------------------------


def go_first(ahead: int, one: str, many: str) -> str:
    """How many go first, as far as we count."""
    if ahead > MAX_COUNTED:
        return f"more than {MAX_COUNTED} {many} go first"
    return counted(ahead, f"{one} goes first", f"{many} go first")


def live_workers(number: int) -> str:
    """How many are there."""
    return counted(number, "live worker", "live workers")


def holder_gone(holder: str, until: datetime | None, seen_at: datetime | None) -> str:
    """Whoever holds it is not there, as far as the list of workers tells."""
    return (
        f"{holder} holds it until {when(until)}, but is not there any more: it was last seen at {when(seen_at)}. When "
        "the lease ends,"
    )


def no_worker(stopping: Sequence[str], does: str = "") -> str:
    """Nobody works, or who does takes nothing new; `does` says what a worker would have to do."""
    if not stopping:
        return f"no worker is alive{does}"
    return f"no worker is alive{does} ({names(stopping)} is stopping, and takes nothing new)"


def names(several: Sequence[str]) -> str:
    """The first few names, and how many more."""
    shown = list(several[:MAX_NAMED])
    if len(several) > MAX_NAMED:
        shown.append(f"{len(several) - MAX_NAMED} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
