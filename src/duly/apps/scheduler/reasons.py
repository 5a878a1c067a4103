"""Why runs end without an answer: the database stores codes, and what people read is translated from them.

`scheduler.job_runs.reason` is a code, a note about the run, or both: `SUPERSEDED; period key 2026-11 belongs to …`.
"""

from collections.abc import Mapping
from enum import StrEnum

from duly.apps.scheduler.messages import DEFAULT_LANGUAGE, translate

SEPARATOR = "; "  # as in the statement close_missed_runs


class ClosingReason(StrEnum):
    """Why a run ended without an answer; all but the first are reasons why it was missed."""

    ARCHIVED = "ARCHIVED"
    PAUSED = "PAUSED"
    DUE_BEFORE_PAUSE = "DUE_BEFORE_PAUSE"
    NO_WORKER = "NO_WORKER"
    SUPERSEDED = "SUPERSEDED"
    TOO_MANY_LATER = "TOO_MANY_LATER"


# The sentences of the function scheduler.cancel_open and of the view scheduler.due_runs, which have no codes yet.
TEXTS_IN_SCHEMA: Mapping[str, ClosingReason] = {
    "the schedule was archived": ClosingReason.ARCHIVED,
    "missed: nobody was there to remind of it": ClosingReason.NO_WORKER,
    "missed: a later one has come": ClosingReason.SUPERSEDED,
    "missed: a hundred later ones have come": ClosingReason.TOO_MANY_LATER,
}


def parse_reason(text: str) -> ClosingReason | None:
    """Return the reason that a code, or a sentence of the schema, stands for; None for any other text."""
    return ClosingReason(text) if text in set(ClosingReason) else TEXTS_IN_SCHEMA.get(text)


def describe_reason(stored: str | None, language: str = DEFAULT_LANGUAGE) -> str:
    """Describe a stored reason in a language; notes stay as they are."""
    if not stored:
        return translate(language, "reason.unknown")
    parts = [(part, parse_reason(part)) for part in stored.split(SEPARATOR)]
    return SEPARATOR.join(translate(language, f"reason.{reason}") if reason else part for part, reason in parts)
