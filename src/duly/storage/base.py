"""The object store: five operations, over a directory or a bucket."""

import asyncio
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from obstore import delete_async, get_async, head_async
from obstore.exceptions import BaseError

from duly.errors import InvalidArgument, NotFound, TooLarge
from duly.settings import Settings
from duly.storage.bucket import Bucket, open_bucket
from duly.storage.directory import Directory, open_directory

MAX_NAME_LENGTH = 512
MAX_PART_LENGTH = 200  # between slashes; file systems allow 255, and a temporary file has a longer name
DELETE_BATCH = 10
NAME_PART = re.compile(rf"[A-Za-z0-9._:@-]{{1,{MAX_PART_LENGTH}}}")


@dataclass(frozen=True)
class ObjectStore:
    """The object store of one installation."""

    backend: Directory | Bucket

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes under a name, replacing an existing object atomically."""
        with self.translate_errors(check_name(name)):
            await self.backend.put(name, data)

    async def get(self, name: str, max_bytes: int) -> bytes:
        """Return the bytes under a name; raises NotFound, or TooLarge above `max_bytes`."""
        with self.translate_errors(check_name(name)):
            response = await get_async(self.backend.store, name)
            if response.meta["size"] > max_bytes:
                raise TooLarge(f"the object {name!r} has {response.meta['size']} bytes, more than {max_bytes}")
            return bytes(await response.bytes_async())

    async def copy(self, name: str, to: str) -> bool:
        """Store the object under another name too; return False when it does not exist."""
        if check_name(name) == check_name(to):  # a bucket would refuse it
            return await self.exists(name)
        with suppress(NotFound), self.translate_errors(name):
            await self.backend.copy(name, to)
            return True
        return False

    async def exists(self, name: str) -> bool:
        """Return whether there is an object under this name."""
        with suppress(NotFound), self.translate_errors(check_name(name)):
            await head_async(self.backend.store, name)
            return True
        # A HEAD response has no body, and so cannot report a missing bucket.
        with suppress(NotFound), self.translate_errors(name):
            await get_async(self.backend.store, name)
            return True
        return False

    async def remove(self, names: Sequence[str]) -> None:
        """Delete objects; a missing one is no error."""
        checked = [check_name(name) for name in names]
        for start in range(0, len(checked), DELETE_BATCH):
            await asyncio.gather(*(self.delete_one(name) for name in checked[start : start + DELETE_BATCH]))

    async def delete_one(self, name: str) -> None:
        """Delete one object."""
        with suppress(NotFound), self.translate_errors(name):
            await delete_async(self.backend.store, name)

    @contextmanager
    def translate_errors(self, name: str) -> Generator[None, None, None]:
        """Raise errors of the backend as errors of duly."""
        try:
            yield
        except (BaseError, OSError) as error:
            raise self.backend.to_duly_error(error, name) from None


def open_object_store(settings: Settings) -> ObjectStore:
    """Return the configured store; a directory is created, a bucket is not contacted yet."""
    return ObjectStore(open_bucket(settings) if settings.objects_bucket else open_directory(settings))


def check_name(name: str) -> str:
    """Return the name if every backend can store it; raises InvalidArgument."""
    parts = name.split("/")
    if len(name) > MAX_NAME_LENGTH or ".." in name or "." in parts or not all(map(NAME_PART.fullmatch, parts)):
        raise InvalidArgument(
            f"an object name has at most {MAX_NAME_LENGTH} of A-Z, a-z, 0-9, ., _, :, @ and -, with / between parts of "
            f"at most {MAX_PART_LENGTH} characters that are neither empty nor . and contain no ..; "
            f"not {name[:MAX_PART_LENGTH]!r}"
        )
    return name
