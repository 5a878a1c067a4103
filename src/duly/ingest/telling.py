# ruff: noqa: RUF001 (the commas and colons of Chinese)
"""What whoever sent screenshots hears where no message about a day says it: why they could not be read, or no change.

These words go to the outbox, in the transaction that ends the session: one message for a session, in the person's
language. Why something could not be read is told as the session has it, in English.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from uuid import UUID

__all__ = ["News", "failed", "unchanged"]

LONGEST_WHY = 1000  # characters: the session has the rest

FAILED: Mapping[str, str] = {
    "en": "Your screenshots could not be read, and nothing was changed:\n{why}",
    "sv": "Dina skärmbilder kunde inte läsas, och ingenting är ändrat:\n{why}",
    "zh": "无法识别您的截图，日程没有改动：\n{why}",
}
UNCHANGED: Mapping[str, str] = {
    "en": "Your screenshots are read: nothing changed on {day}.",
    "sv": "Dina skärmbilder är lästa: ingenting är ändrat den {day}.",
    "zh": "您的截图已识别：{day} 没有变化。",
}


@dataclass(frozen=True, slots=True)
class News:
    """What came of a session, in every language there is; whether only those who sent it by a bot want to hear it."""

    session_id: UUID
    kind: str
    texts: Mapping[str, str]
    is_for_bots: bool = False


def failed(session_id: UUID, why: str) -> News:
    """It could not be read."""
    told = why if len(why) <= LONGEST_WHY else f"{why[:LONGEST_WHY]}…"
    return News(session_id, "capture.failed", {name: words.format(why=told) for name, words in FAILED.items()})


def unchanged(session_id: UUID, day: date) -> News:
    """It was read, and there is nothing to tell of its day: a bot has promised to say even that."""
    texts = {name: words.format(day=day.isoformat()) for name, words in UNCHANGED.items()}
    return News(session_id, "capture.unchanged", texts, is_for_bots=True)
