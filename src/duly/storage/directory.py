"""Objects in a directory of this machine, which survive its crash.

The library writes a file aside and renames it, so that nobody reads a half; but it leaves to the kernel when the bytes
reach the disk, and a machine that loses its power could come back with an empty file. So we write a draft, wait until
the disk has it, rename it, and wait for its directory as well. A file is never changed once it has its name, so a copy
is another name for the same bytes, which the disk has already; where a file system knows no such names, it is written.
"""

import asyncio
import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from obstore.store import LocalStore

from duly.errors import DulyError, InvalidArgument, Misconfigured, NotFound, Unavailable
from duly.settings import Settings

__all__ = ["Directory", "open_directory"]

ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
NOT_FOR_US = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
NO_LINKS = {errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}
NUMBER = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True)
class Directory:
    """A directory, and the store that works in it."""

    root: Path
    store: LocalStore

    async def put(self, name: str, data: bytes) -> None:
        """Keep bytes under a name, for good."""
        await asyncio.to_thread(self.publish, name, lambda draft: write(draft, data))

    async def copy(self, name: str, to: str) -> None:
        """Keep under one name what is under another."""
        await asyncio.to_thread(self.publish, to, lambda draft: link(self.root / name, draft))

    def publish(self, name: str, make: Callable[[Path], None]) -> None:
        """Make a draft, and let it appear under its name when the disk has it."""
        path = self.root / name
        draft = self.root / f"{name}+{uuid4().hex}"  # no name has a +
        changed = [path.parent]
        try:
            try:
                if not path.parent.is_dir():
                    changed += make_parents(path)
                make(draft)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)  # also when both were names for the same bytes, which changes nothing
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY}:
                raise InvalidArgument(f"the name {name!r} lies above or under that of another object") from None
            raise
        sync(*changed)

    def refusal_of(self, error: Exception, name: str) -> DulyError:
        """What went wrong, in words that name the fix."""
        number = number_of(error)
        if number in ABSENT:
            return NotFound(f"there is no object {name!r}")
        reason = os.strerror(number) if number else type(error).__name__
        if number in NOT_FOR_US:
            return unusable(self.root, reason)
        return Unavailable(
            f"the directory of objects, {self.root}, does not serve now: {reason}",
            public=f"the object store does not serve now: {reason}; ask again later",
        )


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


def make_parents(path: Path) -> list[Path]:
    """Make the directories above a file that are not there; those in which one was made."""
    missing = [parent for parent in path.parents if not parent.is_dir()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return [parent.parent for parent in missing]


def write(path: Path, data: bytes) -> None:
    """A new file with these bytes, which the disk has."""
    path.write_bytes(data)
    sync(path)


def link(source: Path, path: Path) -> None:
    """Another name for a file, or the same bytes once more where there can be none."""
    if not source.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        write(path, source.read_bytes())


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
