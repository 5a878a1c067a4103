"""The handlers keep nothing of a row that has ended in memory."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from duly.executors.call import Call, Executor
from duly.executors.process_pool import ProcessPool
from duly.lease.operations import Lease
from duly.outcomes import Done
from duly.worker.handlers import Handlers, HeldRow, RunReport


async def test_timer_of_a_thread_is_cancelled_when_the_thread_ends() -> None:
    reports: list[RunReport] = []
    handlers = Handlers(threads=2, processes=ProcessPool(1))
    handlers.attach(asyncio.get_running_loop())
    gate, all_delivered = asyncio.Event(), asyncio.Event()

    def deliver(batch: Any) -> None:
        reports.extend(batch)
        all_delivered.set()

    def perform(loop: asyncio.AbstractEventLoop) -> Done:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
        return Done()

    call = Call(perform, (asyncio.get_running_loop(),), Executor.THREAD, timeout_seconds=3600)
    lease: Any = Lease.__new__(Lease)
    work: Any = SimpleNamespace(build_call=Mock(return_value=call))
    running = HeldRow(work, lease)
    handlers.start([running], deliver)
    while running.timer is None:
        await asyncio.wait([asyncio.create_task(turn())])
    gate.set()
    await all_delivered.wait()
    await turn()
    assert [each.outcome for each in reports] == [Done()]
    assert running.timer.cancelled()
    assert handlers.in_progress == set()
    await handlers.close()


async def turn() -> None:
    """Let the loop turn once."""
    woken = asyncio.Event()
    asyncio.get_running_loop().call_soon(woken.set)
    await woken.wait()
