"""The process tree of `duly up`: each component a process, restarted when it dies, stopped together.

    up --+-- api        duly serve
         +-- worker     duly worker
         +-- bot        duly bot, where it has a token and no webhook

A component ends on SIGTERM, on SIGKILL after its time to stop, or when the tree itself is gone (the lifeline). It runs
in a process group of its own, so that Ctrl-C reaches only the tree, and the tree decides.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from duly.executors import lifeline

FORCED_STOP_SECONDS = 5.0  # after a second signal
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
HEALTHY_SECONDS = 30.0


@dataclass(frozen=True)
class Component:
    """One command of the tree: `duly <arguments>`, with the environment and descriptors it needs."""

    name: str
    arguments: Sequence[str]
    environment: dict[str, str]
    descriptors: Sequence[int] = ()
    stop_seconds: float = 3.0  # time to stop after the first signal


Report = Callable[[str], None]
Output = IO[bytes] | None


async def run_tree(
    components: Sequence[Component],
    stop: asyncio.Event,
    force_stop: asyncio.Event,
    report: Report,
    output: Output,
) -> None:
    """Keep the components running until `stop` is set, then stop them all; returns when the last one is gone.

    `force_stop` sends the signal again, at which a worker stops at once. Their output goes to `output`, or to our
    standard error.
    """
    reading, writing = os.pipe()
    try:
        async with asyncio.TaskGroup() as group:
            for component in components:
                group.create_task(
                    keep_running(component, reading, stop, force_stop, report, output),
                    name=component.name,
                )
    finally:
        os.close(reading)
        os.close(writing)


async def keep_running(
    component: Component,
    lifeline_end: int,
    stop: asyncio.Event,
    force_stop: asyncio.Event,
    report: Report,
    output: Output,
) -> None:
    """Restart a component whenever it ends, until `stop`; a doubling pause keeps a broken one from spinning."""
    pause = FIRST_PAUSE_SECONDS
    while not stop.is_set():
        process = await start(component, lifeline_end, output)
        started_at = time.monotonic()
        if await first_of(process.wait(), stop.wait()) == "second":
            await end(process, component.stop_seconds, force_stop)
            return
        if time.monotonic() - started_at > HEALTHY_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        report(f"{component.name} exited with status {process.returncode}; restarting it in {pause:g} s")
        await first_of(asyncio.sleep(pause), stop.wait())
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


async def start(component: Component, lifeline_end: int, output: Output) -> asyncio.subprocess.Process:
    """Start the component's process, which ends with ours by the lifeline."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "duly",
        *component.arguments,
        env={**os.environ, **component.environment, lifeline.VARIABLE: str(lifeline_end)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output or sys.stderr,  # standard output is the tree's own
        stderr=output,
        pass_fds=(*component.descriptors, lifeline_end),
        process_group=0,
    )


async def end(process: asyncio.subprocess.Process, seconds: float, force_stop: asyncio.Event) -> None:
    """Send SIGTERM, again when the stop is forced, and SIGKILL when the time is over."""
    for timeout_seconds, next_signal in ((seconds, force_stop), (FORCED_STOP_SECONDS, asyncio.Event())):
        if process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_seconds):
                if await first_of(process.wait(), next_signal.wait()) == "first":
                    return
        except TimeoutError:
            break
    if process.returncode is None:
        process.kill()
    await process.wait()


async def first_of(
    first: Coroutine[object, object, object], second: Coroutine[object, object, object]
) -> Literal["first", "second"]:
    """Wait for either coroutine, and cancel the other."""
    one, two = asyncio.create_task(first), asyncio.create_task(second)
    try:
        await asyncio.wait((one, two), return_when=asyncio.FIRST_COMPLETED)
        return "second" if two.done() else "first"
    finally:
        one.cancel()
        two.cancel()
