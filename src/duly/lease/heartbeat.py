"""Renews every lease we hold, and stops the holder of a lease that is lost or can no longer be renewed.

    every heartbeat          one statement per table, which never waits for a lock; each lease is then renewed, skipped,
                             lost, or to be cancelled
    the database is silent   at (last renewal sent) + lease - margin, by our monotonic clock, the holder is stopped:
                             before another worker can claim the row

All heartbeats of a worker share one connection of their own, on a loop where nothing runs for long.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection

from duly.backoff import Backoff, BackoffPolicy
from duly.db.pool import reads_committed, set_role
from duly.errors import DulyError
from duly.lease.operations import Lease, LeaseTable, Renewal, renew_leases

LAST_BEAT_SECONDS = 1.0  # limit for a beat that is in progress when the heartbeat is stopped

Connect = Callable[[], Awaitable[AsyncConnection[Any]]]


@dataclass(eq=False, slots=True)
class WatchedLease:
    """A lease that the heartbeat renews, or watches until it expires.

    It is lost once it is no longer certain to be ours: another owner has the row, or may have.
    """

    lease: Lease
    valid_until: float  # our monotonic clock; after it another worker may hold the row
    on_lost: Callable[[], object]
    on_cancel: Callable[[], object] | None = None
    lost_reason: str | None = None  # set once it is lost
    is_cancel_requested: bool = False

    def mark_lost(self, why: str) -> None:
        """Mark the lease as lost and call `on_lost`, once."""
        if self.lost_reason is None:
            self.lost_reason = why
            self.on_lost()

    def request_cancel(self) -> None:
        """Call `on_cancel`, once."""
        if not self.is_cancel_requested:
            self.is_cancel_requested = True
            if self.on_cancel:
                self.on_cancel()


class Heartbeat:
    """Renews the leases of one work type; without a heartbeat interval it only stops holders whose lease is over."""

    def __init__(
        self,
        connect: "Connect | SharedConnection",
        *,
        lease_seconds: float,
        heartbeat_seconds: float | None,
        margin_seconds: float | None = None,
        role: str | None = None,
        on_error: Callable[[Exception], object] = lambda _: None,
        on_beat: Callable[[], object] = lambda: None,
    ) -> None:
        assert not heartbeat_seconds or heartbeat_seconds < lease_seconds / 3, "a lease must survive two heartbeats"
        self.role = role
        self.on_error = on_error
        self.on_beat = on_beat
        self.shared = connect if isinstance(connect, SharedConnection) else SharedConnection(connect)
        self.lease_seconds = lease_seconds
        self.heartbeat_seconds = heartbeat_seconds or lease_seconds
        self.is_renewing = heartbeat_seconds is not None
        self.margin_seconds = lease_seconds / 10 if margin_seconds is None else margin_seconds
        self.leases: dict[tuple[tuple[str, str], Any, str], WatchedLease] = {}
        self.abandoned: set[asyncio.Task[None]] = set()  # beats and connections that are being closed
        self.beats = 0
        self.beat_done = asyncio.Condition()
        self.connection: AsyncConnection[Any] | None = None  # of the last beat

    def watch(
        self, lease: Lease, on_lost: Callable[[], object], on_cancel: Callable[[], object] | None = None
    ) -> WatchedLease:
        """Renew a lease from now on; each callback is called at most once, on the heartbeat's loop."""
        watched = WatchedLease(lease, lease.sent_at + self.lease_seconds - self.margin_seconds, on_lost, on_cancel)
        self.leases[self.lease_id(lease)] = watched
        return watched

    def unwatch(self, watched: WatchedLease) -> None:
        """Stop renewing a lease: it is settled, released or lost."""
        self.leases.pop(self.lease_id(watched.lease), None)

    @staticmethod
    def lease_id(lease: Lease) -> tuple[tuple[str, str], Any, str]:
        """Identify a lease by table, key and owner: we may have claimed one row twice."""
        return lease.table.qualified_name, lease.key, lease.owner

    async def run(self) -> None:
        """Renew leases and watch for their expiry until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                if self.is_renewing:
                    group.create_task(self.beat_repeatedly())
                group.create_task(self.watch_expiry())
        finally:
            for closing in self.abandoned:
                closing.cancel()
            await asyncio.gather(*self.abandoned, return_exceptions=True)
            await self.shared.close()

    async def beat_repeatedly(self) -> None:
        """Beat at every interval; a beat that fails is retried soon, with jitter."""
        failures = 0
        retry = Backoff(BackoffPolicy.EXP, self.heartbeat_seconds / 8, self.heartbeat_seconds / 2)
        while True:
            beat = asyncio.create_task(self.beat())
            try:
                done, _ = await asyncio.wait([beat], timeout=self.heartbeat_seconds)
                if not done:
                    raise TimeoutError(f"heartbeat not answered within {self.heartbeat_seconds:g} s")
                beat.result()
                failures, pause = 0, self.heartbeat_seconds
            except (psycopg.Error, DulyError, TimeoutError, OSError) as error:
                self.on_error(error)
                self.abandon(beat)
                failures, pause = failures + 1, retry.delay_seconds(min(failures, 10))
            except asyncio.CancelledError:
                await self.let_finish(beat)
                raise
            await asyncio.sleep(pause)

    async def let_finish(self, beat: asyncio.Task[None]) -> None:
        """Let a beat in progress finish: stopping it takes a cancel request, which not every pooler survives."""
        done, _ = await asyncio.wait([beat], timeout=min(self.heartbeat_seconds, LAST_BEAT_SECONDS))
        if not done or beat.exception():
            self.abandon(beat)

    def abandon(self, beat: asyncio.Task[None]) -> None:
        """Abandon a beat and its connection: closing a dead connection can take longer than a lease lasts."""
        connection, self.connection = self.connection, None
        self.shared.discard(connection)
        beat.cancel()

        async def close_abandoned() -> None:
            try:
                await asyncio.gather(beat, return_exceptions=True)
            finally:
                if connection:
                    async with self.shared.lock_for(connection):
                        connection.pgconn.finish()

        closing = asyncio.create_task(close_abandoned())
        self.abandoned.add(closing)
        closing.add_done_callback(self.abandoned.discard)

    async def beat(self) -> None:
        """Renew every lease, with one statement per table."""
        for leases in self.leases_by_table().values():
            sent_at = time.monotonic()
            answer = await self.renew(leases)
            self.on_beat()
            for lease in leases:
                watched = self.leases.get(self.lease_id(lease))
                if watched is None:
                    continue
                if lease.claim in answer.renewed:
                    watched.valid_until = max(watched.valid_until, sent_at + self.lease_seconds - self.margin_seconds)
                if lease.claim in answer.lost:
                    watched.mark_lost(f"{lease.table} {lease.key} is leased to another owner")
                if lease.claim in answer.cancelled:
                    watched.request_cancel()
        async with self.beat_done:
            self.beats += 1
            self.beat_done.notify_all()

    async def renew(self, leases: Sequence[Lease]) -> Renewal:
        """Renew leases of one table, on the shared connection."""
        self.connection = None
        while True:
            self.connection = connection = await self.shared.get()  # abandoned together with a beat that times out
            async with self.shared.lock_for(connection):
                if self.shared.is_current(connection):
                    return await self.renew_on(connection, leases)

    async def renew_on(self, connection: AsyncConnection[Any], leases: Sequence[Lease]) -> Renewal:
        """Run the statement, in a transaction if a role must be set or the default is not READ COMMITTED."""
        if not self.role and self.shared.is_read_committed:
            return await renew_leases(connection, leases, lease_seconds=self.lease_seconds)
        async with connection.transaction():
            await set_role(connection, self.role)
            return await renew_leases(connection, leases, lease_seconds=self.lease_seconds)

    def leases_by_table(self) -> dict[LeaseTable, list[Lease]]:
        """Group the leases that are not lost by table."""
        tables: dict[LeaseTable, list[Lease]] = defaultdict(list)
        for watched in self.leases.values():
            if watched.lost_reason is None:
                tables[watched.lease.table].append(watched.lease)
        return tables

    async def watch_expiry(self) -> None:
        """Stop holders whose lease may have expired, by our own clock alone."""
        while True:
            now = time.monotonic()
            for watched in list(self.leases.values()):
                if now >= watched.valid_until:
                    watched.mark_lost(self.explain_expiry(watched.lease))
            await asyncio.sleep(self.margin_seconds / 4)

    def explain_expiry(self, lease: Lease) -> str:
        """Explain why a lease expired while we watched it."""
        if self.is_renewing:
            return f"the database did not confirm the renewal of {lease.table} {lease.key} in time"
        return f"{lease.table} {lease.key} ran longer than its lease of {self.lease_seconds:g} s, which is not renewed"


class SharedConnection:
    """One connection for the heartbeats of all work types, which use it one at a time.

    A connection that failed is discarded, even while it is being opened: the next user opens another one, and a user of
    the discarded one keeps it until its statement ends.
    """

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.current: AsyncConnection[Any] | None = None
        self.opening: asyncio.Task[None] | None = None
        self.discarded: set[asyncio.Task[None]] = set()  # connections discarded while they were being opened
        self.is_read_committed = False  # is that the isolation level of a statement outside a transaction?
        self.locks: WeakKeyDictionary[AsyncConnection[Any], asyncio.Lock] = WeakKeyDictionary()

    def is_current(self, connection: AsyncConnection[Any]) -> bool:
        """Return whether this is still the connection to use."""
        return connection is self.current and not connection.closed

    def lock_for(self, connection: AsyncConnection[Any]) -> asyncio.Lock:
        """Return the lock that the user of a connection holds."""
        return self.locks.setdefault(connection, asyncio.Lock())

    async def get(self) -> AsyncConnection[Any]:
        """Return the connection; opens one when there is none."""
        while self.current is None or self.current.closed:
            self.current = None
            opening = self.opening = self.opening or asyncio.create_task(self.open())
            try:
                await asyncio.shield(opening)
            except asyncio.CancelledError:
                if opening.cancelled():  # by another heartbeat, which had waited longer
                    raise psycopg.OperationalError("the connection for heartbeats could not be opened") from None
                raise
        return self.current

    async def open(self) -> None:
        """Open a connection; one that was discarded meanwhile is closed again."""
        this = asyncio.current_task()
        try:
            connection = await self.connect()
            try:
                is_read_committed = await reads_committed(connection)
            except BaseException:
                connection.pgconn.finish()
                raise
            if self.opening is this:
                self.current, self.is_read_committed = connection, is_read_committed
            else:
                connection.pgconn.finish()
        finally:
            if self.opening is this:
                self.opening = None

    def discard(self, connection: AsyncConnection[Any] | None) -> None:
        """Discard this connection, or with None the one that is being opened."""
        if connection is not None:
            self.current = None if self.current is connection else self.current
        elif opening := self.opening:
            self.opening = None
            opening.cancel()
            self.discarded.add(opening)
            opening.add_done_callback(self.discarded.discard)

    async def close(self) -> None:
        """Close the connection once its user has finished."""
        self.discard(None)
        await asyncio.gather(*self.discarded, return_exceptions=True)
        if connection := self.current:
            self.current = None
            async with self.lock_for(connection):
                await disconnect(connection)


async def disconnect(connection: AsyncConnection[Any] | None) -> None:
    """Close a connection, ignoring errors."""
    if connection:
        with suppress(psycopg.Error, OSError):
            await connection.close()
