"""A call of a handler: the function, its arguments, the executor and the limits."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Executor(StrEnum):
    """Where a handler runs; never on the loop that renews leases."""

    LOOP = "loop"  # `async def`: on the handlers' own event loop
    THREAD = "thread"  # a plain function: in a thread of a pool
    PROCESS = "process"  # isolated: in a child process, with limits on memory and time


@dataclass(frozen=True, slots=True)
class Call:
    """How one claimed row is run. A function for a child process, and its arguments, must be picklable."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    executor: Executor = Executor.LOOP
    timeout_seconds: float | None = None
    memory_bytes: int | None = None  # in a child process: how much more than when idle it may use


def executor_for(function: Callable[..., Any], *, isolate: bool = False) -> Executor:
    """Return the executor for a function: isolated, asynchronous, or plain."""
    if isolate:
        return Executor.PROCESS
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    return Executor.LOOP if is_async else Executor.THREAD
