"""Pages of a long list: each names the place where the next one begins, in letters that a URL can carry.

A place is the key of the last row shown, never a number of rows to pass over: what comes and goes meanwhile makes no
row appear twice or not at all.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from duly.errors import InvalidArgument
from duly.outcomes import UNSTORABLE

__all__ = ["MAX_ROWS", "Page", "checked_limit", "page_of", "place_of", "read_place"]

MAX_ROWS = 1000
MAX_PLACE_LENGTH = 512

T = TypeVar("T")
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and where to go on; None when there are no more."""

    items: Sequence[T]
    next: str | None = None


def checked_limit(limit: int) -> int:
    """A page's size, or a refusal."""
    if not 1 <= limit <= MAX_ROWS:
        raise InvalidArgument(f"a page of {limit} rows: a page has between 1 and {MAX_ROWS}")
    return limit


def page_of(rows: Sequence[T], limit: int, place: Callable[[T], Place]) -> Page[T]:
    """A page of at most `most`, made of rows that were asked for with one more, which shows whether there are more."""
    items = rows[:limit]
    return Page(items, place_of(*place(items[-1])) if len(rows) > limit and items else None)


def place_of(*key: object) -> str:
    """The key of a row as a place."""
    return base64.urlsafe_b64encode(orjson.dumps(key, default=str)).rstrip(b"=").decode()


def read_place(place: str, *kinds: Callable[[str], Any]) -> Place:
    """The key that a place stands for, each part read by its kind; InvalidArgument when it is none of ours."""
    try:
        if len(place) > MAX_PLACE_LENGTH:
            raise ValueError
        parts = orjson.loads(base64.b64decode(place + "=" * (-len(place) % 4), altchars=b"-_", validate=True))
        return tuple(storable(kind(part)) for kind, part in zip(kinds, parts, strict=True))
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise InvalidArgument("this is no place in the list; take what the page before gave as `next`") from None


def storable(part: Any) -> Any:
    """A part of a key; ValueError when it is a text that PostgreSQL cannot hold."""
    if isinstance(part, str) and UNSTORABLE.search(part):
        raise ValueError
    return part
