"""Objects in a directory of this machine, which survive its crash.

The library writes a file aside and renames it, so that nobody reads a half; but it leaves to the kernel when the bytes
reach the disk, and a machine that loses its power could come back with an empty file. So we put a draft, wait until
the disk has it, rename it, and wait for the directories as well. A copy is made the same way: the library's own makes
a hard link, and leaves a stray file beside the target when that was a link to the same bytes already.
"""

import asyncio
import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from obstore import delete_async, get_async, put_async, rename_async
from obstore.store import LocalStore

from duly.errors import DulyError, InvalidArgument, Misconfigured, NotFound, Unavailable
from duly.settings import Settings

if TYPE_CHECKING:
    from obstore import GetResult

__all__ = ["Directory", "open_directory"]

ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
NOT_FOR_US = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
NUMBER = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True)
class Directory:
    """A directory, and the store that works in it."""

    root: Path
    store: LocalStore

    async def put(self, name: str, data: bytes) -> None:
        """Keep bytes under a name, for good."""
        await self.publish(name, data)

    async def copy(self, name: str, to: str) -> None:
        """Keep under one name what is under another."""
        await self.publish(to, await get_async(self.store, name))

    async def publish(self, name: str, content: "bytes | GetResult") -> None:
        """Write a draft, and let it appear under its name when the disk has it."""
        draft = f"{name}+{uuid4().hex}"  # no name has a +
        try:
            await put_async(self.store, draft, content)
            await asyncio.to_thread(sync, self.root / draft)
            await rename_async(self.store, draft, name)
        except BaseException as error:  # a cancel too: nobody else knows of this draft
            with suppress(Exception):
                await delete_async(self.store, draft)
            if number_of(error) in {errno.ENOTDIR, errno.EISDIR}:
                raise InvalidArgument(f"the name {name!r} lies above or under that of another object") from None
            raise
        await asyncio.to_thread(sync, *(self.root / parent for parent in Path(name).parents))

    def refusal_of(self, error: Exception, name: str) -> DulyError:
        """What went wrong, in words that name the fix."""
        number = number_of(error)
        if number in ABSENT:
            return NotFound(f"there is no object {name!r}")
        reason = os.strerror(number) if number else type(error).__name__
        if number in NOT_FOR_US:
            return unusable(self.root, reason)
        return Unavailable(f"the directory of objects, {self.root}, does not serve now: {reason}")


def open_directory(settings: Settings) -> Directory:
    """The directory that the settings name, made if it is not there, for nobody else to enter."""
    root = (settings.objects_directory or settings.home / "objects").absolute()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(root, error.strerror or "unknown") from None
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise unusable(root, os.strerror(errno.EACCES))
    return Directory(root, LocalStore(root))


def unusable(root: Path, reason: str) -> Misconfigured:
    """The refusal of a directory that we cannot use."""
    return Misconfigured(f"cannot keep objects in {root} ({reason}); set DULY_OBJECTS_DIR to a directory you may write")


def sync(*paths: Path) -> None:
    """Return when the disk has what was written to these files, or which files were made in these directories."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def number_of(error: BaseException) -> int | None:
    """The system's number for what went wrong, which the library tells in its text alone."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    if isinstance(error, FileNotFoundError):
        return errno.ENOENT
    found = NUMBER.search(str(error))
    return int(found[1]) if found else None
