"""Photographs that show several days: the session keeps the first, and each other day becomes a session of its own."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

import pytest

from duly.apps.ingest.explain import format_result
from duly.apps.ingest.pages import MAX_DAYS, DayPage, MinuteRange, group_by_day
from duly.apps.ingest.reading import CaptureInput, CaptureReading, Input, read_capture
from duly.apps.ingest.session_reports import report_recorded
from duly.apps.ingest.table_support import TableSupport
from duly.apps.ingest.work import CaptureWork
from duly.canonical_json import Json
from duly.db.migrations import Names
from duly.db.pool import open_pool
from duly.errors import InvalidArgument
from duly.lease.operations import Lease
from tests.support.fixtures import address_for
from tests.support.ingest.actions import ANNA, LEASE, CaptureActions
from tests.support.ingest.strategies import payload

MONDAY, TUESDAY, WEDNESDAY = "2026-09-07", "2026-09-08", "2026-09-09"
WHOLE_DAY, MORNING, EVENING = (MinuteRange(0, 1440),), (MinuteRange(0, 720),), (MinuteRange(720, 1440),)
SESSIONS = (
    "select id, user_id, state::text, payload ->> 'schedule_date', closed_at is not null, given_at is not null"
    " from schedule_ingest.capture_session order by payload ->> 'schedule_date' nulls first"
)


def entry(start: str, title: str = "Städning") -> dict[str, Json]:
    """A shift of two hours."""
    return {"start": start, "end": f"{int(start[:2]) + 2:02}:00", "title": title, "location": "Askim"}


def page(
    day: str | None,
    *starts: str,
    covers: tuple[MinuteRange, ...] = WHOLE_DAY,
    photograph: int = 1,
    title: str = "Städning",
) -> DayPage:
    """What a photograph shows of a day."""
    entries: list[Json] = [entry(start, title) for start in starts]
    shown: dict[str, Json] = {"entries": entries} if day is None else {"schedule_date": day, "entries": entries}
    return DayPage(shown, covers, photograph)


class Photographs:
    """Returns the pages of a test."""

    input = Input.PHOTOGRAPHS
    has_limits = True

    def __init__(self, *pages: DayPage) -> None:
        self.pages = pages

    async def read(self, capture: CaptureInput) -> Sequence[DayPage]:  # noqa: ARG002
        """The pages."""
        return self.pages

    async def close(self) -> None:
        """Do nothing."""


async def see(*pages: DayPage) -> CaptureReading:
    """What a session shows whose photographs show these pages."""
    return await read_capture(Photographs(*pages), CaptureInput(UUID(int=1), ANNA, ("a",)), None)


def starts_of(seen: CaptureReading) -> dict[str, list[str]]:
    """The days that were seen, and when their shifts begin."""
    days = (seen.day, *seen.further_days)
    return {day.schedule_date.isoformat(): [shift.start for shift in day.shifts] for day in days}


# Which days are seen --------------------------------------------------------------------------------------------------


async def test_the_first_day_is_the_earliest_whatever_the_order_of_the_photographs() -> None:
    seen = await see(page(TUESDAY, "09:00"), page(WEDNESDAY, "10:00"), page(MONDAY, "08:00", "12:00"))
    assert starts_of(seen) == {MONDAY: ["08:00", "12:00"], TUESDAY: ["09:00"], WEDNESDAY: ["10:00"]}
    assert (seen.day.schedule_date.isoformat(), seen.coverage, seen.images) == (MONDAY, WHOLE_DAY, 1)


async def test_pages_are_merged_per_day() -> None:
    seen = await see(
        page(MONDAY, "08:00", "12:00", covers=MORNING),
        page(TUESDAY, "09:00", "12:00", covers=MORNING),
        page(MONDAY, "12:00", "18:00", covers=EVENING, photograph=2),
        page(TUESDAY, "12:00", "20:00", covers=EVENING, photograph=2),
    )
    assert starts_of(seen) == {MONDAY: ["08:00", "12:00", "18:00"], TUESDAY: ["09:00", "12:00", "20:00"]}
    assert seen.coverage == (*MORNING, *EVENING)


@pytest.mark.parametrize(
    ("tuesday", "is_whole"),
    [
        ([WHOLE_DAY], True),
        ([MORNING, EVENING], True),
        ([EVENING, MORNING], True),
        ([(MinuteRange(0, 900), MinuteRange(600, 600)), EVENING], True),
        ([MORNING], False),
        ([EVENING], False),
        (
            [MORNING, (MinuteRange(721, 1440),)],
            False,
        ),  # between two photographs that do not overlap a shift may be hidden
        ([MORNING, (MinuteRange(720, 1000),)], False),
    ],
)
async def test_each_of_several_days_must_be_covered_completely(
    tuesday: Sequence[tuple[MinuteRange, ...]], is_whole: bool
) -> None:
    pages = [page(MONDAY, "08:00"), *(page(TUESDAY, "12:00", covers=covers) for covers in tuesday)]
    if is_whole:
        assert list(starts_of(await see(*pages))) == [MONDAY, TUESDAY]
        return
    with pytest.raises(InvalidArgument) as refused:
        await see(*pages)
    assert str(refused.value) == (
        "schedule_date: the photographs show several days, 2026-09-07 and 2026-09-08, and do not show 2026-09-08 from "
        "beginning to end; send 2026-09-08 by itself, and the other days again"
    )


async def test_error_names_all_days_that_are_not_covered_completely() -> None:
    with pytest.raises(InvalidArgument, match=r"show 2026-09-07 and 2026-09-09 from .* send each of them by itself"):
        await see(page(MONDAY, "08:00", covers=EVENING), page(TUESDAY, "09:00"), page(WEDNESDAY, "10:00", covers=()))


async def test_single_day_may_be_covered_partially() -> None:
    seen = await see(page(MONDAY, "12:00", covers=EVENING), page(MONDAY, "18:00", covers=()))
    assert (starts_of(seen), seen.coverage, seen.further_days) == ({MONDAY: ["12:00", "18:00"]}, EVENING, ())


async def test_photograph_without_a_date_among_several_days_is_refused_with_its_number() -> None:
    with pytest.raises(
        InvalidArgument, match="photograph 3 shows no date, and the others show 2026-09-07 and 2026-09-08"
    ):
        await see(page(MONDAY, "08:00"), page(TUESDAY, "09:00", photograph=2), page(None, "10:00", photograph=3))


async def test_day_without_a_shift_among_several_days_is_left_unchanged() -> None:
    """The header of the next day at the foot of a list, or a day off in a week: nothing of it is removed."""
    seen = await see(page(MONDAY, "08:00"), page(TUESDAY, covers=()), page(WEDNESDAY, "10:00"))
    assert (list(starts_of(seen)), [day.isoformat() for day in seen.empty_days]) == ([MONDAY, WEDNESDAY], [TUESDAY])
    alone = await see(page(MONDAY, "12:00", covers=EVENING), page(TUESDAY, covers=()))
    assert (starts_of(alone), alone.coverage, alone.further_days) == ({MONDAY: ["12:00"]}, EVENING, ())


def test_more_days_than_the_maximum_are_refused() -> None:
    pages = [page(f"20{year}-01-01", "08:00") for year in range(10, 11 + MAX_DAYS)]
    assert len(group_by_day(pages[:MAX_DAYS])) == MAX_DAYS
    with pytest.raises(InvalidArgument, match=f"show {MAX_DAYS + 1} days, more than {MAX_DAYS}; send them in several"):
        group_by_day(pages)


# What becomes of them -------------------------------------------------------------------------------------------------


async def claim_photographs(captures: CaptureActions, *pages: DayPage) -> tuple[CaptureWork, Lease]:
    """A session whose photographs show these pages, claimed by a worker that is about to begin."""
    work = captures.work(Photographs(*pages))
    await work.prepare(captures.worker)
    await captures.open()
    (lease,) = await captures.claim(work)
    return work, lease


def further(session: UUID, *days: str) -> list[dict[str, str]]:
    """The sessions that these days become."""
    return [{"schedule_date": day, "session_id": str(uuid5(session, day))} for day in days]


async def test_the_session_keeps_its_first_day_and_each_other_day_becomes_a_session(captures: CaptureActions) -> None:
    work, lease = await claim_photographs(
        captures, page(MONDAY, "08:00"), page(TUESDAY, "09:00", "13:00"), page(WEDNESDAY)
    )
    await captures.finish([lease], work)
    other = uuid5(lease.key, TUESDAY)
    assert captures.rows(SESSIONS) == [
        (lease.key, ANNA, "done", None, False, False),
        (other, ANNA, "pending", TUESDAY, True, True),
    ]
    result = captures.one("select result from schedule_ingest.capture_session where id = %s", lease.key)
    assert (result["schedule_date"], result["version"], result["uncovered"]) == (MONDAY, 1, 0)
    assert (result["further_days"], result["empty_days"]) == (further(lease.key, TUESDAY), [WEDNESDAY])
    captures.verify()
    leases = await captures.claim(limit=10)  # by any worker, as data
    assert await captures.finish(leases) == {other}
    shown = "select schedule_date::text, session_id from schedule_ingest.schedule_version order by schedule_date"
    assert captures.rows(shown) == [(MONDAY, lease.key), (TUESDAY, other)]
    assert captures.counts() == {
        "schedule_version": 2,
        "schedule_event": 3,
        "schedule_notification": 3,
        "day_snapshot": 2,
        "day_schedule": 2,
    }
    captures.verify()


async def test_repeated_settle_adds_no_session_twice(captures: CaptureActions) -> None:
    work, lease = await claim_photographs(captures, page(MONDAY, "08:00"), page(TUESDAY, "09:00"))
    for _ in range(2):
        assert await captures.finish([lease], work) == {lease.key}
    assert captures.count("schedule_ingest.capture_session") == 2
    captures.verify()


async def test_existing_session_of_a_further_day_is_kept_unchanged(captures: CaptureActions) -> None:
    work, lease = await claim_photographs(captures, page(MONDAY, "08:00"), page(TUESDAY, "09:00"))
    captures.admin.execute(
        "insert into schedule_ingest.capture_session (id, user_id) values (%s, %s)", [uuid5(lease.key, TUESDAY), ANNA]
    )
    assert await captures.finish([lease], work) == {lease.key}
    assert captures.rows("select payload, state::text from schedule_ingest.capture_session order by state") == [
        (None, "done"),
        (None, "pending"),
    ]


async def test_a_worker_that_lost_the_session_adds_no_day(captures: CaptureActions) -> None:
    work, lease = await claim_photographs(captures, page(MONDAY, "08:00"), page(TUESDAY, "09:00"))
    captures.advance_clock(LEASE + 1)
    (taken_over,) = await work.claim_expired(captures.worker, "worker-2", 1)
    assert await captures.finish([lease], work) == frozenset()
    assert captures.count("schedule_ingest.capture_session") == 1
    assert await captures.finish([taken_over], work) == {lease.key}
    assert captures.count("schedule_ingest.capture_session") == 2
    captures.verify()


async def test_unrecordable_days_fail_the_session_and_write_nothing(captures: CaptureActions) -> None:
    work, lease = await claim_photographs(captures, page(MONDAY, "08:00"), page(TUESDAY, "09:00", covers=MORNING))
    await captures.finish([lease], work)
    state, error = captures.rows("select state::text, error from schedule_ingest.capture_session")[0]
    assert (state, "do not show 2026-09-08 from beginning to end" in error) == ("failed", True)
    assert set(captures.counts().values()) == {0}
    captures.verify()


async def test_where_a_backend_owns_the_sessions_several_days_are_refused(captures: CaptureActions) -> None:
    work = captures.work(Photographs(page(MONDAY, "08:00"), page(TUESDAY, "09:00")))
    work.recorder.support = TableSupport(can_add_sessions=False)
    async with open_pool(address_for(captures.admin, Names().worker), size=1) as pool:
        work.use_handler_pool(pool)
        with pytest.raises(InvalidArgument, match=r"days, 2026-09-07 and 2026-09-08; .* send each day by itself"):
            await work.read(CaptureInput(UUID(int=1), ANNA), None)
        work.recorder.support = TableSupport()
        assert (await work.read(CaptureInput(UUID(int=1), ANNA), None)).further_days


# Their notifications --------------------------------------------------------------------------------------------------

RESULT: Mapping[str, Any] = {
    "outcome": "changed",
    "input": "ocr",
    "schedule_date": MONDAY,
    "version": 1,
    "events": 2,
    "notifications": 2,
    "further_days": [{"schedule_date": TUESDAY, "session_id": "a"}, {"schedule_date": WEDNESDAY, "session_id": "b"}],
    "empty_days": ["2026-09-12"],
}


@pytest.mark.parametrize("outcome", ["changed", "unchanged"])
def test_every_result_text_names_the_sessions_of_the_further_days(outcome: str) -> None:
    days_text = (
        "2026-09-08 became session a, 2026-09-09 became session b; 2026-09-12 shows no shift and was left unchanged"
    )
    result = {**RESULT, "outcome": outcome}
    assert format_result(result).endswith(f"; {days_text}")
    assert days_text in report_recorded(result).text


def test_every_result_text_contains_the_notes_about_the_photographs() -> None:
    odd = "'Fredag 7 september 2026': 2026-09-07 is a Monday"
    assert format_result({**RESULT, "notes": [odd]}).endswith(f"; note: {odd}")


SEVERAL_DAYS_NOTICES = {
    "en": "Your screenshots show 2 days: 2026-09-07, 2026-09-08. You get a message for each day that changed.",
    "sv": "Dina skärmbilder visar 2 dagar: 2026-09-07, 2026-09-08. Du får ett meddelande för varje ändrad dag.",
    "zh": "您的截图显示了 2 天：2026-09-07、2026-09-08。有变化的日子会分别通知您。",  # noqa: RUF001
}


@pytest.mark.parametrize("language", SEVERAL_DAYS_NOTICES)
@pytest.mark.parametrize("is_known", [True, False])
async def test_telegram_sender_is_notified_which_days_the_photographs_show(
    captures: CaptureActions, language: str, is_known: bool
) -> None:
    captures.add_user("anna", telegram_id=ANNA, language=language)
    if is_known:
        await captures.capture({**payload(), "schedule_date": MONDAY, "entries": [entry("08:00")]})
    work = captures.work(Photographs(page(MONDAY, "08:00"), page(TUESDAY, "09:00")))
    await work.prepare(captures.worker)
    key = await captures.open()
    captures.admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key, telegram_message_id)"
        " values (%(key)s, 1, 'a', 7)",
        {"key": key},
    )
    await captures.finish(await captures.claim(work), work)
    messages = captures.rows("select kind, payload ->> 'text' from duly.outbox")
    assert messages == [("capture.several", SEVERAL_DAYS_NOTICES[language])]
    captures.verify()
