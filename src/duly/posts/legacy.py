"""The import of documents of the first version: each line a document, each batch a transaction, no line lost silently.

Doing it again adds nothing: a document is known by its id. So an import that was interrupted is simply started again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import orjson
import psycopg

from duly.db.pool import Pool
from duly.errors import InvalidArgument, Unavailable
from duly.kernel.canonical import LARGEST_BYTES
from duly.kernel.halves import in_halves
from duly.kernel.outcome import clean_text
from duly.posts import store
from duly.posts.model import LegacyPost, read_legacy

__all__ = ["BadLine", "Imported", "import_legacy", "lines_of"]

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
LONGEST_LINE = 2 * LARGEST_BYTES
MOST_BAD_LINES = 10_000


class BadLine(NamedTuple):
    """A line that became no post, and why."""

    number: int
    reason: str


class Numbered(NamedTuple):
    """A post and the line it stands on."""

    number: int
    post: LegacyPost


@dataclass
class Imported:
    """What came of an import so far."""

    lines: int = 0
    added: int = 0
    existing: int = 0
    bad: int = 0
    bad_lines: list[BadLine] = field(default_factory=list[BadLine])  # the first ten thousand of them

    def blame(self, number: int, reason: str) -> None:
        """A line was no good."""
        self.bad += 1
        if len(self.bad_lines) < MOST_BAD_LINES:
            self.bad_lines.append(BadLine(number, clean_text(reason, 500)))


async def import_legacy(
    pool: Pool, lines: Iterable[bytes], on_progress: Callable[[Imported], None] = lambda _: None
) -> Imported:
    """Make posts of all lines that are documents; the others are named with their numbers."""
    so_far = Imported()
    for batch in batches_of(lines, so_far):
        try:
            await add_batch(pool, batch, so_far)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            reason, *_ = *str(error).splitlines(), type(error).__name__
            raise Unavailable(
                f"after {so_far.added + so_far.existing} documents the database did not answer ({reason}); begin "
                "again: what is there is not added twice"
            ) from None
        on_progress(so_far)
    so_far.bad_lines.sort()
    return so_far


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long, so much that it is seen to be."""
    while line := file.readline(LONGEST_LINE + 1):
        rest = line
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE + 1)
        yield line


def batches_of(lines: Iterable[bytes], so_far: Imported) -> Iterator[list[Numbered]]:
    """The documents among the lines, some hundred at a time."""
    batch: list[Numbered] = []
    size = 0
    for number, line in enumerate(lines, 1):
        so_far.lines = number
        if text := line.strip().removeprefix(b"\xef\xbb\xbf"):
            try:
                batch.append(Numbered(number, read_legacy(parsed(text))))
                size += len(text)
            except InvalidArgument as refusal:
                so_far.blame(number, str(refusal))
        if len(batch) == BATCH or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def parsed(line: bytes) -> object:
    """A line as JSON, or a refusal."""
    if len(line) > LONGEST_LINE:
        raise InvalidArgument(f"has more than {LONGEST_LINE} bytes; a document has at most {LARGEST_BYTES}")
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"is not JSON: {error}") from None


async def add_batch(pool: Pool, batch: Sequence[Numbered], so_far: Imported) -> None:
    """Add a batch in as few transactions as bad documents allow."""

    async def add(piece: Sequence[Numbered]) -> None:
        posts = [each.post for each in piece]
        async with pool.transaction() as connection:
            await store.add_authors(connection, [post.author_id for post in posts])
            added = await store.add_legacy(connection, posts)
            await store.add_locks(connection, added)
        so_far.added += len(added)
        so_far.existing += len(posts) - len(added)

    for place, error in (await in_halves(batch, add)).items():
        words = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        so_far.blame(batch[place].number, words or str(error))
