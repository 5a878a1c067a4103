"""The seam between a domain and the worker that runs it.

    claim ---> call ---> outcome ---> settle
      worker     domain    handler      domain's statements, the worker's transaction

A domain describes its work: which table is leased, how a claimed row is performed, and how outcomes are written down.
The worker does the rest, the same for every domain: claiming, keeping leases, running handlers where they can do no
harm, settling in batches, stopping politely. A domain never meets the worker; it only fills in this form.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.executors.call import Call, Where
from duly.lease.operations import (
    Lease,
    LeaseTable,
    claim,
    claim_expired,
    find_due,
    find_expired,
    quarantine,
    release,
    sweep,
)
from duly.outcomes import Failed, GiveUp, failure_of

__all__ = ["Finished", "ReportFailure", "Stop", "StopSign", "Tuning", "Work"]

ReportFailure: TypeAlias = Callable[[Lease, Failed | GiveUp], Callable[[], Any] | None]


class Stop(StrEnum):
    """Why a handler should stop."""

    LOST = "lost"  # somebody else holds the row now, or may
    CANCELLED = "cancelled"  # somebody asked
    TIMEOUT = "timeout"  # it took too long
    SHUTDOWN = "shutdown"  # the worker must go


@dataclass(slots=True)
class StopSign:
    """What a running handler may look at: whether to stop, and why. A thread cannot be stopped from outside."""

    why: Stop | None = None

    @property
    def is_up(self) -> bool:
        """Should the handler stop?"""
        return self.why is not None


class Finished(NamedTuple):
    """A row we hold, and what came of it."""

    lease: Lease
    outcome: object


@dataclass(frozen=True)
class Tuning:
    """How much at once and how often, for one kind of work."""

    lease_seconds: float = 60.0
    heartbeat_seconds: float | None = 15.0  # None: leases are never renewed
    poll_seconds: float = 1.0
    sweep_seconds: float = 5.0
    slots: int = 50  # rows worked on at once; where lapsed rows are reclaimed, one more is kept for these
    batch: int = 1000  # rows in one statement
    max_starts: int = 5  # where lapsed rows are reclaimed: then it is poison


class Work(ABC):
    """One kind of work: a lease table, how a row of it is performed, and how the outcome is recorded."""

    name: str  # what `--only`, logs and metrics call it
    table: LeaseTable
    tuning: Tuning
    wakes: str | None = None  # what `duly.wake` calls the rows that are announced, if they are
    is_alone: bool = True  # does the worker do nothing else?
    places: frozenset[Where] = frozenset([Where.LOOP])  # in which handlers use the connections that are lent

    @property
    def kinds(self) -> Sequence[str]:
        """What the registry of workers says we can do; a domain that tells its rows apart says more."""
        return [self.name]

    def describe(self, lease: Lease) -> str:
        """A row in a word or two, for people."""
        return f"{self.name} {lease.key}"

    async def prepare(self, connection: Connection) -> None:  # noqa: B027
        """Before the first claim: write down what the database must know of us."""

    def lend(self, pool: Pool) -> None:  # noqa: B027
        """Connections for handlers, on the loop they run on."""

    async def close(self) -> None:  # noqa: B027
        """When the worker ends, on the loop that handlers run on: let go of what was kept for them."""

    @abstractmethod
    def call(self, lease: Lease, sign: StopSign) -> Call:
        """How this row is performed. Quick and without I/O; an exception here is the row's failure."""

    def report_failure(self, lease: Lease, failure: Failed | GiveUp) -> Callable[[], Any] | None:  # noqa: ARG002
        """Log a failed try, before it is recorded; returns a hook of the user's that is to be called, if there is one.

        Called wherever handlers run, once for a try. The hook may take its time, fail, and be async.
        """
        return None

    @abstractmethod
    async def settle(self, connection: Connection, finished: Sequence[Finished]) -> frozenset[Any]:
        """Record outcomes, in the transaction that is open: all or nothing; returns the keys that were still ours.

        An outcome is what the function of `call` returned, or one of `outcome.py` that the worker made of its end.
        """

    def outcome_of_refusal(self, error: Exception) -> object:
        """What to record of a row whose outcome the database refused with this error: by default that it failed."""
        return failure_of(error)

    async def claim(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Hold up to `most` due rows, or these of them."""
        tuning = self.tuning
        return await claim(
            connection, self.table, worker_id, lease_seconds=tuning.lease_seconds, limit=limit, keys=keys
        )

    async def find_due(self, connection: Connection, limit: int, besides: Sequence[Any] = ()) -> list[Any]:
        """The keys of what `claim` would hold next, but for these; none where rows are not claimed by their keys."""
        return await find_due(connection, self.table, besides=besides, limit=limit)

    async def claim_expired(
        self, connection: Connection, worker_id: str, limit: int, keys: Sequence[Any] | None = None
    ) -> list[Lease]:
        """Take over up to `most` rows of holders that are gone, or these of them."""
        return await claim_expired(
            connection,
            self.table,
            worker_id,
            lease_seconds=self.tuning.lease_seconds,
            max_starts=self.tuning.max_starts,
            limit=limit,
            keys=keys,
        )

    async def find_expired(self, connection: Connection, limit: int = 100, besides: Sequence[Any] = ()) -> list[Any]:
        """The keys of what nobody holds any more, but for these."""
        return await find_expired(connection, self.table, besides=besides, limit=limit)

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:
        """Bring back, or set aside, what nobody holds any more, or these of it; returns how many rows there were."""
        if self.table.expired == "returned":
            return len(await sweep(connection, self.table, keys=keys))
        if not self.table.poisoned:
            return 0
        return len(await quarantine(connection, self.table, max_starts=self.tuning.max_starts, keys=keys))

    async def tend(self, connection: Connection) -> int:  # noqa: ARG002
        """Do some of what is due and needs no holder, in the transaction that is open; how many rows, 0 when none."""
        return 0

    async def tidy(self, connection: Connection) -> int:  # noqa: ARG002
        """Remove some of what may leave; how many rows went, 0 when there is nothing more."""
        return 0

    async def release(self, connection: Connection, leases: Sequence[Lease]) -> None:
        """Hand rows back unfinished and unblamed."""
        await release(connection, leases)
