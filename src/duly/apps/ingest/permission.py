"""May we work here? A login that lacks a right claims nothing, names the grant in one line, and looks again later.

at the start           one cycle ends; so does a worker that may not even use the clock; another waits
when a settle          its sessions are handed back by the next settle, in a transaction that is not spoiled; where
is refused             not even that is allowed, their leases expire
"""

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from psycopg.errors import InsufficientPrivilege

from duly.apps.ingest import repository
from duly.db.rights import Right, find_missing_rights, grants_of, rights_on
from duly.db.rows import Connection
from duly.errors import Misconfigured
from duly.lease.operations import Lease
from duly.logging import get_log

__all__ = ["Permission"]

WAIT_SECONDS, MAX_WAIT_SECONDS = 30.0, 600.0  # before we look, or try, again
MAX_CONTEXT = 300  # characters of where in a trigger we were refused

log = get_log("duly.ingest")


class Permission:
    """What one worker knows of its rights on the ingest tables."""

    def __init__(self, schema: str, *, ends_at_once: bool) -> None:
        self.schema = schema
        self.ends_at_once = ends_at_once
        self.reads_events = False
        self.refusal: str | None = None  # why we claim nothing
        self.is_logged = False
        self.wait_seconds = WAIT_SECONDS
        self.wait_until = 0.0  # our monotonic clock
        self.refused: set[str] = set()  # owners whose settle was refused
        self.left: set[str] = set()  # owners whose rows could not be handed back either

    async def check(self, connection: Connection) -> bool:
        """At the start: True when no right is missing; Misconfigured where nothing can be done without it."""
        missing, refusal = await self.find_missing(connection)
        if (self.ends_at_once and missing) or any(right.is_engines for right in missing):
            raise Misconfigured(refusal)
        if missing:
            self.wait(refusal)
        return not missing

    async def is_given(self, connection: Connection) -> bool:
        """May sessions be claimed? While a right is missing, that is looked at now and then."""
        if not self.is_refused() or self.is_waiting():
            return not self.is_refused()
        missing, refusal = await self.find_missing(connection)
        if not self.is_refused() or self.is_waiting():  # the other lane looked meanwhile
            return not self.is_refused()
        if missing or not self.is_logged:
            self.wait(refusal if missing else self.refusal or "a right is missing")
            return False
        log.info("trying again after a right was missing", was=self.refusal)
        self.refusal = None
        return True

    async def find_missing(self, connection: Connection) -> tuple[Sequence[Right], str]:
        """The rights that we lack, and a sentence with the grants that give them."""
        tables = await repository.find_columns(connection, self.schema)
        rights = rights_on(self.schema, tables.keys(), reads_events=self.reads_events)
        missing, login = await find_missing_rights(connection, rights)
        grants = "; ".join(grants_of(missing, login))
        return missing, f"{login} lacks rights that the ingest worker needs; run: {grants}"

    def wait(self, refusal: str, **about: int) -> None:
        """Claim nothing for a while, each time for longer, and say why."""
        log.error(
            "no session is claimed until a right is granted", why=refusal, retry_seconds=self.wait_seconds, **about
        )
        self.refusal, self.is_logged = refusal, True
        self.wait_until = time.monotonic() + self.wait_seconds
        self.wait_seconds = min(self.wait_seconds * 2, MAX_WAIT_SECONDS)

    def note_settled(self) -> None:
        """All was allowed."""
        self.wait_seconds = WAIT_SECONDS

    @contextmanager
    def noting_refusals(self, leases: Iterable[Lease] = ()) -> Generator[None, None, None]:
        """Remember that the database refused us a right, and which leases are to be handed back for it."""
        try:
            yield
        except InsufficientPrivilege as error:
            owners = {lease.owner for lease in leases}
            self.left |= owners & self.refused
            self.refused |= owners
            self.refusal, self.is_logged, self.wait_until = said_of(error), False, 0.0
            raise

    async def explain(self, connection: Connection, sessions: int) -> str:
        """Why so many sessions go back, with the grants that are missing, if we can see them; said once for all."""
        missing, refusal = await self.find_missing(connection)
        why = refusal if missing else self.refusal or "a right was missing"
        if not self.is_waiting():
            self.wait(why, handed_back=sessions)
        return why

    def is_refused(self) -> bool:
        """Was a right missing when we last looked?"""
        return self.refusal is not None

    def is_waiting(self) -> bool:
        """Has the time to look again not come?"""
        return time.monotonic() < self.wait_until

    def forget(self, leases: Sequence[Lease]) -> None:
        """These came to their end."""
        owners = {lease.owner for lease in leases}
        self.refused -= owners
        self.left -= owners


def said_of(error: InsufficientPrivilege) -> str:
    """The database's words, and where: the owner's triggers act with our rights unless they are SECURITY DEFINER."""
    words = error.diag.message_primary or str(error)
    if not error.diag.context:
        return f"{words}; grant what the lease migration prints"
    where = " ".join(error.diag.context.split())[:MAX_CONTEXT]
    return f"{words} ({where}); grant that right to the worker's login, or make the function SECURITY DEFINER"
