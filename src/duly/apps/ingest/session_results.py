"""How each session of one cycle ended, in a sentence for whoever started it: `main.py` prints them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

__all__ = ["Ending", "Endings", "other_days_in_words", "written"]


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of a session; whether the cycle did what it was started for."""

    text: str
    is_done: bool = True


LOST = Ending("lease lost: it ran out, or another worker took the session; nothing was written", is_done=False)
HANDED_BACK = Ending("handed back: the worker had to stop; the session can be claimed again", is_done=False)


@dataclass
class Endings:
    """Sessions of one cycle: one that was claimed is lost until something is known to have come of it."""

    by_session: dict[UUID, Ending] = field(default_factory=dict[UUID, Ending])

    def note(self, session_id: UUID, ending: Ending) -> None:
        """Remember how a session ended; what is noted last counts."""
        self.by_session[session_id] = ending

    @property
    def lines(self) -> list[str]:
        """One line for each session."""
        return [f"session {key}: {ending.text}" for key, ending in self.by_session.items()]

    @property
    def is_done(self) -> bool:
        """Did every session come to an end of its own?"""
        return all(ending.is_done for ending in self.by_session.values())


def written(result: Mapping[str, Any]) -> Ending:
    """The end of a session that was read."""
    day, version, source = result["schedule_date"], result["version"], f"input: {result['input']}"
    others = other_days_in_words(result)
    if result["outcome"] == "unchanged":
        return Ending(f"{day} unchanged, still version {version} ({source}){others}")
    counts = f"{result['events']} events, {result['notifications']} messages"
    return Ending(f"{day} version {version} written ({counts}, {source}){others}")


def other_days_in_words(result: Mapping[str, Any]) -> str:
    """What became of the other days that photographs show, after semicolons; nothing when they show one day."""
    further = [f"{day['schedule_date']} became session {day['session_id']}" for day in result.get("further_days") or ()]
    empty = [f"{day} shows no shift and stayed as known" for day in result.get("empty_days") or ()]
    return "".join(f"; {', '.join(words)}" for words in (further, empty) if words)
