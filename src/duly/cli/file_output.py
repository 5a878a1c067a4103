"""Files that commands write: complete and synced to disk, or not at all."""

import errno
import os
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from duly.cli.progress import count_progress
from duly.errors import InvalidArgument

DEFAULT_MODE = 0o666
FILE_ERRORS = {  # errors of the file or its disk, not of the database
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EFBIG,
    errno.EIO,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


@contextmanager
def atomic_file(path: Path, *, replace: bool = True) -> Generator[BinaryIO, None, None]:
    """Open a file that gets its name once it is synced to disk; an existing file needs `replace`."""
    target = path.resolve()
    if target.is_dir() or (target.exists() and not replace):
        problem = "is a directory" if target.is_dir() else "exists, and is not overwritten"
        raise InvalidArgument(f"--out {path}: {problem}; give another name")
    try:
        is_stream = target.exists() and not target.is_file()  # a pipe or a terminal, which cannot be replaced
        with target.open("wb") if is_stream else open_temporary(target, replace) as file:
            yield file
    except OSError as error:
        if error.errno not in FILE_ERRORS:
            raise
        raise InvalidArgument(f"--out {path}: cannot be written: {error.strerror}") from None


@contextmanager
def open_temporary(target: Path, replace: bool) -> Generator[BinaryIO, None, None]:
    """Open a temporary file beside the target; it takes the target's name at the end, or is deleted."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield cast("BinaryIO", file)
            file.flush()
            os.fchmod(file.fileno(), DEFAULT_MODE & ~umask())
            os.fsync(file.fileno())
        if replace:
            temporary.replace(target)
        else:
            target.hardlink_to(temporary)  # fails if a file of this name was created meanwhile
        sync_directory(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


async def write_pages(description: str, pages: AsyncGenerator[tuple[bytes, int, int], None], file: BinaryIO) -> int:
    """Write pages, each with the rows done so far and the total, and show progress; return the number of rows."""
    done, bar = 0, None
    with ExitStack() as stack:
        async with aclosing(pages):
            async for page, done, total in pages:
                bar = bar or stack.enter_context(count_progress(description, total))
                file.write(page)
                bar(done)
    return done


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that the name of a new file in it is on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """Return the umask; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
