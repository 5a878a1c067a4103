"""Why runs end without an answer: the database stores codes, and what people read is translated from them.

`scheduler.job_runs.reason` is a code, a note about the run, or both: `SUPERSEDED; period key 2026-11 belongs to …`.
"""

from enum import StrEnum

from duly.apps.scheduler.messages import DEFAULT_LANGUAGE, translate

SEPARATOR = "; "  # as in the statements close_missed_runs and supersede_reminders


class ClosingReason(StrEnum):
    """Why a run ended without an answer; all but the first two are reasons why it was missed."""

    ARCHIVED = "ARCHIVED"
    RULE_CHANGED = "RULE_CHANGED"
    PAUSED = "PAUSED"
    DUE_BEFORE_PAUSE = "DUE_BEFORE_PAUSE"
    TOO_LATE = "TOO_LATE"
    SUPERSEDED = "SUPERSEDED"
    TOO_MANY = "TOO_MANY"


def parse_reason(text: str) -> ClosingReason | None:
    """Return the reason that a code stands for; None for any other text."""
    return ClosingReason(text) if text in set(ClosingReason) else None


def describe_reason(stored: str | None, language: str = DEFAULT_LANGUAGE) -> str:
    """Describe a stored reason in a language; notes stay as they are."""
    if not stored:
        return translate(language, "reason.unknown")
    parts = [(part, parse_reason(part)) for part in stored.split(SEPARATOR)]
    return SEPARATOR.join(translate(language, f"reason.{reason}") if reason else part for part, reason in parts)
