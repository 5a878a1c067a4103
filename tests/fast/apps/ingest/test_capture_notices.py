"""The person who sent screenshots is notified once: why they could not be read, or that nothing changed."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

from duly.apps.ingest.notifications import MAX_REASON_LENGTH, capture_failed, capture_unchanged
from duly.apps.ingest.pages import DayPage
from duly.apps.ingest.reading import CaptureInput, Input
from duly.apps.ingest.work import CaptureWork
from duly.canonical_json import Json
from duly.errors import InvalidArgument
from tests.full.apps.ingest.test_worker import state
from tests.support.ingest.actions import LEASE, TOO_MANY_STARTS, CaptureActions
from tests.support.ingest.strategies import payload

ENTRY = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}
WHY = "none of the photographs shows a date"
PEOPLE = {"anna": (42, "en"), "bo": (43, "sv"), "chen": (44, "zh"), "dieter": (45, "de")}
FAILED = {
    "anna": f"Your screenshots could not be read, and nothing was changed:\n{WHY}",
    "bo": f"Dina skärmbilder kunde inte läsas, och ingenting är ändrat:\n{WHY}",
    "chen": f"无法识别您的截图，日程没有改动：\n{WHY}",  # noqa: RUF001
    "dieter": f"Your screenshots could not be read, and nothing was changed:\n{WHY}",
}
UNCHANGED = {
    "anna": "Your screenshots are read: nothing changed on 2026-02-10.",
    "bo": "Dina skärmbilder är lästa: ingenting är ändrat den 2026-02-10.",
    "chen": "您的截图已识别：2026-02-10 没有变化。",  # noqa: RUF001
    "dieter": "Your screenshots are read: nothing changed on 2026-02-10.",
}


class Photographs:
    """A reader that returns one day for every session, or raises."""

    input = Input.PHOTOGRAPHS
    has_limits = True

    def __init__(self, day: Mapping[str, Json] | None = None) -> None:
        self.day = day

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:  # noqa: ARG002
        """Return the day."""
        if self.day is None:
            raise InvalidArgument(WHY)
        return [DayPage(self.day)]

    async def close(self) -> None:
        """Do nothing."""


def add_people(captures: CaptureActions) -> None:
    """Add a user for each person."""
    for uid, (number, language) in PEOPLE.items():
        captures.add_user(uid, telegram_id=number, language=language)


async def ready(captures: CaptureActions, reader: Photographs) -> CaptureWork:
    """Return work that is prepared to claim."""
    work = captures.work(reader)
    await work.prepare(captures.worker)
    return work


async def send(captures: CaptureActions, user: int, message: int | None = None) -> UUID:
    """Create a session with a screenshot, sent by a bot message or without one."""
    key = await captures.open(user)
    captures.admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key, telegram_message_id)"
        " values (%(key)s, 1, 'a/' || gen_random_uuid(), %(message)s)",
        {"key": key, "message": message},
    )
    return key


def sent_messages(captures: CaptureActions) -> list[tuple[Any, ...]]:
    """Return recipient, channel, type, text and session of every outbox message."""
    return captures.rows(
        "select recipient, channel, kind, payload ->> 'text', (payload ->> 'session')::uuid from duly.outbox"
        " order by recipient, seq"
    )


async def test_the_sender_is_notified_in_their_language_why_screenshots_could_not_be_read(
    captures: CaptureActions,
) -> None:
    add_people(captures)
    work = await ready(captures, Photographs())
    keys = {uid: await send(captures, number) for uid, (number, _) in PEOPLE.items()}
    leases = await captures.claim(work, limit=10)
    await captures.finish(leases, work)
    assert sent_messages(captures) == [
        (uid, "telegram", "capture.failed", FAILED[uid], key) for uid, key in keys.items()
    ]
    assert {state(captures, key)[0] for key in keys.values()} == {"failed"}
    await captures.finish(leases, work)  # after a lost answer
    assert len(sent_messages(captures)) == len(keys)
    captures.verify()


async def test_telegram_sender_is_notified_once_that_nothing_changed(
    captures: CaptureActions,
) -> None:
    add_people(captures)
    work = await ready(captures, Photographs(payload(ENTRY)))
    for uid, (number, _) in PEOPLE.items():
        changed, bot, other = [await send(captures, number, message) for message in (1, 2, None)]
        for _ in range(3):
            await captures.finish(await captures.claim(work), work)
        assert {state(captures, key)[0] for key in (changed, bot, other)} == {"done"}
        messages_of_user = [row for row in sent_messages(captures) if row[0] == uid]
        assert messages_of_user == [(uid, "telegram", "capture.unchanged", UNCHANGED[uid], bot)]
    notifications = captures.count("schedule_ingest.schedule_notification")  # as they always were
    assert notifications == len(PEOPLE)
    captures.verify()


async def test_unknown_users_and_sessions_without_screenshots_get_no_notification(captures: CaptureActions) -> None:
    add_people(captures)
    work = await ready(captures, Photographs())
    keys = [await send(captures, 7), await captures.open(42)]
    await captures.finish(await captures.claim(work, limit=10), work)
    assert {state(captures, key)[0] for key in keys} == {"failed"}
    assert sent_messages(captures) == []


async def test_session_with_a_lost_lease_sends_no_notification(captures: CaptureActions) -> None:
    add_people(captures)
    work = await ready(captures, Photographs())
    key = await send(captures, 42)
    leases = await captures.claim(work)
    captures.advance_clock(LEASE + 1)
    await work.claim_expired(captures.worker, "worker-2", 1)
    assert await captures.finish(leases, work) == frozenset()
    assert (state(captures, key)[0], sent_messages(captures)) == ("processing", [])


async def test_the_sender_of_a_quarantined_session_is_notified(captures: CaptureActions) -> None:
    add_people(captures)
    work = await ready(captures, Photographs())
    key = await send(captures, 42)
    await captures.claim(work)
    for _ in range(work.tuning.max_starts - 1):
        captures.advance_clock(LEASE + 1)
        assert await work.claim_expired(captures.worker, "worker-2", 1)
    captures.advance_clock(LEASE + 1)
    assert await work.sweep(captures.worker) == 1
    assert await work.sweep(captures.worker) == 0
    text = f"Your screenshots could not be read, and nothing was changed:\n{TOO_MANY_STARTS}"
    assert sent_messages(captures) == [("anna", "telegram", "capture.failed", text, key)]
    captures.verify()


def test_notification_texts_are_limited_in_every_language() -> None:
    news = capture_failed(UUID(int=1), "x" * 4000), capture_unchanged(UUID(int=1), date(2026, 2, 10))
    for each in news:
        assert list(each.texts) == ["en", "sv", "zh"]
        assert all(len(text) < MAX_REASON_LENGTH + 100 for text in each.texts.values())
