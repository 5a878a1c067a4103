"""One form for one value: what is equal as JSON has the same bytes and the same digest.

The form is RFC 8785: keys in UTF-16 order, no blanks, numbers as ECMAScript writes them. So 1 and 1.0 are one number,
as are 0 and -0.0; `true` is not 1; a letter in two Unicode spellings stays two strings. A key that stood twice in the
text was dropped by the parser before we saw it.

Values from outside come through `checked_json` first. What it returns can be stored as jsonb, read back, and still
has the digest it had.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, cast, overload
from uuid import UUID

import orjson
import rfc8785

from duly.errors import InvalidArgument

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NUMBER",
    "Json",
    "bytes_of_checked",
    "canonical_bytes",
    "checked_json",
    "digest",
    "digest_hex",
    "digest_of_checked",
]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_NUMBER = 2**53 - 1  # beyond it a JSON number is no longer the integer it looks like
MAX_PLACE_LENGTH = 500
MAX_KEY_SHOWN_LENGTH = 64
ASTRAL = re.compile(rb"[\xf0-\xff]")
FRACTION = re.compile(rb"[:\[,]-?\d+[.eE]")  # or a text that looks like one
PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def canonical_bytes(value: object) -> bytes:
    """The one way to write this value down; refused where RFC 8785 knows none."""
    try:
        return rfc8785.dumps(cast("Any", value))
    except RecursionError:
        raise InvalidArgument("the value is nested too deeply to be written down") from None
    except ValueError as error:  # its own errors, and what str.encode says of a lone surrogate in a key
        raise InvalidArgument(f"the value has no canonical form: {error}") from None


def digest(value: object) -> bytes:
    """The SHA-256 of the canonical form: 32 bytes, equal exactly when the values are equal as JSON."""
    return hashlib.sha256(canonical_bytes(value)).digest()


def digest_hex(value: object) -> str:
    """The digest as people and URLs write it: 64 lower-case digits."""
    return digest(value).hex()


def bytes_of_checked(value: Json) -> bytes:
    """The canonical form of what `checked_json` returned: the same bytes, many times quicker.

    Another writer has the same form for everything but fractions, and keys beyond the first plane of Unicode, which it
    puts in another order.
    """
    written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    is_same = written[0] in b'{["' and not ASTRAL.search(written) and not FRACTION.search(written)
    return written if is_same else canonical_bytes(value)


def digest_of_checked(value: Json) -> str:
    """The same digest as `digest_hex`, of what `checked_json` returned."""
    return hashlib.sha256(bytes_of_checked(value)).hexdigest()


@overload
def checked_json(
    value: object, *, max_bytes: int = ..., max_depth: int = ..., object_only: Literal[True] = ...
) -> dict[str, Json]: ...
@overload
def checked_json(value: object, *, max_bytes: int = ..., max_depth: int = ..., object_only: bool) -> Json: ...
def checked_json(
    value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, object_only: bool = True
) -> Json:
    """Let a value in at the door, or say where in it which rule is broken.

    Returns a plain copy and leaves the original alone: tuples come back as lists, string and number subclasses as their
    plain kinds, whole floats as integers. The limit is on the bytes of the canonical form, exactly.
    """
    if object_only and not issubclass(type(value), dict):
        raise InvalidArgument(f"$: must be an object, not {type(value).__name__}")
    return _Copier(max_bytes, max_depth, bytes_left=max_bytes).copy(value)


@dataclass(slots=True)
class _Copier:
    """One walk through a value, which knows where it stands and how many bytes are left.

    Every step spends at least one byte and no step goes below the deepest level, so that a value which contains itself,
    or one small part a billion times, ends the walk early.
    """

    max_bytes: int
    max_depth: int
    bytes_left: int
    place: list[str | int] = field(default_factory=list[str | int])

    def copy(self, value: object) -> Json:
        match value:
            case str():
                return self.text(value)
            case None | bool():
                self.spend(5 if value is False else 4)
                return value
            case int():
                return self.integer(value)
            case float():
                return self.number(value)
            case list() | tuple():
                return self.elements(cast("Sequence[object]", value))
            case dict():
                return self.members(cast("Mapping[object, object]", value))
            case _:
                raise self.refusal(f"{type(value).__name__} is not a kind of JSON value; convert it first{how(value)}")

    def text(self, value: str, subject: str = "") -> str:
        """A string that PostgreSQL can store, paid for with its quotes and escapes."""
        if len(value) > self.bytes_left:  # before any work on a huge one
            self.require(len(value))
        plain = str.__str__(value)  # the characters, whatever an enum's own __str__ says
        if "\0" in plain:
            raise self.refusal(f"{subject}holds the character NUL, which PostgreSQL cannot store; remove it")
        try:
            size = len(orjson.dumps(plain))
        except orjson.JSONEncodeError:
            raise self.refusal(f"{subject}holds a lone surrogate, which is not a character; decode it again") from None
        if size > self.bytes_left:
            self.require(size)
        self.bytes_left -= size
        return plain

    def integer(self, value: int) -> int:
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise self.refusal("is a number beyond 2^53 - 1, which JSON readers round; write it as a string")
        plain = int(value)
        self.spend(len(str(plain)))
        return plain

    def number(self, value: float) -> float:
        """A float; a whole one becomes the integer that jsonb may give back for it (1000 for 1e3)."""
        if not math.isfinite(value):
            raise self.refusal("is not a finite number, and JSON has no other; leave it out or use null")
        if value.is_integer():
            return self.integer(int(value))
        plain = float(value)
        self.spend(len(rfc8785.dumps(plain)))
        return plain

    def elements(self, values: Sequence[object]) -> list[Json]:
        self.enter(2 + max(len(values) - 1, 0))
        copied: list[Json] = []
        for index, value in enumerate(values):
            self.place.append(index)
            copied.append(self.copy(value))
            self.place.pop()
        return copied

    def members(self, values: Mapping[object, object]) -> dict[str, Json]:
        self.enter(2 + max(2 * len(values) - 1, 0))
        copied: dict[str, Json] = {}
        for key, value in values.items():
            if not isinstance(key, str):
                raise self.refusal(f"has a key of kind {type(key).__name__}; keys are strings")
            self.place.append(key)
            copied[self.text(key, "its key ")] = self.text(value) if isinstance(value, str) else self.copy(value)
            self.place.pop()
        return copied

    def enter(self, punctuation: int) -> None:
        """Go into a container, if it may be this deep, and pay for its brackets, commas and colons."""
        if len(self.place) >= self.max_depth:
            raise self.refusal(f"is nested more than {self.max_depth} levels deep; flatten it")
        self.spend(punctuation)

    def spend(self, size: int) -> None:
        self.require(size)
        self.bytes_left -= size

    def require(self, size: int) -> None:
        if size > self.bytes_left:
            raise self.refusal(f"here the value passes its limit of {self.max_bytes} bytes; send less")

    def refusal(self, reason: str) -> InvalidArgument:
        return InvalidArgument(f"{_shown(self.place)}: {reason}")


def how(value: object) -> str:
    """With what a value of a well known kind becomes JSON."""
    if is_dataclass(value):
        return ", say with dataclasses.asdict()"
    if isinstance(value, Decimal | UUID):
        return ", say with str()"
    for method in ("isoformat()", "model_dump(mode='json')", "hex()"):
        if callable(getattr(value, method.partition("(")[0], None)):
            return f", say with .{method}"
    return ""


def _shown(place: Sequence[str | int]) -> str:
    """The place as `$.entries[3].title`, short and printable whatever the keys are."""
    path = "$" + "".join(map(_step, place))
    return path if len(path) <= MAX_PLACE_LENGTH else f"{path[:MAX_PLACE_LENGTH]}..."


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if PLAIN_KEY.fullmatch(part):
        return f".{part}"
    return f"[{json.dumps(part[:MAX_KEY_SHOWN_LENGTH])}]"
