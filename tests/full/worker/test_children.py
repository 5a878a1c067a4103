"""Children: what counts as a row's own time."""

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from duly.executors.call import Call, Where
from duly.executors.process_pool import Children
from duly.outcomes import Failed

LIMIT_SECONDS = 0.5
HEAVY = f"""
import sys, threading

pause = threading.Event().wait
if sys.argv[0].endswith("child.py"):
    pause({3 * LIMIT_SECONDS})


def say(word):
    return word


def dawdle():
    pause(60)
"""
FIRST = f"__import__('threading').Event().wait({LIMIT_SECONDS / 2}) or "
STATUS_3 = Failed("CRASHED", "the child process ended by itself with status 3, without an answer")
ENDINGS = {"7": 7, "__import__('os')._exit(3)": STATUS_3}


async def test_importing_what_the_first_row_needs_is_not_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy_to_import.py").write_text(HEAVY)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    heavy: Any = importlib.import_module("heavy_to_import")
    children = Children(1)
    async with children.borrow() as child:
        assert await child.perform(Call(heavy.say, ("hello",), Where.CHILD, timeout_seconds=LIMIT_SECONDS)) == "hello"
        late = await child.perform(Call(heavy.dawdle, (), Where.CHILD, timeout_seconds=LIMIT_SECONDS))
    assert late == Failed("TIMEOUT", f"took longer than {LIMIT_SECONDS:g} s")
    await children.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("ending", ENDINGS, ids=["answer", "death"])
def test_what_a_child_said_in_time_counts_though_our_loop_stood_still_meanwhile(
    new_loop: Callable[[], asyncio.AbstractEventLoop], ending: str
) -> None:
    async def stand_still_while_it_ends() -> object:
        children = Children(1)
        async with children.borrow() as child:
            assert await child.perform(Call(eval, ("1",), Where.CHILD, timeout_seconds=LIMIT_SECONDS)) == 1
            late = Call(eval, (FIRST + ending,), Where.CHILD, timeout_seconds=LIMIT_SECONDS)
            performing = asyncio.create_task(child.perform(late))
            await asyncio.wait({performing}, timeout=LIMIT_SECONDS / 4)
            threading.Event().wait(2 * LIMIT_SECONDS)  # a neighbour's mistake
            outcome = await performing
        await children.close()
        return outcome

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(stand_still_while_it_ends()) == ENDINGS[ending]
