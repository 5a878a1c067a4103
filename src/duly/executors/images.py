"""Pictures of strangers, decoded in a child process: one that kills it, hangs or wants too much memory is refused."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from duly.errors import InvalidArgument, TooLarge
from duly.executors.call import Call, Where
from duly.executors.process_pool import Children
from duly.logging import get_log
from duly.outcomes import Failed
from duly.storage.photo import unreadable

__all__ = ["a_child", "clean"]

SECONDS = 60.0
MEMORY_BYTES = 1024**3  # the largest that we take needs some 700 MB

T = TypeVar("T")
log = get_log("duly.worker")


@asynccontextmanager
async def a_child() -> AsyncGenerator[Children, None]:
    """One child, started for the first picture; who is next waits, because the largest take much memory."""
    children = Children(1)
    try:
        yield children
    finally:
        await children.close()


async def clean(children: Children, function: Callable[[bytes], T], data: bytes) -> T:
    """What the function makes of a file; InvalidArgument or TooLarge says why it makes nothing of it."""
    match await children.perform(Call(function, (data,), Where.CHILD, SECONDS, MEMORY_BYTES)):
        case Failed("TOO_LARGE", message):
            raise TooLarge(message)
        case Failed("INVALID_ARGUMENT", message):
            raise InvalidArgument(message)
        case Failed(code, message):
            log.warning("a picture could not be decoded", code=code, why=message)
            raise unreadable()
        case made:
            return cast("T", made)
