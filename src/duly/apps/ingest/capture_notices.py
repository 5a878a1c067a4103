"""Notifications about a capture itself, for the person who sent its screenshots.

They say what no notification about a day says: why the screenshots could not be read, that they show several days, or
that nothing changed. They go to the outbox in the transaction that settles the session, at most one per session, in the
person's language. The reason of a failure is the session's error text, which is in English.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from duly.apps.ingest.messages import LANGUAGES, translate

MAX_REASON_LENGTH = 1000  # characters; the full text is in the session's error


@dataclass(frozen=True, slots=True)
class CaptureNotification:
    """An outbox message about a session, in every language."""

    session_id: UUID
    type: str
    texts: Mapping[str, str]
    is_for_bot_only: bool = False  # sent only when a bot uploaded the images


def capture_failed(session_id: UUID, reason: str) -> CaptureNotification:
    """Build the notification that a session could not be read."""
    short = reason if len(reason) <= MAX_REASON_LENGTH else f"{reason[:MAX_REASON_LENGTH]}…"
    texts = {language: translate(language, "capture_failed", reason=short) for language in LANGUAGES}
    return CaptureNotification(session_id, "capture.failed", texts)


def capture_unchanged(session_id: UUID, schedule_date: date) -> CaptureNotification:
    """Build the notification that a session was read and changed nothing."""
    day = schedule_date.isoformat()
    texts = {language: translate(language, "capture_unchanged", day=day) for language in LANGUAGES}
    return CaptureNotification(session_id, "capture.unchanged", texts, is_for_bot_only=True)


def several_days_captured(session_id: UUID, dates: Sequence[date]) -> CaptureNotification:
    """Build the notification that a session shows several days; days without a change get no other message."""
    texts = {
        language: translate(
            language,
            "capture_several_days",
            count=len(dates),
            days=translate(language, "list_separator").join(map(str, dates)),
        )
        for language in LANGUAGES
    }
    return CaptureNotification(session_id, "capture.several", texts, is_for_bot_only=True)
