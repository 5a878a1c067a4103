"""A call of a handler: the function, its arguments, where it runs and within which limits."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Call", "Where", "where_to_run"]


class Where(StrEnum):
    """Where a handler runs; never on the loop that keeps the leases."""

    LOOP = "loop"  # `async def`: on the handlers' own event loop
    THREAD = "thread"  # a plain function: in a thread of a pool
    CHILD = "child"  # isolated: in a child process, with limits on memory and time


@dataclass(frozen=True, slots=True)
class Call:
    """How one claimed row is performed. A function for a child process, and its arguments, must be picklable."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    where: Where = Where.LOOP
    timeout_seconds: float | None = None
    memory_bytes: int | None = None  # in a child: how much more it may use than it does when idle


def where_to_run(function: Callable[..., Any], *, isolate: bool = False) -> Where:
    """The place that fits a function: isolated, asynchronous, or plain."""
    if isolate:
        return Where.CHILD
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    return Where.LOOP if is_async else Where.THREAD
