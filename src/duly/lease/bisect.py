"""Isolates bad rows: a batch that fails is halved until the bad row stands alone, so that it never stops a queue.

The error decides what happens. A server error would meet any other row too, so it is raised and the caller retries the
full batch. An error of one row leaves that row alone in the end, and the others go on. A row that another transaction
has locked stands alone as well, and the caller tries it again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import psycopg

from duly.errors import Misconfigured, Unavailable

# Classes of SQLSTATE
CONNECTION_EXCEPTION, INSUFFICIENT_RESOURCES, SYSTEM_ERROR, ACCESS_OR_SCHEMA_ERROR = "08", "53", "58", "42"
OPERATOR_INTERVENTION = "57P"
TRANSACTION_ROLLBACK = "40"  # deadlocks and serialization failures
# Single SQLSTATEs
READ_ONLY = "25006"  # a standby after a failover
IDLE_IN_TRANSACTION_TIMEOUT = "25P03"  # this process was suspended in the middle of a transaction
QUERY_CANCELED, TRANSACTION_TIMEOUT, LOCK_NOT_AVAILABLE = "57014", "25P04", "55P03"

Item = TypeVar("Item")


def affects_every_row(error: BaseException) -> bool:
    """Return whether any other row would have met the same: no connection, resources, permission or schema."""
    if isinstance(error, psycopg.Error):
        state = error.sqlstate
        if state is None:  # raised by the client: no connection, or one whose two ends no longer agree
            return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError)
        return state.startswith(
            (
                CONNECTION_EXCEPTION,
                INSUFFICIENT_RESOURCES,
                SYSTEM_ERROR,
                ACCESS_OR_SCHEMA_ERROR,
                OPERATOR_INTERVENTION,
                READ_ONLY,
                IDLE_IN_TRANSACTION_TIMEOUT,
            )
        )
    return isinstance(error, Unavailable | Misconfigured | OSError | TimeoutError)


def is_lock_or_timeout_error(error: BaseException) -> bool:
    """Return whether another transaction was in the way, so that a later retry is enough."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state is not None and state.startswith(
        (QUERY_CANCELED, TRANSACTION_TIMEOUT, LOCK_NOT_AVAILABLE, TRANSACTION_ROLLBACK)
    )


async def bisect(
    items: Sequence[Item], act: Callable[[Sequence[Item]], Awaitable[object]], refusal: Exception | None = None
) -> dict[int, Exception]:
    """Act on all items, in as few pieces as the bad ones allow; returns the error of each bad item by its index.

    `act` must be all or nothing: a transaction of its own. `refusal` is the error that the caller met when it tried all
    of them at once. Server errors are raised.
    """
    bad: dict[int, Exception] = {}
    pieces = [(0, len(items))] if items else []
    while pieces:
        start, end = pieces.pop()
        try:
            if refusal is None:
                await act(items[start:end])
                continue
            error, refusal = refusal, None
        except Exception as failure:
            error = failure
        if affects_every_row(error):
            raise error
        if end - start == 1:
            bad[start] = error
        else:
            middle = (start + end) // 2
            pieces += [(middle, end), (start, middle)]
    return bad
