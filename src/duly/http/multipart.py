"""Extracts the one file of a `multipart/form-data` body, as browsers and curl send it (RFC 7578).

    --boundary CRLF headers CRLF CRLF data CRLF --boundary-- ...

The body is in memory already and within the size limit of its route. A form without a part, or with several, is an
error: no part is ignored.

Why not python-multipart: docs/decisions/0040-extract-the-file-of-a-form-without-a-library.md.
"""

import re
from collections.abc import Iterator

from duly.errors import InvalidArgument

OVERHEAD_BYTES = 64 * 1024  # allowed besides the file
MAX_HEADERS_LENGTH = 8 * 1024  # of a part
MAX_PARTS = 2  # enough to see that there is more than one
CONTENT_TYPE = re.compile(r"\s*multipart/form-data\s*;(.*)", re.IGNORECASE | re.DOTALL)
BOUNDARY = re.compile(r"(?:^|;)\s*boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))\s*(?=;|$)", re.IGNORECASE)
DISPOSITION = re.compile(rb"^content-disposition:\s*form-data\s*;", re.IGNORECASE | re.MULTILINE)
FILE_NAME = re.compile(rb";\s*filename\*?=", re.IGNORECASE)
FIELD_NAME = re.compile(rb";\s*name=\"?([^\";\r\n]*)", re.IGNORECASE)


def extract_file(content_type: str | None, body: bytes, field: str = "file") -> bytes:
    """Return the data of the only file of a form, in the field `field`; raises InvalidArgument."""
    boundary = parse_boundary(content_type or "", field)
    parts = list(split_parts(body, boundary, field))
    if len(parts) != 1:
        raise invalid_form("has no part" if not parts else "has several parts", field)
    headers, data = parts[0]
    name = FIELD_NAME.search(headers)
    if not DISPOSITION.search(headers) or not FILE_NAME.search(headers) or not name or name[1] != field.encode():
        raise invalid_form(f"has a part that is not a file in the field {field}", field)
    return data


def parse_boundary(content_type: str, field: str) -> bytes:
    """Return the boundary that the Content-Type header names."""
    form = CONTENT_TYPE.fullmatch(content_type)
    match = BOUNDARY.search(form[1]) if form else None
    boundary = (match[1] or match[2]) if match else ""
    if not boundary or not boundary.isascii():
        raise invalid_form("is not a form with a boundary", field)
    return boundary.encode()


def split_parts(body: bytes, boundary: bytes, field: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield headers and data of each part, up to MAX_PARTS."""
    delimiter = b"\r\n--" + boundary
    offset = 0 if body.startswith(delimiter[2:]) else body.find(delimiter, 0, OVERHEAD_BYTES)
    if offset < 0:
        raise invalid_form("does not begin with its boundary", field)
    offset += len(delimiter) - (2 if offset == 0 else 0)
    for _ in range(MAX_PARTS):
        if body.startswith(b"--", offset):  # the last boundary
            return
        begin = offset + 2
        end = body.find(b"\r\n\r\n", offset, begin + MAX_HEADERS_LENGTH)
        if not body.startswith(b"\r\n", offset) or end < 0:
            raise invalid_form("has a part whose headers cannot be parsed", field)
        following = body.find(delimiter, end + 2)  # an empty file shares its line end with the headers
        if following < 0:
            raise invalid_form("ends in the middle of a part", field)
        yield body[begin:end], body[end + 4 : following]
        offset = following + len(delimiter)


def invalid_form(problem: str, field: str) -> InvalidArgument:
    """Return the error for a malformed form; it shows how to send one."""
    return InvalidArgument(
        f"the body {problem}; send one file as multipart/form-data, for example with: curl -F {field}=@day.png"
    )
