"""The five things one can do with an object, the same over a directory and over a bucket."""

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

__all__ = ["MAX_NAME_LENGTH", "Objects", "open_objects"]

MAX_NAME_LENGTH = 512
MAX_PART_LENGTH = 200  # of a name, between slashes: a file system takes 255, and a draft has a longer name
REMOVED_AT_ONCE = 10
PART = re.compile(rf"[A-Za-z0-9._:@-]{{1,{MAX_PART_LENGTH}}}")


@dataclass(frozen=True)
class Objects:
    """The images of one installation."""

    place: Directory | Bucket

    async def put(self, name: str, data: bytes) -> None:
        """Keep these bytes under a name, in place of what was there; it is one or the other, never a part."""
        with self.asking(check_name(name)):
            await self.place.put(name, data)

    async def get(self, name: str, max_bytes: int) -> bytes:
        """The bytes under a name; NotFound when there are none, TooLarge when there are more than one can take."""
        with self.asking(check_name(name)):
            found = await get_async(self.place.store, name)
            if found.meta["size"] > max_bytes:
                raise TooLarge(f"the object {name!r} has {found.meta['size']} bytes, more than {max_bytes}")
            return bytes(await found.bytes_async())

    async def copy(self, name: str, to: str) -> bool:
        """Keep the same bytes under another name too; False when there are none."""
        if check_name(name) == check_name(to):  # which a bucket would refuse
            return await self.exists(name)
        with suppress(NotFound), self.asking(name):
            await self.place.copy(name, to)
            return True
        return False

    async def exists(self, name: str) -> bool:
        """Is there anything under this name?"""
        with suppress(NotFound), self.asking(check_name(name)):
            await head_async(self.place.store, name)
            return True
        with suppress(NotFound), self.asking(name):  # the answer to the first has no room to say: no such bucket
            await get_async(self.place.store, name)
            return True
        return False

    async def remove(self, names: Sequence[str]) -> None:
        """Keep nothing under these names any more; what is not there is no error."""
        waiting = [check_name(name) for name in names]
        for first in range(0, len(waiting), REMOVED_AT_ONCE):
            await asyncio.gather(*(self.remove_one(name) for name in waiting[first : first + REMOVED_AT_ONCE]))

    async def remove_one(self, name: str) -> None:
        """Keep nothing under this name any more."""
        with suppress(NotFound), self.asking(name):
            await delete_async(self.place.store, name)

    @contextmanager
    def asking(self, name: str) -> Generator[None, None, None]:
        """Tell what the place answers about a name in words of ours."""
        try:
            yield
        except (BaseError, OSError) as error:
            raise self.place.refusal_of(error, name) from None


def open_objects(settings: Settings) -> Objects:
    """The store that the settings name, not asked anything yet; of a directory, that it is there."""
    return Objects(open_bucket(settings) if settings.objects_bucket else open_directory(settings))


def check_name(name: str) -> str:
    """The name itself, when it can be one in every place."""
    parts = name.split("/")
    if len(name) > MAX_NAME_LENGTH or ".." in name or "." in parts or not all(map(PART.fullmatch, parts)):
        raise InvalidArgument(
            f"an object's name is at most {MAX_NAME_LENGTH} of A-Z, a-z, 0-9, ., _, :, @ and -, with / between parts "
            f"of at most {MAX_PART_LENGTH} that are neither empty nor . and have no ..; not {name[:MAX_PART_LENGTH]!r}"
        )
    return name
