"""Insert or read back: the same request twice has the effect of once, and the answer says which.

Uniqueness decides, never a read followed by a write: the insert comes first and loses to a row that is there. Only then
is the row read, and it must be of the same request: a key that stands for something else is refused, never guessed.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from duly.errors import KeyReused, Unavailable
from duly.outcomes import Created, Creation, Existing

__all__ = ["create_once"]

T = TypeVar("T")
TRIES = 3


async def create_once(
    insert: Callable[[], Awaitable[T | None]],
    find: Callable[[], Awaitable[T | None]],
    is_same: Callable[[T], bool],
    refusal: str,
) -> Creation[T]:
    """`Created` when the insert made the row, `Existing` when the same request had; `KeyReused` when another had.

    `insert` answers None when the key is taken; `find` reads the row that has it. A row that vanishes in between
    (retention took it) leaves its key free, so the insert is tried again, a few times; then `Unavailable`.
    """
    for _ in range(TRIES):
        if (made := await insert()) is not None:
            return Created(made)
        if (found := await find()) is not None:
            if is_same(found):
                return Existing(found)
            raise KeyReused(refusal)
    raise Unavailable(
        f"a row was there for each of {TRIES} inserts and gone for every look; nothing was made: ask again"
    )
