"""Keyset pagination: each page carries an opaque, URL-safe cursor at which the next page begins.

A cursor encodes the sort key of the last row of a page, never an offset, so that rows inserted or deleted between two
requests make no other row appear twice or not at all.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from duly.errors import InvalidArgument
from duly.tracebacks import UNSTORABLE

MAX_ROWS = 1000
MAX_CURSOR_LENGTH = 512

T = TypeVar("T")
SortKey = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of one page, and the cursor of the next page; None on the last."""

    items: Sequence[T]
    next: str | None = None


def checked_limit(limit: int) -> int:
    """Return the page size; InvalidArgument when it is out of bounds."""
    if not 1 <= limit <= MAX_ROWS:
        raise InvalidArgument(f"limit {limit}: must be between 1 and {MAX_ROWS}")
    return limit


def build_page(rows: Sequence[T], limit: int, sort_key: Callable[[T], SortKey]) -> Page[T]:
    """Build a page of at most `limit` rows from a query for `limit + 1`; the extra row shows that there are more."""
    items = rows[:limit]
    return Page(items, encode_cursor(*sort_key(items[-1])) if len(rows) > limit and items else None)


def encode_cursor(*sort_key: object) -> str:
    """Encode the sort key of a row as a cursor."""
    return base64.urlsafe_b64encode(orjson.dumps(sort_key, default=str)).rstrip(b"=").decode()


def decode_cursor(cursor: str, *parsers: Callable[[str], Any]) -> SortKey:
    """Decode a cursor into a sort key, parsing each part with its parser; InvalidArgument when it is malformed."""
    try:
        if len(cursor) > MAX_CURSOR_LENGTH:
            raise ValueError
        parts = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return tuple(check_storable(parse(part)) for parse, part in zip(parsers, parts, strict=True))
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise InvalidArgument("invalid cursor; pass `next` from the previous page") from None


def check_storable(part: Any) -> Any:
    """Return a part of a sort key; ValueError when it is text that PostgreSQL cannot store."""
    if isinstance(part, str) and UNSTORABLE.search(part):
        raise ValueError
    return part
