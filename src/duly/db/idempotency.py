"""Insert or read back: a repeated request has no further effect, and the result says which it was.

A unique constraint decides, never a read followed by a write: the insert comes first and loses to an existing row. Only
then is the row read, and it must belong to the same request: a key that was used for another one is refused.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from duly.errors import KeyReused, Unavailable
from duly.outcomes import Created, Creation, Existing

T = TypeVar("T")
MAX_TRIES = 3


async def create_once(
    insert: Callable[[], Awaitable[T | None]],
    find: Callable[[], Awaitable[T | None]],
    is_same: Callable[[T], bool],
    refusal: str,
) -> Creation[T]:
    """Return `Created`, or `Existing` when the same request created the row; `KeyReused` when another one did.

    `insert` returns None when the key is in use; `find` reads the row that has it. A row that is deleted in between (by
    retention) frees its key, so the insert is retried, a few times; then `Unavailable`.
    """
    for _ in range(MAX_TRIES):
        if (created := await insert()) is not None:
            return Created(created)
        if (found := await find()) is not None:
            if is_same(found):
                return Existing(found)
            raise KeyReused(refusal)
    raise Unavailable(
        f"the conflicting row was deleted {MAX_TRIES} times before it could be read; nothing was created, retry"
    )
