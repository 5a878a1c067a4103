"""What a worker does with a claimed job: finds its handler, performs it, writes down what came of it.

A handler is a function of a context and of the payload's fields. It says what happened by what it returns (see
`outcomes.py`); a plain value means done, an exception means failed. It never touches the job's row.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from duly.db.pool import Pool
from duly.db.rows import Connection, Row
from duly.errors import InvalidResult
from duly.executors.call import Call, Where, where_to_run
from duly.jobs import repository
from duly.jobs.context import Context, Desk
from duly.jobs.failures import OnFailure, explained, hook_of
from duly.jobs.model import Floor, Kind, floors_after
from duly.jobs.states import JOB
from duly.lease.operations import Lease
from duly.lease.work import Finished, StopSign, Tuning, Work
from duly.logging import Trace, get_log
from duly.outcomes import RAISABLE, Cancelled, Done, Failed, GiveUp, HandedBack, Later, Settled, Stopped

__all__ = ["Handler", "JobWork"]

API_ROLE = "duly_api"
FLOOR_SECONDS = 1.0  # then a claim looks below the floors again, where a late commit may have put something
REMOVED_AT_ONCE = 1000
SAID = (*RAISABLE, Cancelled, HandedBack, Settled)

log = get_log("duly.jobs")


@dataclass(frozen=True, slots=True)
class Handler:
    """Who performs the jobs of a type that wait in a queue."""

    type: str
    function: Callable[..., Any]
    queue: str = "default"
    isolate: bool = False
    timeout_seconds: float | None = None
    memory_bytes: int | None = None
    limit: int | None = None  # of this type running at once, over all workers

    @property
    def kind(self) -> Kind:
        """What it can do."""
        return Kind(self.queue, self.type)


class Way(NamedTuple):
    """How a handler is called, found out once: where it runs, by which of our functions, and what that calls."""

    handler: Handler
    where: Where
    perform: Callable[..., Any]
    function: Callable[..., Any]


class JobWork(Work):
    """The ledger as a kind of work: jobs of the types that have a handler here."""

    name = "ledger"
    table = JOB
    wakes = "ledger"

    def __init__(
        self,
        handlers: Sequence[Handler],
        tuning: Tuning,
        *,
        api_role: str = API_ROLE,
        on_failure: Sequence[OnFailure] = (),
    ) -> None:
        self.tuning = tuning
        self.api_role = api_role
        self.on_failure = tuple(on_failure)
        self.handlers = {handler.kind: handler for handler in handlers}
        self.ways = {handler.kind: way_of(handler) for handler in handlers}
        self.places = frozenset(way.where for way in self.ways.values())
        self.floors: dict[Kind, Floor] = {}
        self.floors_end_at = 0.0  # by our monotonic clock
        self.pool: Pool | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def kinds(self) -> Sequence[str]:
        """The ledger, and each queue and type there is a handler for."""
        return [self.name, *(f"{self.name}:{kind.queue}/{kind.type}" for kind in self.handlers)]

    def describe(self, lease: Lease) -> str:
        """A job's type and id."""
        return f"{lease.row['type']} {lease.key}"

    async def prepare(self, connection: Connection) -> None:
        """How many of a type may run is what its declaration says: the limits of ours are set, or lifted."""
        for handler in sorted(self.handlers.values(), key=lambda each: each.type):  # as every worker does: no deadlock
            await repository.set_limit(connection, handler.type, handler.limit)

    def lend(self, pool: Pool) -> None:
        """Connections for the transactions of handlers."""
        self.pool, self.loop = pool, asyncio.get_running_loop()

    def call(self, lease: Lease, sign: StopSign) -> Call:
        """The handler of this job, with the payload's fields as its arguments."""
        row = lease.row
        handler, where, perform, function = self.ways[Kind(row["queue"], row["type"])]
        context = context_of(lease) if where is Where.CHILD else context_of(lease, sign, self.desk_for(lease))
        seconds = row["timeout_seconds"] if row["timeout_seconds"] is not None else handler.timeout_seconds
        return Call(perform, (function, context, row["payload"]), where, seconds, handler.memory_bytes)

    def report_failure(self, lease: Lease, failure: Failed | GiveUp) -> Callable[[], Any] | None:
        """Log a failed try with its traceback; the last one, which makes a dead letter, as an error."""
        trace = {"trace": Trace(failure.traceback)} if failure.traceback else {}
        is_dead = isinstance(failure, GiveUp)
        log_failure(
            lease.row, lease.key, failure.code, is_dead=is_dead, error=failure.error or failure.message, **trace
        )
        return hook_of(self.on_failure, context_of(lease), failure)

    def desk_for(self, lease: Lease) -> Desk | None:
        """A handler's way to the database, where there is one."""
        return Desk(lease, self.pool, self.api_role, self.loop) if self.pool and self.loop else None

    async def find_due(self, connection: Connection, limit: int, besides: Sequence[Any] = ()) -> list[Any]:  # noqa: ARG002
        """None: which jobs there is room for, only the claim itself can tell."""
        return []

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Hold due jobs of the kinds we have handlers for; unknown work is left alone."""
        assert keys is None, "jobs are not claimed by their keys"
        if not self.handlers:
            return []
        now = time.monotonic()
        if now >= self.floors_end_at:
            self.floors, self.floors_end_at = {}, now + FLOOR_SECONDS
        leases = await repository.claim(
            connection,
            worker_id,
            tuple(self.handlers),
            lease_seconds=self.tuning.lease_seconds,
            limit=limit,
            floors=self.floors,
        )
        self.floors = floors_after(lease.row for lease in leases) if len(leases) == limit else {}
        return leases

    async def tidy(self, connection: Connection) -> int:
        """Remove some jobs whose time is over."""
        return await repository.retain(connection, REMOVED_AT_ONCE)

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Take jobs from holders that are gone; each is a failed try, and logged."""
        rows = await repository.sweep_jobs(connection, keys=keys)
        for row in rows:
            if row["owner"]:
                log_failure(row, row["key"], "CRASHED", error="its lease expired", holder=row["owner"])
        return len(rows)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        """Let jobs wait again at once, unblamed."""
        await repository.handed_back(connection, leases)

    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[UUID]:
        """Write outcomes down, one statement or two for all of a sort."""
        sorts: dict[type, list[Finished]] = {}
        for each in finished:
            sorts.setdefault(type(each.outcome), []).append(each)
        keys: frozenset[UUID] = frozenset()
        for sort, several in sorts.items():
            keys |= await self.settle_sort(connection, sort, several)
        return keys

    def outcome_of_refusal(self, error: Exception) -> object:
        """A result that the database refuses would be refused again after the work was done again."""
        return GiveUp(error.code, str(error)) if isinstance(error, InvalidResult) else super().outcome_of_refusal(error)

    async def settle_sort(self, connection: Connection, sort: type, finished: Sequence[Finished]) -> frozenset[UUID]:
        """Write down outcomes of one sort."""
        leases = [lease for lease, _ in finished]
        outcomes: list[Any] = [outcome for _, outcome in finished]
        if sort is Done:
            with repository.results_refused():
                return await repository.done(connection, leases, [each.result for each in outcomes])
        if sort is Later:
            return await repository.later(connection, leases, [each.seconds for each in outcomes])
        if sort is Cancelled:
            return await repository.cancelled(connection, leases)
        act = repository.gave_up if sort is GiveUp else repository.failed
        messages = [explained(each, self.api_role) for each in outcomes]
        traces = [each.traceback for each in outcomes]
        return await act(connection, leases, [each.code for each in outcomes], messages, traces)


@dataclass(frozen=True, slots=True)
class Named:
    """A function by the name it can be imported under: what travels to a child process.

    The name stands for a declared job type there, which holds the function; pickle alone would refuse that.
    """

    module: str
    name: str

    @classmethod
    def table(cls, function: Callable[..., Any]) -> "Named":
        """The name of a function."""
        return cls(function.__module__, function.__qualname__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = attrgetter(self.name)(import_module(self.module))
        return getattr(found, "function", found)(*args, **kwargs)


def way_of(handler: Handler) -> Way:
    """How this handler is called."""
    where = where_to_run(handler.function, isolate=handler.isolate)
    perform = perform_async if inspect.iscoroutinefunction(handler.function) else perform_plain
    return Way(handler, where, perform, Named.table(handler.function) if where is Where.CHILD else handler.function)


def log_failure(row: Row, key: UUID, code: str, *, is_dead: bool = False, **values: object) -> None:
    """Log a failed try: a warning, or an error when it was the last and the job is a dead letter."""
    is_dead = is_dead or row["attempt"] + 1 >= row["max_attempts"]
    about = {name: row[name] for name in ("type", "queue", "attempt", "max_attempts")}
    words = "job failed; it is a dead letter" if is_dead else "job failed"
    (log.error if is_dead else log.warning)(words, job=str(key), **about, code=code, **values)


def context_of(lease: Lease, sign: StopSign | None = None, desk: Desk | None = None) -> Context:
    """What a handler may know of this job; in a child process, without a sign to look at and without a desk."""
    row = lease.row
    return Context(
        job_id=row["id"],
        org_id=row["org_id"],
        type=row["type"],
        queue=row["queue"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        snoozes=row["snoozes"],
        sign=sign or StopSign(),
        desk=desk,
    )


async def perform_async(function: Callable[..., Any], context: Context, payload: dict[str, Any]) -> object:
    """Call an `async def` handler."""
    try:
        return said_by(context, await function(context, **payload))
    except InvalidResult as error:
        return Settled() if context.is_settled else GiveUp(error.code, str(error))
    except Exception:
        if context.is_settled:
            return Settled()
        raise


def perform_plain(function: Callable[..., Any], context: Context, payload: dict[str, Any]) -> object:
    """Call a plain handler; in a child process this is what travels."""
    try:
        return said_by(context, function(context, **payload))
    except InvalidResult as error:
        return Settled() if context.is_settled else GiveUp(error.code, str(error))
    except Exception:
        if context.is_settled:
            return Settled()
        raise


def said_by(context: Context, returned: object) -> object:
    """A handler's own words, or done with what it returned; one that completed the job itself has said everything.

    A plain value after the handler was asked to stop may be half of the work: only `Done` says that it is all of it.
    """
    if context.is_settled:
        return Settled()
    if isinstance(returned, SAID):
        return returned
    return Stopped() if context.should_stop else Done(returned)  # type: ignore[arg-type]
