"""Keys for PostgreSQL's advisory locks.

A lock is named by strings, numbers and dates; PostgreSQL wants 64 bits, which are taken from a SHA-256. If two names
ever collide, one transaction waits for the other, and nothing is corrupted: uniqueness is enforced by constraints,
never by these locks.
"""

import hashlib
from datetime import date, datetime

from duly.errors import InvalidArgument

NAMESPACE = "duly.advisory"  # other programs in the same database use advisory locks too


def advisory_key(*parts: str | int | date) -> int:
    """Compute the key of the lock with this name, for `pg_advisory_xact_lock(bigint)`.

    The first part names the purpose: `advisory_key("ingest.day", user_id, date)`. Types and boundaries of the parts
    count: ("a", "bc") is not ("ab", "c"), and 7 is not "7". A key never changes between releases, because old and new
    workers must exclude each other.
    """
    if not parts:
        raise InvalidArgument("advisory key: a lock needs a name")
    name = b"".join(_encode_part(part) for part in (NAMESPACE, *parts))
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)


def _encode_part(part: str | int | date) -> bytes:
    """Encode one part as type, length and text, so that different lists of parts have different encodings."""
    tag, text = _tag_and_text(part)
    return f"{tag}{len(text)}:".encode() + text


def _tag_and_text(part: str | int | date) -> tuple[str, bytes]:
    match part:
        case bool() | datetime():  # subclasses of int and date, but not meant as names
            raise InvalidArgument(f"advisory key: a part is a {type(part).__name__}; use a string, integer or date")
        case str():
            return "s", _encode_text(part)
        case int():
            return "i", b"%x" % part  # hexadecimal: Python refuses to format very long integers as decimals
        case date():
            return "d", part.isoformat().encode()


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("advisory key: a part contains a lone surrogate, which is not a character") from None
