"""Why runs end without an answer: a code for each reason, and the text that is stored in `scheduler.job_runs.reason`.

Triggers and views of the database write some of these texts, so a stored text never changes. What people read is
translated by code, see `messages.py`.
"""

from collections.abc import Mapping
from enum import StrEnum


class ClosingReason(StrEnum):
    """Why a run ended without an answer."""

    ARCHIVED = "archived"
    PAUSED = "paused"
    DUE_BEFORE_PAUSE = "due_before_pause"
    NO_WORKER = "no_worker"
    SUPERSEDED = "superseded"
    TOO_MANY_LATER = "too_many_later"

    @property
    def stored_text(self) -> str:
        """The text that rows have."""
        return STORED_TEXTS[self]


STORED_TEXTS: Mapping[ClosingReason, str] = {
    ClosingReason.ARCHIVED: "the schedule was archived",
    ClosingReason.PAUSED: "missed: the schedule was paused",
    ClosingReason.DUE_BEFORE_PAUSE: "missed: due before the pause",
    ClosingReason.NO_WORKER: "missed: nobody was there to remind of it",
    ClosingReason.SUPERSEDED: "missed: a later one has come",
    ClosingReason.TOO_MANY_LATER: "missed: a hundred later ones have come",
}
REASONS = {text: reason for reason, text in STORED_TEXTS.items()}


def find_reason(stored_text: str) -> ClosingReason | None:
    """Return the reason of a stored text; None for a text that was not written by duly."""
    return REASONS.get(stored_text)
