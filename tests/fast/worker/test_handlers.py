"""What the handlers' side keeps in memory: nothing of a row that has ended."""

import asyncio
from typing import Any

from duly.executors.call import Call, Where
from duly.executors.process_pool import Children
from duly.lease.operations import Lease
from duly.outcomes import Done
from duly.worker.handlers import Handlers, News, Running


async def test_the_timer_of_a_thread_ends_with_the_thread() -> None:
    came: list[News] = []
    handlers = Handlers(threads=2, children=Children(1))
    handlers.attach(asyncio.get_running_loop())
    gate, all_came = asyncio.Event(), asyncio.Event()

    def deliver(news: Any) -> None:
        came.extend(news)
        all_came.set()

    def perform(loop: asyncio.AbstractEventLoop) -> Done:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
        return Done()

    call = Call(perform, (asyncio.get_running_loop(),), Where.THREAD, timeout_seconds=3600)
    lease: Any = Lease.__new__(Lease)
    running = Running(lease, lambda _lease, _sign: call)
    handlers.start([running], deliver)
    while running.timer is None:
        await asyncio.wait([asyncio.create_task(turn())])
    gate.set()
    await all_came.wait()
    await turn()
    assert [each.outcome for each in came] == [Done()]
    assert running.timer.cancelled()
    assert handlers.under_way == set()
    await handlers.close()


async def turn() -> None:
    """Let the loop go round."""
    woken = asyncio.Event()
    asyncio.get_running_loop().call_soon(woken.set)
    await woken.wait()
