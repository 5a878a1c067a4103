"""What photographs did not show stays as it is known."""

from typing import Any

import pytest

from duly.apps.ingest.canonical import observe
from duly.apps.ingest.reading import Captured, Coverage, Input, Observed, Page, Span
from duly.apps.ingest.unseen import with_unseen
from duly.canonical_json import Json
from duly.lease.work import Finished
from tests.support.ingest.actions import CaptureActions

MORNING, NOON, EVENING = (
    {"start": start, "end": end, "title": f"{who} • Städning", "location": "Askim"}
    for start, end, who in (("07:00", "09:00", "Anna"), ("12:00", "13:00", "Bo"), ("18:00", "20:00", "Eva"))
)


def day(*entries: dict[str, str]) -> dict[str, Json]:
    return {"schedule_date": "2026-02-10", "entries": [dict(entry) for entry in entries]}


def starts(payload: Any) -> list[str]:
    return [entry["start"] for entry in payload["entries"]]


@pytest.mark.parametrize(
    ("covers", "kept"),
    [
        (None, []),
        ((Span(0, 1440),), []),
        ((Span(0, 720),), ["18:00"]),
        ((Span(720, 1440),), ["07:00"]),
        ((Span(720, 720),), ["07:00", "18:00"]),
        ((Span(0, 420), Span(1080, 1440)), []),
        ((), ["07:00", "18:00"]),
    ],
)
def test_what_begins_outside_of_what_was_covered_stays(covers: Coverage | None, kept: list[str]) -> None:
    known = observe(day(MORNING, NOON, EVENING)).payload
    seen, unseen = with_unseen(known, observe(day(NOON)), covers)
    assert starts(seen.payload) == sorted(["12:00", *kept])
    assert unseen == len(kept)
    assert seen == observe(seen.payload)


def test_of_an_unknown_day_there_is_nothing_to_keep() -> None:
    seen = observe(day(NOON))
    assert with_unseen(None, seen, (Span(720, 720),)) == (seen, 0)


async def test_a_glance_at_the_morning_never_removes_the_evening(captures: CaptureActions) -> None:
    await captures.capture(day(MORNING, NOON, EVENING))
    moved = {**MORNING, "start": "07:30"}
    result = await glance(captures, day(moved), (Span(0, 720),))
    assert (
        result | {"outcome": "changed", "input": "ocr", "version": 2, "events": 2, "unseen": 1, "images": 1} == result
    )
    asked = "select event_type from schedule_ingest.schedule_event where seq > 3 order by seq"
    assert captures.values(asked) == ["shift_time_changed", "shift_removed"]
    result = await glance(captures, day(moved), (Span(450, 450),))
    assert result | {"outcome": "unchanged", "version": 2, "events": 0, "unseen": 1} == result
    result = await glance(captures, day(moved), (Span(0, 1440),))
    assert result | {"outcome": "changed", "version": 3, "events": 1, "unseen": 0} == result
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    assert [shift.start for shift in known] == ["07:30"]
    captures.verify()


async def test_glances_of_one_batch_find_the_day_as_the_one_before_left_it(captures: CaptureActions) -> None:
    work = captures.work()
    for _ in range(2):
        await captures.open()
    leases = await captures.claim(work, limit=2)
    glances = (day(MORNING), (Span(0, 420),)), (day(EVENING), (Span(1080, 1440),))
    finished = [Finished(lease, seen(*each)) for lease, each in zip(leases, glances, strict=True)]
    async with captures.worker.transaction():
        await work.settle(captures.worker, finished)
    assert [shift.start for shift in captures.rebuilt()[1]] == ["07:00", "18:00"]
    captures.verify()


async def glance(captures: CaptureActions, shown: dict[str, Json], covers: Coverage) -> dict[str, Any]:
    """A session that shows a part of the day; what came of it."""
    work, key = captures.work(), await captures.open()
    (lease,) = await captures.claim(work)
    async with captures.worker.transaction():
        await work.settle(captures.worker, [Finished(lease, seen(shown, covers))])
    return captures.one("select result from schedule_ingest.capture_session where id = %s", key)


def seen(shown: dict[str, Json], covers: Coverage) -> Observed:
    return Observed(observe(shown), Input.PHOTOGRAPHS, covers, images=1)


def test_pages_cover_together_what_each_covers() -> None:
    from duly.apps.ingest.reading import coverage_of

    morning, evening = Page(day(MORNING), (Span(0, 420),)), Page(day(EVENING), (Span(1080, 1440),))
    assert coverage_of([morning, evening]) == (Span(0, 420), Span(1080, 1440))
    assert coverage_of([morning, Page(day(NOON))]) is None
    assert Captured.__dataclass_fields__["images"].default == ()
