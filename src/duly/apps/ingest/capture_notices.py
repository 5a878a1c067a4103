"""What whoever sent screenshots hears where no message about a day says it: why they could not be read, that they show
several days, or no change.

These words go to the outbox, in the transaction that ends the session: one message for a session, in the person's
language. Why something could not be read is told as the session has it, in English.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from duly.apps.ingest.words import LANGUAGES, WORDS, say

__all__ = ["News", "failed", "several", "unchanged"]

MAX_WHY_LENGTH = 1000  # characters: the session has the rest


@dataclass(frozen=True, slots=True)
class News:
    """What came of a session, in every language there is; whether only those who sent it by a bot want to hear it."""

    session_id: UUID
    kind: str
    texts: Mapping[str, str]
    is_for_bots: bool = False


def failed(session_id: UUID, why: str) -> News:
    """It could not be read."""
    told = why if len(why) <= MAX_WHY_LENGTH else f"{why[:MAX_WHY_LENGTH]}…"
    return News(session_id, "capture.failed", {name: say(name, "failed", why=told) for name in LANGUAGES})


def unchanged(session_id: UUID, day: date) -> News:
    """It was read, and there is nothing to tell of its day: a bot has promised to say even that."""
    texts = {name: say(name, "unchanged", day=day.isoformat()) for name in LANGUAGES}
    return News(session_id, "capture.unchanged", texts, is_for_bots=True)


def several(session_id: UUID, days: Sequence[date]) -> News:
    """It shows several days, each of which is compared by itself: a day that is as it was gets no message."""
    texts = {
        name: say(name, "several days", count=len(days), days=WORDS[name]["comma"].join(map(str, days)))
        for name in LANGUAGES
    }
    return News(session_id, "capture.several", texts, is_for_bots=True)
