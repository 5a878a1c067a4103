"""Perform claimed jobs: find the handler, call it, settle its outcome.

A handler is a function of a context and of the payload's fields. It returns or raises an outcome (see `outcomes.py`).
Any other exception means failed. Any other value means done, or, after a stop request, stopped: the work may be
unfinished. A handler changes the job's row only through its context.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from duly.bounds import MAX_SNOOZES
from duly.db.pool import Pool
from duly.db.rows import Connection, Row
from duly.errors import InvalidResult
from duly.executors.call import Call, Executor, executor_for
from duly.jobs import repository
from duly.jobs.context import Context, JobDatabase
from duly.jobs.failures import OnFailure, build_hook_call, build_stored_message
from duly.jobs.limits import set_concurrency
from duly.jobs.model import CRASHED, TOO_MANY_SNOOZES, Floor, TypeInQueue, floors_after
from duly.jobs.states import JOB
from duly.lease.operations import Lease
from duly.lease.work import LeaseOutcome, StopSignal, Tuning, Work
from duly.logging import Trace, get_log
from duly.outcomes import RAISABLE, Cancelled, Done, Failed, GiveUp, Later, Released, Settled, Stopped

API_ROLE = "duly_api"
FLOOR_SECONDS = 1.0  # then a claim ignores the floors, to find jobs whose transactions committed late
PURGE_BATCH_SIZE = 1000
OUTCOME_TYPES = (*RAISABLE, Cancelled, Released, Settled)

log = get_log("duly.jobs")


@dataclass(frozen=True, slots=True)
class Handler:
    """The function that performs the jobs of a type in a queue, and how it runs."""

    type: str
    function: Callable[..., Any]
    queue: str = "default"
    isolate: bool = False
    timeout_seconds: float | None = None
    memory_bytes: int | None = None
    concurrency: int | None = None  # at most so many jobs of this type run at once, over all workers

    @property
    def job_type(self) -> TypeInQueue:
        """The jobs that it serves."""
        return TypeInQueue(self.queue, self.type)


class Invocation(NamedTuple):
    """How a handler is called: `perform`, of this module, runs in `executor` and calls `function`."""

    handler: Handler
    executor: Executor
    perform: Callable[..., Any]
    function: Callable[..., Any]


class JobWork(Work):
    """The work type `ledger`: jobs of the types that have a handler in this worker."""

    name = "ledger"
    table = JOB
    notify_channel = "ledger"

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
        self.handlers = {handler.job_type: handler for handler in handlers}
        self.invocations = {handler.job_type: plan_invocation(handler) for handler in handlers}
        self.handler_executors = frozenset(invocation.executor for invocation in self.invocations.values())
        self.floors: dict[TypeInQueue, Floor] = {}
        self.floors_end_at = 0.0  # on the monotonic clock
        self.pool: Pool | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def registered_work_types(self) -> Sequence[str]:
        """The work type, and each job type in a queue that has a handler."""
        return [self.name, *(f"{self.name}:{job_type.queue}/{job_type.type}" for job_type in self.handlers)]

    def describe(self, lease: Lease) -> str:
        """Return type and id of a job, for messages."""
        return f"{lease.row['type']} {lease.key}"

    async def prepare(self, connection: Connection) -> None:
        """Set or lift the limit of each declared type; where declarations differ, the last worker to start wins."""
        by_type = sorted(self.handlers.values(), key=lambda each: each.type)  # same order in all workers: no deadlock
        for handler in by_type:
            await set_concurrency(connection, handler.type, handler.concurrency)

    def use_handler_pool(self, pool: Pool) -> None:
        """Use this pool for the transactions of handlers."""
        self.pool, self.loop = pool, asyncio.get_running_loop()

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:
        """Build the call of this job's handler, with the payload's fields as arguments."""
        row = lease.row
        handler, executor, perform, function = self.invocations[TypeInQueue(row["queue"], row["type"])]
        is_isolated = executor is Executor.PROCESS
        context = build_context(lease) if is_isolated else build_context(lease, stop_signal, self.database_for(lease))
        seconds = row["timeout_seconds"] if row["timeout_seconds"] is not None else handler.timeout_seconds
        return Call(perform, (function, context, row["payload"]), executor, seconds, handler.memory_bytes)

    def log_failed_attempt(self, lease: Lease, failure: Failed | GiveUp) -> None:
        """Log a failed attempt with its traceback."""
        trace = {"trace": Trace(failure.traceback)} if failure.traceback else {}
        error = failure.error or failure.message
        log_failure(lease.row, lease.key, failure.code, is_last=isinstance(failure, GiveUp), error=error, **trace)

    def build_failure_hook(self, lease: Lease, failure: Failed | GiveUp) -> Callable[[], Any] | None:
        """Combine the failure hooks of the app into one call."""
        return build_hook_call(self.on_failure, build_context(lease), failure)

    def database_for(self, lease: Lease) -> JobDatabase | None:
        """Build the database access of a handler; None where there is no pool."""
        return JobDatabase(lease, self.pool, self.api_role, self.loop) if self.pool and self.loop else None

    async def find_due(self, connection: Connection, limit: int, excluded_keys: Sequence[Any] = ()) -> list[Any]:  # noqa: ARG002
        """Return nothing: only the claim itself can tell which jobs the limits admit."""
        return []

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Claim due jobs of the types that have a handler; others are left alone."""
        assert keys is None, "jobs are not claimed by their keys"
        if not self.handlers:
            return []
        now = time.monotonic()
        if now >= self.floors_end_at:
            self.floors, self.floors_end_at = {}, now + FLOOR_SECONDS
        leases = await repository.claim_jobs(
            connection,
            worker_id,
            tuple(self.handlers),
            lease_seconds=self.tuning.lease_seconds,
            limit=limit,
            floors=self.floors,
        )
        self.floors = floors_after(lease.row for lease in leases) if len(leases) == limit else {}
        return leases

    async def maintain(self, connection: Connection) -> int:
        """Delete some jobs whose retention is over."""
        return await repository.purge(connection, PURGE_BATCH_SIZE)

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Sweep jobs with expired leases; each counts as a failed attempt, and is logged."""
        rows = await repository.sweep_jobs(connection, keys=keys)
        for row in rows:
            if row["owner"]:
                log_failure(row, row["key"], CRASHED, error="its lease expired", holder=row["owner"])
        return len(rows)

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[UUID]:
        """Release jobs: any worker may claim them when it polls."""
        return await repository.release_jobs(connection, leases)

    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[UUID]:
        """Settle outcomes, with one or two statements per outcome type."""
        by_type: dict[type, list[LeaseOutcome]] = {}
        for each in finished:
            by_type.setdefault(type(each.outcome), []).append(each)
        keys: frozenset[UUID] = frozenset()
        for outcome_type, group in by_type.items():
            leases = [lease for lease, _ in group]
            outcomes: list[Any] = [outcome for _, outcome in group]
            if outcome_type is Done:
                keys |= await repository.settle_done(connection, leases, [each.result for each in outcomes])
            elif outcome_type is Later:
                keys |= await repository.snooze(connection, leases, [each.seconds for each in outcomes])
                log_snoozed_too_often(leases, keys)
            elif outcome_type is Cancelled:
                keys |= await repository.settle_cancelled(connection, leases)
            else:
                keys |= await repository.settle_failed(
                    connection,
                    leases,
                    [each.code for each in outcomes],
                    [build_stored_message(each, self.api_role) for each in outcomes],
                    [each.traceback for each in outcomes],
                    give_up=outcome_type is GiveUp,
                )
        return keys

    def outcome_for_refusal(self, error: Exception) -> object:
        """Give up when the database refuses a result: a retry would produce the same one."""
        return (
            GiveUp(error.code, str(error)) if isinstance(error, InvalidResult) else super().outcome_for_refusal(error)
        )


@dataclass(frozen=True, slots=True)
class ImportPath:
    """The import path of a handler, which is sent to a child process.

    The decorator has put the declared job type in the place of the function, so pickle would refuse the function.
    """

    module: str
    name: str

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> "ImportPath":
        """Return the import path of a function."""
        return cls(function.__module__, function.__qualname__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = attrgetter(self.name)(import_module(self.module))
        return getattr(found, "function", found)(*args, **kwargs)


def plan_invocation(handler: Handler) -> Invocation:
    """Choose how a handler is called."""
    executor = executor_for(handler.function, isolate=handler.isolate)
    perform = perform_async if inspect.iscoroutinefunction(handler.function) else perform_sync
    is_isolated = executor is Executor.PROCESS
    function = ImportPath.from_function(handler.function) if is_isolated else handler.function
    return Invocation(handler, executor, perform, function)


def log_failure(row: Row, key: UUID, code: str, *, is_last: bool = False, **values: object) -> None:
    """Log a failed attempt: a warning, or an error when no attempt follows."""
    is_last = is_last or row["attempt"] + 1 >= row["max_attempts"]
    about = {name: row[name] for name in ("type", "queue", "attempt", "max_attempts")}
    (log.error if is_last else log.warning)(
        "job.failed", job=str(key), **about, is_last_attempt=is_last, code=code, **values
    )


def log_snoozed_too_often(leases: Sequence[Lease], settled: Collection[UUID]) -> None:
    """Log the jobs that failed because their handlers returned `Later` once too often."""
    for lease in leases:
        if lease.key in settled and lease.row["snoozes"] >= MAX_SNOOZES:
            log_failure(lease.row, lease.key, TOO_MANY_SNOOZES)


def build_context(lease: Lease, stop_signal: StopSignal | None = None, database: JobDatabase | None = None) -> Context:
    """Build the context of a handler; in a child process without stop signal and database access."""
    row = lease.row
    return Context(
        job_id=row["id"],
        org_id=row["org_id"],
        type=row["type"],
        queue=row["queue"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        snoozes=row["snoozes"],
        stop_signal=stop_signal or StopSignal(),
        database=database,
    )


async def perform_async(function: Callable[..., Any], context: Context, payload: dict[str, Any]) -> object:
    """Call an `async def` handler."""
    try:
        return to_outcome(context, await function(context, **payload))
    except Exception as error:
        return outcome_from_raised(context, error)


def perform_sync(function: Callable[..., Any], context: Context, payload: dict[str, Any]) -> object:
    """Call a sync handler; in a child process this function is what is sent."""
    try:
        return to_outcome(context, function(context, **payload))
    except Exception as error:
        return outcome_from_raised(context, error)


def outcome_from_raised(context: Context, error: Exception) -> object:
    """Convert what a handler raised: `Settled` if the job was complete, `GiveUp` for a bad result; else raise it."""
    if context.is_settled:
        return Settled()
    if isinstance(error, InvalidResult):
        return GiveUp(error.code, str(error))
    raise error


def to_outcome(context: Context, returned: object) -> object:
    """Convert what a handler returned to an outcome; `Settled` when it completed the job itself.

    A plain value after a stop request may be half of the work: only an explicit `Done` means that it is finished.
    """
    if context.is_settled:
        return Settled()
    if isinstance(returned, OUTCOME_TYPES):
        return returned
    return Stopped() if context.should_stop else Done(returned)  # type: ignore[arg-type]
