"""One bad row never stops a queue: a batch that fails is halved until the bad row stands alone.

Whose fault an error is decides everything. When the database is at fault, halving does not help and nobody may be
blamed: whoever asked tries the whole again. When a row is at fault, it stands alone in the end and the others go on.
Between the two are rows that somebody else is at: they stand alone as well, and are tried again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import psycopg

from duly.errors import Misconfigured, Unavailable

__all__ = ["bisect", "is_the_databases_fault", "will_pass"]

NO_CONNECTION, NO_RESOURCES, SYSTEM, NOT_AS_MIGRATED = "08", "53", "58", "42"  # classes of SQLSTATE
SHUTDOWN = "57P"
READ_ONLY = "25006"  # a standby after a failover
ASLEEP = "25P03"  # we were stopped in the middle of a transaction, for longer than it may be idle
CANCELLED, TOO_LONG, LOCKED, RETRY = "57014", "25P04", "55P03", "40"  # a limit of time, another, a lock, a deadlock

Item = TypeVar("Item")


def is_the_databases_fault(error: BaseException) -> bool:
    """Would any other row have met the same: no answer, no room, no right, not our tables?"""
    if isinstance(error, psycopg.Error):
        state = error.sqlstate
        if state is None:  # the client's own word: no connection, or one whose two ends no longer agree
            return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError)
        return state.startswith((NO_CONNECTION, NO_RESOURCES, SYSTEM, NOT_AS_MIGRATED, SHUTDOWN, READ_ONLY, ASLEEP))
    return isinstance(error, Unavailable | Misconfigured | OSError | TimeoutError)


def will_pass(error: BaseException) -> bool:
    """Was somebody else at this row, so that trying again later is all it needs?"""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state is not None and state.startswith((CANCELLED, TOO_LONG, LOCKED, RETRY))


async def bisect(items: Sequence[Item], act: Callable[[Sequence[Item]], Awaitable[object]]) -> dict[int, Exception]:
    """Act on all items, in as few pieces as the bad ones allow; returns the bad ones' places and what each met.

    `act` must be all or nothing: a transaction of its own. What is the database's fault is raised.
    """
    bad: dict[int, Exception] = {}
    pieces = [(0, len(items))] if items else []
    while pieces:
        start, end = pieces.pop()
        try:
            await act(items[start:end])
        except Exception as error:
            if is_the_databases_fault(error):
                raise
            if end - start == 1:
                bad[start] = error
            else:
                middle = (start + end) // 2
                pieces += [(middle, end), (start, middle)]
    return bad
