"""Check the worker's privileges. Without one it claims nothing, logs the missing grant once, and checks again later.

at the start           a one-cycle run ends; so does a worker that may not use the engine's functions; others wait
when a settle          the sessions are released by the next settle, in a transaction that has not failed; where that is
is refused             refused too, their leases expire
"""

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from psycopg.errors import InsufficientPrivilege

from duly.apps.ingest.table_support import find_columns
from duly.db.privileges import ObjectPrivilege, find_missing_privileges, format_grants, required_privileges
from duly.db.rows import Connection
from duly.errors import Misconfigured
from duly.lease.operations import Lease
from duly.logging import get_log

RETRY_SECONDS, MAX_RETRY_SECONDS = 30.0, 600.0
MAX_CONTEXT = 300  # characters of the trigger context in which we were refused

log = get_log("duly.ingest")


class TablePermission:
    """What one worker knows of its privileges on the ingest tables."""

    def __init__(self, schema: str, *, is_one_cycle: bool) -> None:
        self.schema = schema
        self.is_one_cycle = is_one_cycle
        self.needs_event_reads = False
        self.refusal: str | None = None  # why nothing is claimed
        self.is_logged = False
        self.retry_seconds = RETRY_SECONDS
        self.retry_at = 0.0  # monotonic clock
        self.refused_owners: set[str] = set()  # lease owners whose settle was refused
        self.unreleasable_owners: set[str] = set()  # lease owners whose release was refused too

    async def check(self, connection: Connection) -> bool:
        """Check at the start whether no privilege is missing; Misconfigured where the worker cannot wait for it."""
        missing, refusal = await self.find_missing(connection)
        if (self.is_one_cycle and missing) or any(right.is_on_engine for right in missing):
            raise Misconfigured(refusal)
        if missing:
            self.pause(refusal)
        return not missing

    async def can_claim(self, connection: Connection) -> bool:
        """Return whether sessions may be claimed; while a privilege is missing, it is checked at intervals."""
        if not self.is_refused() or self.is_pausing():
            return not self.is_refused()
        missing, refusal = await self.find_missing(connection)
        if not self.is_refused() or self.is_pausing():  # the other cycle checked meanwhile
            return not self.is_refused()
        if missing or not self.is_logged:
            self.pause(refusal if missing else self.refusal or "a privilege is missing")
            return False
        log.info("ingest.claims_resumed", reason=self.refusal)
        self.refusal = None
        return True

    async def find_missing(self, connection: Connection) -> tuple[Sequence[ObjectPrivilege], str]:
        """Return the missing privileges, and a sentence with the grants to run."""
        tables = await find_columns(connection, self.schema)
        rights = required_privileges(self.schema, tables.keys(), reads_events=self.needs_event_reads)
        missing, login = await find_missing_privileges(connection, rights)
        grants = "; ".join(format_grants(missing, login))
        return missing, f"{login} lacks privileges that the ingest worker needs; run: {grants}"

    def pause(self, refusal: str, **fields: int) -> None:
        """Claim nothing for a while, each time twice as long, and log why."""
        log.error("ingest.claims_paused", reason=refusal, retry_seconds=self.retry_seconds, **fields)
        self.refusal, self.is_logged = refusal, True
        self.retry_at = time.monotonic() + self.retry_seconds
        self.retry_seconds = min(self.retry_seconds * 2, MAX_RETRY_SECONDS)

    def reset_backoff(self) -> None:
        """Start with the shortest pause again, after a settle that was not refused."""
        self.retry_seconds = RETRY_SECONDS

    @contextmanager
    def recording_refusals(self, leases: Iterable[Lease] = ()) -> Generator[None, None, None]:
        """Record that the database refused a privilege, and which leases must be released because of it."""
        try:
            yield
        except InsufficientPrivilege as error:
            owners = {lease.owner for lease in leases}
            self.unreleasable_owners |= owners & self.refused_owners
            self.refused_owners |= owners
            self.refusal, self.is_logged, self.retry_at = describe_refusal(error), False, 0.0
            raise

    async def explain(self, connection: Connection, sessions: int) -> str:
        """Return why this many sessions are released, with the missing grants if they can be found; log it once."""
        missing, refusal = await self.find_missing(connection)
        reason = refusal if missing else self.refusal or "a privilege was missing"
        if not self.is_pausing():
            self.pause(reason, released=sessions)
        return reason

    def is_refused(self) -> bool:
        """Return whether a privilege was missing at the last check."""
        return self.refusal is not None

    def is_pausing(self) -> bool:
        """Return whether it is too early to query the database again."""
        return time.monotonic() < self.retry_at

    def forget(self, leases: Sequence[Lease]) -> None:
        """Forget leases that were released or left to expire."""
        owners = {lease.owner for lease in leases}
        self.refused_owners -= owners
        self.unreleasable_owners -= owners


def describe_refusal(error: InsufficientPrivilege) -> str:
    """Return the database's message and where it was raised.

    Triggers of the tables' owner run with our privileges unless they are SECURITY DEFINER.
    """
    message = error.diag.message_primary or str(error)
    if not error.diag.context:
        return f"{message}; run the grants that the lease migration prints"
    context = " ".join(error.diag.context.split())[:MAX_CONTEXT]
    return f"{message} ({context}); grant that privilege to the worker's login, or make the function SECURITY DEFINER"
