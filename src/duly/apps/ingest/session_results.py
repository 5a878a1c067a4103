"""What came of each session of a one-cycle run; `main.py` prints it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class SessionResult:
    """What came of a session, as a line of text, and whether the session was settled."""

    text: str
    is_settled: bool = True


LEASE_LOST = SessionResult(
    "lease lost: it expired, or another worker claimed the session; nothing was written", is_settled=False
)
RELEASED = SessionResult("released: the worker is stopping; the session can be claimed again", is_settled=False)


@dataclass
class SessionResults:
    """The results of one cycle, by session; a claimed session counts as lost until another result is recorded."""

    by_session: dict[UUID, SessionResult] = field(default_factory=dict[UUID, SessionResult])

    def record(self, session_id: UUID, result: SessionResult) -> None:
        """Record the result of a session; a later one replaces it."""
        self.by_session[session_id] = result

    @property
    def lines(self) -> list[str]:
        """One line for each session."""
        return [f"session {key}: {result.text}" for key, result in self.by_session.items()]

    @property
    def is_settled(self) -> bool:
        """Whether every session was settled."""
        return all(result.is_settled for result in self.by_session.values())


def recorded_result(result: Mapping[str, Any]) -> SessionResult:
    """Return the result of a session that was read and recorded, from its `result` column."""
    day, version, source = result["schedule_date"], result["version"], f"input: {result['input']}"
    others = format_other_days(result)
    if result["outcome"] == "unchanged":
        return SessionResult(f"{day} unchanged, still version {version} ({source}){others}")
    counts = f"{result['events']} events, {result['notifications']} messages"
    return SessionResult(f"{day} version {version} written ({counts}, {source}){others}")


def format_other_days(result: Mapping[str, Any]) -> str:
    """Format what became of the other days in the photographs, after semicolons; empty when they show one day."""
    further = [f"{day['schedule_date']} became session {day['session_id']}" for day in result.get("further_days") or ()]
    empty = [f"{day} shows no shift and was left unchanged" for day in result.get("empty_days") or ()]
    return "".join(f"; {', '.join(days)}" for days in (further, empty) if days)
