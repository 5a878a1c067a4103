"""Ids that people shorten: `01a1eb17` stands for the one id that begins so."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from duly.db.rows import Row
from duly.errors import InvalidArgument, NotFound

__all__ = ["CANDIDATES_LIMIT", "IdPrefix", "only_match", "read_prefix"]

DIGITS = 32
MIN_DIGITS = 4
CANDIDATES_LIMIT = 11  # one more than is shown
HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")


@dataclass(frozen=True)
class IdPrefix:
    """The beginning of an id, and the range of ids that begin so; a whole id is a range of one."""

    text: str
    first: UUID
    last: UUID

    @property
    def is_whole(self) -> bool:
        """Is it an id by itself?"""
        return self.first == self.last


def read_prefix(text: str) -> IdPrefix:
    """Read an id or its beginning; InvalidArgument when it can be neither."""
    digits = text.replace("-", "")
    if not HEXADECIMAL.fullmatch(digits) or not MIN_DIGITS <= len(digits) <= DIGITS:
        raise InvalidArgument(
            f"{text[:100]!a} is no id: give one such as 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77, or at least its first "
            f"{MIN_DIGITS} characters"
        )
    return IdPrefix(text, UUID(digits.ljust(DIGITS, "0")), UUID(digits.ljust(DIGITS, "f")))


def only_match(prefix: IdPrefix, kind: str, rows: Sequence[Row]) -> UUID:
    """The id of the only row; NotFound when there is none, InvalidArgument with the candidates when there are more.

    A row has an `id`, and a `label` by which a person tells it from the others.
    """
    if not rows:
        raise NotFound(f"there is no {kind} whose id begins with {prefix.text}")
    if len(rows) == 1:
        return rows[0]["id"]
    shown = "".join(f"\n  {row['id']}  {row['label']}" for row in rows[: CANDIDATES_LIMIT - 1])
    more = "\n  ..." if len(rows) == CANDIDATES_LIMIT else ""
    raise InvalidArgument(f"several ids of a {kind} begin with {prefix.text}; give more of one:{shown}{more}")
