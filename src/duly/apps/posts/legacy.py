"""Import of documents of the first version: one transaction per batch, and a report of every rejected document.

A file has one document per line, or is one JSON array of documents. The import is idempotent by document id, so an
interrupted import is simply started again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import orjson
import psycopg

from duly.apps.posts import repository
from duly.apps.posts.legacy_document import LegacyPost, parse_legacy
from duly.canonical_json import MAX_BYTES
from duly.db.pool import Pool
from duly.errors import InvalidArgument, Unavailable
from duly.lease.bisect import bisect
from duly.outcomes import clean_text

BATCH_SIZE = 500
BATCH_BYTES = 8 * 1024 * 1024
MAX_LINE_LENGTH = 2 * MAX_BYTES
MAX_UNREPORTED = 10_000  # rejected lines in memory before they are reported
CHUNK_BYTES = 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
IN_ARRAY, IN_DOCUMENT, IN_STRING = re.compile(rb'["{}\[\],]'), re.compile(rb'["{}\[\]]'), re.compile(rb'["\\]')


class RejectedLine(NamedTuple):
    """A rejected line or array element: its number, the reason, and its id if it has one."""

    number: int
    reason: str
    id: str | None = None


class NumberedPost(NamedTuple):
    """A post with its line number."""

    number: int
    post: LegacyPost


@dataclass
class ImportResult:
    """The counts of an import so far."""

    lines: int = 0
    added: int = 0
    existing: int = 0
    bad: int = 0
    bad_lines: list[RejectedLine] = field(default_factory=list[RejectedLine])  # not reported yet

    def reject(self, number: int, reason: str, document: object = None) -> None:
        """Record a rejected line."""
        self.bad += 1
        self.bad_lines.append(RejectedLine(number, clean_text(reason, 500), find_id(document)))


class Documents(NamedTuple):
    """The documents of a file, and the unit of their numbers; an InvalidArgument replaces a broken document."""

    unit: Literal["line", "document"]
    each: Iterator[bytes | InvalidArgument]


async def import_legacy(
    pool: Pool,
    lines: Iterable[bytes | InvalidArgument],
    on_progress: Callable[[ImportResult], None] = lambda _: None,
    on_refused: Callable[[Sequence[RejectedLine]], None] | None = None,
) -> ImportResult:
    """Import all valid documents and report the others by number.

    Rejected lines are passed to `on_refused` after each batch, in order; without it they are in the result.
    """
    result = ImportResult()

    def report() -> None:
        result.bad_lines.sort(key=lambda each: each.number)
        if on_refused and result.bad_lines:
            on_refused(tuple(result.bad_lines))
            result.bad_lines.clear()

    for batch in split_batches(lines, result):
        try:
            await add_batch(pool, batch, result)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            reason, *_ = *str(error).splitlines(), type(error).__name__
            raise Unavailable(
                f"after {result.added + result.existing} documents the database is unavailable ({reason}); start "
                "the import again: existing documents are skipped"
            ) from None
        report()
        on_progress(result)
    report()
    return result


# Reading files --------------------------------------------------------------------------------------------------------


def read_documents(file: BufferedReader) -> Documents:
    """Return the documents of a file: the elements of an array if it begins with `[`, else its lines."""
    head = file.peek().removeprefix(BYTE_ORDER_MARK).lstrip()
    return Documents("document", read_array(file)) if head.startswith(b"[") else Documents("line", read_lines(file))


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; a line above the limit is truncated just above it."""
    while line := file.readline(MAX_LINE_LENGTH + 1):
        rest = line
        while len(rest) > MAX_LINE_LENGTH and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_LENGTH + 1)
        yield line


def read_array(file: BinaryIO) -> Iterator[bytes | InvalidArgument]:
    """Yield the elements of the array in a file as text; an element above the limit is truncated just above it.

    Only brackets and strings are parsed, so that one element that is invalid JSON is rejected alone.
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
                    yield InvalidArgument("is empty: found a comma instead of a document")
                element.clear()
                commas += sign == b","
                if sign == b"]":
                    if chunk[end:].strip() or any(rest.strip() for rest in iter(lambda: file.read(CHUNK_BYTES), b"")):
                        yield InvalidArgument("data after the end of the array was ignored")
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
    yield InvalidArgument("the array is not closed: the file is truncated")


def split_batches(lines: Iterable[bytes | InvalidArgument], result: ImportResult) -> Iterator[list[NumberedPost]]:
    """Parse lines and yield the valid documents in batches."""
    batch: list[NumberedPost] = []
    size = 0
    for number, line in enumerate(lines, 1):
        result.lines = number
        if isinstance(line, InvalidArgument):
            result.reject(number, str(line))
        elif text := line.strip().removeprefix(BYTE_ORDER_MARK):
            document: object = None
            try:
                document = parse_line(text)
                batch.append(NumberedPost(number, parse_legacy(document)))
                size += len(text)
            except InvalidArgument as refusal:
                result.reject(number, str(refusal), document)
        if len(batch) == BATCH_SIZE or size > BATCH_BYTES or len(result.bad_lines) >= MAX_UNREPORTED:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def parse_line(line: bytes) -> object:
    """Parse a line as JSON; raises InvalidArgument."""
    if len(line) > MAX_LINE_LENGTH:
        raise InvalidArgument(f"has more than {MAX_LINE_LENGTH} bytes; a document has at most {MAX_BYTES}")
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"is not JSON: {error}") from None


async def add_batch(pool: Pool, batch: Sequence[NumberedPost], result: ImportResult) -> None:
    """Insert a batch, bisecting it so that only invalid documents are rejected."""

    async def add(piece: Sequence[NumberedPost]) -> None:
        posts = [each.post for each in piece]
        async with pool.transaction() as connection:
            await repository.add_authors(connection, [post.author_id for post in posts])
            added = await repository.add_legacy(connection, posts)
            await repository.add_locks(connection, added)
        result.added += len(added)
        result.existing += len(posts) - len(added)

    for index, error in (await bisect(batch, add)).items():
        text = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        result.reject(batch[index].number, text or str(error), batch[index].post.document)


def find_id(document: object) -> str | None:
    """Return the id of a document, if it has one, for the report."""
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    name = next((fields[key] for key in ("postId", "id", "_id") if isinstance(fields.get(key), str)), None)
    return clean_text(name, 200) if name else None
