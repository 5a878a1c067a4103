"""OCR in a child process: reused, within limits, and a failure of the photograph only."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from duly.apps.ingest.build_work import build_ocr_runner
from duly.apps.ingest.photographs import OcrRunner
from duly.errors import DulyError, InvalidArgument
from duly.executors.call import Call
from duly.executors.process_pool import ProcessPool
from duly.settings import Settings
from tests.support.ocr.days import BEFORE, picture, shows
from tests.support.storage.pictures import chunk, gradient, png_with_header, written

PATIENCE_SECONDS = 600.0  # on a machine that has much else to do
pytestmark = pytest.mark.timeout(PATIENCE_SECONDS)
BOMB = png_with_header(60_000, 60_000, chunk(b"IDAT", b"x" * 1000))
REFUSED = {
    "a bomb": (BOMB, "pixels"),
    "half a JPEG": (picture("before")[:9000], "not a readable image"),
    "half a PNG": (written(gradient(640, 480), "PNG")[:2000], "not a readable image"),
    "a GIF": (written(gradient(), "GIF"), "not a readable image"),
    "a text": (b"08:00-09:00 Cleaning", "not a readable image"),
    "nothing": (b"", "not a readable image"),
    "too many bytes": (b"\xff\xd8" + bytes(21 * 1024 * 1024), "more than 20 MiB"),
}


@pytest.fixture
async def children() -> AsyncGenerator[ProcessPool, None]:
    """One child at most."""
    children = ProcessPool(1)
    yield children
    await children.close()


@pytest.fixture
def ocr(children: ProcessPool) -> OcrRunner:
    """The OCR runner, built as for a worker."""
    return replace(build_ocr_runner(Settings(), children), seconds=PATIENCE_SECONDS)


async def test_a_child_process_is_reused_and_replaced_when_it_dies(children: ProcessPool, ocr: OcrRunner) -> None:
    assert shows(await ocr.recognise(picture("before")), BEFORE)
    (first,) = children.alive

    async def perform_and_kill(call: Call) -> object:
        async with children.borrow() as child:
            performing = asyncio.create_task(child.perform(call))
            os.kill(child.process.pid, signal.SIGKILL)
            return await performing

    with pytest.raises(InvalidArgument, match=r"reading it failed \(.*SIGKILL\); send another photograph"):
        await replace(ocr, perform=perform_and_kill).recognise(picture("before"))
    with pytest.raises(InvalidArgument, match="not a readable image"):
        await ocr.recognise(b"")
    (second,) = children.alive
    assert second is not first


async def test_hostile_files_are_rejected_with_a_message_by_the_same_child_process(
    children: ProcessPool, ocr: OcrRunner
) -> None:
    for name, (data, message) in REFUSED.items():
        with pytest.raises(DulyError, match=message):
            await ocr.recognise(data)
        assert [child.is_reusable for child in children.alive] == [True], name
    assert [child.calls for child in children.alive] == [len(REFUSED)]


async def test_a_timeout_or_too_much_memory_fails_the_photograph(ocr: OcrRunner) -> None:
    with pytest.raises(InvalidArgument, match=r"took longer than 0.2 s; send a smaller or clearer photograph"):
        await replace(ocr, seconds=0.2).recognise(picture("before"))
    with pytest.raises(InvalidArgument, match="reading it failed"):
        await replace(ocr, memory_bytes=200 * 1024 * 1024).recognise(picture("before"))
