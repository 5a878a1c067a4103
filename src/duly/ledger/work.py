"""What a worker does with a claimed job: finds its handler, performs it, writes down what came of it.

A handler is a function of a context and of the payload's fields. It says what happened by what it returns (see
`kernel/outcome.py`); a plain value means done, an exception means failed. It never touches the job's row.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import Any
from uuid import UUID

from duly.kernel.lease import Lease
from duly.kernel.outcome import Cancelled, Done, Failed, GiveUp, HandedBack, Later, Settled
from duly.kernel.work import Call, Connection, Finished, Pace, StopSign, Where, Work, where_to_run
from duly.ledger import store
from duly.ledger.machine import JOB
from duly.ledger.model import Kind

__all__ = ["CHANNEL", "Context", "Handler", "JobWork"]

CHANNEL = "duly_ledger"
SAID = (Done, Later, GiveUp, Failed, Cancelled, HandedBack, Settled)


@dataclass(frozen=True, slots=True)
class Handler:
    """Who performs the jobs of a type that wait in a queue."""

    type: str
    function: Callable[..., Any]
    queue: str = "default"
    isolate: bool = False
    timeout_seconds: float | None = None
    memory_bytes: int | None = None

    @property
    def kind(self) -> Kind:
        """What it can do."""
        return Kind(self.queue, self.type)


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler may know of the job it performs."""

    job_id: UUID
    org_id: UUID
    type: str
    queue: str
    attempt: int  # 0 the first time
    max_attempts: int
    sign: StopSign = field(default_factory=StopSign)

    @property
    def should_stop(self) -> bool:
        """Is it better to stop: lost, cancelled, too late, or the worker must go? For loops in plain functions."""
        return self.sign.is_up


class JobWork(Work):
    """The ledger as a kind of work: jobs of the types that have a handler here."""

    name = "ledger"
    of = JOB
    channel = CHANNEL

    def __init__(self, handlers: Sequence[Handler], pace: Pace) -> None:
        self.pace = pace
        self.handlers = {handler.kind: handler for handler in handlers}
        self.kinds = tuple(self.handlers)

    def call(self, lease: Lease, sign: StopSign) -> Call:
        """The handler of this job, with the payload's fields as its arguments."""
        row = lease.row
        handler = self.handlers[Kind(row["queue"], row["type"])]
        where = where_to_run(handler.function, isolate=handler.isolate)
        context = context_of(lease, StopSign() if where is Where.CHILD else sign)
        seconds = row["timeout_seconds"] if row["timeout_seconds"] is not None else handler.timeout_seconds
        perform = perform_async if inspect.iscoroutinefunction(handler.function) else perform_plain
        function = Named.of(handler.function) if where is Where.CHILD else handler.function
        return Call(perform, (function, context, row["payload"]), where, seconds, handler.memory_bytes)

    async def claim(self, connection: Connection, worker_id: str, most: int) -> list[Lease]:
        """Hold due jobs of the kinds we have handlers for; unknown work is left alone."""
        if not self.kinds:
            return []
        return await store.claim(connection, worker_id, self.kinds, lease_seconds=self.pace.lease_seconds, most=most)

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Take jobs from holders that are gone."""
        return await store.sweep(connection, keys=keys)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        """Let jobs wait again at once, unblamed."""
        await store.handed_back(connection, leases)

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[UUID]:
        """Write outcomes down, one statement or two for all of a sort."""
        sorts: dict[type, list[Finished]] = {}
        for each in finished:
            sorts.setdefault(type(each.outcome), []).append(each)
        keys: frozenset[UUID] = frozenset()
        for sort, several in sorts.items():
            keys |= await self.settle_sort(connection, sort, several)
        return keys

    async def settle_sort(self, connection: Connection, sort: type, finished: Sequence[Finished]) -> frozenset[UUID]:
        """Write down outcomes of one sort."""
        leases = [lease for lease, _ in finished]
        outcomes: list[Any] = [outcome for _, outcome in finished]
        if sort is Done:
            return await store.done(connection, leases, [each.result for each in outcomes])
        if sort is Later:
            return await store.later(connection, leases, [each.seconds for each in outcomes])
        if sort is Cancelled:
            return await store.cancelled(connection, leases)
        act = store.gave_up if sort is GiveUp else store.failed
        return await act(connection, leases, [each.code for each in outcomes], [each.message for each in outcomes])


@dataclass(frozen=True, slots=True)
class Named:
    """A function by the name it can be imported under: what travels to a child process.

    The name stands for a declared job type there, which holds the function; pickle alone would refuse that.
    """

    module: str
    name: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Named":
        """The name of a function."""
        return cls(function.__module__, function.__qualname__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = attrgetter(self.name)(import_module(self.module))
        return getattr(found, "function", found)(*args, **kwargs)


def context_of(lease: Lease, sign: StopSign) -> Context:
    """What a handler may know of this job."""
    row = lease.row
    return Context(row["id"], row["org_id"], row["type"], row["queue"], row["attempt"], row["max_attempts"], sign)


async def perform_async(function: Callable[..., Any], context: Context, payload: dict[str, Any]) -> object:
    """Call an `async def` handler."""
    return said_by(await function(context, **payload))


def perform_plain(function: Callable[..., Any], context: Context, payload: dict[str, Any]) -> object:
    """Call a plain handler; in a child process this is what travels."""
    return said_by(function(context, **payload))


def said_by(returned: object) -> object:
    """A handler's own words, or done with what it returned."""
    return returned if isinstance(returned, SAID) else Done(returned)  # type: ignore[arg-type]
