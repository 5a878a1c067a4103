"""The interface between the worker and the packages whose work it runs.

    claim ---> build_call ---> outcome ---> settle
      worker     package         handler      the package's statements, in the worker's transaction

A package describes its work type: which table is leased, how a claimed row is run, and how outcomes are recorded. The
worker does the rest, the same for all of them: it claims, renews leases, runs handlers where they cannot delay the
heartbeat, settles in batches, and drains at a shutdown. Packages do not import the worker.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.executors.call import Call, Executor
from duly.lease.operations import (
    Lease,
    LeaseTable,
    claim_expired_rows,
    claim_rows,
    find_due_keys,
    find_expired_keys,
    quarantine_rows,
    release_rows,
    sweep_rows,
)
from duly.outcomes import Failed, GiveUp, failure_from_exception


class Stop(StrEnum):
    """The reason for which a handler is asked to stop."""

    LOST = "lost"  # another worker has claimed the row, or may have
    CANCELLED = "cancelled"  # its cancellation was requested
    TIMEOUT = "timeout"  # it exceeded its time limit
    SHUTDOWN = "shutdown"  # the worker shuts down


@dataclass(slots=True)
class StopSignal:
    """Tells a running handler whether to stop, and why; a thread cannot be stopped from outside."""

    reason: Stop | None = None

    @property
    def is_set(self) -> bool:
        """Whether the handler should stop."""
        return self.reason is not None


class LeaseOutcome(NamedTuple):
    """A lease and the outcome of its row."""

    lease: Lease
    outcome: object


@dataclass(frozen=True)
class Tuning:
    """Limits and intervals of one work type."""

    lease_seconds: float = 60.0
    heartbeat_seconds: float | None = 15.0  # None: leases are never renewed
    poll_seconds: float = 1.0
    sweep_seconds: float = 5.0
    slots: int = 50  # rows that run at once; where expired rows are reclaimed, one more slot is kept for these
    batch: int = 1000  # rows in one statement
    max_starts: int = 5  # where expired rows are reclaimed: after so many starts a row is quarantined


class Work(ABC):
    """A work type: a lease table, how a row of it is run, and how its outcome is recorded."""

    name: str  # its name in `--only`, logs and metrics
    table: LeaseTable
    tuning: Tuning
    notify_channel: str | None = None  # the channel of `duly.wake` that announces due rows, without the prefix `duly_`
    has_unleased_work: bool = False  # is `run_unleased` to be called at intervals?
    is_only_work: bool = True  # is it the only work type of the worker?
    handler_executors: frozenset[Executor] = frozenset([Executor.LOOP])  # where handlers need database connections

    @property
    def registered_work_types(self) -> Sequence[str]:
        """The types that the registry of workers lists for this work; jobs list the types of their handlers."""
        return [self.name]

    def describe(self, lease: Lease) -> str:
        """Name a row, for people."""
        return f"{self.name} {lease.key}"

    async def prepare(self, connection: Connection) -> None:  # noqa: B027
        """Write what the database must know of this worker, before the first claim."""

    def use_handler_pool(self, pool: Pool) -> None:  # noqa: B027
        """Keep the pool from which handlers take connections, on the loop they run on."""

    async def close(self) -> None:  # noqa: B027
        """Close what handlers used, on the loop they ran on, when the worker ends."""

    @abstractmethod
    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:
        """Build the call that runs this row. Quick and without I/O; an exception here is a failure of the row."""

    def log_failed_attempt(self, lease: Lease, failure: Failed | GiveUp) -> None:  # noqa: B027
        """Log a failed attempt before it is recorded; called where handlers run, once per attempt."""

    def build_failure_hook(self, lease: Lease, failure: Failed | GiveUp) -> Callable[[], Any] | None:  # noqa: ARG002
        """Build the call of the user's hooks for this failure, None without hooks; it may block, fail, or be async."""
        return None

    @abstractmethod
    async def settle(self, connection: Connection, finished: Sequence[LeaseOutcome]) -> frozenset[Any]:
        """Record outcomes in the open transaction, all or nothing; returns the keys that were still ours.

        An outcome is what the function of the call returned, or one of `outcomes.py` that the worker made of its end.
        """

    def outcome_for_refusal(self, error: Exception) -> object:
        """Return the outcome to record when the database refused the actual one: by default a failure."""
        return failure_from_exception(error)

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Claim up to `limit` due rows, or those of them with these keys."""
        tuning = self.tuning
        return await claim_rows(
            connection, self.table, worker_id, lease_seconds=tuning.lease_seconds, limit=limit, keys=keys
        )

    async def find_due(self, connection: Connection, limit: int, excluded_keys: Sequence[Any] = ()) -> list[Any]:
        """Find the keys of what `claim` would claim next, except these; empty where rows cannot be claimed by key."""
        return await find_due_keys(connection, self.table, excluded_keys=excluded_keys, limit=limit)

    async def claim_expired(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Claim up to `limit` rows whose lease has expired, or those of them with these keys."""
        return await claim_expired_rows(
            connection,
            self.table,
            worker_id,
            lease_seconds=self.tuning.lease_seconds,
            max_starts=self.tuning.max_starts,
            limit=limit,
            keys=keys,
        )

    async def find_expired(
        self, connection: Connection, limit: int = 100, excluded_keys: Sequence[Any] = ()
    ) -> list[Any]:
        """Find the keys of rows whose lease has expired, except these."""
        return await find_expired_keys(connection, self.table, excluded_keys=excluded_keys, limit=limit)

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Return expired rows, or those with these keys, to the queue, or quarantine them; returns how many."""
        if self.table.can_claim_expired:
            return len(await quarantine_rows(connection, self.table, max_starts=self.tuning.max_starts, keys=keys))
        return len(await sweep_rows(connection, self.table, keys=keys))

    async def run_unleased(self, connection: Connection) -> int:  # noqa: ARG002
        """Do some of what is due and needs no lease, in the open transaction; returns how many rows, 0 for none."""
        return 0

    async def maintain(self, connection: Connection) -> int:  # noqa: ARG002
        """Maintain the table: remove rows past their retention, for example; returns how many, 0 when none is left."""
        return 0

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> frozenset[Any]:
        """Release rows unfinished, without counting the start; returns the keys of those that were still ours."""
        return await release_rows(connection, leases)
