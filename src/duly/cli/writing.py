"""Files that commands write: whole, and on the disk, or not at all."""

import errno
import os
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from duly.cli.watching import counter
from duly.errors import InvalidArgument

__all__ = ["whole_file", "write_pages"]

READABLE = 0o666
OF_FILES = {  # what can be wrong with a file or its disk
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
def whole_file(path: Path, *, replace: bool = True) -> Generator[BinaryIO, None, None]:
    """A file that gets its name once it is on the disk, in the place of an older one if it may `replace` that."""
    target = path.resolve()
    if target.is_dir() or (target.exists() and not replace):
        what = "is a directory" if target.is_dir() else "is there already, and is not written over"
        raise InvalidArgument(f"--out {path}: {what}; give another name")
    try:
        with (stream_to if target.exists() and not target.is_file() else draft_of)(target, replace) as file:
            yield file
    except OSError as error:
        if error.errno not in OF_FILES:
            raise
        raise InvalidArgument(f"--out {path}: cannot be written: {error.strerror}") from None


@contextmanager
def stream_to(target: Path, replace: bool) -> Generator[BinaryIO, None, None]:  # noqa: ARG001
    """A pipe or a terminal, which takes what comes."""
    with target.open("wb") as stream:
        yield stream


@contextmanager
def draft_of(target: Path, replace: bool) -> Generator[BinaryIO, None, None]:
    """A file beside the one that is wanted, which takes its name in the end, or goes."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield cast("BinaryIO", file)
            file.flush()
            os.fchmod(file.fileno(), READABLE & ~umask())
            os.fsync(file.fileno())
        if replace:
            draft.replace(target)
        else:
            target.hardlink_to(draft)  # refused when somebody has taken the name meanwhile
        sync_directory(target.parent)
    finally:
        draft.unlink(missing_ok=True)


async def write_pages(words: str, pages: AsyncGenerator[tuple[bytes, int, int], None], file: BinaryIO) -> int:
    """Write pages, each with how much is done and of how much, and show how far it is; how much there was."""
    done, bar = 0, None
    with ExitStack() as shown:
        async with aclosing(pages):
            async for page, done, whole in pages:
                bar = bar or shown.enter_context(counter(words, whole))
                file.write(page)
                bar(done)
    return done


def sync_directory(directory: Path) -> None:
    """The name of the file is on the disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """What new files do not allow; asking means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
