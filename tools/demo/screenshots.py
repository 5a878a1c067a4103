"""A screenshot becomes a version of a day, a second one a change and a message."""

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
HOUSE = SessionSettings()


async def tell_screenshots(stage: Stage) -> None:
    """Send a screenshot of a day, then one of the same day as it looks later."""
    stage.tell.say(f"Anna sends a screenshot of her Tuesday, fixtures/demo/{FIRST}, and a worker reads it:")
    first = await capture(stage, FIRST)
    day = day_of(first)
    stage.tell.quote(await changes_in_words(stage, day, 0, 1))
    stage.tell.say(f"So {format_result(first.result)}.")
    stage.tell.command("ingest", "day", str(day), "--user", stage.anna.uid)
    stage.tell.say(f"Later that day looks different, and she sends another, fixtures/demo/{SECOND}. What changed:")
    second = await capture(stage, SECOND)
    stage.tell.quote(await changes_in_words(stage, day, 1, 2))
    stage.tell.command("ingest", "diff", str(day), "1", "2", "--user", stage.anna.uid)
    message = await until_told(stage, day, second.id)
    stage.tell.say("She is told so, where the worker prints what has no other channel:")
    stage.tell.quote(stage.printed(message.notification_id))
    stage.tell.command("ingest", "notifications", str(day), "--user", stage.anna.uid)
    stage.tell.say("And the day can be built anew from its changes alone:")
    stage.tell.command("ingest", "replay", str(day), "--user", stage.anna.uid)


async def capture(stage: Stage, picture: str) -> CaptureSession:
    """Give a screenshot, and wait until a worker has read it."""
    sessions, user = ingest_of(stage).sessions, user_of(stage)
    data = (stage.pictures / picture).read_bytes()
    clean = await asyncio.to_thread(clean_screenshot, data)
    session = await sessions.create_session(user)
    await sessions.add_image(stage.objects, user, session.id, clean.data, clean.suffix)
    await sessions.close_session(user, session.id)

    async def look() -> CaptureSession | None:
        known = await sessions.get_session(user, session.id)
        if known.state == HOUSE.states.failed:
            raise Stuck(f"the screenshot {picture} was not read: {await why(stage, session.id)}")
        return known if known.state == HOUSE.states.done else None

    step, may_take = f"the screenshot {picture} is read", stage.settings.ocr_seconds
    return await stage.until(step, look, lambda: why(stage, session.id), more_seconds=may_take)


async def changes_in_words(stage: Stage, day: date, before: int, after: int) -> str:
    """What is different between two versions of the day, a sentence for each change."""
    changes: Sequence[ShiftChange] = await ingest_of(stage).days.compare_versions(user_of(stage), day, before, after)
    return "\n".join(format_change(day, change) for change in changes)


async def until_told(stage: Stage, day: date, session: UUID) -> StoredNotification:
    """The message that a session led to, once it is sent."""

    async def look() -> StoredNotification | None:
        page = await ingest_of(stage).days.list_notifications(user_of(stage), day)
        return next((each for each in page.items if each.source_session_id == session and each.sent_at), None)

    return await stage.until("the message about the change is sent", look, lambda: why(stage, session))


async def why(stage: Stage, session: UUID) -> str:
    """Where a session is, and why."""
    found = await explain(stage.pool, user_of(stage), session, HOUSE, zone=None)
    return f"the session {session} is {found.status}. {found.sentence}"


def ingest_of(stage: Stage) -> Ingest:
    """The operations of ingest, on the stage's tables."""
    return Ingest(stage.pool, stage.settings.db_schema)


def user_of(stage: Stage) -> int:
    """The number under which Anna's days are kept."""
    assert stage.anna.telegram_id is not None, "the story gave her one"
    return stage.anna.telegram_id


def day_of(session: CaptureSession) -> date:
    """The day that a session was about."""
    return date.fromisoformat(str((session.result or {})["schedule_date"]))
