"""A screenshot becomes a version of a day; a second one becomes a change and a message."""

import asyncio
from collections.abc import Sequence
from datetime import date
from uuid import UUID

from duly.apps.ingest.diff import ShiftChange
from duly.apps.ingest.explain import SessionSettings, explain, format_result
from duly.apps.ingest.model import CaptureSession, StoredNotification
from duly.apps.ingest.notifications import format_change
from duly.apps.ingest.service import Ingest
from duly.storage import clean_screenshot
from tools.demo.stage import Stage, Stuck

FIRST, SECOND = "day.png", "day-changed.png"
SESSION_SETTINGS = SessionSettings()


async def run_screenshots_chapter(stage: Stage) -> None:
    """Send a screenshot of a day, then a later one of the same day."""
    stage.narrator.say(f"Anna sends a screenshot of her Tuesday, fixtures/demo/{FIRST}, and a worker reads it:")
    first = await capture(stage, FIRST)
    day = session_date(first)
    stage.narrator.quote(await format_changes(stage, day, 0, 1))
    stage.narrator.say(f"So {format_result(first.result)}.")
    stage.narrator.command("ingest", "day", str(day), "--user", stage.anna.uid)
    stage.narrator.say(f"The schedule of that day changes, and she sends another, fixtures/demo/{SECOND}. The changes:")
    second = await capture(stage, SECOND)
    stage.narrator.quote(await format_changes(stage, day, 1, 2))
    stage.narrator.command("ingest", "diff", str(day), "1", "2", "--user", stage.anna.uid)
    message = await until_notified(stage, day, second.id)
    stage.narrator.say("She is notified on the console, because no other channel is configured:")
    stage.narrator.quote(stage.printed(message.notification_id))
    stage.narrator.command("ingest", "notifications", str(day), "--user", stage.anna.uid)
    stage.narrator.say("The day can be rebuilt from its events alone:")
    stage.narrator.command("ingest", "replay", str(day), "--user", stage.anna.uid)


async def capture(stage: Stage, picture: str) -> CaptureSession:
    """Upload a screenshot, and wait until a worker has read it."""
    sessions, user = ingest_of(stage).sessions, telegram_user_id(stage)
    data = (stage.pictures / picture).read_bytes()
    clean = await asyncio.to_thread(clean_screenshot, data)
    session = await sessions.create_session(user)
    await sessions.add_image(stage.objects, user, session.id, clean.data, clean.suffix)
    await sessions.close_session(user, session.id)

    async def fetch() -> CaptureSession | None:
        known = await sessions.get_session(user, session.id)
        if known.state == SESSION_SETTINGS.states.failed:
            raise Stuck(f"the screenshot {picture} was not read: {await describe(stage, session.id)}")
        return known if known.state == SESSION_SETTINGS.states.done else None

    step, extra_seconds = f"the screenshot {picture} is read", stage.settings.ocr_seconds
    return await stage.until(step, fetch, lambda: describe(stage, session.id), more_seconds=extra_seconds)


async def format_changes(stage: Stage, day: date, before: int, after: int) -> str:
    """Format the changes between two versions of the day, one sentence per change."""
    changes: Sequence[ShiftChange] = await ingest_of(stage).days.compare_versions(
        telegram_user_id(stage), day, before, after
    )
    return "\n".join(format_change(day, change) for change in changes)


async def until_notified(stage: Stage, day: date, session: UUID) -> StoredNotification:
    """Return the notification of a session once it is sent."""

    async def fetch() -> StoredNotification | None:
        page = await ingest_of(stage).days.list_notifications(telegram_user_id(stage), day)
        return next((each for each in page.items if each.source_session_id == session and each.sent_at), None)

    return await stage.until("the message about the change is sent", fetch, lambda: describe(stage, session))


async def describe(stage: Stage, session: UUID) -> str:
    """Describe the state of a session and the reason for it."""
    found = await explain(stage.pool, telegram_user_id(stage), session, SESSION_SETTINGS, zone=None)
    return f"the session {session} is {found.status}. {found.sentence}"


def ingest_of(stage: Stage) -> Ingest:
    """The operations of ingest, on the stage's tables."""
    return Ingest(stage.pool, stage.settings.db_schema)


def telegram_user_id(stage: Stage) -> int:
    """Return the Telegram id under which the days of Anna are stored."""
    assert stage.anna.telegram_id is not None, "the story created her with one"
    return stage.anna.telegram_id


def session_date(session: CaptureSession) -> date:
    """Return the date of the day that a session shows."""
    return date.fromisoformat(str((session.result or {})["schedule_date"]))
