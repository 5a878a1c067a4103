"""One file out of a `multipart/form-data` body, as browsers and curl send it (RFC 7578), and nothing else.

    --boundary CRLF headers CRLF CRLF data CRLF --boundary-- ...

The body is in memory already and no larger than the guard lets in; the data is a piece of it. A form with another part,
or with none, is refused: what was sent is never half overlooked.
"""

import re
from collections.abc import Iterator

from duly.errors import InvalidArgument

__all__ = ["OVERHEAD_BYTES", "file_in"]

OVERHEAD_BYTES = 64 * 1024  # what may stand around a file
MAX_HEADERS_LENGTH = 8 * 1024  # of a part
MAX_PARTS = 2  # so that we can say that there are too many
KIND = re.compile(r"\s*multipart/form-data\s*;(.*)", re.IGNORECASE | re.DOTALL)
BOUNDARY = re.compile(r"(?:^|;)\s*boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))\s*(?=;|$)", re.IGNORECASE)
DISPOSITION = re.compile(rb"^content-disposition:\s*form-data\s*;", re.IGNORECASE | re.MULTILINE)
FILE_NAME = re.compile(rb";\s*filename\*?=", re.IGNORECASE)
FIELD_NAME = re.compile(rb";\s*name=\"?([^\";\r\n]*)", re.IGNORECASE)


def file_in(content_type: str | None, body: bytes, field: str = "file") -> bytes:
    """The data of the one file of a form, which is called `field`; InvalidArgument says what would do instead."""
    boundary = boundary_of(content_type or "", field)
    parts = list(parts_of(body, boundary, field))
    if len(parts) != 1:
        raise refusal("has no part" if not parts else "has several parts", field)
    headers, data = parts[0]
    found = FIELD_NAME.search(headers)
    if not DISPOSITION.search(headers) or not FILE_NAME.search(headers) or not found or found[1] != field.encode():
        raise refusal(f"has a part that is no file called {field}", field)
    return data


def boundary_of(content_type: str, field: str) -> bytes:
    """What stands between the parts, as the header names it."""
    kind = KIND.fullmatch(content_type)
    found = BOUNDARY.search(kind[1]) if kind else None
    boundary = (found[1] or found[2]) if found else ""
    if not boundary or not boundary.isascii():
        raise refusal("is no form with a boundary", field)
    return boundary.encode()


def parts_of(body: bytes, boundary: bytes, field: str) -> Iterator[tuple[bytes, bytes]]:
    """Headers and data of each part, no more of them than it takes to see that there are too many."""
    line = b"\r\n--" + boundary
    place = 0 if body.startswith(line[2:]) else body.find(line, 0, OVERHEAD_BYTES)
    if place < 0:
        raise refusal("does not begin with its boundary", field)
    place += len(line) - (2 if place == 0 else 0)
    for _ in range(MAX_PARTS):
        if body.startswith(b"--", place):  # the last boundary
            return
        begin = place + 2
        end = body.find(b"\r\n\r\n", place, begin + MAX_HEADERS_LENGTH)
        if not body.startswith(b"\r\n", place) or end < 0:
            raise refusal("has a part whose headers cannot be read", field)
        following = body.find(line, end + 2)  # an empty file shares its line end with the headers
        if following < 0:
            raise refusal("ends in the middle of a part", field)
        yield body[begin:end], body[end + 4 : following]
        place = following + len(line)


def refusal(what: str, field: str) -> InvalidArgument:
    """What is wrong with a form, and how to send one."""
    return InvalidArgument(
        f"the body {what}; send one file as multipart/form-data, for example with: curl -F {field}=@day.png"
    )
