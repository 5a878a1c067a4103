"""The import of documents of the first version: each batch is a transaction, and every refused document is named.

A file has one document a line, or is one JSON array of documents. Doing it again adds nothing: a document is known by
its id. So an import that was interrupted is simply started again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import orjson
import psycopg

from duly.apps.posts import repository
from duly.apps.posts.model import LegacyPost, read_legacy
from duly.canonical_json import MAX_BYTES
from duly.db.pool import Pool
from duly.errors import InvalidArgument, Unavailable
from duly.lease.bisect import bisect
from duly.outcomes import clean_text

__all__ = ["BadLine", "Documents", "Imported", "documents_of", "import_legacy", "lines_of"]

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
MAX_LINE_LENGTH = 2 * MAX_BYTES
REFUSED_AT_ONCE = 10_000  # so many are held before they are reported
CHUNK_BYTES = 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
IN_ARRAY, IN_DOCUMENT, IN_STRING = re.compile(rb'["{}\[\],]'), re.compile(rb'["{}\[\]]'), re.compile(rb'["\\]')


class BadLine(NamedTuple):
    """A line, or a document of an array, that became no post; why, and its id where it has one."""

    number: int
    reason: str
    id: str | None = None


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
    bad_lines: list[BadLine] = field(default_factory=list[BadLine])  # that were not reported yet

    def blame(self, number: int, reason: str, document: object = None) -> None:
        """A line was no good."""
        self.bad += 1
        self.bad_lines.append(BadLine(number, clean_text(reason, 500), id_in(document)))


class Documents(NamedTuple):
    """The documents of a file, and what they are counted as; in their place a refusal where a file is broken."""

    unit: Literal["line", "document"]
    each: Iterator[bytes | InvalidArgument]


async def import_legacy(
    pool: Pool,
    lines: Iterable[bytes | InvalidArgument],
    on_progress: Callable[[Imported], None] = lambda _: None,
    on_refused: Callable[[Sequence[BadLine]], None] | None = None,
) -> Imported:
    """Make posts of all lines that are documents; the others are named with their numbers.

    Refused lines are given to `on_refused`, in order, as they come; without it they are in the result.
    """
    so_far = Imported()

    def report() -> None:
        so_far.bad_lines.sort(key=lambda each: each.number)
        if on_refused and so_far.bad_lines:
            on_refused(tuple(so_far.bad_lines))
            so_far.bad_lines.clear()

    for batch in batches_of(lines, so_far):
        try:
            await add_batch(pool, batch, so_far)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            reason, *_ = *str(error).splitlines(), type(error).__name__
            raise Unavailable(
                f"after {so_far.added + so_far.existing} documents the database did not answer ({reason}); begin "
                "again: what is there is not added twice"
            ) from None
        report()
        on_progress(so_far)
    report()
    return so_far


# Reading files --------------------------------------------------------------------------------------------------------


def documents_of(file: BufferedReader) -> Documents:
    """The documents of a file: of an array, where it begins with one, else of its lines."""
    head = file.peek().removeprefix(BYTE_ORDER_MARK).lstrip()
    return Documents("document", elements_of(file)) if head.startswith(b"[") else Documents("line", lines_of(file))


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long, so much that it is seen to be."""
    while line := file.readline(MAX_LINE_LENGTH + 1):
        rest = line
        while len(rest) > MAX_LINE_LENGTH and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_LENGTH + 1)
        yield line


def elements_of(file: BinaryIO) -> Iterator[bytes | InvalidArgument]:
    """The elements of the array in a file, each as its text; of one that is too long, so much that it is seen to be.

    Only brackets and strings are looked at, so that an element that is no JSON is refused alone.
    """
    element, depth, commas = bytearray(), -1, 0  # depth -1: before the array, 0: between its elements
    in_string = is_escaped = False
    while chunk := file.read(CHUNK_BYTES):
        at = 0
        while at < len(chunk):
            if is_escaped:
                found, is_escaped, end = None, False, at + 1
            else:
                pattern = IN_STRING if in_string else IN_DOCUMENT if depth else IN_ARRAY
                found = pattern.search(chunk, at)
                end = found.end() if found else len(chunk)
            sign = found[0] if found else b""
            if depth == 0 and not in_string and sign in (b",", b"]"):
                element += chunk[at : end - 1]
                if element.strip():
                    yield bytes(element)
                elif sign == b"," or commas:
                    yield InvalidArgument("is empty: a comma stands where a document should")
                element.clear()
                commas += sign == b","
                if sign == b"]":
                    if chunk[end:].strip() or any(rest.strip() for rest in iter(lambda: file.read(CHUNK_BYTES), b"")):
                        yield InvalidArgument("something follows the end of the array, and was not read")
                    return
                at = end
                continue
            if depth >= 0 and len(element) <= MAX_LINE_LENGTH:
                element += chunk[at : min(end, at + MAX_LINE_LENGTH + 1 - len(element))]
            at = end
            if in_string:
                in_string, is_escaped = sign != b'"', sign == b"\\"
            elif sign == b'"':
                in_string = True
            elif sign in (b"{", b"["):
                depth += 1
            elif sign in (b"}", b"]"):
                depth -= 1
    yield InvalidArgument("the array does not end: the file is cut off here")


def batches_of(lines: Iterable[bytes | InvalidArgument], so_far: Imported) -> Iterator[list[Numbered]]:
    """The documents among the lines, some hundred at a time."""
    batch: list[Numbered] = []
    size = 0
    for number, line in enumerate(lines, 1):
        so_far.lines = number
        if isinstance(line, InvalidArgument):
            so_far.blame(number, str(line))
        elif text := line.strip().removeprefix(BYTE_ORDER_MARK):
            document: object = None
            try:
                document = parsed(text)
                batch.append(Numbered(number, read_legacy(document)))
                size += len(text)
            except InvalidArgument as refusal:
                so_far.blame(number, str(refusal), document)
        if len(batch) == BATCH or size > BATCH_BYTES or len(so_far.bad_lines) >= REFUSED_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def parsed(line: bytes) -> object:
    """A line as JSON, or a refusal."""
    if len(line) > MAX_LINE_LENGTH:
        raise InvalidArgument(f"has more than {MAX_LINE_LENGTH} bytes; a document has at most {MAX_BYTES}")
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"is not JSON: {error}") from None


async def add_batch(pool: Pool, batch: Sequence[Numbered], so_far: Imported) -> None:
    """Add a batch in as few transactions as bad documents allow."""

    async def add(piece: Sequence[Numbered]) -> None:
        posts = [each.post for each in piece]
        async with pool.transaction() as connection:
            await repository.add_authors(connection, [post.author_id for post in posts])
            added = await repository.add_legacy(connection, posts)
            await repository.add_locks(connection, added)
        so_far.added += len(added)
        so_far.existing += len(posts) - len(added)

    for place, error in (await bisect(batch, add)).items():
        words = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        so_far.blame(batch[place].number, words or str(error), batch[place].post.document)


def id_in(document: object) -> str | None:
    """The id that a document has, where it has one, for people who look for it."""
    if not isinstance(document, dict):
        return None
    found = cast("dict[str, Any]", document)
    name = next((found[key] for key in ("postId", "id", "_id") if isinstance(found.get(key), str)), None)
    return clean_text(name, 200) if name else None
