"""The process pool: what counts towards the time limit of a call."""

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from duly.executors.call import Call, Executor
from duly.executors.process_pool import ProcessPool
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
STATUS_3 = Failed("CRASHED", "the child process exited with status 3 before it answered")
ENDINGS = {"7": 7, "__import__('os')._exit(3)": STATUS_3}


async def test_imports_of_the_first_call_do_not_count_towards_its_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy_to_import.py").write_text(HEAVY)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    heavy: Any = importlib.import_module("heavy_to_import")
    processes = ProcessPool(1)
    async with processes.borrow() as child:
        first = await child.perform(Call(heavy.say, ("hello",), Executor.PROCESS, timeout_seconds=LIMIT_SECONDS))
        late = await child.perform(Call(heavy.dawdle, (), Executor.PROCESS, timeout_seconds=LIMIT_SECONDS))
    assert first == "hello"
    assert late == Failed("TIMEOUT", f"took longer than {LIMIT_SECONDS:g} s")
    await processes.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("ending", ENDINGS, ids=["answer", "death"])
def test_a_child_result_in_time_counts_although_the_event_loop_was_blocked(
    new_loop: Callable[[], asyncio.AbstractEventLoop], ending: str
) -> None:
    async def stand_still_while_it_ends() -> object:
        processes = ProcessPool(1)
        async with processes.borrow() as child:
            assert await child.perform(Call(eval, ("1",), Executor.PROCESS, timeout_seconds=LIMIT_SECONDS)) == 1
            late = Call(eval, (FIRST + ending,), Executor.PROCESS, timeout_seconds=LIMIT_SECONDS)
            performing = asyncio.create_task(child.perform(late))
            await asyncio.wait({performing}, timeout=LIMIT_SECONDS / 4)
            threading.Event().wait(2 * LIMIT_SECONDS)  # a neighbour's mistake
            outcome = await performing
        await processes.close()
        return outcome

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(stand_still_while_it_ends()) == ENDINGS[ending]
