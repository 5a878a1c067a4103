"""A child process looks: warm, within limits, and nobody's trouble but the photograph's."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from duly.apps.ingest.photographs import Eyes
from duly.errors import DulyError, InvalidArgument
from duly.executors.call import Call
from duly.executors.process_pool import Children
from duly.settings import Settings
from duly.wiring import eyes
from tests.support.ocr.days import BEFORE, picture, shows
from tests.support.storage.pictures import chunk, gradient, png_claiming, written

PATIENCE_SECONDS = 600.0  # on a machine that has much else to do
pytestmark = pytest.mark.timeout(PATIENCE_SECONDS)
BOMB = png_claiming(60_000, 60_000, chunk(b"IDAT", b"x" * 1000))
REFUSED = {
    "a bomb": (BOMB, "pixels"),
    "half a JPEG": (picture("before")[:9000], "no photograph that we can read"),
    "half a PNG": (written(gradient(640, 480), "PNG")[:2000], "no photograph that we can read"),
    "a GIF": (written(gradient(), "GIF"), "no photograph that we can read"),
    "a text": (b"08:00-09:00 Cleaning", "no photograph that we can read"),
    "nothing": (b"", "no photograph that we can read"),
    "too many bytes": (b"\xff\xd8" + bytes(21 * 1024 * 1024), "more than 20 MiB"),
}


@pytest.fixture
async def children() -> AsyncGenerator[Children, None]:
    """One child at most."""
    children = Children(1)
    yield children
    await children.close()


@pytest.fixture
def looking(children: Children) -> Eyes:
    """What looks, as a worker has it."""
    return replace(eyes(Settings(), children), seconds=PATIENCE_SECONDS)


async def test_a_child_is_kept_warm_and_followed_by_another_when_it_dies(children: Children, looking: Eyes) -> None:
    assert shows(await looking.look(picture("before")), BEFORE)
    (first,) = children.alive

    async def perform_and_kill(call: Call) -> object:
        async with children.borrow() as child:
            performing = asyncio.create_task(child.perform(call))
            os.kill(child.process.pid, signal.SIGKILL)
            return await performing

    with pytest.raises(InvalidArgument, match=r"reading it failed \(.*SIGKILL\); send another photograph"):
        await replace(looking, perform=perform_and_kill).look(picture("before"))
    with pytest.raises(InvalidArgument, match="no photograph that we can read"):
        await looking.look(b"")
    (second,) = children.alive
    assert second is not first


async def test_hostile_files_are_refused_in_a_sentence_by_one_and_the_same_child(
    children: Children, looking: Eyes
) -> None:
    for name, (data, words) in REFUSED.items():
        with pytest.raises(DulyError, match=words):
            await looking.look(data)
        assert [child.is_well for child in children.alive] == [True], name
    assert [child.rows for child in children.alive] == [len(REFUSED)]


async def test_reading_that_takes_too_long_or_too_much_memory_is_the_photographs_failure(looking: Eyes) -> None:
    with pytest.raises(InvalidArgument, match=r"took longer than 0.2 s; send a smaller or clearer photograph"):
        await replace(looking, seconds=0.2).look(picture("before"))
    with pytest.raises(InvalidArgument, match="reading it failed"):
        await replace(looking, memory_bytes=200 * 1024 * 1024).look(picture("before"))
