"""The reader of photographs: which pages make a day, which part of it they cover, and why others do not."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.engine import EngineConfig
from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.apps.ingest.pages import MinuteRange
from duly.apps.ingest.photographs import OcrRunner, PhotographReader, entry_from_shift, page_coverage
from duly.apps.ingest.reading import CaptureInput, CaptureReading, read_capture
from duly.errors import InvalidArgument, Unavailable
from duly.executors.call import Call, Executor
from duly.outcomes import Failed
from duly.settings import Settings
from duly.storage import ObjectStore, open_object_store

DAY = "2026-02-10"


def card(start: str, end: str, customer: str = "Anna Svensson") -> RecognisedShift:
    return RecognisedShift(start, end, "Städning", customer, "Askim", "", 0.99)


def seen(
    *cards: RecognisedShift,
    day: str | None = DAY,
    shows_day_start: bool = True,
    shows_day_end: bool = True,
    problems: Sequence[str] = (),
) -> RecognisedDay:
    return RecognisedDay(day, cards, tuple(problems), shows_day_start, shows_day_end)


MORNING, NOON, EVENING = card("07:00", "09:00"), card("12:00", "13:00", "Bo Ek"), card("18:00", "20:00", "Eva Ås")


class ChildProcess:
    """Returns prepared answers; the bytes of an image are the index of its answer."""

    def __init__(self, *answers: object) -> None:
        self.answers = answers
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> object:
        """Return the answer; an exception is raised once."""
        self.calls.append(call)
        answer = self.answers[min(int(call.arguments[0]), len(self.answers) - 1)]
        if isinstance(answer, list):
            answer = cast("list[object]", answer).pop(0)
        if isinstance(answer, Exception) and not isinstance(answer, Failed):
            raise answer
        return (answer,) if isinstance(answer, RecognisedDay) else answer


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return open_object_store(Settings(DULY_HOME=tmp_path))  # type: ignore[call-arg]


async def read(objects: ObjectStore, *answers: object, images: int | None = None) -> CaptureReading:
    """Read a session whose images have these answers."""
    names = [f"screenshots/1/{uuid4()}" for _ in range(len(answers) if images is None else images)]
    for nth, name in enumerate(names):
        await objects.put(name, str(nth).encode())

    async def close() -> None:
        pass

    reader = PhotographReader(objects, OcrRunner(ChildProcess(*answers), EngineConfig(), 2026), close)
    return await read_capture(reader, CaptureInput(uuid4(), 1, tuple(names)), None)


async def test_photograph_is_read_as_a_day(objects: ObjectStore) -> None:
    found = await read(objects, seen(MORNING, NOON))
    assert (found.day.schedule_date.isoformat(), found.input, found.images) == (DAY, "ocr", 1)
    assert [(shift.start, shift.customer_name, shift.raw_type_label) for shift in found.day.shifts] == [
        ("07:00", "Anna Svensson", "Städning"),
        ("12:00", "Bo Ek", "Städning"),
    ]
    assert found.coverage == (MinuteRange(0, 1440),)


async def test_overlapping_photographs_are_merged_and_an_undated_one_inherits_the_date(objects: ObjectStore) -> None:
    found = await read(
        objects, seen(MORNING, NOON, shows_day_end=False), seen(NOON, EVENING, day=None, shows_day_start=False)
    )
    assert [shift.start for shift in found.day.shifts] == ["07:00", "12:00", "18:00"]
    assert found.coverage == (MinuteRange(0, 720), MinuteRange(720, 1440))


async def test_photographs_of_several_days_are_merged_per_day(objects: ObjectStore) -> None:
    later = "2026-02-11"
    found = await read(
        objects,
        (seen(MORNING, NOON, shows_day_end=False), seen(MORNING, NOON, day=later, shows_day_end=False)),
        (seen(NOON, EVENING, shows_day_start=False), seen(NOON, EVENING, day=later, shows_day_start=False)),
    )
    days = [
        (day.schedule_date.isoformat(), [shift.start for shift in day.shifts])
        for day in (found.day, *found.further_days)
    ]
    assert days == [(DAY, ["07:00", "12:00", "18:00"]), (later, ["07:00", "12:00", "18:00"])]
    assert (found.input, found.images) == ("ocr", 2)


@pytest.mark.parametrize(
    ("starts", "shows_day_start", "shows_day_end", "covers"),
    [
        ("07:00 12:00 18:00", False, False, [(420, 1080)]),
        ("07:00 12:00 18:00", True, False, [(0, 1080)]),
        ("07:00 12:00 18:00", False, True, [(420, 1440)]),
        ("18:00 22:00 00:30", False, True, [(1080, 1440), (30, 30)]),  # a night's list: a known 07:00 was not seen
        ("18:00 22:00 00:30 02:00", True, False, [(1080, 1440), (30, 30), (120, 120)]),
        ("18:00 22:00 00:30", False, False, [(1080, 1440), (30, 30)]),
        ("18:00 22:00 00:30", True, True, [(0, 1440)]),
        ("08:00 07:00 12:15", True, False, [(420, 420), (480, 480), (735, 735)]),  # in no order: what is hidden?
        ("20:00 16:00 08:00", False, True, [(480, 480), (960, 960), (1200, 1200)]),
        ("08:00 07:00 12:15", True, True, [(0, 1440)]),
        ("", True, True, []),
    ],
)
def test_page_coverage_follows_the_order_of_its_shifts(
    starts: str, shows_day_start: bool, shows_day_end: bool, covers: list[tuple[int, int]]
) -> None:
    page = seen(
        *(card(start, "23:59") for start in starts.split()),
        shows_day_start=shows_day_start,
        shows_day_end=shows_day_end,
    )
    assert [(span.first, span.last) for span in page_coverage(page)] == covers


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([seen()], "no shift was recognised in the photographs, and nothing was changed"),
        ([seen(MORNING, day=None)], "none of the photographs shows a date"),
        (
            [seen(MORNING), seen(NOON, day="2026-02-11", shows_day_end=False)],
            "show several days, 2026-02-10 and 2026-02-11, and do not show 2026-02-11 from beginning to end",
        ),
        (
            [(seen(MORNING), seen(NOON, day="2026-02-11")), seen(EVENING, day=None)],
            "photograph 2 shows no date, and the others show 2026-02-10 and 2026-02-11; send it with the head",
        ),
        ([(seen(MORNING), seen(day="2026-02-11", problems=["a"])), seen(NOON)], "relied on: photograph 1: a. Send a"),
        (
            [seen(MORNING, problems=["'10:00-10:75' is no range"])],
            "relied on: '10:00-10:75' is no range. Send a clearer",
        ),
        ([seen(MORNING), seen(problems=["a", "b"])], "relied on: photograph 2: a; photograph 2: b"),
        ([seen(problems=list("abcdefg"))], "a; b; c; d; e; and 2 more"),
        (
            [seen(MORNING), Failed("INVALID_ARGUMENT", "this is no photograph")],
            "photograph 2 of 2: this is no photograph",
        ),
        ([Failed("TIMEOUT", "took longer than 60 s")], "photograph 1 of 1: reading it took longer than 60 s; send a"),
        ([Failed("CRASHED", "ended by signal SIGKILL")], "SIGKILL.; send another photograph"),
        (
            [Failed("VALUE_ERROR", "ValueError: x", is_unexpected=True)],
            "not your fault .ValueError: x.; send the day again",
        ),
        ([None], "reading it ended as NoneType"),
        ([], "the session has no photograph"),
    ],
)
async def test_unreliable_photographs_fail_the_session_with_an_error(
    objects: ObjectStore, answers: list[object], why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        await read(objects, *answers)


async def test_missing_ocr_engine_does_not_fail_the_session(objects: ObjectStore) -> None:
    from duly.errors import MissingExtra

    with pytest.raises(MissingExtra, match="install it"):
        await read(objects, Failed("MISSING_EXTRA", "install it"))


async def test_missing_image_fails_the_session(objects: ObjectStore) -> None:
    async def close() -> None:
        pass

    reader = PhotographReader(objects, OcrRunner(ChildProcess(), EngineConfig()), close)
    with pytest.raises(InvalidArgument, match=r"photograph 1 of 1: .*screenshots/1/gone"):
        await reader.read(CaptureInput(uuid4(), 1, ("screenshots/1/gone",)))


async def test_object_store_timeout_does_not_fail_the_session(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duly.apps.ingest import photographs

    async def hang(self: ObjectStore, name: str, max_bytes: int) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(photographs, "FETCH_SECONDS", 0.01)
    monkeypatch.setattr(ObjectStore, "get", hang)
    with pytest.raises(Unavailable, match="the object store did not return screenshots/1/"):
        await read(objects, seen(MORNING))


async def test_child_process_gets_bytes_a_deadline_and_a_limit(objects: ObjectStore) -> None:
    child = ChildProcess(seen(MORNING))
    await OcrRunner(child, EngineConfig(), None, seconds=7, memory_bytes=1 << 30).recognise(b"0")
    (call,) = child.calls
    assert (call.executor, call.timeout_seconds, call.memory_bytes) == (Executor.PROCESS, 7, 1 << 30)
    assert call.arguments[1].default_year >= 2026


def test_entry_title_contains_customer_and_work() -> None:
    assert entry_from_shift(MORNING)["title"] == "Anna Svensson • Städning"
    assert entry_from_shift(RecognisedShift("12:00", "12:30", "Lunch", "", "", "", 1.0)) == {
        "start": "12:00",
        "end": "12:30",
        "title": "Lunch",
    }
    assert (
        entry_from_shift(RecognisedShift("12:00", "12:30", "Städning", "", "Askim", "Storgatan 1", 1.0))["address"]
        == "Storgatan 1"
    )
