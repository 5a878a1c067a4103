"""Decodes untrusted images in a child process: one that crashes it, hangs or needs too much memory is refused."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from duly.errors import InvalidArgument, TooLarge
from duly.executors.call import Call, Executor
from duly.executors.process_pool import ProcessPool
from duly.logging import get_log
from duly.outcomes import Failed

TIMEOUT_SECONDS = 60.0
MEMORY_BYTES = 1024**3  # the largest accepted image needs some 700 MB

T = TypeVar("T")
log = get_log("duly.worker")


@asynccontextmanager
async def open_image_decoder() -> AsyncGenerator[ProcessPool, None]:
    """Open a pool of one process, started for the first image; others wait, because large images need much memory."""
    processes = ProcessPool(1)
    try:
        yield processes
    finally:
        await processes.close()


async def decode_image(processes: ProcessPool, function: Callable[[bytes], T], data: bytes) -> T:
    """Run a decoding function on a file; raises InvalidArgument or TooLarge when the file is refused."""
    match await processes.perform(Call(function, (data,), Executor.PROCESS, TIMEOUT_SECONDS, MEMORY_BYTES)):
        case Failed("TOO_LARGE", message):
            raise TooLarge(message)
        case Failed("INVALID_ARGUMENT", message):
            raise InvalidArgument(message)
        case Failed(code, message):
            log.warning("image.undecodable", code=code, why=message)
            from duly.storage.photo import unreadable_error  # the API opens this pool without the extra for images

            raise unreadable_error()
        case decoded:
            return cast("T", decoded)
