"""The keeper: beats for every lease we hold, tells a holder that lost one, and gives up in time when nobody answers.

    every heartbeat        one statement per table, which never waits; answered: kept, busy, lost, asked to cancel
    the database silent    at (last renewal sent) + lease - margin, on our own clock, the holder is told to stop:
                           before anybody else can have the row, it has stopped by itself

Keepers share a connection that nobody else uses, and a loop with nothing that works for long.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection

from duly.backoff import Backoff, BackoffPolicy
from duly.db.pool import reads_committed, take_role
from duly.errors import DulyError, LeaseLost
from duly.lease.operations import Lease, LeaseTable, Renewal, renew

__all__ = ["Connect", "Heartbeat", "Held", "SharedLine"]

LAST_BEAT_SECONDS = 1.0  # so long may the beat take during which we were stopped

Connect = Callable[[], Awaitable[AsyncConnection[Any]]]


@dataclass(eq=False, slots=True)
class Held:
    """A lease in the keeper's care."""

    lease: Lease
    good_until: float  # our monotonic clock; past it we may no longer be the holder
    on_lost: Callable[[], object]
    on_cancel: Callable[[], object] | None = None
    lost: str | None = None  # why, once it is
    cancel_requested: bool = False

    def lose(self, why: str) -> None:
        """Tell the holder, once."""
        if self.lost is None:
            self.lost = why
            self.on_lost()

    def request_cancel(self) -> None:
        """Pass on, once, that somebody wants it to stop."""
        if not self.cancel_requested:
            self.cancel_requested = True
            if self.on_cancel:
                self.on_cancel()


class Heartbeat:
    """Keeps the leases of one worker; without a heartbeat it renews none, and only tells when they are over."""

    def __init__(
        self,
        connect: "Connect | SharedLine",
        *,
        lease_seconds: float,
        heartbeat_seconds: float | None,
        margin_seconds: float | None = None,
        role: str | None = None,
        on_trouble: Callable[[Exception], object] = lambda _: None,
        on_beat: Callable[[], object] = lambda: None,
    ) -> None:
        assert not heartbeat_seconds or heartbeat_seconds < lease_seconds / 3, "a lease must survive two missed beats"
        self.role = role
        self.on_trouble = on_trouble
        self.on_beat = on_beat
        self.line = connect if isinstance(connect, SharedLine) else SharedLine(connect)
        self.lease_seconds = lease_seconds
        self.heartbeat_seconds = heartbeat_seconds or lease_seconds
        self.renews = heartbeat_seconds is not None
        self.margin_seconds = lease_seconds / 10 if margin_seconds is None else margin_seconds
        self.holds: dict[tuple[tuple[str, str], Any, str], Held] = {}
        self.burials: set[asyncio.Task[None]] = set()
        self.beats = 0
        self.beaten = asyncio.Condition()
        self.connection: AsyncConnection[Any] | None = None  # of the last beat

    @asynccontextmanager
    async def holding(self, lease: Lease) -> AsyncGenerator[Held, None]:
        """Keep a lease while the body works; LeaseLost comes out of the body when it is lost."""
        task = asyncio.current_task()
        assert task, "a lease is held by a task"
        held = self.keep(lease, on_lost=task.cancel)
        try:
            yield held
        except asyncio.CancelledError:
            if held.lost is None or task.uncancel() > 0:
                raise
            raise LeaseLost(held.lost) from None
        finally:
            self.drop(held)
        if held.lost is not None:  # the body swallowed the news
            task.uncancel()
            raise LeaseLost(held.lost)

    def keep(self, lease: Lease, on_lost: Callable[[], object], on_cancel: Callable[[], object] | None = None) -> Held:
        """Take a lease into care; each callback is called at most once, on the keeper's loop."""
        held = Held(lease, lease.sent_at + self.lease_seconds - self.margin_seconds, on_lost, on_cancel)
        self.holds[self.place_of(lease)] = held
        return held

    def drop(self, held: Held) -> None:
        """Stop keeping: it is settled, handed back or lost."""
        self.holds.pop(self.place_of(held.lease), None)

    @staticmethod
    def place_of(lease: Lease) -> tuple[tuple[str, str], Any, str]:
        """A lease by table, key and owner: one row may be ours twice, the earlier time stale."""
        return lease.table.qualified_name, lease.key, lease.owner

    async def run(self) -> None:
        """Beat and watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                if self.renews:
                    group.create_task(self.beat_for_ever())
                group.create_task(self.watch_for_ever())
        finally:
            for burial in self.burials:
                burial.cancel()
            await asyncio.gather(*self.burials, return_exceptions=True)
            await self.line.close()

    async def beat_for_ever(self) -> None:
        """One beat after another; a beat that fails is tried again soon, with jitter."""
        failures = 0
        retry = Backoff(BackoffPolicy.EXP, self.heartbeat_seconds / 8, self.heartbeat_seconds / 2)
        while True:
            beat = asyncio.create_task(self.beat())
            try:
                done, _ = await asyncio.wait([beat], timeout=self.heartbeat_seconds)
                if not done:
                    raise TimeoutError(f"no answer to a heartbeat within {self.heartbeat_seconds:g} s")
                beat.result()
                failures, pause = 0, self.heartbeat_seconds
            except (psycopg.Error, DulyError, TimeoutError, OSError) as error:
                self.on_trouble(error)
                self.abandon(beat)
                failures, pause = failures + 1, retry.delay_seconds(min(failures, 10))
            except asyncio.CancelledError:
                await self.let_finish(beat)
                raise
            await asyncio.sleep(pause)

    async def let_finish(self, beat: asyncio.Task[None]) -> None:
        """Let a beat under way come to its end: to stop it takes a cancel request, which not every pooler survives."""
        done, _ = await asyncio.wait([beat], timeout=min(self.heartbeat_seconds, LAST_BEAT_SECONDS))
        if not done or beat.exception():
            self.abandon(beat)

    def abandon(self, beat: asyncio.Task[None]) -> None:
        """Leave a beat and its connection behind: on a dead line even giving up takes ten seconds, and leases less."""
        connection, self.connection = self.connection, None
        self.line.leave(connection)
        beat.cancel()

        async def bury() -> None:
            try:
                await asyncio.gather(beat, return_exceptions=True)
            finally:
                if connection:
                    async with self.line.turn_on(connection):
                        connection.pgconn.finish()

        burial = asyncio.create_task(bury())
        self.burials.add(burial)
        burial.add_done_callback(self.burials.discard)

    async def beat(self) -> None:
        """Renew everything we hold, a statement per table."""
        for leases in self.by_table().values():
            sent_at = time.monotonic()
            answer = await self.renew(leases)
            self.on_beat()
            for lease in leases:
                held = self.holds.get(self.place_of(lease))
                if held is None:
                    continue
                if lease.claim in answer.renewed:
                    held.good_until = max(held.good_until, sent_at + self.lease_seconds - self.margin_seconds)
                if lease.claim in answer.lost:
                    held.lose(f"{lease.table} {lease.key} is held by somebody else now")
                if lease.claim in answer.cancelled:
                    held.request_cancel()
        async with self.beaten:
            self.beats += 1
            self.beaten.notify_all()

    async def renew(self, leases: Sequence[Lease]) -> Renewal:
        """One statement; in a transaction where a role must be taken first, or it would not be READ COMMITTED."""
        self.connection = None
        while True:
            self.connection = connection = await self.line.connected()  # a beat that is given up is closed with it
            async with self.line.turn_on(connection):
                if self.line.is_current(connection):
                    return await self.renew_on(connection, leases)

    async def renew_on(self, connection: AsyncConnection[Any], leases: Sequence[Lease]) -> Renewal:
        """The statement, on a connection that is ours for now."""
        if not self.role and self.line.is_committed_read:
            return await renew(connection, leases, lease_seconds=self.lease_seconds)
        async with connection.transaction():
            await take_role(connection, self.role)
            return await renew(connection, leases, lease_seconds=self.lease_seconds)

    def by_table(self) -> dict[LeaseTable, list[Lease]]:
        """What we hold and have not lost, by table."""
        tables: dict[LeaseTable, list[Lease]] = defaultdict(list)
        for held in self.holds.values():
            if held.lost is None:
                tables[held.lease.table].append(held.lease)
        return tables

    async def watch_for_ever(self) -> None:
        """Stop holders whose lease may be over; needs nothing but our own clock."""
        while True:
            now = time.monotonic()
            for held in list(self.holds.values()):
                if now >= held.good_until:
                    held.lose(self.why_over(held.lease))
            await asyncio.sleep(self.margin_seconds / 4)

    def why_over(self, lease: Lease) -> str:
        """Why a lease ran out in our hands."""
        if self.renews:
            return f"the database did not confirm {lease.table} {lease.key} in time"
        return f"{lease.table} {lease.key} took longer than its lease of {self.lease_seconds:g} s, which is not renewed"


class SharedLine:
    """One connection for the heartbeats of all kinds of work, which take turns on it.

    One that was given up is left behind, even while it is being opened: who comes next opens another, and whoever is
    still at the old one has it for that long.
    """

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.current: AsyncConnection[Any] | None = None
        self.opening: asyncio.Task[None] | None = None
        self.left: set[asyncio.Task[None]] = set()  # that were given up while they were being opened
        self.is_committed_read = False  # does a statement without a transaction read what is committed?
        self.turns: WeakKeyDictionary[AsyncConnection[Any], asyncio.Lock] = WeakKeyDictionary()

    def is_current(self, connection: AsyncConnection[Any]) -> bool:
        """Is this still the connection to use?"""
        return connection is self.current and not connection.closed

    def turn_on(self, connection: AsyncConnection[Any]) -> asyncio.Lock:
        """Held by the one who is at a connection."""
        return self.turns.setdefault(connection, asyncio.Lock())

    async def connected(self) -> AsyncConnection[Any]:
        """The connection, opened when there is none."""
        while self.current is None or self.current.closed:
            self.current = None
            opening = self.opening = self.opening or asyncio.create_task(self.open())
            try:
                await asyncio.shield(opening)
            except asyncio.CancelledError:
                if opening.cancelled():  # by another, who had waited longer
                    raise psycopg.OperationalError("no connection for heartbeats") from None
                raise
        return self.current

    async def open(self) -> None:
        """Open a connection; one that was given up meanwhile is closed again."""
        this = asyncio.current_task()
        try:
            connection = await self.connect()
            try:
                is_committed_read = await reads_committed(connection)
            except BaseException:
                connection.pgconn.finish()
                raise
            if self.opening is this:
                self.current, self.is_committed_read = connection, is_committed_read
            else:
                connection.pgconn.finish()
        finally:
            if self.opening is this:
                self.opening = None

    def leave(self, connection: AsyncConnection[Any] | None) -> None:
        """Use this connection no more; without one, what is being opened."""
        if connection is not None:
            self.current = None if self.current is connection else self.current
        elif opening := self.opening:
            self.opening = None
            opening.cancel()
            self.left.add(opening)
            opening.add_done_callback(self.left.discard)

    async def close(self) -> None:
        """Close the connection, after the one who is at it."""
        self.leave(None)
        await asyncio.gather(*self.left, return_exceptions=True)
        if connection := self.current:
            self.current = None
            async with self.turn_on(connection):
                await disconnect(connection)


async def disconnect(connection: AsyncConnection[Any] | None) -> None:
    """Close a connection, however ill it is."""
    if connection:
        with suppress(psycopg.Error, OSError):
            await connection.close()
