"""Names for PostgreSQL's advisory locks.

A lock is named by words, numbers and days; PostgreSQL wants 64 bits. Different names have different keys as surely as
SHA-256 makes them; should two ever meet, one waits for the other a little, and nothing is corrupted, because uniqueness
is decided by constraints and never by these locks.
"""

import hashlib
from datetime import date, datetime

from duly.errors import InvalidArgument

__all__ = ["advisory_key"]

NAMESPACE = "duly.advisory"  # other programs in the same database take advisory locks too


def advisory_key(*parts: str | int | date) -> int:
    """The key of the lock that these parts name together, for `pg_advisory_xact_lock(bigint)`.

    The first part says which law the lock serves: `advisory_key("ingest.day", user_id, date)`. Kind and border of every
    part count: ("a", "bc") is not ("ab", "c"), and 7 is not "7". A key never changes between releases, for old and new
    workers must exclude each other.
    """
    if not parts:
        raise InvalidArgument("advisory key: a lock needs a name")
    name = b"".join(_spelled(part) for part in (NAMESPACE, *parts))
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)


def _spelled(part: str | int | date) -> bytes:
    """One part as kind, length and text, so that no two lists of parts are spelled alike."""
    kind, text = _kind_and_text(part)
    return f"{kind}{len(text)}:".encode() + text


def _kind_and_text(part: str | int | date) -> tuple[str, bytes]:
    match part:
        case bool() | datetime():  # an int and a date to Python, but nobody's name
            raise InvalidArgument(f"advisory key: {type(part).__name__} names nothing; use text, a number or a day")
        case str():
            return "s", _encoded(part)
        case int():
            return "i", b"%x" % part  # hexadecimal: Python refuses to write very long numbers as decimals
        case date():
            return "d", part.isoformat().encode()


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("advisory key: a part holds a lone surrogate, which is not a character") from None
