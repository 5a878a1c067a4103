"""Objects in a local directory, durable across a crash of the machine.

The library writes a temporary file and renames it, but does not sync: after a power loss a file could be empty. So we
write a temporary file, fsync it, rename it, and fsync its directory as well. A file is never modified once it has its
name, so a copy is a hard link to the same bytes; file systems without hard links get a real copy.
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

NOT_FOUND_ERRNOS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
PERMISSION_ERRNOS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
NO_HARDLINK_ERRNOS = {errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}
ERRNO_PATTERN = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True)
class Directory:
    """A local directory with the library's store for it."""

    root: Path
    store: LocalStore

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes durably under a name."""
        await asyncio.to_thread(self.publish, name, lambda temporary: write(temporary, data))

    async def copy(self, name: str, to: str) -> None:
        """Store an object under another name."""
        await asyncio.to_thread(self.publish, to, lambda temporary: link(self.root / name, temporary))

    def publish(self, name: str, make: Callable[[Path], None]) -> None:
        """Create a temporary file and rename it to its name; both are synced to disk."""
        path = self.root / name
        temporary = self.root / f"{name}+{uuid4().hex}"  # a + is not allowed in names
        changed = [path.parent]
        try:
            try:
                if not path.parent.is_dir():
                    changed += make_parents(path)
                make(temporary)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)  # renaming a hard link onto the same file does nothing and leaves it
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY}:
                raise InvalidArgument(f"the name {name!r} is a parent or child of the name of another object") from None
            raise
        sync(*changed)

    def to_duly_error(self, error: Exception, name: str) -> DulyError:
        """Convert an error of the library or the system to one that names the fix."""
        number = find_errno(error)
        if number in NOT_FOUND_ERRNOS:
            return NotFound(f"there is no object {name!r}")
        reason = os.strerror(number) if number else type(error).__name__
        if number in PERMISSION_ERRNOS:
            return unusable_directory_error(self.root, reason)
        return Unavailable(
            f"the object directory {self.root} is unavailable: {reason}",
            public=f"the object store is unavailable: {reason}; retry later",
        )


def open_directory(settings: Settings) -> Directory:
    """Return the configured directory, created with mode 0700 if missing; raises Misconfigured."""
    root = (settings.objects_directory or settings.home / "objects").absolute()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable_directory_error(root, error.strerror or "unknown") from None
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise unusable_directory_error(root, os.strerror(errno.EACCES))
    return Directory(root, LocalStore(root))


def unusable_directory_error(root: Path, reason: str) -> Misconfigured:
    """Return the error for a directory that cannot be used."""
    return Misconfigured(f"cannot store objects in {root} ({reason}); set DULY_OBJECTS_DIR to a writable directory")


def make_parents(path: Path) -> list[Path]:
    """Create the missing directories above a file; return the directories that got a new entry."""
    missing = [parent for parent in path.parents if not parent.is_dir()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return [parent.parent for parent in missing]


def write(path: Path, data: bytes) -> None:
    """Write a new file and sync it to disk."""
    path.write_bytes(data)
    sync(path)


def link(source: Path, path: Path) -> None:
    """Create a hard link to a file, or a copy where the file system has no hard links."""
    if not source.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_HARDLINK_ERRNOS:
            raise
        write(path, source.read_bytes())


def sync(*paths: Path) -> None:
    """Sync files, or the entries of directories, to disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def find_errno(error: BaseException) -> int | None:
    """Return the errno of an error; the library has it only in its text."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    if isinstance(error, FileNotFoundError):
        return errno.ENOENT
    found = ERRNO_PATTERN.search(str(error))
    return int(found[1]) if found else None
