"""Links in messages that answer one run for one person until they expire; signed, so that they cannot be forged.

    https://example.com/c/<claims>.<signature>

The claims are readable but cannot be altered. The signing keys are stored in the database, where the worker that
creates a link and the API that opens it both read them. The newest key signs and all keys are accepted, so that keys
can be rotated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from duly.db.queries import load_queries
from duly.db.rows import Connection, execute, get_rows, get_value

SQL = load_queries(__file__, "signed_links.sql")
PURPOSE = "duly.answer"  # signatures made for other purposes are not valid here
MAX_TOKEN_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class LinkClaims:
    """What a link permits: one answer of one person to one run, until it expires."""

    uid: str
    run_id: int
    action: str
    key: str
    expires_at: int  # Unix time in seconds
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def is_expired(self, now: datetime) -> bool:
        """Return whether the link has expired."""
        return now.timestamp() >= self.expires_at


def sign_link(keys: Sequence[bytes], claims: LinkClaims) -> str:
    """Return the token of a link, signed by the newest key; the same claims always give the same token."""
    from itsdangerous import URLSafeSerializer

    fields = [claims.uid, claims.run_id, claims.action, claims.key, claims.expires_at, dict(claims.payload)]
    return str(URLSafeSerializer(list(keys), salt=PURPOSE).dumps(fields))


def verify_link(keys: Sequence[bytes], token: str) -> LinkClaims | None:
    """Return the claims of a token; None when the signature is not ours."""
    from itsdangerous import BadData, URLSafeSerializer

    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        return None
    try:
        uid, run_id, action, key, expires_at, payload = URLSafeSerializer(list(keys), salt=PURPOSE).loads(token)
    except BadData:
        return None
    return LinkClaims(uid, run_id, action, key, expires_at, payload)


async def list_link_keys(connection: Connection) -> list[bytes]:
    """Return every valid key; the last one signs."""
    return [bytes(row["secret"]) for row in await get_rows(connection, SQL.list_link_keys)]


async def add_link_key(connection: Connection) -> int:
    """Add the key that signs from now on; return its id."""
    return await get_value(connection, SQL.add_link_key)


async def delete_link_keys(connection: Connection, newest: int) -> int:
    """Delete the keys that are older than this one; return how many there were."""
    return await execute(connection, SQL.delete_link_keys, newest=newest)


async def rotate_link_keys(connection: Connection, *, at_once: bool) -> int:
    """Add a signing key; return how many older ones were deleted, which is none unless `at_once`."""
    newest = await add_link_key(connection)
    return await delete_link_keys(connection, newest) if at_once else 0
