"""One bad row never stops a queue: a batch that fails is halved until the bad row stands alone."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import psycopg

from duly.errors import Unavailable

__all__ = ["in_halves"]

Item = TypeVar("Item")


async def in_halves(items: Sequence[Item], act: Callable[[Sequence[Item]], Awaitable[object]]) -> dict[int, Exception]:
    """Act on all items, in as few pieces as the bad ones allow; returns the bad ones' places and what each met.

    `act` must be all or nothing: a transaction of its own. A database that does not answer is nobody's fault and is
    raised: halving would not help.
    """
    bad: dict[int, Exception] = {}
    pieces = [(0, len(items))] if items else []
    while pieces:
        start, end = pieces.pop()
        try:
            await act(items[start:end])
        except (psycopg.OperationalError, Unavailable):
            raise
        except Exception as error:
            if end - start == 1:
                bad[start] = error
            else:
                middle = (start + end) // 2
                pieces += [(middle, end), (start, middle)]
    return bad
