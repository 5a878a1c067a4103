"""Abbreviated ids: `01a1eb17` stands for the only id with that prefix."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from duly.db.rows import Row
from duly.errors import InvalidArgument, NotFound

DIGITS = 32
MIN_DIGITS = 4
CANDIDATES_LIMIT = 11  # one more than an error lists
HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")


@dataclass(frozen=True)
class IdPrefix:
    """A prefix of an id, and the range of ids that have it; a full id is a range of one."""

    text: str
    first: UUID
    last: UUID

    @property
    def is_full_id(self) -> bool:
        """Return whether the prefix is a full id."""
        return self.first == self.last


def parse_id_prefix(text: str) -> IdPrefix:
    """Parse an id or a prefix of one; InvalidArgument when it is neither."""
    digits = text.replace("-", "")
    if not HEXADECIMAL.fullmatch(digits) or not MIN_DIGITS <= len(digits) <= DIGITS:
        raise InvalidArgument(
            f"{text[:100]!a} is not an id: use one such as 019a8b8e-5f3c-7d43-8a52-0d1f4c2b9e77, or at least its first "
            f"{MIN_DIGITS} characters"
        )
    return IdPrefix(text, UUID(digits.ljust(DIGITS, "0")), UUID(digits.ljust(DIGITS, "f")))


def resolve_single_match(prefix: IdPrefix, noun: str, rows: Sequence[Row]) -> UUID:
    """Return the id of the only row; NotFound when there is none, InvalidArgument with candidates for several.

    A row has an `id`, and a `label` that distinguishes it for a person.
    """
    if not rows:
        raise NotFound(f"there is no {noun} whose id begins with {prefix.text}")
    if len(rows) == 1:
        return rows[0]["id"]
    candidates = "".join(f"\n  {row['id']}  {row['label']}" for row in rows[: CANDIDATES_LIMIT - 1])
    more = "\n  ..." if len(rows) == CANDIDATES_LIMIT else ""
    raise InvalidArgument(f"several {noun} ids begin with {prefix.text}; use a longer prefix:{candidates}{more}")
