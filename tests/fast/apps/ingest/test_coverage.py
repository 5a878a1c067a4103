"""Known shifts that photographs do not cover are kept."""

from typing import Any

import pytest

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.pages import Coverage, DayPage, MinuteRange, keep_uncovered_entries
from duly.apps.ingest.reading import CaptureInput, CaptureReading, Input
from duly.canonical_json import Json
from duly.lease.work import LeaseOutcome
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
        ((MinuteRange(0, 1440),), []),
        ((MinuteRange(0, 720),), ["18:00"]),
        ((MinuteRange(720, 1440),), ["07:00"]),
        ((MinuteRange(720, 720),), ["07:00", "18:00"]),
        ((MinuteRange(0, 420), MinuteRange(1080, 1440)), []),
        ((), ["07:00", "18:00"]),
    ],
)
def test_entries_that_start_outside_the_coverage_are_kept(covers: Coverage | None, kept: list[str]) -> None:
    known = canonicalize(day(MORNING, NOON, EVENING)).payload
    seen, uncovered = keep_uncovered_entries(known, canonicalize(day(NOON)), covers)
    assert starts(seen.payload) == sorted(["12:00", *kept])
    assert uncovered == len(kept)
    assert seen == canonicalize(seen.payload)


def test_unknown_day_keeps_no_entry() -> None:
    seen = canonicalize(day(NOON))
    assert keep_uncovered_entries(None, seen, (MinuteRange(720, 720),)) == (seen, 0)


async def test_capture_of_the_morning_never_removes_the_evening(captures: CaptureActions) -> None:
    await captures.capture(day(MORNING, NOON, EVENING))
    moved = {**MORNING, "start": "07:30"}
    result = await capture_part(captures, day(moved), (MinuteRange(0, 720),))
    assert (
        result | {"outcome": "changed", "input": "ocr", "version": 2, "events": 2, "uncovered": 1, "images": 1}
        == result
    )
    statement = "select event_type from schedule_ingest.schedule_event where seq > 3 order by seq"
    assert captures.values(statement) == ["shift_time_changed", "shift_removed"]
    result = await capture_part(captures, day(moved), (MinuteRange(450, 450),))
    assert result | {"outcome": "unchanged", "version": 2, "events": 0, "uncovered": 1} == result
    result = await capture_part(captures, day(moved), (MinuteRange(0, 1440),))
    assert result | {"outcome": "changed", "version": 3, "events": 1, "uncovered": 0} == result
    rebuilt, known = captures.rebuilt()
    assert rebuilt == known
    assert [shift.start for shift in known] == ["07:30"]
    captures.verify()


async def test_partial_captures_of_one_batch_build_on_each_other(captures: CaptureActions) -> None:
    work = captures.work()
    for _ in range(2):
        await captures.open()
    leases = await captures.claim(work, limit=2)
    parts = (day(MORNING), (MinuteRange(0, 420),)), (day(EVENING), (MinuteRange(1080, 1440),))
    finished = [LeaseOutcome(lease, seen(*each)) for lease, each in zip(leases, parts, strict=True)]
    async with captures.worker.transaction():
        await work.settle(captures.worker, finished)
    assert [shift.start for shift in captures.rebuilt()[1]] == ["07:00", "18:00"]
    captures.verify()


async def capture_part(captures: CaptureActions, payload: dict[str, Json], coverage: Coverage) -> dict[str, Any]:
    """Settle a session that shows a part of the day; return its result."""
    work, key = captures.work(), await captures.open()
    (lease,) = await captures.claim(work)
    async with captures.worker.transaction():
        await work.settle(captures.worker, [LeaseOutcome(lease, seen(payload, coverage))])
    return captures.one("select result from schedule_ingest.capture_session where id = %s", key)


def seen(payload: dict[str, Json], coverage: Coverage) -> CaptureReading:
    return CaptureReading(canonicalize(payload), Input.PHOTOGRAPHS, coverage, images=1)


def test_combined_coverage_is_the_union_of_the_pages() -> None:
    from duly.apps.ingest.pages import combined_coverage

    morning, evening = DayPage(day(MORNING), (MinuteRange(0, 420),)), DayPage(day(EVENING), (MinuteRange(1080, 1440),))
    assert combined_coverage([morning, evening]) == (MinuteRange(0, 420), MinuteRange(1080, 1440))
    assert combined_coverage([morning, DayPage(day(NOON))]) is None
    assert CaptureInput.__dataclass_fields__["images"].default == ()
