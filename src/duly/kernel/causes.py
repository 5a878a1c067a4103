"""Why did this not happen? The first cause that holds is told, in one sentence.

Every domain looks once at everything that could be the reason (its `explain.sql`), and has its causes in order: each a
reason for programs, when it holds, and its sentence for people.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Generic, TypeVar

__all__ = ["ALIVE_SECONDS", "Cause", "find_cause", "in_zone"]

ALIVE_SECONDS = 30.0  # a worker says every 10 s that it is there

Reason = TypeVar("Reason")
Situation = TypeVar("Situation")


@dataclass(frozen=True, slots=True)
class Cause(Generic[Reason, Situation]):
    """One reason: when it holds, and its sentence."""

    reason: Reason
    holds: Callable[[Situation], bool]
    tell: Callable[[Situation], str]


def find_cause(causes: Sequence[Cause[Reason, Situation]], situation: Situation) -> Cause[Reason, Situation]:
    """The first that holds; the last of them always does."""
    return next(cause for cause in causes if cause.holds(situation))


def in_zone(row: Mapping[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """What was seen, with its times in a zone; None is the machine's."""
    return {name: value.astimezone(zone) if isinstance(value, datetime) else value for name, value in row.items()}
